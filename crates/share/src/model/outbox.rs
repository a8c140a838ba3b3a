//! Sending: records that changed here wait a moment for others, and large messages are cut into parts.

use bytes::Bytes;

use super::peer::{MOST_UNANSWERED, Peer};
use super::receive::MOST_SERVED;
use super::{Action, Model, Moment};
use crate::message::{MAX_MESSAGE, Part, Put};
use crate::records::Records;
use crate::traffic::Way;
use crate::{Class, Key, Lane, Message, Node, Record, To};

/// How long a record waits for others, in milliseconds. Somebody waits for a return, so one that comes alone does not wait.
const COLLECT: u64 = 5;

/// How many bytes of records are sent together.
pub(super) const TOGETHER: usize = 64 * 1024;

/// Records up to this size are sent in the lane for small things.
const SMALL: usize = 16 * 1024;

/// The bytes of one part of a large message.
const PART: usize = MAX_MESSAGE - 64;

/// Records that will be sent to all linked members.
#[derive(Default)]
pub(super) struct Outbox {
    small: Waiting,
    large: Waiting,
}

#[derive(Default)]
struct Waiting {
    records: Vec<(Record, u64)>,
    bytes: usize,
    due: Option<u64>,
    /// When records were last sent.
    sent: Option<u64>,
}

impl Outbox {
    /// Returns when something has to be sent.
    pub fn due(&self) -> Option<u64> {
        self.small.due.into_iter().chain(self.large.due).min()
    }
}

impl<R: Records> Model<R> {
    /// Sends a record that changed here to all linked members, soon.
    pub(super) fn send_record(&mut self, record: Record, now: Moment, actions: &mut Vec<Action>) {
        if self.peers.is_empty() || !self.settings.shared.contains(record.class()) {
            return;
        }
        let (class, size) = (record.class(), record.size());
        let waiting = if size <= SMALL { &mut self.outbox.small } else { &mut self.outbox.large };
        waiting.bytes += size;
        // It has just been stored, so its age is 0.
        waiting.records.push((record, 0));
        // Under load many returns become one message.
        let since = if class == Class::Return { waiting.sent } else { Some(now.steady) };
        let due = match since {
            Some(since) if waiting.bytes < TOGETHER => now.steady.max(since + COLLECT),
            _ => now.steady,
        };
        waiting.due = Some(waiting.due.map_or(due, |earlier| earlier.min(due)));
        self.flush_outbox(now, actions);
    }

    pub(super) fn flush_outbox(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for lane in [Lane::Talk, Lane::Bulk] {
            let waiting = match lane {
                Lane::Talk => &mut self.outbox.small,
                Lane::Bulk => &mut self.outbox.large,
            };
            // Looked at here as well, since a full batch does not wait for the next tick.
            if waiting.due.is_none_or(|due| due > now.steady) {
                continue;
            }
            let waited = Waiting { sent: Some(now.steady), ..Waiting::default() };
            let Waiting { records, bytes, .. } = std::mem::replace(waiting, waited);
            let keys: Vec<(Class, Key)> =
                records.iter().map(|(record, _)| (record.class(), record.key.clone())).collect();
            let number = self.next_number();
            // Packed once for all.
            let message = Message::Put(Put { number, records, unreadable: Vec::new(), served: None }).encode();
            for node in self.peers.keys().copied().collect::<Vec<_>>() {
                let gets = self.members.gets(node);
                // A witness or a member that shares less: its messages are packed for it alone.
                if keys.iter().any(|(class, _)| !gets.contains(*class)) {
                    let some: Vec<_> =
                        keys.iter().filter(|(class, _)| gets.contains(*class)).cloned().map(Some).collect();
                    self.send_keys(node, &some, MOST_SERVED, now, actions);
                    continue;
                }
                let Some(peer) = self.peers.get_mut(&node) else { continue };
                if peer.unanswered_bytes() > MOST_UNANSWERED {
                    // It is behind. What it misses is found by comparing, once it has caught up.
                    self.compare_soon(node, now);
                    continue;
                }
                peer.sent(number, bytes, keys.clone(), now);
                keys.iter().for_each(|(class, _)| self.counts.add(Way::Sent, *class));
                self.send_packed(node, lane, message.clone(), actions);
            }
        }
    }

    /// Returns the actions that send a member a message about something else than records. A large one goes in parts, in the
    /// lane for large things.
    pub fn tell(&mut self, to: Node, message: &Message) -> Vec<Action> {
        let mut actions = Vec::new();
        self.send(to, Lane::Talk, message, &mut actions);
        actions
    }

    pub(super) fn send(&mut self, to: Node, lane: Lane, message: &Message, actions: &mut Vec<Action>) {
        self.send_packed(to, lane, message.encode(), actions);
    }

    fn send_packed(&mut self, to: Node, lane: Lane, message: Bytes, actions: &mut Vec<Action>) {
        let to = To::Member(to);
        if message.len() <= MAX_MESSAGE {
            actions.push(Action::Send { to, lane, message });
            return;
        }
        let id = self.next_number();
        // Parts always go in `Bulk`, whatever the lane of the message: 64 MiB in `Talk` would hold up heartbeats and votes.
        let of = message.len().div_ceil(PART) as u64;
        for place in 0..of {
            let from = place as usize * PART;
            let bytes = message.slice(from..message.len().min(from + PART));
            let message = Message::Part(Part { id, place, of, bytes }).encode();
            actions.push(Action::Send { to, lane: Lane::Bulk, message });
        }
    }

    /// Sends records of a comparison or an answer, together as far as they fit. Returns how many fit below `most` bytes.
    pub(super) fn send_keys(
        &mut self,
        to: Node,
        keys: &[Option<(Class, Key)>],
        most: usize,
        now: Moment,
        actions: &mut Vec<Action>,
    ) -> usize {
        let (mut total, mut bytes, mut taken) = (0, 0, 0);
        let (mut records, gets) = (Vec::new(), self.members.gets(to));
        for key in keys {
            // One at least, or a record that is larger than the bound would never be sent.
            if total >= most && taken > 0 {
                break;
            }
            taken += 1;
            let key = key.as_ref().filter(|(class, _)| gets.contains(*class));
            let Some(record) = key.and_then(|(class, key)| self.records.get(*class, key)) else { continue };
            let size = record.size();
            (total, bytes) = (total + size, bytes + size);
            let age = self.age(&record, now);
            records.push((record, age));
            if bytes >= TOGETHER {
                self.send_put(to, std::mem::take(&mut records), bytes, now, actions);
                bytes = 0;
            }
        }
        if !records.is_empty() {
            self.send_put(to, records, bytes, now, actions);
        }
        taken
    }

    /// Passes records on that came straight from the member that wrote them, to whoever is not linked with it.
    ///
    /// What is passed on comes from another member than its writer, so nothing is passed on twice.
    pub(super) fn pass_on(
        &mut self,
        origin: Node,
        keys: &[Option<(Class, Key)>],
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let apart = |(node, peer): (&Node, &Peer)| {
            // Of one that has not said with whom it is linked it is assumed: that is so for a moment only, and comparing finds what it
            // lacks.
            let linked = peer.linked_with.as_ref().is_none_or(|with| with.contains(&origin));
            (*node != origin && !linked).then_some(*node)
        };
        for node in self.peers.iter().filter_map(apart).collect::<Vec<_>>() {
            self.send_keys(node, keys, MOST_SERVED, now, actions);
        }
    }

    fn send_put(
        &mut self,
        to: Node,
        records: Vec<(Record, u64)>,
        bytes: usize,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let number = self.next_number();
        records.iter().for_each(|(record, _)| self.counts.add(Way::Sent, record.class()));
        let keys = records.iter().map(|(record, _)| (record.class(), record.key.clone())).collect();
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.sent(number, bytes, keys, now);
        }
        self.send(
            to,
            Lane::Bulk,
            &Message::Put(Put { number, records, unreadable: Vec::new(), served: None }),
            actions,
        );
    }
}
