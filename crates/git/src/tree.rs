//! Directories of a commit in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::object::{Kind, Objects, Oid};
use crate::{Error, Result};

/// A directory of a commit with its contents. It never changes, and commits share equal directories.
#[derive(Debug)]
pub struct Tree {
    /// Its name.
    pub oid: Oid,
    /// The entries, sorted by the bytes of their names.
    entries: Vec<(Box<str>, Entry)>,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A file.
    File {
        /// Type and permission bits, `0o100644` or `0o100755`.
        mode: u32,
        /// Its content.
        oid: Oid,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        target: String,
    },
    /// A directory.
    Directory(Arc<Tree>),
    /// A submodule, which is not followed.
    Module,
}

/// An entry found by a walk, with its path from the start of the walk.
pub type Visited<'a> = (String, &'a Entry);

/// The maximum depth of directories; deeper ones are refused.
const MAX_DEPTH: usize = 256;
/// The maximum number of links in a chain; longer chains lead nowhere.
const MAX_LINKS: usize = 100;
/// The maximum length of a link's target; longer ones lead nowhere.
const MAX_TARGET: usize = 4096;

impl Tree {
    /// Returns the entry at a path of plain names. Links in directories of the path are not followed.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        let (first, rest) = path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
        // Sorted again after reading: git sorts directories as if their names ended in a slash.
        let at = self.entries.binary_search_by(|(name, _)| (**name).cmp(first)).ok()?;
        match (&self.entries[at].1, rest) {
            (entry, None) => Some(entry),
            (Entry::Directory(tree), Some(rest)) => tree.get(rest),
            _ => None,
        }
    }

    /// Returns the directory at a path; an empty path is this directory.
    pub fn directory(self: &Arc<Self>, path: &str) -> Option<Arc<Tree>> {
        if path.is_empty() {
            return Some(Arc::clone(self));
        }
        match self.get(path)? {
            Entry::Directory(tree) => Some(Arc::clone(tree)),
            _ => None,
        }
    }

    /// Returns mode and content of the file at a path of plain names, following links at its end. As in Salt, an absolute target is
    /// read relative to the link's own directory, and links in directories of the path are not followed.
    pub fn file(&self, path: &str) -> Option<(u32, &Oid)> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            match self.get(&path)? {
                Entry::File { mode, oid } => return Some((*mode, oid)),
                Entry::Link { target } => {
                    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    // A target outside the repository leads nowhere: `normalise` returns `None`.
                    path = normalise(&format!("{parent}/{}", target.trim_start_matches('/')))?;
                }
                _ => return None,
            }
        }
        None
    }

    /// Visits everything below, directories before their entries, with the path from here.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(Visited<'a>)) {
        self.walk_from("", visit);
    }

    fn walk_from<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(Visited<'a>)) {
        for (name, entry) in &self.entries {
            let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
            if let Entry::Directory(tree) = entry {
                visit((path.clone(), entry));
                tree.walk_from(&path, visit);
            } else {
                visit((path, entry));
            }
        }
    }

    /// Returns the entries of this directory.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (&**name, entry))
    }
}

/// Removes `.`, `..` and double slashes from a path in a repository; `None` if the path leads out of it or is empty.
pub fn normalise(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Trees that are still in use, by name.
#[derive(Default)]
pub(crate) struct Trees(Mutex<HashMap<Oid, Weak<Tree>>>);

impl Trees {
    /// Returns a directory with its contents.
    pub fn load(&self, objects: &mut dyn Objects, oid: &Oid) -> Result<Arc<Tree>> {
        self.load_at(objects, oid, 0)
    }

    /// Drops trees that are no longer in use.
    pub fn tidy(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, tree| tree.strong_count() > 0);
    }

    fn known(&self, oid: &Oid) -> Option<Arc<Tree>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(oid)?.upgrade()
    }

    fn load_at(&self, objects: &mut dyn Objects, oid: &Oid, depth: usize) -> Result<Arc<Tree>> {
        // Most directories do not change between commits, so they are read once.
        if let Some(tree) = self.known(oid) {
            return Ok(tree);
        }
        let damaged = |reason: String| Error::Damaged { path: Default::default(), reason };
        if depth > MAX_DEPTH {
            return Err(damaged(format!("directories are nested deeper than {MAX_DEPTH}")));
        }
        let object = objects.read(oid.as_str())?.filter(|object| object.kind == Kind::Tree);
        let object = object.ok_or_else(|| damaged(format!("tree {oid} is missing")))?;
        let raw = parse(&object.data, oid.size()).ok_or_else(|| damaged(format!("tree {oid} is malformed")))?;
        let mut entries = Vec::with_capacity(raw.len());
        for entry in raw {
            if let Some(read) = self.entry(objects, &entry, depth)? {
                entries.push((entry.name.into(), read));
            }
        }
        entries.sort_by(|a: &(Box<str>, Entry), b| a.0.cmp(&b.0));
        let tree = Arc::new(Tree { oid: oid.clone(), entries });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(oid.clone(), Arc::downgrade(&tree));
        Ok(tree)
    }

    fn entry(&self, objects: &mut dyn Objects, entry: &Raw, depth: usize) -> Result<Option<Entry>> {
        // Git refuses such names, but the objects come from a remote. Left in, they would lead out of a checkout.
        if matches!(entry.name, "" | "." | "..") || entry.name.contains('/') {
            return Ok(None);
        }
        Ok(Some(match entry.mode & 0o170_000 {
            0o040_000 => Entry::Directory(self.load_at(objects, &entry.oid, depth + 1)?),
            0o100_000 => Entry::File { mode: entry.mode, oid: entry.oid.clone() },
            0o120_000 => {
                let target = objects.read(entry.oid.as_str())?.map(|object| object.data).unwrap_or_default();
                let target = if target.len() > MAX_TARGET { Vec::new() } else { target };
                Entry::Link { target: String::from_utf8_lossy(&target).into_owned() }
            }
            // Submodules have the type 0o160000. Anything unknown is not followed either.
            _ => Entry::Module,
        }))
    }
}

struct Raw<'a> {
    mode: u32,
    name: &'a str,
    oid: Oid,
}

/// Parses the entries of a tree object. Names that are not UTF-8 are left out.
fn parse(mut data: &[u8], hash: usize) -> Option<Vec<Raw<'_>>> {
    let mut entries = Vec::new();
    while !data.is_empty() {
        let space = data.iter().position(|byte| *byte == b' ')?;
        let end = data.iter().position(|byte| *byte == 0)?;
        let mode = u32::from_str_radix(std::str::from_utf8(data.get(..space)?).ok()?, 8).ok()?;
        let name = data.get(space + 1..end)?;
        let oid = Oid::from_bytes(data.get(end + 1..end + 1 + hash)?);
        match std::str::from_utf8(name) {
            Ok(name) => entries.push(Raw { mode, name, oid }),
            Err(_) => tracing::debug!("skipped {:?}: its name is not UTF-8", String::from_utf8_lossy(name)),
        }
        data = &data[end + 1 + hash..];
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_repository() {
        for (path, expected) in [
            ("a/./b", Some("a/b")),
            ("a/../b", Some("b")),
            ("/a//b/", Some("a/b")),
            ("a/../..", None),
            ("..", None),
            ("", None),
        ] {
            assert_eq!(normalise(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_malformed_tree_is_an_error() {
        for garbage in [&b"100644"[..], b"100644 a", b"100644 a\0short", b"9 a\0", b"\0\0\0"] {
            assert!(parse(garbage, 20).is_none(), "{garbage:?}");
        }
        let mut good = b"100755 run\0".to_vec();
        good.extend([7; 20]);
        assert_eq!(parse(&good, 20).unwrap()[0].mode, 0o100_755);
    }
}
