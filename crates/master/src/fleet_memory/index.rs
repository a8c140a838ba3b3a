//! The ids of all jobs in the job cache, in their order, and when each was last heard of.
//!
//! It is read from the job cache when somebody asks for the first time. From then on the events of jobs add to it. It may have ids
//! of jobs that are not kept, or not any more: the job cache says so when one is looked at.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use wire::Jid;

use super::Refused;
use crate::Stores;

/// The most ids in memory. Older jobs are not listed.
const MOST: usize = 500_000;

/// The most jobs of which it is known when the last return came.
const MOST_HEARD: usize = 10_000;

/// The most jobs whose returns are counted, and the most ids of minions in these counts.
const MOST_TALLIES: usize = 2048;
const MOST_MISSING: usize = 500_000;

/// How far clocks may differ. Later ids are not listed: they would stay above all others.
const AHEAD: Duration = Duration::from_secs(60 * 60);

/// The returns of a job, as they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Minions that are to return.
    pub expected: usize,
    /// Minions that have returned.
    pub returned: usize,
    /// Minions that have returned a failure.
    pub failed: usize,
    /// Minions that have not returned.
    pub missing: Vec<String>,
    /// When the last return had come.
    pub heard: Option<SystemTime>,
}

/// The ids of jobs.
#[derive(Default)]
pub struct Index {
    content: Mutex<IndexContent>,
    /// One at a time reads the job cache, and nobody waits on a thread.
    loading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct IndexContent {
    ids: BTreeSet<Box<str>>,
    state: State,
    /// When the last return of a job came.
    heard: HashMap<Box<str>, SystemTime>,
    tallies: HashMap<Box<str>, Arc<Tally>>,
    missing: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Nobody has asked yet.
    #[default]
    Idle,
    /// The job cache is being read, and events are noted already.
    Loading,
    Loaded,
}

impl Index {
    fn content(&self) -> MutexGuard<'_, IndexContent> {
        // Each change is complete or has not happened.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the id of a job, unless it is one of the future.
    pub fn add(&self, jid: &str, now: SystemTime) {
        let mut content = self.content();
        if content.state == State::Idle || is_of_the_future(jid, now) || content.ids.contains(jid) {
            return;
        }
        content.ids.insert(jid.into());
        if content.ids.len() > MOST {
            content.ids.pop_first();
        }
    }

    /// Returns whether somebody has asked for jobs, and this one is not known.
    pub fn lacks(&self, jid: &str) -> bool {
        let content = self.content();
        content.state != State::Idle && !content.ids.contains(jid)
    }

    /// Notes when a return came.
    pub fn returned(&self, jid: &str, at: SystemTime) {
        let mut content = self.content();
        if content.heard.len() >= MOST_HEARD && !content.heard.contains_key(jid) {
            content.heard.clear();
        }
        content.heard.insert(jid.into(), at);
    }

    /// Forgets all: the job cache is read again when somebody asks.
    pub fn forget(&self) {
        let mut content = self.content();
        let state = if content.state == State::Loading { State::Loading } else { State::Idle };
        *content = IndexContent { state, ..IndexContent::default() };
    }

    /// Forgets a job that the job cache does not have.
    pub fn remove(&self, jid: &str) {
        self.content().ids.remove(jid);
    }

    /// Reads the job cache, unless that has happened.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn load(&self, stores: &Arc<Stores>) -> Result<(), Refused> {
        let _turn = self.loading.lock().await;
        {
            let mut content = self.content();
            if content.state == State::Loaded {
                return Ok(());
            }
            content.state = State::Loading;
        }
        let jobs = stores.jobs.clone();
        let read = stores.rt.blocking(move || {
            let ids = jobs.ids()?;
            Ok::<_, store::Error>(ids.into_iter().map(String::into_boxed_str).collect::<Vec<_>>())
        });
        let read = match read.await {
            Ok(Ok(ids)) => Ok(ids),
            Ok(Err(error)) => Err(Refused::unreadable(&error)),
            Err(error) => Err(Refused::unreadable(&error)),
        };
        let (mut content, now) = (self.content(), stores.rt.now());
        match read {
            Ok(ids) => {
                content.ids.extend(ids.into_iter().filter(|jid| !is_of_the_future(jid, now)));
                while content.ids.len() > MOST {
                    content.ids.pop_first();
                }
                content.state = State::Loaded;
                Ok(())
            }
            Err(refused) => {
                content.state = State::Idle;
                Err(refused)
            }
        }
    }

    /// Returns ids before another one, the latest first.
    pub fn before(&self, cursor: Option<&str>, count: usize) -> Vec<Box<str>> {
        let content = self.content();
        let end = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        content.ids.range::<str, _>((Bound::Unbounded, end)).rev().take(count).cloned().collect()
    }

    /// Returns when the last return of a job came, if that is known.
    pub fn heard(&self, jid: &str) -> Option<SystemTime> {
        self.content().heard.get(jid).copied()
    }

    /// Returns the counts of a job, as they were.
    pub fn tally(&self, jid: &str) -> Option<Arc<Tally>> {
        self.content().tallies.get(jid).cloned()
    }

    /// Keeps the counts of a job.
    pub fn keep(&self, jid: &str, tally: Arc<Tally>) {
        let mut content = self.content();
        let more = tally.missing.len();
        if content.tallies.len() >= MOST_TALLIES || content.missing + more > MOST_MISSING {
            content.tallies.clear();
            content.missing = 0;
        }
        if more <= MOST_MISSING {
            let before = content.tallies.insert(jid.into(), tally).map_or(0, |before| before.missing.len());
            content.missing = content.missing.saturating_sub(before) + more;
        }
    }
}

/// Returns whether an id sorts behind those of now. It need not be a time.
fn is_of_the_future(jid: &str, now: SystemTime) -> bool {
    jid > Jid::at(now + AHEAD).as_str()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn of(index: &Index, cursor: Option<&str>, count: usize) -> Vec<String> {
        index.before(cursor, count).into_iter().map(String::from).collect()
    }

    #[test]
    fn ids_come_from_the_latest_on() {
        let (index, now) = (Index::default(), Jid::new("20261126170000000000").unwrap().time().unwrap());
        index.add("20261126160511953300", now);
        assert_eq!(of(&index, None, 9), [""; 0], "nobody has asked");
        index.content().state = State::Loaded;
        for jid in ["20261126160511953300", "20261126160511953301_7", "20261126160511953302"] {
            index.add(jid, now);
        }
        for future in ["20991126160511953300", "99999999999999999999", "20261127000000000000_7"] {
            index.add(future, now);
        }
        let all = ["20261126160511953302", "20261126160511953301_7", "20261126160511953300"];
        assert_eq!(of(&index, None, 9), all);
        assert_eq!(of(&index, None, 1), all[..1]);
        assert_eq!(of(&index, Some(all[0]), 9), all[1..]);
        assert_eq!(of(&index, Some("20261126160511953301"), 9), all[2..]);
        assert_eq!(of(&index, Some("2"), 9), [""; 0]);
    }

    #[test]
    fn what_was_missed_is_read_again() {
        let (index, now) = (Index::default(), Jid::new("20261126170000000000").unwrap().time().unwrap());
        index.content().state = State::Loaded;
        assert!(index.lacks("20261126160511953300"));
        index.add("20261126160511953300", now);
        assert!(!index.lacks("20261126160511953300"));
        index.returned("20261126160511953300", now);
        assert_eq!(index.heard("20261126160511953300"), Some(now));
        index.forget();
        assert!(index.content().state == State::Idle);
        assert_eq!(index.heard("20261126160511953300"), None);
        index.content().state = State::Loading;
        index.forget();
        assert!(index.content().state == State::Loading, "who reads the job cache goes on");
    }

    #[test]
    fn the_memory_is_bounded() {
        let index = Index::default();
        for number in 0..=MOST_HEARD {
            index.returned(&number.to_string(), UNIX_EPOCH);
        }
        assert_eq!(index.content().heard.len(), 1);
        for number in 0..=MOST_TALLIES {
            let missing = vec!["a".to_owned(); 10];
            index.keep(&number.to_string(), Arc::new(Tally { missing, ..Tally::default() }));
        }
        let size = |index: &Index| {
            let content = index.content();
            (content.tallies.len(), content.missing)
        };
        assert_eq!(size(&index), (1, 10));
        index.keep("x", Arc::new(Tally { missing: vec![String::new(); MOST_MISSING + 1], ..Tally::default() }));
        assert_eq!(size(&index), (0, 0));
    }
}
