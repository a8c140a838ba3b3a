//! Keys of dictionaries: Python's equality and hashes (`1 == 1.0 == True`).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use num_traits::ToPrimitive;

use super::Value;
use crate::error::Error;

/// A value that may be a key.
#[derive(Clone, Debug)]
pub struct Key(Value);

impl Key {
    /// Creates a key. Fails for lists, dictionaries, sets and strict undefined values, which Python cannot hash.
    pub fn new(value: Value) -> Result<Self, Error> {
        check(&value, 0)?;
        Ok(Key(value))
    }

    /// Creates a key of text.
    pub fn str(text: impl Into<super::Str>) -> Self {
        Key(Value::Str(text.into()))
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the value.
    pub fn into_value(self) -> Value {
        self.0
    }
}

fn check(value: &Value, depth: u32) -> Result<(), Error> {
    match value {
        Value::List(_) | Value::Dict(_) | Value::Set(_) => {
            Err(Error::type_error(format!("unhashable type: '{}'", value.class_path())))
        }
        Value::View(view) if view.type_name() != "dict_values" => {
            Err(Error::type_error(format!("unhashable type: '{}'", value.class_path())))
        }
        Value::Undefined(undefined) => undefined.for_hash(),
        Value::Tuple(items) => {
            // Tuples nest without bound, and hashing and comparing below recurse without another check.
            if depth > 100 {
                return Err(crate::python::too_deep());
            }
            items.iter().try_for_each(|item| check(item, depth + 1))
        }
        _ => Ok(()),
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        equal(&self.0, &other.0)
    }
}

impl Eq for Key {}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Str(a) | Value::Markup(a), Value::Str(b) | Value::Markup(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Tuple(a), Value::Tuple(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b)),
        (Value::Range(a), Value::Range(b)) => crate::python::ranges_equal(a, b),
        (Value::Undefined(a), Value::Undefined(b)) => a.kind == b.kind,
        _ => match crate::python::compare_numbers(a, b) {
            Some(order) => order == Some(std::cmp::Ordering::Equal),
            None => a.is_same(b),
        },
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.0, state);
    }
}

fn hash<H: Hasher>(value: &Value, state: &mut H) {
    match value {
        Value::Str(text) | Value::Markup(text) => hash_str(text, state),
        // Equal values must hash alike: `1`, `1.0` and `True` are one key in Python.
        Value::Int(number) => state.write_i64(*number),
        Value::Bool(flag) => state.write_i64(i64::from(*flag)),
        Value::Float(number) => match whole(*number) {
            Some(small) => state.write_i64(small),
            None => state.write_u64(number.to_bits()),
        },
        // A float can equal an integer beyond 64 bits, so both hash the bits of the float.
        Value::Big(number) => state.write_u64(number.to_f64().unwrap_or(f64::INFINITY).to_bits()),
        Value::None => state.write_u8(1),
        Value::Bytes(bytes) => state.write(bytes),
        Value::Tuple(items) => {
            state.write_usize(items.len());
            items.iter().for_each(|item| hash(item, state));
        }
        Value::Range(range) => state.write_usize(range.len()),
        // All undefined values of a kind are equal and therefore share one hash.
        Value::Undefined(_) => state.write_u8(2),
        // Unreachable through `Key::new`, which refuses these; a constant would also be correct.
        Value::List(list) => state.write_usize(list.id()),
        Value::Dict(dict) => state.write_usize(dict.id()),
        Value::Set(set) => state.write_usize(set.id()),
        Value::View(view) => state.write_usize(Arc::as_ptr(view) as usize),
        Value::Iter(iter) => state.write_usize(iter.id()),
        Value::Function(function) => state.write_usize(Arc::as_ptr(function) as usize),
        Value::Object(object) => state.write_usize(Arc::as_ptr(object) as *const u8 as usize),
    }
}

fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9.2e18).then_some(number as i64)
}

fn hash_str<H: Hasher>(text: &str, state: &mut H) {
    state.write(text.as_bytes());
    // No UTF-8 text contains 0xff: in a tuple `('ab', 'c')` must not hash like `('a', 'bc')`.
    state.write_u8(0xff);
}

/// Text that looks up its key without being copied into a `Value`; it must hash as `Key` does.
pub(crate) struct StrKey<'a>(pub &'a str);

impl Hash for StrKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_str(self.0, state);
    }
}

impl indexmap::Equivalent<Key> for StrKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        key.0.as_str() == Some(self.0)
    }
}
