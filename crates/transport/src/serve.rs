//! Requests as a master sees them, whatever the transport.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use value::Value;
use wire::envelope::{self, Envelope};

use crate::budget::Kept;
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

/// Where an answer goes. Dropped without an answer, the request stays unanswered.
pub struct Reply {
    answer: oneshot::Sender<Value>,
    /// The request counts against the bound on unanswered ones until then.
    _held: Kept,
    guest: Arc<Guest>,
}

impl Reply {
    pub(crate) fn new(held: Kept, guest: Arc<Guest>) -> (Self, oneshot::Receiver<Value>) {
        let (answer, answered) = oneshot::channel();
        (Reply { answer, _held: held, guest }, answered)
    }

    /// Notes that the peer has proved who it is: its large messages need no share of what strangers may hold, and its
    /// connection is not among those that are closed first.
    pub fn prove(&self) {
        self.guest.prove();
    }

    /// Says whether the peer is still there to hear the answer.
    pub fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Waits until the peer is not there any more to hear the answer.
    pub async fn gone(&mut self) {
        self.answer.closed().await;
    }

    /// Answers. A peer that has gone meanwhile gets nothing, which is no error.
    pub fn send(self, answer: Value) {
        let _ = self.answer.send(answer);
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
