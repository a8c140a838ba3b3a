//! The link to one member: what waits for it, and how much of it may be under way.
//!
//! Servers cut off whoever reads slowly, so members say how far they have read. What may be under way to a member in a lane is
//! bounded by what its inbox holds; all else waits here.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use peers::ahead::Ahead;
use peers::inbox::MAX_WAITING;
use peers::queue::LaneQueue;
use share::Node;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::content::Content;
use crate::session::Session;

/// Heartbeats that may be missing.
pub(crate) const MISSING: u32 = 4;

/// Answers to the peer that wait. One that asks more without reading gets no answers.
pub(crate) const NOTES: usize = 16;

/// How much the model has read before the peer is told so, besides each heartbeat.
const TELL_AFTER: u64 = MAX_WAITING as u64 / 4;

/// A link that is up.
pub(crate) struct Link {
    /// Names the link in this process.
    pub id: u64,
    pub node: Node,
    /// The boot of the peer.
    pub boot: u64,
    pub queues: [LaneQueue; 2],
    pub notes: mpsc::Sender<Content>,
    pub tasks: Mutex<Vec<AbortHandle>>,
    state: Mutex<State>,
    /// A lane may go on.
    pub room: [Notify; 2],
}

/// What changes with each message.
pub(crate) struct State {
    pub session: Session,
    pub heard: Instant,
    pub health: Health,
    /// With whom the peer was linked at its last ping.
    pub linked: Option<Vec<Node>>,
    pub lanes: [Flow; 2],
}

/// What pings have shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Health {
    pub pinged: Option<(u64, Instant)>,
    pub rtt: Option<Duration>,
    /// By how many milliseconds the clock of the peer is ahead.
    pub clock: Option<i64>,
    /// How far its clock that never jumps is ahead.
    pub ahead: Ahead,
    /// Heartbeats that the peer has not answered.
    pub unanswered: u64,
}

/// How far a lane is, in bytes as [`cost`] counts them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// What was sent.
    pub sent: u64,
    /// What the peer has read of it.
    pub read_there: u64,
    /// `read_there` at the last heartbeat.
    marked: u64,
    /// What has arrived, and what was lost before it.
    pub arrived: u64,
    /// What the peer was told that is read here.
    told: u64,
}

impl Flow {
    /// Returns whether this many more bytes may be in flight.
    pub fn fits(&self, bytes: usize) -> bool {
        let under_way = self.sent.saturating_sub(self.read_there);
        under_way == 0 || under_way + bytes as u64 <= MAX_WAITING as u64
    }

    /// Takes note of what the peer says that it has read: never more than it got.
    pub fn credit(&mut self, read: u64) {
        self.read_there = read.clamp(self.read_there, self.sent);
    }

    /// Returns whether the peer has read nothing since the last call although something is under way: it may be lost.
    pub fn stands_still(&mut self) -> bool {
        let still = self.sent > self.read_there && self.marked == self.read_there;
        self.marked = self.read_there;
        still
    }
}

impl Link {
    pub fn new(
        (id, node, boot): (u64, Node, u64),
        session: Session,
        queue: usize,
        notes: mpsc::Sender<Content>,
    ) -> Link {
        let (health, lanes, heard) = (Health::default(), [Flow::default(); 2], Instant::now());
        let state = Mutex::new(State { session, heard, health, linked: None, lanes });
        let queues = [LaneQueue::new(queue), LaneQueue::new(queue)];
        Link { id, node, boot, queues, notes, tasks: Mutex::default(), state, room: Default::default() }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of how far the peer has read.
    pub fn credit(&self, read: [u64; 2]) {
        let mut state = self.state();
        state.lanes.iter_mut().zip(read).for_each(|(lane, read)| lane.credit(read));
        drop(state);
        self.room.iter().for_each(Notify::notify_one);
    }

    /// Tells the peer how far the model has read, if that is far enough. `unread` bytes wait in each lane.
    pub fn read(&self, unread: [usize; 2]) {
        let mut state = self.state();
        let read = state.read(unread);
        if state.lanes.iter().zip(read).any(|(lane, read)| read - lane.told.min(read) >= TELL_AFTER) {
            state.tell(read);
            // The next heartbeat says it again.
            let _ = self.notes.try_send(Content::Credit(read));
        }
    }

    /// Ends the tasks of the link.
    pub fn abort(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(AbortHandle::abort);
    }
}

impl State {
    pub fn read(&self, unread: [usize; 2]) -> [u64; 2] {
        [0, 1].map(|lane: usize| self.lanes[lane].arrived.saturating_sub(unread[lane] as u64))
    }

    pub fn tell(&mut self, read: [u64; 2]) {
        self.lanes.iter_mut().zip(read).for_each(|(lane, read)| lane.told = read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_under_way_than_the_inbox_of_the_peer_holds() {
        let mut flow = Flow::default();
        assert!(flow.fits(2 * MAX_WAITING), "one message always fits");
        flow.sent = MAX_WAITING as u64;
        assert!(!flow.fits(1));
        flow.credit(100);
        assert!(flow.fits(100) && !flow.fits(101));
        flow.credit(50);
        assert_eq!(flow.read_there, 100, "an older word changes nothing");
        flow.credit(u64::MAX);
        assert_eq!(flow.read_there, flow.sent, "nobody reads what he has not got");
    }

    #[test]
    fn a_peer_that_reads_nothing_is_told_where_the_lane_is() {
        let mut flow = Flow::default();
        assert!(!flow.stands_still());
        flow.sent = 10;
        assert!(flow.stands_still());
        flow.credit(5);
        assert!(!flow.stands_still() && flow.stands_still());
        flow.credit(10);
        assert!(!flow.stands_still() && !flow.stands_still());
    }
}
