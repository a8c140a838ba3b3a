//! Methods of dictionaries.

use super::{Method, arity};
use crate::error::{Error, ErrorKind};
use crate::python::{self, to_vec};
use crate::run::State;
use crate::value::{CallArgs, Dict, Iter, Key, Kwargs, Value, ViewKind};

pub(super) fn find(name: &str) -> Option<Method> {
    Some(match name {
        "get" => get,
        "items" => items,
        "keys" => keys,
        "values" => values,
        "update" => update,
        "pop" => pop,
        "setdefault" => setdefault,
        "copy" => copy,
        "clear" => clear,
        "popitem" => popitem,
        // A class method in Python, which works on an instance as well.
        "fromkeys" => fromkeys,
        _ => return None,
    })
}

fn dict(object: &Value) -> Dict {
    match object {
        Value::Dict(dict) => dict.clone(),
        _ => Dict::new(),
    }
}

fn get(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "get", 1, 2)?;
    let Value::Dict(dict) = object else { return Ok(Value::None) };
    let found = match &call.args[0] {
        Value::Str(text) => dict.get_str(text),
        other => dict.get(&Key::new(other.clone())?),
    };
    Ok(found.unwrap_or_else(|| if call.args.len() > 1 { call.args.swap_remove(1) } else { Value::None }))
}

fn view(object: &Value, call: &CallArgs, name: &str, kind: ViewKind) -> Result<Value, Error> {
    arity(call, object.type_name(), name, 0, 0)?;
    Ok(Value::View(std::sync::Arc::new(crate::value::DictView { dict: dict(object), kind })))
}

fn items(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    view(object, call, "items", ViewKind::Items)
}

fn keys(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    view(object, call, "keys", ViewKind::Keys)
}

fn values(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    view(object, call, "values", ViewKind::Values)
}

/// Returns the entries of a mapping or of a sequence of pairs, with the errors of Python's `dict.update()`.
pub(crate) fn entries_of(state: &mut State, source: &Value) -> Result<Vec<(Key, Value)>, Error> {
    match source {
        Value::Dict(dict) => Ok(dict.lock().iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
        // Python asks for `keys()`; without it, the source must be a sequence of pairs.
        Value::Object(object) if object.is_mapping() => {
            let mut entries = Vec::new();
            for key in to_vec(state, source)? {
                let value = python::get_item_raw(state, source, &key)?;
                entries.push((Key::new(key)?, value));
            }
            Ok(entries)
        }
        _ => {
            let mut entries = Vec::new();
            for (at, pair) in to_vec(state, source)?.into_iter().enumerate() {
                let parts = match to_vec(state, &pair) {
                    Ok(parts) => parts,
                    Err(error) if *error.kind() == ErrorKind::Type && !pair.is_undefined() => {
                        let text = format!("cannot convert dictionary update sequence element #{at} to a sequence");
                        return Err(Error::type_error(text));
                    }
                    Err(error) => return Err(error),
                };
                let len = parts.len();
                // A string of two characters is a pair, too, as in Python.
                let Ok([key, value]) = <[Value; 2]>::try_from(parts) else {
                    let text = format!("dictionary update sequence element #{at} has length {len}; 2 is required");
                    return Err(Error::value_error(text));
                };
                entries.push((Key::new(key)?, value));
            }
            Ok(entries)
        }
    }
}

/// Updates a dictionary with at most one mapping and with keyword arguments.
pub(crate) fn update_from(state: &mut State, dict: &Dict, source: Option<&Value>, kwargs: Kwargs) -> Result<(), Error> {
    if let Some(source) = source {
        let entries = entries_of(state, source)?;
        // The source was read completely before: it may be this dictionary itself, and the lock is not reentrant.
        dict.lock().extend(entries);
    }
    dict.lock().extend(kwargs.into_iter().map(|(name, value)| (Key::str(name), value)));
    state.check_items(dict.len())
}

fn update(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    if call.args.len() > 1 {
        let given = call.args.len();
        return Err(Error::type_error(format!("update expected at most 1 argument, got {given}")));
    }
    let kwargs = std::mem::take(&mut call.kwargs);
    update_from(call.state, &dict(object), call.args.first(), kwargs)?;
    Ok(Value::None)
}

fn pop(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "pop", 1, 2)?;
    let key = Key::new(call.args[0].clone())?;
    match (dict(object).remove(&key), call.args.pop()) {
        (Some(found), _) => Ok(found),
        // One argument is left after the default was popped: the key.
        (None, Some(default)) if call.args.len() == 1 => Ok(default),
        _ => Err(Error::new(ErrorKind::Key, call.state.repr(key.value())?)),
    }
}

fn setdefault(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "setdefault", 1, 2)?;
    let default = if call.args.len() > 1 { call.args.swap_remove(1) } else { Value::None };
    let key = Key::new(call.args.swap_remove(0))?;
    Ok(dict(object).lock().entry(key).or_insert(default).clone())
}

fn copy(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "copy", 0, 0)?;
    Ok(Value::Dict(dict(object).copy()))
}

fn clear(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "clear", 0, 0)?;
    // The values are dropped after the lock is released: dropping a host object runs code that may use this dictionary.
    let taken = std::mem::take(&mut *dict(object).lock());
    drop(taken);
    Ok(Value::None)
}

fn popitem(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "popitem", 0, 0)?;
    let popped = dict(object).lock().pop();
    match popped {
        Some((key, value)) => Ok(Value::tuple(vec![key.into_value(), value])),
        None => Err(Error::new(ErrorKind::Key, "'popitem(): dictionary is empty'")),
    }
}

fn fromkeys(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "fromkeys", 1, 2)?;
    let value = call.args.get(1).cloned().unwrap_or_default();
    let made = Dict::new();
    for key in to_vec(call.state, &call.args[0])? {
        made.insert(Key::new(key)?, value.clone());
    }
    Ok(Value::Dict(made))
}

/// Returns an iterator over a dictionary in reverse.
pub(crate) fn reversed(dict: &Dict, kind: ViewKind) -> Value {
    let mut items = crate::value::DictView { dict: dict.clone(), kind }.to_vec();
    items.reverse();
    let name = match kind {
        ViewKind::Keys => "dict_reversekeyiterator",
        ViewKind::Values => "dict_reversevalueiterator",
        ViewKind::Items => "dict_reverseitemiterator",
    };
    Value::Iter(Iter::new(name, crate::value::VecIter::new(items)))
}
