//! Listing files, directories and links of `file_roots`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::RootsFs;
use crate::server::Lists;
use crate::{Result, path};

impl RootsFs {
    /// Returns the contents of an environment; a list on disk is valid for `fileserver_list_cache_time`.
    pub fn lists(&self, env: &str) -> Result<Lists> {
        let directories = self.directories(env);
        if directories.is_empty() {
            return Ok(Lists::default());
        }
        if let Some(lists) = self.cache.lists(env, self.list_time, SystemTime::now())? {
            return Ok(Lists::from_map(&lists));
        }
        let mut lists = Lists::default();
        for directory in &directories {
            let mut walk = Walk { server: self, root: directory, lists: &mut lists, open: Vec::new() };
            walk.directory(directory, "");
        }
        if let Err(error) = self.cache.store_lists(env, &lists.to_map()) {
            tracing::warn!("{error}");
        }
        Ok(lists)
    }

    /// Removes the lists on disk of one environment or of all, and returns which environments had one.
    pub fn clear_lists(&self, env: Option<&str>) -> Result<Vec<String>> {
        Ok(self.cache.clear_lists(env)?)
    }
}

/// A walk through one directory of an environment.
struct Walk<'a> {
    server: &'a RootsFs,
    root: &'a Path,
    lists: &'a mut Lists,
    /// Device and inode of the directories on the way, to detect circular links.
    open: Vec<(u64, u64)>,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path, prefix: &str) {
        let Ok(state) = std::fs::metadata(directory) else { return };
        let identity = (state.dev(), state.ino());
        // A link to a directory above would be walked for ever. Siblings may be visited twice.
        if self.open.contains(&identity) {
            return;
        }
        let names = match store::disk::text_names(directory) {
            Ok(names) => names,
            Err(error) => return tracing::warn!("{error}"),
        };
        self.open.push(identity);
        for name in names {
            let relative = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            self.entry(&directory.join(&name), &relative);
        }
        self.open.pop();
    }

    fn entry(&mut self, full: &Path, relative: &str) {
        let (is_link, is_dir) = (full.is_symlink(), full.is_dir());
        self.note(full, relative, is_link, is_dir);
        // An ignored directory may contain files that are not ignored.
        if is_dir && (!is_link || self.server.follow_links) {
            self.directory(full, relative);
        }
    }

    fn note(&mut self, full: &Path, relative: &str, is_link: bool, is_dir: bool) {
        if (is_link && self.server.hide_links) || self.server.ignored.is_ignored(relative) {
            return;
        }
        if !is_dir {
            self.lists.files.insert(relative.to_owned());
        } else {
            self.lists.dirs.insert(relative.to_owned());
            if std::fs::read_dir(full).is_ok_and(|mut entries| entries.next().is_none()) {
                self.lists.empty_dirs.insert(relative.to_owned());
            }
        }
        if is_link && let Some(target) = self.listed_target(full) {
            self.lists.links.insert(relative.to_owned(), target);
        }
    }

    /// Returns the target of a link that is listed: one that stays inside, or that is not followed.
    fn listed_target(&self, full: &Path) -> Option<String> {
        let target = std::fs::read_link(full).ok()?;
        // As in Salt: if the target begins with `..`, it is joined to the link itself, not to its directory.
        let joined: PathBuf =
            if target.to_str()?.starts_with("..") { full.join(&target) } else { full.parent()?.join(&target) };
        let inside = path::resolve(&joined).starts_with(path::resolve(self.root));
        (inside || !self.server.follow_links).then(|| target.to_string_lossy().into_owned())
    }
}
