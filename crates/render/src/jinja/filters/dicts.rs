//! Filters for dictionaries.

use jinja::python::equal;
use jinja::{CallArgs, Dict, Error, ErrorKind, Key, State, Value};

use super::{class, flag, python_str, salt_error, text};

/// Looks a key up as `container[key]` does; `None` if it does not exist.
fn item(state: &mut State, container: &Value, key: &Value) -> Result<Option<Value>, Missing> {
    match container {
        Value::Dict(dict) => {
            let key = Key::new(key.clone()).map_err(|_| Missing)?;
            Ok(dict.get(&key))
        }
        Value::Tuple(items) => match key.as_i64() {
            Some(at) => Ok(at_index(items, at)),
            None => Err(Missing),
        },
        Value::Object(object) => object.get_item(state, key).map_err(|_| Missing),
        _ => Err(Missing),
    }
}

/// The container has no items.
struct Missing;

fn at_index(items: &[Value], at: i64) -> Option<Value> {
    let place = if at < 0 { items.len() as i64 + at } else { at };
    usize::try_from(place).ok().and_then(|place| items.get(place).cloned())
}

pub fn traverse(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("data", None), ("key", None), ("default", Some(Value::None)), ("delimiter", Some(Value::str(":")))];
    let [data, key, default, delimiter] = call.bind("traverse_dict_and_list", params)?;
    if let Value::Undefined(undefined) = &data {
        return Err(undefined.fail());
    }
    let keys = match &key {
        Value::Int(_) | Value::Bool(_) => vec![key.clone()],
        other => match other.as_str() {
            Some(key) => key.split(&*text(&delimiter)?).map(Value::str).collect(),
            None => jinja::python::to_vec(call.state, other)?,
        },
    };
    let mut value = data;
    for key in keys {
        match step(call.state, &value, &key)? {
            Some(next) => value = next,
            None => return Ok(default),
        }
    }
    Ok(value)
}

fn step(state: &mut State, value: &Value, key: &Value) -> Result<Option<Value>, Error> {
    if let Value::List(list) = value {
        let items = list.to_vec();
        let index = match key {
            Value::Int(_) | Value::Bool(_) => key.as_i64(),
            other => other.as_str().and_then(|text| python::integer(text, 10)).and_then(|n| i64::try_from(n).ok()),
        };
        // A map in the list that has the key comes before the item at the place.
        let wanted = index.map_or(key.clone(), Value::Int);
        for embedded in items.iter().filter_map(Value::as_dict) {
            if let Some(found) = Key::new(wanted.clone()).ok().and_then(|key| embedded.get(&key)) {
                return Ok(Some(found));
            }
        }
        return Ok(index.and_then(|index| at_index(&items, index)));
    }
    match item(state, value, key) {
        Ok(Some(found)) => Ok(Some(found)),
        Ok(None) => {
            // Keys that are numbers are found by their text.
            let Some(text) = key.as_str() else { return Ok(None) };
            let loaded = crate::convert::seen(&yaml::args::parse_cli_arg(text));
            // Loading did not change it, so that a second look finds nothing more.
            if equal(state, &loaded, key)? {
                return Ok(None);
            }
            Ok(item(state, value, &loaded).ok().flatten())
        }
        Err(Missing) => Ok(None),
    }
}

/// The arguments of the filters that change a dictionary below a path of keys.
struct Change {
    dict: Value,
    /// The dictionary that holds the last key.
    holder: Dict,
    last: Key,
    value: Value,
    ordered: bool,
}

fn new_dict(ordered: bool) -> Dict {
    if ordered { Dict::ordered() } else { Dict::new() }
}

fn change(call: &mut CallArgs, name: &str) -> Result<Change, Error> {
    let params = [
        ("in_dict", None),
        ("keys", None),
        ("value", None),
        ("delimiter", Some(Value::str(":"))),
        ("ordered_dict", Some(Value::Bool(false))),
    ];
    let [dict, keys, value, delimiter, ordered] = call.bind(name, params)?;
    let ordered = flag(call.state, &ordered)?;
    let (keys, delimiter) = (text(&keys)?, text(&delimiter)?);
    let mut holder = match &dict {
        Value::Dict(dict) => dict.clone(),
        Value::Undefined(undefined) => return Err(undefined.fail()),
        other => {
            let class = other.type_name();
            return Err(Error::type_error(format!("'{class}' object does not support item assignment")));
        }
    };
    let mut parts: Vec<&str> = keys.split(&*delimiter).collect();
    let last = Key::str(parts.pop().unwrap_or_default());
    for part in parts {
        holder = match holder.get_str(part) {
            Some(Value::Dict(inner)) => inner,
            _ => {
                let inner = new_dict(ordered);
                holder.insert_str(part, Value::Dict(inner.clone()));
                inner
            }
        };
    }
    Ok(Change { dict, holder, last, value, ordered })
}

impl Change {
    /// Returns the value under the last key; inserts a new one if there is none.
    fn current(&self, make: impl FnOnce() -> Value) -> Value {
        match self.holder.get(&self.last) {
            // A null under the last key counts as missing, as in Salt.
            Some(Value::None) | None => {
                let new = make();
                self.holder.insert(self.last.clone(), new.clone());
                new
            }
            Some(value) => value,
        }
    }
}

pub fn set(call: &mut CallArgs) -> Result<Value, Error> {
    let Change { dict, holder, last, value, .. } = change(call, "set_dict_key_value")?;
    holder.insert(last, value);
    Ok(dict)
}

fn invocation(text: String) -> Error {
    salt_error("SaltInvocationError", text)
}

pub fn append(call: &mut CallArgs) -> Result<Value, Error> {
    let change = change(call, "append_dict_key_value")?;
    match change.current(|| Value::list(Vec::new())) {
        Value::List(list) => list.push(change.value),
        other => return Err(invocation(format!("The last key contains a {}, which cannot append.", class(&other)))),
    }
    Ok(change.dict)
}

pub fn extend(call: &mut CallArgs) -> Result<Value, Error> {
    let change = change(call, "extend_dict_key_value")?;
    match change.current(|| Value::list(Vec::new())) {
        // The items are collected before the list is locked: they may come from the same list.
        current @ Value::List(_) => match jinja::python::to_vec(call.state, &change.value) {
            Ok(items) => current.as_list().into_iter().for_each(|list| list.lock().extend(items.iter().cloned())),
            Err(_) => {
                let (into, what) = (class(&current), class(&change.value));
                return Err(invocation(format!("Cannot extend {into} with a {what}.")));
            }
        },
        other => return Err(invocation(format!("The last key contains a {}, which cannot extend.", class(&other)))),
    }
    Ok(change.dict)
}

pub fn update(call: &mut CallArgs) -> Result<Value, Error> {
    let change = change(call, "update_dict_key_value")?;
    match change.current(|| Value::Dict(new_dict(change.ordered))) {
        Value::Dict(dict) => match pairs(call.state, &change.value) {
            Some(pairs) => pairs.into_iter().for_each(|(key, value)| drop(dict.insert(key, value))),
            None => {
                let what = class(&change.value);
                return Err(invocation(format!("Cannot update {} with a {what}.", class(&Value::Dict(dict)))));
            }
        },
        other => return Err(invocation(format!("The last key contains a {}, which cannot update.", class(&other)))),
    }
    Ok(change.dict)
}

/// Returns the pairs of a dictionary or of a list of pairs; `None` for anything that `dict.update()` refuses.
fn pairs(state: &mut State, value: &Value) -> Option<Vec<(Key, Value)>> {
    if let Value::Dict(dict) = value {
        return dict.entries().into_iter().map(|(key, value)| Some((Key::new(key).ok()?, value))).collect();
    }
    let items = jinja::python::to_vec(state, value).ok()?;
    let mut pairs = Vec::new();
    for item in items {
        let [key, value] = <[Value; 2]>::try_from(jinja::python::to_vec(state, &item).ok()?).ok()?;
        pairs.push((Key::new(key).ok()?, value));
    }
    Some(pairs)
}

pub fn compare(call: &mut CallArgs) -> Result<Value, Error> {
    let [old, new] = call.bind("compare_dicts", [("old", Some(Value::None)), ("new", Some(Value::None))])?;
    let dict = |value: &Value| match value {
        Value::Dict(dict) => Ok(dict.clone()),
        other => Err(Error::type_error(format!("argument of type '{}' is not iterable", other.type_name()))),
    };
    let (old, new) = (dict(&old)?, dict(&new)?);
    let changes = Dict::new();
    let pair = |old: Value, new: Value| [("old", old), ("new", new)].into_iter().collect::<Dict>();
    for (key, value) in new.entries() {
        let key = Key::new(key)?;
        match old.get(&key) {
            None => drop(changes.insert(key, Value::Dict(pair(Value::str(""), value)))),
            Some(before) if !equal(call.state, &value, &before)? => {
                changes.insert(key, Value::Dict(pair(before, value)));
            }
            Some(_) => {}
        }
    }
    for (key, value) in old.entries() {
        let key = Key::new(key)?;
        if new.get(&key).is_none() {
            let gone: Dict = [("new", Value::str("")), ("old", value)].into_iter().collect();
            changes.insert(key, Value::Dict(gone));
        }
    }
    Ok(Value::Dict(changes))
}

pub fn to_entries(call: &mut CallArgs) -> Result<Value, Error> {
    let [data] = call.bind("to_entries", [("data", None)])?;
    let entries = match &data {
        Value::Dict(dict) => dict.entries(),
        Value::List(list) => {
            list.to_vec().into_iter().enumerate().map(|(at, value)| (Value::from(at), value)).collect()
        }
        Value::Undefined(undefined) => return Err(undefined.fail()),
        _ => return Err(salt_error("SaltException", "Input data must be a dict or list")),
    };
    let entry = |(key, value)| Value::Dict([("key", key), ("value", value)].into_iter().collect());
    Ok(Value::list(entries.into_iter().map(entry).collect()))
}

pub fn from_entries(call: &mut CallArgs) -> Result<Value, Error> {
    let [entries] = call.bind("from_entries", [("entries", None)])?;
    let made = Dict::new();
    for entry in jinja::python::to_vec(call.state, &entries)? {
        let Some(entry) = entry.as_dict() else {
            return Err(Error::type_error(format!("'{}' object is not iterable", entry.type_name())));
        };
        // Names of keys count in any case.
        let named = |wanted: &str| {
            let same = |(key, _): &(Value, Value)| key.as_str().is_some_and(|key| key.eq_ignore_ascii_case(wanted));
            entry.entries().into_iter().rfind(same).map(|(_, value)| value)
        };
        for name in ["key", "name"] {
            let Some(key) = named(name) else { continue };
            if flag(call.state, &key)? {
                made.insert(Key::new(key)?, named("value").unwrap_or_default());
                break;
            }
        }
    }
    Ok(Value::Dict(made))
}

pub fn mysql_to_dict(call: &mut CallArgs) -> Result<Value, Error> {
    let [data, key] = call.bind("mysql_to_dict", [("data", None), ("key", None)])?;
    let key = Key::new(key)?;
    let table = Dict::new();
    let mut headers: Vec<String> = Vec::new();
    for line in jinja::python::to_vec(call.state, &data)? {
        let line = text(&line)?;
        if line.is_empty() || line.starts_with('+') {
            continue;
        }
        let cells: Vec<String> = line.split('|').map(|cell| python::strip(cell).to_owned()).collect();
        // Salt takes the first line with more than one cell for the header; earlier ones, such as a title, are
        // overwritten.
        if headers.len() <= 1 {
            headers = cells;
            continue;
        }
        let row = Dict::new();
        // The cells before the first and after the last `|` are empty.
        for (header, cell) in headers.iter().zip(&cells).take(headers.len() - 1).skip(1) {
            let mut inner = CallArgs::new(call.state, vec![Value::str(cell.as_str())]);
            row.insert_str(header.as_str(), super::text::to_num(&mut inner)?);
        }
        let Some(name) = row.get(&key) else {
            return Err(Error::new(ErrorKind::Key, python_str(call.state, key.value())?));
        };
        table.insert(Key::new(name)?, Value::Dict(row));
    }
    Ok(Value::Dict(table))
}

pub fn method_call(call: &mut CallArgs) -> Result<Value, Error> {
    if call.args.len() < 2 {
        return Err(Error::type_error("method_call() missing 1 required positional argument: 'f_name'"));
    }
    let args = call.args.split_off(2);
    let [object, name] = <[Value; 2]>::try_from(std::mem::take(&mut call.args)).unwrap_or_default();
    let kwargs = std::mem::take(&mut call.kwargs);
    let name = Value::Str(text(&name)?);
    // Through the filter `attr`, so that the sandbox decides here, too.
    let method = call.state.call_filter(&Value::str("attr"), vec![object, name], Vec::new())?;
    if method.is_undefined() {
        return Ok(Value::None);
    }
    call.state.call(&method, args, kwargs)
}

pub fn json_query(call: &mut CallArgs) -> Result<Value, Error> {
    let [data, expression] = call.bind("json_query", [("data", None), ("expr", None)])?;
    let expression = match &expression {
        Value::None => "".into(),
        other => text(other)?,
    };
    crate::jmespath::search(call.state, &expression, &data)
}
