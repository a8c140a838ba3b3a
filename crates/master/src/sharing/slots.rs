//! The slot of this master: the last two digits of its job ids, so that no two masters of a set make the same id.

use std::collections::BTreeMap;

use share::member::{Member, Right, Role};
use share::{By, Change, Node, State, distinct_slots, lowest_free_slot};

use super::worker::Worker;

impl Worker {
    /// Ends job ids of this master in digits that those of no other member end in.
    pub(super) fn take_slot(&mut self) {
        let node = self.model.node();
        let Some(slot) = self.members.slot(node) else { return };
        self.shared.set_slot(slot);
        let own = self.members.all().remove(&node).map(|(member, _)| member);
        if let Some(own) = own.filter(|own| own.slot != slot && own.rights().contains(Right::Members)) {
            // Written down, so that it keeps the slot whoever joins.
            let change = Change::Member(Member { slot, ..own }, State::Accepted, By::Auto);
            let actions = self.model.local(change, self.now());
            self.carry_out(actions);
        }
    }

    /// Returns a newcomer with the slot that it has, or that nobody has, if it may not write one down itself.
    pub(super) fn with_slot(&self, newcomer: Member) -> Member {
        if newcomer.role != Role::Reader {
            return newcomer;
        }
        let all = self.members.all();
        let accepted = all.iter().filter(|(_, (_, state))| *state == State::Accepted);
        let mut slots: BTreeMap<Node, u8> = accepted.map(|(node, (member, _))| (*node, member.slot)).collect();
        let known = slots.remove(&newcomer.node());
        let free = || lowest_free_slot(distinct_slots(&slots).into_values());
        Member { slot: known.or_else(free).unwrap_or(newcomer.slot), ..newcomer }
    }
}
