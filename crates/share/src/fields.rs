//! How fields become bytes and back: MessagePack lists, read with a bound on every length and count.

use bytes::Bytes;
use value::Value;
use wire::msgpack::{Decode, Packing, pack, unpack_within};

use crate::{Class, Key, Node, Stamp};

/// Bytes of a member that are not what they should be. The error does not repeat them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is missing, malformed or too large")]
pub struct Malformed(pub &'static str);

/// The maximum length of a name: of a user, a duty, a minion data kind.
pub(crate) const MAX_NAME: usize = 256;

/// The fields of a list, one after the other. Fields after those that are asked for are passed over.
pub(crate) struct Fields(std::vec::IntoIter<Value>);

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

    pub fn next(&mut self, what: &'static str) -> Result<Value, Malformed> {
        self.0.next().ok_or(Malformed(what))
    }

    pub fn number(&mut self, what: &'static str) -> Result<u64, Malformed> {
        match self.next(what)? {
            Value::Int(number) => u64::try_from(number).map_err(|_| Malformed(what)),
            _ => Err(Malformed(what)),
        }
    }

    pub fn bytes(&mut self, what: &'static str, max: usize) -> Result<Bytes, Malformed> {
        bytes(self.next(what)?, what, max)
    }

    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        <[u8; N]>::try_from(&self.bytes(what, N)?[..]).map_err(|_| Malformed(what))
    }

    pub fn text(&mut self, what: &'static str, max: usize) -> Result<String, Malformed> {
        String::from_utf8(self.bytes(what, max)?.into()).map_err(|_| Malformed(what))
    }

    pub fn list(&mut self, what: &'static str, max: usize) -> Result<Fields, Malformed> {
        let fields = Fields::of(self.next(what)?, what)?;
        if fields.left() > max { Err(Malformed(what)) } else { Ok(fields) }
    }

    pub fn node(&mut self) -> Result<Node, Malformed> {
        self.array("a node").map(Node)
    }

    pub fn stamp(&mut self) -> Result<Stamp, Malformed> {
        Ok(Stamp { time: self.number("a time")?, node: self.node()? })
    }

    /// Reads a class; `None` for one of a later version.
    pub fn class(&mut self) -> Result<Option<Class>, Malformed> {
        self.number("a class").map(Class::from_number)
    }

    pub fn key(&mut self) -> Result<Key, Malformed> {
        let text = self.bytes("a key", Key::MAX_LEN)?;
        std::str::from_utf8(&text).ok().and_then(Key::new).ok_or(Malformed("a key"))
    }
}

fn bytes(value: Value, what: &'static str, max: usize) -> Result<Bytes, Malformed> {
    match value {
        Value::Bytes(content) if content.len() <= max => Ok(*content),
        _ => Err(Malformed(what)),
    }
}

/// Packs fields as a list.
pub(crate) fn packed(fields: Vec<Value>) -> Bytes {
    pack(&Value::List(fields), Packing::Bin).into()
}

/// Returns a number as a field. What does not fit is refused by whoever reads it.
pub(crate) fn number(number: u64) -> Value {
    Value::from(number)
}

pub(crate) fn node(node: Node) -> Value {
    Value::bytes(Bytes::copy_from_slice(&node.0))
}

pub(crate) fn key(key: &Key) -> Value {
    Value::from(key.as_str())
}

pub(crate) fn class(class: Class) -> Value {
    number(u64::from(class.number()))
}
