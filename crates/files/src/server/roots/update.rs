//! Detects changed files.

use std::collections::BTreeMap;
use std::path::Path;

use store::file_server::{modified, python_time};
use value::{Map, Value, map};

use super::RootsFs;
use crate::Result;

/// The changes since the last update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Files whose modification time changed.
    pub changed: Vec<String>,
    /// New files.
    pub added: Vec<String>,
    /// Removed files.
    pub removed: Vec<String>,
}

impl Update {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }

    /// Returns the data of the event `salt/fileserver/roots/update`.
    pub fn to_event(&self) -> Map {
        let list = |paths: &[String]| paths.iter().collect::<Value>();
        map! {
            "changed" => !self.is_empty(),
            "files" => map! {
                "changed" => list(&self.changed), "removed" => list(&self.removed), "added" => list(&self.added),
            },
            "backend" => "roots",
        }
    }
}

impl RootsFs {
    /// Checks all files, stores their modification times for the next update, and removes the hashes of files that are gone.
    pub fn update(&self) -> Result<Update> {
        let mut times = BTreeMap::new();
        for (_, directories) in self.roots.iter() {
            for directory in directories {
                self.collect_times(directory, &mut times);
            }
        }
        let update = compare(&self.cache.mtime_map()?.into_iter().collect(), &times);
        self.cache.store_mtime_map(&times.into_iter().collect::<Vec<_>>())?;
        self.forget_hashes();
        Ok(update)
    }

    /// Collects modification times. As in Salt, links to directories are not followed here, whatever the options say.
    fn collect_times(&self, directory: &Path, times: &mut BTreeMap<String, String>) {
        for name in store::disk::text_names(directory).unwrap_or_default() {
            let full = directory.join(name);
            if full.is_dir() {
                if !full.is_symlink() {
                    self.collect_times(&full, times);
                }
                continue;
            }
            let text = full.to_string_lossy().into_owned();
            if !self.ignored.is_ignored(&text)
                && let Ok(time) = modified(&full)
            {
                times.insert(text, python_time(time));
            }
        }
    }

    fn forget_hashes(&self) {
        let base = self.cachedir.join("roots/hash");
        for env in store::disk::text_names(&base).unwrap_or_default() {
            self.forget_hashes_in(&base.join(&env), &env, "");
        }
    }

    fn forget_hashes_in(&self, directory: &Path, env: &str, prefix: &str) {
        let names = store::disk::text_names(directory).unwrap_or_default();
        if names.is_empty() {
            // Fails if another master has just stored a hash there, which is fine.
            let _ = std::fs::remove_dir(directory);
        }
        for name in names {
            let full = directory.join(&name);
            if full.is_dir() {
                self.forget_hashes_in(&full, env, &format!("{prefix}{name}/"));
            } else if let Some((file, _)) = name.rsplit_once(".hash.")
                // The name is split from the right: a file may itself be called `x.hash.y`.
                && self.find(&format!("{prefix}{file}"), env, None).is_none()
            {
                let _ = store::disk::remove(&full);
            }
        }
    }
}

fn compare(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Update {
    let missing = |from: &BTreeMap<String, String>, among: &BTreeMap<String, String>| {
        from.keys().filter(|path| !among.contains_key(*path)).cloned().collect()
    };
    let changed = new.iter().filter(|(path, time)| old.get(*path).is_some_and(|before| before != *time));
    Update {
        changed: changed.map(|(path, _)| path.clone()).collect(),
        added: missing(new, old),
        removed: missing(old, new),
    }
}
