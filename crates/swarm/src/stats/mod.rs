//! Counters and times, shared by all minions.

mod histogram;
mod jobs;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

pub use histogram::{Histogram, Summary};
pub(crate) use jobs::{Job, Jobs};

/// The requests to a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// `_auth`
    SignIn,
    /// `_return`
    Return,
    /// `_pillar`, which carries the grains.
    Pillar,
    /// `_file_hash`
    FileHash,
    /// `_serve_file`: one piece of a file.
    FileChunk,
    /// `_minion_event`
    Event,
    /// `saltern_missed`, between Saltern minions and Saltern masters.
    Missed,
    /// Subscribing to the master's publications, and staying subscribed. Not a request, but it may fail like one.
    Subscribe,
    /// Decrypting a publication. Not a request either.
    Publication,
}

/// The state of the swarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Minions that have started.
    pub begun: u64,
    /// Minions that have signed in at least once.
    pub signed_in: u64,
    /// Minions that have completed their first requests after signing in: the start event, the pillar and the files.
    pub ready: u64,
    /// Minions that are subscribed now.
    pub connected: u64,
    /// Minions that have left and are not back yet.
    pub away: u64,
    /// Answered sign-ins.
    pub sign_ins: u64,
    /// Publications received, by all minions together.
    pub heard: u64,
    /// Returns that were acknowledged.
    pub returns: u64,
    /// Requests that were answered, of all kinds.
    pub answered: u64,
    /// Failures of all kinds.
    pub errors: u64,
}

/// Requests of a type: their number and their times.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// From sending to the decrypted answer.
    pub(crate) took: Histogram,
    /// Fetched bytes, for types that count them.
    pub(crate) bytes: u64,
}

/// Failures of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    pub(crate) count: u64,
    /// The message of the latest one.
    pub(crate) last: String,
}

/// All numbers of a swarm.
pub(crate) struct Stats {
    pub(crate) began: Instant,
    /// The same in seconds since 1970.
    pub(crate) began_at: f64,
    counts: watch::Sender<Counts>,
    /// The time of the latest first sign-in, in milliseconds after the start.
    last_first: AtomicU64,
    all_first: AtomicU64,
    requests: Mutex<BTreeMap<Request, Requests>>,
    failures: Mutex<BTreeMap<(Request, &'static str), Failures>>,
    /// From a minion's first attempt to its keys.
    first_sign_ins: Mutex<Histogram>,
    jobs: Mutex<Jobs>,
}

impl Stats {
    pub(crate) fn new(jobs_kept: usize) -> Self {
        Stats {
            began: Instant::now(),
            began_at: UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64(),
            counts: watch::Sender::new(Counts::default()),
            last_first: AtomicU64::default(),
            all_first: AtomicU64::default(),
            requests: Mutex::default(),
            failures: Mutex::default(),
            first_sign_ins: Mutex::default(),
            jobs: Mutex::new(Jobs::new(jobs_kept)),
        }
    }

    /// Returns the state of the swarm and its changes.
    pub(crate) fn counts(&self) -> watch::Receiver<Counts> {
        self.counts.subscribe()
    }

    pub(crate) fn now(&self) -> Counts {
        *self.counts.borrow()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    /// Records an answered request.
    pub(crate) fn answered(&self, request: Request, took: Duration) {
        lock(&self.requests).entry(request).or_default().took.record(took);
        self.count(|counts| {
            counts.answered += 1;
            match request {
                Request::SignIn => counts.sign_ins += 1,
                Request::Return => counts.returns += 1,
                _ => {}
            }
        });
    }

    /// Records received bytes of a file.
    pub(crate) fn fetched(&self, request: Request, bytes: usize) {
        lock(&self.requests).entry(request).or_default().bytes += bytes as u64;
    }

    /// Records a failure.
    pub(crate) fn failed(&self, request: Request, kind: &'static str, text: String) {
        let mut failures = lock(&self.failures);
        let failure = failures.entry((request, kind)).or_default();
        (failure.count, failure.last) = (failure.count + 1, text);
        // Before the counters change, which wakes tasks that may look at the failures.
        drop(failures);
        self.count(|counts| counts.errors += 1);
    }

    /// Records a minion's first keys, and the time since its first attempt.
    pub(crate) fn first_sign_in(&self, took: Duration, minions: usize) {
        lock(&self.first_sign_ins).record(took);
        let now = self.began.elapsed().as_millis() as u64;
        // The maximum, because another thread may have read the clock later and be here earlier.
        self.last_first.fetch_max(now, Ordering::Relaxed);
        let mut all = false;
        self.count(|counts| {
            counts.signed_in += 1;
            all = counts.signed_in == minions as u64;
        });
        if all {
            // 0 means “not yet”.
            self.all_first.store(now.max(1), Ordering::Relaxed);
        }
    }

    /// Returns the time from the start until all minions had signed in; `None` while some have not.
    pub(crate) fn all_signed_in(&self) -> Option<Duration> {
        let millis = self.all_first.load(Ordering::Relaxed);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Returns the time from the start to the latest first sign-in.
    pub(crate) fn last_signed_in(&self) -> Duration {
        Duration::from_millis(self.last_first.load(Ordering::Relaxed))
    }

    pub(crate) fn first_sign_ins(&self) -> Summary {
        lock(&self.first_sign_ins).summary()
    }

    pub(crate) fn requests(&self) -> MutexGuard<'_, BTreeMap<Request, Requests>> {
        lock(&self.requests)
    }

    pub(crate) fn failures(&self) -> MutexGuard<'_, BTreeMap<(Request, &'static str), Failures>> {
        lock(&self.failures)
    }

    pub(crate) fn jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_until_all_have_signed_in_is_that_of_the_last() {
        let stats = Stats::new(1);
        tokio::time::advance(Duration::from_secs(1)).await;
        stats.first_sign_in(Duration::from_millis(5), 2);
        assert_eq!((stats.all_signed_in(), stats.last_signed_in()), (None, Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        stats.first_sign_in(Duration::from_millis(7), 2);
        assert_eq!(stats.all_signed_in(), Some(Duration::from_secs(2)));
        assert_eq!(stats.now().signed_in, 2);
    }

    #[test]
    fn failures_are_counted_by_kind_and_keep_their_last_words() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let stats = Stats::new(1);
        stats.failed(Request::Return, "timeout", "first".into());
        stats.failed(Request::Return, "timeout", "second".into());
        stats.failed(Request::SignIn, "timeout", "third".into());
        let failures = stats.failures();
        let returns = &failures[&(Request::Return, "timeout")];
        assert_eq!((returns.count, returns.last.as_str(), failures.len()), (2, "second", 2));
        assert_eq!(stats.now().errors, 3);
    }
}
