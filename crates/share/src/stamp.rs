//! Nodes and stamps: the names of members that nobody chooses, and the order of what they write.

use std::fmt;

use crypto::HashType;

/// The identity of a member: the first 8 bytes of the SHA-256 of its raw public member key.
///
/// A host that lost its disk makes a new member key, and so is a new node under the old name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub [u8; 8]);

impl Node {
    /// Returns the node of the member with this raw public key.
    pub fn of_key(public_key: &[u8]) -> Node {
        let digest = HashType::Sha256.digest(public_key);
        let mut node = [0; 8];
        node.copy_from_slice(&digest[..8]);
        Node(node)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// When a record was written, and by which member: the reading of a hybrid logical clock.
///
/// Stamps of one node never repeat and never go back, whatever the host's clock does. Between nodes they follow what each node
/// had seen. Stamps are ordered by time, then by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Milliseconds since 1970, shifted left by 16, plus a counter in the low 16 bits.
    pub time: u64,
    /// The member that wrote the record.
    pub node: Node,
}

/// The source of a member's stamps.
#[derive(Clone, Debug)]
pub struct HybridClock {
    node: Node,
    last: u64,
}

impl HybridClock {
    /// Creates the clock of `node`. `last` is the highest time that this member wrote or saw before it stopped.
    pub fn new(node: Node, last: u64) -> HybridClock {
        HybridClock { node, last }
    }

    /// Returns the next stamp at `now`, in milliseconds since 1970.
    pub fn next(&mut self, now: u64) -> Stamp {
        // A counter that overflows its 16 bits carries into the milliseconds: stamps still grow, and time catches up.
        self.last = (now << 16).max(self.last.saturating_add(1));
        Stamp { time: self.last, node: self.node }
    }

    /// Takes note of a stamp of another member: later stamps of this clock are above it.
    pub fn observe(&mut self, time: u64) {
        self.last = self.last.max(time);
    }

    /// Returns the highest time that was written or seen.
    pub fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node([7; 8]);

    #[test]
    fn stamps_grow_although_the_host_clock_goes_back() {
        let mut clock = HybridClock::new(NODE, 0);
        let first = clock.next(1_000);
        let second = clock.next(10);
        assert_eq!(first.time, 1_000 << 16);
        assert_eq!(second.time, (1_000 << 16) + 1);
    }

    #[test]
    fn stamps_are_above_every_stamp_that_was_seen() {
        let mut clock = HybridClock::new(NODE, 0);
        clock.observe(5_000 << 16);
        assert!(clock.next(1_000).time > 5_000 << 16);
    }
}
