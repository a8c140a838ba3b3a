//! The job cache: what was published, who should answer, and what came back.
//!
//! There are two stores, both [`Jobs`]: [`Files`], the layout of Salt's `local_cache`, and [`Embedded`], one file for all.
//! [`JobCache`] is what a master and its tools work with: new jobs go to the one the options name, and jobs that lie in the
//! other one are found too.

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

/// The store of a master that keeps its jobs in Salt's layout, as its option `master_job_cache` names it.
pub const FILES: &str = "local_cache";

/// The store of a master that keeps its jobs in one file, as its option `master_job_cache` names it.
pub const EMBEDDED: &str = "embedded";

/// What a minion returned, as far as the job cache keeps it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobReturn {
    /// The result.
    pub value: Value,
    /// The return code, when the minion sent one.
    pub retcode: Option<Value>,
    /// Whether the job succeeded, when the minion said so.
    pub success: Option<Value>,
    /// The outputter the minion asked for.
    pub out: Option<Value>,
}

/// What became of a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is on the disk.
    New,
    /// The minion had returned before; `same` says whether it returned the same. The first return stays.
    Duplicate {
        /// Both returns are equal.
        same: bool,
    },
    /// The job asked not to be kept.
    NotKept,
    /// There is no such job.
    UnknownJob,
}

/// What a cleaning removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Jobs older than allowed.
    pub old: usize,
    /// Directories that are not those of a job.
    pub broken: usize,
}

/// A store of jobs.
pub trait Jobs: Send + Sync {
    /// Says whether the job is known.
    fn contains(&self, jid: &str) -> Result<bool>;

    /// Says whether the publication of the job is known.
    fn has_load(&self, jid: &str) -> Result<bool>;

    /// Makes a job. With `nocache` its returns will not be kept. A known job is used again.
    fn prepare(&self, jid: &str, nocache: bool) -> Result<()>;

    /// Keeps the publication of a job.
    fn save_load(&self, jid: &str, load: &Map) -> Result<()>;

    /// Adds ids to those a job expects to answer, by this master or a syndic below it.
    fn save_minions(&self, jid: &str, minions: &[String], syndic: Option<&MinionId>) -> Result<()>;

    /// Keeps a return; a copy is marked. Once this says [`Stored::New`] it can be read after any crash of the process.
    fn store(&self, jid: &str, id: &MinionId, returned: &JobReturn, copy: bool) -> Result<Stored>;

    /// Says whether the return of a minion is here as a copy only, and that no longer.
    fn take_copy_mark(&self, jid: &str, id: &MinionId) -> Result<bool>;

    /// Returns the publication of a job.
    fn publication(&self, jid: &str) -> Result<Option<Map>>;

    /// Returns all ids a job expects, syndics included, in alphabetical order.
    fn minions(&self, jid: &str) -> Result<Vec<String>>;

    /// Returns what has been returned for a job, by minion id in alphabetical order. An unreadable return is skipped.
    fn returns(&self, jid: &str) -> Result<Vec<(String, JobReturn)>>;

    /// Returns what one minion returned.
    fn return_of(&self, jid: &str, id: &MinionId) -> Result<Option<JobReturn>>;

    /// Says how many minions have returned, without reading what.
    fn count_returns(&self, jid: &str) -> Result<usize>;

    /// Notes when a job ended, as text (`2024, Feb 29 13:14:16.000001`).
    fn set_end_time(&self, jid: &str, time: &str) -> Result<()>;

    /// Returns when a job ended, if that was noted.
    fn end_time(&self, jid: &str) -> Result<Option<String>>;

    /// Returns id and publication of every job, in no particular order. What cannot be read is skipped with a warning.
    fn all(&self) -> Result<Vec<(String, Map)>>;

    /// Removes jobs older than `keep` (option `keep_jobs_seconds`), and what is no job. A `keep` of nothing keeps everything.
    fn clean(&self, keep: Duration, now: SystemTime) -> Result<Cleaned>;
}

/// The job cache of a master. Cheap to clone.
#[derive(Clone)]
pub struct JobCache {
    files: Files,
    embedded: Place,
    /// Whether new jobs go to the one file.
    embed: bool,
}

#[derive(Clone)]
enum Place {
    None,
    Open(Arc<Embedded>),
    /// Opened when first needed.
    Below(PathBuf, Arc<OnceLock<Arc<Embedded>>>),
}

impl JobCache {
    /// Returns a cache in Salt's layout alone, in `<cachedir>/jobs`, with the hash that names the directories.
    pub fn new(cachedir: &Path, hash: HashType) -> Self {
        JobCache { files: Files::new(cachedir, hash), embedded: Place::None, embed: false }
    }

    /// Returns the cache of a master that begins, as its option `master_job_cache` says. A file that cannot be used is told of
    /// in the log, and new jobs go to Salt's layout then.
    pub fn of_master(cachedir: &Path, hash: HashType, option: &str) -> Self {
        let mut cache = JobCache::new(cachedir, hash);
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
                tracing::error!(
                    "the job cache cannot be used: {error}{cause}. Jobs are kept in {} until the master is started again",
                    cache.files.root().display()
                );
            }
        }
        cache
    }

    /// Returns the cache of a master for another program, or for a part of the master. Nothing is opened yet.
    pub fn beside_master(cachedir: &Path, hash: HashType, option: &str) -> Self {
        let mut cache = JobCache::new(cachedir, hash);
        cache.embed = option == EMBEDDED;
        if cache.embed || Embedded::exists(cachedir) {
            cache.embedded = Place::Below(cachedir.to_owned(), Arc::default());
        }
        cache
    }

    /// Returns the one file, if this cache has one.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn embedded(&self) -> Result<Option<&Arc<Embedded>>> {
        match &self.embedded {
            Place::None => Ok(None),
            Place::Open(embedded) => Ok(Some(embedded)),
            Place::Below(cachedir, opened) => {
                if opened.get().is_none() {
                    // Whoever is faster opens it; both get the same.
                    let _ = opened.set(Embedded::visit(cachedir)?);
                }
                Ok(opened.get())
            }
        }
    }

    /// Returns the directory of a job in Salt's layout; any text is a good job id here, since only its hash becomes a path.
    pub fn directory(&self, jid: &str) -> PathBuf {
        self.files.directory(jid)
    }

    /// The store for new jobs, and the other one.
    fn both(&self) -> Result<(&dyn Jobs, Option<&dyn Jobs>)> {
        let Some(embedded) = self.embedded()? else { return Ok((&self.files, None)) };
        Ok(match self.embed {
            true => (&**embedded, Some(&self.files)),
            false => (&self.files, Some(&**embedded)),
        })
    }

    /// Where a job lies, or where a new one belongs.
    fn of(&self, jid: &str) -> Result<&dyn Jobs> {
        match self.both()? {
            (first, Some(other)) if !first.contains(jid)? && other.contains(jid)? => Ok(other),
            (first, _) => Ok(first),
        }
    }

    /// What either store has of a job, the one for new jobs first. A job has something in both when the one file could not be
    /// used for a time.
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

    /// What both stores have of a job, in alphabetical order; the store for new jobs counts where both have something.
    fn joined<T>(&self, jid: &str, look: impl Fn(&dyn Jobs) -> Result<Vec<(String, T)>>) -> Result<Vec<(String, T)>> {
        let (first, other) = self.both()?;
        let all = if first.contains(jid)? { look(first)? } else { Vec::new() };
        match other {
            Some(other) if other.contains(jid)? => {
                let mut joined: BTreeMap<_, _> = look(other)?.into_iter().collect();
                joined.extend(all);
                Ok(joined.into_iter().collect())
            }
            _ => Ok(all),
        }
    }

    /// Keeps a return. Once this says [`Stored::New`] the return can be read after any crash of the process.
    ///
    /// # Errors
    /// When it could not be stored; so for the others.
    pub fn store_return(&self, jid: &str, id: &MinionId, returned: &JobReturn) -> Result<Stored> {
        self.of(jid)?.store(jid, id, returned, false)
    }

    /// As [`JobCache::store_return`], for a return that is kept here in place of the master that published the job. It is
    /// marked until [`JobCache::take_copy_mark`].
    pub fn store_copy(&self, jid: &str, id: &MinionId, returned: &JobReturn) -> Result<Stored> {
        self.of(jid)?.store(jid, id, returned, true)
    }

    /// Returns the publication of a job, with all expected ids under `Minions`; nothing when the job is unknown.
    pub fn load(&self, jid: &str) -> Result<Option<Map>> {
        let Some(mut load) = self.found(jid, |place| place.publication(jid))? else { return Ok(None) };
        let minions = self.minions(jid)?;
        if !minions.is_empty() {
            load.insert("Minions", minions);
        }
        Ok(Some(load))
    }

    /// Says how many bytes wait to be written to the disk itself; in Salt's layout none do.
    pub fn waiting(&self) -> usize {
        match &self.embedded {
            Place::Open(embedded) => embedded.waiting(),
            Place::None | Place::Below(..) => 0,
        }
    }

    /// Writes what waits to the disk itself; in Salt's layout nothing does.
    pub fn flush(&self) -> Result<()> {
        match &self.embedded {
            Place::Open(embedded) => embedded.flush(),
            Place::None | Place::Below(..) => Ok(()),
        }
    }
}

/// What [`Jobs`] does, with the store that has the job or is to have it.
impl JobCache {
    /// As [`Jobs::contains`].
    pub fn contains(&self, jid: &str) -> Result<bool> {
        self.of(jid)?.contains(jid)
    }

    /// As [`Jobs::has_load`].
    pub fn has_load(&self, jid: &str) -> Result<bool> {
        self.of(jid)?.has_load(jid)
    }

    /// As [`Jobs::prepare`].
    pub fn prepare(&self, jid: &str, nocache: bool) -> Result<()> {
        self.of(jid)?.prepare(jid, nocache)
    }

    /// The same for a job that a program of Salt's is going to look for: it lies in Salt's layout, whatever the option says.
    pub fn prepare_for_salt(&self, jid: &str, nocache: bool) -> Result<()> {
        match self.contains(jid)? {
            true => self.prepare(jid, nocache),
            false => self.files.prepare(jid, nocache),
        }
    }

    /// As [`Jobs::save_load`].
    pub fn save_load(&self, jid: &str, load: &Map) -> Result<()> {
        self.of(jid)?.save_load(jid, load)
    }

    /// As [`Jobs::save_minions`].
    pub fn save_minions(&self, jid: &str, minions: &[String], syndic: Option<&MinionId>) -> Result<()> {
        self.of(jid)?.save_minions(jid, minions, syndic)
    }

    /// As [`JobCache::take_copy_mark`].
    pub fn take_copy_mark(&self, jid: &str, id: &MinionId) -> Result<bool> {
        self.of(jid)?.take_copy_mark(jid, id)
    }

    /// As [`Jobs::minions`].
    pub fn minions(&self, jid: &str) -> Result<Vec<String>> {
        let named = |place: &dyn Jobs| Ok(place.minions(jid)?.into_iter().map(|id| (id, ())).collect());
        Ok(self.joined(jid, named)?.into_iter().map(|(id, ())| id).collect())
    }

    /// As [`Jobs::returns`].
    pub fn returns(&self, jid: &str) -> Result<Vec<(String, JobReturn)>> {
        self.joined(jid, |place| place.returns(jid))
    }

    /// As [`Jobs::return_of`].
    pub fn return_of(&self, jid: &str, id: &MinionId) -> Result<Option<JobReturn>> {
        self.found(jid, |place| place.return_of(jid, id))
    }

    /// As [`Jobs::count_returns`].
    pub fn count_returns(&self, jid: &str) -> Result<usize> {
        match self.both()? {
            (first, Some(other)) if first.contains(jid)? && other.contains(jid)? => Ok(self.returns(jid)?.len()),
            _ => self.of(jid)?.count_returns(jid),
        }
    }

    /// As [`Jobs::set_end_time`].
    pub fn set_end_time(&self, jid: &str, time: &str) -> Result<()> {
        self.of(jid)?.set_end_time(jid, time)
    }

    /// As [`Jobs::end_time`].
    pub fn end_time(&self, jid: &str) -> Result<Option<String>> {
        self.found(jid, |place| place.end_time(jid))
    }

    /// As [`Jobs::all`].
    pub fn all(&self) -> Result<Vec<(String, Map)>> {
        let (first, other) = self.both()?;
        let mut jobs = first.all()?;
        let more = other.map(Jobs::all).transpose()?.unwrap_or_default();
        if !more.is_empty() {
            let known: HashSet<String> = jobs.iter().map(|(jid, _)| jid.clone()).collect();
            jobs.extend(more.into_iter().filter(|(jid, _)| !known.contains(jid)));
        }
        Ok(jobs)
    }

    /// As [`Jobs::clean`].
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
    /// Takes from a minion's return load what the job cache keeps.
    pub fn from_load(load: &Map) -> Self {
        JobReturn {
            value: load.get("return").cloned().unwrap_or_default(),
            retcode: load.get("retcode").cloned(),
            success: load.get("success").cloned(),
            out: load.get("out").cloned(),
        }
    }

    /// Returns the map that stands in job look-ups: `return`, and `retcode`, `success`, `out` when known.
    pub fn to_map(&self) -> Map {
        self.entries().into_iter().map(|(key, value)| (key, value.clone())).collect()
    }

    /// The bytes of that map.
    fn packed(&self) -> Vec<u8> {
        pack_entries(&self.entries(), Packing::Bin)
    }

    /// The same without `out`, which has a file of its own in Salt's layout.
    fn packed_without_out(&self) -> Vec<u8> {
        let mut entries = self.entries();
        entries.retain(|(key, _)| *key != "out");
        pack_entries(&entries, Packing::Bin)
    }

    fn entries(&self) -> Vec<(&'static str, &Value)> {
        let known = [("retcode", &self.retcode), ("success", &self.success), ("out", &self.out)];
        let known = known.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        std::iter::once(("return", &self.value)).chain(known).collect()
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
