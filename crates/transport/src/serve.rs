//! The master's side of requests, for both transports.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use value::Value;
use wire::envelope::{self, Envelope};
use wire::msgpack::Packing;

use crate::answer::{Guard, PackedAnswer};
use crate::budget::{Kept, Share};
use crate::capacity::ConnectionRecord;

/// A request that arrived.
pub struct Incoming {
    /// The decoded request, or why it cannot be decoded.
    pub envelope: Result<Envelope, envelope::Error>,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// Where the answer goes.
    pub reply: Reply,
}

/// Sends the answer to one request. If this is dropped without an answer, the request stays unanswered.
pub struct Reply {
    answer: oneshot::Sender<PackedAnswer>,
    /// Counts the request against the limit of unanswered ones until it is answered.
    held: Kept,
    record: Arc<ConnectionRecord>,
    /// The share of the budget to which the answer is charged.
    share: Share,
    packing: Packing,
    guard: Option<Guard>,
}

impl Reply {
    pub(crate) fn new(
        held: Kept,
        record: Arc<ConnectionRecord>,
        share: &Share,
        packing: Packing,
    ) -> (Self, oneshot::Receiver<PackedAnswer>) {
        let (answer, answered) = oneshot::channel();
        (Reply { answer, held, record, share: share.another(), packing, guard: None }, answered)
    }

    /// Keeps a value until the answer is written, or the connection has ended.
    pub fn keep_until_written(&mut self, guard: impl Send + 'static) {
        self.guard = Some(Box::new(guard));
    }

    /// Notes that the peer is authenticated: its messages no longer count as those of strangers, and its connection is
    /// not among the first to be closed for others.
    pub fn prove(&self) {
        self.record.prove();
    }

    /// Returns whether the request counts against the limit of unanswered ones.
    pub fn is_charged(&self) -> bool {
        self.held.is_charged()
    }

    /// Returns whether the peer still waits for the answer.
    pub fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Waits until the peer no longer waits for the answer.
    pub async fn gone(&mut self) {
        self.answer.closed().await;
    }

    /// Packs the answer and sends it. It is not an error if the connection has ended in the meantime.
    pub fn send(self, answer: Value) {
        if !self.is_awaited() {
            return;
        }
        let Reply { answer: to, held, share, packing, guard, .. } = self;
        let packed = PackedAnswer::new(answer, packing, &share, guard);
        drop(held);
        let _ = to.send(packed);
    }
}

/// Listens for requests. Closes all connections when dropped.
pub struct RequestServer {
    pub(crate) address: SocketAddr,
    pub(crate) incoming: mpsc::Receiver<Incoming>,
    pub(crate) _task: AbortOnDropHandle<()>,
}

impl RequestServer {
    /// Waits for the next request.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
