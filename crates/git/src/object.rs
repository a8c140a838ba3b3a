//! Names of objects, objects, and the trait of their readers.

use std::fmt;
use std::io::Write;

use crate::Result;

/// The name of an object: its hash in hex.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Oid(Box<str>);

impl Oid {
    /// Parses a full name of 40 or 64 hex digits.
    pub fn new(text: &str) -> Option<Self> {
        let whole = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        whole.then(|| Oid(text.to_ascii_lowercase().into()))
    }

    /// Returns the hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Oid(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }

    /// Returns the number of bytes of a hash in this repository.
    pub(crate) fn size(&self) -> usize {
        self.0.len() / 2
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The content of a file or a link.
    Blob,
    /// A directory.
    Tree,
    /// A commit.
    Commit,
    /// An annotated tag.
    Tag,
}

/// An object in memory.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its name.
    pub oid: Oid,
    /// Its type.
    pub kind: Kind,
    /// Its content.
    pub data: Vec<u8>,
}

/// A reader of the objects of one repository.
pub trait Objects: Send {
    /// Returns an object by its name or a prefix of it; `None` if there is no such object or more than one.
    ///
    /// # Errors
    /// If the repository cannot be read. The reader is unusable then.
    fn read(&mut self, name: &str) -> Result<Option<Object>>;

    /// Writes the content of a blob, and returns whether it exists.
    ///
    /// # Errors
    /// If the repository cannot be read or the content cannot be written. The reader is unusable then.
    fn copy(&mut self, oid: &Oid, out: &mut dyn Write) -> Result<bool>;
}
