//! Jobs in the layout of Salt's `local_cache`.
//!
//! A job is in `jobs/<hh>/<rest>/`, named by the hash of its id: `jid`, `.load.p` (the publication), `.minions.p` (the expected
//! minions), and per minion a directory with `return.p`. Creating `return.p`, which only one writer can do, commits a return;
//! a committed return survives the death of the process at any moment.

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crypto::HashType;
use value::{Map, Value};
use wire::MinionId;

use super::summary::HEAD;
use super::{Cleaned, JobReturn, Jobs, Stored};
use crate::disk::{self, Writing};
use crate::{Error, Result};

const JID: &str = "jid";
pub(super) const LOAD: &str = ".load.p";
pub(super) const MINIONS: &str = ".minions.p";
pub(super) const RETURN: &str = "return.p";
pub(super) const OUT: &str = "out.p";
pub(super) const END_TIME: &str = "endtime";
/// The mark of a job whose returns are not kept.
const NOCACHE: &str = "nocache";
/// Files of a job whose names can be those of minions. The directory of such a minion would take their place: that of `nocache`
/// would keep the returns of all others out.
const OWN_FILES: [&str; 3] = [JID, END_TIME, NOCACHE];
/// The longest id of a syndic that has a file of its own in a job: no name of a file is longer.
const LONGEST_SYNDIC: usize = 255 - ".minions..p".len();
/// The mark beside a return that arrived as a copy, for a job of another master.
pub(super) const COPY: &str = "copy";

/// The job cache in `<cachedir>/jobs`.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
    hash: HashType,
}

impl Files {
    /// Returns the cache in `<cachedir>/jobs`, with the hash that names the directories.
    pub fn new(cachedir: &Path, hash: HashType) -> Self {
        Files { root: cachedir.join("jobs"), hash }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of a job. Any string is a valid job id here, since only its hash becomes a path.
    pub fn directory(&self, jid: &str) -> PathBuf {
        let hash = self.hash.hex(jid.as_bytes());
        self.root.join(&hash[..2]).join(&hash[2..])
    }

    fn keep(&self, jid: &str, id: &MinionId, returned: &JobReturn, copy: bool) -> Result<Stored> {
        let job = self.directory(jid);
        // Checked before the directory, so that an unkept job leaves no trace of its minions.
        if job.join(NOCACHE).is_file() {
            return Ok(Stored::NotKept);
        }
        if OWN_FILES.contains(&id.as_str()) {
            tracing::warn!(minion = %id, "the return of {id} for job {jid} is not kept: the job cache has a file of this name");
            return Ok(Stored::NotKept);
        }
        let directory = job.join(id.as_str());
        // Creating the directory decides between concurrent writers, in Salt's programs too, which may share the cache.
        let left_over = match create(&directory) {
            Ok(()) => false,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Stored::UnknownJob),
            // A directory without a return was left by a process that died in between: the return is still needed.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if directory.join(RETURN).exists() {
                    return Ok(Stored::Duplicate { same: self.same(&directory, returned) });
                }
                true
            }
            Err(error) => return Err(Error::io("create directory", &directory)(error)),
        };
        let mark = directory.join(COPY);
        // The mark is written before the return, so that a copy never lacks it.
        if copy {
            disk::write(&mark, b"", Writing::SHARED)?;
        }
        let stored = self.commit(&directory, returned)?;
        // Either the mark belongs to a copy that a crash interrupted and the original has arrived, or this copy lost to
        // another return.
        if left_over && stored == Stored::New && !copy || copy && stored != Stored::New {
            disk::remove(&mark)?;
        }
        Ok(stored)
    }

    /// Writes the outputter first, so that a reader who sees the return sees all of it.
    fn commit(&self, directory: &Path, returned: &JobReturn) -> Result<Stored> {
        if let Some(out) = &returned.out {
            disk::write_value(&directory.join(OUT), out, Writing::SHARED)?;
        }
        let content = returned.packed_without_out();
        if disk::write_new(&directory.join(RETURN), &content, Writing::SHARED)? {
            return Ok(Stored::New);
        }
        Ok(Stored::Duplicate { same: self.same(directory, returned) })
    }

    /// Compares bytes first: a value with NaN in it is not even equal to itself.
    fn same(&self, directory: &Path, returned: &JobReturn) -> bool {
        let content = returned.packed_without_out();
        let bytes = disk::read(&directory.join(RETURN)).is_ok_and(|kept| kept.as_deref() == Some(&content[..]));
        bytes || read_return(directory).is_ok_and(|kept| kept.as_ref() == Some(returned))
    }
}

impl Jobs for Files {
    fn contains(&self, jid: &str) -> Result<bool> {
        Ok(self.directory(jid).join(JID).exists())
    }

    fn has_load(&self, jid: &str) -> Result<bool> {
        Ok(self.directory(jid).join(LOAD).exists())
    }

    fn prepare(&self, jid: &str, nocache: bool) -> Result<()> {
        let directory = self.directory(jid);
        disk::make_directory(&directory)?;
        let write = |name: &str, content: &str| {
            let path = directory.join(name);
            disk::write(&path, content.as_bytes(), Writing::SHARED)
        };
        // The name of the directory is a hash, so only this file holds the job id.
        write(JID, jid)?;
        if nocache { write(NOCACHE, "") } else { Ok(()) }
    }

    fn save_load(&self, jid: &str, load: &Map) -> Result<()> {
        let directory = self.directory(jid);
        disk::make_directory(&directory)?;
        disk::write_value(&directory.join(LOAD), &Value::Map(load.clone()), Writing::SHARED)
    }

    fn save_minions(&self, jid: &str, minions: &[String], syndic: Option<&MinionId>) -> Result<()> {
        let directory = self.directory(jid);
        disk::make_directory(&directory)?;
        let path = match syndic {
            Some(syndic) if syndic.as_str().len() <= LONGEST_SYNDIC => directory.join(format!(".minions.{syndic}.p")),
            _ => directory.join(MINIONS),
        };
        // 3008 adds to the list; earlier lines replace it. A list that cannot be read is replaced.
        let mut ids = read_ids(&path).unwrap_or_default();
        ids.extend(minions.iter().cloned());
        disk::write_value(&path, &ids.into_iter().collect::<Value>(), Writing::SHARED)
    }

    fn store(&self, jid: &str, id: &MinionId, returned: &JobReturn, copy: bool) -> Result<Stored> {
        self.keep(jid, id, returned, copy)
    }

    fn take_copy_mark(&self, jid: &str, id: &MinionId) -> Result<bool> {
        disk::remove(&self.directory(jid).join(id.as_str()).join(COPY))
    }

    fn publication(&self, jid: &str) -> Result<Option<Map>> {
        let path = self.directory(jid).join(LOAD);
        map_in(&path, disk::read_value(&path)?)
    }

    fn head(&self, jid: &str) -> Result<Option<Map>> {
        read_head(&self.directory(jid).join(LOAD))
    }

    fn minions(&self, jid: &str) -> Result<Vec<String>> {
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

    fn returns(&self, jid: &str) -> Result<Vec<(String, JobReturn)>> {
        let directory = self.directory(jid);
        let mut returns = Vec::new();
        for id in disk::text_names(&directory)? {
            // Load and minion lists are beside the minions' directories; ids never begin with a dot.
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

    fn return_of(&self, jid: &str, id: &MinionId) -> Result<Option<JobReturn>> {
        read_return(&self.directory(jid).join(id.as_str()))
    }

    fn returned(&self, jid: &str) -> Result<Vec<String>> {
        let directory = self.directory(jid);
        let mut names = disk::text_names(&directory)?;
        names.retain(|name| !name.starts_with('.') && directory.join(name).join(RETURN).is_file());
        Ok(names)
    }

    fn set_end_time(&self, jid: &str, time: &str) -> Result<()> {
        let directory = self.directory(jid);
        disk::make_directory(&directory)?;
        disk::write(&directory.join(END_TIME), time.as_bytes(), Writing::SHARED)
    }

    fn end_time(&self, jid: &str) -> Result<Option<String>> {
        let text = disk::read_text(&self.directory(jid).join(END_TIME))?;
        Ok(text.map(|text| text.trim_matches('\n').to_owned()))
    }

    fn heads(&self) -> Result<Vec<(String, Map)>> {
        let mut jobs = Vec::new();
        for top in disk::names(&self.root)? {
            let top = self.root.join(top);
            for name in disk::names(&top)? {
                match read_head(&top.join(name).join(LOAD)) {
                    Ok(Some(load)) => jobs.extend(load.get("jid").map(Value::to_string).map(|jid| (jid, load))),
                    Ok(None) => {}
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        }
        Ok(jobs)
    }

    fn ids(&self) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for top in disk::names(&self.root)? {
            let top = self.root.join(top);
            for name in disk::names(&top)? {
                match disk::read_text(&top.join(name).join(JID)) {
                    Ok(id) => ids.extend(id.map(|id| id.trim_end().to_owned())),
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        }
        Ok(ids)
    }

    fn clean(&self, keep: Duration, now: SystemTime) -> Result<Cleaned> {
        self.clean_up(keep, now)
    }
}

/// Reads a return. Very old ones are the bare result.
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

fn read_head(path: &Path) -> Result<Option<Map>> {
    map_in(path, disk::read_entries(path, &HEAD)?)
}

fn map_in(path: &Path, value: Option<Value>) -> Result<Option<Map>> {
    match value {
        None => Ok(None),
        Some(Value::Map(map)) => Ok(Some(map)),
        Some(other) => Err(Error::malformed(path, format!("a {} where a map should be", other.type_name()))),
    }
}

/// Creates the directory of a minion in that of its job, which must exist.
fn create(directory: &Path) -> std::io::Result<()> {
    disk::admit(directory)?;
    std::fs::DirBuilder::new().mode(0o750).create(directory)
}
