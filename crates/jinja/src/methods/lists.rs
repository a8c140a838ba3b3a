//! Methods of lists, tuples and ranges.

use super::{Method, arity, index, keywords};
use crate::error::{Error, ErrorKind};
use crate::python::{equal, index_of, sort_by_keys, to_vec, truthy};
use crate::run::State;
use crate::value::{CallArgs, List, Value};

pub(super) fn find(name: &str) -> Option<Method> {
    Some(match name {
        "append" => append,
        "clear" => clear,
        "copy" => copy,
        "count" => count,
        "extend" => extend,
        "index" => index_in,
        "insert" => insert,
        "pop" => pop,
        "remove" => remove,
        "reverse" => reverse,
        "sort" => sort,
        _ => return None,
    })
}

pub(super) fn find_tuple(name: &str) -> Option<Method> {
    Some(match name {
        "count" => count,
        "index" => index_in,
        _ => return None,
    })
}

pub(super) fn find_range(name: &str) -> Option<Method> {
    find_tuple(name)
}

fn list(object: &Value) -> List {
    match object {
        Value::List(list) => list.clone(),
        _ => List::default(),
    }
}

fn append(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "list", "append", 1, 1)?;
    let list = list(object);
    call.state.check_items(list.len())?;
    list.lock().extend(call.args.pop());
    Ok(Value::None)
}

fn clear(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "list", "clear", 0, 0)?;
    // Dropped after the lock is released: dropping a host object runs code that may use this list.
    let taken = std::mem::take(&mut *list(object).lock());
    drop(taken);
    Ok(Value::None)
}

fn copy(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "list", "copy", 0, 0)?;
    Ok(Value::list(list(object).to_vec()))
}

fn extend(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "list", "extend", 1, 1)?;
    let more = to_vec(call.state, &call.args[0])?;
    let list = list(object);
    call.state.check_items(list.len() + more.len())?;
    list.lock().extend(more);
    Ok(Value::None)
}

fn same_or_equal(state: &mut State, a: &Value, b: &Value) -> Result<bool, Error> {
    // Python's containers compare by identity first. A float here has no identity, and NaN must not equal NaN.
    Ok((a.is_same(b) && !matches!(a, Value::Float(_))) || equal(state, a, b)?)
}

fn count(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "count", 1, 1)?;
    let wanted = call.args[0].clone();
    let mut found = 0;
    for item in to_vec(call.state, object)? {
        call.state.spend(1)?;
        found += usize::from(same_or_equal(call.state, &item, &wanted)?);
    }
    Ok(Value::from(found))
}

fn index_in(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    // A range takes no bounds.
    let most = if matches!(object, Value::Range(_)) { 1 } else { 3 };
    arity(call, object.type_name(), "index", 1, most)?;
    let items = to_vec(call.state, object)?;
    let bound = |value: Option<&Value>, default: i64| -> Result<usize, Error> {
        let at = value.map_or(Ok(default), index)?;
        let len = items.len() as i64;
        Ok((if at < 0 { (at + len).max(0) } else { at.min(len) }) as usize)
    };
    let (start, stop) = (bound(call.args.get(1), 0)?, bound(call.args.get(2), i64::MAX)?);
    let wanted = call.args[0].clone();
    for (at, item) in items.iter().enumerate().take(stop).skip(start) {
        call.state.spend(1)?;
        if same_or_equal(call.state, item, &wanted)? {
            return Ok(Value::from(at));
        }
    }
    let text = match object {
        Value::List(_) => format!("{} is not in list", call.state.repr(&wanted)?),
        Value::Range(_) => format!("{} is not in range", call.state.repr(&wanted)?),
        _ => "tuple.index(x): x not in tuple".to_string(),
    };
    Err(Error::value_error(text))
}

fn insert(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "list", "insert", 2, 2)?;
    let at = index(&call.args[0])?;
    let list = list(object);
    call.state.check_items(list.len())?;
    let mut items = list.lock();
    let len = items.len() as i64;
    let at = if at < 0 { (at + len).max(0) } else { at.min(len) };
    items.insert(at as usize, call.args[1].clone());
    Ok(Value::None)
}

fn pop(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "list", "pop", 0, 1)?;
    let at = call.args.first().map_or(Ok(-1), index)?;
    let list = list(object);
    let mut items = list.lock();
    if items.is_empty() {
        return Err(Error::new(ErrorKind::Index, "pop from empty list"));
    }
    match index_of(at, items.len()) {
        Some(at) => Ok(items.remove(at)),
        None => Err(Error::new(ErrorKind::Index, "pop index out of range")),
    }
}

fn remove(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "list", "remove", 1, 1)?;
    let list = list(object);
    let wanted = call.args[0].clone();
    // Compared on a copy, because comparing may run template code, which must not find the list locked.
    for (at, item) in list.to_vec().iter().enumerate() {
        call.state.spend(1)?;
        if same_or_equal(call.state, item, &wanted)? {
            let mut items = list.lock();
            // That code may have made the list shorter.
            if at < items.len() {
                items.remove(at);
            }
            return Ok(Value::None);
        }
    }
    Err(Error::value_error("list.remove(x): x not in list"))
}

fn reverse(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "list", "reverse", 0, 0)?;
    list(object).lock().reverse();
    Ok(Value::None)
}

fn sort(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    let [key, reverse] = keywords(call, "sort", ["key", "reverse"], 0)?;
    let state = &mut *call.state;
    let reverse = match reverse {
        Some(value) => truthy(state, &value)?,
        None => false,
    };
    let list = list(object);
    let mut items = Vec::new();
    for item in list.to_vec() {
        let by = match &key {
            Some(key) if !key.is_none() => state.call(key, vec![item.clone()], Vec::new())?,
            _ => item.clone(),
        };
        items.push((by, item));
    }
    // A comparison that fails leaves the list as it was; Python leaves it partly sorted.
    let sorted = sort_by_keys(state, items, reverse)?;
    *list.lock() = sorted;
    Ok(Value::None)
}
