//! Times of receipts and returns, per job.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::Histogram;

/// A job as seen by the swarm.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) jid: String,
    pub(crate) fun: String,
    /// The time of publication, if known.
    pub(crate) published: Option<Instant>,
    /// The time at which the first minion received it.
    pub(crate) first_heard: Instant,
    /// From the first receipt to each receipt.
    pub(crate) heard: Histogram,
    /// The number of minions whose target matched.
    pub(crate) meant: u64,
    /// From a minion's receipt to its acknowledged return.
    pub(crate) answered: Histogram,
    /// From the first receipt to each acknowledged return.
    pub(crate) since_first: Histogram,
}

/// The maximum number of published jobs that no minion has received yet.
const UNHEARD: usize = 16;

/// The latest jobs individually, and the times of all jobs together.
#[derive(Debug)]
pub(crate) struct Jobs {
    kept: usize,
    by_jid: HashMap<String, Job>,
    order: VecDeque<String>,
    /// Published jobs that no minion has received.
    unheard: VecDeque<(String, Instant)>,
    /// The number of received jobs.
    pub(crate) seen: u64,
    /// From receipt to acknowledged return, for all jobs.
    pub(crate) answered: Histogram,
}

impl Jobs {
    pub(crate) fn new(kept: usize) -> Self {
        Jobs {
            kept: kept.max(1),
            by_jid: HashMap::new(),
            order: VecDeque::new(),
            unheard: VecDeque::new(),
            seen: 0,
            answered: Histogram::default(),
        }
    }

    /// Records the publication of a job, which minions may have received already.
    pub(crate) fn published(&mut self, jid: &str, at: Instant) {
        match self.by_jid.get_mut(jid) {
            Some(job) => job.published = Some(at),
            // The job exists already if minions received it before the master's answer told its id.
            None => {
                self.unheard.push_front((jid.to_owned(), at));
                self.unheard.truncate(UNHEARD);
            }
        }
    }

    /// Records that a minion received a job.
    pub(crate) fn heard(&mut self, jid: &str, fun: &str, meant: bool) {
        let now = Instant::now();
        if !self.by_jid.contains_key(jid) {
            self.begin(jid, fun, now);
        }
        if let Some(job) = self.by_jid.get_mut(jid) {
            job.heard.record(now - job.first_heard);
            job.meant += u64::from(meant);
        }
    }

    fn begin(&mut self, jid: &str, fun: &str, now: Instant) {
        self.seen += 1;
        if self.order.len() == self.kept
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_jid.remove(&oldest);
        }
        self.order.push_back(jid.to_owned());
        let job = Job {
            jid: jid.to_owned(),
            fun: fun.to_owned(),
            published: self.unheard.iter().find(|(unheard, _)| unheard == jid).map(|(_, at)| *at),
            first_heard: now,
            heard: Histogram::default(),
            meant: 0,
            answered: Histogram::default(),
            since_first: Histogram::default(),
        };
        self.by_jid.insert(jid.to_owned(), job);
    }

    /// Records an acknowledged return, and the time since its minion received the job.
    pub(crate) fn returned(&mut self, jid: &str, took: Duration) {
        // Also for jobs that are no longer kept individually: a late return still counts in the total.
        self.answered.record(took);
        if let Some(job) = self.by_jid.get_mut(jid) {
            job.answered.record(took);
            job.since_first.record(job.first_heard.elapsed());
        }
    }

    /// Returns the latest jobs, oldest first.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Job> {
        self.order.iter().filter_map(|jid| self.by_jid.get(jid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn returns_are_timed_from_each_and_from_the_first_receipt() {
        let mut jobs = Jobs::new(5);
        jobs.heard("1", "test.ping", true);
        tokio::time::advance(10 * MILLI).await;
        jobs.heard("1", "test.ping", true);
        jobs.heard("1", "test.ping", false);
        tokio::time::advance(5 * MILLI).await;
        jobs.returned("1", 5 * MILLI);
        let job = jobs.each().next().unwrap();
        assert_eq!((job.heard.count(), job.meant, job.answered.count()), (3, 2, 1));
        assert_eq!(job.heard.quantile(1.0), Some(10 * MILLI));
        assert_eq!((job.answered.quantile(1.0), job.since_first.quantile(1.0)), (Some(5 * MILLI), Some(15 * MILLI)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_may_be_received_before_its_publication_is_known() {
        let mut jobs = Jobs::new(5);
        let published = Instant::now();
        jobs.published("1", published);
        tokio::time::advance(MILLI).await;
        jobs.heard("1", "test.ping", true);
        jobs.heard("2", "test.ping", true);
        jobs.published("2", published);
        assert!(jobs.each().all(|job| job.published == Some(published)));
    }

    #[tokio::test]
    async fn only_the_latest_jobs_are_reported_individually() {
        let mut jobs = Jobs::new(2);
        for jid in ["1", "2", "3"] {
            jobs.heard(jid, "test.ping", true);
            jobs.returned(jid, MILLI);
        }
        jobs.returned("1", MILLI);
        assert_eq!(jobs.each().map(|job| job.jid.as_str()).collect::<Vec<_>>(), ["2", "3"]);
        assert_eq!((jobs.seen, jobs.answered.count()), (3, 4));
    }
}
