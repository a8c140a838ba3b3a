//! Converts values to the types of parameters.

use value::{Map, Value};

/// The positional arguments that no parameter took: Python's `*args`.
#[derive(Clone, Debug, Default)]
pub struct VarArgs(pub Vec<Value>);

/// The keyword arguments that no parameter took: Python's `**kwargs`. The fields of the job are among them, with
/// names such as `__pub_jid`.
#[derive(Clone, Debug, Default)]
pub struct KwArgs(pub Map);

impl KwArgs {
    /// Returns the arguments the caller gave, without the fields of the job.
    pub fn given(&self) -> Map {
        self.0
            .iter()
            .filter(|(key, _)| !key.as_str().is_some_and(|key| key.starts_with("__")))
            .map(clone_pair)
            .collect()
    }
}

fn clone_pair((key, value): (&Value, &Value)) -> (Value, Value) {
    (key.clone(), value.clone())
}

/// A type a parameter of an execution function can have.
pub trait FromArg: Sized {
    /// Converts a value; the error names what was expected instead ("a number").
    fn from_arg(value: Value) -> Result<Self, &'static str>;

    /// Returns the value of a parameter that was not given; only `Option` has one.
    fn absent() -> Option<Self> {
        None
    }
}

impl FromArg for Value {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        Ok(value)
    }
}

/// Numbers and booleans become text again, because the command line parses arguments that look like numbers.
impl FromArg for String {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        match value {
            Value::Str(text) => Ok(text),
            Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).map_err(|_| "text"),
            // Their text would be Python syntax, which no caller means.
            Value::Null | Value::List(_) | Value::Map(_) => Err("text"),
            other => Ok(other.to_string()),
        }
    }
}

/// Any value is judged by its truth in Python, except that the word "false", in any case, is false.
impl FromArg for bool {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        match &value {
            // Python takes any text for true, but a user who writes `test="False"` in a template or a shell means the
            // opposite.
            Value::Str(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            other => Ok(other.truthy()),
        }
    }
}

impl FromArg for i64 {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        match value {
            // Arithmetic in a template easily turns a number into a float.
            Value::Float(number) if number.fract() == 0.0 => Ok(number as i64),
            Value::Str(text) => text.trim().parse().map_err(|_| "a whole number"),
            other => other.as_i64().ok_or("a whole number"),
        }
    }
}

impl FromArg for u64 {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        i64::from_arg(value).and_then(|number| u64::try_from(number).map_err(|_| "a whole number, zero or more"))
    }
}

impl FromArg for f64 {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        match value {
            Value::Str(text) => text.trim().parse().map_err(|_| "a number"),
            other => other.as_f64().ok_or("a number"),
        }
    }
}

impl FromArg for Map {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        value.into_map().ok_or("a map")
    }
}

/// A single value counts as a list of one.
impl<T: FromArg> FromArg for Vec<T> {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        match value {
            Value::List(items) => items.into_iter().map(T::from_arg).collect(),
            Value::Null => Ok(Vec::new()),
            single => Ok(vec![T::from_arg(single)?]),
        }
    }
}

impl<T: FromArg> FromArg for Option<T> {
    fn from_arg(value: Value) -> Result<Self, &'static str> {
        match value {
            Value::Null => Ok(None),
            value => T::from_arg(value).map(Some),
        }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}
