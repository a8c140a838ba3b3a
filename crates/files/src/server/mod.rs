//! The file server.

mod backends;
mod find;
mod gitfs;
mod ignored;
mod inbox;
mod lists;
mod minionfs;
mod reads;
mod request;
mod roots;
mod serve;
mod update;

use std::path::Path;
use std::sync::{Arc, Mutex};

use config::FileSettings;
use crypto::HashType;
use value::Map;

use crate::Result;
use backends::Backend;
use find::{RequestedPath, Source};
use ignored::Ignored;
use reads::Reads;

pub use backends::Chosen;
pub use find::Found;
pub(crate) use find::stat;
pub use gitfs::GitFs;
pub use inbox::{Inbox, Piece};
pub use lists::Lists;
pub use roots::Update;
pub use serve::{Chunk, ChunkRequest};
pub use update::Updated;

/// Serves files from the backends of `fileserver_backend`; the first one that has a file wins.
pub struct FileServer {
    backends: Vec<Backend>,
    hash: HashType,
    buffer_size: usize,
    reads: Mutex<Reads>,
}

impl FileServer {
    /// Returns a server for these settings, with its caches below `cachedir`. Options of single backends, such as
    /// `gitfs_remotes`, are taken from all `options`.
    ///
    /// # Errors
    /// If an option is invalid. If `fileserver_verify_config` is off, a backend with an invalid option is left out instead, with
    /// a line in the log.
    pub fn new(settings: &FileSettings, options: &Map, cachedir: &Path) -> Result<Self> {
        let ignored = Arc::new(Ignored::new(settings)?);
        Ok(FileServer {
            backends: backends::open(settings, options, &ignored, cachedir)?,
            hash: settings.hash_type.parse()?,
            buffer_size: settings.file_buffer_size.max(1),
            reads: Mutex::default(),
        })
    }

    /// Returns the names of all environments in alphabetical order.
    pub fn envs(&self) -> Vec<String> {
        self.envs_of(&self.all())
    }

    /// Finds a file; the first backend that has it wins.
    ///
    /// Unless `path` begins with `|`, it may name another environment, or a directory by number (`a/b?saltenv=dev&index=1`).
    /// Absolute paths, paths with `../` or NUL, and files outside their directory are never found.
    ///
    /// # Errors
    /// If a backend cannot be read.
    pub fn find(&self, path: &str, env: &str) -> Result<Option<Found>> {
        let asked = RequestedPath::read(path, env);
        if !asked.is_sane() {
            return Ok(None);
        }
        for backend in &self.backends {
            let found = match backend {
                Backend::Roots(roots) => roots.find(&asked.path, &asked.env, asked.index),
                Backend::Git(git) => git.find(&asked.path, &asked.env)?,
                Backend::Minion(minions) => minions.find(&asked.path, &asked.env),
            };
            if let Some(found) = found {
                let place = found.path.display();
                tracing::debug!(
                    target: "salt.fileserver",
                    "Found file(path: {}; saltenv: {}): {place}",
                    asked.path,
                    asked.env
                );
                return Ok(Some(found));
            }
        }
        tracing::debug!(
            target: "salt.fileserver",
            "Failed to find file(path: {path}; saltenv: {env}): No file matching '{path}' was found in the '{env}' saltenv",
            path = asked.path,
            env = asked.env
        );
        Ok(None)
    }

    /// Returns the hash of a file.
    ///
    /// # Errors
    /// If the file is gone or cannot be read.
    pub fn hash(&self, found: &Found) -> Result<String> {
        let backend = self.backends.iter().find(|backend| backend.name() == found.back);
        match (backend, &found.source) {
            (Some(Backend::Git(git)), Source::Git { oid, .. }) => git.hash(found, oid),
            (Some(Backend::Minion(minions)), _) => minions.hash(found),
            (Some(Backend::Roots(roots)), _) => roots.hash(found),
            _ => Ok(store::disk::hash_file(&found.path, self.hash)?),
        }
    }

    /// Returns the name of the hash.
    pub fn hash_type(&self) -> &'static str {
        self.hash.name()
    }

    /// Returns the contents of an environment; for `roots`, a list on disk is valid for `fileserver_list_cache_time`.
    ///
    /// # Errors
    /// If a backend cannot be read.
    pub fn lists(&self, env: &str) -> Result<Lists> {
        self.lists_of(&self.all(), env)
    }
}

#[cfg(test)]
mod git_tests;
#[cfg(test)]
mod tests;
