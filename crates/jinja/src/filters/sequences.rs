//! Filters of sequences and mappings that give their result at once.

use rand::Rng;

use super::{Path, empty};
use crate::error::{Error, ErrorKind};
use crate::methods::dicts::reversed;
use crate::python::{self, less_than, sort_by_keys, to_vec, truthy};
use crate::value::{CallArgs, Iter, Object, Tuple, Undefined, Value, ValueIter, VecIter, ViewKind};

pub(super) fn length(call: &mut CallArgs) -> Result<Value, Error> {
    call.no_kwargs("len")?;
    let given = call.args.len();
    if given != 1 {
        return Err(Error::type_error(format!("len() takes exactly one argument ({given} given)")));
    }
    let value = call.args.swap_remove(0);
    python::len(call.state, &value).map(Value::from)
}

pub(super) fn list(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("sync_do_list", [("value", None)])?;
    Ok(Value::list(to_vec(call.state, &value)?))
}

pub(super) fn first(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("sync_do_first", [("seq", None)])?;
    let state = &mut *call.state;
    let mut walk = python::iterate(state, &value)?;
    match ValueIter::next(&mut *walk, state)? {
        Some(first) => Ok(first),
        None => Ok(empty(state, "No first item, sequence was empty.")),
    }
}

/// Returns the items in reverse, or Python's TypeError if `reversed()` refuses the value.
fn backwards(call: &mut CallArgs, value: &Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::List(_)
        | Value::Tuple(_)
        | Value::Str(_)
        | Value::Markup(_)
        | Value::Range(_)
        | Value::Dict(_)
        | Value::View(_)
        | Value::Bytes(_) => {
            let mut items = to_vec(call.state, value)?;
            items.reverse();
            Ok(items)
        }
        Value::Undefined(undefined) => {
            undefined.lenient()?;
            Ok(Vec::new())
        }
        other => Err(Error::type_error(format!("'{}' object is not reversible", other.type_name()))),
    }
}

pub(super) fn last(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_last", [("seq", None)])?;
    if let Value::List(list) = &value {
        let last = list.lock().last().cloned();
        return Ok(last.unwrap_or_else(|| empty(call.state, "No last item, sequence was empty.")));
    }
    let first = backwards(call, &value)?.into_iter().next();
    Ok(first.unwrap_or_else(|| empty(call.state, "No last item, sequence was empty.")))
}

pub(super) fn random(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_random", [("seq", None)])?;
    let len = python::len(call.state, &value)?;
    if len == 0 {
        return Ok(empty(call.state, "No random item, sequence was empty."));
    }
    // A template's random choice protects nothing, so the default generator is enough.
    let at = rand::rng().random_range(0..len);
    python::get_item_raw(call.state, &value, &Value::from(at))
}

pub(super) fn reverse(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_reverse", [("value", None)])?;
    let name = match &value {
        Value::Str(text) => return Ok(Value::str(text.chars().rev().collect::<String>())),
        Value::Markup(text) => return Ok(Value::markup(text.chars().rev().collect::<String>())),
        // Python gives each type its own iterator, whose name templates see when they print it.
        Value::Dict(dict) => return Ok(reversed(dict, ViewKind::Keys)),
        Value::View(view) => return Ok(reversed(&view.dict, view.kind)),
        Value::List(_) => "list_reverseiterator",
        Value::Range(_) => "range_iterator",
        Value::Tuple(_) | Value::Bytes(_) | Value::Undefined(_) => "reversed",
        other => {
            // Jinja collects and reverses what Python cannot reverse; the result is a list and not an iterator.
            let mut items = match to_vec(call.state, other) {
                Ok(items) => items,
                Err(error) if *error.kind() == ErrorKind::Type && error.places().is_empty() => {
                    return Err(Error::new(ErrorKind::FilterArgument, "argument must be iterable"));
                }
                Err(error) => return Err(error),
            };
            items.reverse();
            return Ok(Value::list(items));
        }
    };
    let items = backwards(call, &value)?;
    Ok(Value::Iter(Iter::new(name, VecIter::new(items))))
}

pub(super) fn dictsort(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [
        ("value", None),
        ("case_sensitive", Some(Value::Bool(false))),
        ("by", Some(Value::str("key"))),
        ("reverse", Some(Value::Bool(false))),
    ];
    let [value, case_sensitive, by, reverse] = call.bind("do_dictsort", params)?;
    let by_value = match by.as_str() {
        Some("key") => false,
        Some("value") => true,
        _ => {
            let text = "You can only sort by either \"key\" or \"value\"";
            return Err(Error::new(ErrorKind::FilterArgument, text));
        }
    };
    let state = &mut *call.state;
    let entries: Vec<(Value, Value)> = match &value {
        Value::Dict(dict) => dict.entries(),
        Value::Undefined(undefined) => return Err(undefined.fail()),
        Value::Object(object) if object.is_mapping() => {
            let mut entries = Vec::new();
            for key in to_vec(state, &value)? {
                let item = python::get_item_raw(state, &value, &key)?;
                entries.push((key, item));
            }
            entries
        }
        other => {
            let text = format!("'{}' object has no attribute 'items'", other.type_name());
            return Err(Error::new(ErrorKind::Attribute, text));
        }
    };
    let path = Path::default().ignoring_case(!truthy(state, &case_sensitive)?);
    let reverse = truthy(state, &reverse)?;
    let mut keyed = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let by = path.get(state, if by_value { &value } else { &key })?;
        keyed.push((by, Value::tuple(vec![key, value])));
    }
    Ok(Value::list(sort_by_keys(state, keyed, reverse)?))
}

pub(super) fn sort(call: &mut CallArgs) -> Result<Value, Error> {
    let no = || Some(Value::Bool(false));
    let params = [("value", None), ("reverse", no()), ("case_sensitive", no()), ("attribute", Some(Value::None))];
    let [value, reverse, case_sensitive, attribute] = call.bind("do_sort", params)?;
    let state = &mut *call.state;
    let ignore = !truthy(state, &case_sensitive)?;
    let paths: Vec<Path> = match &attribute {
        Value::Str(text) | Value::Markup(text) => {
            text.split(',').map(|part| Path::new(&Value::str(part)).ignoring_case(ignore)).collect()
        }
        other => vec![Path::new(other).ignoring_case(ignore)],
    };
    let mut keyed = Vec::new();
    for item in to_vec(state, &value)? {
        let mut keys = Vec::with_capacity(paths.len());
        for path in &paths {
            keys.push(path.get(state, &item)?);
        }
        // A list of keys even for one: Python compares lists item by item, which also gives its error messages.
        keyed.push((Value::list(keys), item));
    }
    let reverse = truthy(state, &reverse)?;
    Ok(Value::list(sort_by_keys(state, keyed, reverse)?))
}

pub(super) fn min_or_max(call: &mut CallArgs, name: &str, max: bool) -> Result<Value, Error> {
    let params = [("value", None), ("case_sensitive", Some(Value::Bool(false))), ("attribute", Some(Value::None))];
    let [value, case_sensitive, attribute] = call.bind(name, params)?;
    let state = &mut *call.state;
    let path = Path::new(&attribute).ignoring_case(!truthy(state, &case_sensitive)?);
    let mut best: Option<(Value, Value)> = None;
    for item in to_vec(state, &value)? {
        state.spend(1)?;
        let key = path.get(state, &item)?;
        let better = match &best {
            None => true,
            // Python's max() asks `>`, and its error names that operator.
            Some((have, _)) if max => python::compare(state, python::CmpOp::Gt, &key, have)?,
            Some((have, _)) => less_than(state, &key, have)?,
        };
        if better {
            best = Some((key, item));
        }
    }
    match best {
        Some((_, item)) => Ok(item),
        None => Ok(empty(state, "No aggregated item, sequence was empty.")),
    }
}

pub(super) fn join(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("d", Some(Value::str(""))), ("attribute", Some(Value::None))];
    let [value, separator, attribute] = call.bind("sync_do_join", params)?;
    let state = &mut *call.state;
    let separator = state.str(&separator)?;
    let path = Path::new(&attribute);
    let mut walk = python::iterate(state, &value)?;
    let (mut out, mut first) = (String::new(), true);
    while let Some(item) = ValueIter::next(&mut *walk, state)? {
        state.spend(1)?;
        if !first {
            out.push_str(&separator);
        }
        first = false;
        match path.get(state, &item)? {
            // Nothing is escaped: without autoescape Jinja joins with `str()`.
            Value::Str(text) | Value::Markup(text) => out.push_str(&text),
            other => out.push_str(&state.str(&other)?),
        }
        state.check_size(out.len())?;
    }
    Ok(Value::str(out))
}

pub(super) fn attr(call: &mut CallArgs) -> Result<Value, Error> {
    let [object, name] = call.bind("do_attr", [("obj", None), ("name", None)])?;
    let Some(text) = name.as_shared_str().cloned() else {
        let found = name.type_name();
        return Err(Error::type_error(format!("attribute name must be string, not '{found}'")));
    };
    let state = &mut *call.state;
    // Items do not count: only what Python calls an attribute.
    let is_attribute = match &object {
        Value::Object(host) => host.get_attr(state, &text)?.is_some(),
        other => crate::methods::attribute(other, &text).is_some(),
    } || crate::methods::is_dunder(&object, &text);
    // An undefined object is passed to the lookup below, which raises its error.
    if !is_attribute && !object.is_undefined() {
        return Ok(Undefined::of(state.env().undefined, &object, name));
    }
    python::get_attr(state, &object, &text)
}

/// A group of `groupby`: a pair that is also reachable as `grouper` and `list`, like Jinja's named tuple.
struct Group {
    pair: Tuple,
}

impl Object for Group {
    fn type_name(&self) -> &str {
        "_GroupTuple"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.filters")
    }

    fn get_attr(&self, _: &mut crate::State, name: &str) -> Result<Option<Value>, Error> {
        Ok(match name {
            "grouper" => Some(self.pair[0].clone()),
            "list" => Some(self.pair[1].clone()),
            _ => None,
        })
    }

    fn has_items(&self) -> bool {
        true
    }

    fn get_item(&self, state: &mut crate::State, key: &Value) -> Result<Option<Value>, Error> {
        let pair = Value::Tuple(self.pair.clone());
        python::get_item_raw(state, &pair, key).map(Some)
    }

    fn iterate(&self, _: &mut crate::State) -> Result<Option<Box<dyn ValueIter>>, Error> {
        Ok(Some(Box::new(VecIter::new(self.pair.to_vec()))))
    }

    fn len(&self, _: &mut crate::State) -> Result<Option<usize>, Error> {
        Ok(Some(2))
    }

    fn repr(&self, state: &mut crate::State) -> Result<Option<String>, Error> {
        python::repr(state, &Value::Tuple(self.pair.clone())).map(Some)
    }
}

pub(super) fn groupby(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [
        ("value", None),
        ("attribute", None),
        ("default", Some(Value::None)),
        ("case_sensitive", Some(Value::Bool(false))),
    ];
    let [value, attribute, default, case_sensitive] = call.bind("sync_do_groupby", params)?;
    let state = &mut *call.state;
    let ignore = !truthy(state, &case_sensitive)?;
    let path = Path::new(&attribute).or(default.clone()).ignoring_case(ignore);
    let shown = Path::new(&attribute).or(default);
    let mut keyed = Vec::new();
    for item in to_vec(state, &value)? {
        keyed.push((path.get(state, &item)?, item));
    }
    let sorted = sort_by_keys(state, keyed, false)?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for item in sorted {
        let key = path.get(state, &item)?;
        match groups.last_mut() {
            Some((have, items)) if python::equal(state, have, &key)? => items.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let mut made = Vec::with_capacity(groups.len());
    for (key, items) in groups {
        // Items are grouped by their lower-case key, but the group carries the key of its first item as written.
        let key = if ignore { shown.get(state, &items[0])? } else { key };
        made.push(Value::object(Group { pair: [key, Value::list(items)].into() }));
    }
    Ok(Value::list(made))
}
