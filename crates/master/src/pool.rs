//! Counts the bytes that requests occupy: each sender has a share, and all senders together have a limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::senders::Sender;

const KIB: usize = 1 << 10;

/// Counts the bytes of each sender, and of all.
pub struct Pool {
    of_one: usize,
    all: Arc<Semaphore>,
    senders: Mutex<Senders>,
}

struct Senders {
    shares: HashMap<Sender, Arc<Semaphore>>,
    /// When there are this many senders, those that hold nothing are removed.
    most: usize,
}

/// The largest number of requests of one sender that hold room or wait for it. Each of them keeps its data in memory.
const MOST_OF_ONE: usize = 64;

/// The minimum number of senders that are remembered.
const REMEMBERED: usize = 64;

/// Room for one request. Released when dropped.
#[derive(Debug)]
pub struct Room {
    of_one: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The share of the sender.
    Share,
    /// The limit of all senders together.
    All,
}

impl Pool {
    /// Creates a pool of `of_all` bytes, of which one sender may hold `of_one`.
    pub fn new(of_one: usize, of_all: usize) -> Self {
        let senders = Senders { shares: HashMap::new(), most: REMEMBERED };
        Pool { of_one, all: Arc::new(Semaphore::new(of_all / KIB)), senders: Mutex::new(senders) }
    }

    /// Creates a pool that counts requests, of which one sender may have `of_one`.
    pub fn of_requests(of_one: usize, of_all: usize) -> Self {
        Pool::new(of_one * KIB, of_all * KIB)
    }

    /// Reserves a place in a pool that counts requests.
    ///
    /// # Errors
    /// What is full.
    pub fn try_enter(&self, sender: &Sender) -> Result<Room, Full> {
        self.try_reserve(sender, KIB)
    }

    /// Reserves room if there is enough now. More than a share counts as the whole share.
    ///
    /// # Errors
    /// What is full.
    pub fn try_reserve(&self, sender: &Sender, bytes: usize) -> Result<Room, Full> {
        let (own, count) = (self.own(sender), self.permits(bytes));
        let of_one = own.try_acquire_many_owned(count).map_err(|_| Full::Share)?;
        let of_all = self.all.clone().try_acquire_many_owned(count).map_err(|_| Full::All)?;
        Ok(Room { of_one, of_all })
    }

    /// Waits for room, in the order of arrival.
    pub async fn reserve(&self, sender: &Sender, bytes: usize) -> Option<Room> {
        let (own, count) = (self.own(sender), self.permits(bytes));
        // First its own: who holds much waits for itself, and keeps nothing from others meanwhile.
        let of_one = own.acquire_many_owned(count).await.ok()?;
        let of_all = self.all.clone().acquire_many_owned(count).await.ok()?;
        Some(Room { of_one, of_all })
    }

    /// Returns whether a sender has too many requests that hold room or wait for it.
    pub fn is_crowded(&self, sender: &Sender) -> bool {
        // Every one of them holds the semaphore, and so do the map and this function.
        Arc::strong_count(&self.own(sender)) > MOST_OF_ONE + 2
    }

    fn own(&self, sender: &Sender) -> Arc<Semaphore> {
        let mut senders = self.senders();
        if let Some(own) = senders.shares.get(sender) {
            return own.clone();
        }
        if senders.shares.len() >= senders.most {
            // Whoever holds room or waits for it also holds the semaphore.
            senders.shares.retain(|_, own| Arc::strong_count(own) > 1);
            senders.most = (senders.shares.len() * 2).max(REMEMBERED);
        }
        senders.shares.entry(sender.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.of_one / KIB))).clone()
    }

    fn permits(&self, bytes: usize) -> u32 {
        permits(bytes.min(self.of_one))
    }

    fn senders(&self) -> MutexGuard<'_, Senders> {
        // Nothing in here panics between two changes that belong together.
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX)
}

impl Room {
    /// Adjusts the reservation to the bytes that are really occupied. If these are more, takes what is left, because
    /// they are already in memory.
    pub fn resize(&mut self, bytes: usize) {
        let wanted = permits(bytes) as usize;
        for permit in [&mut self.of_one, &mut self.of_all] {
            let held = permit.num_permits();
            drop(permit.split(held.saturating_sub(wanted)));
            let semaphore = permit.semaphore().clone();
            let more = wanted.saturating_sub(held).min(semaphore.available_permits());
            if let Ok(more) = semaphore.try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX)) {
                permit.merge(more);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures_util::FutureExt as _;

    use super::*;

    const MIB: usize = 1 << 20;
    const OF_ONE: usize = 16 * MIB;
    const OF_ALL: usize = 256 * MIB;

    fn pool() -> Pool {
        Pool::new(OF_ONE, OF_ALL)
    }

    fn sender(number: u8) -> Sender {
        Sender::Address(IpAddr::from([127, 0, 0, number]).into())
    }

    #[test]
    fn what_one_sender_holds_is_bounded() {
        let pool = pool();
        let mut first = pool.try_reserve(&sender(1), OF_ONE).expect("there is room");
        assert_eq!(pool.try_reserve(&sender(1), KIB).unwrap_err(), Full::Share, "it may take all of it");
        first.resize(10 * MIB);
        let second = pool.try_reserve(&sender(1), 6 * MIB);
        assert!(second.is_ok() && pool.try_reserve(&sender(1), KIB).is_err());
        assert!(pool.try_reserve(&sender(2), OF_ONE).is_ok(), "others are not concerned");
        drop(first);
        assert!(pool.try_reserve(&sender(1), 10 * MIB).is_ok());
    }

    #[test]
    fn the_requests_of_one_sender_that_wait_are_bounded() {
        let pool = pool();
        let _held = pool.try_reserve(&sender(1), OF_ONE).unwrap();
        let (one, two) = (sender(1), sender(2));
        let waiting: Vec<_> = (1..MOST_OF_ONE)
            .map(|_| {
                let mut waiting = Box::pin(pool.reserve(&one, KIB));
                assert!(waiting.as_mut().now_or_never().is_none());
                waiting
            })
            .collect();
        assert!(!pool.is_crowded(&one));
        let mut last = Box::pin(pool.reserve(&one, KIB));
        assert!(last.as_mut().now_or_never().is_none());
        assert!(pool.is_crowded(&one) && !pool.is_crowded(&two));
        drop((waiting, last));
        assert!(!pool.is_crowded(&one));
    }

    #[test]
    fn what_all_senders_hold_is_bounded() {
        let pool = pool();
        let held: Vec<_> = (0..=255).map_while(|number| pool.try_reserve(&sender(number), OF_ONE).ok()).collect();
        assert_eq!(held.len(), OF_ALL / OF_ONE);
        assert_eq!(pool.try_reserve(&sender(255), KIB).unwrap_err(), Full::All);
        drop(held);
        assert_eq!(pool.all.available_permits(), OF_ALL / KIB);
    }

    #[test]
    fn who_waits_gets_room_in_turn_and_what_grew_counts_in_full() {
        let pool = pool();
        let mut first = pool.try_reserve(&sender(1), 4 * MIB).unwrap();
        first.resize(100 * MIB);
        assert!(pool.try_reserve(&sender(1), KIB).is_err());
        let (one, two) = (sender(1), sender(2));
        let (mut waiting, mut next) = (Box::pin(pool.reserve(&one, OF_ONE)), Box::pin(pool.reserve(&one, KIB)));
        assert!((&mut waiting).now_or_never().is_none() && (&mut next).now_or_never().is_none());
        assert!(pool.reserve(&two, OF_ONE).now_or_never().flatten().is_some());
        drop(first);
        assert!((&mut next).now_or_never().is_none(), "another was first");
        let mut got = waiting.now_or_never().flatten().expect("it is its turn");
        got.resize(0);
        assert!(next.now_or_never().flatten().is_some());
    }

    #[test]
    fn senders_that_hold_nothing_are_forgotten() {
        let pool = pool();
        let kept = pool.try_reserve(&sender(0), KIB);
        for number in 0..=255 {
            assert!(pool.try_reserve(&sender(number), KIB).is_ok());
        }
        assert!(pool.senders().shares.len() <= REMEMBERED + 1);
        drop(kept);
    }
}
