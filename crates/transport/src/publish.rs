//! The master's side of publications, for both transports.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use wire::envelope::{self, Envelope};
use wire::{MinionId, Network};

use crate::capacity::ConnectionRecord;
use crate::proven::ProvenAddresses;

/// The recipients of a publication.
#[derive(Clone, Debug)]
pub enum Audience {
    /// Every subscriber.
    All,
    /// Subscribers of these topics (zeromq with `zmq_filtering`), once per topic.
    Topics(Vec<Bytes>),
    /// Every subscriber except these minions and connections that claim to be one of them.
    AllBut(HashSet<MinionId>),
    /// Connections of these minions, and connections that claim to be one of them, since publications are encrypted
    /// anyway.
    Minions(HashSet<MinionId>),
}

/// A publication as it is sent: encrypted with the current key and, as long as some subscribers do not have that, also
/// with the previous one.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Encrypted with the current key.
    pub current: Bytes,
    /// Encrypted with the previous key, for subscribers that are [behind](Publisher::leave_behind).
    pub before: Option<Bytes>,
}

/// The largest number of emptied queues that wait to be reported.
pub(crate) const DRAINED: usize = 1024;

/// The result of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Subscribers in whose queue it is.
    pub queued: usize,
    /// Subscribers whose queue was full.
    pub dropped: usize,
    /// The numbers of their connections. [`Publisher::drained`] yields each when its queue is empty again.
    pub lost: Vec<u64>,
}

/// The status of a subscriber, for operators.
#[derive(Clone, Debug)]
pub struct SubscriberStatus {
    /// The number of the connection.
    pub number: u64,
    /// The minion as which it introduced itself (tcp) or which it claims to be (zeromq), if that minion's last
    /// authenticated request came from the same address.
    pub minion: Option<MinionId>,
    /// The name it claims (zeromq identity); by itself it proves nothing.
    pub claimed: Option<String>,
    /// Where it is.
    pub peer: SocketAddr,
    /// Since when.
    pub since: SystemTime,
    /// Payloads in its queue.
    pub queued: usize,
    /// Payloads that were dropped because its queue was full.
    pub dropped: u64,
}

/// A message in which a subscriber says who it is (client-id frame of tcp). A caller that has verified it calls
/// [`Introduction::accept`].
pub struct Introduction {
    /// The message.
    pub envelope: Result<Envelope, envelope::Error>,
    /// Where it is.
    pub peer: SocketAddr,
    subscriber: Arc<Subscriber>,
    subscribers: Arc<Subscribers>,
}

impl Introduction {
    pub(crate) fn new(envelope: Result<Envelope, envelope::Error>, place: &SubscriberGuard) -> Self {
        let subscriber = place.subscriber.clone();
        Introduction { envelope, peer: subscriber.peer, subscriber, subscribers: place.subscribers.clone() }
    }

    /// Notes that the connection introduced itself as this minion. An attacker on the network path can replay an
    /// introduction, so it counts like any claim: only if it comes from the address of the minion's last authenticated
    /// request.
    pub fn accept(self, minion: MinionId) {
        self.subscribers.name(&self.subscriber, minion.as_str());
        self.subscriber.introduce(minion);
        self.subscribers.proven.notify();
    }
}

/// One subscribed connection.
#[derive(Debug)]
pub(crate) struct Subscriber {
    number: u64,
    pub(crate) peer: SocketAddr,
    record: Arc<ConnectionRecord>,
    claimed: Option<String>,
    since: SystemTime,
    /// The minion it introduced itself as.
    introduced: Mutex<Option<MinionId>>,
    proven: Arc<ProvenAddresses>,
    /// The name under which it is listed.
    listed: Mutex<Option<String>>,
    /// True if its minion has only the previous key.
    behind: AtomicBool,
    wanted: Mutex<Vec<Bytes>>,
    queue: mpsc::Sender<Bytes>,
    dropped: AtomicU64,
    /// True if something was dropped since the queue was last empty.
    lost: AtomicBool,
    drained: mpsc::Sender<u64>,
}

/// The publications that wait for one subscriber.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: mpsc::Receiver<Bytes>,
    subscriber: Arc<Subscriber>,
}

impl Queue {
    /// Returns the next frame to write. Reports a queue that had overflowed when it has become empty. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if self.waiting.is_empty() && self.subscriber.lost.swap(false, Ordering::AcqRel) {
            // When too many are waiting to be looked after, the next empty moment will tell.
            if self.subscriber.drained.try_send(self.subscriber.number).is_err() {
                self.subscriber.lost.store(true, Ordering::Release);
            }
        }
        self.waiting.recv().await
    }
}

impl From<Bytes> for Payload {
    fn from(current: Bytes) -> Self {
        Payload { current, before: None }
    }
}

impl Subscriber {
    pub(crate) fn subscribe(&self, prefix: Bytes) {
        lock(&self.wanted).push(prefix);
    }

    pub(crate) fn cancel(&self, prefix: &Bytes) {
        let mut wanted = lock(&self.wanted);
        if let Some(place) = wanted.iter().position(|known| known == prefix) {
            wanted.swap_remove(place);
        }
    }

    fn introduce(&self, minion: MinionId) {
        *lock(&self.introduced) = Some(minion);
        if self.minion().is_some() {
            self.record.prove();
        }
    }

    /// Returns the minion for which this connection counts.
    fn minion(&self) -> Option<MinionId> {
        let introduced = lock(&self.introduced);
        let name = introduced.as_ref().map(MinionId::as_str).or(self.claimed.as_deref())?;
        self.proven.confirm(name, self.peer.ip())
    }

    /// Returns whether this is one of these minions. A claimed name is enough: what is published is encrypted.
    fn is_one_of(&self, ids: &HashSet<MinionId>) -> bool {
        match lock(&self.introduced).as_ref() {
            Some(minion) => ids.contains(minion),
            None => self.claimed.as_deref().is_some_and(|claimed| ids.contains(claimed)),
        }
    }

    fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    fn wants(&self, topic: &[u8]) -> bool {
        lock(&self.wanted).iter().any(|prefix| topic.starts_with(prefix))
    }

    fn send(&self, frame: &Bytes, delivery: &mut Delivery) {
        match self.queue.try_send(frame.clone()) {
            Ok(()) => delivery.queued += 1,
            Err(TrySendError::Full(_)) => {
                delivery.dropped += 1;
                // The publisher must not wait for a slow subscriber. What is dropped here is sent again once the
                // queue is empty.
                delivery.lost.push(self.number);
                self.lost.store(true, Ordering::Release);
                if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
                    let _peer = logscope::enter(logscope::Peer::Stranger(Network::from(self.peer.ip())));
                    tracing::warn!(peer = %self.peer, "the queue of a subscriber is full; it gets the rest later");
                }
            }
            // The connection ends; its task takes it off the list.
            Err(TrySendError::Closed(_)) => {}
        }
    }

    fn status(&self) -> SubscriberStatus {
        SubscriberStatus {
            number: self.number,
            minion: self.minion(),
            claimed: self.claimed.clone(),
            peer: self.peer,
            since: self.since,
            queued: self.queue.max_capacity() - self.queue.capacity(),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

/// When connections ended, since the publisher started.
#[derive(Clone, Debug)]
pub struct Departures {
    /// The time since which departures are noted.
    pub since: Instant,
    /// The last connection that counted for each minion.
    pub names: HashMap<String, Instant>,
    /// The last connection without a name from each address.
    pub addresses: HashMap<std::net::IpAddr, Instant>,
}

/// The largest number of departures that are remembered, because strangers can connect from any number of addresses.
const NOTED: usize = 65_536;

impl Departures {
    fn new() -> Self {
        Departures { since: Instant::now(), names: HashMap::new(), addresses: HashMap::new() }
    }

    fn note(&mut self, subscriber: &Subscriber) {
        let now = Instant::now();
        match subscriber.minion() {
            Some(minion) => note_in(&mut self.names, minion.to_string(), now),
            // A claim that does not count must not pass for the departure of a minion.
            None if subscriber.claimed.is_some() => {}
            None => note_in(&mut self.addresses, subscriber.peer.ip().to_canonical(), now),
        }
    }
}

/// Notes a departure. When there are too many, all are forgotten; those departures count as unknown.
fn note_in<K: Eq + std::hash::Hash>(noted: &mut HashMap<K, Instant>, key: K, now: Instant) {
    if noted.len() >= NOTED && !noted.contains_key(&key) {
        noted.clear();
    }
    noted.insert(key, now);
}

/// All subscribers of a publisher.
#[derive(Debug)]
pub(crate) struct Subscribers {
    next: AtomicU64,
    departures: Mutex<Departures>,
    by_number: Mutex<BTreeMap<u64, Arc<Subscriber>>>,
    /// The connections by the name that they claim or have proved, so that a sign-in need not look at all connections.
    claims: Mutex<HashMap<String, Vec<Arc<Subscriber>>>>,
    proven: Arc<ProvenAddresses>,
    drained: mpsc::Sender<u64>,
}

impl Subscribers {
    /// Returns an empty list, and the receiver that reports queues that had overflowed and have become empty.
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<u64>) {
        let (drained, receiver) = mpsc::channel(DRAINED);
        let subscribers = Subscribers {
            next: AtomicU64::new(0),
            departures: Mutex::new(Departures::new()),
            by_number: Mutex::default(),
            claims: Mutex::default(),
            proven: Arc::default(),
            drained,
        };
        (Arc::new(subscribers), receiver)
    }

    /// Lists a connection for as long as the guard lives.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: SocketAddr,
        record: Arc<ConnectionRecord>,
        claimed: Option<String>,
        since: SystemTime,
        queue: usize,
    ) -> (SubscriberGuard, Queue) {
        let (sender, waiting) = mpsc::channel(queue.max(1));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let subscriber = Arc::new(Subscriber {
            number,
            peer,
            record,
            claimed,
            since,
            introduced: Mutex::default(),
            proven: self.proven.clone(),
            listed: Mutex::default(),
            behind: AtomicBool::new(false),
            wanted: Mutex::default(),
            queue: sender,
            dropped: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            drained: self.drained.clone(),
        });
        lock(&self.by_number).insert(number, subscriber.clone());
        if let Some(name) = &subscriber.claimed {
            self.name(&subscriber, name);
            if subscriber.minion().is_some() {
                subscriber.record.prove();
            }
        }
        self.proven.notify();
        let queue = Queue { waiting, subscriber: subscriber.clone() };
        (SubscriberGuard { subscribers: self.clone(), subscriber }, queue)
    }

    fn leave(&self, subscriber: &Subscriber) {
        // Before it is off the list, so that a connection that is not listed has left at a known time.
        lock(&self.departures).note(subscriber);
        lock(&self.by_number).remove(&subscriber.number);
        self.unname(subscriber);
        self.proven.notify();
    }

    /// Lists a connection under this name only. A connection that has already ended is not listed.
    fn name(&self, subscriber: &Arc<Subscriber>, name: &str) {
        self.unname(subscriber);
        let mut claims = lock(&self.claims);
        // Looked up under the lock on the names: `leave` removes the connection first and its name afterwards, so
        // none is left over.
        if lock(&self.by_number).contains_key(&subscriber.number) {
            *lock(&subscriber.listed) = Some(name.to_owned());
            claims.entry(name.to_owned()).or_default().push(subscriber.clone());
        }
    }

    fn unname(&self, subscriber: &Subscriber) {
        let mut claims = lock(&self.claims);
        let Some(name) = lock(&subscriber.listed).take() else { return };
        if let Some(connections) = claims.get_mut(&name) {
            connections.retain(|other| other.number != subscriber.number);
            if connections.is_empty() {
                claims.remove(&name);
            }
        }
    }

    fn claiming(&self, name: &str) -> Vec<Arc<Subscriber>> {
        lock(&self.claims).get(name).cloned().unwrap_or_default()
    }

    fn all(&self) -> Vec<Arc<Subscriber>> {
        lock(&self.by_number).values().cloned().collect()
    }
}

pub(crate) struct SubscriberGuard {
    subscribers: Arc<Subscribers>,
    pub(crate) subscriber: Arc<Subscriber>,
}

impl Drop for SubscriberGuard {
    fn drop(&mut self) {
        self.subscribers.leave(&self.subscriber);
    }
}

/// A publication, framed for subscribers that have the current key and for those that are behind.
struct Frames {
    current: Bytes,
    before: Option<Bytes>,
}

impl Frames {
    fn new(frame: impl Fn(&Bytes) -> Bytes, payload: &Payload) -> Self {
        Frames { current: frame(&payload.current), before: payload.before.as_ref().map(frame) }
    }

    fn of(&self, subscriber: &Subscriber) -> &Bytes {
        self.before.as_ref().filter(|_| subscriber.is_behind()).unwrap_or(&self.current)
    }
}

/// Listens for subscribers and sends them publications. Closes all connections when dropped.
pub struct Publisher {
    pub(crate) address: SocketAddr,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) frame: fn(topic: Option<&Bytes>, payload: &Bytes) -> Bytes,
    pub(crate) introductions: Option<mpsc::Receiver<Introduction>>,
    pub(crate) drained: Option<mpsc::Receiver<u64>>,
    pub(crate) _task: AbortOnDropHandle<()>,
}

impl Publisher {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts a payload into the queues of its audience. It is framed once per topic and shared by all.
    pub fn publish(&self, payload: &Payload, audience: &Audience) -> Delivery {
        self.send_to(&self.subscribers.all(), payload, audience)
    }

    /// Does the same for one connection, if it still exists and belongs to the audience.
    pub fn publish_to(&self, number: u64, payload: &Payload, audience: &Audience) -> Delivery {
        let subscriber = lock(&self.subscribers.by_number).get(&number).cloned();
        self.send_to(subscriber.as_slice(), payload, audience)
    }

    fn send_to(&self, subscribers: &[Arc<Subscriber>], payload: &Payload, audience: &Audience) -> Delivery {
        let mut delivery = Delivery::default();
        let mut send = |topic: Option<&Bytes>, meant: &dyn Fn(&Subscriber) -> bool| {
            let frames = Frames::new(|sealed| (self.frame)(topic, sealed), payload);
            for subscriber in subscribers.iter().filter(|subscriber| meant(subscriber)) {
                subscriber.send(frames.of(subscriber), &mut delivery);
            }
        };
        match audience {
            Audience::All => send(None, &|subscriber| subscriber.wants(&payload.current)),
            Audience::AllBut(ids) => {
                send(None, &|subscriber| subscriber.wants(&payload.current) && !subscriber.is_one_of(ids));
            }
            Audience::Topics(topics) => {
                for topic in topics {
                    send(Some(topic), &|subscriber| subscriber.wants(topic));
                }
            }
            Audience::Minions(ids) => send(None, &|subscriber| subscriber.is_one_of(ids)),
        }
        delivery
    }

    /// Notes that the key changes: from now on all subscribers get what is encrypted with the previous key, until they
    /// [catch up](Self::catch_up) or [sign in](Self::has_signed_in). Those that were already behind count as not behind
    /// any more, because they have neither of the two keys.
    pub fn leave_behind(&self) {
        for subscriber in self.subscribers.all() {
            subscriber.behind.fetch_not(Ordering::AcqRel);
        }
    }

    /// Notes that the previous key is no longer used for any subscriber.
    pub fn forget_before(&self) {
        for subscriber in self.subscribers.all() {
            subscriber.behind.store(false, Ordering::Release);
        }
    }

    /// Returns the connections that are behind, oldest first, with the minion if it is known.
    pub fn behind(&self) -> Vec<(u64, Option<MinionId>)> {
        let all = self.subscribers.all();
        let behind = all.iter().filter(|subscriber| subscriber.is_behind());
        behind.map(|subscriber| (subscriber.number, subscriber.minion())).collect()
    }

    /// Returns whether any connection is behind.
    pub fn any_behind(&self) -> bool {
        lock(&self.subscribers.by_number).values().any(|subscriber| subscriber.is_behind())
    }

    /// Sends a payload that is encrypted with the current key to those of these connections that are behind. From now
    /// on they get everything with that key. Returns how many were behind.
    pub fn catch_up(&self, numbers: &[u64], sealed: &Bytes) -> usize {
        let subscribers: Vec<_> = {
            let known = lock(&self.subscribers.by_number);
            numbers.iter().filter_map(|number| known.get(number).cloned()).collect()
        };
        let (frame, mut delivery) = ((self.frame)(None, sealed), Delivery::default());
        let behind = |subscriber: &&Arc<Subscriber>| subscriber.behind.swap(false, Ordering::AcqRel);
        // One whose queue is full asks for the key when it meets the next publication.
        subscribers.iter().filter(behind).map(|subscriber| subscriber.send(&frame, &mut delivery)).count()
    }

    /// Notes that a minion signed in from an address: its connections from there are no longer behind.
    pub fn has_signed_in(&self, minion: &MinionId, from: std::net::IpAddr) {
        for subscriber in self.subscribers.claiming(minion.as_str()) {
            if subscriber.peer.ip().to_canonical() == from.to_canonical() {
                subscriber.behind.store(false, Ordering::Release);
            }
        }
    }

    /// Asks [`Publisher::drained`] to yield a connection when its queue is empty. Returns true if it is already empty.
    pub fn watch_queue(&self, number: u64) -> bool {
        let Some(subscriber) = lock(&self.subscribers.by_number).get(&number).cloned() else { return false };
        // In this order: who empties the queue after we looked sees the wish.
        subscriber.lost.store(true, Ordering::Release);
        subscriber.queue.capacity() == subscriber.queue.max_capacity()
    }

    /// Returns whether a connection still exists.
    pub fn is_there(&self, number: u64) -> bool {
        lock(&self.subscribers.by_number).contains_key(&number)
    }

    /// Waits until everything that is queued now has been passed to the sockets. A subscriber that reads nothing delays
    /// this, so the caller must set a timeout.
    pub async fn flushed(&self) {
        let empty = self.subscribers.all().into_iter().map(|subscriber| async move {
            // An error means that the connection is gone, and nothing waits for it any more.
            let _ = subscriber.queue.reserve_many(subscriber.queue.max_capacity()).await.map(drop);
        });
        futures_util::future::join_all(empty).await;
    }

    /// Takes the stream of connections that lost publications to a full queue, and whose queue is empty now. Returns
    /// `None` if the stream was taken before.
    pub fn drained(&mut self) -> Option<mpsc::Receiver<u64>> {
        self.drained.take()
    }

    /// Returns all subscribers, oldest first.
    pub fn subscribers(&self) -> Vec<SubscriberStatus> {
        self.subscribers.all().iter().map(|subscriber| subscriber.status()).collect()
    }

    /// Returns when connections ended.
    pub fn departures(&self) -> Departures {
        lock(&self.subscribers.departures).clone()
    }

    /// Forgets a minion whose key was removed: its address, and when it left.
    pub fn forget(&self, minion: &MinionId) {
        self.subscribers.proven.forget(minion);
        lock(&self.subscribers.departures).names.remove(minion.as_str());
    }

    /// Notes that an authenticated request of a minion came from an address: connections from there that claim its name
    /// now count as its own, and others no longer do.
    pub fn heard(&self, minion: &MinionId, from: std::net::IpAddr) {
        if !self.subscribers.proven.note(minion, from) {
            return;
        }
        for subscriber in self.subscribers.claiming(minion.as_str()) {
            if subscriber.minion().is_some() {
                subscriber.record.prove();
            }
        }
    }

    /// Returns the addresses from which minions last authenticated themselves.
    pub fn proven(&self) -> &Arc<ProvenAddresses> {
        &self.subscribers.proven
    }

    /// Takes the stream of introductions (tcp); `None` over zeromq, which has none, and if the stream was taken before.
    pub fn introductions(&mut self) -> Option<mpsc::Receiver<Introduction>> {
        self.introductions.take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is a single assignment or insert, so the content is whole after any panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
