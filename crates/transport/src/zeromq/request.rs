//! Sends requests to a ROUTER socket, over as many connections as there are requests at a time.
//!
//! Salt's masters hand requests to workers behind the ROUTER and answer in any order, without a number to tell answers
//! apart. So each connection carries one request at a time, as a REQ socket does. A connection without an answer is
//! closed, because the answer might still arrive and be taken for that of the next request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rt::Rt;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use value::Value;
use wire::envelope::Envelope;
use wire::msgpack::{self, Decode};
use wire::zmtp::{Incoming, SocketType, encode_message};

use super::stream::{ZmtpStream, dial};
use crate::{Error, Requester, Target};

/// The largest number of open connections to one peer.
const MOST_CONNECTIONS: usize = 8;

/// How long an unused connection stays open.
const IDLE: Duration = Duration::from_secs(30);

/// Sends requests to one master over zeromq.
pub struct ZmqRequester {
    rt: Rt,
    target: Target,
    idle: Arc<Mutex<Vec<Connection>>>,
    room: Semaphore,
}

/// An idle connection, kept alive by its task.
struct Connection {
    questions: mpsc::Sender<Question>,
    _task: AbortOnDropHandle<()>,
}

struct Question {
    frame: Bytes,
    /// The size limit of the answer, in bytes.
    limit: usize,
    answer: oneshot::Sender<Result<Bytes, Error>>,
}

impl ZmqRequester {
    /// Creates a requester, which connects with the first request.
    pub fn new(rt: Rt, target: Target) -> Self {
        // From a fixed source port there can be only one connection to the peer.
        let fixed = target.from.is_some_and(|from| from.port() != 0);
        let room = Semaphore::new(if fixed { 1 } else { MOST_CONNECTIONS });
        ZmqRequester { rt, target, idle: Arc::default(), room }
    }

    /// Connects now, so that the first request finds a connection.
    ///
    /// # Errors
    /// If no connection can be made.
    pub async fn connect(&self) -> Result<(), Error> {
        let connection = self.open().await?;
        self.put_back(connection);
        Ok(())
    }

    async fn exchange(&self, frame: Bytes, limit: usize) -> Result<Bytes, Error> {
        // Held until the answer has arrived; a question over the limit waits here.
        let _room = self.room.acquire().await.map_err(|_| Error::Closed)?;
        // A connection may have ended while it was idle; a fresh one has not.
        while let Some(connection) = self.take_idle() {
            match self.ask_over(connection, &frame, limit).await {
                Err(Error::Closed | Error::Io(_)) => {}
                other => return other,
            }
        }
        // Seldom, and large: not part of what each question takes.
        let connection = Box::pin(self.open()).await?;
        self.ask_over(connection, &frame, limit).await
    }

    async fn ask_over(&self, connection: Connection, frame: &Bytes, limit: usize) -> Result<Bytes, Error> {
        let (answer, answered) = oneshot::channel();
        let question = Question { frame: frame.clone(), limit, answer };
        connection.questions.send(question).await.map_err(|_| Error::Closed)?;
        let answer = answered.await.map_err(|_| Error::Closed)??;
        // Only after an answer: a connection that still owes one must not be used again.
        self.put_back(connection);
        Ok(answer)
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|connection| !connection.questions.is_closed())
    }

    fn put_back(&self, connection: Connection) {
        if !connection.questions.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }

    async fn open(&self) -> Result<Connection, Error> {
        let stream = dial(&self.rt, &self.target, SocketType::Req, "").await?;
        let (questions, asked) = mpsc::channel(1);
        let task = AbortOnDropHandle::new(self.rt.spawn(drive(stream, asked)));
        Ok(Connection { questions, _task: task })
    }
}

impl Requester for ZmqRequester {
    fn ask(&self, envelope: Envelope, timeout: Duration) -> BoxFuture<'_, Result<Value, Error>> {
        Box::pin(async move {
            let bounds = envelope.answer_bounds(self.target.message_limit);
            let frame = encode_message(&[Bytes::new(), envelope.encode()]);
            let exchanged = tokio::time::timeout(timeout, self.exchange(frame, bounds.bytes)).await;
            let answer = exchanged.map_err(|_| Error::Timeout(timeout))??;
            Ok(msgpack::unpack_within(&answer, Decode::Default, bounds.values)?)
        })
    }
}

/// Serves one connection: a request, its answer, the next request. Ends on any error, or after [`IDLE`] without a
/// request.
async fn drive(mut stream: ZmtpStream, mut asked: mpsc::Receiver<Question>) {
    loop {
        let question = tokio::select! {
            biased;
            question = asked.recv() => question,
            // Nothing but heartbeats may come now; whatever else comes ends the connection.
            _ = stream.next() => None,
            () = tokio::time::sleep(IDLE) => None,
        };
        let Some(Question { frame, limit, answer }) = question else { return };
        stream.set_limit(limit);
        let result = match stream.write(frame).await {
            Ok(()) => next_answer(&mut stream).await,
            Err(error) => Err(error),
        };
        let over = result.is_err();
        if answer.send(result).is_err() || over {
            return;
        }
    }
}

/// Waits for the next message and returns its last frame, the answer. The frames before it are the routing envelope.
async fn next_answer(stream: &mut ZmtpStream) -> Result<Bytes, Error> {
    loop {
        if let Incoming::Message(mut frames) = stream.next().await?
            && let Some(answer) = frames.pop()
        {
            return Ok(answer);
        }
    }
}
