//! Sign-ins of Saltern minions with pending keys. They are answered when the key is accepted or rejected.
//!
//! A waiting sign-in costs no computation, and a minion that finds no room here retries as usual. So the limits can be
//! small.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keys::{Decided, Decisions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tracing::debug;
use wire::{MinionId, Network};

use crate::Shared;

/// The largest number of waiting sign-ins.
const MOST: usize = 1024;

/// The largest number of them from one address.
const MOST_OF_ONE: usize = 256;

/// The longest time that one waits. The minion may ask again afterwards.
pub const LONGEST: Duration = Duration::from_secs(60);

/// The largest sign-in that is kept, in packed bytes; that of a minion has two or three kilobytes.
pub const LARGEST: usize = 16 << 10;

/// How often the watch checks whether any sign-in still waits.
const LOOK: Duration = Duration::from_secs(60);

/// The waiting sign-ins.
#[derive(Clone, Default)]
pub struct Awaiting(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    waiting: HashMap<u64, Waiter>,
    watched: bool,
}

struct Waiter {
    id: MinionId,
    from: Network,
    wake: Arc<Notify>,
}

/// A sign-in that waits, until this is dropped.
pub struct WaitingSignIn {
    table: Arc<Mutex<Table>>,
    number: u64,
    woken: Arc<Notify>,
}

impl WaitingSignIn {
    /// Waits until the key may have been accepted or rejected since the last call.
    pub async fn changed(&self) {
        self.woken.notified().await;
    }
}

impl Drop for WaitingSignIn {
    fn drop(&mut self) {
        lock(&self.table).waiting.remove(&self.number);
    }
}

impl Awaiting {
    /// Registers the sign-in of a minion, if there is room and the kernel reports decisions. Earlier decisions are not reported.
    pub fn register(&self, shared: &Arc<Shared>, id: &MinionId, from: Network) -> Option<WaitingSignIn> {
        let (waiting, unwatched) = self.enter(id, from)?;
        if unwatched && !self.watch(shared) {
            return None;
        }
        Some(waiting)
    }

    /// Returns how many sign-ins wait.
    pub fn count(&self) -> usize {
        lock(&self.0).waiting.len()
    }

    /// Registers a sign-in, and returns whether the caller must start a watch.
    fn enter(&self, id: &MinionId, from: Network) -> Option<(WaitingSignIn, bool)> {
        let mut table = lock(&self.0);
        let of_one = || table.waiting.values().filter(|waiter| waiter.from == from).count();
        if table.waiting.len() >= MOST || of_one() >= MOST_OF_ONE {
            return None;
        }
        let woken = Arc::new(Notify::new());
        let number = table.next;
        table.next += 1;
        table.waiting.insert(number, Waiter { id: id.clone(), from, wake: woken.clone() });
        let unwatched = !std::mem::replace(&mut table.watched, true);
        Some((WaitingSignIn { table: self.0.clone(), number, woken }, unwatched))
    }

    fn wake(&self, decided: &Decided) {
        let table = lock(&self.0);
        let woken = table.waiting.values().filter(|waiter| match decided {
            Decided::These(names) => names.contains(waiter.id.as_str()),
            Decided::Any => true,
        });
        woken.for_each(|waiter| waiter.wake.notify_one());
    }

    /// Starts a watch that runs as long as any sign-in waits. Returns false if the directories cannot be watched.
    fn watch(&self, shared: &Arc<Shared>) -> bool {
        let opened = Decisions::watch(shared.stores.keys.store()).and_then(|decisions| {
            let readable = decisions.as_fd().try_clone_to_owned().ok()?;
            Some((registered(readable)?, decisions))
        });
        let Some((readable, decisions)) = opened else {
            lock(&self.0).watched = false;
            return false;
        };
        let awaiting = self.clone();
        shared.stores.rt.spawn(async move {
            while awaiting.is_needed() {
                match tokio::time::timeout(LOOK, readable.readable()).await {
                    Ok(Ok(mut ready)) => {
                        ready.clear_ready();
                        awaiting.wake(&decisions.take());
                    }
                    Ok(Err(error)) => {
                        debug!("decisions about keys are not told any more: {error}");
                        lock(&awaiting.0).watched = false;
                        return;
                    }
                    Err(_) => {}
                }
            }
        });
        true
    }

    /// Returns whether the watch must go on. Ends it under the same lock that new sign-ins take.
    fn is_needed(&self) -> bool {
        let mut table = lock(&self.0);
        table.watched = !table.waiting.is_empty();
        table.watched
    }
}

/// Registers a file descriptor with the runtime, to wait until it is readable.
#[expect(unsafe_code, reason = "the descriptor must stay open, which the type says")]
pub fn registered(readable: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: what owns a descriptor always names the same one, and keeps it open until it is dropped with the registration.
    unsafe { AsyncFd::register_with_interest(readable, Interest::READABLE) }.ok()
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // Each change is one insert or one remove.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn id(number: usize) -> MinionId {
        MinionId::new(format!("web{number}")).unwrap()
    }

    fn from(last: u8) -> Network {
        std::net::IpAddr::from([127, 0, 0, last]).into()
    }

    #[test]
    fn who_is_decided_about_is_told_and_nobody_else() {
        let awaiting = Awaiting::default();
        let waiting_sign_ins: Vec<WaitingSignIn> =
            (0..3).map(|number| awaiting.enter(&id(number), from(1)).unwrap().0).collect();
        let woken = || -> Vec<bool> {
            waiting_sign_ins.iter().map(|waiting| waiting.changed().now_or_never().is_some()).collect()
        };
        awaiting.wake(&Decided::These(["web1".to_owned()].into()));
        assert_eq!(woken(), [false, true, false]);
        awaiting.wake(&Decided::Any);
        assert_eq!(woken(), [true, true, true], "a decision takes two steps when the key has two files in between");
        assert_eq!(awaiting.count(), 3);
    }

    #[test]
    fn places_are_few_and_are_given_back() {
        let awaiting = Awaiting::default();
        let mut waiting_sign_ins = Vec::new();
        for address in 1..=5 {
            let more = (0..=MOST_OF_ONE).map_while(|number| awaiting.enter(&id(number), from(address)));
            let before = waiting_sign_ins.len();
            waiting_sign_ins.extend(more);
            assert!(waiting_sign_ins.len() - before <= MOST_OF_ONE, "one address has its share");
        }
        assert_eq!((waiting_sign_ins.len(), awaiting.count()), (MOST, MOST));
        let watches: usize = waiting_sign_ins.iter().map(|(_, start)| usize::from(*start)).sum();
        assert_eq!(watches, 1);
        drop(waiting_sign_ins);
        assert_eq!(awaiting.count(), 0);
        assert!(!awaiting.is_needed(), "the watch ends");
    }
}
