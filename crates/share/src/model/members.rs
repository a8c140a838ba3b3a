//! The members of the set, as decided: who is one, what each may do, and by which key its decisions are checked.

use std::collections::BTreeMap;

use crypto::MemberPublicKey;

use crate::member::{Member, Right, Rights};
use crate::records::Records;
use crate::{Class, Content, Node, Record, SignedDecision, State};

/// Everything that was decided about members.
#[derive(Default)]
pub(super) struct Members(BTreeMap<Node, Known>);

struct Known {
    member: Member,
    key: Option<MemberPublicKey>,
    state: State,
    /// When it was removed. What it decided until then still counts.
    removed: Option<u64>,
}

impl Members {
    /// Reads what the records say about members.
    pub fn load(records: &impl Records) -> Members {
        let mut members = Members::default();
        for (key, _) in records.items(Class::Members, 0..=u32::MAX) {
            if let Some(record) = records.get(Class::Members, &key) {
                members.learn(&record);
            }
        }
        members
    }

    /// Takes note of what was decided about a member.
    pub fn learn(&mut self, record: &Record) {
        let Content::Decided(_, entry) = &record.content else { return };
        let Some(visible) = entry.visible() else { return };
        let Ok(member) = Member::unpack(&visible.content) else { return };
        // A decision about one node that names the key of another one is nobody's.
        if record.key.node() != Some(member.node()) {
            return;
        }
        let removed = (visible.state == State::Deleted).then_some(visible.stamp.time);
        let key = member.public_key();
        self.0.insert(member.node(), Known { member, key, state: visible.state, removed });
    }

    /// Returns whether a node is a member of the set.
    pub fn is_accepted(&self, node: Node) -> bool {
        self.0.get(&node).is_some_and(|known| known.state == State::Accepted)
    }

    /// Returns what a member may do.
    pub fn rights(&self, node: Node) -> Rights {
        self.0
            .get(&node)
            .filter(|known| known.state == State::Accepted)
            .map_or(Rights::only(&[]), |known| known.member.may)
    }

    /// Returns why a decision does not count, if it does not.
    pub fn refuse(&self, decision: &SignedDecision) -> Option<String> {
        let node = decision.stamp.node;
        let Some(known) = self.0.get(&node) else { return Some(format!("{node:?} is not known as a member")) };
        let right = Right::of_class(decision.class);
        if !known.member.may.contains(right) {
            return Some(format!("{} lacks the right {}", known.member.name, right.name()));
        }
        if known.removed.is_some_and(|removed| decision.stamp.time > removed) {
            return Some(format!("{} decided after it was removed", known.member.name));
        }
        let signed = known.key.as_ref().is_some_and(|key| decision.is_signed_by(key));
        (!signed).then(|| format!("the signature of {} is wrong", known.member.name))
    }
}
