//! What the set says of itself for metrics: peers, records, conflicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use peers::status::{LinkState, LinkStatus};
use rt::Rt;
use share::{Class, Index as _, Key, Node, RecordCounts, State, Way};

use super::carrier::SetCarrier;
use super::members::MemberBook;
use super::worker::Worker;
use crate::metrics::set::{PeerNumbers, SetFigures, SetNumbers};

/// What the worker notes for metrics.
#[derive(Default)]
pub struct SetNotes {
    /// When each member was last found to have an equal copy, in milliseconds since 1970.
    compared: Mutex<BTreeMap<Node, u64>>,
    /// Minion keys with a conflict.
    conflicts: Mutex<BTreeSet<Key>>,
}

impl SetNotes {
    fn compared(&self) -> MutexGuard<'_, BTreeMap<Node, u64>> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conflicts(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.conflicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note that a member has an equal copy.
    pub fn note_compared(&self, node: Node, at: u64) {
        self.compared().insert(node, at);
    }

    /// Takes note that members decided differently about a minion key.
    pub fn note_conflict(&self, key: &Key) {
        self.conflicts().insert(key.clone());
    }
}

/// The figures of one member.
pub struct Figures {
    pub rt: Rt,
    pub node: Node,
    pub links: Arc<SetCarrier>,
    pub members: Arc<MemberBook>,
    pub counts: Arc<RecordCounts>,
    pub notes: Arc<SetNotes>,
}

impl Figures {
    fn peer(&self, node: Node, links: &[LinkStatus], now: u64) -> PeerNumbers {
        let compared = self.notes.compared().get(&node).copied();
        let peer = PeerNumbers {
            name: self.members.called(node),
            compared: compared.map(|at| Duration::from_millis(now.saturating_sub(at))),
            ..PeerNumbers::default()
        };
        let Some(link) = links.iter().find(|link| link.node == Some(node)) else { return peer };
        let is_up = matches!(link.state, LinkState::Linked { .. });
        PeerNumbers {
            is_up,
            rtt: link.rtt.filter(|_| is_up),
            clock: link.clock.filter(|_| is_up),
            queue_bytes: if is_up { link.queue_bytes } else { 0 },
            dropped: link.dropped,
            ..peer
        }
    }
}

impl SetFigures for Figures {
    fn read(&self) -> SetNumbers {
        let (links, now) = (self.links.status(), self.rt.now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let members = self.members.all();
        let others = members.iter().filter(|(node, (_, state))| **node != self.node && *state == State::Accepted);
        let records = Class::ALL.into_iter().flat_map(|class| Way::ALL.map(|way| (class, way)));
        SetNumbers {
            peers: others.map(|(node, _)| self.peer(*node, &links, now.as_millis() as u64)).collect(),
            records: records.map(|(class, way)| (class.name(), way.name(), self.counts.get(way, class))).collect(),
            conflicts: self.notes.conflicts().len(),
        }
    }
}

impl Worker {
    /// Notes for metrics what is on the disk.
    pub(super) fn note_figures(&self) {
        let records = self.model.records();
        records.inner().compared().into_iter().for_each(|(node, at)| self.notes.note_compared(node, at));
        for (key, _) in records.items(Class::Keys, 0..=u32::MAX) {
            if !self.model.entry(Class::Keys, &key).conflicts().is_empty() {
                self.notes.note_conflict(&key);
            }
        }
    }

    /// Looks whether a conflict about a minion key is settled.
    pub(super) fn recheck_conflict(&self, key: &Key) {
        let mut conflicts = self.notes.conflicts();
        if conflicts.contains(key) && self.model.entry(Class::Keys, key).conflicts().is_empty() {
            conflicts.remove(key);
        }
    }
}
