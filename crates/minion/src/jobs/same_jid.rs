//! Jobs of several masters under one id.
//!
//! A job id is a time in microseconds, so two busy masters that do not coordinate sometimes give the same id to two
//! jobs. If the content of the second job differs from that of the first, it runs. If it is equal, the second master
//! gets the return of the first job. This is also right when two masters of a syndic pass on the same job.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use value::Map;
use wire::msgpack::{self, Packing};

use super::Publication;

/// How long the same id may still arrive from another master: the time for which publications may be in transit.
pub const APART: Duration = Duration::from_secs(10);

/// The largest number of remembered jobs.
const MOST: usize = 1000;

/// Sends the return of a job to the jobs with the same id that wait for it. When it is dropped, they stop waiting.
pub type ReturnSender = Arc<watch::Sender<Option<Arc<Map>>>>;

/// Receives the return of the first job with the same id.
pub type ReturnReceiver = watch::Receiver<Option<Arc<Map>>>;

/// The kind of a publication whose job id was seen before.
#[derive(Debug)]
pub enum Seen {
    /// The same job again.
    Copy,
    /// Another master's job that happens to have the same id.
    Another(ReturnSender),
    /// Another master's job with the same id and content. Its return is that of the first job.
    Twin(ReturnReceiver),
}

/// The jobs of the last seconds, and their returns.
#[derive(Debug, Default)]
pub struct SameJidJobs(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    jid: String,
    master: String,
    content: u64,
    at: Instant,
    return_sender: Weak<watch::Sender<Option<Arc<Map>>>>,
}

impl SameJidJobs {
    /// Notes a new job of a master.
    pub fn first(&self, job: &Publication, master: &str, now: Instant) -> ReturnSender {
        note(&mut self.entries(), job, master, now)
    }

    /// Returns the kind of a job whose id was seen before.
    pub fn again(&self, job: &Publication, master: &str, now: Instant) -> Seen {
        let mut entries = self.entries();
        let same = || entries.iter().filter(|entry| entry.jid == job.jid());
        // The same master never uses an id twice, so this is its own publication again.
        if same().next().is_none() || same().any(|entry| entry.master == master) {
            return Seen::Copy;
        }
        let content = content(job);
        let twin = same().find(|entry| entry.content == content).map(|entry| entry.return_sender.clone());
        let Some(return_sender) = twin else { return Seen::Another(note(&mut entries, job, master, now)) };
        entries.push_back(Entry::new(job, master, now, return_sender.clone()));
        // The first job has ended without a return: there is nothing to share.
        return_sender.upgrade().map_or(Seen::Copy, |return_sender| Seen::Twin(return_sender.subscribe()))
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        // Noting does not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(job: &Publication, master: &str, at: Instant, return_sender: Weak<watch::Sender<Option<Arc<Map>>>>) -> Self {
        Entry { jid: job.jid().to_owned(), master: master.to_owned(), content: content(job), at, return_sender }
    }
}

fn note(entries: &mut VecDeque<Entry>, job: &Publication, master: &str, now: Instant) -> ReturnSender {
    while entries.front().is_some_and(|entry| now.saturating_duration_since(entry.at) >= APART) || entries.len() >= MOST
    {
        entries.pop_front();
    }
    let return_sender = ReturnSender::new(watch::Sender::new(None));
    entries.push_back(Entry::new(job, master, now, Arc::downgrade(&return_sender)));
    return_sender
}

/// Returns a fingerprint of the functions and arguments.
fn content(job: &Publication) -> u64 {
    let mut hasher = DefaultHasher::new();
    for field in ["fun", "arg"] {
        job.load().get(field).map(|value| msgpack::pack(value, Packing::Bin)).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use value::{Value, map};

    use super::*;

    fn job(jid: &str, fun: &str, arg: &[&str]) -> Publication {
        let arg: Vec<Value> = arg.iter().map(|text| (*text).into()).collect();
        Publication::new(map! { "tgt" => "*", "jid" => jid, "fun" => fun, "arg" => Value::List(arg) }).unwrap()
    }

    #[test]
    fn one_masters_job_is_a_copy_another_masters_runs_or_shares_the_return() {
        let (same_jid, now) = (SameJidJobs::default(), Instant::now());
        let return_sender = same_jid.first(&job("1", "test.ping", &[]), "a", now);
        assert!(matches!(same_jid.again(&job("1", "test.ping", &[]), "a", now), Seen::Copy));
        assert!(
            matches!(same_jid.again(&job("2", "test.ping", &[]), "b", now), Seen::Copy),
            "long ago, or before a restart"
        );
        let Seen::Another(_echo) = same_jid.again(&job("1", "test.echo", &["x"]), "b", now) else {
            panic!("another job")
        };
        assert!(matches!(same_jid.again(&job("1", "test.echo", &["x"]), "b", now), Seen::Copy));
        let Seen::Twin(returned) = same_jid.again(&job("1", "test.ping", &[]), "c", now) else {
            panic!("the same job")
        };
        return_sender.send_replace(Some(Arc::new(map! { "return" => true })));
        assert!(returned.borrow().is_some());
        assert!(matches!(same_jid.again(&job("1", "test.ping", &[]), "c", now), Seen::Copy));
        let Seen::Twin(returned) = same_jid.again(&job("1", "test.echo", &["x"]), "d", now) else {
            panic!("the same echo")
        };
        assert!(returned.borrow().is_none(), "still running");
    }

    #[test]
    fn a_job_that_ended_without_a_return_has_none_to_share() {
        let (same_jid, now) = (SameJidJobs::default(), Instant::now());
        drop(same_jid.first(&job("1", "test.ping", &[]), "a", now));
        assert!(matches!(same_jid.again(&job("1", "test.ping", &[]), "b", now), Seen::Copy));
    }

    #[test]
    fn what_is_long_over_is_forgotten() {
        let (same_jid, now) = (SameJidJobs::default(), Instant::now());
        // Kept alive, like that of a job that still runs.
        let _long = same_jid.first(&job("1", "test.sleep", &[]), "a", now);
        let now = now + APART;
        let _next = same_jid.first(&job("2", "test.ping", &[]), "a", now);
        assert!(matches!(same_jid.again(&job("1", "test.echo", &[]), "b", now), Seen::Copy));
    }
}
