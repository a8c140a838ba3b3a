//! Requests as a master sees them, whatever the transport.

use std::io;
use std::net::SocketAddr;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use value::Value;
use wire::envelope::{self, Envelope};

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
pub struct Reply(pub(crate) oneshot::Sender<Value>);

impl Reply {
    /// Answers. A peer that has gone meanwhile gets nothing, which is no error.
    pub fn send(self, answer: Value) {
        let _ = self.0.send(answer);
    }
}

/// Listens for requests. Stops when dropped.
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

/// Waits a moment after an error of `accept`, such as too many open files, instead of turning in a circle.
pub(crate) async fn rest_after(error: &io::Error) {
    tracing::warn!("failed to accept a connection: {error}");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

/// How long a peer may take nothing of what we write.
const STALLED: std::time::Duration = std::time::Duration::from_secs(60);

/// Writes all bytes, however long that takes, as long as the peer goes on taking some.
pub(crate) async fn write_patiently(
    stream: &mut (impl tokio::io::AsyncWrite + Unpin),
    mut bytes: &[u8],
) -> Result<(), crate::Error> {
    use tokio::io::AsyncWriteExt;
    while !bytes.is_empty() {
        let written = tokio::time::timeout(STALLED, stream.write(bytes)).await;
        match written.map_err(|_| crate::Error::Silent(STALLED))?? {
            0 => return Err(crate::Error::Closed),
            count => bytes = &bytes[count..],
        }
    }
    Ok(stream.flush().await?)
}
