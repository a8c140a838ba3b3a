//! Answering over tcp.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rt::{BoxStream, Connection, Listen, Rt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use value::{Value, map};
use wire::envelope::Envelope;
use wire::tcp::Frame;

use super::stream::{FrameReader, FrameWriter, split};
use crate::accept::{Place, accept};
use crate::budget::Share;
use crate::{Budget, Error, Incoming, Limits, Reply, RequestServer, Tls};

/// Requests of one connection that may be worked on at a time.
const AT_A_TIME: usize = 64;

/// Requests of all connections that may wait for the server.
const WAITING: usize = 1024;

/// Listens for requests over tcp.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(rt: Rt, listen: Listen, limits: Limits, tls: Option<Tls>) -> std::io::Result<RequestServer> {
    let listener = rt.net().listen(&listen).await?;
    let (address, inside) = (listener.local_addr()?, rt.clone());
    let (requests, incoming) = mpsc::channel(WAITING);
    let budget = Budget::new(limits.unfinished);
    let task = accept(&inside, listener, limits.half_open, "request", move |connection, place| {
        attend(connection, place, limits, tls.clone(), budget.clone(), requests.clone())
    });
    Ok(RequestServer { address, incoming, _task: task })
}

async fn attend(
    connection: Connection,
    place: Place,
    limits: Limits,
    tls: Option<Tls>,
    budget: Arc<Budget>,
    requests: mpsc::Sender<Incoming>,
) -> Result<(), Error> {
    // Who has not asked anything by then is a stranger that only holds a connection.
    let introduction = introduction(connection.stream, tls, limits.message, budget);
    let (first, reader, writer) = place.during(limits.handshake, introduction).await?;
    let room = Arc::new(Semaphore::new(AT_A_TIME));
    let (asked, to_answer) = mpsc::channel(AT_A_TIME);
    let listener = Listener { peer: connection.peer, reader, requests, room, asked };
    tokio::select! {
        biased;
        ended = listener.run(first) => ended,
        ended = answer(to_answer, writer) => ended,
    }
}

type Introduced = ((Frame, Share), FrameReader, FrameWriter);

async fn introduction(
    stream: BoxStream,
    tls: Option<Tls>,
    limit: usize,
    budget: Arc<Budget>,
) -> Result<Introduced, Error> {
    let stream = super::tls::secure(stream, tls.as_ref()).await?;
    let (mut reader, writer) = split(stream, limit, Some(budget));
    Ok((reader.next_kept().await?, reader, writer))
}

/// Takes the requests of one connection to the server.
struct Listener {
    peer: std::net::SocketAddr,
    reader: FrameReader,
    requests: mpsc::Sender<Incoming>,
    room: Arc<Semaphore>,
    asked: mpsc::Sender<Pending>,
}

/// A request whose answer is waited for.
struct Pending {
    number: String,
    answer: oneshot::Receiver<Value>,
    _room: OwnedSemaphorePermit,
}

impl Listener {
    async fn run(mut self, first: (Frame, Share)) -> Result<(), Error> {
        let (mut frame, mut share) = first;
        loop {
            let room = self.room.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
            let (reply, answer) = Reply::new(share);
            let pending = Pending { number: frame.mid().unwrap_or_default().to_owned(), answer, _room: room };
            let request = Incoming { envelope: Envelope::from_value(frame.body), peer: self.peer, reply };
            if self.asked.send(pending).await.is_err() || self.requests.send(request).await.is_err() {
                return Ok(());
            }
            (frame, share) = self.reader.next_kept().await?;
        }
    }
}

/// Writes answers in the order they are ready.
async fn answer(mut asked: mpsc::Receiver<Pending>, mut writer: FrameWriter) -> Result<(), Error> {
    let mut waiting = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(pending) = asked.recv() => waiting.push(pending.answered()),
            Some(answered) = waiting.next(), if !waiting.is_empty() => {
                // A request that nobody answers leaves the peer waiting.
                if let Some((number, answer)) = answered {
                    writer.write(encode(&number, answer)).await?;
                }
            }
            else => return Ok(()),
        }
    }
}

impl Pending {
    async fn answered(self) -> Option<(String, Value)> {
        Some((self.number, self.answer.await.ok()?))
    }
}

/// Returns the frame with the answer. An answer of bytes, which may be large, is not copied.
fn encode(number: &str, answer: Value) -> impl Buf + use<> {
    match answer {
        Value::Bytes(body) => {
            let mut head = Vec::with_capacity(64);
            Frame::bytes_head(&mut head, map! { "mid" => number }, body.len());
            Bytes::from(head).chain(*body)
        }
        other => Frame::with_mid(number, other).encode().chain(Bytes::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_encoded_as_one_piece_would_be() {
        for answer in [Value::bytes(vec![1; 70_000]), map! { "a" => 1 }.into()] {
            let whole = Frame::with_mid("0123", answer.clone()).encode();
            let mut encoded = encode("0123", answer);
            assert_eq!(encoded.copy_to_bytes(encoded.remaining()), whole);
        }
    }
}
