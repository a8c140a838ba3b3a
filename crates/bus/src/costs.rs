//! What a member computes for those who have proven nothing yet. Opens no socket and reads no clock.
//!
//! A node costs nothing to make, and anybody can repeat or forge what is on the bus. So all strangers share one budget, and what is
//! wrong in the name of a member counts for that member alone: it must not keep out the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use peers::budget::Budget;
use share::Node;

/// Conversations that may lead to nothing within [`WINDOW`]: each costs signatures and a key agreement.
pub(crate) const FAILURES: u32 = 50;

/// The time over which failures are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Wrong proofs of all strangers together within [`PROOFS_WINDOW`]: each may be a guess of the secret.
const WRONG_PROOFS: u32 = 50;

/// The time over which wrong proofs are counted.
const PROOFS_WINDOW: Duration = Duration::from_secs(60);

/// When the budget of a member is spent, one in this many greetings in its name is still checked.
pub(crate) const SAMPLE: u64 = 8;

/// What is spent.
pub(crate) struct Costs {
    strangers: Budget,
    proofs: Budget,
    members: BTreeMap<Node, Budget>,
}

/// Who pays for what fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payer {
    /// All who are no members, together.
    Strangers,
    Member(Node),
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            strangers: Budget::new(FAILURES, WINDOW),
            proofs: Budget::new(WRONG_PROOFS, PROOFS_WINDOW),
            members: BTreeMap::new(),
        }
    }
}

impl Costs {
    /// Returns whether this member computes something for strangers now.
    pub fn serve_strangers(&self, now: Instant) -> bool {
        !self.strangers.is_spent(now) && !self.proofs.is_spent(now)
    }

    /// Returns whether something is checked now that is said to be from this payer. Of a member whose budget others have spent a
    /// random sample is, so that nobody keeps it out.
    pub fn may_check(&self, payer: Payer, now: Instant, is_sample: impl FnOnce() -> bool) -> bool {
        match payer {
            Payer::Strangers => self.serve_strangers(now),
            Payer::Member(node) => !self.members.get(&node).is_some_and(|budget| budget.is_spent(now)) || is_sample(),
        }
    }

    /// Notes that something was computed in vain.
    pub fn failed(&mut self, payer: Payer, now: Instant) {
        match payer {
            Payer::Strangers => self.strangers.spend(now),
            Payer::Member(node) => {
                self.members.entry(node).or_insert_with(|| Budget::new(FAILURES, WINDOW)).spend(now);
            }
        }
    }

    /// Notes a wrong proof.
    pub fn wrong_proof(&mut self, payer: Payer, now: Instant) {
        if payer == Payer::Strangers {
            self.proofs.spend(now);
        }
    }

    /// Forgets a member that was removed.
    pub fn forget(&mut self, node: Node) {
        self.members.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_pay_together_and_each_member_for_itself() {
        let (mut costs, now) = (Costs::default(), Instant::now());
        let [one, two] = [1, 2].map(|number| Payer::Member(Node([number; 8])));
        let never = || false;
        for _ in 0..FAILURES {
            assert!(costs.may_check(Payer::Strangers, now, never) && costs.may_check(one, now, never));
            costs.failed(Payer::Strangers, now);
            costs.failed(one, now);
        }
        assert!(!costs.may_check(Payer::Strangers, now, || true), "there is no sample of strangers");
        assert!(!costs.may_check(one, now, never) && costs.may_check(one, now, || true));
        assert!(costs.may_check(two, now, never));
        assert!(costs.may_check(Payer::Strangers, now + WINDOW, never) && costs.may_check(one, now + WINDOW, never));
    }

    #[test]
    fn wrong_proofs_of_all_strangers_count_together_for_a_minute() {
        let (mut costs, now) = (Costs::default(), Instant::now());
        (0..WRONG_PROOFS).for_each(|_| costs.wrong_proof(Payer::Strangers, now));
        assert!(!costs.serve_strangers(now + Duration::from_secs(59)));
        assert!(costs.serve_strangers(now + PROOFS_WINDOW));
        (0..1_000).for_each(|_| costs.wrong_proof(Payer::Member(Node([1; 8])), now + PROOFS_WINDOW));
        assert!(costs.serve_strangers(now + PROOFS_WINDOW));
    }
}
