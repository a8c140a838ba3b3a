//! How many connections there may be: some files are kept for everything else the process opens.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nix::sys::resource::{Resource, getrlimit};

/// Connections taken in by all servers of this process that are still there.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Connections that were closed at once because there were too many.
static REFUSED: AtomicU64 = AtomicU64::new(0);

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
    /// Takes a seat while there is one; otherwise says how many there are.
    pub(crate) fn take() -> Result<Self, usize> {
        let seats = getrlimit(Resource::RLIMIT_NOFILE).map_or(usize::MAX, |(soft, _)| seats(soft));
        let seat = Seat(());
        match OPEN.fetch_add(1, Ordering::Relaxed) < seats {
            true => Ok(seat),
            false => {
                REFUSED.fetch_add(1, Ordering::Relaxed);
                Err(seats)
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
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
