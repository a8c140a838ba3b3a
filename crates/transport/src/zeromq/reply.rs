//! Answering as a ROUTER with workers behind it does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use rt::{Connection, Listen, Rt};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;
use value::Value;
use wire::envelope::Envelope;
use wire::msgpack::{Packing, pack, pack_bytes_header};
use wire::zmtp::{Incoming as Frame, SocketType, message_header};

use super::stream::{Setup, ZmtpStream, admit};
use crate::accept::{Place, accept};
use crate::capacity::seat_is_needed;
use crate::{Budget, Error, Heartbeat, Incoming, Limits, Reply, RequestServer};

/// Requests a connection may send ahead of its answers.
const AHEAD: usize = 16;

/// Bytes of requests a connection may have sent that the server has not taken yet, if more than one.
const AHEAD_BYTES: usize = 64 << 10;

/// Requests of all connections that may wait for the server.
const WAITING: usize = 1024;

/// Listens for requests over zeromq.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(
    rt: Rt,
    listen: Listen,
    limits: Limits,
    heartbeat: Option<Heartbeat>,
) -> std::io::Result<RequestServer> {
    let listener = rt.net().listen(&listen).await?;
    let (address, inside) = (listener.local_addr()?, rt.clone());
    let (requests, incoming) = mpsc::channel(WAITING);
    let budget = Budget::new(limits.unfinished);
    let task = accept(&inside, listener, limits.half_open, "request", move |connection, place| {
        let setup = setup(&limits, heartbeat, budget.clone());
        attend(connection, place, setup, limits, requests.clone())
    });
    Ok(RequestServer { address, incoming, _task: task })
}

fn setup(limits: &Limits, heartbeat: Option<Heartbeat>, budget: Arc<Budget>) -> Setup {
    let (socket, identity) = (SocketType::Router, Bytes::new());
    Setup { socket, identity, limit: limits.message, budget: Some(budget), heartbeat }
}

async fn attend(
    connection: Connection,
    place: Place,
    setup: Setup,
    limits: Limits,
    requests: mpsc::Sender<Incoming>,
) -> Result<(), Error> {
    let (stream, _) = admit(connection.stream, place, setup, limits.handshake).await?;
    let conversation = Conversation {
        stream,
        peer: connection.peer,
        requests: PollSender::new(requests),
        untaken: VecDeque::new(),
        untaken_bytes: 0,
        pending: VecDeque::new(),
        has_asked: false,
    };
    conversation.run().await
}

/// One connection. Its requests are handed over, and answered, in the order they came in.
struct Conversation {
    stream: ZmtpStream,
    peer: SocketAddr,
    /// Keeps its place in the line before the server, whatever else happens meanwhile.
    requests: PollSender<Incoming>,
    /// Requests the server has not taken yet, with their lengths.
    untaken: VecDeque<(usize, Incoming)>,
    untaken_bytes: usize,
    pending: VecDeque<Pending>,
    /// Those that never ask hold the connection to see whether the server lives.
    has_asked: bool,
}

/// A request whose answer is waited for, with the frames to put before the answer.
struct Pending {
    envelope: Vec<Bytes>,
    answer: oneshot::Receiver<Value>,
}

impl Conversation {
    /// Goes on reading while the server is busy, so that heartbeats are answered.
    async fn run(mut self) -> Result<(), Error> {
        loop {
            let hears = self.pending.len() < AHEAD && self.untaken_bytes < AHEAD_BYTES;
            tokio::select! {
                biased;
                incoming = self.stream.next(), if hears => {
                    if let Frame::Message(frames) = incoming? {
                        self.take_in(frames);
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
                        self.stream.write(encode(&envelope, answer)).await?;
                    }
                }
                () = seat_is_needed(), if self.has_asked && self.pending.is_empty() => return Ok(()),
            }
        }
    }

    fn take_in(&mut self, mut frames: Vec<Bytes>) {
        let Some(payload) = frames.pop() else { return };
        let size = payload.len();
        let (reply, answer) = Reply::new(self.stream.keep(size));
        let request = Incoming { envelope: Envelope::decode(&payload), peer: self.peer, reply };
        self.has_asked = true;
        self.untaken_bytes += size;
        self.untaken.push_back((size, request));
        self.pending.push_back(Pending { envelope: frames, answer });
    }

    /// Gives the oldest request to the server; false when that is gone.
    fn hand_over(&mut self) -> bool {
        let Some((size, request)) = self.untaken.pop_front() else { return true };
        self.untaken_bytes -= size;
        self.requests.send_item(request).is_ok()
    }
}

/// Waits for room in the line before the server; false when that is gone. May be dropped and called again.
async fn room(requests: &mut PollSender<Incoming>) -> bool {
    std::future::poll_fn(|context| requests.poll_reserve(context)).await.is_ok()
}

/// Waits for the answer to the oldest request. May be dropped and called again.
async fn next_answer(pending: &mut VecDeque<Pending>) -> Option<(Vec<Bytes>, Value)> {
    let Some(first) = pending.front_mut() else { return std::future::pending().await };
    let answer = (&mut first.answer).await;
    let first = pending.pop_front()?;
    Some((first.envelope, answer.ok()?))
}

/// Returns the message with the answer as its last frame. An answer of bytes, which may be large, is not copied.
fn encode(envelope: &[Bytes], answer: Value) -> impl Buf + use<> {
    let mut packed = Vec::new();
    let body = match answer {
        Value::Bytes(body) => {
            pack_bytes_header(&mut packed, body.len(), Packing::Wire);
            *body
        }
        other => pack(&other, Packing::Wire).into(),
    };
    let mut head = Vec::with_capacity(64);
    for frame in envelope {
        head.extend_from_slice(&message_header(frame.len(), true));
        head.extend_from_slice(frame);
    }
    head.extend_from_slice(&message_header(packed.len() + body.len(), false));
    head.append(&mut packed);
    Bytes::from(head).chain(body)
}

#[cfg(test)]
mod tests {
    use value::map;
    use wire::zmtp::encode_message;

    use super::*;

    #[test]
    fn answers_are_packed_as_one_piece_would_be() {
        let envelope = [Bytes::from_static(b"id"), Bytes::new()];
        for answer in [Value::from(vec![7_u8; 300]), Value::bytes(vec![1; 70_000]), map! { "a" => 1 }.into()] {
            let frames = [&envelope[0][..], &envelope[1][..], &pack(&answer, Packing::Wire)];
            let mut encoded = encode(&envelope, answer);
            assert_eq!(encoded.copy_to_bytes(encoded.remaining()), encode_message(&frames));
        }
    }
}
