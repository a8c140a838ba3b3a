//! Requested paths, and the files found for them.

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crypto::HashType;
use store::file_server::{FileServerCache, HashedFile};
use value::{Map, Value, list, map};

use crate::{Error, Result, url};

/// A file that the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path on this machine.
    pub path: PathBuf,
    /// Its path in the environment.
    pub relative: String,
    /// The environment it was found in.
    pub env: String,
    /// The backend that has it.
    pub back: &'static str,
    pub(super) source: Source,
}

/// The kind of file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// One that may change.
    Disk {
        /// It was requested by the number of its directory, so other files may have the same name.
        by_index: bool,
    },
    /// A blob of a repository, which never changes.
    Git {
        /// Type and permission bits.
        mode: u32,
        /// The content.
        oid: git::Oid,
    },
}

impl Found {
    /// Returns the answer to `_file_find`: path, relative path, the numbers of `stat`, backend.
    pub fn to_map(&self) -> Map {
        let mut map = map! { "path" => self.path.to_string_lossy(), "rel" => self.relative.as_str() };
        if let Ok(stat) = self.stat() {
            map.insert("stat", stat);
        }
        map.insert("back", self.back);
        map
    }

    /// Returns the ten numbers of Python's `os.stat`; for files in a repository only the first is known, the mode.
    pub fn stat(&self) -> Result<Value> {
        match &self.source {
            Source::Disk { .. } => stat(&self.path),
            Source::Git { mode, .. } => Ok(list![*mode]),
        }
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

/// Returns the hash of a file on disk, which is cached until its modification time changes.
pub(super) fn cached_hash(cache: &FileServerCache, found: &Found, hash: HashType) -> Result<String> {
    // The cache is keyed by the path in the environment, which two directories may share.
    if matches!(found.source, Source::Disk { by_index: true }) {
        return Ok(store::disk::hash_file(&found.path, hash)?);
    }
    let modified = store::file_server::modified(&found.path)?;
    let file = HashedFile { env: &found.env, relative: &found.relative, hash, modified };
    if let Some(known) = cache.hash(&file)? {
        return Ok(known);
    }
    let sum = store::disk::hash_file(&found.path, hash)?;
    if let Err(error) = cache.store_hash(&file, &sum) {
        // A full disk must not keep files from being served.
        tracing::warn!("{error}");
    }
    Ok(sum)
}

/// A requested path.
pub(super) struct RequestedPath<'a> {
    pub path: Cow<'a, str>,
    pub env: Cow<'a, str>,
    /// The number of a directory; one that is not a number finds nothing.
    pub index: Option<Option<usize>>,
}

impl<'a> RequestedPath<'a> {
    pub fn read(path: &'a str, env: &'a str) -> Self {
        let mut requested = RequestedPath { path: path.into(), env: env.into(), index: None };
        if url::is_escaped(path) {
            requested.path = url::unescape(path).into();
            return requested;
        }
        let Some((path, options)) = path.split_once('?') else { return requested };
        requested.path = path.into();
        // A second question mark ends the options.
        let options = options.split('?').next().unwrap_or_default();
        for (name, value) in options.split('&').filter_map(|option| option.split_once('=')) {
            match name {
                "saltenv" => requested.env = value.into(),
                "index" => requested.index = Some(value.parse().ok()),
                _ => {}
            }
        }
        requested
    }

    /// Returns whether the path may be looked up at all.
    pub fn is_sane(&self) -> bool {
        // Salt's test on the text. What passes it is still checked against its directory.
        !(self.path.starts_with('/') || self.path.contains("../") || self.path.contains('\0'))
    }
}
