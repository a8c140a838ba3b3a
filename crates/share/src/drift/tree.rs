//! Trees of names with digests: of directories with files, and of options.

use std::collections::BTreeMap;

use super::listing::{Listed, Listing, MOST_LISTED, MOST_LISTED_BYTES};
use crate::Digest;

/// The maximum length of a name in bytes.
pub(super) const MAX_ENTRY_NAME: usize = 1_024;

/// A directory, or an option with parts. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    digest: Digest,
    entries: BTreeMap<Box<str>, Entry>,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file, or a value.
    Leaf(Leaf),
    /// More names.
    Dir(Dir),
}

/// A file, or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The digest of its content.
    pub digest: Digest,
    /// Its permission bits; 0 for values.
    pub mode: u32,
    /// By what this member notices that a file has changed. No part of the digest of the tree.
    pub stamp: u64,
}

impl Leaf {
    /// Returns a value with this digest.
    pub fn value(digest: Digest) -> Leaf {
        Leaf { digest, mode: 0, stamp: 0 }
    }
}

impl Entry {
    /// Returns what other members are told of it.
    fn listed(&self, name: &str) -> Listed {
        let (is_dir, mode, digest) = match self {
            Entry::Leaf(leaf) => (false, leaf.mode, leaf.digest),
            Entry::Dir(dir) => (true, 0, dir.digest),
        };
        Listed { name: name.to_owned(), is_dir, mode, digest }
    }
}

impl Default for Dir {
    fn default() -> Self {
        Dir::new(BTreeMap::new())
    }
}

impl Dir {
    /// Creates a directory.
    pub fn new(entries: BTreeMap<Box<str>, Entry>) -> Dir {
        let mut all = Vec::with_capacity(entries.len() * 48);
        for (name, entry) in &entries {
            let Listed { is_dir, mode, digest, .. } = entry.listed("");
            // Lengths in front, so that no name can pretend to be a part of what follows it.
            all.extend((name.len() as u64).to_be_bytes());
            all.extend(name.as_bytes());
            all.push(u8::from(is_dir));
            all.extend(mode.to_be_bytes());
            all.extend(digest.0);
        }
        Dir { digest: Digest::of(&[&all]), entries }
    }

    /// Returns the digest of everything in it.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns what has this name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Returns whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the directory with this path.
    pub fn at(&self, path: &[String]) -> Option<&Dir> {
        path.iter().try_fold(self, |dir, name| match dir.get(name)? {
            Entry::Dir(dir) => Some(dir),
            Entry::Leaf(_) => None,
        })
    }

    /// Returns what is in it after a name, as other members are told.
    pub(super) fn listed(&self, after: Option<&str>) -> impl Iterator<Item = Listed> {
        let from = match after {
            Some(after) => std::ops::Bound::Excluded(after),
            None => std::ops::Bound::Unbounded,
        };
        self.entries.range::<str, _>((from, std::ops::Bound::Unbounded)).map(|(name, entry)| entry.listed(name))
    }

    /// Returns a part of what is in it, in the order of names.
    pub fn listing(&self, after: Option<&str>) -> Listing {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut all = self.listed(after).peekable();
        while let Some(one) = all.next_if(|_| entries.len() < MOST_LISTED && bytes < MOST_LISTED_BYTES) {
            bytes += one.name.len() + 32;
            entries.push(one);
        }
        let more = all.peek().is_some();
        Listing { entries, more }
    }
}

/// A directory of which more is to come.
#[derive(Debug, Default)]
pub struct DirBuilder {
    entries: BTreeMap<Box<str>, Building>,
}

#[derive(Debug)]
enum Building {
    Leaf(Leaf),
    Dir(DirBuilder),
}

impl DirBuilder {
    /// Adds a leaf, unless something has its name. Returns whether it was added.
    pub fn leaf(&mut self, name: &str, leaf: Leaf) -> bool {
        let is_new = !self.entries.contains_key(name);
        if is_new {
            self.entries.insert(name.into(), Building::Leaf(leaf));
        }
        is_new
    }

    /// Returns the directory with a name, which is created if nothing has that name; `None` if a leaf has it.
    pub fn dir(&mut self, name: &str) -> Option<&mut DirBuilder> {
        match self.entries.entry(name.into()).or_insert_with(|| Building::Dir(DirBuilder::default())) {
            Building::Dir(dir) => Some(dir),
            Building::Leaf(_) => None,
        }
    }

    /// Returns the tree. Empty directories inside are left out: not every way of copying files takes them along.
    pub fn finish(self) -> Dir {
        let finish = |(name, entry)| match entry {
            Building::Leaf(leaf) => Some((name, Entry::Leaf(leaf))),
            Building::Dir(dir) => {
                let dir = dir.finish();
                (!dir.is_empty()).then_some((name, Entry::Dir(dir)))
            }
        };
        Dir::new(self.entries.into_iter().filter_map(finish).collect())
    }
}

/// Returns a name of the file system or of an option as a name in a tree, which a terminal and a log can show.
pub fn entry_name(name: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_control() {
                true => shown.push_str(&format!("\\x{:02x}", character as u32)),
                false => shown.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
    }
    if shown.len() > MAX_ENTRY_NAME {
        // What is cut off counts all the same.
        let digest = format!("…{}", hex::encode(Digest::of(&[name]).0));
        let end = (0..=MAX_ENTRY_NAME - digest.len()).rev().find(|end| shown.is_char_boundary(*end)).unwrap_or(0);
        shown.truncate(end);
        shown.push_str(&digest);
    }
    shown
}
