//! The leases of a process: asks the store what [`Lease`] wants asked, and tells what is held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::bucket::{Bucket, BucketError, OpenError, Opened};
use crate::lease::{Answer, Holder, Lease, LeaseTimes, Request};
use crate::proof::{Entry, Proof, Verdict};
use crate::token::Who;

/// How many requests are under way at once.
const MOST_ASKED: usize = 64;

/// How many requests in a row may stay without an answer before it is said that nobody answers.
const SILENCE: u32 = 2;

/// How long to wait before a store is opened again that could not be.
const AGAIN: Duration = Duration::from_secs(1);

/// How many of those who write what does not count are told: nodes cost nothing to make up.
const MOST_STRANGERS: usize = 16;

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It was not opened yet.
    Opening,
    /// It is new or comes from a backup, and is not used before every lease has expired that an earlier one may have granted.
    New,
    /// It answers; this many servers keep a copy.
    Sound(usize),
    /// Nobody answers, or not enough servers of those that keep it are there.
    NoAnswer(String),
    /// It cannot be used as it is.
    Unusable(String),
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The lease is held from now on.
    Taken {
        /// The lease.
        name: Box<str>,
        /// Higher than the fences of earlier holders.
        fence: u64,
    },
    /// The lease is not held any more.
    Lost {
        /// The lease.
        name: Box<str>,
    },
    /// The store is not as it was.
    Health(Health),
    /// Somebody writes there what does not count. It is told once of each.
    Stranger(Stranger),
}

/// Somebody whose entries do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stranger {
    /// Who it is by what it writes; `None` if it writes nothing of that kind.
    pub node: Option<[u8; 8]>,
    /// Its entries are replaced. Otherwise this process cannot tell whether it is itself the one that does not belong here.
    pub is_replaced: bool,
}

/// The leases of a process. Clones are the same leases.
#[derive(Clone)]
pub struct Leases(Arc<Inner>);

struct Inner {
    who: Who,
    times: LeaseTimes,
    started: Instant,
    state: Mutex<State>,
    /// There may be something to ask.
    wake: Notify,
    /// There may be something to tell.
    changed: Notify,
    /// An answer has come.
    settled: Notify,
}

struct State {
    leases: BTreeMap<Box<str>, Lease>,
    /// The fences that were told.
    told: BTreeMap<Box<str>, u64>,
    health: Health,
    told_health: Health,
    /// Those whose entries do not count, and those of them that were told.
    strangers: BTreeSet<Stranger>,
    told_strangers: BTreeSet<Stranger>,
    unanswered: u32,
    replicas: usize,
    /// The highest sequence that was seen.
    highest: u64,
    /// An answer had a sequence that was there before: the store was made again or comes from a backup.
    went_back: bool,
    /// The number of the next wish.
    wish: u64,
    seed: u64,
}

impl Leases {
    /// Creates the leases of a process, which holds none. [`Leases::run`] takes them. `seed` decides how long it waits before it tries
    /// again.
    pub fn new(who: Who, lease_time: Duration, seed: u64) -> Leases {
        let state = State {
            leases: BTreeMap::new(),
            told: BTreeMap::new(),
            health: Health::Opening,
            told_health: Health::Opening,
            strangers: BTreeSet::new(),
            told_strangers: BTreeSet::new(),
            unanswered: 0,
            replicas: 0,
            highest: 0,
            went_back: false,
            wish: 0,
            seed,
        };
        Leases(Arc::new(Inner {
            who,
            times: LeaseTimes::new(lease_time.as_millis() as u64),
            started: Instant::now(),
            state: Mutex::new(state),
            wake: Notify::new(),
            changed: Notify::new(),
            settled: Notify::new(),
        }))
    }

    /// Tries to take a lease from now on, and to keep it.
    pub fn want(&self, name: &str) {
        let now = self.now();
        let mut state = self.lock();
        let State { leases, wish, seed, .. } = &mut *state;
        *wish += 1;
        let own = seed.wrapping_add(wish.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let lease = leases.entry(name.into()).or_insert_with(|| Lease::new(self.0.who, self.0.times, own));
        lease.want(*wish, now);
        drop(state);
        self.0.wake.notify_one();
    }

    /// Gives a lease back, or stops trying to take it.
    pub fn release(&self, name: &str) {
        let now = self.now();
        if let Some(lease) = self.lock().leases.get_mut(name) {
            lease.release(now);
        }
        self.0.wake.notify_one();
        self.0.changed.notify_one();
    }

    /// Returns the fence and the end of the hold, if this process holds the lease.
    pub fn held(&self, name: &str) -> Option<(u64, Instant)> {
        let grant = self.lock().leases.get(name)?.held(self.now())?;
        Some((grant.fence, self.at(grant.until)))
    }

    /// Returns who holds a lease that this process wants, as far as it has read.
    pub fn holder(&self, name: &str) -> Option<Holder> {
        self.lock().leases.get(name)?.holder(self.now())
    }

    /// Returns how the store is.
    pub fn health(&self) -> Health {
        self.lock().health.clone()
    }

    /// Waits until something has changed that was not told yet.
    pub async fn changed(&self) -> Vec<Change> {
        loop {
            let changes = self.untold();
            if !changes.is_empty() {
                return changes;
            }
            self.0.changed.notified().await;
        }
    }

    /// Gives all leases back, and waits until the store has heard of it. It may never do so: whoever waits needs a bound.
    pub async fn stop(&self) {
        let now = self.now();
        self.lock().leases.values_mut().for_each(|lease| lease.release(now));
        self.0.wake.notify_one();
        self.0.changed.notify_one();
        while !self.lock().leases.values().all(Lease::is_idle) {
            self.0.settled.notified().await;
        }
    }

    /// Takes note of why the store cannot be opened.
    pub fn cannot_open(&self, error: &OpenError) {
        self.set_health(match error {
            OpenError::NoAnswer(reason) => Health::NoAnswer(reason.clone()),
            OpenError::Absent(reason) | OpenError::Settings(reason) => Health::Unusable(reason.clone()),
        });
    }

    /// Opens the store, and takes and keeps what is wanted. Never ends.
    pub async fn run(&self, bucket: &dyn Bucket, proof: &dyn Proof) {
        loop {
            match bucket.open().await {
                Ok(opened) => {
                    if self.is_new(&opened) {
                        self.set_health(Health::New);
                        sleep(Duration::from_millis(self.0.times.lease())).await;
                    }
                    self.lock().replicas = opened.replicas;
                    self.set_health(Health::Sound(opened.replicas));
                    self.serve(bucket, proof).await;
                }
                Err(error) => self.cannot_open(&error),
            }
            self.wait_to_open().await;
        }
    }

    /// Returns whether the store may have forgotten what it granted. Then nothing is held any more.
    fn is_new(&self, opened: &Opened) -> bool {
        let now = self.now();
        let mut state = self.lock();
        let is_new = opened.unused || state.went_back || opened.last < state.highest;
        if is_new {
            state.leases.values_mut().for_each(|lease| lease.store_is_new(now));
        }
        (state.went_back, state.highest) = (false, opened.last);
        is_new
    }

    /// Waits before the store is opened again, and tells what is lost meanwhile.
    async fn wait_to_open(&self) {
        let again = Instant::now() + AGAIN;
        while let Some(end) = self.next_end().filter(|end| *end < again) {
            sleep_until(end).await;
            self.0.changed.notify_one();
        }
        sleep_until(again).await;
    }

    /// Asks and takes answers until the store is gone.
    async fn serve(&self, bucket: &dyn Bucket, proof: &dyn Proof) {
        let (mut asked, mut is_gone) = (FuturesUnordered::new(), false);
        loop {
            if !is_gone {
                self.ask(bucket, proof, &mut asked);
            } else if asked.is_empty() {
                return;
            }
            let due = self.next_due(asked.len());
            tokio::select! {
                Some(answered) = asked.next(), if !asked.is_empty() => is_gone |= self.take(answered),
                () = sleep_until(due), if !is_gone => {}
                () = self.0.wake.notified(), if !is_gone => {}
            }
            self.0.changed.notify_one();
            self.0.settled.notify_one();
        }
    }

    fn ask<'a>(
        &self,
        bucket: &'a dyn Bucket,
        proof: &'a dyn Proof,
        asked: &mut FuturesUnordered<BoxFuture<'a, Answered>>,
    ) {
        let mut state = self.lock();
        let highest = state.highest;
        state.leases.retain(|_, lease| !lease.is_idle());
        for (name, lease) in &mut state.leases {
            if asked.len() >= MOST_ASKED {
                break;
            }
            // The clock is read for each request: a hold counted from too late a time would last too long.
            if let Some(request) = lease.next(self.now()) {
                asked.push(Box::pin(carry_out(bucket, proof, name.clone(), highest, request)));
            }
        }
    }

    /// Takes an answer. Returns whether the store is gone.
    fn take(&self, Answered { name, highest, answer }: Answered) -> bool {
        let error = match &answer {
            Answer::Published(Err(error)) | Answer::Last(Err(error)) | Answer::Deleted(Err(error)) => {
                Some(error.clone())
            }
            _ => None,
        };
        let now = self.now();
        let mut state = self.lock();
        // A server that has lost the others goes on answering what it read before: only what is new shows that a majority is there.
        let proves_majority = match &answer {
            Answer::Last(Ok(last)) => last.as_ref().is_some_and(|entry| entry.sequence > state.highest),
            _ => true,
        };
        match &answer {
            // Answers overtake each other, so it must be above what was seen when it was asked for.
            Answer::Published(Ok(sequence)) if *sequence <= highest => state.went_back = true,
            Answer::Published(Ok(sequence)) | Answer::Last(Ok(Some(Entry { sequence, .. }))) => {
                state.highest = state.highest.max(*sequence);
            }
            _ => {}
        }
        let State { leases, strangers, .. } = &mut *state;
        if let Some(lease) = leases.get_mut(&name) {
            let read = match &answer {
                Answer::Last(Ok(Some(entry))) => Some(entry.clone()),
                _ => None,
            };
            lease.answer(answer, now);
            let stranger = read.and_then(|entry| self.stranger(&entry, lease.replaces(now)));
            strangers.extend(stranger.filter(|_| strangers.len() < MOST_STRANGERS));
        }
        if state.went_back {
            state.leases.values_mut().for_each(|lease| lease.store_is_new(now));
            state.health = Health::New;
            return true;
        }
        state.unanswered = if matches!(error, Some(BucketError::NoAnswer(_))) { state.unanswered + 1 } else { 0 };
        match error {
            Some(BucketError::NoAnswer(reason)) if state.unanswered >= SILENCE => {
                state.health = Health::NoAnswer(reason)
            }
            Some(BucketError::NoAnswer(_)) => {}
            Some(BucketError::Refused(reason)) => state.health = Health::Unusable(reason),
            Some(BucketError::Gone(_)) => return true,
            Some(BucketError::OtherSequence) | None if proves_majority => state.health = Health::Sound(state.replicas),
            Some(BucketError::OtherSequence) | None => {}
        }
        false
    }

    /// Returns who wrote an entry, if that is to be told.
    fn stranger(&self, entry: &Entry, is_replaced: bool) -> Option<Stranger> {
        let is_told = is_replaced || entry.verdict == Verdict::Unsure;
        let node = entry.token.map(|token| token.who);
        (is_told && node != Some(self.0.who)).then(|| Stranger { node: node.map(|who| who.node), is_replaced })
    }

    /// Returns when something is due: a request, or the end of a hold that is to be told.
    fn next_due(&self, asked: usize) -> Instant {
        let due = self.lock().leases.values().filter_map(Lease::due).min().filter(|_| asked < MOST_ASKED);
        let far = Instant::now() + Duration::from_secs(3_600);
        due.map(|due| self.at(due)).into_iter().chain(self.next_end()).chain(self.next_begin()).fold(far, Instant::min)
    }

    /// Returns when the next hold begins without any further answer.
    fn next_begin(&self) -> Option<Instant> {
        let now = self.now();
        let begin = self.lock().leases.values().filter_map(|lease| lease.begins(now)).min();
        begin.map(|begin| self.at(begin))
    }

    /// Returns when the next hold ends that was told.
    fn next_end(&self) -> Option<Instant> {
        let now = self.now();
        let state = self.lock();
        let until = state.leases.values().filter_map(|lease| lease.held(now)).map(|grant| grant.until).min();
        until.map(|until| self.at(until))
    }

    fn untold(&self) -> Vec<Change> {
        let now = self.now();
        let mut state = self.lock();
        let State { leases, told, health, told_health, strangers, told_strangers, .. } = &mut *state;
        let held = |name: &str| leases.get(name).and_then(|lease| lease.held(now)).map(|grant| grant.fence);
        let lost: Vec<Box<str>> =
            told.extract_if(.., |name, fence| held(name) != Some(*fence)).map(|(name, _)| name).collect();
        let mut changes: Vec<Change> = lost.into_iter().map(|name| Change::Lost { name }).collect();
        for name in leases.keys() {
            if let Some(fence) = held(name)
                && !told.contains_key(name)
            {
                told.insert(name.clone(), fence);
                changes.push(Change::Taken { name: name.clone(), fence });
            }
        }
        if health != told_health {
            told_health.clone_from(health);
            changes.push(Change::Health(health.clone()));
        }
        changes.extend(strangers.difference(told_strangers).copied().map(Change::Stranger));
        told_strangers.clone_from(strangers);
        changes
    }

    fn set_health(&self, health: Health) {
        self.lock().health = health;
        self.0.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.0.started.elapsed().as_millis() as u64
    }

    fn at(&self, time: u64) -> Instant {
        self.0.started + Duration::from_millis(time)
    }
}

/// What came of a request for a lease.
struct Answered {
    name: Box<str>,
    /// The highest sequence that was seen when it was sent.
    highest: u64,
    answer: Answer,
}

async fn carry_out(bucket: &dyn Bucket, proof: &dyn Proof, name: Box<str>, highest: u64, request: Request) -> Answered {
    let answer = match request {
        Request::Publish { expected, value } => Answer::Published(match proof.prove(&name, &value) {
            Ok(proven) => {
                let value = [&value[..], b" ", proven.as_bytes()].concat();
                bucket.publish(&name, expected, value.into()).await
            }
            Err(reason) => Err(BucketError::Refused(reason)),
        }),
        Request::Last => {
            let last = bucket.last(&name).await;
            Answer::Last(last.map(|last| last.map(|stored| Entry::read(&stored, &name, proof))))
        }
        Request::Delete { sequence } => Answer::Deleted(bucket.delete(sequence).await),
    };
    Answered { name, highest, answer }
}

#[cfg(test)]
mod tests;
