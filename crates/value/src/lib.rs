//! The value type shared by all crates: what a Python object is to Salt.
//!
//! Loads, returns, grains, pillar and configuration are trees of [`Value`]. Maps keep insertion order, as
//! Python's do. This crate knows no wire format and no file format; it knows how Python prints a value
//! ([`python`]), how Salt walks a path of keys ([`Value::traverse`]), and how a value meets `serde`.

mod convert;
mod datetime;
pub mod error;
pub mod escape;
mod map;
pub mod near;
pub mod python;
mod serde_impl;
mod traverse;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use bytes::Bytes;
pub use datetime::DateTime;
pub use map::Map;
pub use num_bigint::BigInt;

/// A value as Salt's programs exchange it.
///
/// Equality is structural, and a float equals itself even when it is not a number, so that values can be
/// keys; [`python::equal`] compares as Python's `==` does (`1 == 1.0 == True`).
#[derive(Clone, Default)]
pub enum Value {
    /// Python's `None`.
    #[default]
    Null,
    /// `True` or `False`.
    Bool(bool),
    /// An integer that fits a signed 64-bit integer.
    Int(i64),
    /// Any other integer.
    BigInt(Arc<BigInt>),
    /// A float.
    Float(f64),
    /// Text.
    Str(String),
    /// Bytes that are not text.
    Bytes(Box<Bytes>),
    /// A list, a tuple or a set.
    List(Vec<Value>),
    /// A dictionary, in insertion order.
    Map(Map),
    /// A point in time without a zone.
    DateTime(DateTime),
    /// A named constant with a value (MessagePack extension 79, Salt's "missing" sentinels).
    Constant(Arc<(String, Value)>),
}

impl Value {
    /// Makes a value of bytes that are not text.
    pub fn bytes(content: impl Into<Bytes>) -> Self {
        Value::Bytes(Box::new(content.into()))
    }

    /// Returns the text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the content of text or bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Str(text) => Some(text.as_bytes()),
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the integer; a boolean counts as 0 or 1, as in Python.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Bool(flag) => Some(i64::from(*flag)),
            _ => None,
        }
    }

    /// Returns any number as a float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Float(number) => Some(*number),
            Value::Int(number) => Some(*number as f64),
            Value::Bool(flag) => Some(f64::from(*flag as u8)),
            // Through text, which rounds correctly and becomes infinite beyond the range of floats.
            Value::BigInt(number) => number.to_string().parse().ok(),
            _ => None,
        }
    }

    /// Returns the boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the items, if this is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the map, if this is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the map for changes, if this is one.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Converts into the map, if this is one.
    pub fn into_map(self) -> Option<Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Converts into the items, if this is a list.
    pub fn into_list(self) -> Option<Vec<Value>> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// Converts into the text, if this is text.
    pub fn into_string(self) -> Option<String> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns whether this is `None`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Returns the entry of a map under a text key; `None` for anything that is not a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map().and_then(|map| map.get(key))
    }

    /// Returns whether Python would take this for true: not empty, not zero, not `None`.
    pub fn truthy(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            Value::Int(number) => *number != 0,
            // A BigInt is never zero, because small numbers are `Int`.
            Value::BigInt(_) | Value::DateTime(_) | Value::Constant(_) => true,
            Value::Float(number) => *number != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::Bytes(bytes) => !bytes.is_empty(),
            Value::List(items) => !items.is_empty(),
            Value::Map(map) => !map.is_empty(),
        }
    }

    /// Returns the name of the Python type of this value, as error texts show it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::BigInt(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "dict",
            Value::DateTime(_) => "datetime",
            Value::Constant(_) => "Constant",
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::BigInt(a), Value::BigInt(b)) => a == b,
            // `Eq` promises that a value equals itself; a key that is NaN must be found again.
            (Value::Float(a), Value::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Map(a), Value::Map(b)) => a == b,
            (Value::DateTime(a), Value::DateTime(b)) => a == b,
            (Value::Constant(a), Value::Constant(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Value::Null => state.write_u8(0),
            Value::Bool(flag) => flag.hash(state),
            Value::Int(number) => number.hash(state),
            Value::BigInt(number) => number.hash(state),
            // `0.0 == -0.0`, although their bits differ.
            Value::Float(number) if *number == 0.0 => state.write_u8(1),
            // There are many NaNs, which are all equal here.
            Value::Float(number) if number.is_nan() => state.write_u8(2),
            Value::Float(number) => number.to_bits().hash(state),
            // The same as a plain `str`, so that maps can be asked with one.
            Value::Str(text) => text.hash(state),
            Value::Bytes(bytes) => bytes.hash(state),
            Value::List(items) => items.hash(state),
            // Equal maps may differ in order, so only the size may count.
            Value::Map(map) => map.len().hash(state),
            Value::DateTime(time) => time.hash(state),
            // The name is enough: a hash may collide, and the value behind the name may be large.
            Value::Constant(constant) => constant.0.hash(state),
        }
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&python::repr(self))
    }
}

/// Prints as Python's `str()` does.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Str(text) => f.write_str(text),
            Value::DateTime(time) => write!(f, "{time}"),
            _ => f.write_str(&python::repr(self)),
        }
    }
}

/// Builds a [`Map`] from `key => value` pairs, in order.
///
/// ```
/// use saltern_value::map;
/// let load = map! { "cmd" => "_auth", "id" => "web1", "try" => 1 };
/// assert_eq!(load.get("id").unwrap().as_str(), Some("web1"));
/// ```
#[macro_export]
macro_rules! map {
    () => { $crate::Map::new() };
    ($($key:expr => $value:expr),+ $(,)?) => {{
        // Counts the pairs without evaluating them.
        let mut map = $crate::Map::with_capacity(<[&str]>::len(&[$(stringify!($key)),+]));
        $( map.insert($key, $value); )+
        map
    }};
}

/// Builds a [`Value::List`] from values.
#[macro_export]
macro_rules! list {
    ($($value:expr),* $(,)?) => { $crate::Value::List(vec![$( $crate::Value::from($value) ),*]) };
}
