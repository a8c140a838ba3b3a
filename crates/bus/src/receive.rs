//! What arrives, and what is due with each heartbeat.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use peers::kind::Frame;
use share::Lane;
use tokio::time::Instant;

use crate::connect::BusState;
use crate::content::Content;
use crate::envelope::{Envelope, Sealed};
use crate::hub::Hub;
use crate::link::{Link, MISSING};
use crate::wire::{Event, Place};

/// Messages below this length are copied out of the buffer that they were read into.
const SMALL: usize = 64 * 1024;

/// Returns whether members send this to such a place.
fn belongs(envelope: &Envelope, place: Place) -> bool {
    match (envelope, place) {
        (Envelope::Beat { .. }, Place::Beat) | (Envelope::Greeting(_), Place::To(_, Lane::Talk)) => true,
        (Envelope::Sealed(sealed), Place::To(_, lane)) => sealed.lane == lane,
        _ => false,
    }
}

impl Hub {
    pub fn heard(self: &Arc<Self>, event: Event) {
        match event {
            Event::Envelope(place, bytes) => self.envelope(place, &bytes),
            Event::State(BusState::Connected) => self.connected(),
            Event::State(BusState::Disconnected) => self.disconnected("the connection is lost"),
            Event::State(BusState::Slow) => self.overflowed(),
            Event::State(BusState::Trouble(words)) => {
                if words.to_lowercase().contains("slow consumer") {
                    self.overflowed();
                }
                match self.is_connected() {
                    true => self.log_complaint(&words),
                    false => self.disconnected(&words),
                }
            }
        }
    }

    /// Logs what the servers say, once an hour: they refuse each message of a login without the right.
    fn log_complaint(&self, words: &str) {
        let (now, servers) = (self.time().0, &self.options.servers);
        match self.guard().may_log(words, "said by the servers", now) {
            true => tracing::warn!("the servers of cluster_bus ({servers}) say: {words}"),
            false => tracing::debug!("the servers of cluster_bus ({servers}) say: {words}"),
        }
    }

    fn envelope(self: &Arc<Self>, place: Place, bytes: &Bytes) {
        match Envelope::decode(bytes) {
            #[cfg(test)]
            Ok(Some(envelope)) if self.is_deaf(&envelope) => {}
            Ok(Some(envelope)) if !belongs(&envelope, place) => {}
            Ok(Some(Envelope::Beat { from, boot })) => self.beat_heard(from, boot),
            Ok(Some(Envelope::Greeting(greeting))) => self.greeting(greeting),
            Ok(Some(Envelope::Sealed(sealed))) => self.sealed(&sealed),
            Ok(None) => {}
            Err(error) => tracing::debug!("somebody on the bus sends what nobody understands: {error}"),
        }
    }

    fn sealed(self: &Arc<Self>, sealed: &Sealed) {
        let link = self.state().links.get(&sealed.from).cloned();
        let Some(link) = link.filter(|link| link.state().session.id == sealed.session) else {
            return self.sealed_stranger(sealed);
        };
        let opened = {
            let mut state = link.state();
            let opened = state.session.open(sealed);
            if opened.is_some() {
                state.heard = Instant::now();
            }
            opened
        };
        let Some(opened) = opened else { return };
        if opened.missing > 0 {
            // The server lost it, or cut this reader off: the two have to compare.
            self.inbox.overflowed(link.node);
        }
        match Content::decode(&opened.content) {
            Ok(Some(content)) => self.take(&link, sealed.lane, content),
            Ok(None) => {}
            Err(error) => self.close_saying(&link, &error.to_string()),
        }
    }

    fn take(self: &Arc<Self>, link: &Arc<Link>, lane: Lane, content: Content) {
        match content {
            Content::Message { position, message } => {
                let message = if message.len() < SMALL { Bytes::copy_from_slice(&message) } else { message };
                let arrived = &mut link.state().lanes[lane as usize].arrived;
                *arrived = position.max(*arrived);
                if !self.inbox.offer(link.node, link.id, lane, message) {
                    self.inbox.overflowed(link.node);
                }
            }
            Content::Credit(read) => link.credit(read),
            Content::Mark(position) => {
                let arrived = &mut link.state().lanes[lane as usize].arrived;
                *arrived = position.max(*arrived);
            }
            Content::Frame(frame) => self.frame(link, frame),
        }
    }

    fn frame(self: &Arc<Self>, link: &Arc<Link>, frame: Frame) {
        match frame {
            Frame::Ping { number, now, linked, report, steady, .. } => {
                let ours = self.rt.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
                let our_steady = self.steady();
                let (wall, changed) = {
                    let mut state = link.state();
                    let health = &mut state.health;
                    if let Some(theirs) = steady {
                        health.ahead.note(theirs, our_steady, Instant::now());
                    }
                    let wall = now.saturating_add(health.rtt.unwrap_or_default().as_millis() as u64 / 2);
                    health.clock = Some((wall as i64).saturating_sub(ours as i64));
                    (wall, state.linked.replace(linked.clone()).as_ref() != Some(&linked))
                };
                self.members.heard_wall(link.node, wall);
                self.members.heard_report(link.node, &report);
                self.state().roster.reported(link.node, report);
                if changed {
                    self.inbox.linked(link.node, link.id, linked);
                }
                // A peer that pings faster than it reads gets fewer answers.
                let _ = link.notes.try_send(Content::Frame(Frame::Pong { number }));
            }
            Frame::Pong { number } => {
                let health = &mut link.state().health;
                if let Some((pinged, at)) = health.pinged.filter(|(pinged, _)| *pinged >= number) {
                    health.unanswered = pinged - number;
                    if pinged == number {
                        health.rtt = Some(at.elapsed());
                    }
                }
            }
            Frame::Bye(reason) => self.close(link, &reason),
            // What the peer says again because its answer was late.
            Frame::Welcome { .. } => {}
            Frame::Hello(_) | Frame::Proof { .. } | Frame::Refused { .. } | Frame::Message(_) => {
                self.close_saying(link, "it began again in the same session");
            }
        }
    }

    /// Does what is due with each heartbeat.
    pub fn tick(&self) {
        self.beat();
        self.end_late_talks();
        let silence = self.options.heartbeat * MISSING;
        let links: Vec<Arc<Link>> = self.state().links.values().cloned().collect();
        for link in links.iter().filter(|link| link.state().heard.elapsed() >= silence) {
            self.close_saying(link, "no answer");
        }
    }
}
