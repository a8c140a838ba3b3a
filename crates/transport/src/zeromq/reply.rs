//! Answers requests as a ROUTER socket with workers does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rt::{Connection, Listen, Rt};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;
use wire::msgpack::Packing;
use wire::zmtp::{Incoming as Frame, SocketType, message_header};

use super::stream::{Setup, ZmtpStream, admit};
use crate::accept::{Place, accept, is_from_here};
use crate::answer::PackedAnswer;
use crate::budget::Kept;
use crate::capacity::{ConnectionRecord, seat_is_needed};
use crate::open::{Opened, Opener, keep};
use crate::{Budget, Error, Heartbeat, Incoming, Limits, Reply, RequestServer};

/// The largest number of unanswered requests of one connection.
const AHEAD: usize = 16;

/// Nothing more is read from a connection while the server has not taken this many bytes of its requests.
const AHEAD_BYTES: usize = 64 << 10;

/// The largest number of requests of all connections that wait for the server.
const WAITING: usize = 1024;

/// Listens for requests over zeromq.
///
/// # Errors
/// If it cannot listen on the address.
pub async fn serve(
    rt: Rt,
    listen: Listen,
    limits: Limits,
    heartbeat: Option<Heartbeat>,
) -> std::io::Result<RequestServer> {
    let listener = rt.net().listen(&listen).await?;
    let (address, inside) = (listener.local_addr()?, rt.clone());
    let (requests, incoming) = mpsc::channel(WAITING);
    let (budget, opener) = (Budget::new(limits.unfinished, limits.unproven), Opener::new(rt));
    let task = accept(&inside, listener, limits.half_open, "request", move |connection, place| {
        let foreign = !is_from_here(&connection);
        let setup = setup(&limits, heartbeat, (budget.clone(), place.record()), foreign);
        attend(
            connection,
            place,
            setup,
            limits,
            RequestSink { requests: requests.clone(), opener: opener.clone(), foreign },
        )
    });
    Ok(RequestServer { address, incoming, _task: task })
}

fn setup(
    limits: &Limits,
    heartbeat: Option<Heartbeat>,
    budget: (Arc<Budget>, Arc<ConnectionRecord>),
    foreign: bool,
) -> Setup {
    let (socket, identity) = (SocketType::Router, Bytes::new());
    Setup { socket, identity, limit: limits.message, budget: Some(budget), foreign, heartbeat }
}

/// The parts of the server that a connection uses.
struct RequestSink {
    requests: mpsc::Sender<Incoming>,
    opener: Opener,
    /// The connection comes from another host.
    foreign: bool,
}

async fn attend(
    connection: Connection,
    place: Place,
    setup: Setup,
    limits: Limits,
    sink: RequestSink,
) -> Result<(), Error> {
    let record = place.record();
    let (stream, _) = admit(connection.stream, place, setup, limits.handshake).await?;
    let conversation = Conversation {
        stream,
        peer: connection.peer,
        record,
        requests: PollSender::new(sink.requests),
        opener: sink.opener,
        foreign: sink.foreign,
        opening: None,
        untaken: VecDeque::new(),
        untaken_bytes: 0,
        pending: VecDeque::new(),
        has_asked: false,
    };
    conversation.run().await
}

/// One connection. Its requests are passed to the server, and answered, in the order of their arrival.
struct Conversation {
    stream: ZmtpStream,
    peer: SocketAddr,
    record: Arc<ConnectionRecord>,
    opener: Opener,
    foreign: bool,
    /// A large unencrypted request that is being decoded. Nothing is read in the meantime.
    opening: Option<Opening>,
    /// The queue of the server. It keeps the place of this connection in the queue across polls.
    requests: PollSender<Incoming>,
    /// Requests the server has not taken yet, with their lengths.
    untaken: VecDeque<(usize, Incoming)>,
    untaken_bytes: usize,
    pending: VecDeque<Pending>,
    /// True if the peer has sent a request. A connection without requests is one that a minion keeps open to see
    /// whether the master is alive.
    has_asked: bool,
}

/// A request that is not answered yet, with the frames to put before the answer.
struct Pending {
    envelope: Vec<Bytes>,
    answer: oneshot::Receiver<PackedAnswer>,
}

struct Opening {
    opened: BoxFuture<'static, Opened>,
    route: Vec<Bytes>,
    size: usize,
    /// Counts the bytes while they wait to be decoded.
    held: Kept,
}

impl Conversation {
    /// Serves the connection. Keeps reading while the server is busy, so that heartbeats are answered.
    async fn run(mut self) -> Result<(), Error> {
        loop {
            let hears = self.pending.len() < AHEAD && self.untaken_bytes < AHEAD_BYTES && self.opening.is_none();
            tokio::select! {
                biased;
                incoming = self.stream.next(), if hears => {
                    if let Frame::Message(frames) = incoming? {
                        self.take_in(frames)?;
                    }
                }
                opened = opened(&mut self.opening) => {
                    // What was held while it was opened is given back first, so that it does not count twice.
                    if let Some(Opening { route, size, held, .. }) = self.opening.take() {
                        drop(held);
                        self.enter(route, size, opened)?;
                    }
                }
                room = room(&mut self.requests), if !self.untaken.is_empty() => {
                    if !room || !self.hand_over() {
                        return Ok(());
                    }
                }
                answer = next_answer(&mut self.pending) => {
                    // A request that nobody answers leaves the peer waiting, as a crashed worker does.
                    if let Some((envelope, answer)) = answer {
                        // Nothing is read meanwhile: who does not read answers shall not ask for more of them.
                        let start = head(&envelope, answer.len());
                        let (message, _held) = answer.after(start);
                        self.stream.write_in_time(message).await?;
                    }
                }
                // Last: a connection with something to do never leaves.
                () = seat_is_needed(), if self.may_leave() => return Ok(()),
            }
        }
    }

    fn take_in(&mut self, mut frames: Vec<Bytes>) -> Result<(), Error> {
        let Some(payload) = frames.pop() else { return Ok(()) };
        let size = payload.len() + frames.iter().map(Bytes::len).sum::<usize>();
        // From now on the connection may be asked to leave when it is idle: its peer can ask again over another one.
        self.has_asked = true;
        self.record.asks();
        if let Some(opened) = self.opener.open_now(&payload, self.foreign) {
            return self.enter(frames, size, opened);
        }
        let opened = Box::pin(self.opener.clone().open_later(payload, self.foreign));
        let held = self.stream.share().keep_clear(size)?;
        self.opening = Some(Opening { opened, route: frames, size, held });
        Ok(())
    }

    /// Puts a request into this connection's queue.
    fn enter(&mut self, route: Vec<Bytes>, size: usize, opened: Opened) -> Result<(), Error> {
        let share = self.stream.share();
        let (reply, answer) = Reply::new(keep(share, size, &opened)?, self.record.clone(), share, Packing::Wire);
        let (envelope, _) = opened;
        self.untaken_bytes += size;
        self.untaken.push_back((size, Incoming { envelope, peer: self.peer, reply }));
        // In the order of the requests: a REQ socket has nothing else to tell answers apart.
        self.pending.push_back(Pending { envelope: route, answer });
        Ok(())
    }

    /// Returns whether the connection may be closed for another one: a peer that has sent requests and waits for no
    /// answer can reconnect.
    fn may_leave(&self) -> bool {
        self.has_asked && self.pending.is_empty() && self.opening.is_none()
    }

    /// Passes the oldest request to the server. Returns false if the server has ended.
    fn hand_over(&mut self) -> bool {
        let Some((size, request)) = self.untaken.pop_front() else { return true };
        self.untaken_bytes -= size;
        self.requests.send_item(request).is_ok()
    }
}

/// Waits until a request is decoded. Cancel safe.
async fn opened(opening: &mut Option<Opening>) -> Opened {
    match opening {
        Some(opening) => (&mut opening.opened).await,
        None => std::future::pending().await,
    }
}

/// Waits for room in the queue of the server. Returns false if the server has ended. Cancel safe.
async fn room(requests: &mut PollSender<Incoming>) -> bool {
    std::future::poll_fn(|context| requests.poll_reserve(context)).await.is_ok()
}

/// Waits for the answer to the oldest request. May be dropped and called again.
async fn next_answer(pending: &mut VecDeque<Pending>) -> Option<(Vec<Bytes>, PackedAnswer)> {
    let Some(first) = pending.front_mut() else { return std::future::pending().await };
    let answer = (&mut first.answer).await;
    let first = pending.pop_front()?;
    Some((first.envelope, answer.ok()?))
}

/// Returns the bytes before an answer of `len` bytes, which is the last frame of its message.
fn head(envelope: &[Bytes], len: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(64);
    for frame in envelope {
        head.extend_from_slice(&message_header(frame.len(), true));
        head.extend_from_slice(frame);
    }
    head.extend_from_slice(&message_header(len, false));
    head
}

#[cfg(test)]
mod tests {
    use bytes::Buf as _;
    use value::{Value, map};
    use wire::msgpack::pack;
    use wire::zmtp::encode_message;

    use super::*;
    use crate::budget::Share;

    #[test]
    fn answers_are_packed_as_one_piece_would_be() {
        let envelope = [Bytes::from_static(b"id"), Bytes::new()];
        for answer in [Value::from(vec![7_u8; 300]), Value::bytes(vec![1; 70_000]), map! { "a" => 1 }.into()] {
            let frames = [&envelope[0][..], &envelope[1][..], &pack(&answer, Packing::Wire)];
            let packed = PackedAnswer::new(answer, Packing::Wire, &Share::of(None), None);
            let head = head(&envelope, packed.len());
            let (mut encoded, _held) = packed.after(head);
            assert_eq!(encoded.copy_to_bytes(encoded.remaining()), encode_message(&frames));
        }
    }
}
