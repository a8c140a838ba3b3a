//! One connection of a link: writes what is queued, hands over what arrives, and beats.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use share::{Lane, Node};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::Instant;

use crate::frame::{self, FrameReader};
use crate::hub::{Hub, Link};
use crate::met::Met;
use crate::pair::ConnectionId;
use crate::tls::TlsStream;
use peers::failed::{PATIENCE, broken};
use peers::kind::{Answer, Frame};
use peers::queue::Next;

/// What is written at once.
const BATCH: usize = 64 * 1024;

/// Heartbeats that may be missing.
const MISSING: u32 = 4;

/// Messages below this length are copied out of the buffer that they were read into.
const SMALL: usize = 64 * 1024;

/// A ping of the peer is answered at once if the next ping of this member is due within this part of a heartbeat, in percent.
///
/// It is less than 100, so that the member whose timer fired first does not answer the answer.
const EARLY: u32 = 75;

/// How much later the next ping is due after such an answer, in percent of a heartbeat: the peer's next ping comes first, so of two
/// idle members only one is woken by its timer. It is less than `EARLY`, so that the next ping is answered at once as well.
const LATER: u32 = 50;

/// Runs a connection to its end. `first` is written before anything else.
pub(crate) async fn run(
    hub: Arc<Hub>,
    link: Arc<Link>,
    (id, lane): (ConnectionId, Lane),
    met: Met,
    first: Option<Frame>,
) {
    let (read, write) = tokio::io::split(met.stream);
    let pinged = Mutex::default();
    let reader = Reader { hub: &hub, link: &link, lane, half: read, frames: met.reader, pinged: &pinged, linked: None };
    let beat_at = Instant::now();
    let writer = Writer { hub: &hub, link: &link, lane, half: write, pinged: &pinged, beat_at, answer: None };
    let (mut reading, mut writing) = (pin!(reader.run()), pin!(writer.run(first)));
    // In this order: the writer looks for what the reader has just read, and nothing wakes it for that.
    let reason = tokio::select! {
        biased;
        reason = &mut reading => reason,
        reason = &mut writing => reason,
    };
    // Before the connection is dropped: the peer would answer by closing the other lane, which knows no reason.
    hub.closed(id, &reason);
}

/// A ping of the peer.
struct Pinged {
    number: u64,
    at: Instant,
    /// The peer takes its answer from the next ping in the other direction.
    can_wait: bool,
}

/// The latest ping of the peer that the writer has not seen. One that pings faster than it reads gets fewer answers.
type LatestPing = Mutex<Option<Pinged>>;

struct Reader<'a> {
    hub: &'a Hub,
    link: &'a Link,
    lane: Lane,
    half: ReadHalf<TlsStream>,
    frames: FrameReader,
    pinged: &'a LatestPing,
    /// With whom the peer was linked at its last ping.
    linked: Option<Vec<Node>>,
}

impl Reader<'_> {
    /// Returns why the connection has ended.
    async fn run(mut self) -> String {
        // What arrives before the other lane is there belongs to a link that is not reported yet.
        if tokio::time::timeout(PATIENCE, self.link.up.raised()).await.is_err() {
            return "the second connection is missing".to_owned();
        }
        // Only talk beats. A silent peer ends both lanes.
        let silence = (self.lane == Lane::Talk).then(|| self.hub.options.heartbeat * MISSING);
        loop {
            let packed = match self.frames.next_within(&mut self.half, silence).await {
                Ok(packed) => packed,
                Err(error) => return broken(&error),
            };
            match Frame::decode(&packed) {
                Ok(frame) => {
                    if let Some(reason) = self.take(frame).await {
                        return reason;
                    }
                }
                Err(error) => return error.to_string(),
            }
        }
    }

    async fn take(&mut self, frame: Option<Frame>) -> Option<String> {
        let node = self.link.node;
        match frame? {
            Frame::Message(message) => {
                let message = on_its_own(message);
                // Waits for the model: what it does not read stays in the socket, and so with the sender.
                self.hub.inbox.message(node, self.link.id, self.lane, message).await;
            }
            Frame::Ping { number, now, linked, report, steady, answer } => {
                let (ours, our_steady, at) = (unix_millis(self.hub), self.hub.steady(), Instant::now());
                let wall = self.health(|health| {
                    answer.into_iter().for_each(|answer| health.beats.answered(answer, at));
                    if let Some(theirs) = steady {
                        health.ahead.note(theirs, our_steady, at);
                    }
                    // What it says was true half a round trip ago.
                    let wall = now.saturating_add(health.beats.rtt().unwrap_or_default().as_millis() as u64 / 2);
                    health.clock = Some((wall as i64).saturating_sub(ours as i64));
                    wall
                });
                self.hub.members.heard_wall(node, wall);
                self.hub.reported(node, report);
                if self.linked.as_ref() != Some(&linked) {
                    self.hub.inbox.linked(node, self.link.id, linked.clone());
                    self.linked = Some(linked);
                }
                *lock(self.pinged) = Some(Pinged { number, at, can_wait: answer.is_some() });
            }
            Frame::Pong { number } => self.health(|health| {
                health.beats.answered(Answer { number, held: Duration::ZERO }, Instant::now());
            }),
            Frame::Bye(reason) => return Some(reason),
            Frame::Hello(_) | Frame::Proof { .. } | Frame::Welcome { .. } | Frame::Refused { .. } => {
                return Some("it began again on the same connection".to_owned());
            }
        }
        None
    }

    fn health<T>(&self, change: impl FnOnce(&mut crate::hub::Health) -> T) -> T {
        change(&mut lock(&self.link.health))
    }
}

struct Writer<'a> {
    hub: &'a Hub,
    link: &'a Link,
    lane: Lane,
    half: WriteHalf<TlsStream>,
    pinged: &'a LatestPing,
    /// When the next ping is due.
    beat_at: Instant,
    /// The peer's latest ping that the next one of this member answers.
    answer: Option<Pinged>,
}

impl Writer<'_> {
    /// Returns why the connection has ended.
    async fn run(mut self, first: Option<Frame>) -> String {
        let mut frames: Vec<Frame> = first.into_iter().collect();
        loop {
            if let Err(error) = self.write(&frames).await {
                return broken(&error);
            }
            if let Some(Frame::Bye(_)) = frames.last() {
                // The peer closes. Closing here first would be a reset when bytes of the peer are unread, and a reset
                // overtakes what was written.
                std::future::pending::<()>().await;
            }
            frames = self.next().await;
        }
    }

    async fn next(&mut self) -> Vec<Frame> {
        let queue = &self.link.queues[self.lane as usize];
        loop {
            // In this order: heartbeats must not starve behind a full queue.
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.beat_at), if self.lane == Lane::Talk => return vec![self.ping(Duration::ZERO)],
                pinged = poll_fn(|_| lock(self.pinged).take().map_or(Poll::Pending, Poll::Ready)) => {
                    if !pinged.can_wait {
                        return vec![Frame::Pong { number: pinged.number }];
                    }
                    self.answer = Some(pinged);
                    let percent = self.hub.options.heartbeat / 100;
                    if self.lane == Lane::Talk && self.beat_at <= Instant::now() + percent * EARLY {
                        return vec![self.ping(percent * LATER)];
                    }
                }
                next = queue.next(BATCH) => return match next {
                    Next::Messages(messages) => messages.into_iter().map(Frame::Message).collect(),
                    Next::Bye(reason) => vec![Frame::Bye(reason)],
                },
            }
        }
    }

    fn ping(&mut self, later: Duration) -> Frame {
        let now = Instant::now();
        self.beat_at = now + self.hub.options.heartbeat + later;
        let answer = match self.answer.take() {
            Some(pinged) => Answer { number: pinged.number, held: now.duration_since(pinged.at) },
            None => Answer::default(),
        };
        let report = self.hub.members.self_report(self.link.node);
        let linked = self.hub.linked();
        let number = lock(&self.link.health).beats.send(now);
        let (now, steady) = (unix_millis(self.hub), Some(self.hub.steady()));
        Frame::Ping { number, now, linked, report, steady, answer: Some(answer) }
    }

    async fn write(&mut self, frames: &[Frame]) -> io::Result<()> {
        let mut out = Vec::new();
        frames.iter().for_each(|frame| frame::put(&mut out, &frame.encode()));
        self.half.write_all(&out).await?;
        self.half.flush().await
    }
}

/// Returns a message that keeps no other bytes in memory than its own: a small one would keep all that was read with it.
fn on_its_own(message: Bytes) -> Bytes {
    if message.len() < SMALL { Bytes::copy_from_slice(&message) } else { message }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_millis(hub: &Hub) -> u64 {
    hub.rt.now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_message_does_not_keep_the_buffer_that_it_was_read_into() {
        for (len, is_copied) in [(0, true), (SMALL - 1, true), (SMALL, false)] {
            let buffer = Bytes::from(vec![7; 2 * SMALL]);
            let message = on_its_own(buffer.slice(1..1 + len));
            assert_eq!((&message[..], buffer.is_unique()), (&vec![7; len][..], is_copied));
        }
    }
}
