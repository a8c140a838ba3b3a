//! The slot of this master: the last two digits of its job ids, so that no two masters of a set make the same id.

use share::member::{Member, Right};
use share::{By, Change, State};

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
}
