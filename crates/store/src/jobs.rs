//! The job cache: publications, the minions that are expected to answer, and their returns.
//!
//! There are two stores, both [`Jobs`]: [`Files`], the layout of Salt's `local_cache`, and [`Embedded`], a single file.
//! [`JobCache`] is what a master and its tools use: new jobs go to the store that the option names, and jobs in the other one
//! are found too.

mod embedded;
mod files;
mod files_clean;
mod summary;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crypto::HashType;
use value::{Map, Value};
use wire::MinionId;
use wire::msgpack::{Packing, pack_entries};

use crate::Result;

pub use embedded::Embedded;
pub use files::Files;
pub use summary::summary;

/// The value of the option `master_job_cache` for Salt's layout.
pub const FILES: &str = "local_cache";

/// The value of the option `master_job_cache` for the single file.
pub const EMBEDDED: &str = "embedded";

/// A minion's return, as the job cache keeps it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobReturn {
    /// The result.
    pub value: Value,
    /// The return code, if the minion sent one.
    pub retcode: Option<Value>,
    /// The minion's `success` flag, if it sent one.
    pub success: Option<Value>,
    /// The outputter that the minion requested.
    pub out: Option<Value>,
}

/// The result of storing a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The return is on disk.
    New,
    /// The minion had already returned. The first return is kept.
    Duplicate {
        /// True if both returns are equal.
        same: bool,
    },
    /// The job must not be kept.
    NotKept,
    /// The job is unknown.
    UnknownJob,
}

/// The number of jobs that a cleanup removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Jobs older than allowed.
    pub old: usize,
    /// Directories that do not belong to a job.
    pub broken: usize,
}

/// A store of jobs.
pub trait Jobs: Send + Sync {
    /// Returns whether the job is known.
    fn contains(&self, jid: &str) -> Result<bool>;

    /// Returns whether the publication of the job is known.
    fn has_load(&self, jid: &str) -> Result<bool>;

    /// Creates a job. With `nocache` its returns will not be kept. Does nothing for a known job.
    fn prepare(&self, jid: &str, nocache: bool) -> Result<()>;

    /// Stores the publication of a job.
    fn save_load(&self, jid: &str, load: &Map) -> Result<()>;

    /// Adds ids to the expected minions of a job, of this master or of a syndic below it.
    fn save_minions(&self, jid: &str, minions: &[String], syndic: Option<&MinionId>) -> Result<()>;

    /// Stores a return, marked if it is a copy. Once this returns [`Stored::New`] the return survives any crash of the process.
    fn store(&self, jid: &str, id: &MinionId, returned: &JobReturn, copy: bool) -> Result<Stored>;

    /// Removes the mark of a copy, and returns whether the return was only a copy.
    fn take_copy_mark(&self, jid: &str, id: &MinionId) -> Result<bool>;

    /// Returns the publication of a job.
    fn publication(&self, jid: &str) -> Result<Option<Map>>;

    /// Returns what lists of jobs need of a publication: `jid`, `fun`, `arg`, `tgt`, `tgt_type`, `user`, `metadata`, `kwargs`.
    fn head(&self, jid: &str) -> Result<Option<Map>>;

    /// Returns all expected ids of a job, those of syndics included, in alphabetical order.
    fn minions(&self, jid: &str) -> Result<Vec<String>>;

    /// Returns the returns of a job by minion id, in alphabetical order. Unreadable returns are skipped.
    fn returns(&self, jid: &str) -> Result<Vec<(String, JobReturn)>>;

    /// Returns the return of one minion.
    fn return_of(&self, jid: &str, id: &MinionId) -> Result<Option<JobReturn>>;

    /// Returns the ids of the minions that have returned, in alphabetical order, without decoding their returns.
    fn returned(&self, jid: &str) -> Result<Vec<String>>;

    /// Stores when a job ended, as text (`2024, Feb 29 13:14:16.000001`).
    fn set_end_time(&self, jid: &str, time: &str) -> Result<()>;

    /// Returns when a job ended, if that is known.
    fn end_time(&self, jid: &str) -> Result<Option<String>>;

    /// Returns the id and head ([`Jobs::head`]) of every job, in no particular order. Unreadable jobs are skipped with a warning.
    fn heads(&self) -> Result<Vec<(String, Map)>>;

    /// Returns the id of every job, in no particular order, without reading more of the jobs.
    fn ids(&self) -> Result<Vec<String>>;

    /// Removes jobs older than `keep` (option `keep_jobs_seconds`), and directories that are not jobs. A `keep` of zero
    /// keeps all.
    fn clean(&self, keep: Duration, now: SystemTime) -> Result<Cleaned>;
}

/// The job cache of a master. It is cheap to clone.
#[derive(Clone)]
pub struct JobCache {
    files: Files,
    embedded: Place,
    /// True if new jobs go to the single file.
    embed: bool,
}

#[derive(Clone)]
enum Place {
    None,
    Open(Arc<Embedded>),
    /// Opened when it is first needed.
    Below(PathBuf, Arc<OnceLock<Arc<Embedded>>>),
}

impl JobCache {
    /// Returns a cache with only Salt's layout, in `<cachedir>/jobs`; `hash` names the directories.
    pub fn new(cachedir: &Path, hash: HashType) -> Self {
        JobCache { files: Files::new(cachedir, hash), embedded: Place::None, embed: false }
    }

    /// Opens the job cache for a master that starts, as its option `master_job_cache` says. If the single file cannot be used,
    /// an error is logged and new jobs go to Salt's layout.
    pub fn of_master(cachedir: &Path, hash: HashType, option: &str) -> Self {
        let mut cache = JobCache::new(cachedir, hash);
        // A master that was switched back still needs the file for the jobs in it.
        if option != EMBEDDED && !Embedded::exists(cachedir) {
            return cache;
        }
        match Embedded::open(cachedir) {
            Ok(embedded) => {
                cache.embedded = Place::Open(embedded);
                cache.embed = option == EMBEDDED;
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                // The disk may be full or the file in use. Refusing to start would cost more than an unusual place for
                // some jobs: both stores are searched, so these jobs are found later.
                tracing::error!(
                    "the job cache cannot be used: {error}{cause}. Jobs are kept in {} until the master is started again",
                    cache.files.root().display()
                );
            }
        }
        cache
    }

    /// Returns the cache of a master for another program, or for a part of the master, without opening it.
    pub fn beside_master(cachedir: &Path, hash: HashType, option: &str) -> Self {
        let mut cache = JobCache::new(cachedir, hash);
        cache.embed = option == EMBEDDED;
        if cache.embed || Embedded::exists(cachedir) {
            cache.embedded = Place::Below(cachedir.to_owned(), Arc::default());
        }
        cache
    }

    /// Returns the single-file store, if this cache has one.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn embedded(&self) -> Result<Option<&Arc<Embedded>>> {
        match &self.embedded {
            Place::None => Ok(None),
            Place::Open(embedded) => Ok(Some(embedded)),
            Place::Below(cachedir, opened) => {
                if opened.get().is_none() {
                    // Two threads may open it at once; both use the first one.
                    let _ = opened.set(Embedded::visit(cachedir)?);
                }
                Ok(opened.get())
            }
        }
    }

    /// Returns the directory of a job in Salt's layout. Any string is a valid job id here, since only its hash becomes a path.
    pub fn directory(&self, jid: &str) -> PathBuf {
        self.files.directory(jid)
    }

    /// Returns the store for new jobs, and the other one.
    fn both(&self) -> Result<(&dyn Jobs, Option<&dyn Jobs>)> {
        let Some(embedded) = self.embedded()? else { return Ok((&self.files, None)) };
        Ok(match self.embed {
            true => (&**embedded, Some(&self.files)),
            false => (&self.files, Some(&**embedded)),
        })
    }

    /// Returns the store that has a job, or where a new one belongs.
    fn of(&self, jid: &str) -> Result<&dyn Jobs> {
        match self.both()? {
            (first, Some(other)) if !first.contains(jid)? && other.contains(jid)? => Ok(other),
            (first, _) => Ok(first),
        }
    }

    /// Looks in both stores, the one for new jobs first. A job can be in both if the single file could not be used for a while.
    fn found<T>(&self, jid: &str, look: impl Fn(&dyn Jobs) -> Result<Option<T>>) -> Result<Option<T>> {
        let (first, other) = self.both()?;
        if first.contains(jid)?
            && let Some(found) = look(first)?
        {
            return Ok(Some(found));
        }
        match other {
            Some(other) if other.contains(jid)? => look(other),
            _ => Ok(None),
        }
    }

    /// Joins the entries of both stores in alphabetical order. The store for new jobs wins.
    fn joined<T>(&self, jid: &str, look: impl Fn(&dyn Jobs) -> Result<Vec<(String, T)>>) -> Result<Vec<(String, T)>> {
        let (first, other) = self.both()?;
        let all = if first.contains(jid)? { look(first)? } else { Vec::new() };
        match other {
            Some(other) if other.contains(jid)? => {
                // Inserted last, the entries of the store for new jobs replace the others.
                let mut joined: BTreeMap<_, _> = look(other)?.into_iter().collect();
                joined.extend(all);
                Ok(joined.into_iter().collect())
            }
            _ => Ok(all),
        }
    }

    /// Like `joined`, for ids alone.
    fn joined_ids(&self, jid: &str, look: impl Fn(&dyn Jobs) -> Result<Vec<String>>) -> Result<Vec<String>> {
        let named = |place: &dyn Jobs| Ok(look(place)?.into_iter().map(|id| (id, ())).collect());
        Ok(self.joined(jid, named)?.into_iter().map(|(id, ())| id).collect())
    }

    /// Stores a return. Once this returns [`Stored::New`] the return survives any crash of the process.
    ///
    /// # Errors
    /// If it could not be stored.
    pub fn store_return(&self, jid: &str, id: &MinionId, returned: &JobReturn) -> Result<Stored> {
        self.of(jid)?.store(jid, id, returned, false)
    }

    /// Like [`JobCache::store_return`], for a return that is kept here for the master that published the job. It is marked
    /// until [`JobCache::take_copy_mark`].
    pub fn store_copy(&self, jid: &str, id: &MinionId, returned: &JobReturn) -> Result<Stored> {
        self.of(jid)?.store(jid, id, returned, true)
    }

    /// Returns the publication of a job, with all expected ids under `Minions`; `None` if the job is unknown.
    pub fn load(&self, jid: &str) -> Result<Option<Map>> {
        let load = self.found(jid, |place| place.publication(jid))?;
        self.with_minions(jid, load)
    }

    /// Like [`JobCache::load`], with what [`Jobs::head`] returns of the publication.
    pub fn head(&self, jid: &str) -> Result<Option<Map>> {
        let head = self.found(jid, |place| place.head(jid))?;
        self.with_minions(jid, head)
    }

    fn with_minions(&self, jid: &str, load: Option<Map>) -> Result<Option<Map>> {
        let Some(mut load) = load else { return Ok(None) };
        let minions = self.minions(jid)?;
        if !minions.is_empty() {
            load.insert("Minions", minions);
        }
        Ok(Some(load))
    }

    /// Returns the number of bytes that are not synced yet. It is zero in Salt's layout.
    pub fn waiting(&self) -> usize {
        match &self.embedded {
            Place::Open(embedded) => embedded.waiting(),
            Place::None | Place::Below(..) => 0,
        }
    }

    /// Syncs pending changes. In Salt's layout this does nothing.
    pub fn flush(&self) -> Result<()> {
        match &self.embedded {
            Place::Open(embedded) => embedded.flush(),
            Place::None | Place::Below(..) => Ok(()),
        }
    }
}

/// The functions of [`Jobs`], on the store that has the job or will have it.
impl JobCache {
    /// See [`Jobs::contains`].
    pub fn contains(&self, jid: &str) -> Result<bool> {
        self.of(jid)?.contains(jid)
    }

    /// See [`Jobs::has_load`].
    pub fn has_load(&self, jid: &str) -> Result<bool> {
        self.of(jid)?.has_load(jid)
    }

    /// See [`Jobs::prepare`].
    pub fn prepare(&self, jid: &str, nocache: bool) -> Result<()> {
        self.of(jid)?.prepare(jid, nocache)
    }

    /// Like `prepare`, for a job that a program of Salt will read: it goes into Salt's layout, whatever the option says.
    pub fn prepare_for_salt(&self, jid: &str, nocache: bool) -> Result<()> {
        match self.contains(jid)? {
            true => self.prepare(jid, nocache),
            false => self.files.prepare(jid, nocache),
        }
    }

    /// See [`Jobs::save_load`].
    pub fn save_load(&self, jid: &str, load: &Map) -> Result<()> {
        self.of(jid)?.save_load(jid, load)
    }

    /// See [`Jobs::save_minions`].
    pub fn save_minions(&self, jid: &str, minions: &[String], syndic: Option<&MinionId>) -> Result<()> {
        self.of(jid)?.save_minions(jid, minions, syndic)
    }

    /// See [`Jobs::take_copy_mark`].
    pub fn take_copy_mark(&self, jid: &str, id: &MinionId) -> Result<bool> {
        self.of(jid)?.take_copy_mark(jid, id)
    }

    /// See [`Jobs::minions`].
    pub fn minions(&self, jid: &str) -> Result<Vec<String>> {
        self.joined_ids(jid, |place| place.minions(jid))
    }

    /// See [`Jobs::returns`].
    pub fn returns(&self, jid: &str) -> Result<Vec<(String, JobReturn)>> {
        self.joined(jid, |place| place.returns(jid))
    }

    /// See [`Jobs::return_of`].
    pub fn return_of(&self, jid: &str, id: &MinionId) -> Result<Option<JobReturn>> {
        self.found(jid, |place| place.return_of(jid, id))
    }

    /// See [`Jobs::returned`].
    pub fn returned(&self, jid: &str) -> Result<Vec<String>> {
        self.joined_ids(jid, |place| place.returned(jid))
    }

    /// Returns the number of returns without decoding them.
    pub fn count_returns(&self, jid: &str) -> Result<usize> {
        Ok(self.returned(jid)?.len())
    }

    /// See [`Jobs::set_end_time`].
    pub fn set_end_time(&self, jid: &str, time: &str) -> Result<()> {
        self.of(jid)?.set_end_time(jid, time)
    }

    /// See [`Jobs::end_time`].
    pub fn end_time(&self, jid: &str) -> Result<Option<String>> {
        self.found(jid, |place| place.end_time(jid))
    }

    /// See [`Jobs::heads`].
    pub fn heads(&self) -> Result<Vec<(String, Map)>> {
        let (first, other) = self.both()?;
        let mut jobs = first.heads()?;
        let more = other.map(Jobs::heads).transpose()?.unwrap_or_default();
        if !more.is_empty() {
            let known: HashSet<String> = jobs.iter().map(|(jid, _)| jid.clone()).collect();
            jobs.extend(more.into_iter().filter(|(jid, _)| !known.contains(jid)));
        }
        Ok(jobs)
    }

    /// Like [`Jobs::ids`]. A job in both stores is there twice.
    pub fn ids(&self) -> Result<Vec<String>> {
        let (first, other) = self.both()?;
        let mut ids = first.ids()?;
        ids.extend(other.map(Jobs::ids).transpose()?.unwrap_or_default());
        Ok(ids)
    }

    /// See [`Jobs::clean`].
    pub fn clean(&self, keep: Duration, now: SystemTime) -> Result<Cleaned> {
        let mut cleaned = self.files.clean(keep, now)?;
        if let Some(embedded) = self.embedded()? {
            let more = embedded.clean(keep, now)?;
            cleaned = Cleaned { old: cleaned.old + more.old, broken: cleaned.broken + more.broken };
        }
        Ok(cleaned)
    }
}

impl std::fmt::Debug for JobCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobCache").field("files", &self.files).field("embed", &self.embed).finish_non_exhaustive()
    }
}

impl JobReturn {
    /// Extracts what the job cache keeps from a minion's return load.
    pub fn from_load(load: &Map) -> Self {
        JobReturn {
            value: load.get("return").cloned().unwrap_or_default(),
            retcode: load.get("retcode").cloned(),
            success: load.get("success").cloned(),
            out: load.get("out").cloned(),
        }
    }

    /// Returns the map that job look-ups show: `return`, and `retcode`, `success`, `out` if known.
    pub fn to_map(&self) -> Map {
        self.entries().into_iter().map(|(key, value)| (key, value.clone())).collect()
    }

    /// Returns the packed map.
    fn packed(&self) -> Vec<u8> {
        pack_entries(&self.entries(), Packing::Bin)
    }

    /// Like `packed`, without `out`, which has a separate file in Salt's layout.
    fn packed_without_out(&self) -> Vec<u8> {
        let mut entries = self.entries();
        entries.retain(|(key, _)| *key != "out");
        pack_entries(&entries, Packing::Bin)
    }

    fn entries(&self) -> Vec<(&'static str, &Value)> {
        // The order is Salt's, since the bytes of `return.p` are compared to detect duplicates.
        let known = [("retcode", &self.retcode), ("success", &self.success), ("out", &self.out)];
        let known = known.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        std::iter::once(("return", &self.value)).chain(known).collect()
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
