//! Limits the number of connections, because some file descriptors are reserved for everything else that the process
//! opens.
//!
//! When all seats are taken, another connection is closed for a new one: one of the address with the most silent
//! connections if there are many, otherwise one that is idle and whose peer can reconnect.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use wire::Network;

/// The open connections of all servers of this process.
static RECORDS: Mutex<ConnectionRecords> =
    Mutex::new(ConnectionRecords { next: 0, by_number: BTreeMap::new(), known: None });

/// The number of connections that were closed at once because there were too many.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Idle connections wait here to be closed if their seat is needed. The one that has waited longest is closed first.
static IDLE: Notify = Notify::const_new();

/// Notified when a connection has ended.
static LEFT: Notify = Notify::const_new();

/// How long a connection must be idle before it may be closed for another one.
const REST: Duration = Duration::from_millis(300);

/// How long a silent connection may stay when there is no room for new ones.
const GRACE: Duration = Duration::from_millis(500);

/// How long a new connection waits until another one has ended.
const MOMENT: Duration = Duration::from_millis(50);

/// Returns the number of open connections of this process.
pub fn connections() -> usize {
    lock().by_number.len()
}

/// Returns how many connections were closed at once because there were too many.
pub fn refused_connections() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// An accepted connection, and what is known about its peer so far.
#[derive(Debug)]
pub(crate) struct ConnectionRecord {
    pub(crate) network: Network,
    since: Instant,
    /// It has sent a request.
    has_asked: AtomicBool,
    /// The peer is authenticated.
    is_proven: AtomicBool,
    /// Notified when another connection needs its seat.
    must_leave: Notify,
    /// Notified when others need the memory of its unfinished message.
    pub(crate) is_over_budget: Notify,
}

impl ConnectionRecord {
    pub(crate) fn new(address: IpAddr) -> Arc<Self> {
        Arc::new(ConnectionRecord {
            network: address.into(),
            since: Instant::now(),
            has_asked: AtomicBool::new(false),
            is_proven: AtomicBool::new(false),
            must_leave: Notify::new(),
            is_over_budget: Notify::new(),
        })
    }

    /// Notes that the peer has sent a request.
    pub(crate) fn asks(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
    }

    /// Notes that the peer is authenticated.
    pub(crate) fn prove(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Waits until another connection needs its seat.
    pub(crate) async fn must_leave(&self) {
        self.must_leave.notified().await;
    }

    fn is_silent(&self) -> bool {
        !self.is_proven() && !self.has_asked.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct ConnectionRecords {
    next: u64,
    by_number: BTreeMap<u64, Arc<ConnectionRecord>>,
    /// The last result of [`ConnectionRecords::busiest`], and until when it is valid. It is cached because it takes a look at all
    /// connections.
    known: Option<(Instant, Option<(Network, usize)>)>,
}

/// How long the result of [`ConnectionRecords::busiest`] is valid.
const KNOWN: Duration = Duration::from_millis(100);

impl ConnectionRecords {
    /// Returns the address with the most silent connections, and how many it has. For each authenticated minion of the
    /// address one of them is not counted: a whole site may share an address, and subscribers send nothing.
    fn busiest(&mut self, now: Instant) -> Option<(Network, usize)> {
        match self.known {
            Some((until, busiest)) if now < until => busiest,
            _ => {
                let busiest = self.find_busiest();
                self.known = Some((now + KNOWN, busiest));
                busiest
            }
        }
    }

    fn find_busiest(&self) -> Option<(Network, usize)> {
        let mut silent = HashMap::<Network, (usize, usize)>::new();
        for record in self.by_number.values() {
            let (silent, proven) = silent.entry(record.network).or_default();
            *silent += usize::from(record.is_silent());
            *proven += usize::from(record.is_proven());
        }
        let excess = silent.into_iter().map(|(network, (silent, proven))| (network, silent.saturating_sub(proven)));
        excess.filter(|(_, excess)| *excess > 0).max_by_key(|(_, excess)| *excess)
    }

    /// Closes the oldest silent connection of an address, if its grace period has ended.
    fn send_away(&self, network: Network, now: Instant) -> bool {
        let mut records = self.by_number.values();
        let oldest = records.find(|record| record.network == network && record.is_silent());
        let Some(oldest) = oldest.filter(|record| now.duration_since(record.since) >= GRACE) else { return false };
        // It is not silent any longer for who looks next.
        oldest.asks();
        oldest.must_leave.notify_one();
        true
    }
}

fn lock() -> MutexGuard<'static, ConnectionRecords> {
    // Nothing in here panics between two changes that belong together.
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The seat of one connection among those that are counted.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    record: Arc<ConnectionRecord>,
}

impl Seat {
    /// Takes a seat for a connection from this address. If none is free, closes another connection. If that is not
    /// possible, returns the number of seats.
    pub(crate) async fn find(address: IpAddr) -> Result<Self, usize> {
        let deadline = Instant::now() + MOMENT;
        loop {
            let left = LEFT.notified();
            let seats = match Seat::take(address) {
                Ok(seat) => return Ok(seat),
                Err(seats) => seats,
            };
            let silent = {
                let (mut records, now) = (lock(), Instant::now());
                let busiest = records.busiest(now);
                // An address that holds much of the room is not waited for; a few silent ones may stay while others are idle.
                busiest.is_some_and(|(network, excess)| excess > seats / 4 && records.send_away(network, now))
            };
            if !silent {
                IDLE.notify_one();
            }
            if timeout_at(deadline, left).await.is_err() {
                return Seat::take(address).inspect_err(|_| _ = REFUSED.fetch_add(1, Ordering::Relaxed));
            }
        }
    }

    fn take(address: IpAddr) -> Result<Self, usize> {
        let seats = getrlimit(Resource::RLIMIT_NOFILE).map_or(usize::MAX, |(soft, _)| seats(soft));
        let mut records = lock();
        if records.by_number.len() >= seats {
            return Err(seats);
        }
        records.next += 1;
        let (number, record) = (records.next, ConnectionRecord::new(address));
        records.by_number.insert(number, record.clone());
        Ok(Seat { number, record })
    }

    /// Returns the connection that has this seat.
    pub(crate) fn record(&self) -> &Arc<ConnectionRecord> {
        &self.record
    }
}

/// Waits until the seat of an idle connection, whose peer can reconnect, is needed. May be dropped and called again.
pub(crate) async fn seat_is_needed() {
    sleep(REST).await;
    IDLE.notified().await;
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock().by_number.remove(&self.number);
        LEFT.notify_one();
    }
}

/// Returns how many of `files` descriptors connections may use. A tenth stays free (at least 32, at most 512) for keys,
/// job cache, log and programs on this host.
fn seats(files: u64) -> usize {
    usize::try_from(files.saturating_sub((files / 10).clamp(32, 512))).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    #[test]
    fn some_files_stay_free() {
        assert_eq!([16, 256, 1024, 100_000].map(seats), [0, 224, 922, 99_488]);
        assert!(seats(u64::MAX) > 1 << 40);
    }

    #[tokio::test]
    async fn seats_are_given_back() {
        // Other tests of this process take in connections meanwhile, but far fewer.
        let taken: Vec<_> = (0..100).map(|_| Seat::take(address(1)).unwrap()).collect();
        assert!(connections() >= 100);
        drop(taken);
        assert!(connections() < 100);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_connection_of_the_busiest_address_goes_first() {
        let mut records = ConnectionRecords { next: 0, by_number: BTreeMap::new(), known: None };
        let mut come = |count: u16, of: fn(u16) -> IpAddr| {
            let come: Vec<_> = (0..count).map(|number| ConnectionRecord::new(of(number))).collect();
            for record in &come {
                records.next += 1;
                records.by_number.insert(records.next, record.clone());
            }
            come
        };
        // A site of twenty minions, each with a subscriber and a connection that has proved something, and a crowd.
        let (_site, minions) = (come(20, |_| address(1)), come(20, |_| address(1)));
        minions.iter().for_each(|minion| minion.prove());
        // One host has all addresses of its network.
        let of_crowd = |number| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number]);
        let (crowd, honest) = (come(12, of_crowd), come(1, |_| address(3)));
        let network = Network::from(of_crowd(0));
        assert_eq!(records.find_busiest(), Some((network, 12)));
        assert!(!records.send_away(network, Instant::now()), "it has only just come");
        tokio::time::advance(GRACE).await;
        assert!(records.send_away(network, Instant::now()) && records.send_away(network, Instant::now()));
        let now = |record: &ConnectionRecord| futures_util::FutureExt::now_or_never(record.must_leave()).is_some();
        assert_eq!(crowd.iter().map(|record| now(record)).collect::<Vec<_>>()[..3], [true, true, false]);
        assert!(!now(&honest[0]));
        assert_eq!(records.find_busiest(), Some((network, 10)));
    }
}
