//! Objects of the engine and of the host.

use std::any::Any;

use super::{CallArgs, Value, ValueIter};
use crate::error::Error;
use crate::run::State;

/// An object with custom behaviour that a host passes into templates beside plain data.
///
/// Each method has the behaviour of Python's `object` by default.
pub trait Object: Any + Send + Sync {
    /// Returns the name of its class.
    fn type_name(&self) -> &str;

    /// Returns the module of its class; none for classes of the interpreter itself.
    fn module(&self) -> Option<&str> {
        None
    }

    /// Looks an attribute up (`object.name`).
    fn get_attr(&self, _state: &mut State, _name: &str) -> Result<Option<Value>, Error> {
        Ok(None)
    }

    /// Looks up an item (`object[key]`); `None` if there is none.
    fn get_item(&self, _state: &mut State, _key: &Value) -> Result<Option<Value>, Error> {
        Ok(None)
    }

    /// Returns whether it can be called.
    fn is_callable(&self) -> bool {
        false
    }

    /// Calls it.
    fn call(&self, _args: &mut CallArgs) -> Result<Value, Error> {
        Err(Error::type_error(format!("'{}' object is not callable", self.type_name())))
    }

    /// Returns an iterator over it, or `None` if it is not iterable.
    fn iterate(&self, _state: &mut State) -> Result<Option<Box<dyn ValueIter>>, Error> {
        Ok(None)
    }

    /// Returns its length, or `None` if it has none.
    fn len(&self, _state: &mut State) -> Result<Option<usize>, Error> {
        Ok(None)
    }

    /// Returns whether it contains a value; `None` makes the engine iterate and compare.
    fn contains(&self, _state: &mut State, _value: &Value) -> Result<Option<bool>, Error> {
        Ok(None)
    }

    /// Returns its truth; `None` derives it from the length.
    fn truthy(&self) -> Option<bool> {
        None
    }

    /// Returns whether it counts as a mapping (`is mapping`, `**object`).
    fn is_mapping(&self) -> bool {
        false
    }

    /// Returns whether it has items that can be looked up (`is sequence` needs a length too).
    fn has_items(&self) -> bool {
        self.is_mapping()
    }

    /// Returns its `repr()`, or `None` for the default `<… object at 0x…>`.
    fn repr(&self, _state: &mut State) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Returns its `str()`, or `None` to use `repr()`.
    fn str(&self, _state: &mut State) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Returns whether it equals another value; `None` compares identities.
    fn equals(&self, _state: &mut State, _other: &Value) -> Result<Option<bool>, Error> {
        Ok(None)
    }
}
