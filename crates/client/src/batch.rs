//! Batches: which minion gets the job next.
//!
//! Pure, like [`crate::gather`]: returns and the time go in, the next minions come out.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The size of a batch: how many minions run the job at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A number of minions.
    Count(usize),
    /// A percentage of all minions.
    Percent(f64),
}

/// A batch size that is neither a number nor a percentage.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("Invalid batch data sent: {0}\nData must be in the form of %10, 10% or 3")]
pub struct InvalidSize(String);

impl std::str::FromStr for Size {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let invalid = || InvalidSize(text.to_owned());
        if text.contains('%') {
            // Salt accepts the sign on either side: `%25` and `25%`.
            let percent: f64 = text.trim_matches('%').trim().parse().map_err(|_| invalid())?;
            // `parse` accepts `nan%`, which would make a size of zero.
            return if percent.is_finite() { Ok(Size::Percent(percent)) } else { Err(invalid()) };
        }
        text.trim().parse::<i64>().map(|count| Size::Count(count.max(0) as usize)).map_err(|_| invalid())
    }
}

impl Size {
    /// Returns the size of a batch, at least one, for a total number of minions.
    pub fn of(self, minions: usize) -> usize {
        let size = match self {
            Size::Count(count) => count,
            Size::Percent(percent) => {
                let part = percent / 100.0 * minions as f64;
                // Salt rounds up below one minion and down above.
                if part < 1.0 { part.ceil().max(0.0) as usize } else { part as usize }
            }
        };
        size.max(1)
    }
}

/// A run in batches.
#[derive(Debug)]
pub struct Batch {
    size: usize,
    wait: Duration,
    failhard: bool,
    pending: VecDeque<String>,
    active: BTreeSet<String>,
    known: BTreeSet<String>,
    /// When each resting slot becomes free.
    resting: Vec<Duration>,
    halted: bool,
}

impl Batch {
    /// Plans a run over these minions. A slot stays empty for `wait` after its minion has finished. With `failhard` the first
    /// failure ends the run.
    pub fn new(minions: impl IntoIterator<Item = String>, size: Size, wait: Duration, failhard: bool) -> Self {
        let pending: VecDeque<String> = minions.into_iter().collect();
        Batch {
            size: size.of(pending.len()),
            wait,
            failhard,
            known: pending.iter().cloned().collect(),
            pending,
            active: BTreeSet::new(),
            resting: Vec::new(),
            halted: false,
        }
    }

    /// Adds a minion that was discovered late. A known id changes nothing.
    pub fn join(&mut self, id: String) {
        if self.known.insert(id.clone()) {
            self.pending.push_back(id);
        }
    }

    /// Notes that a minion has finished, with this return code.
    pub fn finished(&mut self, id: &str, retcode: i64, now: Duration) {
        // Only the first return of a running minion frees a slot: a return may arrive twice.
        if self.active.remove(id) {
            // As in Salt, negative codes do not count as failures.
            self.halted |= self.failhard && retcode > 0;
            if !self.wait.is_zero() {
                self.resting.push(now + self.wait);
            }
        }
    }

    /// Returns the minions to publish the job to now; they count as running from then on.
    pub fn next(&mut self, now: Duration) -> Vec<String> {
        // Before `halted` is checked, so that a halted run has no slots left to wake for.
        self.resting.retain(|until| *until > now);
        if self.halted {
            return Vec::new();
        }
        // A minion that joins late may raise the total, but not the size of the batch, which was fixed at the start.
        let free = self.size.saturating_sub(self.active.len() + self.resting.len());
        let ids: Vec<String> = self.pending.drain(..free.min(self.pending.len())).collect();
        self.active.extend(ids.iter().cloned());
        ids
    }

    /// Returns when a resting slot becomes free, if minions wait for one.
    pub fn wake_at(&self) -> Option<Duration> {
        if self.pending.is_empty() || self.halted { None } else { self.resting.iter().min().copied() }
    }

    /// Returns whether `failhard` ended the run.
    pub fn is_halted(&self) -> bool {
        self.halted
    }

    /// Returns whether the run has ended.
    pub fn is_done(&self) -> bool {
        self.halted || (self.pending.is_empty() && self.active.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn batch(count: usize, size: Size, wait: u64, failhard: bool) -> Batch {
        Batch::new((1..=count).map(|number| format!("m{number}")), size, at(wait), failhard)
    }

    #[test]
    fn sizes_are_numbers_or_percentages() {
        for (text, minions, size) in [
            ("3", 10, 3),
            ("50%", 10, 5),
            ("%25", 10, 2),
            ("1%", 10, 1),
            ("0", 10, 1),
            ("200%", 3, 6),
            ("33.3%", 10, 3),
        ] {
            assert_eq!(text.parse::<Size>().unwrap().of(minions), size, "{text}");
        }
        assert!("many".parse::<Size>().is_err());
        assert!("nan%".parse::<Size>().is_err());
    }

    #[test]
    fn a_free_slot_goes_to_the_next_minion() {
        let mut batch = batch(4, Size::Count(2), 0, false);
        assert_eq!(batch.next(at(0)), ["m1", "m2"]);
        assert_eq!(batch.next(at(0)), Vec::<String>::new());
        batch.finished("m2", 0, at(1));
        assert_eq!(batch.next(at(1)), ["m3"]);
        batch.finished("m1", 0, at(2));
        batch.finished("m3", 1, at(2));
        assert_eq!(batch.next(at(2)), ["m4"]);
        assert!(!batch.is_done());
        batch.finished("m4", 0, at(3));
        assert!(batch.is_done());
    }

    #[test]
    fn slots_rest_between_minions() {
        let mut batch = batch(3, Size::Count(1), 5, false);
        batch.next(at(0));
        batch.finished("m1", 0, at(1));
        assert_eq!(batch.next(at(2)), Vec::<String>::new());
        assert_eq!(batch.wake_at(), Some(at(6)));
        assert_eq!(batch.next(at(6)), ["m2"]);
    }

    #[test]
    fn failhard_ends_the_run_at_the_first_failure() {
        let mut batch = batch(3, Size::Count(1), 0, true);
        batch.next(at(0));
        batch.finished("m1", 2, at(1));
        assert!(batch.is_halted() && batch.is_done());
        assert_eq!(batch.next(at(1)), Vec::<String>::new());
    }

    #[test]
    fn late_minions_join_once() {
        let mut batch = batch(1, Size::Count(1), 0, false);
        batch.join("m1".into());
        batch.join("late".into());
        batch.next(at(0));
        batch.finished("m1", 0, at(0));
        assert_eq!(batch.next(at(0)), ["late"]);
    }
}
