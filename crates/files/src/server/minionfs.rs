//! The backend `minionfs`: files pushed by minions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::FileSettings;
use crypto::HashType;
use store::disk;
use store::file_server::FileServerCache;
use value::{Map, Value};

use super::find::{Found, Source, cached_hash};
use super::ignored::Ignored;
use super::lists::Lists;
use crate::{Result, path};

/// The files below `minions/<id>/files` of the master's cache, as one environment.
pub struct MinionFs {
    env: String,
    mountpoint: String,
    whitelist: Vec<String>,
    blacklist: Vec<String>,
    ignored: Arc<Ignored>,
    hash: HashType,
    cachedir: PathBuf,
    cache: FileServerCache,
}

/// The backend's name.
pub const NAME: &str = "minionfs";

impl MinionFs {
    /// Serves the files that were pushed to a master with these options.
    pub fn new(settings: &FileSettings, options: &Map, ignored: Arc<Ignored>, cachedir: &Path) -> Result<Self> {
        let text = |name: &str| options.get(name).filter(|value| value.truthy()).map(Value::to_string);
        let texts = |name: &str| match options.get(name) {
            Some(Value::List(items)) => items.iter().map(Value::to_string).collect(),
            Some(value) if value.truthy() => vec![value.to_string()],
            _ => Vec::new(),
        };
        let mountpoint = text("minionfs_mountpoint").unwrap_or_default();
        Ok(MinionFs {
            env: text("minionfs_env").unwrap_or_else(|| "base".into()),
            mountpoint: mountpoint
                .split_once("://")
                .map_or(&*mountpoint, |(_, path)| path)
                .trim_matches('/')
                .to_owned(),
            whitelist: texts("minionfs_whitelist"),
            blacklist: texts("minionfs_blacklist"),
            ignored,
            hash: settings.hash_type.parse()?,
            cachedir: cachedir.to_owned(),
            cache: FileServerCache::new(cachedir, NAME),
        })
    }

    /// Returns the name of the only environment.
    pub fn envs(&self) -> Vec<String> {
        vec![self.env.clone()]
    }

    fn is_exposed(&self, minion: &str) -> bool {
        git::is_listed(minion, &self.whitelist, &self.blacklist)
    }

    fn directory(&self, minion: &str) -> PathBuf {
        self.cachedir.join("minions").join(minion).join("files")
    }

    /// Finds a pushed file by `<mountpoint>/<minion>/<path>`. Top files are never served.
    pub fn find(&self, path: &str, env: &str) -> Option<Found> {
        // A pushed top file would let one minion assign states to all.
        if env != self.env || path.rsplit('/').next() == Some("top.sls") {
            return None;
        }
        let below = match self.mountpoint.as_str() {
            "" => path,
            mountpoint => path.strip_prefix(mountpoint)?.strip_prefix('/')?,
        };
        let below = below.trim_start_matches('/');
        let (minion, pushed) = below.split_once('/')?;
        // Checked as text first, because the name becomes part of a path.
        if !path::is_plain(minion) || !self.is_exposed(minion) {
            return None;
        }
        let base = self.directory(minion);
        let full = path::join(&base, pushed).ok()?;
        // The inbox creates no links, but an operator may have.
        let served =
            path::is_inside(&base, &full, true) && full.is_file() && !self.ignored.is_ignored(&full.to_string_lossy());
        served.then(|| Found {
            path: full,
            relative: below.to_owned(),
            env: env.to_owned(),
            back: NAME,
            source: Source::Disk { by_index: false },
        })
    }

    /// Returns the hash of a file, which is cached until its modification time changes.
    pub fn hash(&self, found: &Found) -> Result<String> {
        cached_hash(&self.cache, found, self.hash)
    }

    /// Returns the contents of the environment, without links.
    pub fn lists(&self, env: &str) -> Result<Lists> {
        let mut lists = Lists::default();
        if env != self.env {
            return Ok(lists);
        }
        for minion in disk::text_names(&self.cachedir.join("minions"))? {
            let base = self.directory(&minion);
            if self.is_exposed(&minion) && base.is_dir() {
                let prefix = if self.mountpoint.is_empty() { minion } else { format!("{}/{minion}", self.mountpoint) };
                self.walk(&base, &prefix, &mut lists)?;
            }
        }
        Ok(lists)
    }

    fn walk(&self, directory: &Path, prefix: &str, lists: &mut Lists) -> Result<()> {
        for name in disk::text_names(directory)? {
            let (full, shown) = (directory.join(&name), format!("{prefix}/{name}"));
            if full.is_symlink() {
                continue;
            }
            if full.is_dir() {
                lists.dirs.insert(shown.clone());
                self.walk(&full, &shown, lists)?;
            } else if !self.ignored.is_ignored(&shown) {
                lists.files.insert(shown);
            }
        }
        Ok(())
    }
}
