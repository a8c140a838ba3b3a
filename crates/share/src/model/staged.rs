//! What one message or one change makes of the records: collected first, then stored in one step.
//!
//! Until it is stored, nobody is told of it. What could not be stored has no consequences.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{ANNOUNCE_AFTER, Action, Announcement, Members, Model, Moment};
use crate::records::{RecordChange, Records, StoreFailed};
use crate::{Class, Content, Key, Record, Seen, State};

/// Records that will be stored together.
#[derive(Default)]
pub(super) struct Staged {
    places: BTreeMap<(Class, Key), usize>,
    records: Vec<StagedRecord>,
    /// How many of each class have no earlier record.
    new: BTreeMap<Class, u64>,
}

/// How many records of a class there may be: those that are alive, and with tombstones.
fn bound(class: Class) -> Option<(u64, u64)> {
    match class {
        // Removals of members are never forgotten.
        Class::Members => Some((99, Seen::MAX_NODES as u64)),
        Class::Keys => Some((1_000_000, 4_000_000)),
        Class::Denied => Some((1_000_000, 1_000_000)),
        Class::Claim | Class::Token => Some((100_000, 100_000)),
        _ => None,
    }
}

struct StagedRecord {
    before: Option<Record>,
    record: Record,
    arrived: u64,
    origin: Origin,
}

/// Where a staged record comes from, which decides what follows once it is stored.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// Another member sent it.
    Remote,
    /// This member wrote it.
    Written,
    /// This member decided it. The key files say this already; `None` if they are gone.
    Decided(Option<(State, Bytes)>),
}

impl StagedRecord {
    fn change(&self) -> RecordChange {
        match is_empty(&self.record) {
            true => RecordChange::Remove { class: self.record.class(), key: self.record.key.clone() },
            false => RecordChange::Put { record: self.record.clone(), arrived: self.arrived },
        }
    }
}

/// Returns whether nothing of what was decided counts any more.
fn is_empty(record: &Record) -> bool {
    matches!(&record.content, Content::Decided(_, entry) if entry.is_empty())
}

impl Staged {
    fn get(&self, class: Class, key: &Key) -> Option<&StagedRecord> {
        self.places.get(&(class, key.clone())).map(|place| &self.records[*place])
    }

    /// Returns the keys of the records of a class.
    pub fn keys(&self, class: Class) -> impl Iterator<Item = &Key> {
        self.places.keys().filter(move |(other, _)| *other == class).map(|(_, key)| key)
    }

    fn add(&mut self, staged: StagedRecord) {
        let key = (staged.record.class(), staged.record.key.clone());
        match self.places.get(&key) {
            Some(place) => {
                let before = self.records[*place].before.take();
                self.records[*place] = StagedRecord { before, ..staged };
            }
            None => {
                if staged.before.is_none() {
                    *self.new.entry(key.0).or_default() += 1;
                }
                self.places.insert(key, self.records.len());
                self.records.push(staged);
            }
        }
    }
}

impl<R: Records> Model<R> {
    /// Returns a record as it will be once everything is stored.
    pub(super) fn current(&self, class: Class, key: &Key) -> Option<Record> {
        match self.staged.get(class, key) {
            Some(staged) => Some(staged.record.clone()),
            None => self.records.get(class, key),
        }
    }

    /// Returns when a record arrived, by the wall clock.
    pub(super) fn arrived(&self, class: Class, key: &Key) -> Option<u64> {
        match self.staged.get(class, key) {
            Some(staged) => Some(staged.arrived),
            None => self.records.arrived(class, key),
        }
    }

    /// Returns why there is no room for another record of a class, unless it takes the place of an earlier one.
    pub(super) fn room(&self, class: Class, before: Option<&Record>, tombstone: bool) -> Result<(), String> {
        let Some((most_alive, most)) = bound(class).filter(|_| before.is_none()) else { return Ok(()) };
        let new = self.staged.new.get(&class).copied().unwrap_or(0);
        let all = self.records.root(class, 0).count + new;
        let alive = match class {
            // Those that are staged are learned already.
            Class::Members => self.members.count() as u64,
            Class::Keys => self.live_keys as u64 + new,
            _ => all,
        };
        match () {
            () if all >= most => Err(format!("there are {most} records of {class} already, deleted ones included")),
            () if alive >= most_alive && !tombstone => {
                Err(format!("there are {most_alive} records of {class} already"))
            }
            () => Ok(()),
        }
    }

    /// Collects a record that takes the place of `before`.
    pub(super) fn stage(&mut self, before: Option<Record>, record: Record, arrived: u64, origin: Origin) {
        // Its decisions may come in the same message.
        let removed = if record.class() == Class::Members { self.members.learn(&record) } else { None };
        self.staged.add(StagedRecord { before, record, arrived, origin });
        if removed.is_some_and(|node| node != self.node) {
            self.take_back_late();
        }
    }

    /// Stores what was collected, and does what follows from it.
    pub(super) fn store_staged(&mut self, now: Moment, actions: &mut Vec<Action>) -> Result<(), StoreFailed> {
        let staged = std::mem::take(&mut self.staged).records;
        if staged.is_empty() {
            return Ok(());
        }
        let changes = staged.iter().map(StagedRecord::change).collect();
        if let Err(error) = self.records.apply(changes, self.clock.last()) {
            self.members = Members::load(&self.records);
            for StagedRecord { record, origin, .. } in staged {
                if !matches!(origin, Origin::Remote) {
                    let (class, reason) = (record.class(), error.to_string());
                    actions.push(Action::NotStored { class, key: record.key, reason });
                }
            }
            return Err(error);
        }
        for staged in staged.iter().filter(|staged| staged.record.class() == Class::Keys) {
            let alive = |record: &Record| usize::from(!record.is_tombstone() && !is_empty(record));
            self.live_keys += alive(&staged.record);
            self.live_keys -= staged.before.as_ref().map_or(0, alive);
        }
        staged.into_iter().for_each(|staged| self.consequences(staged, now, actions));
        Ok(())
    }

    fn consequences(&mut self, staged: StagedRecord, now: Moment, actions: &mut Vec<Action>) {
        let StagedRecord { before, record, origin, .. } = staged;
        if record.class() == Class::Members {
            self.member_changed(&record.key, now, actions);
        }
        if is_empty(&record) {
            // Others may still have what was replaced by what does not count.
            self.peers.keys().copied().collect::<Vec<_>>().into_iter().for_each(|node| self.compare_soon(node, now));
        }
        if record.class() == Class::Data {
            // Who announced an earlier value has heard of this one since, and does not have the earlier one any more.
            self.peers.values_mut().for_each(|peer| peer.keep_announced(&record.key, record.digest));
        }
        match origin {
            Origin::Remote if before.as_ref().is_some_and(|before| before.digest == record.digest) => {}
            Origin::Remote => self.changed_elsewhere(before.as_ref(), record, actions),
            Origin::Written if record.class() == Class::Data && self.settings.shared.contains(Class::Data) => {
                // The minion may have told the others as well.
                let due = now.steady + ANNOUNCE_AFTER;
                let announcement = Announcement { digest: record.digest, stamp: record.stamp, due };
                self.announcements.insert(record.key, announcement);
            }
            Origin::Written => self.send_record(record, now, actions),
            Origin::Decided(files) => {
                if let Content::Decided(class, entry) = &record.content {
                    self.write_key(*class, &record.key, entry, files, actions);
                }
                if self.tells_decisions(record.class()) {
                    self.send_record(record, now, actions);
                }
            }
        }
    }
}
