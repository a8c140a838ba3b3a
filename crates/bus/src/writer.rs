//! Writes what is to be sent over a link: heartbeats, answers, and messages as far as they may be under way.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use peers::inbox::cost;
use peers::kind::Frame;
use peers::queue::Next;
use share::Lane;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use crate::content::Content;
use crate::hub::Hub;
use crate::link::Link;
use crate::wire::Place;

/// What is sealed before others have their turn.
const BATCH: usize = 64 * 1024;

/// Begins to write both lanes of a link. `first` is sent before all else.
pub(crate) fn start(hub: &Arc<Hub>, link: &Arc<Link>, notes: mpsc::Receiver<Content>, first: Option<Content>) {
    let (mut notes, mut first) = (Some(notes), first);
    for lane in [Lane::Talk, Lane::Bulk] {
        let (hub, link, notes, first) = (hub.clone(), link.clone(), notes.take(), first.take());
        let writer = Writer { hub: hub.clone(), link: link.clone(), lane, notes, pings: 0, waiting: VecDeque::new() };
        let task = hub.rt.spawn(writer.run(first)).abort_handle();
        link.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
    if !hub.is_up(link) {
        // It has ended before its tasks were known.
        link.abort();
    }
}

struct Writer {
    hub: Arc<Hub>,
    link: Arc<Link>,
    lane: Lane,
    notes: Option<mpsc::Receiver<Content>>,
    pings: u64,
    /// Messages that are sent next.
    waiting: VecDeque<Bytes>,
}

impl Writer {
    async fn run(mut self, first: Option<Content>) {
        if let Some(first) = first {
            self.send(first).await;
        }
        let mut beat = tokio::time::interval(self.hub.options.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let contents = tokio::select! {
                biased;
                _ = beat.tick() => self.beat(),
                Some(note) = next_note(&mut self.notes) => vec![note],
                next = self.link.queues[self.lane as usize].next(BATCH), if self.waiting.is_empty() => match next {
                    Next::Messages(messages) => {
                        self.waiting.extend(messages);
                        Vec::new()
                    }
                    Next::Bye(reason) => {
                        self.send(Content::Frame(Frame::Bye(reason.clone()))).await;
                        return self.hub.close(&self.link, &reason);
                    }
                },
                () = self.link.room[self.lane as usize].notified(), if !self.waiting.is_empty() => Vec::new(),
            };
            for content in contents {
                self.send(content).await;
            }
            while let Some(content) = self.next_message() {
                self.send(content).await;
            }
        }
    }

    /// Returns what is said with each heartbeat.
    fn beat(&mut self) -> Vec<Content> {
        let mut contents = Vec::new();
        if self.lane == Lane::Talk {
            contents.push(Content::Frame(self.ping()));
            contents.push(Content::Credit(self.credit()));
        }
        let mut state = self.link.state();
        let flow = &mut state.lanes[self.lane as usize];
        if flow.stands_still() {
            contents.push(Content::Mark(flow.sent));
        }
        contents
    }

    fn ping(&mut self) -> Frame {
        self.pings += 1;
        let report = self.hub.members.self_report(self.link.node);
        let linked = self.hub.linked();
        let now = self.hub.rt.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let mut state = self.link.state();
        state.health.pinged = Some((self.pings, Instant::now()));
        state.health.unanswered += 1;
        Frame::Ping { number: self.pings, now, linked, report, steady: Some(self.hub.steady()), answer: None }
    }

    fn credit(&self) -> [u64; 2] {
        let unread = self.hub.inbox.unread(self.link.node);
        let mut state = self.link.state();
        let read = state.read(unread);
        state.tell(read);
        read
    }

    /// Returns the next message, if it may be under way.
    fn next_message(&mut self) -> Option<Content> {
        let bytes = cost(self.waiting.front()?);
        let mut state = self.link.state();
        let flow = &mut state.lanes[self.lane as usize];
        if !flow.fits(bytes) {
            return None;
        }
        flow.sent += bytes as u64;
        let message = self.waiting.pop_front()?;
        Some(Content::Message { position: flow.sent, message })
    }

    async fn send(&self, content: Content) {
        let content = content.encode();
        let sealed = self.link.state().session.seal(self.lane, &content);
        match sealed {
            Ok(sealed) => self.hub.wire.publish(Place::To(self.link.node, self.lane), sealed).await,
            Err(error) => tracing::error!("a message to another master is lost: {error}"),
        }
    }
}

async fn next_note(notes: &mut Option<mpsc::Receiver<Content>>) -> Option<Content> {
    match notes {
        Some(notes) => notes.recv().await,
        None => std::future::pending().await,
    }
}
