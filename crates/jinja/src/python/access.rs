//! Truth, length, walking, membership, attributes and items.

use crate::error::{Error, ErrorKind};
use crate::methods;
use crate::run::State;
use crate::value::{
    DictIter, Key, ListIter, RangeIter, StrIter, Undefined, UndefinedKind, Value, ValueIter, VecIter, ViewKind,
};

/// Returns whether a value counts as true.
pub fn truthy(state: &mut State, value: &Value) -> Result<bool, Error> {
    Ok(match value {
        Value::None => false,
        Value::Bool(flag) => *flag,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Str(text) | Value::Markup(text) => !text.is_empty(),
        Value::Bytes(bytes) => !bytes.is_empty(),
        Value::List(list) => !list.is_empty(),
        Value::Tuple(items) => !items.is_empty(),
        Value::Dict(dict) => !dict.is_empty(),
        Value::Set(set) => !set.is_empty(),
        Value::Range(range) => !range.is_empty(),
        Value::View(view) => !view.dict.is_empty(),
        Value::Undefined(undefined) => {
            undefined.lenient()?;
            false
        }
        Value::Object(object) => match object.truthy() {
            Some(flag) => flag,
            None => object.len(state)?.is_none_or(|len| len > 0),
        },
        Value::Big(_) | Value::Iter(_) | Value::Function(_) => true,
    })
}

/// Counts a value as Python's `len()`.
pub fn len(state: &mut State, value: &Value) -> Result<usize, Error> {
    let counted = match value {
        Value::Str(text) | Value::Markup(text) => Some(super::text::char_count(text)),
        Value::Bytes(bytes) => Some(bytes.len()),
        Value::List(list) => Some(list.len()),
        Value::Tuple(items) => Some(items.len()),
        Value::Dict(dict) => Some(dict.len()),
        Value::Set(set) => Some(set.len()),
        Value::Range(range) => Some(range.len()),
        Value::View(view) => Some(view.dict.len()),
        Value::Undefined(undefined) => {
            undefined.lenient()?;
            Some(0)
        }
        Value::Object(object) => object.len(state)?,
        _ => None,
    };
    counted.ok_or_else(|| Error::type_error(format!("object of type '{}' has no len()", value.class_path())))
}

/// Returns an iterator over a value, or the TypeError of Python's `iter()`.
pub fn iterate(state: &mut State, value: &Value) -> Result<Box<dyn ValueIter>, Error> {
    Ok(match value {
        Value::List(list) => Box::new(ListIter { list: list.clone(), next: 0 }),
        Value::Tuple(items) => Box::new(VecIter::new(items.to_vec())),
        Value::Dict(dict) => Box::new(DictIter::new(dict, ViewKind::Keys)),
        Value::View(view) => Box::new(DictIter::new(&view.dict, view.kind)),
        // A copy: changing a set during a loop over it is an error in Python and harmless here.
        Value::Set(set) => Box::new(VecIter::new(set.to_vec())),
        Value::Str(text) | Value::Markup(text) => Box::new(StrIter { text: text.clone(), next: 0 }),
        Value::Bytes(bytes) => Box::new(VecIter::new(bytes.iter().map(|byte| Value::Int((*byte).into())).collect())),
        Value::Range(range) => Box::new(RangeIter { range: **range, next: 0 }),
        Value::Iter(iter) => Box::new(iter.clone()),
        Value::Undefined(undefined) => {
            undefined.lenient()?;
            Box::new(VecIter::new(Vec::new()))
        }
        Value::Object(object) => object.iterate(state)?.ok_or_else(|| not_iterable(value))?,
        _ => return Err(not_iterable(value)),
    })
}

fn not_iterable(value: &Value) -> Error {
    Error::type_error(format!("'{}' object is not iterable", value.class_path()))
}

/// Returns whether `iter()` would succeed. A generator is not advanced.
pub(crate) fn is_iterable(state: &mut State, value: &Value) -> Result<bool, Error> {
    match iterate(state, value) {
        Ok(_) => Ok(true),
        // Every other error is a fault in the object and not an answer.
        Err(error) if *error.kind() == ErrorKind::Type => Ok(false),
        Err(error) => Err(error),
    }
}

/// Collects all items of an iterable.
pub fn to_vec(state: &mut State, value: &Value) -> Result<Vec<Value>, Error> {
    Ok(match value {
        Value::List(list) => list.to_vec(),
        Value::Tuple(items) => items.to_vec(),
        Value::Set(set) => set.to_vec(),
        Value::View(view) => view.to_vec(),
        Value::Dict(dict) => dict.keys(),
        _ => {
            let mut walk = iterate(state, value)?;
            let mut items = Vec::new();
            while let Some(item) = walk.next(state)? {
                state.spend(1)?;
                // An iterator need not end: `cycler` objects and host objects can continue for ever.
                state.check_items(items.len())?;
                items.push(item);
            }
            items
        }
    })
}

/// Unpacks a value into `targets` parts, with Python's errors if there are more or fewer.
pub(crate) fn unpack(state: &mut State, value: &Value, targets: usize) -> Result<Vec<Value>, Error> {
    let sized = |items: &[Value]| -> Result<Vec<Value>, Error> {
        match items.len() {
            len if len == targets => Ok(items.to_vec()),
            len if len < targets => Err(too_few(targets, len)),
            _ => Err(too_many(targets)),
        }
    };
    match value {
        Value::Tuple(items) => sized(items),
        Value::List(list) => sized(&list.to_vec()),
        _ => {
            let mut walk = match iterate(state, value) {
                Ok(walk) => walk,
                Err(error) if *error.kind() == ErrorKind::Type => {
                    let name = value.class_path();
                    return Err(Error::type_error(format!("cannot unpack non-iterable {name} object")));
                }
                Err(error) => return Err(error),
            };
            let mut items = Vec::with_capacity(targets);
            while items.len() < targets {
                match walk.next(state)? {
                    Some(item) => items.push(item),
                    None => return Err(too_few(targets, items.len())),
                }
            }
            // Python asks for one item more than it needs, to report surplus ones, but never counts them.
            if walk.next(state)?.is_some() {
                return Err(too_many(targets));
            }
            Ok(items)
        }
    }
}

fn too_few(expected: usize, got: usize) -> Error {
    Error::value_error(format!("not enough values to unpack (expected {expected}, got {got})"))
}

fn too_many(expected: usize) -> Error {
    Error::value_error(format!("too many values to unpack (expected {expected})"))
}

/// Evaluates `item in container`.
pub fn contains(state: &mut State, container: &Value, item: &Value) -> Result<bool, Error> {
    match container {
        Value::Str(text) | Value::Markup(text) => match item {
            Value::Str(part) | Value::Markup(part) => Ok(text.contains(&**part)),
            other => {
                let name = other.class_path();
                Err(Error::type_error(format!("'in <string>' requires string as left operand, not {name}")))
            }
        },
        Value::Dict(dict) => match item {
            Value::Str(text) | Value::Markup(text) => Ok(dict.contains_str(text)),
            // An unhashable left side is a TypeError, not false.
            other => Ok(dict.lock().contains_key(&Key::new(other.clone())?)),
        },
        Value::Set(set) => Ok(set.lock().contains(&Key::new(item.clone())?)),
        Value::View(view) => match view.kind {
            ViewKind::Keys => contains(state, &Value::Dict(view.dict.clone()), item),
            ViewKind::Items => {
                // Anything but a pair is simply not in the view.
                let Value::Tuple(pair) = item else { return Ok(false) };
                let [key, value] = &**pair else { return Ok(false) };
                let Some(found) = view.dict.get(&Key::new(key.clone())?) else { return Ok(false) };
                super::equal(state, &found, value)
            }
            ViewKind::Values => search(state, container, item),
        },
        Value::Range(range) => match item.as_i64() {
            Some(number) => {
                // Computed, not searched, as in Python; 128 bits, because the distance may exceed 64.
                let distance = i128::from(number) - i128::from(range.start);
                let step = i128::from(range.step);
                Ok(distance % step == 0 && distance / step >= 0 && distance / step < range.len() as i128)
            }
            None => search(state, container, item),
        },
        Value::Undefined(undefined) => {
            undefined.lenient()?;
            Ok(false)
        }
        Value::Bytes(bytes) => match item {
            // windows() panics for a size of zero.
            Value::Bytes(part) => Ok(part.is_empty() || bytes.windows(part.len()).any(|window| window == &**part)),
            other => Ok(other.as_i64().is_some_and(|byte| bytes.iter().any(|have| i64::from(*have) == byte))),
        },
        Value::Object(object) => match object.contains(state, item)? {
            Some(found) => Ok(found),
            None => search(state, container, item),
        },
        _ => search(state, container, item),
    }
}

fn search(state: &mut State, container: &Value, item: &Value) -> Result<bool, Error> {
    let mut walk = match iterate(state, container) {
        Ok(walk) => walk,
        Err(error) if *error.kind() == ErrorKind::Type => {
            let name = container.class_path();
            return Err(Error::type_error(format!("argument of type '{name}' is not iterable")));
        }
        Err(error) => return Err(error),
    };
    while let Some(found) = walk.next(state)? {
        state.spend(1)?;
        // `in` compares by identity first. A float here has no identity, and NaN is in no list.
        if found.is_same(item) && !matches!(item, Value::Float(_)) || super::equal(state, &found, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a value can be called.
pub(crate) fn is_callable(value: &Value) -> bool {
    match value {
        // Undefined values have a `__call__`, which raises their error.
        Value::Function(_) | Value::Undefined(_) => true,
        Value::Object(object) => object.is_callable(),
        _ => false,
    }
}

/// Returns whether a value is a mapping to Python's `abc.Mapping`.
pub(crate) fn is_mapping(value: &Value) -> bool {
    match value {
        Value::Dict(_) => true,
        Value::Object(object) => object.is_mapping(),
        _ => false,
    }
}

/// Looks up an attribute as Python's `getattr()`; `None` if it does not exist.
fn python_attr(state: &mut State, object: &Value, name: &str) -> Result<Option<Value>, Error> {
    match object {
        Value::Undefined(undefined) => {
            // Jinja lets these fall through even for undefined values, because Python probes for them.
            let dunder = name.len() >= 2 && name.starts_with("__") && name.ends_with("__");
            if dunder {
                return Ok(methods::is_dunder(object, name).then(|| methods::dunder(object, name)));
            }
            if undefined.kind == UndefinedKind::Chainable {
                return Ok(Some(object.clone()));
            }
            return Err(undefined.fail());
        }
        Value::Object(host) => {
            if let Some(found) = host.get_attr(state, name)? {
                return Ok(Some(found));
            }
        }
        _ => {
            if let Some(method) = methods::attribute(object, name) {
                return Ok(Some(method));
            }
        }
    }
    Ok((name.starts_with("__") && methods::is_dunder(object, name)).then(|| methods::dunder(object, name)))
}

fn guarded(state: &mut State, object: &Value, name: &str, found: Value) -> Value {
    // The sandbox judges an attribute only when it exists. What does not exist is looked up as an item and then
    // undefined.
    if state.env().sandbox && (name.starts_with('_') || methods::is_internal(object, name)) {
        return Undefined::unsafe_attribute(state.env().undefined, object, name);
    }
    found
}

/// Evaluates `object.name`: the attribute, else the item, else undefined.
pub(crate) fn get_attr(state: &mut State, object: &Value, name: &crate::value::Str) -> Result<Value, Error> {
    if let Value::Dict(dict) = object {
        // The methods of a dictionary come first, as they do in Python.
        if !methods::is_dict_method(name) && !name.starts_with("__") {
            return Ok(match dict.get_str(name) {
                Some(found) => found,
                None => Undefined::of(state.env().undefined, object, Value::Str(name.clone())),
            });
        }
    }
    if let Some(found) = python_attr(state, object, name)? {
        return Ok(guarded(state, object, name, found));
    }
    match get_item_raw(state, object, &Value::Str(name.clone())) {
        Ok(found) => return Ok(found),
        Err(error) if is_lookup(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(Undefined::of(state.env().undefined, object, Value::Str(name.clone())))
}

fn is_lookup(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Type | ErrorKind::Key | ErrorKind::Index | ErrorKind::Lookup)
        && error.places().is_empty()
}

/// Evaluates `object[key]`: the item, else the attribute, else undefined.
pub(crate) fn get_item(state: &mut State, object: &Value, key: &Value) -> Result<Value, Error> {
    match get_item_raw(state, object, key) {
        Ok(found) => return Ok(found),
        Err(error) if is_lookup(&error) => {}
        Err(error) => return Err(error),
    }
    if let Value::Str(name) | Value::Markup(name) = key
        && let Some(found) = python_attr(state, object, name)?
    {
        return Ok(guarded(state, object, name, found));
    }
    Ok(Undefined::of(state.env().undefined, object, key.clone()))
}

/// Evaluates `object[key]` as Python does, with its errors.
pub(crate) fn get_item_raw(state: &mut State, object: &Value, key: &Value) -> Result<Value, Error> {
    // CPython names the type in each of these messages, and templates in the field are debugged by them.
    let index = |len: usize, what: &str| -> Result<usize, Error> {
        match key {
            Value::Int(_) | Value::Bool(_) => super::index_of(key.as_i64().unwrap_or(0), len)
                .ok_or_else(|| Error::new(ErrorKind::Index, format!("{what} index out of range"))),
            Value::Big(_) => Err(Error::new(ErrorKind::Index, "cannot fit 'int' into an index-sized integer")),
            other => {
                let name = other.class_path();
                Err(Error::type_error(format!("{what} indices must be integers or slices, not {name}")))
            }
        }
    };
    match object {
        Value::Dict(dict) => {
            let found = match key {
                Value::Str(text) | Value::Markup(text) => dict.get_str(text),
                other => dict.get(&Key::new(other.clone())?),
            };
            found.ok_or_else(|| Error::new(ErrorKind::Key, super::debug(key)))
        }
        Value::List(list) => {
            // Bounds check and access under one lock: another thread may share a list of the globals.
            let items = list.lock();
            let at = index(items.len(), "list")?;
            Ok(items[at].clone())
        }
        Value::Tuple(items) => Ok(items[index(items.len(), "tuple")?].clone()),
        Value::Str(text) | Value::Markup(text) => {
            let at = index(super::text::char_count(text), "string")?;
            let char = super::text::char_at(text, at).unwrap_or_default();
            let mut buffer = [0; 4];
            let one: &str = char.encode_utf8(&mut buffer);
            Ok(if matches!(object, Value::Markup(_)) { Value::markup(one) } else { Value::str(one) })
        }
        Value::Bytes(bytes) => Ok(Value::Int(bytes[index(bytes.len(), "byte")?].into())),
        Value::Range(range) => {
            let at = index(range.len(), "range object")?;
            Ok(Value::Int(range.at(at)))
        }
        Value::Undefined(undefined) => {
            if undefined.kind == UndefinedKind::Chainable {
                Ok(object.clone())
            } else {
                Err(undefined.fail())
            }
        }
        Value::Object(host) => match host.get_item(state, key)? {
            Some(found) => Ok(found),
            // A host object with items lacks this one; the others cannot be subscripted at all. Jinja turns both into
            // undefined, but `get_item_raw` also serves formats, which show the difference.
            None if host.has_items() => Err(Error::new(ErrorKind::Key, super::debug(key))),
            None => Err(not_subscriptable(object)),
        },
        _ => Err(not_subscriptable(object)),
    }
}

fn not_subscriptable(object: &Value) -> Error {
    Error::type_error(format!("'{}' object is not subscriptable", object.class_path()))
}
