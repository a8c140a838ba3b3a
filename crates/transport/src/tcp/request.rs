//! Sends requests over tcp: any number at a time on one connection, identified by their numbers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rt::Rt;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use value::Value;
use wire::envelope::Envelope;
use wire::tcp::Frame;

use super::stream::{Bounds, FrameReader, FrameWriter, split};
use crate::{Error, Requester, Target};

/// The largest number of requests that wait to be written.
const WAITING: usize = 64;

/// Sends requests to one master over tcp.
pub struct TcpRequester {
    rt: Rt,
    target: Target,
    /// Held while connecting, so that there is one connection at a time.
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
}

/// State that is shared by the callers and the task of the connection.
#[derive(Default)]
struct Waiting {
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    /// The limits of an answer on this connection: its size in bytes, and the number of values in it.
    bytes: AtomicUsize,
    values: AtomicUsize,
    /// Why the peer refused the connection in TLS. With TLS 1.3 the reason arrives only after the handshake.
    refusal: OnceLock<String>,
}

impl Waiting {
    /// Returns why there is no answer.
    fn ended(&self) -> Error {
        self.refusal.get().map_or(Error::Closed, |reason| Error::Tls(reason.clone()))
    }

    /// Remembers the error if TLS was the reason.
    fn note(&self, error: &Error) {
        if let Error::Io(reason) = error
            && reason.get_ref().is_some_and(|inner| inner.is::<openssl::ssl::Error>())
        {
            // A connection ends once.
            let _ = self.refusal.set(format!("the peer refused the connection: {reason}"));
        }
    }
}

struct Connection {
    frames: mpsc::Sender<Bytes>,
    waiting: Arc<Waiting>,
    _task: AbortOnDropHandle<()>,
}

impl TcpRequester {
    /// Creates a requester, which connects with the first request.
    pub fn new(rt: Rt, target: Target) -> Self {
        TcpRequester { rt, target, connection: tokio::sync::Mutex::new(None) }
    }

    /// Connects now.
    ///
    /// # Errors
    /// If no connection can be made.
    pub async fn connect(&self) -> Result<(), Error> {
        self.connected().await.map(drop)
    }

    /// Returns the connection, and whether it existed already.
    async fn connected(&self) -> Result<(Arc<Connection>, bool), Error> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = current.as_ref().filter(|connection| !connection.frames.is_closed()) {
            return Ok((connection.clone(), true));
        }
        let stream = super::subscribe::open(&self.rt, &self.target).await?;
        let (reader, writer) = split(stream, Bounds::of_peer(self.target.message_limit));
        let (frames, to_write) = mpsc::channel(WAITING);
        let waiting = Arc::<Waiting>::default();
        let task = AbortOnDropHandle::new(self.rt.spawn(drive(reader, writer, to_write, waiting.clone())));
        let connection = Arc::new(Connection { frames, waiting, _task: task });
        *current = Some(connection.clone());
        Ok((connection, false))
    }

    async fn exchange(&self, envelope: &Envelope) -> Result<Value, Error> {
        let (connection, used) = self.connected().await?;
        match self.ask_over(&connection, envelope).await {
            // A connection may have ended while it was idle; a fresh one has not.
            Err(Error::Closed) if used => {}
            other => return other,
        }
        let (connection, _) = self.connected().await?;
        self.ask_over(&connection, envelope).await
    }

    async fn ask_over(&self, connection: &Connection, envelope: &Envelope) -> Result<Value, Error> {
        let bounds = envelope.answer_bounds(self.target.message_limit);
        // The largest bound of all questions that wait: answers are told apart only after they were read.
        connection.waiting.bytes.fetch_max(bounds.bytes, Ordering::Relaxed);
        connection.waiting.values.fetch_max(bounds.values, Ordering::Relaxed);
        let number = self.rt.nonce();
        let (answer, answered) = oneshot::channel();
        // Entered before the frame is written, so that no answer can come too early. Removed by `Drop` when the
        // caller gives up.
        let _asked = PendingRequest::enter(&connection.waiting, &number, answer);
        let frame = Frame::with_mid(&number, envelope.to_value()).encode();
        connection.frames.send(frame).await.map_err(|_| connection.waiting.ended())?;
        answered.await.map_err(|_| connection.waiting.ended())
    }
}

impl Requester for TcpRequester {
    fn ask(&self, envelope: Envelope, timeout: Duration) -> BoxFuture<'_, Result<Value, Error>> {
        Box::pin(async move {
            let answer = tokio::time::timeout(timeout, self.exchange(&envelope)).await;
            answer.map_err(|_| Error::Timeout(timeout))?
        })
    }
}

/// A request that waits for its answer. Forgotten when dropped.
struct PendingRequest<'a> {
    waiting: &'a Waiting,
    number: &'a str,
}

impl<'a> PendingRequest<'a> {
    fn enter(waiting: &'a Waiting, number: &'a str, answer: oneshot::Sender<Value>) -> Self {
        lock(waiting).insert(number.to_owned(), answer);
        PendingRequest { waiting, number }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        lock(self.waiting).remove(self.number);
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<Value>>> {
    waiting.asked.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn drive(
    mut reader: FrameReader,
    mut writer: FrameWriter,
    mut frames: mpsc::Receiver<Bytes>,
    waiting: Arc<Waiting>,
) {
    let read = async {
        loop {
            let bounds = || (waiting.bytes.load(Ordering::Relaxed), waiting.values.load(Ordering::Relaxed));
            let frame = reader.next_within(bounds).await?;
            match frame.mid().and_then(|number| lock(&waiting).remove(number)) {
                // Whoever asked may have stopped waiting.
                Some(answer) => drop(answer.send(frame.body)),
                None => debug!("an answer nobody waits for is dropped"),
            }
        }
    };
    let write = async {
        while let Some(frame) = frames.recv().await {
            writer.write(frame).await?;
        }
        Ok(())
    };
    let ended: Result<(), Error> = tokio::select! {
        biased;
        ended = read => ended,
        ended = write => ended,
    };
    if let Err(error) = ended {
        debug!("request connection ended: {error}");
        waiting.note(&error);
    }
    frames.close();
    // Whoever waits learns that the connection has ended.
    lock(&waiting).clear();
}
