//! The job cache in one file: `<cachedir>/saltern/jobs/jobs.redb`, with a journal beside it.
//!
//! The row of a job is `j` and its id; beside it are `l` the publication, `e` the time it ended, and, with a zero byte and an
//! id after the job's, `m` who should answer (by syndic), `r` the returns and `c` the marks of copies (by minion). A return
//! costs one write to the journal; the database takes many of them at once, when it is told to [`Embedded::flush`]. What was
//! acknowledged survives the death of the process at any moment, and the power of the machine once it is flushed.

mod base;
mod journal;
mod rows;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use value::{Map, Value};
use wire::MinionId;
use wire::msgpack::{Decode, Packing, pack, unpack};

use super::{Cleaned, JobReturn, Jobs, Stored};
use crate::{Error, Result};
use rows::Rows;

/// Rows that go in one transaction when old jobs are removed.
const SLICE: usize = 4096;

/// How much of a scan is in memory at once.
const PAGE: usize = 4 << 20;

/// The job cache of a master, in one file.
pub struct Embedded {
    rows: Rows,
    path: PathBuf,
    /// The rows of the latest jobs, which each return asks for.
    latest: Mutex<HashMap<String, JobRow>>,
}

/// Jobs whose rows are remembered.
const LATEST: usize = 256;

/// Those that are open in this process, which all share.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Embedded>>>> = LazyLock::new(Mutex::default);

impl Embedded {
    /// Opens the job cache below a cache directory for its master.
    ///
    /// # Errors
    /// When the file cannot be used. One that is damaged is put aside, and a new one begins.
    pub fn open(cachedir: &Path) -> Result<Arc<Self>> {
        Self::shared(cachedir, true, Rows::open)
    }

    /// Opens the job cache beside a master that runs, or while none does. In the master's own process this is the master's.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn visit(cachedir: &Path) -> Result<Arc<Self>> {
        Self::shared(cachedir, false, |directory| {
            crate::disk::make_directory(directory)?;
            Rows::visit(directory)
        })
    }

    fn shared(cachedir: &Path, own: bool, open: impl FnOnce(&Path) -> Result<Rows>) -> Result<Arc<Self>> {
        let directory = directory(cachedir);
        let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        // A master does not work with what a visitor opened before it began.
        let fit = |known: &Arc<Embedded>| !own || known.rows.is_owner();
        if let Some(known) = all.get(&directory).and_then(Weak::upgrade).filter(fit) {
            return Ok(known);
        }
        let opened =
            Arc::new(Embedded { rows: open(&directory)?, path: directory.join("jobs.redb"), latest: Mutex::default() });
        all.retain(|_, known| known.strong_count() > 0);
        all.insert(directory, Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Says whether there is such a job cache below a cache directory.
    pub fn exists(cachedir: &Path) -> bool {
        directory(cachedir).join("jobs.redb").exists()
    }

    /// Writes what was stored to the database, and waits for the disk.
    pub fn flush(&self) -> Result<()> {
        self.rows.flush()
    }

    /// Has a function called when there is something to flush after a time when there was not, and when that has become much.
    pub fn when_changed(&self, told: impl Fn() + Send + 'static) {
        self.rows.when_changed(Box::new(told));
    }

    /// Says how many bytes wait to be written to the database.
    pub fn waiting(&self) -> usize {
        self.rows.waiting()
    }

    fn job(&self, jid: &str) -> Result<Option<JobRow>> {
        if let Some(row) = self.latest().get(jid) {
            return Ok(Some(*row));
        }
        let row = self.rows.get(&key(b'j', jid))?.as_deref().map(JobRow::read);
        if let Some(row) = row {
            self.remember(jid, row);
        }
        Ok(row)
    }

    /// Others do not hear of what the master removes.
    fn remember(&self, jid: &str, row: JobRow) {
        if self.rows.is_owner() {
            let mut latest = self.latest();
            if latest.len() >= LATEST {
                latest.clear();
            }
            latest.insert(jid.to_owned(), row);
        }
    }

    fn latest(&self) -> MutexGuard<'_, HashMap<String, JobRow>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the row of a job, as the layout of files does with a directory.
    fn ensure(&self, jid: &str) -> Result<()> {
        if self.job(jid)?.is_none() { self.prepare(jid, false) } else { Ok(()) }
    }

    fn set(&self, key: Vec<u8>, value: impl Into<Vec<u8>>) -> Result<()> {
        self.rows.change(vec![(key, Some(value.into()))])
    }

    fn value(&self, bytes: &[u8]) -> Result<Value> {
        unpack(bytes, Decode::Default).map_err(|error| Error::malformed(&self.path, error))
    }

    fn read_map(&self, bytes: &[u8]) -> Result<Map> {
        let value = self.value(bytes)?;
        let name = value.type_name();
        value.into_map().ok_or_else(|| Error::malformed(&self.path, format!("a {name} where a map should be")))
    }

    fn old_jobs(&self, keep: Duration, now: SystemTime) -> Result<Vec<String>> {
        let old = |row: &[u8]| now.duration_since(JobRow::read(row).created).is_ok_and(|age| age > keep);
        let rows = self.rows.all(b"j")?.into_iter().filter(|(_, row)| old(row));
        Ok(rows.map(|(key, _)| last_part(&key[1..])).collect())
    }
}

/// What the row of a job says.
#[derive(Clone, Copy)]
struct JobRow {
    created: SystemTime,
    nocache: bool,
}

impl JobRow {
    fn read(bytes: &[u8]) -> Self {
        let seconds = bytes.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
        let created = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH);
        JobRow { created, nocache: bytes.get(8) == Some(&1) }
    }

    fn write(&self) -> Vec<u8> {
        let seconds = self.created.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut bytes = seconds.to_le_bytes().to_vec();
        bytes.push(u8::from(self.nocache));
        bytes
    }
}

impl Jobs for Embedded {
    fn contains(&self, jid: &str) -> Result<bool> {
        Ok(self.job(jid)?.is_some())
    }

    fn has_load(&self, jid: &str) -> Result<bool> {
        Ok(self.rows.get(&key(b'l', jid))?.is_some())
    }

    /// The age of a job counts from here, by the system's clock, as that of a file does.
    fn prepare(&self, jid: &str, nocache: bool) -> Result<()> {
        if jid.is_empty() || jid.contains('\0') {
            return Err(Error::bad_name("job id", jid));
        }
        let nocache = nocache || self.job(jid)?.is_some_and(|row| row.nocache);
        let row = JobRow { created: SystemTime::now(), nocache };
        self.set(key(b'j', jid), row.write())?;
        self.remember(jid, row);
        Ok(())
    }

    fn save_load(&self, jid: &str, load: &Map) -> Result<()> {
        self.ensure(jid)?;
        self.set(key(b'l', jid), pack(&Value::Map(load.clone()), Packing::Bin))
    }

    fn save_minions(&self, jid: &str, minions: &[String], syndic: Option<&MinionId>) -> Result<()> {
        self.ensure(jid)?;
        let key = key_of(b'm', jid, syndic.map_or("", MinionId::as_str));
        let mut ids: BTreeSet<String> = match self.rows.get(&key)? {
            Some(bytes) => texts(self.value(&bytes)?),
            None => BTreeSet::new(),
        };
        ids.extend(minions.iter().cloned());
        self.set(key, pack(&ids.into_iter().collect::<Value>(), Packing::Bin))
    }

    fn store(&self, jid: &str, id: &MinionId, returned: &JobReturn, copy: bool) -> Result<Stored> {
        match self.job(jid)? {
            None => return Ok(Stored::UnknownJob),
            Some(JobRow { nocache: true, .. }) => return Ok(Stored::NotKept),
            Some(_) => {}
        }
        let content = returned.packed();
        let mark = copy.then(|| (key_of(b'c', jid, id.as_str()), Some(Vec::new())));
        match self.rows.insert_new(&key_of(b'r', jid, id.as_str()), &content, mark)? {
            None => Ok(Stored::New),
            // Bytes first: a value with NaN inside equals nothing, not even itself.
            Some(kept) if kept[..] == content[..] => Ok(Stored::Duplicate { same: true }),
            Some(kept) => Ok(Stored::Duplicate { same: JobReturn::from_load(&self.read_map(&kept)?) == *returned }),
        }
    }

    fn take_copy_mark(&self, jid: &str, id: &MinionId) -> Result<bool> {
        let key = key_of(b'c', jid, id.as_str());
        let marked = self.rows.get(&key)?.is_some();
        if marked {
            self.rows.change(vec![(key, None)])?;
        }
        Ok(marked)
    }

    fn publication(&self, jid: &str) -> Result<Option<Map>> {
        let Some(bytes) = self.rows.get(&key(b'l', jid))? else { return Ok(None) };
        Ok(Some(self.read_map(&bytes)?))
    }

    fn minions(&self, jid: &str) -> Result<Vec<String>> {
        let mut ids = BTreeSet::new();
        for (_, bytes) in self.rows.all(&key_of(b'm', jid, ""))? {
            ids.extend(texts(self.value(&bytes)?));
        }
        Ok(ids.into_iter().collect())
    }

    fn returns(&self, jid: &str) -> Result<Vec<(String, JobReturn)>> {
        let mut returns = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.rows.page(&key_of(b'r', jid, ""), after.as_deref(), PAGE)?;
            for (key, bytes) in &page.rows {
                match self.read_map(bytes) {
                    Ok(map) => returns.push((last_part(key), JobReturn::from_load(&map))),
                    Err(error) => tracing::warn!("{error}"),
                }
            }
            match page.rows.last() {
                Some((last, _)) if page.more => after = Some(last.clone()),
                _ => return Ok(returns),
            }
        }
    }

    fn return_of(&self, jid: &str, id: &MinionId) -> Result<Option<JobReturn>> {
        let Some(bytes) = self.rows.get(&key_of(b'r', jid, id.as_str()))? else { return Ok(None) };
        Ok(Some(JobReturn::from_load(&self.read_map(&bytes)?)))
    }

    fn count_returns(&self, jid: &str) -> Result<usize> {
        Ok(self.rows.all(&key_of(b'r', jid, ""))?.len())
    }

    fn set_end_time(&self, jid: &str, time: &str) -> Result<()> {
        self.ensure(jid)?;
        self.set(key(b'e', jid), time)
    }

    fn end_time(&self, jid: &str) -> Result<Option<String>> {
        let bytes = self.rows.get(&key(b'e', jid))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim_matches('\n').to_owned()))
    }

    fn all(&self) -> Result<Vec<(String, Map)>> {
        let mut jobs = Vec::new();
        for (_, bytes) in self.rows.all(b"l")? {
            match self.read_map(&bytes) {
                Ok(load) => jobs.extend(load.get("jid").map(Value::to_string).map(|jid| (jid, load))),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        Ok(jobs)
    }

    /// In slices, so that no return waits for long.
    fn clean(&self, keep: Duration, now: SystemTime) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        if keep.is_zero() {
            return Ok(cleaned);
        }
        let old = self.old_jobs(keep, now)?;
        let mut keys = Vec::new();
        for jid in &old {
            // The row of the job goes last: what a death in between leaves is removed the next time.
            let prefixes = [b'r', b'c', b'm'].map(|kind| key_of(kind, jid, ""));
            for prefix in prefixes {
                self.rows.remove_below(&prefix, &mut keys, SLICE)?;
            }
            keys.extend([b'l', b'e', b'j'].map(|kind| key(kind, jid)));
            cleaned.old += 1;
        }
        self.rows.remove(&mut keys)?;
        self.latest().clear();
        Ok(cleaned)
    }
}

fn directory(cachedir: &Path) -> PathBuf {
    cachedir.join("saltern").join("jobs")
}

fn key(kind: u8, jid: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + jid.len());
    key.push(kind);
    key.extend_from_slice(jid.as_bytes());
    key
}

fn key_of(kind: u8, jid: &str, id: &str) -> Vec<u8> {
    let mut key = key(kind, jid);
    key.reserve_exact(1 + id.len());
    key.push(0);
    key.extend_from_slice(id.as_bytes());
    key
}

/// What follows the last zero byte, or all.
fn last_part(key: &[u8]) -> String {
    let start = key.iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
    String::from_utf8_lossy(&key[start..]).into_owned()
}

fn texts(list: Value) -> BTreeSet<String> {
    list.into_list().unwrap_or_default().into_iter().filter_map(Value::into_string).collect()
}
