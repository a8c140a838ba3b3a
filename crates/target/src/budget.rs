//! The work that one request may cause with targets.

use std::cell::Cell;

use crate::Error;

/// The steps that a request has left, whatever the number of minions it is matched against.
///
/// A step is about a nanosecond of matching. Honest targets over tens of thousands of minions use a small part of the budget. A
/// pattern that is built to be slow ends with [`Error::TooExpensive`] instead of keeping a thread busy.
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
    spent: Cell<bool>,
}

/// The steps of one request.
const STEPS: u64 = 1_000_000_000;

impl Default for Budget {
    fn default() -> Self {
        Budget::of(STEPS)
    }
}

impl Budget {
    /// Creates a budget of `steps` steps.
    pub fn of(steps: u64) -> Self {
        Budget { left: Cell::new(steps), spent: Cell::new(false) }
    }

    /// Creates a budget for patterns and texts whose authors cannot slow down others.
    pub fn unlimited() -> Self {
        Budget::of(u64::MAX)
    }

    /// Takes steps out of the budget, and returns whether there were enough. An exhausted budget stays exhausted.
    pub fn spend(&self, steps: u64) -> bool {
        match self.left.get().checked_sub(steps).filter(|_| !self.spent.get()) {
            // `filter` above: once a request was too expensive, cheap steps must not succeed again and produce half a
            // result.
            Some(left) => {
                self.left.set(left);
                true
            }
            None => {
                self.spent.set(true);
                false
            }
        }
    }

    /// Fails if the budget is exhausted: results computed since then are invalid.
    ///
    /// # Errors
    /// [`Error::TooExpensive`].
    pub fn check(&self) -> Result<(), Error> {
        if self.spent.get() { Err(Error::TooExpensive) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_budget_stays_exhausted() {
        let budget = Budget::of(10);
        assert!(budget.spend(4) && budget.spend(6) && budget.check().is_ok());
        assert!(!budget.spend(1) && !budget.spend(0));
        assert_eq!(budget.check(), Err(Error::TooExpensive));
    }
}
