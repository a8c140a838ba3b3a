//! Finding files and their hashes.

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use store::file_server::HashedFile;
use value::{Map, Value, map};

use super::FileServer;
use crate::{Error, Result, path, url};

/// A file the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is on this machine.
    pub path: PathBuf,
    /// Its path in the environment.
    pub relative: String,
    /// The environment it was found in.
    pub env: String,
    /// It was asked for in one certain directory, so another file may have the same name.
    pub one_of_many: bool,
}

impl FileServer {
    /// Finds a file: the first of the environment's directories that has it counts.
    ///
    /// `path` may name another environment or a directory by number (`a/b?saltenv=dev&index=1`) unless it starts
    /// with `|`. Absolute paths, those with `../` or NUL, and files outside their directory are never found.
    pub fn find(&self, path: &str, env: &str) -> Option<Found> {
        let asked = Asked::read(path, env);
        if asked.path.starts_with('/') || asked.path.contains("../") || asked.path.contains('\0') {
            return None;
        }
        let relative = path::normalise(Path::new(asked.path.as_ref()));
        let directories = self.directories(&asked.env);
        let candidates = match asked.index {
            None => &directories[..],
            Some(index) => directories.get(index?..=index?)?,
        };
        let full = candidates.iter().find_map(|directory| self.file_in(directory, &relative))?;
        Some(Found {
            path: full,
            relative: relative.to_str()?.to_owned(),
            env: asked.env.into_owned(),
            one_of_many: asked.index.is_some(),
        })
    }

    /// Returns the hash of a file, remembered as long as its time of change stays.
    pub fn hash(&self, found: &Found) -> Result<String> {
        if found.one_of_many {
            return Ok(store::disk::hash_file(&found.path, self.hash)?);
        }
        let modified = store::file_server::modified(&found.path)?;
        let file = HashedFile { env: &found.env, relative: &found.relative, hash: self.hash, modified };
        if let Some(hash) = self.cache.hash(&file)? {
            return Ok(hash);
        }
        let hash = store::disk::hash_file(&found.path, self.hash)?;
        if let Err(error) = self.cache.store_hash(&file, &hash) {
            tracing::warn!("{error}");
        }
        Ok(hash)
    }

    /// Returns the name of the hash.
    pub fn hash_type(&self) -> &'static str {
        self.hash.name()
    }

    /// Returns the file if the directory has it and may serve it.
    fn file_in(&self, directory: &Path, relative: &Path) -> Option<PathBuf> {
        let full = directory.join(relative);
        let inside = path::is_inside(directory, &full, !self.follow_links);
        (inside && full.is_file() && !self.is_ignored(&full.to_string_lossy())).then_some(full)
    }
}

impl Found {
    /// Returns the answer to `_file_find`: path, relative path, the ten numbers of `stat`, backend.
    pub fn to_map(&self) -> Map {
        let mut map = map! { "path" => self.path.to_string_lossy(), "rel" => self.relative.as_str() };
        if let Ok(stat) = self.stat() {
            map.insert("stat", stat);
        }
        map.insert("back", "roots");
        map
    }

    /// Returns the ten numbers of Python's `os.stat`.
    pub fn stat(&self) -> Result<Value> {
        stat(&self.path)
    }
}

/// Returns the ten numbers of Python's `os.stat`.
pub(crate) fn stat(path: &Path) -> Result<Value> {
    let stat = std::fs::metadata(path).map_err(Error::io("read the state of", path))?;
    let numbers = [stat.ino(), stat.dev(), stat.nlink(), stat.uid().into(), stat.gid().into(), stat.size()];
    let times = [stat.atime(), stat.mtime(), stat.ctime()];
    let all = std::iter::once(Value::from(stat.mode())).chain(numbers.map(Value::from)).chain(times.map(Value::from));
    Ok(all.collect())
}

/// A path as it was asked for.
struct Asked<'a> {
    path: Cow<'a, str>,
    env: Cow<'a, str>,
    /// The number of a directory; one that is not a number finds nothing.
    index: Option<Option<usize>>,
}

impl<'a> Asked<'a> {
    fn read(path: &'a str, env: &'a str) -> Self {
        let mut asked = Asked { path: path.into(), env: env.into(), index: None };
        if url::is_escaped(path) {
            asked.path = url::unescape(path).into();
            return asked;
        }
        let Some((path, options)) = path.split_once('?') else { return asked };
        asked.path = path.into();
        // A second question mark ends the options.
        let options = options.split('?').next().unwrap_or_default();
        for (name, value) in options.split('&').filter_map(|option| option.split_once('=')) {
            match name {
                "saltenv" => asked.env = value.into(),
                "index" => asked.index = Some(value.parse().ok()),
                _ => {}
            }
        }
        asked
    }
}
