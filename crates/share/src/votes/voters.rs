//! Who votes: an explicit list that changes by one member at a time.

use std::collections::{BTreeMap, BTreeSet};

use crypto::HashType;

use super::LeaseTimes;
use crate::Node;
use crate::member::{Member, Right, Role};

/// The members that vote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Voters {
    voters: BTreeMap<Node, Voter>,
    digest: u64,
}

/// A member that votes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Voter {
    /// The mode `available` ranks members by it.
    name: String,
    may_hold: bool,
}

/// A list of voters that must not follow the present one yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VotersError {
    /// Majorities of the two lists might have nobody in common.
    #[error("{0} voters would change at once, and only one may")]
    MoreThanOne(usize),
    /// A part of the set without majority must not change the rules for all.
    #[error("{agreeing} voters have been linked and known the present list for long enough, and {needed} are needed")]
    NoMajority {
        /// Voters that are linked and have known the present list for longer than leases last, with this one.
        agreeing: usize,
        /// How many it takes.
        needed: usize,
    },
}

impl Voters {
    /// Returns the voters among the members of a set: masters and witnesses with the right `lease`.
    pub fn among<'a>(members: impl IntoIterator<Item = (Node, &'a Member)>) -> Voters {
        let votes = |member: &Member| member.may.contains(Right::Lease) && member.role != Role::Reader;
        let voter = |member: &Member| Voter { name: member.name.clone(), may_hold: member.role == Role::Master };
        let members = members.into_iter().filter(|(_, member)| votes(member));
        Voters::of(members.map(|(node, member)| (node, voter(member))).collect())
    }

    /// Returns the voters with these nodes, with what is known of them here. Who is not among these voters may hold no lease.
    pub(super) fn listed(&self, nodes: &BTreeSet<Node>) -> Voters {
        let unknown = || Voter { name: String::new(), may_hold: false };
        let voter = |node: &Node| self.voters.get(node).cloned().unwrap_or_else(unknown);
        Voters::of(nodes.iter().map(|node| (*node, voter(node))).collect())
    }

    fn of(voters: BTreeMap<Node, Voter>) -> Voters {
        let nodes: Vec<u8> = voters.keys().flat_map(|node| node.0).collect();
        let digest = HashType::Sha256.digest(&nodes);
        let digest = digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Voters { voters, digest }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.voters.len()
    }

    /// Returns whether nobody votes.
    pub fn is_empty(&self) -> bool {
        self.voters.is_empty()
    }

    /// Returns how many are more than half.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Returns whether this member votes.
    pub fn contains(&self, node: Node) -> bool {
        self.voters.contains_key(&node)
    }

    /// Returns all nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.voters.keys().copied()
    }

    /// Returns a number that differs for lists that differ. It counts nodes, not names: a new disk under an old name is another
    /// voter.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns whether this member may hold leases: a master that votes.
    pub fn may_hold(&self, node: Node) -> bool {
        self.voters.get(&node).is_some_and(|voter| voter.may_hold)
    }

    /// Returns the members that may hold leases, the first by name first.
    pub(super) fn ranking(&self) -> Vec<Node> {
        let masters = self.voters.iter().filter(|(_, voter)| voter.may_hold);
        let mut ranking: Vec<(&str, Node)> = masters.map(|(node, voter)| (voter.name.as_str(), *node)).collect();
        ranking.sort_unstable();
        ranking.into_iter().map(|(_, node)| node).collect()
    }

    /// Checks that `next` may follow this list. `agreeing` are the members that are linked and know this very list, with the own
    /// one, and for how many milliseconds this has been known.
    ///
    /// Majorities of lists that differ by one always have a voter in common. With two steps at once, or with a second step
    /// before most voters know of the first, two members could each have a majority of their own. A lease that was taken under
    /// the list before the present one must be over too: its voters and those of the list after next may have nobody in common.
    pub fn check_change(
        &self,
        next: &Voters,
        agreeing: &BTreeMap<Node, u64>,
        times: LeaseTimes,
    ) -> Result<(), VotersError> {
        let changed = self.nodes().filter(|node| !next.contains(*node)).count()
            + next.nodes().filter(|node| !self.contains(*node)).count();
        if changed > 1 {
            return Err(VotersError::MoreThanOne(changed));
        }
        self.check_majority(agreeing, times)
    }

    /// Checks that a majority has known this list for longer than leases last.
    pub(super) fn check_majority(&self, agreeing: &BTreeMap<Node, u64>, times: LeaseTimes) -> Result<(), VotersError> {
        let counts = |(node, known_for): &(&Node, &u64)| self.contains(**node) && **known_for >= times.silence();
        let agreeing = agreeing.iter().filter(counts).count();
        // The first voter of all has nobody to ask.
        let needed = if self.is_empty() { 0 } else { self.majority() };
        if agreeing < needed {
            return Err(VotersError::NoMajority { agreeing, needed });
        }
        Ok(())
    }
}
