//! How fields become bytes and back: MessagePack lists, read with a bound on every length and count.

use bytes::Bytes;
use value::Value;
use wire::MinionId;
use wire::msgpack::{Decode, Packing, pack, unpack_within};

use crate::{Class, Digest, Key, Node, Stamp};

/// Bytes of a member that are not what they should be. The error does not repeat them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is missing, malformed or too large")]
pub struct Malformed(pub &'static str);

/// The maximum length of a name: of a user, a duty, a minion data kind.
pub const MAX_NAME: usize = 256;

/// The fields of a list, one after the other. Fields after those that are asked for are passed over.
pub struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    /// Opens a packed list of at most `most` values, those inside others counted.
    pub fn open(packed: &Bytes, most: usize, what: &'static str) -> Result<Fields, Malformed> {
        // Everything stays bytes: nothing is copied, and a text that is none is found where a text is asked for.
        let value = unpack_within(packed, Decode::Raw, most).map_err(|_| Malformed(what))?;
        Fields::of(value, what)
    }

    /// Opens a list.
    pub fn of(value: Value, what: &'static str) -> Result<Fields, Malformed> {
        value.into_list().map(|items| Fields(items.into_iter())).ok_or(Malformed(what))
    }

    /// Returns how many fields are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn next(&mut self, what: &'static str) -> Result<Value, Malformed> {
        self.0.next().ok_or(Malformed(what))
    }

    /// Reads a number.
    pub fn number(&mut self, what: &'static str) -> Result<u64, Malformed> {
        number_of(&self.next(what)?, what)
    }

    /// Reads a truth value.
    pub fn flag(&mut self, what: &'static str) -> Result<bool, Malformed> {
        self.next(what)?.as_bool().ok_or(Malformed(what))
    }

    /// Reads bytes, `max` of them at most.
    pub fn bytes(&mut self, what: &'static str, max: usize) -> Result<Bytes, Malformed> {
        bytes(self.next(what)?, what, max)
    }

    /// Reads bytes that may be absent.
    pub(crate) fn optional_bytes(&mut self, what: &'static str, max: usize) -> Result<Option<Bytes>, Malformed> {
        match self.next(what)? {
            Value::Null => Ok(None),
            value => bytes(value, what, max).map(Some),
        }
    }

    /// Reads a text that may be absent.
    pub(crate) fn optional_text(&mut self, what: &'static str, max: usize) -> Result<Option<String>, Malformed> {
        let text = self.optional_bytes(what, max)?;
        text.map(|text| String::from_utf8(text.into()).map_err(|_| Malformed(what))).transpose()
    }

    /// Reads a number that may be absent.
    pub(crate) fn optional_number(&mut self, what: &'static str) -> Result<Option<u64>, Malformed> {
        match self.next(what)? {
            Value::Null => Ok(None),
            value => number_of(&value, what).map(Some),
        }
    }

    /// Reads exactly `N` bytes.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        <[u8; N]>::try_from(&self.bytes(what, N)?[..]).map_err(|_| Malformed(what))
    }

    /// Reads a text of at most `max` bytes.
    pub fn text(&mut self, what: &'static str, max: usize) -> Result<String, Malformed> {
        String::from_utf8(self.bytes(what, max)?.into()).map_err(|_| Malformed(what))
    }

    /// Reads a text that people are shown: it must not change the terminal or the log that shows it.
    pub fn plain(&mut self, what: &'static str, max: usize) -> Result<String, Malformed> {
        let text = self.text(what, max)?;
        // Escape sequences of a terminal begin with a control character; a line break would forge a line of the log.
        if text.chars().any(char::is_control) { Err(Malformed(what)) } else { Ok(text) }
    }

    /// Reads the name of a member. What may be an id of a minion is harmless in a log, a tag of an event and a terminal.
    pub fn name(&mut self, what: &'static str) -> Result<String, Malformed> {
        let name = MinionId::new(self.text(what, MAX_NAME)?).map_err(|_| Malformed(what))?;
        Ok(name.as_str().to_owned())
    }

    /// Opens a list of at most `max` fields.
    pub fn list(&mut self, what: &'static str, max: usize) -> Result<Fields, Malformed> {
        let fields = Fields::of(self.next(what)?, what)?;
        // `open` bounds the values of the whole message; this bounds one list, of which its reader may keep everything.
        if fields.left() > max { Err(Malformed(what)) } else { Ok(fields) }
    }

    /// Reads a node.
    pub fn node(&mut self) -> Result<Node, Malformed> {
        self.array("a node").map(Node)
    }

    pub(crate) fn digest(&mut self) -> Result<Digest, Malformed> {
        self.array("a digest").map(Digest)
    }

    pub(crate) fn stamp(&mut self) -> Result<Stamp, Malformed> {
        Ok(Stamp { time: self.number("a time")?, node: self.node()? })
    }

    /// Reads a class; `None` for one of a later version.
    pub(crate) fn class(&mut self) -> Result<Option<Class>, Malformed> {
        self.number("a class").map(Class::from_number)
    }

    pub(crate) fn key(&mut self) -> Result<Key, Malformed> {
        let text = self.bytes("a key", Key::MAX_LEN)?;
        std::str::from_utf8(&text).ok().and_then(Key::new).ok_or(Malformed("a key"))
    }
}

fn number_of(value: &Value, what: &'static str) -> Result<u64, Malformed> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| Malformed(what)),
        _ => Err(Malformed(what)),
    }
}

fn bytes(value: Value, what: &'static str, max: usize) -> Result<Bytes, Malformed> {
    match value {
        Value::Bytes(content) if content.len() <= max => Ok(*content),
        _ => Err(Malformed(what)),
    }
}

/// Packs fields as a list.
pub fn packed(fields: Vec<Value>) -> Bytes {
    pack(&Value::List(fields), Packing::Bin).into()
}

/// Returns a number as a field. What does not fit is refused by whoever reads it.
pub fn number(number: u64) -> Value {
    Value::from(number)
}

/// Returns a node as a field.
pub fn node(node: Node) -> Value {
    Value::bytes(Bytes::copy_from_slice(&node.0))
}

pub(crate) fn digest(digest: Digest) -> Value {
    Value::bytes(Bytes::copy_from_slice(&digest.0))
}

pub(crate) fn key(key: &Key) -> Value {
    Value::from(key.as_str())
}

pub(crate) fn class(class: Class) -> Value {
    number(u64::from(class.number()))
}

pub(crate) fn optional(bytes: Option<&Bytes>) -> Value {
    bytes.map_or(Value::Null, |bytes| Value::bytes(bytes.clone()))
}
