//! Caches of the file server: file lists, hashes, modification times.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crypto::HashType;
use value::{Map, Value};
use wire::msgpack::{Packing, pack};

use crate::disk::{self, Writing};
use crate::local_fs::seconds;
use crate::{Error, Result};

/// The caches of one backend below a master's `cachedir`.
#[derive(Clone, Debug)]
pub struct FileServerCache {
    cachedir: PathBuf,
    backend: &'static str,
}

impl FileServerCache {
    /// Returns the caches of a backend such as `roots`.
    pub fn new(cachedir: impl Into<PathBuf>, backend: &'static str) -> Self {
        FileServerCache { cachedir: cachedir.into(), backend }
    }

    /// Returns the lists of an environment (`files`, `dirs`, `empty_dirs`, `links`) that are younger than `max_age` (option
    /// `fileserver_list_cache_time`). A list from the future counts as too old.
    pub fn lists(&self, env: &str, max_age: Duration, now: SystemTime) -> Result<Option<Map>> {
        let path = self.list_file(env)?;
        let Ok(modified) = std::fs::metadata(&path).and_then(|metadata| metadata.modified()) else { return Ok(None) };
        // After the clock was set back, a list "from the future" would otherwise be served until the clock catches up.
        if !now.duration_since(modified).is_ok_and(|age| age < max_age) {
            return Ok(None);
        }
        match disk::read_value(&path) {
            Ok(lists) => Ok(lists.and_then(Value::into_map)),
            // A cache that cannot be read is rebuilt; only a failing disk is an error.
            Err(Error::Malformed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores the lists of an environment.
    pub fn store_lists(&self, env: &str, lists: &Map) -> Result<()> {
        let path = self.list_file(env)?;
        disk::make_directory(path.parent().unwrap_or(&self.cachedir))?;
        disk::write(&path, &pack(&Value::Map(lists.clone()), Packing::Wire), Writing::SHARED)
    }

    /// Removes the lists of one environment, or of all, and returns what was removed.
    pub fn clear_lists(&self, env: Option<&str>) -> Result<Vec<String>> {
        let directory = self.lists_directory();
        let names = match env {
            Some(env) => vec![format!("{}.p", leaf(env))],
            None => disk::text_names(&directory)?,
        };
        let mut cleared = Vec::new();
        for name in names {
            if let Some(env) = name.strip_suffix(".p")
                && disk::remove(&directory.join(&name))?
            {
                cleared.push(env.to_owned());
            }
        }
        Ok(cleared)
    }

    /// Returns the hash that was stored for a file with this modification time.
    pub fn hash(&self, file: &HashedFile) -> Result<Option<String>> {
        let path = self.hash_file(file)?;
        let Some(content) = disk::read_text(&path).or_else(malformed_is_nothing)? else { return Ok(None) };
        match content.split_once(':') {
            // The texts are compared, not the numbers: that is what Salt does, and both programs share the file.
            Some((hash, time)) if time == python_time(file.modified) => Ok(Some(hash.to_owned())),
            Some(_) => Ok(None),
            // Salt deletes malformed entries too.
            None => disk::remove(&path).map(|_| None),
        }
    }

    /// Stores the hash of a file.
    pub fn store_hash(&self, file: &HashedFile, hash: &str) -> Result<()> {
        let path = self.hash_file(file)?;
        disk::make_directory(path.parent().unwrap_or(&self.cachedir))?;
        let content = format!("{hash}:{}", python_time(file.modified));
        disk::write(&path, content.as_bytes(), Writing::SHARED)
    }

    /// Returns the modification times of all files at the last update, by absolute path. Malformed lines are skipped.
    pub fn mtime_map(&self) -> Result<Vec<(String, String)>> {
        let content = disk::read_text(&self.mtime_file()).or_else(malformed_is_nothing)?.unwrap_or_default();
        // From the right: a path may contain colons, a time cannot.
        let lines = content.lines().filter_map(|line| line.rsplit_once(':'));
        Ok(lines.map(|(path, time)| (path.to_owned(), time.to_owned())).collect())
    }

    /// Stores the modification times; see [`python_time`] for their form.
    pub fn store_mtime_map(&self, times: &[(String, String)]) -> Result<()> {
        let path = self.mtime_file();
        let content: String = times.iter().map(|(path, time)| format!("{path}:{time}\n")).collect();
        disk::make_directory(path.parent().unwrap_or(&self.cachedir))?;
        disk::write(&path, content.as_bytes(), Writing::SHARED)
    }

    fn lists_directory(&self) -> PathBuf {
        self.cachedir.join("file_lists").join(self.backend)
    }

    fn list_file(&self, env: &str) -> Result<PathBuf> {
        disk::join_name(&self.lists_directory(), &format!("{}.p", leaf(env)), "environment")
    }

    fn hash_file(&self, file: &HashedFile) -> Result<PathBuf> {
        let directory = self.cachedir.join(self.backend).join("hash");
        let directory = disk::join_name(&directory, &leaf(file.env), "environment")?;
        disk::join_inside(&directory, &format!("{}.hash.{}", file.relative, file.hash.name()), "file")
    }

    fn mtime_file(&self) -> PathBuf {
        self.cachedir.join(self.backend).join("mtime_map")
    }
}

/// A file whose hash is cached.
#[derive(Clone, Copy, Debug)]
pub struct HashedFile<'a> {
    /// Its environment.
    pub env: &'a str,
    /// Its path in the environment.
    pub relative: &'a str,
    /// The type of the hash.
    pub hash: HashType,
    /// Its modification time.
    pub modified: SystemTime,
}

/// Returns a time as Python prints `os.path.getmtime`: seconds as a float, `1700000000.25`.
pub fn python_time(time: SystemTime) -> String {
    value::python::repr_float(seconds(time))
}

/// Returns the modification time of a file.
pub fn modified(path: &Path) -> Result<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).map_err(Error::io("read the time of", path))
}

/// Turns an environment's name into a file name, as Salt does: some characters become `%` and their code.
fn leaf(env: &str) -> String {
    let mut out = String::with_capacity(env.len());
    for letter in env.chars() {
        match letter {
            // An environment may be a branch of a repository, such as `feature/x`.
            '/' | '\0' => out.push_str(&format!("%{:02X}", letter as u32)),
            _ => out.push(letter),
        }
    }
    out
}

fn malformed_is_nothing<T>(error: Error) -> Result<Option<T>> {
    match error {
        Error::Malformed { .. } => Ok(None),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn at(seconds: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn hashes_are_valid_until_the_file_changes() {
        let vectors: Value = serde_json::from_str(include_str!("../testdata/misc.json")).unwrap();
        let recorded = vectors.get("roots_hash_cache_file").unwrap().as_str().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cache = FileServerCache::new(dir.path(), "roots");
        let file =
            HashedFile { env: "base", relative: "a/b.txt", hash: HashType::Sha256, modified: at(1_700_000_000.25) };
        assert_eq!(cache.hash(&file).unwrap(), None);
        let hash = recorded.split(':').next().unwrap();
        cache.store_hash(&file, hash).unwrap();
        let path = dir.path().join("roots/hash/base/a/b.txt.hash.sha256");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), recorded);
        assert_eq!(cache.hash(&file).unwrap().as_deref(), Some(hash));
        assert_eq!(cache.hash(&HashedFile { modified: at(1_700_000_001.0), ..file }).unwrap(), None);
        std::fs::write(&path, "junk").unwrap();
        assert_eq!(cache.hash(&file).unwrap(), None);
        assert!(!path.exists());
        assert!(cache.hash(&HashedFile { relative: "../x", ..file }).is_err());
    }

    #[test]
    fn lists_expire() {
        let dir = tempfile::tempdir().unwrap();
        let cache = FileServerCache::new(dir.path(), "roots");
        let lists = map! { "files" => list!["a"], "dirs" => list![], "empty_dirs" => list![], "links" => map! {} };
        cache.store_lists("base/x", &lists).unwrap();
        // Taken after the file was written, so that the file is not from the future.
        let (age, now) = (Duration::from_secs(20), SystemTime::now());
        assert_eq!(cache.lists("base/x", age, now).unwrap(), Some(lists));
        assert_eq!(cache.lists("base/x", age, now + age * 2).unwrap(), None);
        assert_eq!(cache.lists("base/x", age, now - age).unwrap(), None);
        assert_eq!(cache.clear_lists(None).unwrap(), ["base%2Fx"]);
        assert_eq!(cache.lists("base/x", age, now).unwrap(), None);
    }

    #[test]
    fn modification_times_are_stored_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let cache = FileServerCache::new(dir.path(), "roots");
        assert_eq!(cache.mtime_map().unwrap(), []);
        let times = vec![("/srv/salt/a:b".to_owned(), python_time(at(1_700_000_000.25)))];
        cache.store_mtime_map(&times).unwrap();
        assert_eq!(cache.mtime_map().unwrap(), times);
        let content = std::fs::read_to_string(dir.path().join("roots/mtime_map")).unwrap();
        assert_eq!(content, "/srv/salt/a:b:1700000000.25\n");
    }
}
