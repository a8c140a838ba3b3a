//! What links ask the master about members: who belongs to the set, and who may join.

use bytes::Bytes;
use crypto::MEMBER_KEY_LEN;
use share::Node;
use share::member::Role;

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

/// A node that has proven that it belongs to the set, and of which the set knows nothing yet.
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

/// The members of the set, as the master knows them. Called from the tasks of links: must not wait.
pub trait Members: Send + Sync {
    /// Returns what is decided about a node.
    fn standing(&self, node: Node) -> Standing;

    /// Returns the member that has this name, if there is one.
    fn named(&self, name: &str) -> Option<Node>;

    /// Takes a newcomer as a member. The error says in words why not; the newcomer is shown it.
    fn admit(&self, newcomer: &Newcomer) -> Result<(), String>;

    /// Returns the packed decisions about members, which a node gets that links.
    fn decisions(&self) -> Vec<Bytes>;

    /// Takes note of the packed decisions about members that a member has sent. Their signatures are not checked yet.
    fn learn(&self, decisions: Vec<Bytes>);
}
