//! The job cache in the layout of Salt's `local_cache`.
//!
//! A job lives in `jobs/<hh>/<rest>/`, named by the hash of its id: `jid`, `.load.p` (the publication), `.minions.p` (who
//! should answer), and per minion a directory with `return.p`. A return is committed by making `return.p` exist, which
//! only one writer can; what was committed survives the death of the process at any moment.

mod clean;
mod summary;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crypto::HashType;
use value::{Map, Value};
use wire::MinionId;
use wire::msgpack::{Packing, pack};

use crate::disk::{self, Writing};
use crate::{Error, Result};

pub use clean::Cleaned;
pub use summary::summary;

const LOAD: &str = ".load.p";
const MINIONS: &str = ".minions.p";
const RETURN: &str = "return.p";
const OUT: &str = "out.p";
const END_TIME: &str = "endtime";
/// Beside a return that came as a copy, for a job of another master.
const COPY: &str = "copy";

/// The job cache of a master.
#[derive(Clone, Debug)]
pub struct JobCache {
    root: PathBuf,
    hash: HashType,
    sync: bool,
}

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

impl JobCache {
    /// Returns the cache in `<cachedir>/jobs`, with the hash that names the directories.
    pub fn new(cachedir: &Path, hash: HashType) -> Self {
        JobCache { root: cachedir.join("jobs"), hash, sync: false }
    }

    /// Returns a cache that waits for the disk before it says a return is stored.
    pub fn synced(self) -> Self {
        JobCache { sync: true, ..self }
    }

    /// Returns the directory of a job; any text is a good job id here, since only its hash becomes a path.
    pub fn directory(&self, jid: &str) -> PathBuf {
        let hash = self.hash.hex(jid.as_bytes());
        self.root.join(&hash[..2]).join(&hash[2..])
    }

    /// Says whether the job is known.
    pub fn contains(&self, jid: &str) -> bool {
        self.directory(jid).is_dir()
    }

    /// Makes the directory of a job. With `nocache` its returns will not be kept. A known job is used again.
    pub fn prepare(&self, jid: &str, nocache: bool) -> Result<()> {
        let directory = self.directory(jid);
        disk::make_directory(&directory)?;
        let write = |name: &str, content: &str| {
            let path = directory.join(name);
            disk::admit(&path).and_then(|()| std::fs::write(&path, content)).map_err(Error::io("write", &path))
        };
        write("jid", jid)?;
        if nocache { write("nocache", "") } else { Ok(()) }
    }

    /// Keeps the publication of a job.
    pub fn save_load(&self, jid: &str, load: &Map) -> Result<()> {
        let directory = self.directory(jid);
        disk::make_directory(&directory)?;
        disk::write_value(&directory.join(LOAD), &Value::Map(load.clone()), self.writing())
    }

    /// Adds ids to those a job expects to answer, by this master or a syndic below it.
    pub fn save_minions(&self, jid: &str, minions: &[String], syndic: Option<&MinionId>) -> Result<()> {
        let directory = self.directory(jid);
        disk::make_directory(&directory)?;
        let path = match syndic {
            Some(syndic) => directory.join(format!(".minions.{syndic}.p")),
            None => directory.join(MINIONS),
        };
        let mut ids = read_ids(&path).unwrap_or_default();
        ids.extend(minions.iter().cloned());
        disk::write_value(&path, &ids.into_iter().collect::<Value>(), self.writing())
    }

    /// Keeps a return. Once this says [`Stored::New`] the return can be read after any crash of the process.
    pub fn store_return(&self, jid: &str, id: &MinionId, returned: &JobReturn) -> Result<Stored> {
        self.store(jid, id, returned, false)
    }

    /// As [`JobCache::store_return`], for a return that is kept here in place of the master that published the job. It is
    /// marked until [`JobCache::take_copy_mark`].
    pub fn store_copy(&self, jid: &str, id: &MinionId, returned: &JobReturn) -> Result<Stored> {
        self.store(jid, id, returned, true)
    }

    /// Says whether the return of a minion is here as a copy only, and that no longer.
    pub fn take_copy_mark(&self, jid: &str, id: &MinionId) -> Result<bool> {
        disk::remove(&self.directory(jid).join(id.as_str()).join(COPY))
    }

    fn store(&self, jid: &str, id: &MinionId, returned: &JobReturn, copy: bool) -> Result<Stored> {
        let job = self.directory(jid);
        if job.join("nocache").exists() {
            return Ok(Stored::NotKept);
        }
        let directory = job.join(id.as_str());
        let left_over = match disk::admit(&directory).and_then(|()| std::fs::create_dir(&directory)) {
            Ok(()) => false,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Stored::UnknownJob),
            // A directory without a return is what a process left that died in the middle: the return is still wanted.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if directory.join(RETURN).exists() {
                    return Ok(Stored::Duplicate { same: self.same(&directory, returned) });
                }
                true
            }
            Err(error) => return Err(Error::io("create directory", &directory)(error)),
        };
        let mark = directory.join(COPY);
        // The mark comes before the return, so that no copy is ever without one.
        if copy {
            disk::write(&mark, b"", self.writing())?;
        }
        let stored = self.commit(&directory, returned)?;
        if left_over && stored == Stored::New && !copy || copy && stored != Stored::New {
            disk::remove(&mark)?;
        }
        Ok(stored)
    }

    /// Writes the outputter first, so that whoever sees the return sees all of it.
    fn commit(&self, directory: &Path, returned: &JobReturn) -> Result<Stored> {
        if let Some(out) = &returned.out {
            disk::write_value(&directory.join(OUT), out, self.writing())?;
        }
        let content = pack(&Value::Map(returned.to_file()), Packing::Bin);
        if disk::write_new(&directory.join(RETURN), &content, self.writing())? {
            return Ok(Stored::New);
        }
        Ok(Stored::Duplicate { same: self.same(directory, returned) })
    }

    /// Compares bytes first: a value with NaN inside equals nothing, not even itself.
    fn same(&self, directory: &Path, returned: &JobReturn) -> bool {
        let content = pack(&Value::Map(returned.to_file()), Packing::Bin);
        let bytes = disk::read(&directory.join(RETURN)).is_ok_and(|kept| kept.as_deref() == Some(&content[..]));
        bytes || read_return(directory).is_ok_and(|kept| kept.as_ref() == Some(returned))
    }

    /// Returns the publication of a job, with all expected ids under `Minions`; nothing when the job is unknown.
    pub fn load(&self, jid: &str) -> Result<Option<Map>> {
        let directory = self.directory(jid);
        let Some(mut load) = read_map(&directory.join(LOAD))? else { return Ok(None) };
        let minions = self.minions(jid)?;
        if !minions.is_empty() {
            load.insert("Minions", minions);
        }
        Ok(Some(load))
    }

    /// Returns all ids a job expects, syndics included, in alphabetical order. Unreadable lists are skipped.
    pub fn minions(&self, jid: &str) -> Result<Vec<String>> {
        let directory = self.directory(jid);
        let mut ids = BTreeSet::new();
        for name in disk::text_names(&directory)? {
            if name == MINIONS || (name.starts_with(".minions.") && name.ends_with(".p")) {
                match read_ids(&directory.join(&name)) {
                    Ok(found) => ids.extend(found),
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        }
        Ok(ids.into_iter().collect())
    }

    /// Returns what has been returned for a job, by minion id in alphabetical order. An unreadable return is skipped.
    pub fn returns(&self, jid: &str) -> Result<Vec<(String, JobReturn)>> {
        let directory = self.directory(jid);
        let mut returns = Vec::new();
        for id in disk::text_names(&directory)? {
            if id.starts_with('.') {
                continue;
            }
            match read_return(&directory.join(&id)) {
                Ok(Some(returned)) => returns.push((id, returned)),
                Ok(None) => {}
                Err(error) => tracing::warn!("{error}"),
            }
        }
        Ok(returns)
    }

    /// Returns what one minion returned.
    pub fn return_of(&self, jid: &str, id: &MinionId) -> Result<Option<JobReturn>> {
        read_return(&self.directory(jid).join(id.as_str()))
    }

    /// Says how many minions have returned, without reading what.
    pub fn count_returns(&self, jid: &str) -> Result<usize> {
        let directory = self.directory(jid);
        let names = disk::text_names(&directory)?;
        Ok(names.iter().filter(|name| !name.starts_with('.') && directory.join(name).join(RETURN).is_file()).count())
    }

    /// Notes when a job ended, as text (`2024, Feb 29 13:14:16.000001`).
    pub fn set_end_time(&self, jid: &str, time: &str) -> Result<()> {
        let directory = self.directory(jid);
        disk::make_directory(&directory)?;
        disk::write(&directory.join(END_TIME), time.as_bytes(), self.writing())
    }

    /// Returns when a job ended, if that was noted.
    pub fn end_time(&self, jid: &str) -> Result<Option<String>> {
        let text = disk::read_text(&self.directory(jid).join(END_TIME))?;
        Ok(text.map(|text| text.trim_matches('\n').to_owned()))
    }

    /// Returns id and publication of every job, in no particular order. What cannot be read is skipped with a warning.
    pub fn all(&self) -> Result<Vec<(String, Map)>> {
        let mut jobs = Vec::new();
        for top in disk::names(&self.root)? {
            let top = self.root.join(top);
            for name in disk::names(&top)? {
                match read_map(&top.join(name).join(LOAD)) {
                    Ok(Some(load)) => jobs.extend(load.get("jid").map(Value::to_string).map(|jid| (jid, load))),
                    Ok(None) => {}
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        }
        Ok(jobs)
    }

    fn writing(&self) -> Writing {
        Writing { sync: self.sync, ..Writing::SHARED }
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
        let mut map = self.to_file();
        if let Some(out) = &self.out {
            map.insert("out", out.clone());
        }
        map
    }

    fn to_file(&self) -> Map {
        let mut map = value::map! { "return" => self.value.clone() };
        for (key, value) in [("retcode", &self.retcode), ("success", &self.success)] {
            if let Some(value) = value {
                map.insert(key, value.clone());
            }
        }
        map
    }
}

/// Reads a return; very old ones are the bare result.
fn read_return(directory: &Path) -> Result<Option<JobReturn>> {
    let Some(value) = disk::read_value(&directory.join(RETURN))? else { return Ok(None) };
    let mut returned = match value {
        Value::Map(map) if map.contains_key("return") => JobReturn::from_load(&map),
        bare => JobReturn { value: bare, ..JobReturn::default() },
    };
    if let Some(out) = disk::read_value(&directory.join(OUT))? {
        returned.out = Some(out);
    }
    Ok(Some(returned))
}

fn read_ids(path: &Path) -> Result<BTreeSet<String>> {
    let ids = disk::read_value(path)?.and_then(Value::into_list).unwrap_or_default();
    Ok(ids.into_iter().filter_map(Value::into_string).collect())
}

fn read_map(path: &Path) -> Result<Option<Map>> {
    match disk::read_value(path)? {
        None => Ok(None),
        Some(Value::Map(map)) => Ok(Some(map)),
        Some(other) => Err(Error::malformed(path, format!("a {} where a map should be", other.type_name()))),
    }
}

#[cfg(test)]
mod tests;
