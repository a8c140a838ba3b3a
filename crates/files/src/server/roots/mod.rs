//! The backend `roots`: directories of this machine.

mod list;
mod update;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::{FileSettings, Roots};
use crypto::HashType;
use store::file_server::FileServerCache;

use super::find::{Found, Source, cached_hash};
use super::ignored::Ignored;
use crate::{Result, path};

pub use update::Update;

/// The directories of `file_roots`.
pub struct RootsFs {
    roots: Roots,
    follow_links: bool,
    hide_links: bool,
    ignored: Arc<Ignored>,
    hash: HashType,
    list_time: Duration,
    cachedir: PathBuf,
    cache: FileServerCache,
}

/// The environment whose directories apply to all environments without an entry.
const ANY_ENV: &str = "__env__";

/// The backend's name.
pub const NAME: &str = "roots";

impl RootsFs {
    /// Serves these directories, with caches of hashes and lists below `cachedir`.
    pub fn new(settings: &FileSettings, ignored: Arc<Ignored>, cachedir: &Path) -> Result<Self> {
        Ok(RootsFs {
            roots: settings.file_roots.clone(),
            follow_links: settings.fileserver_followsymlinks,
            hide_links: settings.fileserver_ignoresymlinks,
            ignored,
            hash: settings.hash_type.parse()?,
            list_time: Duration::from_secs(settings.fileserver_list_cache_time),
            cachedir: cachedir.to_owned(),
            cache: FileServerCache::new(cachedir, NAME),
        })
    }

    /// Returns the names of all environments in alphabetical order.
    pub fn envs(&self) -> Vec<String> {
        let mut envs: Vec<String> = self.roots.iter().map(|(env, _)| env.to_owned()).collect();
        envs.sort();
        envs
    }

    /// Finds a file: in the first directory of the environment that has it, or in the one with a number.
    pub fn find(&self, path: &str, env: &str, index: Option<Option<usize>>) -> Option<Found> {
        // `a/./b` and `a//b` find the file in Salt too, and are answered with the plain path.
        let relative = path::normalise(Path::new(path));
        let directories = self.directories(env);
        let candidates = match index {
            None => &directories[..],
            Some(index) => directories.get(index?..=index?)?,
        };
        let full = candidates.iter().find_map(|directory| self.file_in(directory, &relative))?;
        Some(Found {
            path: full,
            relative: relative.to_str()?.to_owned(),
            env: env.to_owned(),
            back: NAME,
            source: Source::Disk { by_index: index.is_some() },
        })
    }

    /// Returns the hash of a file, which is cached until its modification time changes.
    pub fn hash(&self, found: &Found) -> Result<String> {
        cached_hash(&self.cache, found, self.hash)
    }

    /// Returns the directories of an environment in order; none for an unknown one.
    ///
    /// An environment without an entry gets the directories of `__env__`, with its name inserted. The name comes from
    /// the requester, so it must not lead elsewhere.
    fn directories(&self, env: &str) -> Vec<PathBuf> {
        if let Some(directories) = self.roots.get(env) {
            return directories.to_vec();
        }
        let template = self.roots.get(ANY_ENV).filter(|_| path::is_plain(env)).unwrap_or_default();
        template.iter().map(|directory| PathBuf::from(directory.to_string_lossy().replace(ANY_ENV, env))).collect()
    }

    /// Returns the file, if the directory has it and may serve it.
    fn file_in(&self, directory: &Path, relative: &Path) -> Option<PathBuf> {
        let full = directory.join(relative);
        // With links followed, a link may lead out on purpose, so only the text is checked.
        let inside = path::is_inside(directory, &full, !self.follow_links);
        (inside && full.is_file() && !self.ignored.is_ignored(&full.to_string_lossy())).then_some(full)
    }
}
