//! The model of one member: what it hears and does goes in, what is to be done comes out.
//!
//! A carrier reports members and messages to [`Model::hear`], the master its own changes to [`Model::local`], and the clock calls
//! [`Model::tick`]. Each returns [`Action`]s, in order. Nothing here waits, and a lost message is repaired by comparing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use crypto::MemberKey;

use crate::message::Part;
use crate::records::Records;
use crate::traffic::RecordCounts;
use crate::{Class, Classes, Digest, Entry, HybridClock, Incoming, Key, LossWatch, Message, Node, Record, Stamp};

mod action;
mod change;
mod comparing;
mod in_vain;
mod jobs;
mod kept;
mod late;
mod members;
mod outbox;
mod peer;
mod receive;
mod retention;
mod returns;
mod staged;
mod wall;
mod welcome;

pub use action::Action;
pub use change::Change;
use jobs::Retold;
pub use kept::{KeptRecord, KeptVerdict};
use members::Members;
use outbox::Outbox;
use peer::Peer;
use staged::Staged;
pub use wall::{SetClock, SetTime};

/// The time, from two clocks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970. May jump.
    pub wall: u64,
    /// Milliseconds of a clock that never jumps: all waiting is measured with it.
    pub steady: u64,
}

/// What the options of the master say.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// For how long jobs are kept, in milliseconds (`keep_jobs_seconds`); 0 for ever.
    pub keep_jobs: u64,
    /// For how long deletions are remembered, in milliseconds (`cluster_tombstone_days`).
    pub keep_tombstones: u64,
    /// What this member shares.
    pub shared: Classes,
}

impl Default for Settings {
    fn default() -> Self {
        const DAY: u64 = 86_400_000;
        Settings { keep_jobs: DAY, keep_tombstones: 90 * DAY, shared: Classes::ALL }
    }
}

/// The model of one member.
pub struct Model<R> {
    node: Node,
    key: MemberKey,
    settings: Settings,
    clock: HybridClock,
    wall: Arc<SetClock>,
    /// The latest time that it may be, by the wall clock.
    latest: u64,
    records: R,
    /// What will be stored in one step.
    staged: Staged,
    members: Members,
    /// How many minion keys there are that are not deleted.
    live_keys: usize,
    peers: BTreeMap<Node, Peer>,
    /// Nodes that the carrier reaches. Those that are no members yet wait here until they are.
    reached: BTreeSet<Node>,
    outbox: Outbox,
    /// Data of minions that changed here and will be announced.
    announcements: BTreeMap<Key, Announcement>,
    losses: LossWatch,
    retold: Retold,
    /// When each member was last found to have equal copies, by the wall clock.
    compared: BTreeMap<Node, u64>,
    counts: Arc<RecordCounts>,
    /// The number of the last message that wants an answer.
    number: u64,
    /// When tombstones are looked through next.
    sweep: u64,
    /// When the model was first asked, by the wall clock.
    began: Option<u64>,
}

struct Announcement {
    digest: Digest,
    stamp: Stamp,
    due: u64,
}

/// How long a member waits with an announcement: a minion that sends its data to all masters has done so by then.
const ANNOUNCE_AFTER: u64 = 200;

/// How far in the future a stamp may be, in milliseconds. Clocks follow stamps, and one that is far off would lead them all astray.
const MOST_AHEAD: u64 = 86_400_000;

/// How many bytes of messages in parts may be here, from all members together.
const MOST_ASSEMBLED: usize = 4 * crate::message::MAX_WHOLE;

impl<R: Records> Model<R> {
    /// Creates the model of the member with this key. `last` is the highest time that it wrote down.
    pub fn new(key: MemberKey, records: R, settings: Settings, last: u64) -> Model<R> {
        let node = Node::of_key(&key.public());
        let members = Members::load(&records);
        let live_keys = live_keys(&records);
        Model {
            node,
            key,
            settings,
            clock: HybridClock::new(node, last),
            wall: Arc::new(SetClock::new(last >> 16)),
            latest: 0,
            records,
            staged: Staged::default(),
            members,
            live_keys,
            peers: BTreeMap::new(),
            reached: BTreeSet::new(),
            outbox: Outbox::default(),
            announcements: BTreeMap::new(),
            losses: LossWatch::default(),
            retold: Retold::default(),
            compared: BTreeMap::new(),
            counts: Arc::default(),
            number: 0,
            sweep: 0,
            began: None,
        }
    }

    /// Begins again with what is stored, after something failed and may be half done.
    pub fn restart(&mut self, now: Moment) -> Vec<Action> {
        let now = self.read_clock(now);
        self.staged = Staged::default();
        self.members = Members::load(&self.records);
        self.live_keys = live_keys(&self.records);
        self.outbox = Outbox::default();
        self.peers.clear();
        let mut actions = Vec::new();
        // What was lost is found by comparing.
        self.reached.clone().into_iter().for_each(|node| self.up(node, now, &mut actions));
        actions
    }

    /// Returns the node of this member.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Returns the clock by which this member goes.
    pub fn clock(&self) -> Arc<SetClock> {
        self.wall.clone()
    }

    /// Returns the records.
    pub fn records(&self) -> &R {
        &self.records
    }

    /// Returns the highest time that was written or seen: to be written down with the records.
    pub fn last_time(&self) -> u64 {
        self.clock.last()
    }

    /// Returns when this member and another one last had equal copies, by the wall clock.
    pub fn compared(&self, node: Node) -> Option<u64> {
        self.compared.get(&node).copied()
    }

    /// Returns how many records came from other members and went to them. It goes on counting.
    pub fn counts(&self) -> Arc<RecordCounts> {
        self.counts.clone()
    }

    /// Returns the entry of a minion key or a member.
    pub fn entry(&self, class: Class, key: &Key) -> Entry {
        match self.current(class, key).map(|record| record.content) {
            Some(crate::Content::Decided(_, entry)) => entry,
            _ => Entry::default(),
        }
    }

    /// Takes what a carrier reports.
    pub fn hear(&mut self, incoming: Incoming, now: Moment) -> Vec<Action> {
        let now = self.read_clock(now);
        let mut actions = Vec::new();
        match incoming {
            Incoming::Up(node) => self.up(node, now, &mut actions),
            Incoming::Down(node, _) => {
                self.reached.remove(&node);
                self.peers.remove(&node);
            }
            Incoming::Overflowed(node) => self.compare_soon(node, now),
            Incoming::Linked(node, with) => {
                if let Some(peer) = self.peers.get_mut(&node) {
                    peer.linked_with = Some(with);
                }
            }
            Incoming::Message { from, message, .. } => self.message(from, &message, now, &mut actions),
        }
        actions
    }

    /// Does what is due. Call it at [`Model::next_tick`] or later.
    pub fn tick(&mut self, now: Moment) -> Vec<Action> {
        let now = self.read_clock(now);
        let mut actions = Vec::new();
        self.flush_outbox(now, &mut actions);
        self.announce(now, &mut actions);
        self.compare_due(now, &mut actions);
        self.decide_losses(now, &mut actions);
        // What is not stored is reported with the reason.
        let _reported = self.store_staged(now, &mut actions);
        self.sweep(now, &mut actions);
        actions
    }

    /// Returns when [`Model::tick`] has something to do, by the steady clock.
    pub fn next_tick(&self) -> Option<u64> {
        let peers = self.peers.values().map(Peer::next);
        let announcements = self.announcements.values().map(|announcement| announcement.due);
        peers.chain(announcements).chain(self.outbox.due()).chain(self.losses.next()).chain([self.sweep]).min()
    }

    fn up(&mut self, node: Node, now: Moment, actions: &mut Vec<Action>) {
        self.reached.insert(node);
        if self.members.is_accepted(node) {
            self.start_peer(node, now, actions);
        } else {
            actions.push(Action::Warn(format!("{} is linked but no member of the set", self.members.called(node))));
        }
    }

    fn start_peer(&mut self, node: Node, now: Moment, actions: &mut Vec<Action>) {
        // The lower node asks, so that a pair does not compare twice.
        self.peers.insert(node, Peer::new(self.node < node, now));
        self.compare_due(now, actions);
    }

    /// Does what follows from a decision about a member that may be reachable.
    fn member_changed(&mut self, key: &Key, now: Moment, actions: &mut Vec<Action>) {
        let Some(node) = key.node() else { return };
        match self.members.is_accepted(node) {
            true if self.reached.contains(&node) && !self.peers.contains_key(&node) => {
                self.start_peer(node, now, actions);
            }
            false if self.peers.remove(&node).is_some() => actions.push(Action::Unlink(node)),
            _ => {}
        }
    }

    fn message(&mut self, from: Node, packed: &Bytes, now: Moment, actions: &mut Vec<Action>) {
        if !self.peers.contains_key(&from) || !self.members.is_accepted(from) {
            return;
        }
        match Message::decode(packed) {
            Ok(Some(Message::Part(part))) => {
                let whole = self.assemble(from, part);
                match whole.map(|whole| Message::decode(&whole)) {
                    Some(Ok(Some(message))) => self.handle(from, message, now, actions),
                    Some(Err(error)) => {
                        let name = self.members.called(from);
                        actions.push(Action::Warn(format!("{name} sent parts of which {error}")));
                    }
                    Some(Ok(None)) | None => {}
                }
            }
            Ok(Some(message)) => self.handle(from, message, now, actions),
            // Of a later version, and not for us.
            Ok(None) => {}
            Err(error) => {
                let name = self.members.called(from);
                actions.push(Action::Warn(format!("{name} sent a message of which {error}")));
            }
        }
    }

    /// Adds a part of a message and returns the message once it is whole. What does not fit beside those of others is dropped, and
    /// found by comparing.
    fn assemble(&mut self, from: Node, part: Part) -> Option<Bytes> {
        let all: usize = self.peers.values().map(Peer::assembled_bytes).sum();
        let peer = self.peers.get_mut(&from)?;
        if all + part.bytes.len() > MOST_ASSEMBLED {
            peer.drop_assembly();
            return None;
        }
        peer.assemble(part)
    }

    fn handle(&mut self, from: Node, message: Message, now: Moment, actions: &mut Vec<Action>) {
        match message {
            Message::Put(put) => self.receive(from, put, now, actions),
            Message::Stored(stored) => self.stored(from, stored, now, actions),
            Message::Have(all) => self.offered(from, all, actions),
            Message::Want(keys) => self.send_requested(from, keys, now, actions),
            Message::Root(_)
            | Message::Parts(_)
            | Message::Differ(_)
            | Message::Items(_)
            | Message::Missing(_)
            | Message::Fetch(_) => self.compare_message(from, message, now, actions),
            // Sent whole, or put together before.
            Message::Part(_) => {}
            Message::Job(_)
            | Message::Progress(_)
            | Message::Drop(_)
            | Message::Events(_)
            | Message::Here(_)
            | Message::Digests(_)
            | Message::Ask(_)
            | Message::Answer(_)
            | Message::Vote(_) => actions.push(Action::Received { from, message }),
        }
    }

    /// Returns the moment with the time by which this member goes.
    fn read_clock(&mut self, now: Moment) -> Moment {
        self.wall.set_alone(self.members.count() <= 1);
        let SetTime { certain, present } = self.wall.read(now);
        self.latest = certain.max(present);
        self.began.get_or_insert(certain);
        Moment { wall: certain, ..now }
    }

    /// Returns the stamp of something that is written now.
    fn stamp(&mut self, now: Moment) -> Stamp {
        self.clock.next(now.wall)
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Returns for how long a record has been known.
    fn age(&self, record: &Record, now: Moment) -> u64 {
        let arrived = self.arrived(record.class(), &record.key);
        arrived.map_or(0, |arrived| now.wall.saturating_sub(arrived))
    }
}

fn live_keys(records: &impl Records) -> usize {
    let all = records.root(Class::Keys, 0).count as usize;
    all.saturating_sub(records.tombstones(Class::Keys, u64::MAX).len())
}

#[cfg(test)]
mod tests;
