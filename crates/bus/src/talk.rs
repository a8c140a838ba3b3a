//! Conversations that may become links.

use crypto::MEMBER_KEY_LEN;
use peers::kind::{Hello, How};
use share::Node;
use tokio::time::Instant;

use crate::envelope::{Greeting, POINT_LEN};
use crate::session::{Fresh, Session};

/// A greeting that waits for an answer.
pub(crate) struct Begun {
    pub fresh: Fresh,
    pub first: Greeting,
    /// Answers that were forged.
    pub wrong: u32,
    pub since: Instant,
}

/// A conversation that may become a link.
pub(crate) struct Talk {
    pub node: Node,
    pub key: [u8; MEMBER_KEY_LEN],
    /// The key of its greeting, which no other greeting has.
    pub point: [u8; POINT_LEN],
    pub session: Session,
    /// This member began.
    pub is_first: bool,
    pub theirs: Hello,
    pub stage: Stage,
    pub since: Instant,
}

/// What is awaited of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Proof(How),
    Welcome,
}
