//! Ballots: what makes one attempt to take a lease newer than another.

use crate::Node;

/// A number that no two attempts to take a lease share. Ballots are ordered by round, then by node.
///
/// The ballot with which a lease was taken is its fence: it stays the same while the lease is renewed, and the next holder has a
/// higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// Higher than every round that the candidate had seen.
    pub round: u64,
    /// The candidate.
    pub node: Node,
}

/// Rounds from here on are never used: nobody could go above them.
pub(super) const MAX_ROUND: u64 = 1 << 63;

impl Ballot {
    /// Returns the ballot that is below every other one of this round.
    pub(super) fn floor(round: u64) -> Ballot {
        Ballot { round, node: Node([0; 8]) }
    }
}
