//! Decisions that nobody else takes: those of a member that lacks the right, such as a witness or a reader.
//!
//! It decides about members all the same until it has heard of the set: somebody must let it link with the first one. Then it goes
//! by what others decided, or its copy would differ from theirs for ever.

use bytes::Bytes;

use super::{Action, Model};
use crate::member::Right;
use crate::records::Records;
use crate::{By, Class, Content, Entry, Key, Record, State, Wish};

/// Why a key file is not obeyed.
const NO_RIGHT: &str = "this master lacks the right to decide about keys";

impl<R: Records> Model<R> {
    /// Returns whether a decision is left to others, and says so. Key files follow what they decided.
    pub(super) fn leaves_to_others(&self, wish: &Wish, entry: &Entry, actions: &mut Vec<Action>) -> bool {
        let (class, right) = (wish.class, Right::of_class(wish.class));
        let others = || entry.decisions().iter().any(|one| one.stamp.node != self.node);
        if !self.members.decides_in_vain(self.node, right) || class == Class::Members && !others() {
            return false;
        }
        // That a key waits decides nothing.
        if wish.state != State::Pending || wish.by != By::Auto {
            let (key, name) = (&wish.key, right.name());
            let left = format!("this master lacks the right {name}, and leaves {class} {key} to the others");
            actions.push(Action::Warn(left));
        }
        true
    }

    /// Has the key files of an id say what others decided. `wished` is what they say now. A key that the others do not know, or have
    /// deleted, waits for one of them.
    pub(super) fn follow_others(
        &self,
        id: &Key,
        entry: &Entry,
        wished: Option<(State, Bytes)>,
        actions: &mut Vec<Action>,
    ) {
        match (entry.present(), &wished) {
            (None, Some((State::Pending, _))) => {}
            (None, Some(_)) => actions.push(Action::SetAside { id: id.clone(), reason: NO_RIGHT }),
            _ => self.write_key(Class::Keys, id, entry, wished, actions),
        }
    }

    /// Returns whether others are told what this member decided.
    pub(super) fn tells_decisions(&self, class: Class) -> bool {
        !self.members.decides_in_vain(self.node, Right::of_class(class))
    }

    /// Returns a record without what this member decided in vain, if others have decided as well.
    pub(super) fn without_vain(&self, record: Record) -> Record {
        let Content::Decided(class, entry) = &record.content else { return record };
        if !self.members.never_decided(self.node, Right::of_class(*class)) {
            return record;
        }
        let others = entry.decisions().iter().filter(|one| one.stamp.node != self.node);
        let others: Vec<_> = others.cloned().collect();
        if others.is_empty() || others.len() == entry.decisions().len() {
            return record;
        }
        Record::new(record.key.clone(), record.stamp, Content::Decided(*class, Entry::new(others)))
    }

    /// Returns whether other members are to see a record: not what this one decided in vain.
    pub fn is_for_others(&self, record: &Record) -> bool {
        let Content::Decided(class, entry) = &record.content else { return true };
        self.tells_decisions(*class) || entry.decisions().iter().any(|one| one.stamp.node != self.node)
    }
}
