//! How many connections there may be: some files are kept for everything else the process opens.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

/// Connections taken in by all servers of this process that are still there.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Connections that were closed at once because there were too many.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Connections that can be done without for now wait here; who has waited the longest goes first.
static IDLE: Notify = Notify::const_new();

/// Somebody has left.
static LEFT: Notify = Notify::const_new();

/// How long a connection has to be idle before it can be asked to leave: its peer may come back at once.
const REST: Duration = Duration::from_millis(300);

/// How long a new connection waits for somebody to leave.
const MOMENT: Duration = Duration::from_millis(50);

/// Returns how many connections this process has taken in and still has.
pub fn connections() -> usize {
    OPEN.load(Ordering::Relaxed)
}

/// Returns how many connections were closed at once because there were too many.
pub fn refused_connections() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// One connection among those that are counted.
#[derive(Debug)]
pub(crate) struct Seat(());

impl Seat {
    /// Takes a seat; when there is none, that of a connection that is idle. Otherwise says how many there are.
    pub(crate) async fn find() -> Result<Self, usize> {
        let deadline = Instant::now() + MOMENT;
        loop {
            let left = LEFT.notified();
            let seats = match Seat::take() {
                Ok(seat) => return Ok(seat),
                Err(seats) => seats,
            };
            IDLE.notify_one();
            if timeout_at(deadline, left).await.is_err() {
                REFUSED.fetch_add(1, Ordering::Relaxed);
                return Err(seats);
            }
        }
    }

    fn take() -> Result<Self, usize> {
        let seats = getrlimit(Resource::RLIMIT_NOFILE).map_or(usize::MAX, |(soft, _)| seats(soft));
        let is_free = |open| (open < seats).then(|| open + 1);
        OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free).map(|_| Seat(())).map_err(|_| seats)
    }
}

/// For a connection that is idle and whose peer can make another one: waits until its seat is needed. May be dropped and
/// called again.
pub(crate) async fn seat_is_needed() {
    sleep(REST).await;
    IDLE.notified().await;
}

impl Drop for Seat {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
        LEFT.notify_one();
    }
}

/// Of so many files a tenth stays free, for keys, job cache, log and programs on this host: at least 32, at most 512.
fn seats(files: u64) -> usize {
    usize::try_from(files.saturating_sub((files / 10).clamp(32, 512))).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_stay_free() {
        assert_eq!([16, 256, 1024, 100_000].map(seats), [0, 224, 922, 99_488]);
        assert!(seats(u64::MAX) > 1 << 40);
    }

    #[test]
    fn seats_are_given_back() {
        // Other tests of this process take in connections meanwhile, but far fewer.
        let taken: Vec<_> = (0..100).map(|_| Seat::take().unwrap()).collect();
        assert!(connections() >= 100);
        drop(taken);
        assert!(connections() < 100);
    }
}
