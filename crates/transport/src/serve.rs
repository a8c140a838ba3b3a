//! Requests as a master sees them, whatever the transport.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use value::Value;
use wire::envelope::{self, Envelope};
use wire::msgpack::Packing;

use crate::answer::{Guard, PackedAnswer};
use crate::budget::{Kept, Share};
use crate::capacity::Guest;

/// A request that arrived.
pub struct Incoming {
    /// What it holds, or why it cannot be read.
    pub envelope: Result<Envelope, envelope::Error>,
    /// Where it came from.
    pub peer: SocketAddr,
    /// Where the answer goes.
    pub reply: Reply,
}

/// Where an answer goes. If it is dropped without an answer, the request stays unanswered.
pub struct Reply {
    answer: oneshot::Sender<PackedAnswer>,
    /// The request counts against the bound on unanswered ones until then.
    held: Kept,
    guest: Arc<Guest>,
    /// What the answer is charged to.
    share: Share,
    packing: Packing,
    guard: Option<Guard>,
}

impl Reply {
    pub(crate) fn new(
        held: Kept,
        guest: Arc<Guest>,
        share: &Share,
        packing: Packing,
    ) -> (Self, oneshot::Receiver<PackedAnswer>) {
        let (answer, answered) = oneshot::channel();
        (Reply { answer, held, guest, share: share.another(), packing, guard: None }, answered)
    }

    /// Keeps something until the answer is written, or the peer has gone.
    pub fn keep_until_written(&mut self, guard: impl Send + 'static) {
        self.guard = Some(Box::new(guard));
    }

    /// Notes that the peer has proved who it is: its large messages need no share of what strangers may hold, and its
    /// connection is not among those that are closed first.
    pub fn prove(&self) {
        self.guest.prove();
    }

    /// Returns whether the request counts against the bound on unanswered ones.
    pub fn is_charged(&self) -> bool {
        self.held.is_charged()
    }

    /// Returns whether the peer still waits for the answer.
    pub fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Waits until the peer does not wait for the answer any more.
    pub async fn gone(&mut self) {
        self.answer.closed().await;
    }

    /// Packs the answer and sends it. A peer that has gone meanwhile gets nothing, which is no error.
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
