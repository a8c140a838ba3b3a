//! Reading and writing the fields of loads, and the macro that defines the types.

use bytes::Bytes;
use value::{Map, Value};

use crate::{InvalidId, MinionId};

/// An error: a field of a load is missing or wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {field:?} of {load}: {problem}")]
pub struct LoadError {
    /// The type of the load.
    pub load: &'static str,
    /// The name of the field as it travels.
    pub field: &'static str,
    /// The problem.
    pub problem: Problem,
}

/// The problem with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is missing.
    #[error("missing")]
    Missing,
    /// It has another type.
    #[error("is a {found}, not {expected}")]
    Type {
        /// The expected type.
        expected: &'static str,
        /// The Python name of its type.
        found: &'static str,
    },
    /// It is not a valid minion id.
    #[error(transparent)]
    Id(#[from] InvalidId),
}

/// A type that a value of a load can have.
pub trait Content: Sized {
    /// Reads the value.
    fn from_value(value: Value) -> Result<Self, Problem>;
    /// Returns the value.
    fn into_value(self) -> Value;
}

/// A type that a field can have: a [`Content`] if it is required, or an `Option` of one if it may be missing.
pub trait Field: Sized {
    /// Takes the field out of the map.
    fn take(map: &mut Map, name: &str) -> Result<Self, Problem>;
    /// Puts the field at the end of the map.
    fn put(self, map: &mut Map, name: &str);
}

impl<T: Content> Field for T {
    fn take(map: &mut Map, name: &str) -> Result<Self, Problem> {
        // `remove`: the fields that are left in the map when all known ones are taken become `extra`.
        T::from_value(map.remove(name).ok_or(Problem::Missing)?)
    }

    fn put(self, map: &mut Map, name: &str) {
        map.insert(name, self.into_value());
    }
}

impl<T: Content> Field for Option<T> {
    fn take(map: &mut Map, name: &str) -> Result<Self, Problem> {
        map.remove(name).map(T::from_value).transpose()
    }

    fn put(self, map: &mut Map, name: &str) {
        if let Some(value) = self {
            map.insert(name, value.into_value());
        }
    }
}

/// A field that counts as missing when its value has another type, as far as Salt's masters do so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lenient<T>(pub Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Lenient(None)
    }
}

impl<T: Content> Field for Lenient<T> {
    fn take(map: &mut Map, name: &str) -> Result<Self, Problem> {
        Ok(Lenient(map.remove(name).and_then(|value| T::from_value(value).ok())))
    }

    fn put(self, map: &mut Map, name: &str) {
        self.0.put(map, name);
    }
}

/// The texts of a list. Whatever else the list contains is left out; a field that is missing or no list has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

impl Field for Texts {
    fn take(map: &mut Map, name: &str) -> Result<Self, Problem> {
        let items = map.remove(name).and_then(Value::into_list).unwrap_or_default();
        Ok(Texts(items.into_iter().filter_map(Value::into_string).collect()))
    }

    fn put(self, map: &mut Map, name: &str) {
        map.insert(name, self.0);
    }
}

impl<T: Into<String>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        Texts(texts.into_iter().map(Into::into).collect())
    }
}

/// A field that is always written, as `None` if it has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nullable<T>(pub Option<T>);

impl<T> Default for Nullable<T> {
    fn default() -> Self {
        Nullable(None)
    }
}

impl<T: Content> Content for Nullable<T> {
    fn from_value(value: Value) -> Result<Self, Problem> {
        match value {
            Value::Null => Ok(Nullable(None)),
            // Salt writes `None` in some fields that it always sends; leaving them out would change signed bytes.
            value => T::from_value(value).map(|inner| Nullable(Some(inner))),
        }
    }

    fn into_value(self) -> Value {
        self.0.map_or(Value::Null, T::into_value)
    }
}

impl Content for Value {
    fn from_value(value: Value) -> Result<Self, Problem> {
        Ok(value)
    }

    fn into_value(self) -> Value {
        self
    }
}

impl Content for String {
    fn from_value(value: Value) -> Result<Self, Problem> {
        match value {
            Value::Str(text) => Ok(text),
            other => Err(wrong("text", &other)),
        }
    }

    fn into_value(self) -> Value {
        self.into()
    }
}

/// Text. A value of another type is converted as by Python's `str`: numbers are valid names of jobs and files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl Text {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Content for Text {
    fn from_value(value: Value) -> Result<Self, Problem> {
        Ok(Text(match value {
            Value::Str(text) => text,
            other => other.to_string(),
        }))
    }

    fn into_value(self) -> Value {
        self.0.into()
    }
}

/// Bytes that happen to be valid UTF-8 arrive as text.
impl Content for Bytes {
    fn from_value(value: Value) -> Result<Self, Problem> {
        match value {
            Value::Bytes(bytes) => Ok(*bytes),
            Value::Str(text) => Ok(text.into()),
            other => Err(wrong("bytes", &other)),
        }
    }

    fn into_value(self) -> Value {
        self.into()
    }
}

impl Content for i64 {
    fn from_value(value: Value) -> Result<Self, Problem> {
        // No texts of digits: Salt packs integers as integers.
        value.as_i64().ok_or_else(|| wrong("an integer", &value))
    }

    fn into_value(self) -> Value {
        self.into()
    }
}

impl Content for u16 {
    fn from_value(value: Value) -> Result<Self, Problem> {
        let number = value.as_i64().and_then(|number| u16::try_from(number).ok());
        number.ok_or_else(|| wrong("an integer up to 65535", &value))
    }

    fn into_value(self) -> Value {
        self.into()
    }
}

/// Any value that is true in Python is true.
impl Content for bool {
    fn from_value(value: Value) -> Result<Self, Problem> {
        Ok(value.truthy())
    }

    fn into_value(self) -> Value {
        self.into()
    }
}

impl Content for Map {
    fn from_value(value: Value) -> Result<Self, Problem> {
        match value {
            Value::Map(map) => Ok(map),
            other => Err(wrong("a map", &other)),
        }
    }

    fn into_value(self) -> Value {
        self.into()
    }
}

impl<T: Content> Content for Vec<T> {
    fn from_value(value: Value) -> Result<Self, Problem> {
        match value {
            Value::List(items) => items.into_iter().map(T::from_value).collect(),
            other => Err(wrong("a list", &other)),
        }
    }

    fn into_value(self) -> Value {
        Value::List(self.into_iter().map(T::into_value).collect())
    }
}

impl Content for MinionId {
    fn from_value(value: Value) -> Result<Self, Problem> {
        Ok(MinionId::try_from(&value)?)
    }

    fn into_value(self) -> Value {
        self.into()
    }
}

pub(super) fn wrong(expected: &'static str, found: &Value) -> Problem {
    Problem::Type { expected, found: found.type_name() }
}

/// Makes a load type: a struct with its fields in wire order, `extra`, `from_map`, `into_map` and friends.
///
/// `= "name"` after a type gives the name on the wire where it differs from the field's; `cmd "name";` says where the
/// command stands among the fields.
macro_rules! load {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$doc:meta])* pub $field:ident : $kind:ty $(= $wire:literal)? , )*
            $( cmd $cmd:literal ; $( $(#[$doc2:meta])* pub $field2:ident : $kind2:ty $(= $wire2:literal)? , )* )?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$doc])* pub $field: $kind, )*
            $( $( $(#[$doc2])* pub $field2: $kind2, )* )?
            /// Unknown fields, in the received order.
            pub extra: value::Map,
        }

        impl $name {
            $(
                /// The command on the wire.
                pub const CMD: &str = $cmd;
            )?

            /// Reads the load. Unknown fields go to `extra`.
            pub fn from_map(mut map: value::Map) -> Result<Self, $crate::loads::LoadError> {
                // `CMD` puts it back when the load is written; in `extra` it would be written twice.
                $( map.remove("cmd").filter(|_| $cmd.is_empty()); )?
                Ok($name {
                    $( $field: load!(@take $name map load!(@wire $field $($wire)?)), )*
                    $( $( $field2: load!(@take $name map load!(@wire $field2 $($wire2)?)), )* )?
                    extra: map,
                })
            }

            /// Reads the load from a value, which must be a map.
            pub fn from_value(value: value::Value) -> Result<Self, $crate::loads::LoadError> {
                match value {
                    value::Value::Map(map) => Self::from_map(map),
                    other => Err($crate::loads::LoadError {
                        load: stringify!($name),
                        field: "",
                        problem: $crate::loads::field::wrong("a map", &other),
                    }),
                }
            }

            /// Returns the load as a map in wire order.
            pub fn into_map(self) -> value::Map {
                let mut map = value::Map::new();
                $( $crate::loads::field::Field::put(self.$field, &mut map, load!(@wire $field $($wire)?)); )*
                $(
                    map.insert("cmd", $cmd);
                    $( $crate::loads::field::Field::put(self.$field2, &mut map, load!(@wire $field2 $($wire2)?)); )*
                )?
                // Last, as the channel of a real minion appends `nonce`, `ts` and `tok` behind the fields of the
                // command.
                map.update(self.extra);
                map
            }

            /// Returns the load as a map in wire order, keeping this.
            pub fn to_map(&self) -> value::Map {
                self.clone().into_map()
            }

            /// Returns the load as a value in wire order, keeping this.
            pub fn to_value(&self) -> value::Value {
                value::Value::Map(self.to_map())
            }
        }
    };
    (@wire $field:ident) => { stringify!($field) };
    (@wire $field:ident $wire:literal) => { $wire };
    (@take $name:ident $map:ident $wire:expr) => {
        $crate::loads::field::Field::take(&mut $map, $wire).map_err(|problem| $crate::loads::LoadError {
            load: stringify!($name),
            field: $wire,
            problem,
        })?
    };
}
pub(super) use load;
