//! The file server.

mod find;
mod inbox;
mod list;
mod request;
mod serve;
mod update;

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{FileSettings, Roots};
use crypto::HashType;
use store::file_server::FileServerCache;
use targeting::{Glob, PyRegex};

use crate::{Result, path};

pub use find::Found;
pub(crate) use find::stat;
pub use inbox::{Inbox, Piece};
pub use list::Lists;
pub use serve::{Chunk, ChunkRequest};
pub use update::Update;

/// Serves files from the directories of `file_roots` (Salt's backend `roots`).
pub struct FileServer {
    roots: Roots,
    follow_links: bool,
    hide_links: bool,
    ignore_regex: Vec<PyRegex>,
    ignore_glob: Vec<Glob>,
    hash: HashType,
    buffer_size: usize,
    list_time: Duration,
    cachedir: PathBuf,
    cache: FileServerCache,
}

/// The environment that stands for all that have no entry of their own.
const ANY_ENV: &str = "__env__";

impl FileServer {
    /// Returns a server for these settings that keeps hashes and lists below `cachedir`.
    pub fn new(settings: &FileSettings, cachedir: &Path) -> Result<Self> {
        Self::with_roots(settings, settings.file_roots.clone(), cachedir)
    }

    /// As [`FileServer::new`], for other directories than `file_roots`, such as those of the pillar.
    pub fn with_roots(settings: &FileSettings, roots: Roots, cachedir: &Path) -> Result<Self> {
        let regexes = settings.file_ignore_regex.iter().map(|pattern| PyRegex::search(pattern));
        Ok(FileServer {
            roots,
            follow_links: settings.fileserver_followsymlinks,
            hide_links: settings.fileserver_ignoresymlinks,
            ignore_regex: regexes.collect::<std::result::Result<_, _>>()?,
            ignore_glob: settings.file_ignore_glob.iter().map(|pattern| Glob::new(pattern)).collect(),
            hash: settings.hash_type.parse()?,
            buffer_size: settings.file_buffer_size.max(1),
            list_time: Duration::from_secs(settings.fileserver_list_cache_time),
            cachedir: cachedir.to_owned(),
            cache: FileServerCache::new(cachedir, "roots"),
        })
    }

    /// Returns the names of all environments in alphabetical order.
    pub fn envs(&self) -> Vec<String> {
        let mut envs: Vec<String> = self.roots.iter().map(|(env, _)| env.to_owned()).collect();
        envs.sort();
        envs
    }

    /// Returns the directories of an environment, in order; nothing for an unknown one.
    ///
    /// Without an entry of its own an environment gets the directories of `__env__`, with its name in them. Such a name
    /// comes from whoever asks, so it may not lead elsewhere.
    fn directories(&self, env: &str) -> Vec<PathBuf> {
        if let Some(directories) = self.roots.get(env) {
            return directories.to_vec();
        }
        let template = self.roots.get(ANY_ENV).filter(|_| path::is_plain(env)).unwrap_or_default();
        template.iter().map(|directory| PathBuf::from(directory.to_string_lossy().replace(ANY_ENV, env))).collect()
    }

    /// Says whether a path is not to be served: the relative one when listing, the absolute one when finding.
    fn is_ignored(&self, path: &str) -> bool {
        self.ignore_regex.iter().any(|regex| regex.is_match(path))
            || self.ignore_glob.iter().any(|glob| glob.matches(path))
    }
}

#[cfg(test)]
mod tests;
