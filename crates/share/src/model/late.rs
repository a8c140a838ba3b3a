//! Decisions that removed members made after their removal: they count nowhere, whoever passes them on.
//!
//! A member that has not heard of a removal takes them. It takes them back once it has, in the step that stores the removal, so
//! the copies become equal whoever hears what first. What they replaced comes back from the member that removed their author:
//! it stamped the removal above all that it knew, and so never took them.

use std::collections::BTreeSet;

use super::Model;
use super::staged::Origin;
use crate::records::Records;
use crate::{Class, Content, Entry, Key, Record};

impl<R: Records> Model<R> {
    /// Takes back what was decided too late, since a removal became known.
    pub(super) fn take_back_late(&mut self) {
        for class in [Class::Members, Class::Keys] {
            let stored = self.records.items(class, 0..=u32::MAX).into_iter().map(|(key, _)| key);
            let keys: BTreeSet<Key> = stored.chain(self.staged.keys(class).cloned()).collect();
            for key in keys {
                self.take_back(class, &key);
            }
        }
    }

    fn take_back(&mut self, class: Class, key: &Key) {
        let Some(record) = self.current(class, key) else { return };
        let Content::Decided(_, entry) = &record.content else { return };
        let in_time = entry.decisions().iter().filter(|one| !self.members.is_too_late(one));
        let kept: Vec<_> = in_time.cloned().collect();
        if kept.len() == entry.decisions().len() {
            return;
        }
        let arrived = self.arrived(class, key).unwrap_or_default();
        let left = Record::new(key.clone(), record.stamp, Content::Decided(class, Entry::new(kept)));
        self.stage(Some(record), left, arrived, Origin::Remote);
    }
}
