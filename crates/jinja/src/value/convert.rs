//! From Rust's values.

use num_bigint::BigInt;

use super::{Dict, Key, List, Str, Value};

macro_rules! from {
    ($($from:ty => |$value:ident| $make:expr;)*) => { $(
        impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $make
            }
        }
    )* };
}

from! {
    bool => |value| Value::Bool(value);
    i32 => |value| Value::Int(value.into());
    u32 => |value| Value::Int(value.into());
    i64 => |value| Value::Int(value);
    usize => |value| i64::try_from(value).map_or_else(|_| Value::int(BigInt::from(value)), Value::Int);
    u64 => |value| i64::try_from(value).map_or_else(|_| Value::int(BigInt::from(value)), Value::Int);
    f64 => |value| Value::Float(value);
    BigInt => |value| Value::int(value);
    &str => |value| Value::Str(value.into());
    String => |value| Value::Str(value.into());
    Str => |value| Value::Str(value);
    Vec<Value> => |value| Value::list(value);
    List => |value| Value::List(value);
    Dict => |value| Value::Dict(value);
    () => |_value| Value::None;
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

impl<K: Into<Str>, V: Into<Value>> FromIterator<(K, V)> for Dict {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let dict = Dict::new();
        for (key, value) in entries {
            dict.insert(Key::str(key), value.into());
        }
        dict
    }
}
