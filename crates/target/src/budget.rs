//! How much work one question about targets may cost.

use std::cell::Cell;

use crate::Error;

/// Steps that are left for one request, whatever the number of minions it is asked about.
///
/// A step is about a nanosecond of matching. Honest targets over tens of thousands of minions take a small part of it; a
/// pattern that is made to be slow ends with [`Error::TooExpensive`] instead of keeping a thread busy.
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
    /// A budget of so many steps.
    pub fn of(steps: u64) -> Self {
        Budget { left: Cell::new(steps), spent: Cell::new(false) }
    }

    /// For patterns and texts that nobody can make slow to harm others.
    pub fn unlimited() -> Self {
        Budget::of(u64::MAX)
    }

    /// Takes steps out of the budget. Says whether there were enough; once there were not, there never are again.
    pub fn spend(&self, steps: u64) -> bool {
        match self.left.get().checked_sub(steps).filter(|_| !self.spent.get()) {
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

    /// Returns an error when there were not enough steps: what was answered meanwhile is not to be believed.
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
    fn a_budget_that_was_exceeded_stays_exceeded() {
        let budget = Budget::of(10);
        assert!(budget.spend(4) && budget.spend(6) && budget.check().is_ok());
        assert!(!budget.spend(1) && !budget.spend(0));
        assert_eq!(budget.check(), Err(Error::TooExpensive));
    }
}
