//! Publications as a master sees them, whatever the transport.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::task::AbortOnDropHandle;
use wire::MinionId;
use wire::envelope::{self, Envelope};

/// Who gets a publication.
#[derive(Clone, Debug)]
pub enum Audience {
    /// Every subscriber.
    All,
    /// Subscribers of these topics (zeromq with `zmq_filtering`), once per topic.
    Topics(Vec<Bytes>),
    /// Connections of these minions (tcp with list, glob and pcre targets).
    Minions(HashSet<MinionId>),
}

/// What became of a publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Subscribers in whose queue it is.
    pub queued: usize,
    /// Subscribers whose queue was full.
    pub dropped: usize,
}

/// A subscriber, as an operator sees it.
#[derive(Clone, Debug)]
pub struct SubscriberStatus {
    /// The number of the connection.
    pub number: u64,
    /// The minion, once it has signed in.
    pub minion: Option<MinionId>,
    /// The name it claims (zeromq identity); proves nothing.
    pub claimed: Option<String>,
    /// Where it is.
    pub peer: SocketAddr,
    /// Since when.
    pub since: SystemTime,
    /// Payloads that wait for it.
    pub queued: usize,
    /// Payloads that were dropped because its queue was full.
    pub dropped: u64,
}

/// A subscriber that says who it is (tcp client-id frame). Whoever can check it calls [`Introduction::accept`].
pub struct Introduction {
    /// What it says.
    pub envelope: Result<Envelope, envelope::Error>,
    /// Where it is.
    pub peer: SocketAddr,
    subscriber: Arc<Subscriber>,
}

impl Introduction {
    pub(crate) fn new(envelope: Result<Envelope, envelope::Error>, subscriber: Arc<Subscriber>) -> Self {
        Introduction { envelope, peer: subscriber.peer, subscriber }
    }

    /// Marks the connection as this minion's.
    pub fn accept(self, minion: MinionId) {
        self.subscriber.set_minion(minion);
    }
}

/// One connection that listens.
#[derive(Debug)]
pub(crate) struct Subscriber {
    number: u64,
    pub(crate) peer: SocketAddr,
    claimed: Option<String>,
    since: SystemTime,
    minion: Mutex<Option<MinionId>>,
    wanted: Mutex<Vec<Bytes>>,
    queue: mpsc::Sender<Bytes>,
    dropped: AtomicU64,
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

    fn set_minion(&self, minion: MinionId) {
        *lock(&self.minion) = Some(minion);
    }

    fn wants(&self, topic: &[u8]) -> bool {
        lock(&self.wanted).iter().any(|prefix| topic.starts_with(prefix))
    }

    fn send(&self, frame: &Bytes, delivery: &mut Delivery) {
        match self.queue.try_send(frame.clone()) {
            Ok(()) => delivery.queued += 1,
            Err(TrySendError::Full(_)) => {
                delivery.dropped += 1;
                if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!(peer = %self.peer, "the queue of a subscriber is full; publications to it are dropped");
                }
            }
            // The connection ends; its task takes it off the list.
            Err(TrySendError::Closed(_)) => {}
        }
    }

    fn status(&self) -> SubscriberStatus {
        SubscriberStatus {
            number: self.number,
            minion: lock(&self.minion).clone(),
            claimed: self.claimed.clone(),
            peer: self.peer,
            since: self.since,
            queued: self.queue.max_capacity() - self.queue.capacity(),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

/// All subscribers of a publisher.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    next: AtomicU64,
    subscribers: Mutex<BTreeMap<u64, Arc<Subscriber>>>,
}

impl Roll {
    /// Puts a connection on the roll for as long as the guard lives.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: SocketAddr,
        claimed: Option<String>,
        since: SystemTime,
        queue: usize,
    ) -> (RollGuard, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(queue.max(1));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let subscriber = Arc::new(Subscriber {
            number,
            peer,
            claimed,
            since,
            minion: Mutex::default(),
            wanted: Mutex::default(),
            queue: sender,
            dropped: AtomicU64::new(0),
        });
        lock(&self.subscribers).insert(number, subscriber.clone());
        (RollGuard { roll: self.clone(), subscriber }, receiver)
    }

    fn all(&self) -> Vec<Arc<Subscriber>> {
        lock(&self.subscribers).values().cloned().collect()
    }
}

pub(crate) struct RollGuard {
    roll: Arc<Roll>,
    pub(crate) subscriber: Arc<Subscriber>,
}

impl Drop for RollGuard {
    fn drop(&mut self) {
        lock(&self.roll.subscribers).remove(&self.subscriber.number);
    }
}

/// Listens for subscribers and sends them publications. Closes all connections when dropped.
pub struct Publisher {
    pub(crate) address: SocketAddr,
    pub(crate) roll: Arc<Roll>,
    pub(crate) frame: fn(topic: Option<&Bytes>, payload: &Bytes) -> Bytes,
    pub(crate) introductions: Option<mpsc::Receiver<Introduction>>,
    pub(crate) _task: AbortOnDropHandle<()>,
}

impl Publisher {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts a payload into the queues of its audience. It is framed once per topic and shared by all.
    pub fn publish(&self, payload: &Bytes, audience: &Audience) -> Delivery {
        let mut delivery = Delivery::default();
        match audience {
            Audience::All => {
                let frame = (self.frame)(None, payload);
                for subscriber in self.roll.all().iter().filter(|subscriber| subscriber.wants(payload)) {
                    subscriber.send(&frame, &mut delivery);
                }
            }
            Audience::Topics(topics) => {
                let all = self.roll.all();
                for topic in topics {
                    let frame = (self.frame)(Some(topic), payload);
                    for subscriber in all.iter().filter(|subscriber| subscriber.wants(topic)) {
                        subscriber.send(&frame, &mut delivery);
                    }
                }
            }
            Audience::Minions(ids) => {
                let frame = (self.frame)(None, payload);
                let named = |subscriber: &&Arc<Subscriber>| {
                    lock(&subscriber.minion).as_ref().is_some_and(|minion| ids.contains(minion))
                };
                for subscriber in self.roll.all().iter().filter(named) {
                    subscriber.send(&frame, &mut delivery);
                }
            }
        }
        delivery
    }

    /// Returns all subscribers, oldest first.
    pub fn subscribers(&self) -> Vec<SubscriberStatus> {
        self.roll.all().iter().map(|subscriber| subscriber.status()).collect()
    }

    /// Marks the connections that claim this name and come from this address as the minion's: it has just signed in from
    /// there.
    pub fn signed_in(&self, minion: &MinionId, from: std::net::IpAddr) {
        for subscriber in self.roll.all() {
            if subscriber.peer.ip() == from && subscriber.claimed.as_deref() == Some(minion.as_str()) {
                subscriber.set_minion(minion.clone());
            }
        }
    }

    /// Takes the stream of introductions (tcp); `None` where there are none (zeromq) or when it was taken.
    pub fn introductions(&mut self) -> Option<mpsc::Receiver<Introduction>> {
        self.introductions.take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is a single assignment or insert, so the content is whole after any panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
