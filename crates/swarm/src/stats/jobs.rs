//! How the returns of each job came in.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::Histogram;

/// One job, as the swarm saw it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) jid: String,
    pub(crate) fun: String,
    /// When it was published, if that is known.
    pub(crate) published: Option<Instant>,
    /// When the first minion heard it.
    pub(crate) first_heard: Instant,
    /// From the first minion that heard it to each that did.
    pub(crate) heard: Histogram,
    /// Minions that were meant.
    pub(crate) meant: u64,
    /// From the minion that heard it to its acknowledged return.
    pub(crate) answered: Histogram,
    /// From the first minion that heard it to each acknowledged return.
    pub(crate) since_first: Histogram,
}

/// Jobs that are remembered as published.
const UNHEARD: usize = 16;

/// The latest jobs, each, and all together.
#[derive(Debug)]
pub(crate) struct Jobs {
    kept: usize,
    by_jid: HashMap<String, Job>,
    order: VecDeque<String>,
    /// Jobs that are published and of which no minion has heard.
    unheard: VecDeque<(String, Instant)>,
    /// How many there were.
    pub(crate) seen: u64,
    /// From hearing to the acknowledged return, of all jobs.
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

    /// A job was published. Minions may have heard of it by now.
    pub(crate) fn published(&mut self, jid: &str, at: Instant) {
        match self.by_jid.get_mut(jid) {
            Some(job) => job.published = Some(at),
            None => {
                self.unheard.push_front((jid.to_owned(), at));
                self.unheard.truncate(UNHEARD);
            }
        }
    }

    /// A minion has heard of a job.
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

    /// A return was acknowledged, so long after its minion heard of the job.
    pub(crate) fn returned(&mut self, jid: &str, took: Duration) {
        self.answered.record(took);
        if let Some(job) = self.by_jid.get_mut(jid) {
            job.answered.record(took);
            job.since_first.record(job.first_heard.elapsed());
        }
    }

    /// The latest jobs, oldest first.
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
