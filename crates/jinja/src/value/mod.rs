//! Python's objects as a template sees them.

mod convert;
mod dict;
mod function;
mod garbage;
mod iter;
mod key;
mod list;
mod object;
mod set;
mod tuple;
mod undefined;

use std::sync::{Arc, Mutex, MutexGuard};

pub use dict::{Dict, DictView, ViewKind};
pub use function::{CallArgs, Function, FunctionKind, Kwargs, Native, Param};
pub use iter::{Iter, ValueIter};
pub use key::Key;
pub use list::List;
pub use num_bigint::BigInt;
pub use object::Object;
pub(crate) use set::Items;
pub use set::Set;
pub use tuple::Tuple;
pub use undefined::{Undefined, UndefinedKind};

pub(crate) use function::missing;
pub(crate) use iter::{DictIter, FnIter, ListIter, RangeIter, StrIter, VecIter};

/// Text that is shared, not copied.
pub type Str = Arc<str>;

/// A range of integers, as Python's `range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first number.
    pub start: i64,
    /// The bound that is not reached.
    pub stop: i64,
    /// The distance between two numbers; never 0.
    pub step: i64,
}

impl Range {
    /// Returns how many numbers there are.
    pub fn len(&self) -> usize {
        // 128 bits, because the distance between two 64-bit bounds can exceed 64.
        let (start, stop, step) = (i128::from(self.start), i128::from(self.stop), i128::from(self.step));
        let span = if step > 0 { stop - start } else { start - stop };
        if span <= 0 { 0 } else { ((span + step.abs() - 1) / step.abs()) as usize }
    }

    /// Returns whether there is no number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number at an index below the length.
    pub fn at(&self, index: usize) -> i64 {
        // Cannot wrap for an index below the length; the wrapping form saves the overflow check per item.
        self.start.wrapping_add((index as i64).wrapping_mul(self.step))
    }
}

/// A Python object.
///
/// A clone is another reference to the same object: lists, dictionaries and sets are changed for all who hold them.
#[derive(Clone, Default)]
pub enum Value {
    /// `None`.
    #[default]
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// An integer that needs more than 64 bits.
    Big(Arc<BigInt>),
    /// A float.
    Float(f64),
    /// Text.
    Str(Str),
    /// Text that is safe to be put into HTML: what Jinja's `Markup` is. Adding text to it escapes that text.
    Markup(Str),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(List),
    /// A tuple.
    Tuple(Tuple),
    /// A dictionary.
    Dict(Dict),
    /// A set; printed in the order of insertion.
    Set(Set),
    /// A range.
    Range(Arc<Range>),
    /// A dictionary view: the result of `keys()`, `values()` or `items()`.
    View(Arc<DictView>),
    /// An iterator or generator: it can be walked once.
    Iter(Iter),
    /// An undefined value, and the information about it.
    Undefined(Arc<Undefined>),
    /// A function, a method bound to its object, or a type.
    Function(Arc<Function>),
    /// An object of the engine or of the host.
    Object(Arc<dyn Object>),
}

/// Locks without minding that another holder panicked.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Value {
    /// Creates text.
    pub fn str(text: impl Into<Str>) -> Self {
        Value::Str(text.into())
    }

    /// Creates text that is safe to be put into HTML.
    pub fn markup(text: impl Into<Str>) -> Self {
        Value::Markup(text.into())
    }

    /// Creates a list.
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(List::new(items))
    }

    /// Creates a tuple.
    pub fn tuple(items: Vec<Value>) -> Self {
        Value::Tuple(items.into())
    }

    /// Creates an empty dictionary.
    pub fn dict() -> Self {
        Value::Dict(Dict::new())
    }

    /// Creates an integer of any size.
    pub fn int(number: BigInt) -> Self {
        match i64::try_from(&number) {
            Ok(small) => Value::Int(small),
            Err(_) => Value::Big(Arc::new(number)),
        }
    }

    /// Creates a function of the host.
    pub fn function(
        name: &str,
        call: impl Fn(&mut CallArgs) -> Result<Value, crate::Error> + Send + Sync + 'static,
    ) -> Self {
        Value::Function(Arc::new(Function::new(name, call)))
    }

    /// Wraps an object of the host.
    pub fn object(object: impl Object) -> Self {
        Value::Object(Arc::new(object))
    }

    /// Returns the text, of markup too.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) | Value::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text without copying it, of markup too.
    pub fn as_shared_str(&self) -> Option<&Str> {
        match self {
            Value::Str(text) | Value::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// Returns an integer that fits 64 bits; a boolean counts as 0 or 1.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Bool(flag) => Some(i64::from(*flag)),
            _ => None,
        }
    }

    /// Returns the dictionary, if this is one.
    pub fn as_dict(&self) -> Option<&Dict> {
        match self {
            Value::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    /// Returns the list, if this is one.
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the host's object, if this is one of that type.
    pub fn downcast<T: Object>(&self) -> Option<&T> {
        match self {
            Value::Object(object) => (object.as_ref() as &dyn std::any::Any).downcast_ref(),
            _ => None,
        }
    }

    /// Returns whether this is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    /// Returns whether this is undefined.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined(_))
    }

    /// Returns whether both are the same object, as Python's `is`.
    pub fn is_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::None, Value::None) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Big(a), Value::Big(b)) => Arc::ptr_eq(a, b),
            (Value::Str(a), Value::Str(b)) | (Value::Markup(a), Value::Markup(b)) => Arc::ptr_eq(a, b) || a == b,
            (Value::Bytes(a), Value::Bytes(b)) => Arc::ptr_eq(a, b),
            (Value::List(a), Value::List(b)) => a.is_same(b),
            (Value::Tuple(a), Value::Tuple(b)) => a.is_same(b),
            (Value::Dict(a), Value::Dict(b)) => a.is_same(b),
            (Value::Set(a), Value::Set(b)) => a.is_same(b),
            (Value::Range(a), Value::Range(b)) => Arc::ptr_eq(a, b),
            (Value::View(a), Value::View(b)) => Arc::ptr_eq(a, b),
            (Value::Iter(a), Value::Iter(b)) => a.is_same(b),
            (Value::Undefined(a), Value::Undefined(b)) => Arc::ptr_eq(a, b),
            (Value::Function(a), Value::Function(b)) => Arc::ptr_eq(a, b),
            (Value::Object(a), Value::Object(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Returns the name of the Python type.
    pub fn type_name(&self) -> &str {
        match self {
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Big(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::Markup(_) => "Markup",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Dict(dict) => dict.type_name(),
            Value::Set(_) => "set",
            Value::Range(_) => "range",
            Value::View(view) => view.type_name(),
            Value::Iter(iter) => iter.type_name(),
            Value::Undefined(undefined) => undefined.kind.type_name(),
            Value::Function(function) => function.type_name(),
            Value::Object(object) => object.type_name(),
        }
    }

    /// Returns the name the interpreter's own messages give to the type.
    pub(crate) fn class_path(&self) -> &str {
        match self {
            Value::Dict(dict) if dict.is_ordered() => "collections.OrderedDict",
            other => other.type_name(),
        }
    }

    /// Returns how Jinja names the object in `'…' has no attribute …`.
    pub(crate) fn object_name(&self) -> Str {
        match self {
            Value::None => "None".into(),
            Value::Markup(_) => "markupsafe.Markup object".into(),
            Value::Dict(dict) if dict.type_name() != "dict" => {
                format!("collections.{} object", dict.type_name()).into()
            }
            Value::Object(object) => match object.module() {
                Some(module) => format!("{module}.{} object", object.type_name()).into(),
                None => format!("{} object", object.type_name()).into(),
            },
            other => format!("{} object", other.type_name()).into(),
        }
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::python::debug(self))
    }
}
