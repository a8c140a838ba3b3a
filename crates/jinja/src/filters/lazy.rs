//! Filters that are generators in Jinja: they compute an item only when it is requested.

use super::{Path, integer};
use crate::error::{Error, ErrorKind};
use crate::python::{self, is_mapping, truthy};
use crate::run::State;
use crate::value::{CallArgs, FnIter, Iter, Key, Kwargs, Set, Value, ValueIter};

/// Iterates a value, but calls `iter()` only when the first item is requested.
struct Late {
    value: Value,
    walk: Option<Box<dyn ValueIter>>,
}

impl Late {
    fn new(value: Value) -> Self {
        Late { value, walk: None }
    }

    fn next(&mut self, state: &mut State) -> Result<Option<Value>, Error> {
        state.spend(1)?;
        match &mut self.walk {
            Some(walk) => walk.next(state),
            none => none.insert(python::iterate(state, &self.value)?).next(state),
        }
    }
}

fn generator(
    name: &'static str,
    next: impl FnMut(&mut State) -> Result<Option<Value>, Error> + Send + 'static,
) -> Result<Value, Error> {
    Ok(Value::Iter(Iter::generator(name, FnIter(next))))
}

pub(super) fn batch(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, count, fill] =
        call.bind("do_batch", [("value", None), ("linecount", None), ("fill_with", Some(Value::None))])?;
    let (mut walk, mut row, mut done) = (Late::new(value), Vec::new(), false);
    generator("do_batch", move |state| {
        // Jinja compares with `==`: a float counts, and a batch of 0 or of a string is never full.
        let full = |state: &mut State, len: usize| python::equal(state, &Value::from(len), &count);
        while !done {
            match walk.next(state)? {
                Some(item) => {
                    // Checked before the item is added, as in Jinja: the last full row is returned by the end of the
                    // input, so that only that row gets filled.
                    let ready = full(state, row.len())?;
                    let before = if ready { Some(std::mem::take(&mut row)) } else { None };
                    row.push(item);
                    if let Some(before) = before {
                        return Ok(Some(Value::list(before)));
                    }
                }
                None => done = true,
            }
        }
        if row.is_empty() {
            return Ok(None);
        }
        let mut last = std::mem::take(&mut row);
        if !fill.is_none() && python::less_than(state, &Value::from(last.len()), &count)? {
            let wanted = integer(&count)? as usize;
            state.check_items(wanted)?;
            last.resize(wanted, fill.clone());
        }
        Ok(Some(Value::list(last)))
    })
}

pub(super) fn slice(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, slices, fill] =
        call.bind("sync_do_slice", [("value", None), ("slices", None), ("fill_with", Some(Value::None))])?;
    let mut rows: Option<std::vec::IntoIter<Value>> = None;
    generator("sync_do_slice", move |state| {
        let rows = match &mut rows {
            Some(rows) => rows,
            none => none.insert(slices_of(state, &value, &slices, &fill)?.into_iter()),
        };
        Ok(rows.next())
    })
}

fn slices_of(state: &mut State, value: &Value, slices: &Value, fill: &Value) -> Result<Vec<Value>, Error> {
    let items = python::to_vec(state, value)?;
    let len = Value::from(items.len());
    // Only for its errors: zero and wrong types fail in Jinja's `length // slices`, with Python's words.
    python::binary(state, python::BinOp::FloorDiv, &len, slices)?;
    let count = integer(slices)?;
    if count <= 0 {
        return Ok(Vec::new());
    }
    let count = count as usize;
    state.check_items(count)?;
    let (each, extra) = (items.len() / count, items.len() % count);
    let (mut rows, mut at) = (Vec::with_capacity(count), 0);
    for number in 0..count {
        let take = each + usize::from(number < extra);
        let mut row = items[at..at + take].to_vec();
        at += take;
        // The first `extra` rows are one longer and need no filling.
        if !fill.is_none() && number >= extra {
            row.push(fill.clone());
        }
        rows.push(Value::list(row));
    }
    Ok(rows)
}

pub(super) fn items(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_items", [("value", None)])?;
    // Errors must wait for the first item, because a Python generator does nothing before.
    let mut walk: Option<Box<dyn ValueIter>> = None;
    generator("do_items", move |state| {
        // Even a strict undefined value has no items here: Jinja tests its type before it touches it.
        if value.is_undefined() {
            return Ok(None);
        }
        if !is_mapping(&value) {
            return Err(Error::type_error("Can only get item pairs from a mapping."));
        }
        let walk = match &mut walk {
            Some(walk) => walk,
            none => {
                let view = match &value {
                    Value::Dict(dict) => Value::View(std::sync::Arc::new(crate::value::DictView {
                        dict: dict.clone(),
                        kind: crate::value::ViewKind::Items,
                    })),
                    other => {
                        let items = python::get_attr(state, other, &"items".into())?;
                        state.call(&items, Vec::new(), Vec::new())?
                    }
                };
                none.insert(python::iterate(state, &view)?)
            }
        };
        walk.next(state)
    })
}

pub(super) fn unique(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("case_sensitive", Some(Value::Bool(false))), ("attribute", Some(Value::None))];
    let [value, case_sensitive, attribute] = call.bind("sync_do_unique", params)?;
    let ignore = !truthy(call.state, &case_sensitive)?;
    let path = Path::new(&attribute).ignoring_case(ignore);
    let (mut walk, seen) = (Late::new(value), Set::default());
    generator("sync_do_unique", move |state| {
        while let Some(item) = walk.next(state)? {
            // Jinja collects what it has seen in a set, so that unhashable items fail.
            let key = Key::new(path.get(state, &item)?)?;
            let new = seen.lock().insert(key);
            if new {
                return Ok(Some(item));
            }
        }
        Ok(None)
    })
}

enum Mapping {
    Attribute(Path),
    Filter { name: Value, args: Vec<Value>, kwargs: Kwargs },
}

pub(super) fn map(call: &mut CallArgs) -> Result<Value, Error> {
    if call.args.is_empty() {
        return Err(crate::value::missing("do_map", &["value"]));
    }
    let value = call.args.remove(0);
    let (mut args, mut kwargs) = (std::mem::take(&mut call.args), std::mem::take(&mut call.kwargs));
    let mut walk = Late::new(value.clone());
    let mut mapping: Option<Mapping> = None;
    let mut empty = false;
    generator("sync_do_map", move |state| {
        if empty {
            return Ok(None);
        }
        if mapping.is_none() {
            if !truthy(state, &value)? {
                empty = true;
                return Ok(None);
            }
            mapping = Some(prepare_map(std::mem::take(&mut args), std::mem::take(&mut kwargs))?);
        }
        let Some(item) = walk.next(state)? else { return Ok(None) };
        match &mapping {
            Some(Mapping::Attribute(path)) => path.get(state, &item).map(Some),
            Some(Mapping::Filter { name, args, kwargs }) => {
                let mut all = Vec::with_capacity(args.len() + 1);
                all.push(item);
                all.extend(args.iter().cloned());
                state.call_filter(name, all, kwargs.clone()).map(Some)
            }
            None => Ok(None),
        }
    })
}

fn prepare_map(mut args: Vec<Value>, mut kwargs: Kwargs) -> Result<Mapping, Error> {
    let mut take = |name: &str| {
        let at = kwargs.iter().position(|(key, _)| &**key == name)?;
        Some(kwargs.remove(at).1)
    };
    if args.is_empty()
        && let Some(attribute) = take("attribute")
    {
        let default = take("default").unwrap_or_default();
        if let Some((name, _)) = kwargs.first() {
            let text = format!("Unexpected keyword argument {}", python::repr_str(name));
            return Err(Error::new(ErrorKind::FilterArgument, text));
        }
        return Ok(Mapping::Attribute(Path::new(&attribute).or(default)));
    }
    if args.is_empty() {
        return Err(Error::new(ErrorKind::FilterArgument, "map requires a filter argument"));
    }
    let name = args.remove(0);
    Ok(Mapping::Filter { name, args, kwargs })
}

pub(super) fn select(call: &mut CallArgs, wanted: bool, by_attribute: bool) -> Result<Value, Error> {
    if call.args.is_empty() {
        let name = match (wanted, by_attribute) {
            (true, false) => "do_select",
            (false, false) => "do_reject",
            (true, true) => "do_selectattr",
            (false, true) => "do_rejectattr",
        };
        return Err(crate::value::missing(name, &["value"]));
    }
    let value = call.args.remove(0);
    let (args, kwargs) = (std::mem::take(&mut call.args), std::mem::take(&mut call.kwargs));
    let mut walk = Late::new(value.clone());
    let mut prepared: Option<(Path, Vec<Value>)> = None;
    let mut empty = false;
    generator("select_or_reject", move |state| {
        if empty {
            return Ok(None);
        }
        if prepared.is_none() {
            if !truthy(state, &value)? {
                empty = true;
                return Ok(None);
            }
            let mut test = args.clone();
            let mut path = Path::default();
            if by_attribute {
                if test.is_empty() {
                    let text = "Missing parameter for attribute name";
                    return Err(Error::new(ErrorKind::FilterArgument, text));
                }
                path = Path::new(&test.remove(0));
            }
            prepared = Some((path, test));
        }
        let Some((path, test)) = &prepared else { return Ok(None) };
        while let Some(item) = walk.next(state)? {
            let subject = path.get(state, &item)?;
            let holds = match test.split_first() {
                Some((name, rest)) => {
                    let mut all = Vec::with_capacity(test.len());
                    all.push(subject);
                    all.extend(rest.iter().cloned());
                    let result = state.call_test(name, all, kwargs.clone())?;
                    truthy(state, &result)?
                }
                None => truthy(state, &subject)?,
            };
            // The filters `select` and `reject` return the item, even if the test examined one of its attributes.
            if holds == wanted {
                return Ok(Some(item));
            }
        }
        Ok(None)
    })
}
