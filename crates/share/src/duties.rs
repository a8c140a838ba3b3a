//! Duties: what the set does once at each of its occasions, such as a run of an entry of the schedule.
//!
//! A member does it while it holds the lease of the duty. The claim of an occasion makes the next holder skip what is done.

use std::collections::BTreeMap;

use crate::votes::{ClaimError, begin_claim, claim_key};
use crate::{Content, Key, Node, Record, Stamp};

/// Runs at shorter intervals make no claims, in milliseconds: there is room for 100,000 claims of a day.
const LEAST_CLAIMED: u64 = 60_000;

/// An occasion of a duty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occasion {
    /// The duty, such as the name of an entry of the schedule.
    pub duty: String,
    /// When it is due, in seconds since 1970.
    pub due: u64,
    /// The milliseconds between two runs, if each member counts them from a start of its own.
    pub interval: Option<u64>,
    /// What was begun and has not ended may be begun by another member.
    pub rerun: bool,
}

/// Why an occasion is skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// Somebody claims it.
    #[error("{0}")]
    Claimed(#[from] ClaimError),
    /// Another member counts the interval from another moment, and ran it a short time ago.
    #[error("{0:?} ran it less than an interval ago")]
    RanElsewhere(Node),
}

impl Occasion {
    fn is_claimed(&self) -> bool {
        self.interval.is_none_or(|interval| interval >= LEAST_CLAIMED)
    }

    /// Returns the key of its claim; `None` if it makes none.
    ///
    /// # Errors
    /// If the duty has a name that no key can have.
    pub fn key(&self) -> Result<Option<Key>, ClaimError> {
        self.is_claimed().then(|| claim_key(&self.duty, &self.due.to_string())).transpose()
    }

    /// Returns the claim with which the member of the stamp begins; `None` if it begins without one. `known` is the claim that
    /// counts so far, `now` the steady clock of this member in milliseconds.
    ///
    /// # Errors
    /// Why it must not begin.
    pub fn begin(
        &self,
        known: Option<&Record>,
        runs: &LastRuns,
        begun: Stamp,
        now: u64,
    ) -> Result<Option<Record>, Skipped> {
        let Some(key) = self.key()? else { return Ok(None) };
        if let Some(interval) = self.interval
            // Runs begin a little late, and those of others are heard of a little later.
            && let Some(node) = runs.of_another(&key, begun.node, now as i64 - (interval / 10 * 9) as i64)
        {
            return Err(Skipped::RanElsewhere(node));
        }
        Ok(Some(begin_claim(&key, known, begun, self.rerun)?))
    }
}

/// When each member began each duty last, as far as claims say.
#[derive(Clone, Debug, Default)]
pub struct LastRuns(BTreeMap<String, BTreeMap<Node, LastRun>>);

#[derive(Clone, Copy, Debug)]
struct LastRun {
    /// In milliseconds since 1970, by the clock of the member that began it.
    begun: u64,
    /// By the steady clock of this member, in milliseconds; negative if that was before its start.
    at: i64,
}

impl LastRuns {
    /// Takes note of a record, if it is a claim. `since` is when this version of it became known to the members, by the steady clock
    /// of this one in milliseconds: clocks of hosts may be wrong by more than the interval of a duty.
    pub fn note(&mut self, record: &Record, since: i64) {
        let (Content::Claim(claim), Some((duty, _))) = (&record.content, record.key.parts()) else { return };
        let took = claim.done.map_or(0, |done| done.saturating_sub(claim.begun));
        let at = since.saturating_sub(i64::try_from(took).unwrap_or(i64::MAX));
        let run = LastRun { begun: claim.begun, at };
        // There are not more of them than claims, and those have a bound.
        let members = self.0.entry(duty.to_owned()).or_default();
        match members.get_mut(&claim.node) {
            Some(last) if last.at < at && last.begun != run.begun => *last = run,
            Some(_) => {}
            None => drop(members.insert(claim.node, run)),
        }
    }

    /// Returns a member that has begun the duty of a claim after a moment of the steady clock, and is not this one.
    fn of_another(&self, claim: &Key, this: Node, after: i64) -> Option<Node> {
        // Not only who began it last: after a start with a clock that is behind, the own runs of before may seem to be the latest.
        let members = self.0.get(claim.parts()?.0)?;
        members.iter().find(|(node, run)| **node != this && run.at > after).map(|(node, _)| *node)
    }

    /// Returns who began a duty last, and when by its clock, in milliseconds since 1970.
    pub fn of_duty(&self, duty: &str) -> Option<(Node, u64)> {
        let key = claim_key(duty, "0").ok()?;
        let last = self.0.get(key.parts()?.0)?.iter().max_by_key(|(_, run)| run.at)?;
        Some((*last.0, last.1.begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::votes::finish_claim;

    const ME: Node = Node([1; 8]);
    const OTHER: Node = Node([2; 8]);

    fn at(seconds: u64, node: Node) -> Stamp {
        Stamp { time: (seconds * 1_000) << 16, node }
    }

    fn occasion(due: u64, interval: Option<u64>) -> Occasion {
        Occasion { duty: "a/b".into(), due, interval, rerun: false }
    }

    #[test]
    fn what_another_member_has_begun_or_done_at_a_time_of_day_is_skipped() {
        let (runs, due) = (LastRuns::default(), occasion(100, None));
        let claim = due.begin(None, &runs, at(100, OTHER), 0).unwrap().unwrap();
        let skipped = |known: &Record, due: &Occasion| due.begin(Some(known), &runs, at(111, ME), 0).unwrap_err();
        assert_eq!(skipped(&claim, &due), Skipped::Claimed(ClaimError::Begun(OTHER)));
        let done = finish_claim(&claim, 101_000);
        assert_eq!(skipped(&done, &due), Skipped::Claimed(ClaimError::Done(OTHER)));
        let again = Occasion { rerun: true, ..due };
        assert!(again.begin(Some(&claim), &runs, at(111, ME), 0).is_ok(), "it was not done");
        assert_eq!(skipped(&done, &again), Skipped::Claimed(ClaimError::Done(OTHER)));
        assert_ne!(occasion(160, None).key(), again.key());
    }

    #[test]
    fn an_interval_is_kept_over_a_change_of_the_member_that_runs() {
        let mut runs = LastRuns::default();
        let every = |due| occasion(due, Some(60_000));
        let claim = every(100).begin(None, &runs, at(100, OTHER), 7_000).unwrap().unwrap();
        runs.note(&claim, 7_000);
        assert_eq!(runs.of_duty("a/b"), Some((OTHER, 100_000)));
        assert_eq!(every(111).begin(None, &runs, at(111, ME), 18_000), Err(Skipped::RanElsewhere(OTHER)));
        assert!(every(111).begin(None, &runs, at(111, OTHER), 18_000).is_ok(), "as after a restart of a single master");
        let next = every(171).begin(None, &runs, at(171, ME), 78_000).unwrap().unwrap();
        runs.note(&next, 78_000);
        // What arrives late does not count as the last one.
        runs.note(&claim, 7_000);
        assert_eq!(runs.of_duty("a/b"), Some((ME, 171_000)));
    }

    #[test]
    fn clocks_of_hosts_do_not_matter_for_intervals() {
        let every = |due| occasion(due, Some(60_000));
        for wrong in [-3_600, 3_600] {
            let mut runs = LastRuns::default();
            let theirs = every(100).begin(None, &runs, at(7_200, OTHER), 0).unwrap().unwrap();
            let begins = |runs: &LastRuns, now: u64| {
                every(100).begin(None, runs, at(7_200_u64.strict_add_signed(wrong), ME), now).is_ok()
            };
            // It is told of the end of a run of ten seconds only.
            runs.note(&finish_claim(&theirs, 7_210_000), 20_000);
            assert_eq!([begins(&runs, 63_999), begins(&runs, 64_000)], [false, true]);
            let mut restarted = LastRuns::default();
            restarted.note(&theirs, -50_000);
            assert_eq!([begins(&restarted, 3_999), begins(&restarted, 4_000)], [false, true]);
        }
    }

    #[test]
    fn own_runs_hide_none_of_another_member() {
        let mut runs = LastRuns::default();
        let every = |due| occasion(due, Some(200_000));
        let theirs = every(100).begin(None, &runs, at(100, OTHER), 0).unwrap().unwrap();
        let own = every(50).begin(None, &runs, at(50, ME), 0).unwrap().unwrap();
        // The own one was longer ago. It was written down by a clock that was ahead of the one at the start.
        runs.note(&own, 0);
        runs.note(&theirs, -54_000);
        assert_eq!(every(160).begin(None, &runs, at(160, ME), 60_000), Err(Skipped::RanElsewhere(OTHER)));
        assert!(every(226).begin(None, &runs, at(226, ME), 126_000).is_ok());
    }

    #[test]
    fn short_intervals_make_no_claims() {
        let short = occasion(100, Some(1_000));
        assert_eq!(short.begin(None, &LastRuns::default(), at(100, ME), 0), Ok(None));
    }
}
