//! Options with their origins, and parsing of typed fields.

use std::path::PathBuf;
use std::time::Duration;

use value::{Map, Value};

use crate::check::{brief_repr, integer};
use crate::error::Error;
use crate::origin::Origins;

/// The options of a daemon while they are being prepared.
#[derive(Debug, Default)]
pub(crate) struct Opts {
    pub(crate) map: Map,
    pub(crate) origins: Origins,
    pub(crate) warnings: Vec<String>,
}

impl Opts {
    /// Parses one option as a typed value.
    pub(crate) fn read<T: FromOption>(&self, name: &str) -> Result<T, Error> {
        T::from_option(self.map.get(name)).map_err(|must| self.wrong(name, must))
    }

    /// Returns the error of an option that must be something else.
    pub(crate) fn wrong(&self, name: &str, must: impl Into<String>) -> Error {
        let value = self.map.get(name).map_or_else(|| "nothing".to_owned(), |value| self.show(name, value));
        Error::Option { origin: self.origins.get(name).cloned(), name: name.to_owned(), must: must.into(), value }
    }

    /// Returns the error of an option of which one part must be something else.
    pub(crate) fn wrong_value(&self, name: &str, must: impl Into<String>, part: &Value) -> Error {
        let (value, origin) = (self.show(name, part), self.origins.get(name).cloned());
        Error::Option { origin, name: name.to_owned(), must: must.into(), value }
    }

    fn show(&self, name: &str, value: &Value) -> String {
        // Errors go to the log and to the terminal. Matching parts of names hides too much rather than too little.
        let secret = ["pass", "secret", "credential"].iter().any(|part| name.contains(part));
        if secret { "what stands there".into() } else { brief_repr(value) }
    }

    pub(crate) fn text(&self, name: &str) -> String {
        match self.map.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(value) => value.to_string(),
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.map.insert(name, value);
    }

    pub(crate) fn truthy(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(Value::truthy)
    }

    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }
}

/// A type of an option.
pub trait FromOption: Sized {
    /// Parses the value of an option; `None` means that it is not set. The error completes "must be …".
    fn from_option(value: Option<&Value>) -> Result<Self, String>;
}

impl FromOption for Value {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        Ok(value.cloned().unwrap_or_default())
    }
}

/// As everywhere in Salt, empty and absent are false.
impl FromOption for bool {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err("true or false".into()),
        }
    }
}

impl FromOption for String {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::List(_) | Value::Map(_)) => Err("text".into()),
            Some(value) => Ok(value.to_string()),
        }
    }
}

impl FromOption for PathBuf {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        String::from_option(value).map(PathBuf::from).map_err(|_| "a path".into())
    }
}

fn number(value: Option<&Value>) -> Result<i64, String> {
    match value {
        Some(Value::Int(number)) => Ok(*number),
        // Some of Salt's integers are declared as floats.
        // Below 9e15 every whole float is exact, so nothing changes silently.
        Some(Value::Float(number)) if number.fract() == 0.0 && number.abs() < 9e15 => Ok(*number as i64),
        Some(Value::Str(text)) => integer(text).ok_or_else(|| "a whole number".into()),
        _ => Err("a whole number".into()),
    }
}

macro_rules! integers {
    ($($kind:ty),*) => { $(
        impl FromOption for $kind {
            fn from_option(value: Option<&Value>) -> Result<Self, String> {
                <$kind>::try_from(number(value)?)
                    .map_err(|_| format!("a whole number from {} to {}", <$kind>::MIN, <$kind>::MAX))
            }
        }
    )* };
}
integers!(u16, u32, u64, usize, i32, i64);

impl FromOption for f64 {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        let number = match value {
            Some(Value::Bool(_)) | None => None,
            Some(Value::Str(text)) => text.trim().parse().ok(),
            Some(value) => value.as_f64(),
        };
        // YAML has `.inf` and `.nan`; no timeout or size can be either.
        number.filter(|number| number.is_finite()).ok_or_else(|| "a number".into())
    }
}

/// Seconds, with fractions; a negative number counts as zero.
impl FromOption for Duration {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        // More than a century is as good as for ever, and cannot overflow a clock.
        const LONGEST: f64 = 4e9;
        let seconds = f64::from_option(value).map_err(|_| "a number of seconds")?;
        Ok(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST)))
    }
}

/// Empty, absent and null mean `None`.
impl<T: FromOption> FromOption for Option<T> {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value {
            None | Some(Value::Null) => Ok(None),
            // An empty text means "not set" in Salt too.
            Some(Value::Str(text)) if text.is_empty() => Ok(None),
            some => T::from_option(some).map(Some),
        }
    }
}

impl FromOption for Map {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value {
            Some(Value::Map(map)) => Ok(map.clone()),
            None | Some(Value::Null) => Ok(Map::new()),
            // As in Salt, these mean an empty map.
            Some(value @ (Value::List(_) | Value::Str(_))) if !value.truthy() => Ok(Map::new()),
            Some(_) => Err("a map".into()),
        }
    }
}

/// A list of strings. A single string counts as a list of one, since that is the intention.
impl FromOption for Vec<String> {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value {
            Some(Value::List(items)) => items.iter().map(|item| String::from_option(Some(item))).collect(),
            Some(Value::Str(text)) if !text.is_empty() => Ok(vec![text.clone()]),
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(value) if !value.truthy() => Ok(Vec::new()),
            Some(_) => Err("a list of texts".into()),
        }
        .map_err(|_| "a list of texts".into())
    }
}

impl FromOption for Vec<Value> {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value {
            Some(Value::List(items)) => Ok(items.clone()),
            Some(value) if value.truthy() => Err("a list".into()),
            _ => Ok(Vec::new()),
        }
    }
}

/// Declares a group of options: a struct whose fields are parsed from the options of the same names.
///
/// A name that is not a valid Rust name follows `=`; the default of an option that Salt's tables lack follows `or`.
macro_rules! options {
    ($(
        $(#[$meta:meta])*
        pub struct $group:ident {
            $( $(#[$doc:meta])* $field:ident : $kind:ty $(= $name:literal)? $(, or $default:expr)? ; )*
        }
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $group {
            $( $(#[$doc])* pub $field: $kind, )*
        }

        impl $group {
            /// Each field with its option.
            pub(crate) const FIELDS: &[(&str, &str)] =
                &[$( (stringify!($field), options!(@name $field, [$($name)?])) ),*];

            pub(crate) fn read(opts: &$crate::opts::Opts) -> Result<Self, $crate::Error> {
                Ok($group { $( $field: options!(@read opts, $kind, $field, [$($name)?], [$($default)?]), )* })
            }
        }
    )* };
    (@read $opts:ident, $kind:ty, $field:ident, $name:tt, []) => {
        $opts.read::<$kind>(options!(@name $field, $name))?
    };
    (@read $opts:ident, $kind:ty, $field:ident, $name:tt, [$default:expr]) => {
        match $opts.read::<Option<$kind>>(options!(@name $field, $name))? {
            Some(value) => value,
            None => $default,
        }
    };
    (@name $field:ident, []) => { stringify!($field) };
    (@name $field:ident, [$name:literal]) => { $name };
}
pub(crate) use options;
