//! What links ask the master about members: who belongs to the set, and who may join.

use bytes::Bytes;
use crypto::{HashType, MEMBER_KEY_LEN, fingerprint};
use share::member::Role;
use share::{Classes, Node};

/// What the set has decided about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is a member.
    Member,
    /// It was removed, and never comes back.
    Removed,
    /// Nothing is decided.
    Stranger,
}

/// A node of which the set knows nothing yet. It has proven that it has the private half of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// Its node, which follows from its key.
    pub node: Node,
    /// The name that it wants.
    pub name: String,
    /// Its public key, of which it has the private one.
    pub key: [u8; MEMBER_KEY_LEN],
    /// Where others reach it, as it says.
    pub addresses: Vec<String>,
    /// What it does.
    pub role: Role,
}

impl Newcomer {
    /// Returns the fingerprint of its key, as people compare it: hex pairs joined by colons.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.key, HashType::Sha256)
    }
}

/// Why a node and this one do not link: one of the two refuses the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The other one.
    pub node: Node,
    /// Why, in a few words.
    pub reason: String,
    /// The other one refuses this one.
    pub there: bool,
    /// The two have nothing in common, and one of them waits to be accepted.
    pub waits: bool,
    /// This does not pass: one of the two was removed from the set.
    pub for_ever: bool,
}

/// How a member takes the leases of what the set does once. Members that differ in this do not know of each other's leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseSource {
    /// Members grant them, by votes or by rank.
    Members,
    /// The JetStream of the bus grants them.
    JetStream,
    /// It takes none: it does everything by itself.
    Off,
}

/// What a member tells a linked peer about itself, with each heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfReport {
    /// The classes of records that it shares. Others are not sent to it.
    pub classes: Classes,
    /// How many minions are connected to it.
    pub minions: u64,
    /// The highest time of a stamp that it has written or seen.
    pub highest: u64,
    /// The highest time of a stamp that it has got from the peer. A peer that never wrote one so high was restored from a
    /// backup.
    pub highest_of_peer: u64,
    /// When its copy was last found equal to that of the peer, in milliseconds since 1970; 0 for never.
    pub compared: u64,
    /// How it takes leases; `None` if it does not know yet, or is of an earlier version.
    pub leases: Option<LeaseSource>,
}

impl Default for SelfReport {
    fn default() -> Self {
        SelfReport { classes: Classes::ALL, minions: 0, highest: 0, highest_of_peer: 0, compared: 0, leases: None }
    }
}

/// The members of the set, as the master knows them. Called from the tasks of links, with locks held: must not wait, and must
/// not call links.
pub trait Members: Send + Sync {
    /// Returns what is decided about a node.
    fn standing(&self, node: Node) -> Standing;

    /// Returns whether a node that is a member has this key. A node is only a part of a digest of it.
    fn is_key_of(&self, node: Node, key: &[u8; MEMBER_KEY_LEN]) -> bool {
        Node::of_key(key) == node
    }

    /// Returns the member that has this name, if there is one.
    fn named(&self, name: &str) -> Option<Node>;

    /// Takes a newcomer that has proven that it belongs to the set as a member. The error says in words why not; the newcomer is shown it.
    fn admit(&self, newcomer: &Newcomer) -> Result<(), String>;

    /// Returns the packed decisions about members, which a node gets that links.
    fn decisions(&self) -> Vec<Bytes>;

    /// Takes note of the packed decisions about members that a member has sent. Their signatures are not checked yet.
    fn learn(&self, from: Node, decisions: Vec<Bytes>);

    /// Takes note of a newcomer that could not prove that it belongs to the set, and waits until a person accepts it. Called
    /// when it begins to wait; `Links::waiting` returns all that do.
    fn waits(&self, _newcomer: &Newcomer) {}

    /// Takes note that a node and this one do not link because one of the two refuses the other. Only a bus says so.
    fn refused(&self, _refused: Refused) {}

    /// Returns the time by which this member goes when the wall clock of its host says this, in milliseconds since 1970.
    fn present(&self, wall: u64) -> u64 {
        wall
    }

    /// Takes note of the time by which a member goes, in milliseconds since 1970. Called when it has proven that it is one.
    fn heard_time(&self, _node: Node, _theirs: u64) {}

    /// Takes note of the wall clock of the host of a linked member, in milliseconds since 1970.
    fn heard_wall(&self, _node: Node, _theirs: u64) {}

    /// Takes note of what a linked member says about itself.
    fn heard_report(&self, _node: Node, _report: &SelfReport) {}

    /// Returns what a peer is told about this member.
    fn self_report(&self, _peer: Node) -> SelfReport {
        SelfReport::default()
    }
}
