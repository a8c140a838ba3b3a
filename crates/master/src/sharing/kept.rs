//! The last copy of what was decided about members and minion keys, in JetStream: a master that meets nobody reads it at its start.
//!
//! Each value has a code made with what proves that a master belongs to the set, so that the servers cannot make one up, and
//! each decision in it is checked by its signature like one that a member brings. It is never the only copy. What could not be
//! written is written later: after each failure everything is compared again.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use crypto::{Signature, hmac_sha256, sha256};
use leases::{Keep, KeepError, LONGEST, OpenError};
use links::Credentials;
use share::member::{Member, Right};
use share::message::Put;
use share::{Change, Class, Content, Index as _, ItemHash, Key, Message, Node, Record, Records as _, State};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::worker::{Work, Worker};

/// The classes that are kept. Whoever reads keys must know the members that decided about them.
const KEPT: [Class; 2] = [Class::Members, Class::Keys];

/// How many records the worker takes or gives at once.
const BATCH: usize = 256;

/// How many values are under way to the servers at once.
const UNDER_WAY: usize = 64;

/// How long to wait after a failure.
const AGAIN: Duration = Duration::from_secs(5);

/// What the codes are made for, so that they count for nothing else.
const CONTEXT: &[u8] = b"saltern keep 1\0";

/// The length of a code in bytes.
const CODE: usize = 32;

/// What was decided and is not kept yet. The model has a bound for what it holds, and so has this.
#[derive(Default)]
pub struct Unkept {
    keys: Mutex<BTreeSet<(u8, Key)>>,
    changed: Notify,
}

impl Unkept {
    fn all(&self) -> MutexGuard<'_, BTreeSet<(u8, Key)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a decision that is to be kept.
    pub fn note(&self, class: Class, key: &Key) {
        self.all().insert((class.number(), key.clone()));
        self.changed.notify_one();
    }

    fn take(&self, count: usize) -> Vec<(Class, Key)> {
        let mut all = self.all();
        let taken = std::iter::from_fn(|| all.pop_first()).take(count);
        taken
            .filter_map(|(number, key)| Some((KEPT.into_iter().find(|class| class.number() == number)?, key)))
            .collect()
    }
}

/// A value to keep, packed.
pub type Value = (Class, Key, Bytes);

/// What the task of [`Keeping`] asks the worker.
pub enum KeptWork {
    /// These records are kept. It answers when it has taken them.
    Take(Class, Vec<Record>, oneshot::Sender<()>),
    /// All that is kept counts as these hashes, and the rest is still to be kept.
    Compare(HashSet<u128>),
    /// What is next to be kept? Nothing means that all is kept.
    Next(oneshot::Sender<Vec<Value>>),
}

/// Makes the codes of values.
#[derive(Clone)]
pub struct KeepCode([u8; 32]);

impl KeepCode {
    /// Returns what makes the codes of a set; `None` if nothing proves that a master belongs to it.
    pub fn new(credentials: &Credentials, set: &str) -> Option<KeepCode> {
        let proof = match (&credentials.secret, &credentials.master_key, &credentials.sign_key) {
            (Some(secret), _, _) => sha256(&[secret.expose()]).to_vec(),
            // Nobody else can make this signature, and it is never shown.
            (None, Some(key), _) | (None, None, Some(key)) => {
                let signed = key.sign(Signature::Pkcs1v15Sha224, CONTEXT);
                signed.inspect_err(|error| error!("nothing is kept in JetStream: {error}")).ok()?
            }
            (None, None, None) => return None,
        };
        Some(KeepCode(hmac_sha256(&proof, &[CONTEXT, set.as_bytes()].concat())))
    }

    fn seal(&self, message: &[u8]) -> Bytes {
        let mut value = hmac_sha256(&self.0, message).to_vec();
        value.extend_from_slice(message);
        value.into()
    }

    /// Returns the record in a value; `None` if it is damaged, or was not made by a member of the set.
    fn open(&self, class: Class, value: &Bytes) -> Option<Record> {
        let (code, message) = (value.get(..CODE)?, value.get(CODE..)?);
        // Compared as hashes, so that the time that it takes says nothing of the code.
        if sha256(&[code]) != sha256(&[&hmac_sha256(&self.0, message)]) {
            return None;
        }
        let Ok(Some(Message::Put(mut put))) = Message::decode(&value.slice(CODE..)) else { return None };
        let (record, _) = put.records.pop().filter(|_| put.records.is_empty())?;
        (record.class() == class).then_some(record)
    }
}

/// What the task needs that keeps decisions.
pub struct Keeping {
    pub keep: Keep,
    pub code: KeepCode,
    pub unkept: Arc<Unkept>,
    pub worker: Sender<Work>,
}

impl Keeping {
    /// Reads what is kept, and keeps what changes, until the master stops.
    pub async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.go_on() => {}
        }
    }

    async fn go_on(&self) {
        let mut last = String::new();
        loop {
            match self.keep.open().await {
                Ok(()) => {
                    if let Err(reason) = self.once().await {
                        report(&mut last, reason);
                    }
                }
                // It is used only where it is.
                Err(OpenError::Absent(reason)) => debug!("nothing is kept in JetStream: {reason}"),
                Err(error) => report(&mut last, error.to_string()),
            }
            sleep(AGAIN).await;
        }
    }

    /// Reads all that is kept and then keeps what changes, until something fails.
    async fn once(&self) -> Result<(), String> {
        let mut kept = HashSet::new();
        for class in KEPT {
            self.read(class, &mut kept).await?;
        }
        self.ask(KeptWork::Compare(kept)).await?;
        loop {
            let (answer, next) = oneshot::channel();
            self.ask(KeptWork::Next(answer)).await?;
            let values = next.await.map_err(|_| "the master fails".to_owned())?;
            match values.is_empty() {
                true => self.unkept.changed.notified().await,
                false => self.write(values).await?,
            }
        }
    }

    async fn ask(&self, work: KeptWork) -> Result<(), String> {
        self.worker.send(Work::Kept(work)).await.map_err(|_| "the master stops".to_owned())
    }

    async fn read(&self, class: Class, kept: &mut HashSet<u128>) -> Result<(), String> {
        let (to, values) = mpsc::channel(BATCH);
        let (read, given) = tokio::join!(self.keep.read(class.name(), to), self.hand_on(class, values, kept));
        read.map_err(|error| error.to_string())?;
        given
    }

    /// Hands what is read to the worker.
    async fn hand_on(
        &self,
        class: Class,
        mut values: mpsc::Receiver<Bytes>,
        kept: &mut HashSet<u128>,
    ) -> Result<(), String> {
        let (mut batch, mut skipped) = (Vec::new(), 0_usize);
        while let Some(value) = values.recv().await {
            let Some(record) = self.code.open(class, &value) else {
                skipped += 1;
                continue;
            };
            kept.insert(ItemHash::of(class, &record.key, record.digest).0);
            batch.push(record);
            if batch.len() >= BATCH {
                self.give(class, std::mem::take(&mut batch)).await?;
            }
        }
        if skipped > 0 {
            warn!(
                "{skipped} values about {class} that JetStream keeps are damaged or were not made by a master of this set"
            );
        }
        self.give(class, batch).await
    }

    async fn give(&self, class: Class, records: Vec<Record>) -> Result<(), String> {
        let (done, waits) = oneshot::channel();
        self.ask(KeptWork::Take(class, records, done)).await?;
        waits.await.map_err(|_| "the master fails".to_owned())
    }

    async fn put(&self, (class, key, message): &Value) -> Result<(), String> {
        match self.keep.put(class.name(), key.as_str(), self.code.seal(message)).await {
            Err(KeepError::TooLong) => {
                debug!("what was decided about {class} {key} is too long to be kept in JetStream");
                Ok(())
            }
            other => other.map_err(|error| error.to_string()),
        }
    }

    /// Keeps values. What could not be kept is found when all is compared again.
    async fn write(&self, values: Vec<Value>) -> Result<(), String> {
        for values in values.chunks(UNDER_WAY) {
            let puts = values.iter().map(|value| self.put(value));
            futures_util::future::try_join_all(puts).await?;
            let names: Vec<String> = values.iter().map(|(class, key, _)| format!("{class} {key}")).collect();
            debug!("JetStream keeps what was decided about {}", names.join(", "));
        }
        Ok(())
    }
}

/// Says once what is wrong.
fn report(last: &mut String, reason: String) {
    if reason != *last {
        warn!("the last copy of what the set has decided is not kept in JetStream, which is tried again: {reason}");
        *last = reason;
    }
}

impl Worker {
    /// Takes note of a decision that this member may have made.
    pub(super) fn note_unkept(&self, record: &Record) {
        let Some(unkept) = &self.unkept else { return };
        let (own, class) = (self.model.node(), record.class());
        // Who decided keeps it. What the others miss by that they find when they start.
        if let Content::Decided(_, entry) = &record.content
            && KEPT.contains(&class)
            && entry.decisions().iter().any(|decision| decision.stamp.node == own)
        {
            unkept.note(class, &record.key);
        }
    }

    /// Takes note of what may have been decided here about the key of a minion.
    pub(super) fn note_unkept_key(&self, key: &Key) {
        if self.unkept.is_some()
            && let Some(record) = self.model.records().get(Class::Keys, key)
        {
            self.note_unkept(&record);
        }
    }

    /// Does what the task asks that keeps decisions.
    pub(super) fn work_kept(&mut self, work: KeptWork) {
        match work {
            KeptWork::Take(class, records, done) => {
                self.take_kept(class, records);
                // The task may have ended.
                let _ = done.send(());
            }
            KeptWork::Compare(kept) => {
                let Some(unkept) = self.unkept.clone() else { return };
                for class in KEPT {
                    for (key, digest) in self.model.records().items(class, 0..=u32::MAX) {
                        if !kept.contains(&ItemHash::of(class, &key, digest).0) {
                            unkept.note(class, &key);
                        }
                    }
                }
            }
            KeptWork::Next(answer) => {
                let keys = self.unkept.as_ref().map(|unkept| unkept.take(BATCH)).unwrap_or_default();
                let values = keys.into_iter().filter_map(|(class, key)| {
                    let record =
                        self.model.records().get(class, &key).filter(|record| self.model.is_for_others(record))?;
                    let put = Put { number: 0, records: vec![(record, 0)], served: None, unreadable: Vec::new() };
                    let message = Message::Put(put).encode();
                    (message.len() + CODE <= LONGEST).then_some((class, key, message))
                });
                let _ = answer.send(values.collect());
            }
        }
    }

    fn take_kept(&mut self, class: Class, records: Vec<Record>) {
        let is_news = |record: &Record| {
            self.model.records().get(class, &record.key).is_none_or(|known| known.digest != record.digest)
        };
        let news: Vec<Record> = records.into_iter().filter(is_news).collect();
        if news.is_empty() {
            return;
        }
        let (own, all) = (self.model.node(), self.members.all());
        let knows_others = all.keys().any(|node| *node != own);
        info!("JetStream keeps {} decisions about {class} that this master does not know", news.len());
        let change = match (class, knows_others) {
            // It knows nobody by whose key the decisions could be checked. They vouch for each other, as in a welcome.
            (Class::Members, false) => match voucher(&news) {
                Some(from) => Change::Welcome { from, decisions: news },
                None => return,
            },
            _ => Change::Kept(news),
        };
        self.unwritten.expect_others(true);
        let actions = self.model.local(change, self.now());
        self.carry_out(actions);
        self.renew_members();
    }
}

/// Returns a member that may decide about members by these decisions.
fn voucher(records: &[Record]) -> Option<Node> {
    let accepted = records.iter().filter_map(|record| {
        let Content::Decided(_, entry) = &record.content else { return None };
        let (state, content) = entry.present()?;
        let member = Member::unpack(content).ok()?;
        let may = state == State::Accepted && member.rights().contains(Right::Members);
        may.then(|| member.node())
    });
    accepted.min()
}

#[cfg(test)]
mod tests {
    use crypto::MemberKey;
    use links::Secret;
    use share::{By, Entry, SignedDecision, Stamp, Wish};

    use super::*;

    fn code(secret: &str) -> KeepCode {
        let credentials = Credentials { secret: Some(Secret::new(secret)), ..Credentials::default() };
        KeepCode::new(&credentials, "prod").unwrap()
    }

    fn record(id: &str) -> Record {
        let signer = MemberKey::from_random([1; 32]).unwrap();
        let (key, node) = (Key::new(id).unwrap(), Node::of_key(&signer.public()));
        let content = Bytes::from_static(b"a public key");
        let wish = Wish { class: Class::Keys, key: key.clone(), state: State::Accepted, content, by: By::Auto };
        let stamp = Stamp { time: 1 << 40, node };
        let decision = SignedDecision::sign(Entry::default().decide(wish, stamp).unwrap(), &signer).unwrap();
        Record::new(key, stamp, Content::Decided(Class::Keys, Entry::new(vec![decision])))
    }

    fn message(record: Record) -> Bytes {
        Message::Put(Put { number: 0, records: vec![(record, 0)], served: None, unreadable: Vec::new() }).encode()
    }

    #[test]
    fn a_value_is_read_as_it_was_kept_and_no_other_one_is() {
        let (ours, theirs) = (code("the secret of this set"), code("the secret of another"));
        let value = ours.seal(&message(record("web1")));
        assert_eq!(ours.open(Class::Keys, &value).unwrap().key.as_str(), "web1");
        assert!(ours.open(Class::Members, &value).is_none(), "it is of another class");
        assert!(theirs.open(Class::Keys, &value).is_none(), "its servers may have made it up");
        for place in 0..value.len() {
            let mut damaged = value.to_vec();
            damaged[place] ^= 1;
            assert!(ours.open(Class::Keys, &damaged.into()).is_none(), "{place}");
        }
        for garbage in [&b""[..], b"x", &[0; 32], &[0xff; 100]] {
            assert!(ours.open(Class::Keys, &Bytes::copy_from_slice(garbage)).is_none());
        }
        assert!(ours.open(Class::Keys, &ours.seal(b"garbage")).is_none());
    }

    #[test]
    fn what_changes_twice_is_kept_once() {
        let unkept = Unkept::default();
        let key = |id| Key::new(id).unwrap();
        for id in ["a", "b", "a"] {
            unkept.note(Class::Keys, &key(id));
        }
        unkept.note(Class::Members, &key("a"));
        assert_eq!(unkept.take(2), [(Class::Members, key("a")), (Class::Keys, key("a"))]);
        assert_eq!(unkept.take(2), [(Class::Keys, key("b"))]);
        assert_eq!(unkept.take(2), []);
    }
}
