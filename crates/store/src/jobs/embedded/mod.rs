//! The job cache in a single file: `<cachedir>/saltern/jobs/jobs.redb`, with a journal beside it.
//!
//! The keys are: `j` and a job id for the job; `l` and the job id for the publication; `e` and the job id for the time it ended;
//! and, with the job id, a zero byte and another id, `m` for the expected minions (by syndic), `r` for the returns and `c` for the
//! marks of copies (by minion). A return costs one write to the journal; [`Embedded::flush`] moves many of them to the database
//! at once. An acknowledged return survives the death of the process at any moment, and, once flushed, a power failure.

mod database;
mod journal;
mod rows;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use value::{Map, Value};
use wire::MinionId;
use wire::msgpack::{Decode, Packing, pack, unpack, unpack_entries};

use super::summary::HEAD;
use super::{Cleaned, JobReturn, Jobs, Stored};
use crate::{Error, Result};
use rows::Rows;

/// The number of rows that one transaction removes during a cleanup.
const SLICE: usize = 4096;

/// The number of bytes of a scan that are in memory at once.
const PAGE: usize = 4 << 20;

/// The job cache of a master in a single file.
pub struct Embedded {
    rows: Rows,
    path: PathBuf,
    /// The rows of the latest jobs, which each return needs.
    latest: Mutex<HashMap<String, CachedJob>>,
}

/// What is known of a job without a look into the database.
#[derive(Clone, Copy)]
struct CachedJob {
    row: JobRow,
    /// The database has no return of this job as long as this is the [turn](Rows::turn) of the rows: the job was created in it.
    unreturned_in: Option<u64>,
}

/// The number of jobs whose rows are cached.
const CACHED_JOBS: usize = 256;

/// The stores that are open in this process; all users share them.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Embedded>>>> = LazyLock::new(Mutex::default);

impl Embedded {
    /// Opens the job cache in a cache directory for its master.
    ///
    /// # Errors
    /// If the file cannot be used. A damaged one is renamed, and a new one is created.
    pub fn open(cachedir: &Path) -> Result<Arc<Self>> {
        Self::shared(cachedir, true, Rows::open)
    }

    /// Opens the job cache for another program, with or without a running master. In the master's process it is the master's.
    ///
    /// # Errors
    /// Those of [`Embedded::open`].
    pub fn visit(cachedir: &Path) -> Result<Arc<Self>> {
        Self::shared(cachedir, false, |directory| {
            crate::disk::make_directory(directory)?;
            Rows::visit(directory)
        })
    }

    fn shared(cachedir: &Path, own: bool, open: impl FnOnce(&Path) -> Result<Rows>) -> Result<Arc<Self>> {
        let directory = directory(cachedir);
        let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        // A master needs its own journal, so it does not share what a visitor opened before.
        let fit = |known: &Arc<Embedded>| !own || known.rows.is_owner();
        if let Some(known) = all.get(&directory).and_then(Weak::upgrade).filter(fit) {
            return Ok(known);
        }
        let opened =
            Arc::new(Embedded { rows: open(&directory)?, path: directory.join("jobs.redb"), latest: Mutex::default() });
        // Tests and simulations open many directories in one process.
        all.retain(|_, known| known.strong_count() > 0);
        all.insert(directory, Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Returns whether such a job cache exists in a cache directory.
    pub fn exists(cachedir: &Path) -> bool {
        directory(cachedir).join("jobs.redb").exists()
    }

    /// Writes what was stored to the database and syncs it.
    pub fn flush(&self) -> Result<()> {
        self.rows.flush()
    }

    /// Sets a callback for when there is something to flush again, and when that has become much.
    pub fn when_changed(&self, told: impl Fn() + Send + 'static) {
        self.rows.when_changed(Box::new(told));
    }

    /// Returns the number of bytes that are not in the database yet.
    pub fn waiting(&self) -> usize {
        self.rows.waiting()
    }

    fn job(&self, jid: &str) -> Result<Option<JobRow>> {
        Ok(self.cached(jid)?.map(|cached| cached.row))
    }

    fn cached(&self, jid: &str) -> Result<Option<CachedJob>> {
        if let Some(cached) = self.latest().get(jid) {
            return Ok(Some(*cached));
        }
        let Some(row) = self.rows.get(&key(b'j', jid))? else { return Ok(None) };
        let cached = CachedJob { row: JobRow::read(&row), unreturned_in: None };
        self.remember(jid, cached);
        Ok(Some(cached))
    }

    /// Caches only rows of the owner, because other processes do not learn what the master removes.
    fn remember(&self, jid: &str, cached: CachedJob) {
        if self.rows.is_owner() {
            let mut latest = self.latest();
            if latest.len() >= CACHED_JOBS {
                // Only a cache: emptying it is simpler than tracking ages, and each miss costs one look-up.
                latest.clear();
            }
            latest.insert(jid.to_owned(), cached);
        }
    }

    fn latest(&self) -> MutexGuard<'_, HashMap<String, CachedJob>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the row of a job, as the layout of files does with a directory.
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
        self.map_in(self.value(bytes)?)
    }

    fn read_head(&self, bytes: &[u8]) -> Result<Map> {
        self.map_in(unpack_entries(bytes, &HEAD).map_err(|error| Error::malformed(&self.path, error))?)
    }

    fn map_in(&self, value: Value) -> Result<Map> {
        let name = value.type_name();
        value.into_map().ok_or_else(|| Error::malformed(&self.path, format!("a {name} where a map should be")))
    }

    fn old_jobs(&self, keep: Duration, now: SystemTime) -> Result<Vec<String>> {
        // A job from the future, after the clock was set back, is young.
        let old = |row: &[u8]| now.duration_since(JobRow::read(row).created).is_ok_and(|age| age > keep);
        let rows = self.rows.all(b"j")?.into_iter().filter(|(_, row)| old(row));
        Ok(rows.map(|(key, _)| last_part(&key[1..])).collect())
    }
}

/// The content of a job's row.
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

    /// The age of a job counts from here, by the system's clock, like that of a file.
    fn prepare(&self, jid: &str, nocache: bool) -> Result<()> {
        // A zero byte separates the parts of a key; in a job id it would reach into the rows of another job.
        if jid.is_empty() || jid.contains('\0') {
            return Err(Error::bad_name("job id", jid));
        }
        // As with the marker file in Salt's layout, a second `prepare` does not lift it.
        // Before anything is looked up: what goes to the database afterwards ends it.
        let turn = self.rows.turn();
        let known = self.cached(jid)?;
        let nocache = nocache || known.is_some_and(|known| known.row.nocache);
        let unreturned_in = known.map_or(Some(turn), |known| known.unreturned_in);
        let row = JobRow { created: SystemTime::now(), nocache };
        self.set(key(b'j', jid), row.write())?;
        self.remember(jid, CachedJob { row, unreturned_in });
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
        let Some(CachedJob { row, unreturned_in }) = self.cached(jid)? else { return Ok(Stored::UnknownJob) };
        if row.nocache {
            return Ok(Stored::NotKept);
        }
        let content = returned.packed();
        let mark = copy.then(|| (key_of(b'c', jid, id.as_str()), Some(Vec::new())));
        match self.rows.insert_new(&key_of(b'r', jid, id.as_str()), &content, mark, unreturned_in)? {
            None => Ok(Stored::New),
            // Bytes are compared first: a value with NaN in it is not even equal to itself.
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

    fn head(&self, jid: &str) -> Result<Option<Map>> {
        let Some(bytes) = self.rows.get(&key(b'l', jid))? else { return Ok(None) };
        Ok(Some(self.read_head(&bytes)?))
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
            // In pages: the packed rows of a large job are not all in memory beside the decoded ones.
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

    fn returned(&self, jid: &str) -> Result<Vec<String>> {
        Ok(self.rows.all(&key_of(b'r', jid, ""))?.iter().map(|(key, _)| last_part(key)).collect())
    }

    fn set_end_time(&self, jid: &str, time: &str) -> Result<()> {
        self.ensure(jid)?;
        self.set(key(b'e', jid), time)
    }

    fn end_time(&self, jid: &str) -> Result<Option<String>> {
        let bytes = self.rows.get(&key(b'e', jid))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim_matches('\n').to_owned()))
    }

    fn heads(&self) -> Result<Vec<(String, Map)>> {
        let mut jobs = Vec::new();
        for (_, bytes) in self.rows.all(b"l")? {
            match self.read_head(&bytes) {
                Ok(load) => jobs.extend(load.get("jid").map(Value::to_string).map(|jid| (jid, load))),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        Ok(jobs)
    }

    fn ids(&self) -> Result<Vec<String>> {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let page = self.rows.page(b"j", after.as_deref(), PAGE)?;
            ids.extend(page.rows.iter().map(|(key, _)| String::from_utf8_lossy(&key[1..]).into_owned()));
            after = page.rows.into_iter().next_back().map(|(key, _)| key);
            if !page.more {
                return Ok(ids);
            }
        }
    }

    /// Removes rows in slices, so that no return waits for long.
    fn clean(&self, keep: Duration, now: SystemTime) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        if keep.is_zero() {
            return Ok(cleaned);
        }
        let old = self.old_jobs(keep, now)?;
        let mut keys = Vec::new();
        for jid in &old {
            // The row of the job is removed last: what a crash in between leaves is removed the next time.
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

/// Returns what follows the last zero byte, or all.
fn last_part(key: &[u8]) -> String {
    let start = key.iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
    String::from_utf8_lossy(&key[start..]).into_owned()
}

fn texts(list: Value) -> BTreeSet<String> {
    list.into_list().unwrap_or_default().into_iter().filter_map(Value::into_string).collect()
}
