//! Making values from what Rust programs hold.

use std::sync::Arc;

use bytes::Bytes;
use num_bigint::BigInt;

use crate::{DateTime, Map, Value};

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}

macro_rules! from_small_integers {
    ($($kind:ty),*) => { $(
        impl From<$kind> for Value {
            fn from(number: $kind) -> Self {
                Value::Int(i64::from(number))
            }
        }
    )* };
}
from_small_integers!(i8, i16, i32, i64, u8, u16, u32);

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        match i64::try_from(number) {
            Ok(number) => Value::Int(number),
            Err(_) => Value::BigInt(Arc::new(BigInt::from(number))),
        }
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Value::from(number as u64)
    }
}

/// Becomes the smallest form that holds it.
impl From<BigInt> for Value {
    fn from(number: BigInt) -> Self {
        match i64::try_from(&number) {
            Ok(number) => Value::Int(number),
            Err(_) => Value::BigInt(Arc::new(number)),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Str(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Value::Str(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Str(text)
    }
}

impl From<std::borrow::Cow<'_, str>> for Value {
    fn from(text: std::borrow::Cow<'_, str>) -> Self {
        Value::Str(text.into_owned())
    }
}

impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Self {
        Value::bytes(bytes)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Value::bytes(Bytes::copy_from_slice(bytes))
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Value::Map(map)
    }
}

impl From<DateTime> for Value {
    fn from(time: DateTime) -> Self {
        Value::DateTime(time)
    }
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Value::Null
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Value::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value> + Clone, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        Value::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Value::List(items.into_iter().map(Into::into).collect())
    }
}
