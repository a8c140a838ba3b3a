//! Questions about trees, and the answers.

use bytes::Bytes;
use value::Value;

use super::Kind;
use super::tree::MAX_ENTRY_NAME;
use crate::Digest;
use crate::fields::{self, Fields, MAX_NAME, Malformed, number};

/// The maximum number of names in an answer, and roughly of its bytes.
pub(super) const MOST_LISTED: usize = 4_096;
pub(super) const MOST_LISTED_BYTES: usize = 256 << 10;

/// The maximum length of an answer in bytes: one name more than roughly fits.
const MAX_ANSWER: usize = 2 * MOST_LISTED_BYTES;

/// The maximum number of names in a path.
pub(super) const MAX_DEPTH: usize = 64;

/// What is in a directory of another member?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// In which tree.
    pub kind: Kind,
    /// In which directory.
    pub path: Vec<String>,
    /// After which name: what was before it in the order of names is known.
    pub after: Option<String>,
}

/// What is in a directory, in the order of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The names.
    pub entries: Vec<Listed>,
    /// There are further names.
    pub more: bool,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: String,
    /// It stands for more names.
    pub is_dir: bool,
    /// The permission bits of a file; 0 for everything else.
    pub mode: u32,
    /// The digest of what it stands for.
    pub digest: Digest,
}

impl Question {
    /// Packs the question.
    pub fn pack(&self) -> Bytes {
        let path = self.path.iter().map(|name| Value::from(name.as_str())).collect();
        let after = self.after.as_deref().map_or(Value::Null, Value::from);
        fields::packed(vec![Value::from(self.kind.name()), Value::List(path), after])
    }

    /// Reads a question; `None` if it is about a kind of a later version.
    pub fn unpack(packed: &Bytes) -> Result<Option<Question>, Malformed> {
        const WHAT: &str = "a question about drift";
        let mut all = Fields::open(packed, MAX_DEPTH + 16, WHAT)?;
        let Some(kind) = Kind::from_name(&all.text(WHAT, MAX_NAME)?) else { return Ok(None) };
        let mut list = all.list(WHAT, MAX_DEPTH)?;
        let mut path = Vec::new();
        while list.left() > 0 {
            path.push(list.text(WHAT, MAX_ENTRY_NAME)?);
        }
        Ok(Some(Question { kind, path, after: all.optional_text(WHAT, MAX_ENTRY_NAME)? }))
    }
}

impl Listing {
    /// Packs an answer; `None` says that there is no such directory.
    pub fn pack(listing: Option<&Listing>) -> Bytes {
        let Some(Listing { entries, more }) = listing else { return fields::packed(vec![Value::Bool(false)]) };
        let entry = |one: &Listed| {
            let (name, mode) = (Value::from(one.name.as_str()), number(u64::from(one.mode)));
            Value::List(vec![name, Value::Bool(one.is_dir), mode, fields::digest(one.digest)])
        };
        let entries = Value::List(entries.iter().map(entry).collect());
        fields::packed(vec![Value::Bool(true), Value::Bool(*more), entries])
    }

    /// Reads an answer. Names that are not in order, or that a terminal must not show, make the whole answer an error.
    pub fn unpack(packed: &Bytes) -> Result<Option<Listing>, Malformed> {
        const WHAT: &str = "an answer about drift";
        if packed.len() > MAX_ANSWER {
            return Err(Malformed(WHAT));
        }
        let mut all = Fields::open(packed, 5 * MOST_LISTED + 16, WHAT)?;
        if !all.flag(WHAT)? {
            return Ok(None);
        }
        let more = all.flag(WHAT)?;
        let mut list = all.list(WHAT, MOST_LISTED)?;
        let mut entries: Vec<Listed> = Vec::new();
        while list.left() > 0 {
            let mut one = list.list(WHAT, 16)?;
            let (name, is_dir) = (one.plain(WHAT, MAX_ENTRY_NAME)?, one.flag(WHAT)?);
            let mode = u32::try_from(one.number(WHAT)?).map_err(|_| Malformed(WHAT))?;
            if entries.last().is_some_and(|last| last.name >= name) {
                return Err(Malformed(WHAT));
            }
            entries.push(Listed { name, is_dir, mode, digest: one.digest()? });
        }
        match more && entries.is_empty() {
            // It would be asked again and again.
            true => Err(Malformed(WHAT)),
            false => Ok(Some(Listing { entries, more })),
        }
    }
}
