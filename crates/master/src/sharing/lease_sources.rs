//! How the members take leases, as each says: those that do it in different ways do not know of each other's leases.

use std::collections::BTreeMap;

use peers::members::LeaseSource;
use share::Node;

/// How this member and the others take leases.
#[derive(Default)]
pub struct LeaseSources {
    own: Option<LeaseSource>,
    others: BTreeMap<Node, LeaseSource>,
}

impl LeaseSources {
    /// Takes note of how this member takes leases. Returns those that have said that they do it in another way.
    pub fn set_own(&mut self, own: LeaseSource) -> Vec<Node> {
        if self.own.replace(own) == Some(own) {
            return Vec::new();
        }
        self.others.keys().copied().filter(|node| self.differs(*node).is_some()).collect()
    }

    /// Returns how this member takes leases, once it knows.
    pub fn own(&self) -> Option<LeaseSource> {
        self.own
    }

    /// Takes note of what another member says, with each of its heartbeats. Returns whether it is news that it does it in another way.
    pub fn heard(&mut self, node: Node, source: Option<LeaseSource>) -> bool {
        let before = match source {
            Some(source) => self.others.insert(node, source),
            // It has just started and does not know yet.
            None => self.others.remove(&node),
        };
        before != source && self.differs(node).is_some()
    }

    /// Returns how another member takes leases, as it says.
    pub fn of(&self, node: Node) -> Option<LeaseSource> {
        self.others.get(&node).copied()
    }

    /// Returns how another member and this one take leases, if they do it in different ways.
    pub fn differs(&self, node: Node) -> Option<(LeaseSource, LeaseSource)> {
        let (theirs, own) = (self.of(node)?, self.own?);
        (theirs != own).then_some((theirs, own))
    }
}

/// Returns how leases are taken, in words.
pub fn in_words(source: LeaseSource) -> &'static str {
    match source {
        LeaseSource::Members => "by votes or by rank",
        LeaseSource::JetStream => "from JetStream",
        LeaseSource::Off => "not at all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node([1; 8]);

    #[test]
    fn a_member_that_takes_leases_in_another_way_is_told_once_and_again_after_a_change() {
        let mut sources = LeaseSources::default();
        assert!(!sources.heard(NODE, Some(LeaseSource::Members)), "this member does not know yet");
        assert_eq!(sources.set_own(LeaseSource::JetStream), [NODE]);
        assert_eq!(sources.set_own(LeaseSource::JetStream), []);
        assert!(!sources.heard(NODE, Some(LeaseSource::Members)), "it was told");
        assert_eq!(sources.differs(NODE), Some((LeaseSource::Members, LeaseSource::JetStream)));
        assert!(!sources.heard(NODE, Some(LeaseSource::JetStream)));
        assert_eq!(sources.differs(NODE), None);
        assert!(sources.heard(NODE, Some(LeaseSource::Off)));
        assert!(!sources.heard(NODE, None), "it restarts, or is of an earlier version");
        assert!(sources.heard(NODE, Some(LeaseSource::Off)));
        assert_eq!(sources.set_own(LeaseSource::Off), []);
    }
}
