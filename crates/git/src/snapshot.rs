//! The references of a remote at one moment.
//!
//! A fetch changes references one after the other. What is served is a list of all of them, written under a temporary name and
//! renamed, so that every process and master that shares the cache switches to the new commits in one step.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use store::disk::{self, Writing};

use crate::{Oid, Result};

/// All references of a remote with their objects. It never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    refs: BTreeMap<String, Oid>,
}

/// Distinguishes one list on disk from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of a file; `None` if there is no file.
    pub fn of(path: &Path) -> Option<Self> {
        let state = std::fs::metadata(path).ok()?;
        Some(Stamp { inode: state.ino(), size: state.size(), modified: (state.mtime(), state.mtime_nsec()) })
    }
}

impl Snapshot {
    /// Creates a list of references.
    pub fn new(refs: impl IntoIterator<Item = (String, Oid)>) -> Self {
        Snapshot { refs: refs.into_iter().collect() }
    }

    /// Returns the object of a reference, by its full name.
    pub fn get(&self, name: &str) -> Option<&Oid> {
        self.refs.get(name)
    }

    /// Returns the full names of all references.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.refs.keys().map(String::as_str)
    }

    /// Returns all references.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Oid)> {
        self.refs.iter().map(|(name, oid)| (name.as_str(), oid))
    }

    /// Reads a list. A missing one is empty, and malformed lines are skipped.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let content = disk::read_text(path)?.unwrap_or_default();
        let line = |line: &str| {
            let (oid, name) = line.split_once(' ')?;
            Some((name.to_owned(), Oid::new(oid)?))
        };
        Ok(Self::new(content.lines().filter_map(line)))
    }

    pub(crate) fn store(&self, path: &Path) -> Result<()> {
        let content: String = self.refs.iter().map(|(name, oid)| format!("{oid} {name}\n")).collect();
        Ok(disk::write(path, content.as_bytes(), Writing { sync: true, ..Writing::SHARED })?)
    }
}
