//! Methods of sets and of views.

use super::{Method, arity};
use crate::error::{Error, ErrorKind};
use crate::python::{repr, to_vec};
use crate::value::{CallArgs, Items, Key, Set, Value};

pub(super) fn find(name: &str) -> Option<Method> {
    Some(match name {
        "add" => add,
        "discard" => discard,
        "remove" => remove,
        "clear" => clear,
        "copy" => copy,
        "union" => union,
        "update" => update,
        "intersection_update" => |object, call| {
            none_by_name(call, "intersection_update")?;
            replace(object, call, intersection)
        },
        "difference_update" => |object, call| {
            none_by_name(call, "difference_update")?;
            replace(object, call, difference)
        },
        "symmetric_difference_update" => |object, call| {
            arity(call, "set", "symmetric_difference_update", 1, 1)?;
            replace(object, call, symmetric_difference)
        },
        "intersection" => intersection,
        "difference" => difference,
        "symmetric_difference" => symmetric_difference,
        "isdisjoint" => isdisjoint,
        "issubset" => issubset,
        "issuperset" => issuperset,
        "pop" => pop,
        _ => return None,
    })
}

pub(super) fn find_view(name: &str) -> Option<Method> {
    (name == "isdisjoint").then_some(isdisjoint as Method)
}

fn set(object: &Value) -> Set {
    match object {
        Value::Set(set) => set.clone(),
        _ => Set::default(),
    }
}

fn keys(call: &mut CallArgs, value: &Value) -> Result<Vec<Key>, Error> {
    to_vec(call.state, value)?.into_iter().map(Key::new).collect()
}

/// Returns the arguments as sets, so that each lookup is constant time and duplicates count once.
fn others(call: &mut CallArgs) -> Result<Vec<Items>, Error> {
    let args = std::mem::take(&mut call.args);
    args.iter().map(|arg| Ok(keys(call, arg)?.into_iter().collect())).collect()
}

fn count(sets: &[Items]) -> usize {
    sets.iter().map(Items::len).sum()
}

fn none_by_name(call: &CallArgs, name: &str) -> Result<(), Error> {
    if call.kwargs.is_empty() {
        return Ok(());
    }
    Err(Error::type_error(format!("{name}() takes no keyword arguments")))
}

/// Replaces the contents of the set by the result of a method.
fn replace(object: &Value, call: &mut CallArgs, method: Method) -> Result<Value, Error> {
    // Computed before the set is locked: an argument may be this set.
    let made = set(&method(object, call)?).lock().clone();
    *set(object).lock() = made;
    Ok(Value::None)
}

fn add(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "add", 1, 1)?;
    let key = Key::new(call.args.remove(0))?;
    let set = set(object);
    call.state.check_items(set.lock().len())?;
    set.lock().insert(key);
    Ok(Value::None)
}

fn discard(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "discard", 1, 1)?;
    let key = Key::new(call.args.remove(0))?;
    set(object).lock().shift_remove(&key);
    Ok(Value::None)
}

fn remove(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "remove", 1, 1)?;
    let key = Key::new(call.args.remove(0))?;
    if set(object).lock().shift_remove(&key) {
        return Ok(Value::None);
    }
    Err(Error::new(ErrorKind::Key, repr(call.state, key.value())?))
}

fn clear(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "clear", 0, 0)?;
    set(object).lock().clear();
    Ok(Value::None)
}

fn copy(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "copy", 0, 0)?;
    let items = set(object).lock().clone();
    Ok(Value::Set(Set::new(items)))
}

fn pop(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "pop", 0, 0)?;
    // Python pops an arbitrary item. The oldest makes templates reproducible.
    let popped = set(object).lock().shift_remove_index(0);
    popped.map(Key::into_value).ok_or_else(|| Error::new(ErrorKind::Key, "'pop from an empty set'"))
}

fn union(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    none_by_name(call, "union")?;
    let mut all = set(object).lock().clone();
    let more = others(call)?;
    call.state.check_items(all.len() + count(&more))?;
    all.extend(more.into_iter().flatten());
    Ok(Value::Set(Set::new(all)))
}

fn update(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    none_by_name(call, "update")?;
    let more = others(call)?;
    let set = set(object);
    call.state.check_items(set.lock().len() + count(&more))?;
    set.lock().extend(more.into_iter().flatten());
    Ok(Value::None)
}

fn intersection(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    none_by_name(call, "intersection")?;
    let mut all = set(object).lock().clone();
    for other in others(call)? {
        all.retain(|key| other.contains(key));
    }
    Ok(Value::Set(Set::new(all)))
}

fn difference(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    none_by_name(call, "difference")?;
    let mut all = set(object).lock().clone();
    for other in others(call)? {
        all.retain(|key| !other.contains(key));
    }
    Ok(Value::Set(Set::new(all)))
}

fn symmetric_difference(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "symmetric_difference", 1, 1)?;
    let mut all = set(object).lock().clone();
    for key in others(call)?.into_iter().flatten() {
        if !all.shift_remove(&key) {
            all.insert(key);
        }
    }
    Ok(Value::Set(Set::new(all)))
}

fn isdisjoint(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "isdisjoint", 1, 1)?;
    let mine: Items = keys(call, object)?.into_iter().collect();
    let other = others(call)?;
    Ok(Value::Bool(!other.iter().flatten().any(|key| mine.contains(key))))
}

fn issubset(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "issubset", 1, 1)?;
    let mine = keys(call, object)?;
    let other = others(call)?;
    Ok(Value::Bool(mine.iter().all(|key| other.iter().any(|other| other.contains(key)))))
}

fn issuperset(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "set", "issuperset", 1, 1)?;
    let mine: Items = keys(call, object)?.into_iter().collect();
    let other = others(call)?;
    Ok(Value::Bool(other.iter().flatten().all(|key| mine.contains(key))))
}
