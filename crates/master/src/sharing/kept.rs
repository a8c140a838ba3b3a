//! The last copy of what was decided about members and minion keys, in JetStream: a master that meets nobody reads it at its start.
//!
//! Each value has a code made with what proves that a master belongs to the set, so that the servers cannot make one up, and the
//! signature of the member that had it kept: each decision in it is checked like one that this member brings. It is never the only copy.
//! What could not be written is written later: after each failure everything is compared again. So it is when this member takes rights
//! from another one, because what that one had kept is to have the signature of a member that still has them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use crypto::{MEMBER_SIGNATURE_LEN, MemberKey, Signature, hmac_sha256, sha256, stretched};
use leases::{Keep, KeepError, LONGEST, OpenError};
use links::Credentials;
use rt::Rt;
use share::member::{Member, Right, Rights};
use share::message::Put;
use share::{
    Change, Class, Content, Index as _, ItemHash, KeptRecord, Key, Message, Node, Record, Records as _, State,
};
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

/// How many bytes of records the worker takes or gives at once, but for one record.
const BATCH_BYTES: usize = 1 << 20;

/// How many values that were read wait for the worker.
const READ_AHEAD: usize = 8;

/// How many values are under way to the servers at once.
const UNDER_WAY: usize = 64;

/// How long to wait after a failure: twice as long after each in a row.
const AGAIN: Duration = Duration::from_secs(5);

/// The longest wait after failures. Each time everything is read again.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// What the codes are made for, so that they count for nothing else.
const CONTEXT: &[u8] = b"saltern keep 2\0";

/// The length of a code in bytes.
const CODE: usize = 32;

/// The length of what is in front of a record.
const HEAD: usize = CODE + size_of::<Node>() + MEMBER_SIGNATURE_LEN;

/// What was decided and is not kept yet. The model has a bound for what it holds, and so has this.
#[derive(Default)]
pub struct Unkept {
    keys: Mutex<BTreeSet<(u8, Key)>>,
    /// All is to be compared again.
    again: AtomicBool,
    changed: Notify,
}

impl Unkept {
    /// Has everything compared again.
    fn compare_again(&self) {
        self.again.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn is_to_compare(&self) -> bool {
        self.again.load(Ordering::Relaxed)
    }

    fn all(&self) -> MutexGuard<'_, BTreeSet<(u8, Key)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a decision that is to be kept.
    pub fn note(&self, class: Class, key: &Key) {
        self.all().insert((class.number(), key.clone()));
        self.changed.notify_one();
    }

    fn take(&self) -> Option<(Class, Key)> {
        let (number, key) = self.all().pop_first()?;
        // Nothing else is noted.
        Some((KEPT.into_iter().find(|class| class.number() == number)?, key))
    }
}

/// A value to keep, packed.
pub type Value = (Class, Key, Bytes);

/// The members as they are known, and what was decided about each.
type Known = BTreeMap<Node, (Member, State)>;

/// What the task of [`Keeping`] asks the worker.
pub enum KeptWork {
    /// These records are kept. It answers when it has taken them.
    Take(Class, Vec<KeptRecord>, oneshot::Sender<()>),
    /// All that is kept counts as these hashes, and who had it kept. The rest is still to be kept.
    Compare(HashMap<u128, Node>),
    /// What is next to be kept? Nothing means that all is kept.
    Next(oneshot::Sender<Vec<Value>>),
}

/// What proves that a master belongs to the set, as the codes of values are made from it.
pub struct KeepProof(Vec<u8>);

impl KeepProof {
    /// Returns the proof; `None` if nothing proves that a master belongs to the set.
    pub fn new(credentials: &Credentials) -> Option<KeepProof> {
        match (&credentials.secret, &credentials.master_key, &credentials.sign_key) {
            (Some(secret), _, _) => Some(KeepProof(sha256(&[secret.expose()]).to_vec())),
            // Nobody else can make this signature, and it is never shown.
            (None, Some(key), _) | (None, None, Some(key)) => {
                let signed = key.sign(Signature::Pkcs1v15Sha224, CONTEXT);
                signed.inspect_err(|error| error!("nothing is kept in JetStream: {error}")).ok().map(KeepProof)
            }
            (None, None, None) => None,
        }
    }
}

/// Makes values of records and reads them: a code, the node and the signature of the member that has it kept, and the record.
struct Seal {
    code: [u8; CODE],
    set: String,
    key: MemberKey,
    node: Node,
}

impl Seal {
    /// Creates the seal of a set, whose name is written as in subjects. Takes a tenth of a second, on purpose: whoever can read the stream
    /// can guess secrets.
    fn new(proof: &KeepProof, set: &str, key: MemberKey) -> Result<Seal, String> {
        let code = stretched(&proof.0, &[CONTEXT, set.as_bytes()].concat()).map_err(|error| error.to_string())?;
        let node = Node::of_key(&key.public());
        Ok(Seal { code, set: set.to_owned(), key, node })
    }

    /// Returns what a member signs of a message, which names the class and the key.
    fn signed(&self, message: &[u8]) -> Bytes {
        [CONTEXT, self.set.as_bytes(), b"\0", message].concat().into()
    }

    fn close(&self, message: &[u8]) -> Result<Bytes, String> {
        let signature = self.key.sign(&self.signed(message)).map_err(|error| error.to_string())?;
        let inner = [&self.node.0[..], &signature, message].concat();
        let code = hmac_sha256(&self.code, &inner);
        Ok([&code[..], &inner].concat().into())
    }

    /// Returns the record in a value; `None` if it is damaged, or was not made by a member of the set. The signature is checked by the
    /// model, which knows the members.
    fn open(&self, class: Class, value: &Bytes) -> Option<KeptRecord> {
        let (code, inner) = value.split_first_chunk::<CODE>()?;
        // Compared as hashes, so that the time that it takes says nothing of the code.
        if sha256(&[code]) != sha256(&[&hmac_sha256(&self.code, inner)]) {
            return None;
        }
        let (node, rest) = inner.split_first_chunk()?;
        let (signature, message) = rest.split_first_chunk()?;
        let Ok(Some(Message::Put(mut put))) = Message::decode(&value.slice_ref(message)) else { return None };
        let (record, _) = put.records.pop().filter(|_| put.records.is_empty())?;
        let (writer, signed) = (Node(*node), self.signed(message));
        (record.class() == class).then_some(KeptRecord { record, writer, signed, signature: *signature })
    }
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
        self.ask(KeptWork::Compare(kept)).await?;
        while !self.unkept.is_to_compare() {
            let (answer, next) = oneshot::channel();
            self.ask(KeptWork::Next(answer)).await?;
            let values = next.await.map_err(|_| "the master fails".to_owned())?;
            if !values.is_empty() {
                self.write(values).await?;
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
            warn!(
                "{skipped} values about {class} that JetStream keeps are damaged or were not made by a master of this set"
            );
        }
        self.give(class, batch).await
    }

    async fn give(&self, class: Class, records: Vec<KeptRecord>) -> Result<(), String> {
        let (done, waits) = oneshot::channel();
        self.ask(KeptWork::Take(class, records, done)).await?;
        waits.await.map_err(|_| "the master fails".to_owned())
    }

    async fn put(&self, (class, key, message): &Value) -> Result<(), String> {
        match self.keep.put(class.name(), key.as_str(), self.seal.close(message)?).await {
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

    /// Takes note of what may have been decided here about members, which were others `before`.
    pub(super) fn note_unkept_members(&self, before: &Known, now: &Known) {
        let Some(unkept) = &self.unkept else { return };
        for (node, member) in now.iter().filter(|(node, member)| before.get(node) != Some(member)) {
            let key = Key::of_node(*node);
            let Some(record) = self.model.records().get(Class::Members, &key) else { continue };
            self.note_unkept(&record);
            let is_own = |content: &Content| match content {
                Content::Decided(_, entry) => entry.visible().is_some_and(|one| one.stamp.node == self.model.node()),
                _ => false,
            };
            if is_own(&record.content) && before.get(node).is_some_and(|before| has_lost_rights(member, before)) {
                unkept.compare_again();
            }
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
            KeptWork::Compare(kept) => self.compare_kept(&kept),
            KeptWork::Next(answer) => {
                // The task may have ended.
                let _ = answer.send(self.next_values());
            }
        }
    }

    /// Takes note of what is not kept, or only with the signature of a member by whose word it does not count.
    fn compare_kept(&self, kept: &HashMap<u128, Node>) {
        let Some(unkept) = &self.unkept else { return };
        for class in KEPT {
            let right = Right::of_class(class);
            for (key, digest) in self.model.records().items(class, 0..=u32::MAX) {
                let writer = kept.get(&ItemHash::of(class, &key, digest).0);
                if !writer.is_some_and(|writer| self.members.may(*writer, right)) {
                    unkept.note(class, &key);
                }
            }
        }
    }

    fn next_values(&self) -> Vec<Value> {
        let (mut values, mut bytes) = (Vec::new(), 0);
        let Some(unkept) = &self.unkept else { return values };
        while values.len() < BATCH
            && bytes < BATCH_BYTES
            && let Some((class, key)) = unkept.take()
        {
            // Others believe nothing that a member without the right has kept.
            if self.members.may(self.model.node(), Right::of_class(class))
                && let Some(record) = self.model.records().get(class, &key)
                && self.model.is_for_others(&record)
            {
                let put = Put { number: 0, records: vec![(record, 0)], served: None, unreadable: Vec::new() };
                let message = Message::Put(put).encode();
                if message.len() + HEAD <= LONGEST {
                    bytes += message.len();
                    values.push((class, key, message));
                }
            }
        }
        values
    }

    fn take_kept(&mut self, class: Class, records: Vec<KeptRecord>) {
        let is_news = |kept: &KeptRecord| {
            let known = self.model.records().get(class, &kept.record.key);
            known.is_none_or(|known| known.digest != kept.record.digest)
        };
        let news: Vec<KeptRecord> = records.into_iter().filter(is_news).collect();
        if news.is_empty() {
            return;
        }
        info!("JetStream keeps {} decisions about {class} that this master does not know", news.len());
        self.unwritten.expect_others(true);
        let actions = self.model.local(Change::Kept(news), self.now());
        self.carry_out(actions);
        self.renew_members();
    }
}

/// Returns whether a member has lost a right that what it had kept needs.
fn has_lost_rights((member, state): &(Member, State), before: &(Member, State)) -> bool {
    let rights = |member: &Member, state: State| if state == State::Accepted { member.rights() } else { Rights::NONE };
    let (now, before) = (rights(member, *state), rights(&before.0, before.1));
    KEPT.into_iter().map(Right::of_class).any(|right| before.contains(right) && !now.contains(right))
}

#[cfg(test)]
mod tests {
    use crypto::MemberPublicKey;
    use links::Secret;
    use share::member::Role;
    use share::{By, Entry, SignedDecision, Stamp, Wish};

    use super::*;

    fn seal(secret: &str) -> Seal {
        let credentials = Credentials { secret: Some(Secret::new(secret)), ..Credentials::default() };
        Seal::new(&KeepProof::new(&credentials).unwrap(), "prod", signer()).unwrap()
    }

    fn signer() -> MemberKey {
        MemberKey::from_random([1; 32]).unwrap()
    }

    fn record(id: &str) -> Record {
        let signer = signer();
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
        let (ours, theirs) = (seal("the secret of this set"), seal("the secret of another"));
        let value = ours.close(&message(record("web1"))).unwrap();
        let kept = ours.open(Class::Keys, &value).unwrap();
        assert_eq!((kept.record.key.as_str(), kept.writer), ("web1", ours.node));
        let public = MemberPublicKey::from_raw(&signer().public()).unwrap();
        assert!(public.verify(&kept.signed, &kept.signature));
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
        assert!(ours.open(Class::Keys, &ours.close(b"garbage").unwrap()).is_none());
    }

    #[test]
    fn what_changes_twice_is_kept_once() {
        let unkept = Unkept::default();
        let key = |id| Key::new(id).unwrap();
        for id in ["a", "b", "a"] {
            unkept.note(Class::Keys, &key(id));
        }
        unkept.note(Class::Members, &key("a"));
        let taken: Vec<_> = std::iter::from_fn(|| unkept.take()).collect();
        assert_eq!(taken, [(Class::Members, key("a")), (Class::Keys, key("a")), (Class::Keys, key("b"))]);
    }

    #[test]
    fn who_is_demoted_or_removed_has_lost_rights() {
        let member = |may: Rights| Member {
            name: "m1".to_owned(),
            key: signer().public(),
            addresses: Vec::new(),
            role: Role::Master,
            may,
            slot: 1,
        };
        let before = (member(Rights::ALL), State::Accepted);
        assert!(!has_lost_rights(&before, &before));
        assert!(has_lost_rights(&(member(Rights::ALL), State::Deleted), &before));
        assert!(has_lost_rights(&(member(Rights::ALL.without(&[Right::Keys])), State::Accepted), &before));
        assert!(!has_lost_rights(&(member(Rights::ALL.without(&[Right::Jobs])), State::Accepted), &before));
        assert!(!has_lost_rights(&before, &(member(Rights::NONE), State::Accepted)));
    }

    #[test]
    fn failures_in_a_row_wait_longer_each_time_up_to_a_bound() {
        let waits: Vec<u64> =
            std::iter::successors(Some(AGAIN), |wait| Some(longer(*wait))).take(9).map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
    }
}
