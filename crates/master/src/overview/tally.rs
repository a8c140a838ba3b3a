//! How many minions of a job have returned, and how.

use std::sync::Arc;
use std::time::Duration;

use store::jobs::{JobCache, JobReturn};
use value::{Map, Value, map};
use wire::{Jid, MinionId};

use super::Refused;
use crate::Shared;
use crate::fleet_memory::Tally;
use crate::open_jobs::ledger::Progress;

/// For how long minions that have not returned may still begin, if nothing is known of them: Salt minions confirm nothing.
const FRESH: Duration = Duration::from_secs(60);

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    expected: usize,
    returned: usize,
    failed: usize,
    running: usize,
    silent: usize,
}

impl Counts {
    /// Returns the word for it.
    pub fn state(&self) -> &'static str {
        match (self.running, self.failed + self.silent) {
            (0, 0) => "done",
            (0, _) => "failed",
            _ => "running",
        }
    }

    /// Returns the answer's form.
    pub fn to_map(self) -> Map {
        map! {
            "expected" => self.expected, "returned" => self.returned, "failed" => self.failed,
            "running" => self.running, "silent" => self.silent,
        }
    }
}

/// Returns whether a return is that of a failure.
pub fn has_failed(returned: &JobReturn) -> bool {
    let code = returned.retcode.as_ref().is_some_and(Value::truthy);
    code || returned.success.as_ref().and_then(Value::as_bool) == Some(false)
}

/// Counts the returns of a job. Only minions that had not returned before are looked at. Also returns the number of looks at the
/// job cache.
///
/// # Errors
/// When the job cache cannot be read.
pub fn count(shared: &Shared, jid: &str, expected: Vec<String>) -> Result<(Arc<Tally>, usize), Refused> {
    let index = &shared.fleet_memory.index;
    // Before the returns: one that comes meanwhile is counted at the next time.
    let heard = index.heard(jid);
    let before = index.tally(jid).filter(|before| before.expected == expected.len());
    if let Some(before) = &before
        && before.heard == heard
    {
        return Ok((before.clone(), 0));
    }
    let known = match before {
        Some(before) => (*before).clone(),
        None => Tally { expected: expected.len(), missing: expected, ..Tally::default() },
    };
    let looks = known.missing.len();
    let tally = Arc::new(further(&shared.stores.jobs, jid, Tally { heard, ..known })?);
    index.keep(jid, tally.clone());
    Ok((tally, looks))
}

/// Looks for the returns that were missing.
fn further(jobs: &JobCache, jid: &str, mut tally: Tally) -> Result<Tally, Refused> {
    let mut missing = Vec::new();
    for id in std::mem::take(&mut tally.missing) {
        let returned = match MinionId::new(id.as_str()) {
            Ok(minion) => jobs.return_of(jid, &minion).map_err(|error| Refused::unreadable(&error))?,
            Err(_) => None,
        };
        match returned {
            Some(returned) => {
                tally.returned += 1;
                tally.failed += usize::from(has_failed(&returned));
            }
            None => missing.push(id),
        }
    }
    tally.missing = missing;
    Ok(tally)
}

/// Returns the minions that have not returned and may still do so, in the order of their ids.
pub fn running<'a>(shared: &Shared, jid: &str, tally: &'a Tally) -> Vec<&'a str> {
    let began = Jid::new(jid).ok().and_then(|jid| jid.time());
    let age = began.and_then(|began| shared.stores.rt.now().duration_since(began).ok());
    let is_fresh = age.is_some_and(|age| age < FRESH);
    let report = if is_fresh || tally.missing.is_empty() { None } else { shared.open_jobs.job(jid) };
    let is_running = |id: &str| {
        report.as_ref().is_some_and(|report| {
            let place = report.targets.binary_search_by(|(known, _)| known.as_str().cmp(id));
            place.is_ok_and(|at| matches!(report.targets[at].1, Progress::Received | Progress::Started))
        })
    };
    let missing = tally.missing.iter().map(String::as_str);
    let mut running: Vec<&str> = missing.filter(|id| is_fresh || is_running(id)).collect();
    running.sort_unstable();
    running
}

/// Says how many of the minions that have not returned may still do so.
pub fn counts(shared: &Shared, jid: &str, tally: &Tally) -> Counts {
    let running = running(shared, jid, tally).len();
    let (expected, returned, failed) = (tally.expected, tally.returned, tally.failed);
    Counts { expected, returned, failed, running, silent: tally.missing.len() - running }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(failed: usize, running: usize, silent: usize) -> Counts {
        Counts { expected: 9, returned: 9 - running - silent, failed, running, silent }
    }

    #[test]
    fn a_job_runs_until_nobody_may_return() {
        for (counts, state) in [
            (counts(0, 0, 0), "done"),
            (counts(1, 0, 0), "failed"),
            (counts(0, 0, 1), "failed"),
            (counts(1, 1, 1), "running"),
            (counts(0, 9, 0), "running"),
        ] {
            assert_eq!(counts.state(), state, "{counts:?}");
        }
    }

    #[test]
    fn code_and_flag_tell_of_a_failure() {
        let of = |retcode: Option<i64>, success: Option<bool>| {
            let returned = JobReturn {
                retcode: retcode.map(Value::from),
                success: success.map(Value::from),
                ..JobReturn::default()
            };
            has_failed(&returned)
        };
        assert!(of(Some(1), Some(true)) && of(Some(0), Some(false)) && of(None, Some(false)) && of(Some(2), None));
        assert!(!of(Some(0), Some(true)) && !of(None, None) && !of(None, Some(true)));
    }

    #[test]
    fn only_missing_returns_are_looked_for() {
        let place = tempfile::tempdir().unwrap();
        let jobs = JobCache::new(place.path(), crypto::HashType::Sha256);
        let (jid, ids) = ("20261126160511953300", ["web1", "web2", "not an id/"]);
        jobs.prepare(jid, false).unwrap();
        let returned = |retcode: i64| JobReturn { retcode: Some(retcode.into()), ..JobReturn::default() };
        jobs.store_return(jid, &MinionId::new("web1").unwrap(), &returned(1)).unwrap();
        let first = Tally { expected: 3, missing: ids.map(str::to_owned).to_vec(), ..Tally::default() };
        let tally = further(&jobs, jid, first).unwrap();
        assert_eq!((tally.returned, tally.failed, tally.missing.len()), (1, 1, 2));
        jobs.store_return(jid, &MinionId::new("web2").unwrap(), &returned(0)).unwrap();
        let tally = further(&jobs, jid, tally).unwrap();
        assert_eq!((tally.returned, tally.failed, tally.missing), (2, 1, vec!["not an id/".to_owned()]));
    }
}
