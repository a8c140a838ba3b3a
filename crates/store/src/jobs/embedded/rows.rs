//! Rows: those in the database, and over them the changes since the last write to it.
//!
//! Each change first goes to the journal, where it survives the death of the process, and into memory, where it is found at
//! once. [`Rows::flush`] writes many changes to the database in one synced transaction, and removes their journal.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::database::DatabaseFile;
use super::journal::{Change, Journal};
use crate::{Error, Result, disk};

/// The number of bytes in memory that triggers a write to the database.
const FLUSH_SIZE: usize = 16 << 20;

/// The maximum in memory: beyond it, changes wait for the database.
const MAX_UNFLUSHED: usize = 128 << 20;

/// The overhead of a row in bytes.
// An estimate of the tree's node and the two allocations. Without it many tiny rows would take far more memory than
// counted.
const ROW: usize = 64;

/// The timeout for a master that still holds the directory while it stops.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// A key and its value.
pub type Row = (Vec<u8>, Arc<[u8]>);

type Latest = BTreeMap<Vec<u8>, Option<Arc<[u8]>>>;

/// The rows of a job cache.
pub struct Rows {
    base: DatabaseFile,
    directory: PathBuf,
    /// The lock of the process that owns the journal.
    ownership: Option<File>,
    recent: Mutex<Recent>,
    /// Writers wait here for each other, as the file would make them wait.
    journal: Mutex<Writer>,
    flushing: Mutex<()>,
    changed: Mutex<Option<Box<dyn Fn() + Send>>>,
}

enum Writer {
    /// This process owns the journal.
    Own(Journal),
    /// Another process does: this one changes the database itself, and reads the other's journal.
    Visitor,
}

#[derive(Default)]
struct Recent {
    fresh: Latest,
    /// The changes that are being written to the database, and the number of the last journal that holds them.
    frozen: Arc<Latest>,
    journals: u64,
    /// How often changes have been taken to be written to the database.
    turn: u64,
    bytes: usize,
    frozen_bytes: usize,
    /// The part of the journal that a visitor has read.
    seen: HashMap<PathBuf, (u64, SystemTime)>,
}

/// A page of a scan: rows in the order of their keys, and whether more follow.
pub struct Page {
    pub rows: Vec<Row>,
    pub more: bool,
}

impl Rows {
    /// Opens the rows for the owner of the journal, the master. The contents of an old journal are written to the database.
    pub fn open(directory: &Path) -> Result<Self> {
        disk::make_directory(directory)?;
        let ownership = own(directory)?;
        let base = DatabaseFile::open(&directory.join("jobs.redb"))?;
        // The journals that a killed master left. The order matters: first the database is synced, then the journal is
        // removed.
        let mut left = Vec::new();
        let damaged = Journal::replay(directory, |change| left.push(change))?;
        if !left.is_empty() {
            base.change(|table| insert(table, left.iter().map(|(key, value)| (&key[..], value.as_deref()))))?;
        }
        for file in damaged {
            file.put_aside()?;
        }
        Journal::remove(directory, u64::MAX)?;
        Ok(Rows::with(directory, base, Some(ownership), Writer::Own(Journal::create(directory)?)))
    }

    /// Opens the rows for another program, with or without a running master.
    pub fn visit(directory: &Path) -> Result<Self> {
        Ok(Rows::with(directory, DatabaseFile::open(&directory.join("jobs.redb"))?, None, Writer::Visitor))
    }

    fn with(directory: &Path, base: DatabaseFile, ownership: Option<File>, writer: Writer) -> Self {
        Rows {
            base,
            directory: directory.to_owned(),
            ownership,
            recent: Mutex::default(),
            journal: Mutex::new(writer),
            flushing: Mutex::default(),
            changed: Mutex::default(),
        }
    }

    /// Sets a callback for when there is something to flush again, and when that has become much. Without a callback, the writer
    /// that reaches that size flushes.
    pub fn when_changed(&self, told: Box<dyn Fn() + Send>) {
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// Returns the value under a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Arc<[u8]>>> {
        self.read_journal_of_owner()?;
        if let Some(latest) = self.recent().get(key) {
            return Ok(latest);
        }
        Ok(self.base.get(key)?.map(Arc::from))
    }

    /// Applies changes. Once this returns they survive the death of the process.
    pub fn change(&self, changes: Vec<Change>) -> Result<()> {
        self.make_room()?;
        self.commit(&mut self.journal(), changes)
    }

    /// Returns a number that grows when changes are taken to be written to the database. What was stored since is in memory.
    pub fn turn(&self) -> u64 {
        self.recent().turn
    }

    /// Sets the value under a key unless there is one, and returns the existing value. In the turn `unwritten_in` the key is not
    /// in the database, which need not be asked then.
    pub fn insert_new(
        &self,
        key: &[u8],
        value: &[u8],
        beside: Option<Change>,
        unwritten_in: Option<u64>,
    ) -> Result<Option<Arc<[u8]>>> {
        self.make_room()?;
        // With this lock the turn stays.
        let mut writer = self.journal();
        let kept = match unwritten_in == Some(self.turn()) {
            true => self.recent().get(key).flatten(),
            false => self.get(key)?,
        };
        if let Some(kept) = kept {
            return Ok(Some(kept));
        }
        let changes = beside.into_iter().chain([(key.to_vec(), Some(value.to_vec()))]).collect();
        self.commit(&mut writer, changes)?;
        Ok(None)
    }

    fn commit(&self, writer: &mut Writer, changes: Vec<Change>) -> Result<()> {
        // Without the journal, a visitor's change is one synced transaction: slow, but rare.
        let Writer::Own(journal) = writer else {
            let rows = || changes.iter().map(|(key, value)| (&key[..], value.as_deref()));
            self.base.change(|table| insert(table, rows()))?;
            return Ok(());
        };
        // Journal first: a reader must never see, and a minion never be sent, what a crash would take back.
        journal.append(&changes)?;
        let mut recent = self.recent();
        let first = recent.fresh.is_empty();
        for (key, value) in changes {
            recent.put(key, value);
        }
        // The callback may take other locks.
        drop(recent);
        if first {
            self.notify();
        }
        Ok(())
    }

    /// Calls the callback, and returns whether there is one.
    fn notify(&self) -> bool {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.as_ref().map(|told| told()).is_some()
    }

    /// Writes changes to the database when they have become much. If another thread does so already, this waits only at the
    /// maximum; it fails then if the database cannot be written.
    fn make_room(&self) -> Result<()> {
        let bytes = self.waiting();
        if bytes < FLUSH_SIZE {
            return Ok(());
        }
        // The disk is slower than the minions. Waiting passes the pressure on to them instead of filling the memory.
        if bytes > MAX_UNFLUSHED {
            return self.flush();
        }
        if self.notify() {
            return Ok(());
        }
        match self.flushing.try_lock() {
            // The changes are in the journal already, so a failure is reported by the next flush.
            Ok(turn) => self.write_frozen(turn).or(Ok(())),
            Err(_) => Ok(()),
        }
    }

    /// Writes the pending changes to the database and syncs it. Others can still read and store.
    pub fn flush(&self) -> Result<()> {
        self.write_frozen(self.flushing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write_frozen(&self, _turn: MutexGuard<'_, ()>) -> Result<()> {
        let Some((frozen, journals)) = self.freeze()? else { return Ok(()) };
        let rows = || frozen.iter().map(|(key, value)| (&key[..], value.as_deref()));
        self.base.change(|table| insert(table, rows()))?;
        // Readers find the rows in the database from here on. The journal goes last, so a crash in between only writes
        // them twice.
        self.recent().forget_frozen();
        Journal::remove(&self.directory, journals)
    }

    /// Takes the changes to write. Those of a failed attempt come first.
    fn freeze(&self) -> Result<Option<(Arc<Latest>, u64)>> {
        let mut writer = self.journal();
        let Writer::Own(journal) = &mut *writer else { return Ok(None) };
        let nothing = |recent: &Recent| recent.frozen.is_empty() && recent.fresh.is_empty();
        if nothing(&self.recent()) {
            return Ok(None);
        }
        if self.recent().frozen.is_empty() {
            // Under the journal's lock, so that no change lands in the old file but in the new set.
            let finished = journal.rotate()?;
            self.recent().freeze(finished);
        }
        let recent = self.recent();
        Ok(Some((recent.frozen.clone(), recent.journals)))
    }

    /// Returns rows whose keys begin with `prefix` and follow `after`: about as many bytes as requested, and at least one
    /// row.
    pub fn page(&self, prefix: &[u8], after: Option<&[u8]>, bytes: usize) -> Result<Page> {
        self.read_journal_of_owner()?;
        // Memory is read first: a row that moves to the database in the meantime is found in one of the two.
        let latest = self.recent().range(prefix, after);
        let mut rows: Latest = BTreeMap::new();
        let (mut size, mut end) = (0, None);
        self.base.scan(prefix, after, |key, value| {
            if size >= bytes {
                end = rows.keys().next_back().cloned();
                return false;
            }
            size += key.len() + value.len();
            rows.insert(key.to_vec(), Some(value.into()));
            true
        })?;
        let before_end = |key: &Vec<u8>| end.as_ref().is_none_or(|end| key <= end);
        rows.extend(latest.into_iter().filter(|(key, _)| before_end(key)));
        let rows: Vec<_> = rows.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        Ok(Page { rows, more: end.is_some() })
    }

    /// Returns all rows whose keys begin with `prefix`.
    pub fn all(&self, prefix: &[u8]) -> Result<Vec<Row>> {
        Ok(self.page(prefix, None, usize::MAX)?.rows)
    }

    /// Adds the keys that begin with `prefix` to `keys`, and removes rows in transactions of `slice` keys, so that
    /// other writers do not wait for long. What is left over stays in `keys`.
    pub fn remove_below(&self, prefix: &[u8], keys: &mut Vec<Vec<u8>>, slice: usize) -> Result<()> {
        loop {
            let before = keys.len();
            let latest = self.recent().range(prefix, None);
            keys.extend(latest.into_keys());
            self.base.scan(prefix, None, |key, _| {
                keys.push(key.to_vec());
                keys.len() < slice
            })?;
            if keys.len() < slice || keys.len() == before {
                return Ok(());
            }
            self.remove(keys)?;
        }
    }

    /// Removes rows.
    pub fn remove(&self, keys: &mut Vec<Vec<u8>>) -> Result<()> {
        self.flush()?;
        self.base.change(|table| insert(table, keys.iter().map(|key| (&key[..], None))))?;
        keys.clear();
        Ok(())
    }

    /// Returns whether this process owns the journal.
    pub fn is_owner(&self) -> bool {
        self.ownership.is_some()
    }

    /// Returns the number of bytes that are not in the database yet.
    pub fn waiting(&self) -> usize {
        self.recent().bytes
    }

    /// A visitor reads what the master has stored since its last look.
    fn read_journal_of_owner(&self) -> Result<()> {
        if self.is_owner() {
            return Ok(());
        }
        let mut seen = HashMap::new();
        for name in disk::text_names(&self.directory)?.into_iter().filter(|name| name.starts_with("journal.")) {
            let path = self.directory.join(name);
            if let Ok(metadata) = std::fs::metadata(&path) {
                let modified = metadata.modified().map_err(Error::io("read", &path))?;
                seen.insert(path, (metadata.len(), modified));
            }
        }
        // Length and time of each file show whether anything was appended; replaying it at each look-up would be
        // quadratic.
        if self.recent().seen == seen {
            return Ok(());
        }
        let mut fresh = Latest::new();
        Journal::replay(&self.directory, |(key, value)| drop(fresh.insert(key, value.map(Arc::from))))?;
        // `seen` was taken before the files were read: changes appended since then are read again next time, never
        // missed.
        *self.recent() = Recent { fresh, seen, ..Recent::default() };
        Ok(())
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Writer> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // Changes that are not written now stay in the journal.
        if let Err(error) = self.flush() {
            tracing::warn!("the job cache is written at the next start: {error}");
        }
    }
}

impl Recent {
    fn get(&self, key: &[u8]) -> Option<Option<Arc<[u8]>>> {
        self.fresh.get(key).or_else(|| self.frozen.get(key)).cloned()
    }

    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let size = |value: Option<usize>| ROW + value.unwrap_or_default();
        self.bytes += key.len() + size(value.as_ref().map(Vec::len));
        let length = key.len();
        if let Some(before) = self.fresh.insert(key, value.map(Arc::from)) {
            self.bytes -= length + size(before.map(|before| before.len()));
        }
    }

    fn freeze(&mut self, journals: u64) {
        self.frozen = Arc::new(std::mem::take(&mut self.fresh));
        (self.journals, self.frozen_bytes) = (journals, self.bytes);
        self.turn += 1;
    }

    fn forget_frozen(&mut self) {
        self.frozen = Arc::default();
        self.bytes -= std::mem::take(&mut self.frozen_bytes);
    }

    /// Returns the changes with a prefix, after a key.
    fn range(&self, prefix: &[u8], after: Option<&[u8]>) -> Latest {
        let mut found = Latest::new();
        let wanted = |key: &&Vec<u8>| key.starts_with(prefix);
        // Fresh rows are newer, so they come second and replace frozen ones.
        for rows in [&*self.frozen, &self.fresh] {
            let start = after.filter(|after| *after > prefix).unwrap_or(prefix).to_vec();
            let range = rows.range(start..).take_while(|(key, _)| wanted(key));
            found.extend(
                range.filter(|(key, _)| Some(&key[..]) != after).map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        found
    }
}

/// Locks the directory for one master, because a second one would remove the journal of the first. The lock ends with
/// the process. If another process holds it, this waits for a while, in case it is about to stop.
fn own(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let begun = Instant::now();
    let lock = || {
        disk::admit(&path)?;
        let file = File::options().create(true).append(true).mode(0o600).open(&path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIMEOUT => {
                    // File locks cannot be awaited with a timeout.
                    std::thread::sleep(LOCK_TIMEOUT / 40)
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(std::io::Error::new(ErrorKind::ResourceBusy, "another master works with it"));
                }
            }
        }
    };
    lock().map_err(Error::io("lock", &path))
}

fn insert<'a>(
    table: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    rows: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> std::result::Result<(), redb::Error> {
    for (key, value) in rows {
        match value {
            Some(value) => drop(table.insert(key, value)?),
            None => drop(table.remove(key)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> Vec<Change> {
        vec![(key.into(), Some(value.into()))]
    }

    fn found(rows: &Rows) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        rows.all(b"k").unwrap().iter().map(|(key, value)| (text(key), text(value))).collect()
    }

    /// Returns a copy of the disk as it would be if the process were killed now.
    fn killed(rows: &Rows) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for name in disk::names(&rows.directory).unwrap() {
            std::fs::copy(rows.directory.join(&name), copy.path().join(&name)).unwrap();
        }
        copy
    }

    #[test]
    fn later_changes_hide_earlier_ones() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::open(dir.path()).unwrap();
        for (key, value) in [("k1", "a"), ("k2", "a"), ("k3", "a"), ("other", "a")] {
            rows.change(set(key, value)).unwrap();
        }
        rows.flush().unwrap();
        rows.change(set("k2", "b")).unwrap();
        rows.change(vec![("k3".into(), None)]).unwrap();
        rows.change(set("k4", "b")).unwrap();
        let expected = [("k1", "a"), ("k2", "b"), ("k4", "b")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        for _ in 0..2 {
            assert_eq!(found(&rows), expected);
            assert_eq!(rows.get(b"k3").unwrap(), None);
            rows.flush().unwrap();
        }
        assert_eq!(rows.waiting(), 0);
    }

    #[test]
    fn acknowledged_changes_survive_a_kill_at_any_moment() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::open(dir.path()).unwrap();
        rows.change(set("k1", "a")).unwrap();
        rows.flush().unwrap();
        rows.change(set("k2", "a")).unwrap();
        // Between the new journal and the write to the database.
        let (frozen, _) = rows.freeze().unwrap().unwrap();
        assert_eq!(frozen.len(), 1);
        rows.change(set("k3", "a")).unwrap();
        let copy = killed(&rows);
        let again = Rows::open(copy.path()).unwrap();
        assert_eq!(found(&again), found(&rows));
        assert_eq!(found(&again).len(), 3);
        // The frozen changes that were not written go first, then the rest.
        rows.flush().unwrap();
        rows.flush().unwrap();
        assert_eq!(rows.waiting(), 0);
        assert_eq!(found(&rows).len(), 3);
    }

    #[test]
    fn the_callback_reports_the_first_and_too_many_changes() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::open(dir.path()).unwrap();
        let (told, calls) = std::sync::mpsc::channel();
        rows.when_changed(Box::new(move || told.send(()).unwrap()));
        let large = || vec![(b"k".to_vec(), Some(vec![0; FLUSH_SIZE]))];
        rows.change(large()).unwrap();
        assert_eq!(calls.try_iter().count(), 1, "there is something");
        rows.change(large()).unwrap();
        assert_eq!(calls.try_iter().count(), 1, "and it is much");
        assert!(rows.waiting() >= FLUSH_SIZE, "nobody has written it");
        rows.flush().unwrap();
        assert_eq!(rows.waiting(), 0);
    }

    #[test]
    fn only_one_master_owns_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::open(dir.path()).unwrap();
        let refused = Rows::open(dir.path()).err().unwrap();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert_eq!(cause, "another master works with it");
        rows.change(set("k1", "a")).unwrap();
        assert_eq!(found(&Rows::visit(dir.path()).unwrap()).len(), 1, "visitors may come");
        drop(rows);
        assert_eq!(found(&Rows::open(dir.path()).unwrap()).len(), 1);
    }

    #[test]
    fn pages_add_up_to_all_rows() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::open(dir.path()).unwrap();
        for number in 0..100 {
            rows.change(set(&format!("k{number:03}"), "value")).unwrap();
            if number == 60 {
                rows.flush().unwrap();
            }
        }
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let page = rows.page(b"k", after.as_deref(), 100).unwrap();
            keys.extend(page.rows.iter().map(|(key, _)| key.clone()));
            after = keys.last().cloned();
            if !page.more {
                break;
            }
        }
        assert_eq!(keys, rows.all(b"k").unwrap().into_iter().map(|(key, _)| key).collect::<Vec<_>>());
        assert_eq!(keys.len(), 100);
    }

    #[test]
    fn rows_are_removed_in_slices() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::open(dir.path()).unwrap();
        for number in 0..25 {
            rows.change(set(&format!("k{number:03}"), "value")).unwrap();
        }
        rows.change(set("l", "stays")).unwrap();
        let mut keys = Vec::new();
        rows.remove_below(b"k", &mut keys, 10).unwrap();
        rows.remove(&mut keys).unwrap();
        assert_eq!(found(&rows), []);
        assert!(rows.get(b"l").unwrap().is_some());
    }
}
