//! A store of leases in memory, with the faults of a cluster of servers: for tests and simulations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::bucket::{Bucket, BucketError, OpenError, Opened, Stored};
use crate::proof::{Proof, Verdict};

/// A request as it arrives at the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arriving {
    /// See [`Bucket::publish`].
    Publish {
        /// The name.
        name: Box<str>,
        /// The expected last sequence.
        expected: u64,
        /// The value.
        value: Bytes,
    },
    /// See [`Bucket::delete`].
    Delete(u64),
}

/// The entries of a store, without I/O. Times are milliseconds of its own clock.
#[derive(Debug)]
pub struct MemoryStore {
    max_age: u64,
    sequence: u64,
    entries: BTreeMap<Box<str>, (Stored, u64)>,
    late: Vec<(u64, Arriving)>,
}

impl MemoryStore {
    /// Creates an empty store whose entries expire after this time.
    pub fn new(max_age: u64) -> MemoryStore {
        MemoryStore { max_age, sequence: 0, entries: BTreeMap::new(), late: Vec::new() }
    }

    /// Has a request arrive later, whose answer nobody waits for.
    pub fn arrive_late(&mut self, at: u64, request: Arriving) {
        self.late.push((at, request));
    }

    /// See [`Bucket::publish`].
    ///
    /// # Errors
    /// [`BucketError::OtherSequence`]
    pub fn publish(&mut self, name: &str, expected: u64, value: Bytes, now: u64) -> Result<u64, BucketError> {
        self.catch_up(now);
        self.store(name, expected, value, now)
    }

    /// See [`Bucket::last`].
    pub fn last(&mut self, name: &str, now: u64) -> Option<Stored> {
        self.catch_up(now);
        self.entries.get(name).map(|(stored, _)| stored.clone())
    }

    /// See [`Bucket::delete`].
    pub fn delete(&mut self, sequence: u64, now: u64) {
        self.catch_up(now);
        self.entries.retain(|_, (stored, _)| stored.sequence != sequence);
    }

    fn store(&mut self, name: &str, expected: u64, value: Bytes, now: u64) -> Result<u64, BucketError> {
        let last = self.entries.get(name).map_or(0, |(stored, _)| stored.sequence);
        if last != expected {
            return Err(BucketError::OtherSequence);
        }
        self.sequence += 1;
        self.entries.insert(name.into(), (Stored { sequence: self.sequence, value }, now));
        Ok(self.sequence)
    }

    /// Does what was to happen up to now, in its order.
    fn catch_up(&mut self, now: u64) {
        self.late.sort_by_key(|(at, _)| *at);
        let due = self.late.partition_point(|(at, _)| *at <= now);
        for (at, request) in self.late.drain(..due).collect::<Vec<_>>() {
            self.expire(at);
            match request {
                // Nobody waits for the answer.
                Arriving::Publish { name, expected, value } => drop(self.store(&name, expected, value, at)),
                Arriving::Delete(sequence) => self.entries.retain(|_, (stored, _)| stored.sequence != sequence),
            }
        }
        self.expire(now);
    }

    fn expire(&mut self, now: u64) {
        self.entries.retain(|_, (_, at)| now < *at + self.max_age);
    }
}

/// Proves by a word that all know who may hold leases.
#[derive(Clone, Copy, Debug)]
pub struct Password(pub &'static str);

impl Proof for Password {
    fn prove(&self, _lease: &str, _token: &[u8]) -> Result<String, String> {
        Ok(self.0.to_owned())
    }

    fn judge(&self, _lease: &str, node: Option<[u8; 8]>, _token: &[u8], proof: &[u8]) -> Verdict {
        match node.is_some() && proof == self.0.as_bytes() {
            true => Verdict::Counts,
            false => Verdict::Nobodys,
        }
    }
}

/// What goes wrong in a [`MemoryBucket`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The quorum of the servers is lost: nobody answers, nothing is stored.
    pub no_quorum: bool,
    /// In how many of a thousand requests the answer is lost.
    pub lost_answers: u64,
    /// How many of a thousand requests arrive after nobody waits for them any more.
    pub late: u64,
    /// The longest time to an answer.
    pub delay: Duration,
}

/// After this time nobody waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

struct Shared {
    store: MemoryStore,
    faults: Faults,
    chance: u64,
}

/// A store of leases that several processes share. Clones are the same store.
#[derive(Clone)]
pub struct MemoryBucket {
    shared: Arc<Mutex<Shared>>,
    started: Instant,
}

impl MemoryBucket {
    /// Creates an empty store. `seed` decides which requests go wrong.
    pub fn new(max_age: Duration, seed: u64) -> MemoryBucket {
        let store = MemoryStore::new(max_age.as_millis() as u64);
        let shared = Shared { store, faults: Faults::default(), chance: seed | 1 };
        MemoryBucket { shared: Arc::new(Mutex::new(shared)), started: Instant::now() }
    }

    /// Decides what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Puts what an earlier copy of the store said in place of what it says: a backup.
    pub fn restore(&self, backup: &MemoryBucket) {
        let mut store = MemoryStore::new(0);
        {
            let backup = &backup.lock().store;
            (store.max_age, store.sequence) = (backup.max_age, backup.sequence);
            store.entries.clone_from(&backup.entries);
        }
        self.lock().store = store;
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Waits for as long as a request takes. Returns whether it arrives, and whether its answer does.
    async fn travel(&self) -> (bool, bool) {
        let (faults, [delay, arrives, answered]) = {
            let mut shared = self.lock();
            (shared.faults, [(); 3].map(|()| shared.draw()))
        };
        let outcome = (!faults.no_quorum && arrives % 1_000 >= faults.late, answered % 1_000 >= faults.lost_answers);
        match outcome {
            (true, _) => sleep(faults.delay.mul_f64((delay % 1_000) as f64 / 1_000.0)).await,
            (false, _) => sleep(TIMEOUT).await,
        }
        outcome
    }

    /// Carries out what changes entries.
    async fn change(&self, request: Arriving) -> Result<u64, BucketError> {
        let (arrives, answered) = self.travel().await;
        let now = self.now();
        if !arrives {
            let mut shared = self.lock();
            if !shared.faults.no_quorum {
                let at = now + shared.draw() % 5_000;
                shared.store.arrive_late(at, request);
            }
            return Err(no_answer());
        }
        let result = {
            let store = &mut self.lock().store;
            match request {
                Arriving::Publish { name, expected, value } => store.publish(&name, expected, value, now),
                Arriving::Delete(sequence) => {
                    store.delete(sequence, now);
                    Ok(0)
                }
            }
        };
        if answered {
            return result;
        }
        sleep(TIMEOUT).await;
        Err(no_answer())
    }
}

impl Shared {
    fn draw(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance >> 11
    }
}

fn no_answer() -> BucketError {
    BucketError::NoAnswer("the servers do not answer".to_owned())
}

impl Bucket for MemoryBucket {
    fn open(&self) -> BoxFuture<'_, Result<Opened, OpenError>> {
        async {
            match self.travel().await {
                (true, true) => {
                    let last = self.lock().store.sequence;
                    Ok(Opened { replicas: 1, unused: last == 0, last })
                }
                _ => Err(OpenError::NoAnswer("the servers do not answer".to_owned())),
            }
        }
        .boxed()
    }

    fn publish<'a>(&'a self, name: &'a str, expected: u64, value: Bytes) -> BoxFuture<'a, Result<u64, BucketError>> {
        self.change(Arriving::Publish { name: name.into(), expected, value }).boxed()
    }

    fn last<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Stored>, BucketError>> {
        async move {
            match self.travel().await {
                (true, true) => {
                    let now = self.now();
                    Ok(self.lock().store.last(name, now))
                }
                _ => Err(no_answer()),
            }
        }
        .boxed()
    }

    fn delete(&self, sequence: u64) -> BoxFuture<'_, Result<(), BucketError>> {
        self.change(Arriving::Delete(sequence)).map(|result| result.map(drop)).boxed()
    }
}
