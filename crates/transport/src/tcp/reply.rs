//! Receives requests and sends answers over tcp.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rt::{BoxStream, Connection, Listen, Rt};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use value::map;
use wire::msgpack::Packing;
use wire::tcp::{Frame, RawFrame};

use super::stream::{Bounds, FrameReader, FrameWriter, split};
use crate::accept::{Place, accept, is_from_here};
use crate::answer::PackedAnswer;
use crate::capacity::{ConnectionRecord, seat_is_needed};
use crate::open::{Opener, keep};
use crate::{Budget, Error, Incoming, Limits, Reply, RequestServer, Tls};

/// The largest number of requests of one connection that may be unanswered at a time.
const AT_A_TIME: usize = 64;

/// The largest number of requests of all connections that wait for the server.
const WAITING: usize = 1024;

/// Listens for requests over tcp.
///
/// # Errors
/// If it cannot listen on the address.
pub async fn serve(rt: Rt, listen: Listen, limits: Limits, tls: Option<Tls>) -> std::io::Result<RequestServer> {
    let listener = rt.net().listen(&listen).await?;
    let (address, inside) = (listener.local_addr()?, rt.clone());
    let (requests, incoming) = mpsc::channel(WAITING);
    let (budget, opener) = (Budget::new(limits.unfinished, limits.unproven), Opener::new(rt));
    let task = accept(&inside, listener, limits.half_open, "request", move |connection, place| {
        let foreign = !is_from_here(&connection);
        let hall = Hall { budget: budget.clone(), requests: requests.clone(), opener: opener.clone(), foreign };
        attend(connection, place, limits, tls.clone(), hall)
    });
    Ok(RequestServer { address, incoming, _task: task })
}

/// The parts of the server that a connection uses.
struct Hall {
    budget: Arc<Budget>,
    requests: mpsc::Sender<Incoming>,
    opener: Opener,
    /// The connection comes from another host.
    foreign: bool,
}

async fn attend(
    connection: Connection,
    place: Place,
    limits: Limits,
    tls: Option<Tls>,
    hall: Hall,
) -> Result<(), Error> {
    let record = place.record();
    // A peer that has not sent a request by then is a stranger that only holds a connection.
    let bounds = Bounds::of_requests(limits.message, (hall.budget.clone(), record.clone()), hall.foreign);
    let introduction = introduction(connection.stream, tls, bounds);
    let (first, reader, writer) = place.during(limits.handshake, introduction).await?;
    let room = Arc::new(Semaphore::new(AT_A_TIME));
    let (asked, to_answer) = mpsc::channel(AT_A_TIME);
    let idle = is_needed_while_idle(room.clone());
    let writing = Arc::new(Mutex::new(()));
    let listener = Listener { peer: connection.peer, record, reader, hall, room, asked, writing: writing.clone() };
    tokio::select! {
        biased;
        ended = listener.run(first) => ended,
        ended = answer(to_answer, writer, writing) => ended,
        () = idle => Ok(()),
    }
}

/// Waits until another connection needs a seat, at a time when this one waits for no answer.
async fn is_needed_while_idle(room: Arc<Semaphore>) {
    loop {
        seat_is_needed().await;
        if room.available_permits() == AT_A_TIME {
            return;
        }
    }
}

type Introduced = (RawFrame, FrameReader, FrameWriter);

async fn introduction(stream: BoxStream, tls: Option<Tls>, bounds: Bounds) -> Result<Introduced, Error> {
    let stream = crate::tls::secure(stream, tls.as_ref()).await?;
    let (mut reader, writer) = split(stream, bounds);
    Ok((reader.next_raw().await?, reader, writer))
}

/// Passes the requests of one connection to the server.
struct Listener {
    peer: std::net::SocketAddr,
    record: Arc<ConnectionRecord>,
    reader: FrameReader,
    hall: Hall,
    room: Arc<Semaphore>,
    asked: mpsc::Sender<Pending>,
    /// Locked while an answer is written.
    writing: Arc<Mutex<()>>,
}

/// A request that is not answered yet.
struct Pending {
    number: String,
    answer: oneshot::Receiver<PackedAnswer>,
    _room: OwnedSemaphorePermit,
}

impl Listener {
    async fn run(mut self, first: RawFrame) -> Result<(), Error> {
        let mut frame = first;
        loop {
            self.record.asks();
            // Before the next request is read: a peer that asks without end waits in its own socket.
            let room = self.room.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
            let RawFrame { mid, body } = frame;
            let size = body.len();
            let opened = match self.hall.opener.open_now(&body, self.hall.foreign) {
                Some(opened) => opened,
                None => {
                    // The bytes count while they wait for a thread, or a thousand connections could queue up large
                    // requests for free.
                    let _held = self.reader.share().keep_clear(size)?;
                    self.hall.opener.clone().open_later(body, self.hall.foreign).await
                }
            };
            let share = self.reader.share();
            let held = keep(share, size, &opened)?;
            let (reply, answer) = Reply::new(held, self.record.clone(), share, Packing::Bin);
            let (envelope, _) = opened;
            let pending = Pending { number: mid.unwrap_or_default(), answer, _room: room };
            let request = Incoming { envelope, peer: self.peer, reply };
            if self.asked.send(pending).await.is_err() || self.hall.requests.send(request).await.is_err() {
                return Ok(());
            }
            // Who does not read answers shall not ask for more of them.
            drop(self.writing.lock().await);
            frame = self.reader.next_raw().await?;
        }
    }
}

/// Writes answers in the order in which they become ready.
async fn answer(
    mut asked: mpsc::Receiver<Pending>,
    mut writer: FrameWriter,
    writing: Arc<Mutex<()>>,
) -> Result<(), Error> {
    let mut waiting = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(pending) = asked.recv() => waiting.push(pending.answered()),
            Some(answered) = waiting.next(), if !waiting.is_empty() => {
                // A request that nobody answers leaves the peer waiting.
                if let Some((number, answer)) = answered {
                    let (frame, _held) = answer.after(head(&number));
                    let _writing = writing.lock().await;
                    writer.write_in_time(frame).await?;
                }
            }
            else => return Ok(()),
        }
    }
}

impl Pending {
    async fn answered(self) -> Option<(String, PackedAnswer)> {
        Some((self.number, self.answer.await.ok()?))
    }
}

/// Returns the bytes before an answer in its frame.
fn head(number: &str) -> Vec<u8> {
    let mut head = Vec::with_capacity(64);
    Frame::head(&mut head, map! { "mid" => number });
    head
}

#[cfg(test)]
mod tests {
    use bytes::Buf as _;
    use value::Value;

    use super::*;
    use crate::budget::Share;

    #[test]
    fn answers_are_encoded_as_one_piece_would_be() {
        for answer in [Value::bytes(vec![1; 70_000]), map! { "a" => 1 }.into()] {
            let whole = Frame::with_mid("0123", answer.clone()).encode();
            let packed = PackedAnswer::new(answer, Packing::Bin, &Share::of(None), None);
            let (mut encoded, _held) = packed.after(head("0123"));
            assert_eq!(encoded.copy_to_bytes(encoded.remaining()), whole);
        }
    }
}
