//! The methods and attributes of Python's types.

pub(crate) mod dicts;
mod dunders;
mod lists;
mod numbers;
mod sets;
pub(crate) mod strings;
pub(crate) mod tests_of_strings;

use std::sync::Arc;

use crate::error::Error;
use crate::value::{CallArgs, Function, FunctionKind, Value};

pub(crate) use dunders::is_dunder;

/// A method: called with its object and the arguments.
pub(crate) type Method = fn(&Value, &mut CallArgs) -> Result<Value, Error>;

/// Finds a method of one of Python's types.
pub(crate) fn find(object: &Value, name: &str) -> Option<Method> {
    match object {
        Value::Str(_) => strings::find(name),
        Value::Markup(_) => strings::find(name),
        Value::List(_) => lists::find(name),
        Value::Tuple(_) => lists::find_tuple(name),
        Value::Dict(_) => dicts::find(name),
        Value::View(_) => sets::find_view(name),
        Value::Set(_) => sets::find(name),
        Value::Int(_) | Value::Big(_) | Value::Bool(_) => numbers::find_int(name),
        Value::Float(_) => numbers::find_float(name),
        Value::Range(_) => lists::find_range(name),
        Value::Bytes(_) => strings::find_bytes(name),
        _ => None,
    }
}

/// Calls a method that [`find`] returned.
pub(crate) fn call(method: Method, object: &Value, _name: &str, mut args: CallArgs) -> Result<Value, Error> {
    method(object, &mut args)
}

/// Returns an attribute of one of Python's types: a method bound to the object, or a value.
pub(crate) fn attribute(object: &Value, name: &str) -> Option<Value> {
    if let Some(method) = find(object, name) {
        // A bound method keeps its object alive, and `{% set add = list.append %}` changes that very list.
        let bound = object.clone();
        if object.as_str().is_some() && matches!(name, "format" | "format_map") {
            // The sandbox replaces these two by its own functions.
            let name = format!("str.{name}");
            return Some(Value::function(&name, move |call| method(&bound, call)));
        }
        return Some(Value::Function(Arc::new(Function {
            name: name.into(),
            kind: FunctionKind::Method(object.type_name().into()),
            call: Arc::new(move |call: &mut CallArgs| method(&bound, call)),
        })));
    }
    match object {
        Value::Int(_) | Value::Big(_) | Value::Bool(_) | Value::Float(_) => numbers::attribute(object, name),
        Value::Range(range) => match name {
            "start" => Some(Value::Int(range.start)),
            "stop" => Some(Value::Int(range.stop)),
            "step" => Some(Value::Int(range.step)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether the name is a method of dictionaries.
pub(crate) fn is_dict_method(name: &str) -> bool {
    dicts::find(name).is_some()
}

/// Returns a placeholder for a special attribute. The sandbox forbids it; outside the sandbox, calling it fails.
pub(crate) fn dunder(_object: &Value, name: &str) -> Value {
    let text = format!("not supported: {name}");
    Value::function(name, move |_| Err(Error::type_error(text.clone())))
}

/// Returns whether the sandbox forbids this attribute although it has no leading underscore.
pub(crate) fn is_internal(object: &Value, name: &str) -> bool {
    match object {
        // Jinja's list for types, generators and functions; the latter has been empty since Python 3.
        Value::Function(_) => name == "mro",
        Value::Iter(iter) if iter.type_name() == "generator" => matches!(name, "gi_frame" | "gi_code"),
        _ => false,
    }
}

/// Checks the number of positional arguments of a builtin method, with Python's texts; takes no keywords.
pub(super) fn arity(call: &CallArgs, of: &str, name: &str, least: usize, most: usize) -> Result<(), Error> {
    if !call.kwargs.is_empty() {
        return Err(Error::type_error(format!("{of}.{name}() takes no keyword arguments")));
    }
    let given = call.args.len();
    if (least..=most).contains(&given) {
        return Ok(());
    }
    // CPython words these messages differently for each calling convention that a builtin can have.
    let text = match (least, most) {
        (0, 0) => format!("{of}.{name}() takes no arguments ({given} given)"),
        (1, 1) => format!("{of}.{name}() takes exactly one argument ({given} given)"),
        _ if least == most => format!("{name} expected {least} arguments, got {given}"),
        _ if given < least => {
            format!("{name} expected at least {least} argument{}, got {given}", if least == 1 { "" } else { "s" })
        }
        _ => format!("{name} expected at most {most} argument{}, got {given}", if most == 1 { "" } else { "s" }),
    };
    Err(Error::type_error(text))
}

/// Distributes the arguments of a builtin method that takes keywords, with Python's texts.
pub(super) fn keywords<const N: usize>(
    call: &mut CallArgs,
    name: &str,
    params: [&str; N],
    positional: usize,
) -> Result<[Option<Value>; N], Error> {
    let given = call.args.len();
    if given + call.kwargs.len() > N {
        let total = given + call.kwargs.len();
        let plural = if N == 1 { "" } else { "s" };
        return Err(Error::type_error(format!("{name}() takes at most {N} argument{plural} ({total} given)")));
    }
    if given > positional {
        let text = if positional == 0 {
            format!("{name}() takes no positional arguments")
        } else {
            let plural = if positional == 1 { "" } else { "s" };
            format!("{name}() takes at most {positional} positional argument{plural} ({given} given)")
        };
        return Err(Error::type_error(text));
    }
    let mut bound: [Option<Value>; N] = std::array::from_fn(|_| None);
    for (slot, value) in bound.iter_mut().zip(call.args.drain(..)) {
        *slot = Some(value);
    }
    for (key, value) in call.kwargs.drain(..) {
        match params.iter().position(|param| *param == &*key) {
            Some(at) if bound[at].is_some() => {
                let text = format!("argument for {name}() given by name ('{key}') and position ({})", at + 1);
                return Err(Error::type_error(text));
            }
            Some(at) => bound[at] = Some(value),
            None => {
                return Err(Error::type_error(format!("'{key}' is an invalid keyword argument for {name}()")));
            }
        }
    }
    Ok(bound)
}

/// Takes an integer for an index or a width.
pub(super) fn index(value: &Value) -> Result<i64, Error> {
    match value {
        Value::Int(_) | Value::Bool(_) => Ok(value.as_i64().unwrap_or(0)),
        Value::Big(_) => {
            // CPython converts an index to the machine's word before it uses it.
            let text = "Python int too large to convert to C ssize_t";
            Err(Error::new(crate::ErrorKind::Overflow, text))
        }
        Value::Undefined(undefined) if undefined.kind == crate::UndefinedKind::Strict => {
            Err(Error::type_error(format!("'{}' object cannot be interpreted as an integer", value.type_name())))
        }
        other => Err(Error::type_error(format!("'{}' object cannot be interpreted as an integer", other.type_name()))),
    }
}
