//! The border between the model and whatever moves its messages: links between masters, a bus, or memory in tests.

use bytes::Bytes;

use crate::Node;

/// Moves messages between members. It may lose them, and promises no order between lanes and no time.
///
/// What it does promise: the sender of a message is proven, the content is secret and unchanged, no message arrives twice, and
/// messages of up to 512 KiB fit.
pub trait Carrier: Send + Sync {
    /// Queues a message. Never waits.
    fn send(&self, to: To, lane: Lane, message: Bytes) -> SendResult;
}

/// Who gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// This member.
    Member(Node),
    /// Every member that is reachable.
    All,
}

/// Which queue a message waits in. Nothing small waits behind something large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Small and urgent: decisions, jobs, returns, events, heartbeats.
    Talk,
    /// Large or patient: comparisons, large returns, parts of large values.
    Bulk,
}

/// What became of a message handed to a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendResult {
    /// It waits in the queue, or was sent.
    Queued,
    /// The queue is full. The message is lost, and the member must be compared with.
    Full,
    /// The member is not reachable.
    Away,
}

/// What a carrier reports to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A member is reachable.
    Up(Node),
    /// A member is no longer reachable, and why.
    Down(Node, String),
    /// A message of a member.
    Message {
        /// Who sent it: proven by the carrier.
        from: Node,
        /// The lane it came by.
        lane: Lane,
        /// Its content, still packed.
        message: Bytes,
    },
    /// A member said with which others it is linked.
    Linked(Node, Vec<Node>),
    /// Messages to this member were lost because its queue was full.
    Overflowed(Node),
}
