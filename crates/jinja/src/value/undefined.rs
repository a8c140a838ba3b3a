//! Undefined values: what a template gets for a name that does not exist.

use std::sync::Arc;

use super::{Str, Value};
use crate::error::{Error, ErrorKind};

/// The behaviour of an undefined value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UndefinedKind {
    /// Prints as nothing, is false and empty; attributes of it are errors.
    #[default]
    Lenient,
    /// Every use but `is defined` and `default` is an error.
    Strict,
    /// Like `Lenient`, but its attributes and items are again undefined values.
    Chainable,
}

impl UndefinedKind {
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            UndefinedKind::Lenient => "Undefined",
            UndefinedKind::Strict => "StrictUndefined",
            UndefinedKind::Chainable => "ChainableUndefined",
        }
    }
}

/// An undefined value and what its error message needs.
pub struct Undefined {
    /// The behaviour.
    pub kind: UndefinedKind,
    /// The error text, instead of the one that the other fields give.
    pub hint: Option<Str>,
    /// The object without that attribute or item, as errors name it (`dict object`).
    pub object: Option<Str>,
    /// Its name, or the key that was looked up.
    pub name: Value,
    /// The class of the error when it is used.
    pub error: ErrorKind,
}

impl Undefined {
    /// Creates an undefined variable.
    pub fn variable(kind: UndefinedKind, name: &Str) -> Value {
        Value::Undefined(Arc::new(Undefined {
            kind,
            hint: None,
            object: None,
            name: Value::Str(name.clone()),
            error: ErrorKind::Undefined,
        }))
    }

    /// Creates an undefined value with a text that explains it.
    pub fn hint(kind: UndefinedKind, hint: impl Into<Str>, name: Value) -> Value {
        let hint = Some(hint.into());
        Value::Undefined(Arc::new(Undefined { kind, hint, object: None, name, error: ErrorKind::Undefined }))
    }

    /// Creates an undefined attribute or item of an object.
    pub fn of(kind: UndefinedKind, object: &Value, name: Value) -> Value {
        let object = Some(object.object_name());
        // A chain of undefined values would grow with each lookup.
        let name = if name.is_undefined() { Undefined::hint(kind, "", Value::None) } else { name };
        Value::Undefined(Arc::new(Undefined { kind, hint: None, object, name, error: ErrorKind::Undefined }))
    }

    /// Makes the value of an attribute that the sandbox forbids: using it raises a `SecurityError`.
    pub fn unsafe_attribute(kind: UndefinedKind, object: &Value, name: &str) -> Value {
        let hint = format!(
            "access to attribute {} of {} object is unsafe.",
            crate::python::repr_str(name),
            crate::python::repr_str(object.type_name())
        );
        Value::Undefined(Arc::new(Undefined {
            kind,
            hint: Some(hint.into()),
            object: None,
            name: Value::str(name),
            error: ErrorKind::Security,
        }))
    }

    /// Returns the text of the error when it is used.
    pub fn message(&self) -> String {
        // An empty hint counts as none, because Python tests the hint's truth.
        if let Some(hint) = self.hint.as_deref().filter(|hint| !hint.is_empty()) {
            return hint.to_string();
        }
        let name = crate::python::debug(&self.name);
        match (&self.object, &self.name) {
            (None, _) => format!("{name} is undefined"),
            (Some(object), Value::Str(_) | Value::Markup(_)) => {
                format!("{} has no attribute {name}", crate::python::repr_str(object))
            }
            (Some(object), _) => format!("{object} has no element {name}"),
        }
    }

    /// Returns the error when it is used.
    pub fn fail(&self) -> Error {
        Error::new(self.error.clone(), self.message())
    }

    /// Fails for the strict kind, which may not be printed, compared, counted, iterated or tested for truth.
    pub fn lenient(&self) -> Result<(), Error> {
        if self.kind == UndefinedKind::Strict { Err(self.fail()) } else { Ok(()) }
    }

    pub(crate) fn for_hash(&self) -> Result<(), Error> {
        self.lenient()
    }
}
