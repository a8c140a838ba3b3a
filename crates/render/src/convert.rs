//! Converts between Saltern's values and the template engine's.

use jinja::{CallArgs, Dict, Error, ErrorKind, Key, State, Value as Seen};
use value::{Map, Value};

/// Containers nested deeper are refused: they would contain themselves.
const MAX_DEPTH: usize = 400;

/// Converts a value for templates. Every call makes new lists and dictionaries.
pub fn seen(value: &Value) -> Seen {
    match value {
        Value::Null => Seen::None,
        Value::Bool(flag) => Seen::Bool(*flag),
        Value::Int(number) => Seen::Int(*number),
        Value::BigInt(number) => Seen::int((**number).clone()),
        Value::Float(number) => Seen::Float(*number),
        Value::Str(text) => Seen::str(text.as_str()),
        Value::Bytes(bytes) => Seen::Bytes(bytes[..].into()),
        Value::List(items) => Seen::list(items.iter().map(seen).collect()),
        Value::Map(map) => Seen::Dict(seen_map(map)),
        // Templates have no type for dates; they print them or compare them as text.
        Value::DateTime(time) => Seen::str(time.to_string()),
        Value::Constant(constant) => seen(&constant.1),
    }
}

/// Converts a map for templates.
pub fn seen_map(map: &Map) -> Dict {
    let dict = if map.is_ordered() { Dict::ordered() } else { Dict::with_capacity(map.len()) };
    for (key, value) in map {
        dict.insert(seen_key(key), seen(value));
    }
    dict
}

/// Converts a key, which must be hashable: a list becomes a tuple.
fn seen_key(key: &Value) -> Key {
    let seen = match key {
        Value::List(items) => Seen::tuple(items.iter().map(|item| seen_key(item).into_value()).collect()),
        Value::Map(_) => Seen::str(key.to_string()),
        other => seen(other),
    };
    Key::new(seen).unwrap_or_else(|_| Key::str(key.to_string()))
}

/// Converts a template's value. Tuples, sets and other iterables become lists, markup becomes text.
///
/// # Errors
/// If it contains an undefined value or itself.
pub fn plain(state: &mut State, value: &Seen) -> Result<Value, Error> {
    below(state, value, 0)
}

fn below(state: &mut State, value: &Seen, depth: usize) -> Result<Value, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::Recursion, "maximum recursion depth exceeded"));
    }
    Ok(match value {
        Seen::None => Value::Null,
        Seen::Bool(flag) => Value::Bool(*flag),
        Seen::Int(number) => Value::Int(*number),
        Seen::Big(number) => Value::from((**number).clone()),
        Seen::Float(number) => Value::Float(*number),
        Seen::Str(text) | Seen::Markup(text) => Value::from(&**text),
        Seen::Bytes(bytes) => Value::from(&**bytes),
        Seen::List(items) => list(state, &items.to_vec(), depth)?,
        Seen::Tuple(items) => list(state, items, depth)?,
        Seen::Dict(dict) => map(state, dict, depth)?.into(),
        // The error must be raised here, in the template, and not in the function that would get a made-up value.
        Seen::Undefined(undefined) => return Err(undefined.fail()),
        // An iterator is consumed by this, as by passing it to a function in Python.
        Seen::Set(_) | Seen::Range(_) | Seen::View(_) | Seen::Iter(_) => {
            let items = jinja::python::to_vec(state, value)?;
            list(state, &items, depth)?
        }
        Seen::Object(_) | Seen::Function(_) => Value::from(state.str(value)?.to_string()),
    })
}

fn list(state: &mut State, items: &[Seen], depth: usize) -> Result<Value, Error> {
    items.iter().map(|item| below(state, item, depth + 1)).collect::<Result<Vec<_>, _>>().map(Value::List)
}

fn map(state: &mut State, dict: &Dict, depth: usize) -> Result<Map, Error> {
    let mut map = Map::with_capacity(dict.len());
    for (key, value) in dict.entries() {
        let key = below(state, &key, depth + 1)?;
        let value = below(state, &value, depth + 1)?;
        map.insert(key, value);
    }
    Ok(if dict.is_ordered() { map.ordered() } else { map })
}

/// Converts the arguments of a call in a template to those of an execution function.
///
/// # Errors
/// As [`plain`].
pub fn arguments(call: &mut CallArgs) -> Result<exec::Call, Error> {
    let args = std::mem::take(&mut call.args);
    let kwargs = std::mem::take(&mut call.kwargs);
    let mut given = exec::Call::default();
    for value in &args {
        given.args.push(plain(call.state, value)?);
    }
    for (name, value) in &kwargs {
        let value = plain(call.state, value)?;
        given.kwargs.insert(&**name, value);
    }
    Ok(given)
}
