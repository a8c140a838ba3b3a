//! Decisions whose key files are not written yet.
//!
//! A decision of another member is stored first and written to the key files afterwards. A master that is killed in between would
//! take the old files for a change that somebody made by hand, and undo the decision in the whole set. So the ids are written down
//! before, and after a start their files follow the decisions and not the other way round.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use share::{Class, Digest, Index, Key, Level, Record, RecordChange, Records, StoreFailed, Sum};
use store::disk::{self, Writing};

use super::jobs::is_cached;
use crate::outgoing::key_log::KeyLog;

/// The ids whose key files may not say what was decided, in memory and in a file.
pub struct Unwritten {
    path: PathBuf,
    ids: Mutex<BTreeSet<String>>,
    /// What is stored next comes from other members, and key files have to follow it.
    from_others: AtomicBool,
}

impl Unwritten {
    /// Reads the file.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    pub fn open(path: PathBuf) -> store::Result<Unwritten> {
        let text = disk::read_text(&path)?.unwrap_or_default();
        let current = text.lines().map(str::to_owned).collect();
        let ids = Mutex::new(current);
        Ok(Unwritten { path, ids, from_others: AtomicBool::new(false) })
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ids.
    pub fn all(&self) -> Vec<String> {
        self.ids().iter().cloned().collect()
    }

    /// Says whether what is stored next comes from other members.
    pub fn expect_others(&self, from_others: bool) {
        self.from_others.store(from_others, Ordering::Relaxed);
    }

    /// Forgets all ids but those that are still to be written.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) -> store::Result<()> {
        let mut ids = self.ids();
        let before = ids.len();
        ids.retain(|id| keep(id));
        if ids.len() == before {
            return Ok(());
        }
        if ids.is_empty() {
            // Should the name come back after a power failure, the files are compared once more.
            return disk::remove(&self.path).map(drop);
        }
        self.write(&ids)
    }

    /// Adds ids, and returns when they are on the disk.
    fn add(&self, new: impl Iterator<Item = String>) -> store::Result<()> {
        let mut ids = self.ids();
        let before = ids.len();
        ids.extend(new);
        if ids.len() == before { Ok(()) } else { self.write(&ids) }
    }

    fn write(&self, ids: &BTreeSet<String>) -> store::Result<()> {
        let text: String = ids.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
        disk::write(&self.path, text.as_bytes(), Writing { sync: true, ..Writing::PRIVATE })
    }
}

/// Records, with a note of the decisions whose key files have to be written, and of the jobs and data that have to be written to
/// the caches.
pub struct Tracked<R> {
    records: R,
    unwritten: Arc<Unwritten>,
    arriving: Arc<KeyLog>,
    has_arrived: AtomicBool,
    failures: u64,
}

impl<R> Tracked<R> {
    /// Wraps records.
    pub fn new(records: R, unwritten: Arc<Unwritten>, arriving: Arc<KeyLog>) -> Self {
        Tracked { records, unwritten, arriving, has_arrived: AtomicBool::new(true), failures: 0 }
    }

    /// Returns how many times the records could not be written.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Returns whether jobs or data of other members were stored since the last call.
    pub fn take_arriving(&self) -> bool {
        self.has_arrived.swap(false, Ordering::Relaxed)
    }

    /// Returns the records.
    pub fn inner(&self) -> &R {
        &self.records
    }
}

impl<R: Records> Records for Tracked<R> {
    fn get(&self, class: Class, key: &Key) -> Option<Record> {
        self.records.get(class, key)
    }

    fn arrived(&self, class: Class, key: &Key) -> Option<u64> {
        self.records.arrived(class, key)
    }

    fn apply(&mut self, changes: Vec<RecordChange>, last_time: u64) -> Result<(), StoreFailed> {
        if self.unwritten.from_others.load(Ordering::Relaxed) {
            let ids = changes.iter().filter_map(|change| match change {
                RecordChange::Put { record, .. } if record.class() == Class::Keys => Some(record.key.to_string()),
                // Decisions that do not count any more.
                RecordChange::Remove { class: Class::Keys, key } => Some(key.to_string()),
                _ => None,
            });
            self.unwritten.add(ids).map_err(|error| StoreFailed(crate::chain(&error)))?;
            let cached = changes.iter().filter_map(|change| match change {
                RecordChange::Put { record, .. } if is_cached(record.class()) => Some((record.class(), &record.key)),
                _ => None,
            });
            let mut cached = cached.peekable();
            if cached.peek().is_some() {
                self.has_arrived.store(true, Ordering::Relaxed);
                self.arriving.append(cached).map_err(|error| StoreFailed(error.to_string()))?;
            }
        }
        let applied = self.records.apply(changes, last_time);
        self.failures += u64::from(applied.is_err());
        applied
    }

    fn tombstones(&self, class: Class, until: u64) -> Vec<Key> {
        self.records.tombstones(class, until)
    }
}

impl<R: Index> Index for Tracked<R> {
    fn root(&self, class: Class, since: u32) -> Sum {
        self.records.root(class, since)
    }

    fn parts(&self, class: Class, level: Level, within: RangeInclusive<u32>) -> Vec<(u32, Sum)> {
        self.records.parts(class, level, within)
    }

    fn items(&self, class: Class, within: RangeInclusive<u32>) -> Vec<(Key, Digest)> {
        self.records.items(class, within)
    }
}

#[cfg(test)]
mod tests {
    use share::{By, Content, Entry, MemoryRecords, Node, SignedDecision, Stamp, State, Wish};

    use super::*;

    fn decided(id: &str) -> RecordChange {
        let (member, key) = (crypto::MemberKey::from_random([1; 32]).unwrap(), Key::new(id).unwrap());
        let stamp = Stamp { time: 1, node: Node::of_key(&member.public()) };
        let (class, content) = (Class::Keys, bytes::Bytes::from_static(b"key"));
        let wish = Wish { class, key: key.clone(), state: State::Accepted, content, by: By::Files };
        let decision = SignedDecision::sign(Entry::default().decide(wish, stamp).unwrap(), &member).unwrap();
        let record = Record::new(key, stamp, Content::Decided(class, Entry::new(vec![decision])));
        RecordChange::Put { record, arrived: 0 }
    }

    #[test]
    fn decisions_of_others_are_noted_until_their_files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("unwritten");
        let unwritten = Arc::new(Unwritten::open(path.clone()).unwrap());
        let arriving = Arc::new(KeyLog::open(dir.path().join("arriving")).unwrap());
        let mut records = Tracked::new(MemoryRecords::default(), unwritten.clone(), arriving);
        records.apply(vec![decided("own")], 1).unwrap();
        assert!(!path.exists(), "whoever decides here has changed the files already");
        unwritten.expect_others(true);
        records.apply(vec![decided("web1"), decided("web2")], 2).unwrap();
        // As after a crash.
        assert_eq!(Unwritten::open(path.clone()).unwrap().all(), ["web1", "web2"]);
        let removed = RecordChange::Remove { class: Class::Keys, key: Key::new("web3").unwrap() };
        records.apply(vec![removed], 3).unwrap();
        assert_eq!(Unwritten::open(path.clone()).unwrap().all(), ["web1", "web2", "web3"]);
        unwritten.retain(|id| id == "web2").unwrap();
        assert_eq!(Unwritten::open(path.clone()).unwrap().all(), ["web2"]);
        unwritten.retain(|_| false).unwrap();
        assert!(!path.exists());
    }
}
