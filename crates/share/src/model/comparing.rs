//! Comparing with linked members: when, and what is sent for it.

use super::peer::{COMPARE_EVERY, MOST_UNANSWERED, Running, answer_by};
use super::receive::MOST_SERVED;
use super::{Action, Model, Moment};
use crate::compare::{self, Comparison, Step};
use crate::message::{Fetch, Put};
use crate::records::Records;
use crate::{Class, Classes, Key, Lane, Message, Node};

/// How long after messages were lost a comparison starts, in milliseconds: they may not be the last ones.
const COMPARE_AFTER_LOSS: u64 = 1_000;

/// How long a member waits that could not store what it got, in milliseconds.
const COMPARE_AFTER_FULL: u64 = 10_000;

/// What an answer costs in itself, and for each part whose records are looked at, in the unit of [`Peer::may_ask`]: a sum or a hash.
const FLAT_COST: u64 = 100;
const LEAF_COST: usize = 50;

impl<R: Records> Model<R> {
    /// Compares with a member once it is clear what was lost.
    pub(super) fn compare_soon(&mut self, node: Node, now: Moment) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.compare_by(now.steady + COMPARE_AFTER_LOSS);
        }
    }

    /// Compares with a member whose records could not be stored: the disk may have room again by then.
    pub(super) fn compare_when_stored(&mut self, node: Node, now: Moment) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.compare_by(now.steady + COMPARE_AFTER_FULL);
        }
    }

    pub(super) fn compare_due(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for node in self.peers.keys().copied().collect::<Vec<_>>() {
            let Some(peer) = self.peers.get_mut(&node) else { continue };
            if peer.forget_unanswered(now) {
                peer.compare_by(now.steady);
            }
            if peer.comparison.as_ref().is_some_and(|running| running.until <= now.steady) {
                peer.comparison = None;
                peer.compare_by(now.steady);
            }
            if peer.comparison.is_none() && peer.compare_at.is_some_and(|at| at <= now.steady) {
                self.start_comparison(node, now, actions);
            }
        }
    }

    fn start_comparison(&mut self, node: Node, now: Moment, actions: &mut Vec<Action>) {
        let (round, since, shared) = (self.next_number(), self.since(now), self.shared_with(node));
        let (comparison, root) = Comparison::start(&self.records, round, since, shared);
        if let Some(peer) = self.peers.get_mut(&node) {
            // One that does not ask in the pair compares only when something was lost.
            peer.compare_at = peer.asks.then_some(now.steady + COMPARE_EVERY);
            peer.comparison = Some(Running { comparison, until: answer_by(now), deliver: Default::default() });
            self.send(node, Lane::Bulk, &root, actions);
        }
    }

    /// Returns the first minute of jobs that is certainly kept here for as long as a comparison takes.
    fn since(&self, now: Moment) -> u32 {
        match self.settings.keep_jobs {
            0 => 0,
            // Two minutes later than the first one kept: old jobs are swept while the comparison goes on, and would be missing.
            keep => u32::try_from(now.wall.saturating_sub(keep) / 60_000 + 2).unwrap_or(u32::MAX),
        }
    }

    /// Returns the classes that this member and another one have both.
    fn shared_with(&self, node: Node) -> Classes {
        self.settings.shared.and(self.members.gets(node)).and(self.members.gets(self.node))
    }

    /// Returns the cost of an answer, or `None` if the other member has nothing to do with what it asks for.
    fn cost(&self, from: Node, message: &Message) -> Option<u64> {
        let (class, cost) = match message {
            Message::Root(root) if !root.answer => return Some(FLAT_COST),
            Message::Parts(parts) => (parts.class, parts.sums.len()),
            Message::Items(items) => (items.class, items.leaves.len() * LEAF_COST + items.hashes.len()),
            Message::Fetch(fetch) => (fetch.class, fetch.leaves.len() * LEAF_COST + fetch.hashes.len()),
            // These answer what this member asked.
            _ => return Some(0),
        };
        self.shared_with(from).contains(class).then_some(FLAT_COST + cost as u64)
    }

    pub(super) fn compare_message(&mut self, from: Node, message: Message, now: Moment, actions: &mut Vec<Action>) {
        let Some(cost) = self.cost(from, &message) else { return };
        let Some(peer) = self.peers.get_mut(&from) else { return };
        // No answer, and no refusal: the comparison of the other side ends by its timeout, which slows it down.
        if !peer.may_ask(cost, now) {
            let name = self.members.called(from);
            return actions.push(Action::Warn(format!("{name} compares too often: its questions wait")));
        }
        let shared = self.shared_with(from);
        let answer = match &message {
            Message::Root(root) if !root.answer => {
                // Only one of the two asks at a time: the lower node.
                if let Some(peer) = self.peers.get_mut(&from).filter(|peer| !peer.asks) {
                    peer.comparison = None;
                    peer.compare_at = None;
                }
                if compare::are_same_but_jobs(&self.records, shared, root) {
                    self.compared_with(from, now, actions);
                }
                compare::answer_root(&self.records, self.since(now), shared, root)
            }
            Message::Parts(parts) => compare::answer_parts(&self.records, parts),
            Message::Items(items) => compare::answer_items(&self.records, items),
            Message::Fetch(fetch) => return self.serve(from, fetch, now, actions),
            _ => return self.compare_answer(from, &message, now, actions),
        };
        self.send(from, Lane::Bulk, &answer, actions);
    }

    fn compare_answer(&mut self, from: Node, message: &Message, now: Moment, actions: &mut Vec<Action>) {
        let shared = self.shared_with(from);
        let Some(running) = self.peers.get_mut(&from).and_then(|peer| peer.comparison.as_mut()) else { return };
        let (comparison, records) = (&mut running.comparison, &self.records);
        let step = match message {
            Message::Root(root) => comparison.hear_root(records, root),
            Message::Differ(differ) => comparison.hear_differ(records, differ),
            Message::Missing(missing) => comparison.hear_missing(records, missing),
            _ => Step::Ignore,
        };
        // The other side takes note of it now, and jobs may be exchanged for long, or in vain.
        let goes_on = !matches!(step, Step::Ignore | Step::Over(_));
        if let Message::Root(root) = message
            && goes_on
            && compare::are_same_but_jobs(&self.records, shared, root)
        {
            self.compared_with(from, now, actions);
        }
        self.step(from, step, now, actions);
    }

    /// Takes note that a request of a comparison is answered.
    pub(super) fn served(&mut self, from: Node, round: u64, served: u64, now: Moment, actions: &mut Vec<Action>) {
        let Some(running) = self.peers.get_mut(&from).and_then(|peer| peer.comparison.as_mut()) else { return };
        let served = usize::try_from(served).unwrap_or(usize::MAX);
        let step = running.comparison.hear_served(&self.records, round, served);
        self.step(from, step, now, actions);
    }

    fn step(&mut self, node: Node, step: Step, now: Moment, actions: &mut Vec<Action>) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(running) = peer.comparison.as_mut() else { return };
        // Stray answers must not keep a comparison alive whose answer is lost.
        if step != Step::Ignore {
            running.until = answer_by(now);
        }
        match step {
            Step::Ignore | Step::Wait => {}
            Step::Send(message) => {
                let ahead = running.comparison.ask_ahead();
                for message in [Some(message), ahead].into_iter().flatten() {
                    self.send(node, Lane::Bulk, &message, actions);
                }
            }
            Step::Deliver(class, keys) => {
                running.deliver.extend(keys.into_iter().map(|key| (class, key)));
                self.deliver(node, now, actions);
            }
            Step::Over(outcome) => {
                peer.comparison = None;
                // Tombstones need to know that both have had all deletions, and no class of jobs has tombstones.
                if outcome.same_but_jobs {
                    self.compared_with(node, now, actions);
                }
            }
        }
    }

    /// Takes note that copies are equal. Both members of a pair do.
    fn compared_with(&mut self, node: Node, now: Moment, actions: &mut Vec<Action>) {
        self.compared.insert(node, now.wall);
        actions.push(Action::Compared { node, at: now.wall });
    }

    /// Sends what the other member lacks, as far as it keeps up with it.
    pub(super) fn deliver(&mut self, node: Node, now: Moment, actions: &mut Vec<Action>) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let room = MOST_UNANSWERED.saturating_sub(peer.unanswered_bytes());
        let Some(running) = peer.comparison.as_mut().filter(|running| !running.deliver.is_empty()) else { return };
        running.until = answer_by(now);
        if room == 0 {
            return;
        }
        let keys: Vec<Option<(Class, Key)>> = running.deliver.iter().cloned().map(Some).collect();
        let taken = self.send_keys(node, &keys, room, now, actions);
        let Some(running) = self.peers.get_mut(&node).and_then(|peer| peer.comparison.as_mut()) else { return };
        running.deliver.drain(..taken);
        if running.deliver.is_empty() {
            let step = running.comparison.proceed(&self.records);
            self.step(node, step, now, actions);
        }
    }

    /// Sends what another member lacks and asks for.
    fn serve(&mut self, to: Node, fetch: &Fetch, now: Moment, actions: &mut Vec<Action>) {
        let keys = compare::fetched(&self.records, fetch);
        let keys: Vec<Option<(Class, Key)>> = keys.into_iter().map(|key| key.map(|key| (fetch.class, key))).collect();
        let taken = self.send_keys(to, &keys, MOST_SERVED, now, actions);
        let number = self.next_number();
        // Sent after the records in the same lane, so it arrives last: what came by then is all.
        let served = Some((fetch.round, taken as u64));
        self.send(
            to,
            Lane::Bulk,
            &Message::Put(Put { number, records: Vec::new(), unreadable: Vec::new(), served }),
            actions,
        );
    }
}
