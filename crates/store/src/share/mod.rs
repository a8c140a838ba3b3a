//! The records that a master shares with others: `<cachedir>/saltern/share/share.redb`.
//!
//! The sums by which copies are compared are kept with the records, in the same transaction, and in memory: a start reads them
//! and no record, also after a kill. The file has no copy elsewhere on this host, so a damaged one stops the start instead of
//! being replaced. One process has it open at a time.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redb::{
    ConcurrencyMode, Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use share::{Class, Digest, Index, ItemHash, Key, Level, Node, Record, RecordChange, Records, StoreFailed, Sum, Sums};
use value::error::chain;

use crate::redb_file::{self, Refused};
use crate::{Error, Result, disk};

type Attempt<T> = std::result::Result<T, redb::Error>;

/// The records (`rows::key`).
const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
/// Tombstones by age (`rows::tombstone`).
const TOMBSTONES: TableDefinition<&[u8], ()> = TableDefinition::new("tombstones");
/// Sums by class and finest part: number and total.
const SUMS: TableDefinition<(u8, u32), (u64, u128)> = TableDefinition::new("sums");
/// When each member was last found to have equal copies.
const COMPARED: TableDefinition<[u8; 8], u64> = TableDefinition::new("compared");
/// Numbers: the format of the file, and the highest stamp.
const STATE: TableDefinition<&str, u64> = TableDefinition::new("state");

/// The format that this version writes.
const FORMAT: u64 = 1;

/// How long to wait for a master that still has the file open while it stops.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// How far the time of a comparison on disk may be behind, in milliseconds. What depends on it counts in days.
const COMPARED_STEP: u64 = 3_600_000;

/// The shared records of a master on disk.
pub struct ShareFile {
    path: PathBuf,
    /// `None` after a disk error, until it can be opened again.
    database: Option<Database>,
    /// Why a read failed since the last write. What was decided meanwhile was decided without what is on disk.
    unread: Mutex<Option<String>>,
    sums: BTreeMap<Class, Sums>,
    last_time: u64,
    compared: Mutex<BTreeMap<Node, Compared>>,
}

/// When a member was last found to have equal copies: the latest time, and the one on disk.
#[derive(Clone, Copy)]
struct Compared {
    latest: u64,
    written: u64,
}

/// What is kept in memory.
#[derive(Default)]
struct Loaded {
    format: u64,
    sums: BTreeMap<Class, Sums>,
    last_time: u64,
    compared: BTreeMap<Node, Compared>,
}

impl ShareFile {
    /// Opens or creates the file in a cache directory.
    ///
    /// # Errors
    /// If the file cannot be used: it is damaged, of a later version, open elsewhere, or the disk is full.
    pub fn open(cachedir: &Path) -> Result<Self> {
        let directory = cachedir.join("saltern").join("share");
        disk::make_directory(&directory)?;
        let path = directory.join("share.redb");
        let (database, loaded) = open(&path)?;
        Ok(ShareFile {
            path,
            database: Some(database),
            unread: Mutex::default(),
            sums: loaded.sums,
            last_time: loaded.last_time,
            compared: Mutex::new(loaded.compared),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the highest stamp that was written down with records.
    pub fn last_time(&self) -> u64 {
        self.last_time
    }

    /// Returns when each member was last found to have equal copies, by the clock of this host in milliseconds.
    pub fn compared(&self) -> BTreeMap<Node, u64> {
        lock(&self.compared).iter().map(|(node, at)| (*node, at.latest)).collect()
    }

    /// Notes that a member was found to have equal copies. On disk the time may be an hour behind: writing down each
    /// comparison would keep a disk busy that has nothing to do.
    pub fn set_compared(&self, node: Node, time: u64) -> Result<()> {
        let written = lock(&self.compared).get(&node).map(|at| at.written);
        let written = match written.filter(|written| time.abs_diff(*written) < COMPARED_STEP) {
            Some(written) => written,
            None => {
                self.write(|transaction| {
                    transaction.open_table(COMPARED)?.insert(node.0, time)?;
                    Ok(())
                })?;
                time
            }
        };
        lock(&self.compared).insert(node, Compared { latest: time, written });
        Ok(())
    }

    /// Opens the file again after a disk error: the library refuses everything from then on.
    fn reopen(&mut self) -> Result<()> {
        // First closed: a file that is open cannot be opened.
        self.database = None;
        let (database, loaded) = open(&self.path)?;
        self.database = Some(database);
        (self.sums, self.last_time) = (loaded.sums, loaded.last_time);
        Ok(())
    }

    fn database(&self) -> Result<&Database> {
        let closed = || Error::malformed(&self.path, "it was closed after an error");
        self.database.as_ref().ok_or_else(closed)
    }

    fn write<T>(&self, change: impl FnOnce(&WriteTransaction) -> Attempt<T>) -> Result<T> {
        disk::admit(&self.path).map_err(Error::io("write", &self.path))?;
        let database = self.database()?;
        let attempt = || -> Attempt<T> {
            let mut transaction = database.begin_write()?;
            // Otherwise the library reads the whole file after a kill: 12 seconds for 1,000,000 records on a busy host.
            transaction.set_quick_repair(true);
            let done = change(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        attempt().map_err(|error| redb_file::failed("write", &self.path, error))
    }

    /// Reads. An error is remembered: the next [`Records::apply`] fails, so that nothing replaces what could not be read.
    fn read<T: Default>(&self, read: impl FnOnce(&ReadTransaction) -> Attempt<T>) -> T {
        let attempt = || -> Result<T> {
            let attempt = |database: &Database| read(&database.begin_read()?);
            attempt(self.database()?).map_err(|error| redb_file::failed("read", &self.path, error))
        };
        attempt().unwrap_or_else(|error| {
            // Once until the file is opened again: every further read fails as well.
            let reason = chain(&error);
            if lock(&self.unread).replace(reason.clone()).is_none() {
                tracing::error!("{reason}");
            }
            T::default()
        })
    }

    fn row<T>(&self, class: Class, key: &Key, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let (_, row) = rows::key(class, key);
        self.read(|transaction| {
            Ok(transaction.open_table(RECORDS)?.get(&row[..])?.and_then(|found| read(found.value())))
        })
    }

    /// A record that this version cannot read counts as absent, and a copy of another member replaces it.
    fn unreadable(&self, class: Class, key: &Key, why: share::Malformed) {
        // The key of a token is the token.
        let key = if class == Class::Token { "(token)" } else { key.as_str() };
        tracing::error!("the record {class} {key} in {} cannot be read: {why}", self.path.display());
    }

    /// Applies changes in one transaction, and returns the sums that follow.
    fn change(&self, changes: Vec<RecordChange>, last_time: u64) -> Result<BTreeMap<(Class, u32), Sum>> {
        self.write(|transaction| {
            let mut step = Step { sums: BTreeMap::new(), known: &self.sums };
            let mut records = transaction.open_table(RECORDS)?;
            let mut tombstones = transaction.open_table(TOMBSTONES)?;
            for change in changes {
                let (class, key) = match &change {
                    RecordChange::Put { record, .. } => (record.class(), record.key.clone()),
                    RecordChange::Remove { class, key } => (*class, key.clone()),
                };
                let (leaf, row) = rows::key(class, &key);
                let old = match &change {
                    RecordChange::Put { record, arrived } => {
                        records.insert(&row[..], &rows::pack(record, *arrived)[..])?
                    }
                    RecordChange::Remove { .. } => records.remove(&row[..])?,
                };
                if let Some(old) = old.and_then(|old| rows::head(old.value())) {
                    step.sum(class, leaf).remove(ItemHash::of(class, &key, old.digest));
                    if old.tombstone {
                        tombstones.remove(&rows::tombstone(class, old.arrived, &key)[..])?;
                    }
                }
                if let RecordChange::Put { record, arrived } = &change {
                    step.sum(class, leaf).add(ItemHash::of(class, &key, record.digest));
                    if record.is_tombstone() {
                        tombstones.insert(&rows::tombstone(class, *arrived, &key)[..], ())?;
                    }
                }
            }
            write_sums(transaction, &step.sums)?;
            transaction.open_table(STATE)?.insert("last_time", last_time)?;
            Ok(step.sums)
        })
    }
}

/// The sums that a transaction changes, over those before it.
struct Step<'a> {
    sums: BTreeMap<(Class, u32), Sum>,
    known: &'a BTreeMap<Class, Sums>,
}

impl Step<'_> {
    fn sum(&mut self, class: Class, leaf: u32) -> &mut Sum {
        let known = || self.known.get(&class).map_or_else(Sum::default, |sums| sums.get(leaf));
        self.sums.entry((class, leaf)).or_insert_with(known)
    }
}

fn write_sums(transaction: &WriteTransaction, sums: &BTreeMap<(Class, u32), Sum>) -> Attempt<()> {
    let mut table = transaction.open_table(SUMS)?;
    for ((class, leaf), sum) in sums {
        let place = (class.number(), *leaf);
        match sum.count {
            0 => drop(table.remove(place)?),
            count => drop(table.insert(place, (count, sum.total))?),
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<(Database, Loaded)> {
    let begun = Instant::now();
    // A full disk or a crash leaves it so, and the library would make a new database of it.
    if std::fs::metadata(path).is_ok_and(|file| file.len() == 0) {
        return Err(damaged(path, "it is empty"));
    }
    loop {
        match redb_file::open(path, ConcurrencyMode::ExclusiveWriter, load) {
            Ok((_, loaded)) if loaded.format > FORMAT => {
                let reason = format!(
                    "it was written by a later version (format {}, and this version knows {FORMAT})",
                    loaded.format
                );
                return Err(Error::malformed(path, reason));
            }
            Ok(opened) => return Ok(opened),
            // File locks cannot be awaited with a timeout.
            Err(Refused::InUse) if begun.elapsed() < OPEN_TIMEOUT => std::thread::sleep(OPEN_TIMEOUT / 40),
            Err(Refused::Damaged(reason)) => return Err(damaged(path, &reason)),
            Err(refused) => return Err(refused.error(path)),
        }
    }
}

fn damaged(path: &Path, reason: &str) -> Error {
    let reason = format!(
        "{reason}; restore it from a backup, or remove it: this master then gets the records of the others, and what only it \
         knew is lost"
    );
    Error::malformed(path, reason)
}

/// Reads what is kept in memory; makes the tables of a new file.
fn load(database: &Database) -> Attempt<Loaded> {
    let transaction = database.begin_read()?;
    let format = match transaction.open_table(STATE) {
        Ok(state) => state.get("format")?.map_or(0, |format| format.value()),
        Err(redb::TableError::TableDoesNotExist(_)) => 0,
        Err(error) => return Err(error.into()),
    };
    match format {
        0 => create(database),
        FORMAT => read_all(&transaction),
        // Tables of a later format are not looked at.
        format => Ok(Loaded { format, ..Loaded::default() }),
    }
}

fn create(database: &Database) -> Attempt<Loaded> {
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    transaction.open_table(TOMBSTONES)?;
    transaction.open_table(SUMS)?;
    transaction.open_table(COMPARED)?;
    transaction.open_table(STATE)?.insert("format", FORMAT)?;
    transaction.commit()?;
    Ok(Loaded { format: FORMAT, ..Loaded::default() })
}

fn read_all(transaction: &ReadTransaction) -> Attempt<Loaded> {
    let mut loaded = Loaded { format: FORMAT, ..Loaded::default() };
    for row in transaction.open_table(SUMS)?.iter()? {
        let (place, sum) = row?;
        let ((class, leaf), (count, total)) = (place.value(), sum.value());
        if let Some(class) = Class::from_number(u64::from(class)) {
            loaded.sums.entry(class).or_default().set(leaf, Sum { count, total });
        }
    }
    for row in transaction.open_table(COMPARED)?.iter()? {
        let (node, time) = row?;
        let written = time.value();
        loaded.compared.insert(Node(node.value()), Compared { latest: written, written });
    }
    loaded.last_time = transaction.open_table(STATE)?.get("last_time")?.map_or(0, |time| time.value());
    Ok(loaded)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Index for ShareFile {
    fn root(&self, class: Class, since: u32) -> Sum {
        self.sums.get(&class).map_or_else(Sum::default, |sums| sums.root(since))
    }

    fn parts(&self, class: Class, level: Level, within: RangeInclusive<u32>) -> Vec<(u32, Sum)> {
        self.sums.get(&class).map_or_else(Vec::new, |sums| sums.parts(level, within))
    }

    fn items(&self, class: Class, within: RangeInclusive<u32>) -> Vec<(Key, Digest)> {
        if within.is_empty() {
            return Vec::new();
        }
        let range = rows::parts(class, *within.start(), *within.end());
        self.read(|transaction| {
            let mut items = Vec::new();
            for row in transaction.open_table(RECORDS)?.range(&range.start[..]..&range.end[..])? {
                let (key, value) = row?;
                items.extend(rows::key_of(key.value()).zip(rows::head(value.value()).map(|head| head.digest)));
            }
            Ok(items)
        })
    }
}

impl Records for ShareFile {
    fn get(&self, class: Class, key: &Key) -> Option<Record> {
        self.row(class, key, |row| rows::unpack(row).map_err(|why| self.unreadable(class, key, why)).ok())
    }

    fn arrived(&self, class: Class, key: &Key) -> Option<u64> {
        self.row(class, key, |row| rows::head(row).map(|head| head.arrived))
    }

    /// Applies the changes in one synced transaction.
    fn apply(&mut self, changes: Vec<RecordChange>, last_time: u64) -> std::result::Result<(), StoreFailed> {
        let fail = |error: Error| StoreFailed(chain(&error));
        let unread = lock(&self.unread).take();
        if let Some(reason) = unread {
            self.reopen().map_err(fail)?;
            return Err(StoreFailed(reason));
        }
        if self.database.is_none() {
            self.reopen().map_err(fail)?;
        }
        // A disk that is known to be full is not tried.
        disk::admit(&self.path).map_err(Error::io("write", &self.path)).map_err(fail)?;
        // A stamp that was written down is never taken back.
        let last_time = last_time.max(self.last_time);
        match self.change(changes, last_time) {
            Ok(sums) => {
                for ((class, leaf), sum) in sums {
                    self.sums.entry(class).or_default().set(leaf, sum);
                }
                self.last_time = last_time;
                Ok(())
            }
            Err(error) => {
                // Reads must go on, from what is on disk now.
                if let Err(again) = self.reopen() {
                    tracing::error!("{}", chain(&again));
                }
                Err(fail(error))
            }
        }
    }

    fn tombstones(&self, class: Class, until: u64) -> Vec<Key> {
        let range = rows::tombstones(class, until);
        self.read(|transaction| {
            let mut keys = Vec::new();
            for row in transaction.open_table(TOMBSTONES)?.range(&range.start[..]..&range.end[..])? {
                keys.extend(rows::key_of_tombstone(row?.0.value()));
            }
            Ok(keys)
        })
    }
}
