//! Records: the things that every member keeps a copy of, and what two copies of one make together.
//!
//! Each class has its own rule of merging (`record/content.rs`), and each rule gives the same whoever merges what first.

use bytes::Bytes;
use value::Value;

use crate::fields::{self, Fields, Malformed};
use crate::{Class, Digest, Key, Stamp};

mod content;

pub use content::{Claim, Content, Return};

/// One shared thing, as a member keeps it and sends it.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Which thing of its class.
    pub key: Key,
    /// When the content was written, and by which member.
    pub stamp: Stamp,
    /// By what copies are compared. It comes with the record: a receiver that stores the content in another form keeps it.
    pub digest: Digest,
    /// What it says.
    pub content: Content,
}

impl Record {
    /// The maximum length of the packed content in bytes.
    pub const MAX_CONTENT: usize = 63 << 20;

    /// Returns the record of a content that was written here.
    pub fn new(key: Key, stamp: Stamp, content: Content) -> Record {
        let digest = content.digest();
        Record { key, stamp, digest, content }
    }

    /// Returns the class.
    pub fn class(&self) -> Class {
        self.content.class()
    }

    /// Returns what two copies of a record make together. Both must have the same class and key.
    pub fn merge(&self, other: &Record) -> Record {
        if self == other {
            return self.clone();
        }
        content::merge(self, other)
    }

    /// Returns whether two copies say different things where only one can be right: two jobs with one id.
    pub fn contradicts(&self, other: &Record) -> bool {
        self.class() == Class::Job && self.digest != other.digest
    }

    /// Returns whether nothing is left but the word that something is gone.
    pub fn is_tombstone(&self) -> bool {
        match &self.content {
            Content::Decided(_, entry) => entry.is_tombstone(),
            Content::Data(value) => value.is_none(),
            Content::Token { token, .. } => token.is_none(),
            _ => false,
        }
    }

    /// Returns roughly how many bytes the record takes in a message.
    pub fn size(&self) -> usize {
        // Only for bounds of queues and batches; packing each record twice to know it exactly would cost more than it saves.
        64 + self.key.as_str().len() + self.content.size()
    }

    /// Checks what whoever reads the record checks, so that nothing is written that others refuse.
    pub fn check(&self) -> Result<(), Malformed> {
        let packed = self.content.pack();
        if !self.key.fits(self.class()) {
            return Err(Malformed("the key of a record"));
        }
        if packed.len() > Record::MAX_CONTENT {
            return Err(Malformed("the content of a record"));
        }
        Content::unpack(self.class(), &self.key, &packed).map(drop)
    }

    /// Packs the record as a store keeps it.
    pub fn pack(&self) -> Bytes {
        let Value::List(fields) = self.to_value(0) else { return Bytes::new() };
        fields::packed(fields)
    }

    /// Reads what [`Record::pack`] returned.
    pub fn unpack(packed: &Bytes) -> Result<Record, Malformed> {
        let fields = Fields::open(packed, 64, "a record")?;
        Record::read(fields)?.map(|(record, _)| record).ok_or(Malformed("the class of a record"))
    }

    /// Returns the fields of the record in a message. `age` is for how long it has been known in milliseconds: a tombstone must
    /// not become young by being sent.
    pub(crate) fn to_value(&self, age: u64) -> Value {
        Value::List(vec![
            fields::class(self.class()),
            fields::key(&self.key),
            fields::number(self.stamp.time),
            fields::node(self.stamp.node),
            fields::digest(self.digest),
            fields::number(age),
            Value::bytes(self.content.pack()),
        ])
    }

    /// Reads the fields of a record and its age; `None` if it is of a class that this version does not know.
    pub(crate) fn read(mut fields: Fields) -> Result<Option<(Record, u64)>, Malformed> {
        let Some(class) = fields.class()? else { return Ok(None) };
        let key = fields.key()?;
        if !key.fits(class) {
            return Err(Malformed("the key of a record"));
        }
        let stamp = fields.stamp()?;
        let digest = fields.digest()?;
        let age = fields.number("the age of a record")?;
        let packed = fields.bytes("the content of a record", Record::MAX_CONTENT)?;
        let content = Content::unpack(class, &key, &packed)?;
        let digest = if content.is_canonical() { content.digest() } else { digest };
        Ok(Some((Record { key, stamp, digest, content }, age)))
    }
}

/// Shows no content: returns and tokens are confidential, and the key of a token is the token.
impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let class = self.class();
        let key = if class == Class::Token { "…" } else { self.key.as_str() };
        write!(f, "{class} {key} at {:?} {:?}", self.stamp, self.digest)
    }
}

#[cfg(test)]
pub(crate) mod tests;
