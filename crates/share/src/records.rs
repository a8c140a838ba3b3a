//! Where a member's records are: on disk in a master, in memory in tests.
//!
//! The model reads and writes records through this and knows no file. What it needs to compare copies is asked for by part, so
//! that a store may keep sums with its rows and never has to read all of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::sums::{ItemHash, Level, Sum, Sums, leaf_of};
use crate::{Class, Digest, Key, Record};

/// What of the records is needed to compare copies.
pub trait Index {
    /// Returns the sum of a class from the finest part `since` on.
    fn root(&self, class: Class, since: u32) -> Sum;

    /// Returns the sums of the parts of a level within some finest parts, without the empty ones, in ascending order.
    fn parts(&self, class: Class, level: Level, within: RangeInclusive<u32>) -> Vec<(u32, Sum)>;

    /// Returns the records of these finest parts.
    fn items(&self, class: Class, within: RangeInclusive<u32>) -> Vec<(Key, Digest)>;
}

/// One change of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// Stores a record in place of the earlier one with its key.
    Put {
        /// The record.
        record: Record,
        /// When it arrived, by the clock of this host.
        arrived: u64,
    },
    /// Removes a record.
    Remove {
        /// Its class.
        class: Class,
        /// Its key.
        key: Key,
    },
}

/// The records of a member.
pub trait Records: Index {
    /// Returns a record.
    fn get(&self, class: Class, key: &Key) -> Option<Record>;

    /// Returns when a record arrived, by the clock of this host.
    fn arrived(&self, class: Class, key: &Key) -> Option<u64>;

    /// Applies all changes in one step, or none of them, and writes down `last_time`, the highest stamp, with them. Returns once they
    /// are as safe as this member's own records.
    fn apply(&mut self, changes: Vec<RecordChange>, last_time: u64) -> Result<(), StoreFailed>;

    /// Returns the keys of tombstones of a class that arrived at a time or before.
    fn tombstones(&self, class: Class, until: u64) -> Vec<Key>;
}

/// A record could not be stored: the disk is full, or fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreFailed(pub String);

/// Records in memory: for tests and simulations.
#[derive(Clone, Default)]
pub struct MemoryRecords {
    classes: BTreeMap<Class, ClassRecords>,
    last_time: u64,
    full: bool,
}

#[derive(Clone, Default)]
struct ClassRecords {
    sums: Sums,
    records: BTreeMap<(u32, Key), (Record, u64)>,
}

impl ClassRecords {
    fn remove(&mut self, class: Class, key: &Key) {
        let leaf = leaf_of(class, key);
        if let Some((old, _)) = self.records.remove(&(leaf, key.clone())) {
            self.sums.remove(leaf, ItemHash::of(class, key, old.digest));
        }
    }
}

impl MemoryRecords {
    /// Returns all records of a class.
    pub fn all(&self, class: Class) -> impl Iterator<Item = &Record> {
        self.classes.get(&class).into_iter().flat_map(|found| found.records.values().map(|(record, _)| record))
    }

    /// Returns the highest stamp that was written down with them.
    pub fn last_time(&self) -> u64 {
        self.last_time
    }

    /// From now on nothing is stored, as on a disk that is full; or everything is again.
    pub fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    pub(crate) fn put(&mut self, record: Record, arrived: u64) {
        let (class, key) = (record.class(), record.key.clone());
        let found = self.classes.entry(class).or_default();
        found.remove(class, &key);
        let leaf = leaf_of(class, &key);
        found.sums.add(leaf, ItemHash::of(class, &key, record.digest));
        found.records.insert((leaf, key), (record, arrived));
    }

    fn find(&self, class: Class, key: &Key) -> Option<&(Record, u64)> {
        self.classes.get(&class)?.records.get(&(leaf_of(class, key), key.clone()))
    }
}

impl Index for MemoryRecords {
    fn root(&self, class: Class, since: u32) -> Sum {
        self.classes.get(&class).map_or_else(Sum::default, |found| found.sums.root(since))
    }

    fn parts(&self, class: Class, level: Level, within: RangeInclusive<u32>) -> Vec<(u32, Sum)> {
        self.classes.get(&class).map_or_else(Vec::new, |found| found.sums.parts(level, within))
    }

    fn items(&self, class: Class, within: RangeInclusive<u32>) -> Vec<(Key, Digest)> {
        let Some(found) = self.classes.get(&class) else { return Vec::new() };
        let (first, last) = within.into_inner();
        let from = found.records.range((first, Key::first())..);
        let inside = from.take_while(|((leaf, _), _)| *leaf <= last);
        inside.map(|((_, key), (record, _))| (key.clone(), record.digest)).collect()
    }
}

impl Records for MemoryRecords {
    fn get(&self, class: Class, key: &Key) -> Option<Record> {
        self.find(class, key).map(|(record, _)| record.clone())
    }

    fn arrived(&self, class: Class, key: &Key) -> Option<u64> {
        self.find(class, key).map(|(_, arrived)| *arrived)
    }

    fn apply(&mut self, changes: Vec<RecordChange>, last_time: u64) -> Result<(), StoreFailed> {
        if self.full {
            return Err(StoreFailed("the disk is full".to_owned()));
        }
        for change in changes {
            match change {
                RecordChange::Put { record, arrived } => self.put(record, arrived),
                RecordChange::Remove { class, key } => {
                    if let Some(found) = self.classes.get_mut(&class) {
                        found.remove(class, &key);
                    }
                }
            }
        }
        self.last_time = last_time;
        Ok(())
    }

    fn tombstones(&self, class: Class, until: u64) -> Vec<Key> {
        let all = self.classes.get(&class).into_iter().flat_map(|found| found.records.values());
        let old = all.filter(|(record, arrived)| record.is_tombstone() && *arrived <= until);
        old.map(|(record, _)| record.key.clone()).collect()
    }
}
