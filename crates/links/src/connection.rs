//! One connection of a link: writes what is queued, hands over what arrives, and beats.

use std::io;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use share::{Lane, Node};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::frame::{self, FrameReader};
use crate::hub::{Hub, Link};
use crate::met::Met;
use crate::pair::ConnectionId;
use crate::tls::TlsStream;
use peers::failed::{PATIENCE, broken};
use peers::kind::Frame;
use peers::queue::Next;

/// What is written at once.
const BATCH: usize = 64 * 1024;

/// Heartbeats that may be missing.
const MISSING: u32 = 4;

/// Messages below this length are copied out of the buffer that they were read into.
const SMALL: usize = 64 * 1024;

/// Answers to pings that wait. A peer that sends more pings without reading gets no answers.
const PONGS: usize = 4;

/// Runs a connection to its end. `first` is written before anything else.
pub(crate) async fn run(
    hub: Arc<Hub>,
    link: Arc<Link>,
    (id, lane): (ConnectionId, Lane),
    met: Met,
    first: Option<Frame>,
) {
    let (read, write) = tokio::io::split(met.stream);
    let (pong, pongs) = mpsc::channel(PONGS);
    let reader = Reader { hub: &hub, link: &link, lane, half: read, frames: met.reader, pong, linked: None };
    let writer = Writer { hub: &hub, link: &link, lane, half: write, pongs, pings: 0 };
    let (mut reading, mut writing) = (pin!(reader.run()), pin!(writer.run(first)));
    let reason = tokio::select! {
        biased;
        reason = &mut reading => reason,
        reason = &mut writing => reason,
    };
    // Before the connection is dropped: the peer would answer by closing the other lane, which knows no reason.
    hub.closed(id, &reason);
}

struct Reader<'a> {
    hub: &'a Hub,
    link: &'a Link,
    lane: Lane,
    half: ReadHalf<TlsStream>,
    frames: FrameReader,
    pong: mpsc::Sender<u64>,
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
            Frame::Ping { number, now, linked, report, steady } => {
                let (ours, our_steady) = (unix_millis(self.hub), self.hub.steady());
                let wall = self.health(|health| {
                    if let Some(theirs) = steady {
                        health.ahead.note(theirs, our_steady, Instant::now());
                    }
                    // What it says was true half a round trip ago.
                    let wall = now.saturating_add(health.rtt.unwrap_or_default().as_millis() as u64 / 2);
                    health.clock = Some((wall as i64).saturating_sub(ours as i64));
                    wall
                });
                self.hub.members.heard_wall(node, wall);
                self.hub.reported(node, report);
                if self.linked.as_ref() != Some(&linked) {
                    self.hub.inbox.linked(node, self.link.id, linked.clone());
                    self.linked = Some(linked);
                }
                // A peer that pings faster than it reads gets fewer answers.
                let _ = self.pong.try_send(number);
            }
            Frame::Pong { number } => self.health(|health| {
                if let Some((pinged, at)) = health.pinged.filter(|(pinged, _)| *pinged >= number) {
                    health.unanswered = pinged - number;
                    // Of an earlier ping the time of sending is not known any more.
                    if pinged == number {
                        health.rtt = Some(at.elapsed());
                    }
                }
            }),
            Frame::Bye(reason) => return Some(reason),
            Frame::Hello(_) | Frame::Proof { .. } | Frame::Welcome { .. } | Frame::Refused { .. } => {
                return Some("it began again on the same connection".to_owned());
            }
        }
        None
    }

    fn health<T>(&self, change: impl FnOnce(&mut crate::hub::Health) -> T) -> T {
        change(&mut self.link.health.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Writer<'a> {
    hub: &'a Hub,
    link: &'a Link,
    lane: Lane,
    half: WriteHalf<TlsStream>,
    pongs: mpsc::Receiver<u64>,
    pings: u64,
}

impl Writer<'_> {
    /// Returns why the connection has ended.
    async fn run(mut self, first: Option<Frame>) -> String {
        let mut beat = tokio::time::interval(self.hub.options.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
            frames = self.next(&mut beat).await;
        }
    }

    async fn next(&mut self, beat: &mut Interval) -> Vec<Frame> {
        let queue = &self.link.queues[self.lane as usize];
        // In this order: heartbeats must not starve behind a full queue.
        tokio::select! {
            biased;
            _ = beat.tick(), if self.lane == Lane::Talk => vec![self.ping()],
            Some(number) = self.pongs.recv() => vec![Frame::Pong { number }],
            next = queue.next(BATCH) => match next {
                Next::Messages(messages) => messages.into_iter().map(Frame::Message).collect(),
                Next::Bye(reason) => vec![Frame::Bye(reason)],
            },
        }
    }

    fn ping(&mut self) -> Frame {
        self.pings += 1;
        let report = self.hub.members.self_report(self.link.node);
        let linked = self.hub.linked();
        let mut health = self.link.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.pinged = Some((self.pings, Instant::now()));
        health.unanswered += 1;
        let steady = Some(self.hub.steady());
        Frame::Ping { number: self.pings, now: unix_millis(self.hub), linked, report, steady }
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
