//! Returns that are acknowledged once another master has them on its disk (`cluster_return_copies: 2`).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use share::Key;
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

/// How long a return waits for another master. Then one copy is enough: a minion must not wait for ever.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many returns may wait. Further ones are acknowledged with one copy.
const MOST: usize = 10_000;

/// How many returns are known to be on two disks; the oldest are forgotten.
const MOST_SAFE: usize = 10_000;

/// The returns that wait for another master.
#[derive(Default)]
pub struct Copies {
    awaited: Mutex<Awaited>,
    /// How many returns were acknowledged with one copy.
    alone: AtomicU64,
    /// That this happens was logged.
    warned: AtomicBool,
}

#[derive(Default)]
struct Awaited {
    by_key: HashMap<Key, Vec<(u64, Sender<()>)>>,
    count: usize,
    last: u64,
    /// Those that another master stored lately, in the order in which it did.
    safe: HashSet<Key>,
    order: VecDeque<Key>,
}

impl Awaited {
    /// Waits for a return; `None` if there is no room.
    fn expect(&mut self, key: &Key) -> Option<(u64, Receiver<()>)> {
        if self.count >= MOST {
            return None;
        }
        let (tell, told) = oneshot::channel();
        self.last += 1;
        self.count += 1;
        self.by_key.entry(key.clone()).or_default().push((self.last, tell));
        Some((self.last, told))
    }

    /// Tells those who wait for a return that another master has it. Returns whether there were any.
    fn arrived(&mut self, key: &Key) -> bool {
        self.remember(key);
        let all = self.by_key.remove(key).unwrap_or_default();
        self.count -= all.len();
        // Who has given up has gone.
        all.into_iter().fold(false, |any, (_, tell)| tell.send(()).is_ok() || any)
    }

    fn remember(&mut self, key: &Key) {
        if !self.safe.insert(key.clone()) {
            return;
        }
        self.order.push_back(key.clone());
        if self.order.len() > MOST_SAFE
            && let Some(oldest) = self.order.pop_front()
        {
            self.safe.remove(&oldest);
        }
    }

    fn forget(&mut self, key: &Key, number: u64) {
        let Some(all) = self.by_key.get_mut(key) else { return };
        let before = all.len();
        all.retain(|(other, _)| *other != number);
        self.count -= before - all.len();
        if all.is_empty() {
            self.by_key.remove(key);
        }
    }
}

impl Copies {
    /// Waits for a return, before other masters are told of it; `None` if there is no room, so that one copy has to do, or if another
    /// master has it already. `is_news` says whether it was not stored before.
    pub fn expect(self: &Arc<Self>, key: &Key, is_news: bool) -> Option<AwaitedCopy> {
        let mut awaited = self.awaited();
        if !is_news && awaited.safe.contains(key) {
            return None;
        }
        let expected = awaited.expect(key);
        drop(awaited);
        if expected.is_none() {
            self.note_alone();
        }
        let (number, told) = expected?;
        let (copies, key, until) = (self.clone(), key.clone(), Instant::now() + PATIENCE);
        Some(AwaitedCopy { copies, key, number, told, until, is_news })
    }

    /// Takes note that another master has returns on its disk.
    pub fn arrived<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        let mut awaited = self.awaited();
        // All of them, and not only up to the first that somebody waits for.
        let any = keys.into_iter().filter(|key| awaited.arrived(key)).count() > 0;
        drop(awaited);
        if any && self.warned.swap(false, Ordering::Relaxed) {
            info!("other masters store the returns of this one again");
        }
    }

    /// Returns how many returns were acknowledged with one copy.
    pub fn alone(&self) -> u64 {
        self.alone.load(Ordering::Relaxed)
    }

    fn note_alone(&self) {
        self.alone.fetch_add(1, Ordering::Relaxed);
        if !self.warned.swap(true, Ordering::Relaxed) {
            warn!(
                "a return is acknowledged with one copy (cluster_return_copies): no other master has stored it within {} s. \
                 So are further ones until another master does",
                PATIENCE.as_secs()
            );
        }
    }

    fn awaited(&self) -> MutexGuard<'_, Awaited> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A return of which another master is to have a copy.
pub struct AwaitedCopy {
    copies: Arc<Copies>,
    key: Key,
    number: u64,
    told: Receiver<()>,
    until: Instant,
    is_news: bool,
}

impl AwaitedCopy {
    /// Waits until another master has the copy, or one is enough.
    pub async fn wait(mut self) {
        let arrived = timeout_at(self.until, &mut self.told).await.is_ok_and(|told| told.is_ok());
        // Of a return that was stored before, the copy may have arrived long ago.
        if !arrived && self.is_news {
            self.copies.note_alone();
        }
    }
}

impl Drop for AwaitedCopy {
    fn drop(&mut self) {
        self.copies.awaited().forget(&self.key, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::of_parts("20260225000000000001", &format!("web{number}")).unwrap()
    }

    #[test]
    fn whoever_waits_for_a_return_is_told_once_another_master_has_it() {
        let mut awaited = Awaited::default();
        let (_, mut first) = awaited.expect(&key(1)).unwrap();
        let (gone, _) = awaited.expect(&key(1)).unwrap();
        let (_, mut other) = awaited.expect(&key(2)).unwrap();
        awaited.forget(&key(1), gone);
        assert!(first.try_recv().is_err() && awaited.count == 2);
        assert!(awaited.arrived(&key(1)) && first.try_recv().is_ok());
        assert!(!awaited.arrived(&key(1)) && !awaited.arrived(&key(3)), "nobody waits");
        assert!(other.try_recv().is_err(), "that is another return");
        drop(other);
        assert!(!awaited.arrived(&key(2)), "it has given up");
        assert_eq!((awaited.count, awaited.by_key.len()), (0, 0));
    }

    #[test]
    fn no_more_returns_wait_than_there_is_room_for() {
        let copies = Arc::new(Copies::default());
        let mut all: Vec<_> = (0..MOST).map(|number| copies.expect(&key(number), true)).collect();
        assert!(all.iter().all(Option::is_some) && copies.expect(&key(0), true).is_none());
        assert_eq!(copies.alone(), 1, "it is acknowledged with one copy");
        all.pop();
        assert!(copies.expect(&key(0), true).is_some());
        all.clear();
        let awaited = copies.awaited();
        assert_eq!((awaited.count, awaited.by_key.len()), (0, 0));
    }

    #[test]
    fn a_return_that_comes_again_waits_for_no_copy_that_is_there() {
        let copies = Arc::new(Copies::default());
        copies.arrived([&key(1), &key(1)]);
        assert!(copies.expect(&key(1), false).is_none() && copies.alone() == 0);
        assert!(copies.expect(&key(2), false).is_some(), "no other master has it");
        assert!(copies.expect(&key(1), true).is_some(), "it was not stored here, so it may be another one");
        let all: Vec<Key> = (10..10 + MOST_SAFE).map(key).collect();
        copies.arrived(&all);
        assert!(copies.expect(&key(1), false).is_some(), "what was long ago is not known any more");
        assert!(copies.expect(&all[0], false).is_none());
        let awaited = copies.awaited();
        assert_eq!((awaited.safe.len(), awaited.order.len()), (MOST_SAFE, MOST_SAFE));
    }

    #[tokio::test(start_paused = true)]
    async fn without_another_master_one_copy_is_enough_after_a_while() {
        let copies = Arc::new(Copies::default());
        let copy = copies.expect(&key(1), true).unwrap();
        copies.arrived([&key(1)]);
        copy.wait().await;
        assert_eq!(copies.alone(), 0);
        let began = Instant::now();
        let both = [copies.expect(&key(1), true), copies.expect(&key(2), false)];
        for copy in both.into_iter().flatten() {
            copy.wait().await;
        }
        // The clock of the test stands still but for timers.
        assert_eq!((copies.alone(), began.elapsed().as_secs()), (1, PATIENCE.as_secs()));
        assert!(copies.warned.load(Ordering::Relaxed));
        let copy = copies.expect(&key(3), true).unwrap();
        copies.arrived([&key(3)]);
        copy.wait().await;
        assert_eq!((copies.alone(), copies.warned.load(Ordering::Relaxed)), (1, false), "it is said again next time");
    }
}
