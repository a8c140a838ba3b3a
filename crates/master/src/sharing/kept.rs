//! The last copy of what was decided about members and minion keys, in JetStream: a master that meets nobody reads it at its start.
//!
//! Each value has a code made with what proves that a master belongs to the set, so that the servers cannot make one up, and the
//! signature of the member that had it kept: each decision in it is checked like one that this member brings. It is never the only copy.
//! Whoever writes a value names the one that it replaces, so that none arrives late and replaces a newer one; he takes that one first, so
//! that what takes its place says all that it said (`kept::decide`). Deletions go when members forget them.
//! What could not be written is written later: after each failure everything is compared again. So it is when this member takes rights
//! from another one, because what that one had kept is to have the signature of a member that still has them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use crypto::MemberKey;
use futures_util::future::try_join_all;
use leases::{Keep, KeepError, OpenError, Stored};
use rt::Rt;
use share::{Class, Digest, ItemHash, KeptRecord, Key, Node};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::worker::Work;

mod decide;
mod seal;

pub use seal::KeepProof;
use seal::Seal;

/// The classes that are kept. Whoever reads keys must know the members that decided about them.
const KEPT: [Class; 2] = [Class::Members, Class::Keys];

/// How many records the worker takes at once.
const BATCH: usize = 256;

/// How many bytes of records the worker takes at once, but for one record.
const BATCH_BYTES: usize = 1 << 20;

/// How many values that were read wait for the worker.
const READ_AHEAD: usize = 8;

/// How many keys are looked at at once: the longest of their values take 16 MiB.
const UNDER_WAY: usize = 32;

/// How often a key is looked at again because another value has come first.
const MOST_TRIES: usize = 16;

/// Why the worker does not answer.
const FAILS: &str = "the master fails";

/// How long to wait after a failure: twice as long after each in a row.
const AGAIN: Duration = Duration::from_secs(5);

/// The longest wait after failures. Each time everything is read again.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// What was decided and is not kept yet. The model has a bound for what it holds, and so has this.
#[derive(Default)]
pub struct Unkept {
    keys: Mutex<BTreeMap<(u8, Key), Option<Digest>>>,
    /// All is to be compared again.
    again: AtomicBool,
    changed: Notify,
}

impl Unkept {
    /// Has everything compared again.
    pub(super) fn compare_again(&self) {
        self.again.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn is_to_compare(&self) -> bool {
        self.again.load(Ordering::Relaxed)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(u8, Key), Option<Digest>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a decision that is to be kept, or that is not to be kept any more.
    pub fn note(&self, class: Class, key: &Key) {
        self.all().entry((class.number(), key.clone())).or_default();
        self.changed.notify_one();
    }

    /// Takes note of a deletion with this digest, which this member has just forgotten.
    pub fn note_forgotten(&self, class: Class, key: &Key, digest: Digest) {
        self.all().insert((class.number(), key.clone()), Some(digest));
        self.changed.notify_one();
    }

    /// Takes up to `most` of what was noted.
    fn take(&self, most: usize) -> Vec<Noted> {
        let mut all = self.all();
        let first = std::iter::from_fn(|| all.pop_first()).take(most);
        // Nothing else is noted.
        let class = |number| KEPT.into_iter().find(|class| class.number() == number);
        first.filter_map(|((number, key), forgotten)| Some(Noted { class: class(number)?, key, forgotten })).collect()
    }
}

/// A key of which something else may have to be kept than what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    class: Class,
    key: Key,
    /// What the deletion said that this member has forgotten.
    forgotten: Option<Digest>,
}

/// What is there under a noted key.
pub struct Found {
    noted: Noted,
    /// The sequence of the value; 0 if there is none.
    sequence: u64,
    /// What the value says, if it was made by a master of this set.
    kept: Option<KeptRecord>,
    /// What it says, if it was not, as far as this master can tell: it may be of a member with another secret.
    unchecked: Option<KeptRecord>,
}

impl Found {
    /// Returns whether a value is there that is damaged or was not made by a master of this set.
    fn is_unreadable(&self) -> bool {
        self.sequence > 0 && self.kept.is_none()
    }
}

/// What takes the place of a value.
pub enum Replacement {
    /// Another one, packed.
    Value(Bytes),
    /// It is removed.
    Nothing,
}

/// What the task of [`Keeping`] asks the worker.
pub enum KeptWork {
    /// These records are kept. It answers when it has taken them.
    Take(Class, Vec<KeptRecord>, oneshot::Sender<()>),
    /// All that is kept counts as these hashes, and who had it kept. The rest is still to be kept, and noted before it answers.
    Compare(HashMap<u128, Node>, oneshot::Sender<()>),
    /// The number of values of a class that are damaged, or that no master of this set wrote.
    Skipped(Class, usize),
    /// What takes the place of what is there? It answers with what does not stay as it is.
    Settle(Vec<Found>, oneshot::Sender<Vec<(Found, Replacement)>>),
}

/// What the task needs that keeps decisions.
pub struct Keeping {
    pub keep: Keep,
    pub proof: KeepProof,
    /// The name of the set, as in subjects.
    pub set: String,
    pub key: MemberKey,
    pub unkept: Arc<Unkept>,
    pub worker: Sender<Work>,
}

/// What reads and keeps values.
struct Keeper {
    keep: Keep,
    seal: Seal,
    unkept: Arc<Unkept>,
    worker: Sender<Work>,
}

impl Keeping {
    /// Reads what is kept, and keeps what changes, until the master stops.
    pub async fn run(self, rt: Rt, stop: CancellationToken) {
        let Keeping { keep, proof, set, key, unkept, worker } = self;
        let made = rt.blocking(move || Seal::new(&proof, &set, key)).await;
        let seal = match made.map_err(|failure| failure.to_string()).flatten() {
            Ok(seal) => seal,
            Err(reason) => return error!("nothing is kept in JetStream: {reason}"),
        };
        let keeper = Keeper { keep, seal, unkept, worker };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = keeper.go_on() => {}
        }
    }
}

impl Keeper {
    async fn go_on(&self) {
        let (mut last, mut wait) = (String::new(), AGAIN);
        loop {
            match self.keep.open().await {
                Ok(()) => match self.once(&mut wait).await {
                    Ok(()) => continue,
                    Err(reason) => {
                        report(&mut last, reason);
                        sleep(wait).await;
                        wait = longer(wait);
                        continue;
                    }
                },
                // It is used only where it is.
                Err(OpenError::Absent(reason)) => debug!("nothing is kept in JetStream: {reason}"),
                Err(error) => report(&mut last, error.to_string()),
            }
            sleep(AGAIN).await;
        }
    }

    /// Reads all that is kept and then keeps what changes, until something fails or all is to be compared again. Sets `wait` to its
    /// shortest once all is kept.
    async fn once(&self, wait: &mut Duration) -> Result<(), String> {
        self.unkept.again.store(false, Ordering::Relaxed);
        let mut kept = HashMap::new();
        for class in KEPT {
            self.read(class, &mut kept).await?;
        }
        let (done, noted) = oneshot::channel();
        self.ask(KeptWork::Compare(kept, done)).await?;
        noted.await.map_err(|_| FAILS.to_owned())?;
        while !self.unkept.is_to_compare() {
            let next = self.unkept.take(UNDER_WAY);
            if !next.is_empty() {
                self.settle(next).await?;
                continue;
            }
            *wait = AGAIN;
            self.unkept.changed.notified().await;
        }
        Ok(())
    }

    async fn ask(&self, work: KeptWork) -> Result<(), String> {
        self.worker.send(Work::Kept(work)).await.map_err(|_| "the master stops".to_owned())
    }

    async fn read(&self, class: Class, kept: &mut HashMap<u128, Node>) -> Result<(), String> {
        let (to, values) = mpsc::channel(READ_AHEAD);
        let (read, given) = tokio::join!(self.keep.read(class.name(), to), self.hand_on(class, values, kept));
        read.map_err(|error| error.to_string())?;
        given
    }

    /// Hands what is read to the worker.
    async fn hand_on(
        &self,
        class: Class,
        mut values: mpsc::Receiver<Bytes>,
        kept: &mut HashMap<u128, Node>,
    ) -> Result<(), String> {
        let (mut batch, mut bytes, mut skipped) = (Vec::new(), 0, 0_usize);
        while let Some(value) = values.recv().await {
            let Some(one) = self.seal.open(class, &value) else {
                skipped += 1;
                continue;
            };
            kept.insert(ItemHash::of(class, &one.record.key, one.record.digest).0, one.writer);
            batch.push(one);
            bytes += value.len();
            if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                self.give(class, std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
        }
        if skipped > 0 {
            self.ask(KeptWork::Skipped(class, skipped)).await?;
        }
        self.give(class, batch).await
    }

    async fn give(&self, class: Class, records: Vec<KeptRecord>) -> Result<(), String> {
        let (done, waits) = oneshot::channel();
        self.ask(KeptWork::Take(class, records, done)).await?;
        waits.await.map_err(|_| FAILS.to_owned())
    }

    /// Has kept what is to be kept of these keys. What could not be is found when all is compared again.
    async fn settle(&self, mut noted: Vec<Noted>) -> Result<(), String> {
        for _ in 0..MOST_TRIES {
            let found = try_join_all(noted.into_iter().map(|noted| self.find(noted))).await?;
            let (answer, replaced) = oneshot::channel();
            self.ask(KeptWork::Settle(found, answer)).await?;
            let replaced = replaced.await.map_err(|_| FAILS.to_owned())?;
            let overtaken = try_join_all(replaced.into_iter().map(|(found, with)| self.replace(found, with))).await?;
            noted = overtaken.into_iter().flatten().collect();
            if noted.is_empty() {
                return Ok(());
            }
        }
        Err("other values always come first".to_owned())
    }

    async fn find(&self, noted: Noted) -> Result<Found, String> {
        let last = self.keep.last(noted.class.name(), noted.key.as_str()).await.map_err(|error| error.to_string())?;
        let Some(Stored { sequence, value }) = last else {
            return Ok(Found { noted, sequence: 0, kept: None, unchecked: None });
        };
        // Servers may answer with the value of another key.
        let is_its = |kept: &KeptRecord| kept.record.key == noted.key;
        let kept = self.seal.open(noted.class, &value).filter(is_its);
        let unchecked = if kept.is_none() { self.seal.unchecked(noted.class, &value).filter(is_its) } else { None };
        Ok(Found { noted, sequence, kept, unchecked })
    }

    /// Puts something in the place of the value that was found. Returns what is to be looked at again, if another value was there by
    /// then: that of another master, or one that this master sent before and that has arrived late.
    async fn replace(&self, found: Found, with: Replacement) -> Result<Option<Noted>, String> {
        let Found { noted, sequence, .. } = found;
        let (class, key) = (noted.class, noted.key.as_str());
        let done = match with {
            Replacement::Value(message) => {
                let value = self.seal.close(&message)?;
                self.keep.put(class.name(), key, sequence, value).await
            }
            Replacement::Nothing => self.keep.remove(class.name(), key, sequence).await,
        };
        match done {
            Ok(()) => {
                debug!("JetStream keeps what was decided about {class} {key}");
                Ok(None)
            }
            Err(KeepError::OtherValue) => Ok(Some(noted)),
            Err(KeepError::TooLong) => {
                debug!("what was decided about {class} {key} is too long to be kept in JetStream");
                Ok(None)
            }
            Err(KeepError::NoAnswer(reason)) => Err(reason),
        }
    }
}

/// Returns how long to wait after one more failure.
fn longer(wait: Duration) -> Duration {
    (wait * 2).min(LONGEST_WAIT)
}

/// Says once what is wrong.
fn report(last: &mut String, reason: String) {
    if reason != *last {
        warn!("the last copy of what the set has decided is not kept in JetStream, which is tried again: {reason}");
        *last = reason;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_twice_is_kept_once() {
        let unkept = Unkept::default();
        let key = |id| Key::new(id).unwrap();
        for id in ["a", "b", "a"] {
            unkept.note(Class::Keys, &key(id));
        }
        unkept.note(Class::Members, &key("a"));
        unkept.note_forgotten(Class::Keys, &key("b"), Digest([7; 16]));
        unkept.note(Class::Keys, &key("b"));
        let noted = |class, id, forgotten| Noted { class, key: key(id), forgotten };
        let first = [noted(Class::Members, "a", None), noted(Class::Keys, "a", None)];
        assert_eq!(unkept.take(2), first);
        assert_eq!(unkept.take(2), [noted(Class::Keys, "b", Some(Digest([7; 16])))]);
        assert_eq!(unkept.take(2), []);
    }

    #[test]
    fn failures_in_a_row_wait_longer_each_time_up_to_a_bound() {
        let waits: Vec<u64> =
            std::iter::successors(Some(AGAIN), |wait| Some(longer(*wait))).take(9).map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
    }
}
