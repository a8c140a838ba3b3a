//! Grains that are lists.

use std::sync::{Mutex, PoisonError};

use exec::{Context, Result, function};
use value::{Map, Value, map, python};

use super::{existing, with_colons};
use crate::Ret;
use crate::support::call_with_kwargs;

/// The values that states of this run have decided to add, by grain (Salt's `pending_grains`).
#[derive(Default)]
struct Pending(Mutex<Map>);

impl Pending {
    fn holds(&self, name: &str, value: &Value) -> bool {
        let grains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        grains.get(name).and_then(Value::as_list).is_some_and(|list| contains(list, value))
    }

    fn add(&self, name: &str, value: &Value) {
        let mut grains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Value::List(list) = grains.entry_or_insert_with(name, || Value::List(Vec::new())) {
            list.push(value.clone());
        }
    }
}

fn contains(list: &[Value], value: &Value) -> bool {
    list.iter().any(|item| python::equal(item, value))
}

/// The values that are still missing.
enum Missing {
    /// None at all.
    Nothing,
    /// These values, of which these exist already.
    Some(Value, Vec<Value>),
}

fn missing(value: Value, there: impl Fn(&Value) -> bool, note: impl Fn(&Value)) -> Missing {
    let Value::List(items) = value else {
        if there(&value) {
            return Missing::Nothing;
        }
        note(&value);
        return Missing::Some(value, Vec::new());
    };
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for item in items {
        if there(&item) {
            old.push(item);
        } else {
            note(&item);
            new.push(item);
        }
    }
    if new.is_empty() { Missing::Nothing } else { Missing::Some(new.into(), old) }
}

/// Makes sure that a value, or each of several, is in a grain that is a list.
#[function]
fn list_present(ctx: &Context, name: String, value: Value, #[default(":")] delimiter: String) -> Result<Ret> {
    let name = with_colons(&name, &delimiter)?;
    let ret = Ret::new(name.clone());
    let grain = existing(ctx, &name).unwrap_or_else(|| "".into());
    let pending = ctx.memo.get::<Pending>();
    let list = match &grain {
        Value::List(list) => list.as_slice(),
        other if other.truthy() => return Ok(ret.fail(format!("Grain {name} is not a valid list"))),
        _ => &[],
    };
    let filled = !list.is_empty();
    let there = |item: &Value| contains(list, item) || pending.holds(&name, item);
    let given = value.clone();
    let (value, known) = match missing(value, there, |item| pending.add(&name, item)) {
        Missing::Some(value, known) => (value, known),
        Missing::Nothing if filled => {
            return Ok(ret.ok(format!("Value {given} is already in grain {name} (or pending)")));
        }
        Missing::Nothing => return Ok(ret.ok(format!("Value {given} is already pending in grain {name}"))),
    };
    if ctx.is_test() {
        let text = match filled {
            true => format!("Value {value} is set to be appended to grain {name}"),
            false => format!("Grain {name} is set to be added"),
        };
        return Ok(ret.changed(map! { "new" => grain }).would(text));
    }
    let known = Value::List(known);
    let removed = match (known.truthy(), filled) {
        (false, _) => String::new(),
        (true, true) => {
            format!("Removed value {known} from update due to value found in \"{name}\" (or pending).\n")
        }
        (true, false) => {
            format!("Removed value {known} from update due to value already pending in \"{name}\".\n")
        }
    };
    let appended = call_with_kwargs(ctx, "grains.append", map! { "key" => name.clone(), "val" => value.clone() })?;
    let now = existing(ctx, &name).unwrap_or_else(|| Value::List(Vec::new()));
    let single = [value.clone()];
    let all_there = value.as_list().unwrap_or(&single).iter().all(|item| holds(&now, item));
    if !all_there {
        return Ok(ret.fail(format!("Failed append value {value} to grain {name}")));
    }
    Ok(ret.changed(map! { "new" => appended }).ok(format!("{removed}Append value {value} to grain {name}")))
}

fn holds(grain: &Value, item: &Value) -> bool {
    grain.as_list().is_some_and(|list| contains(list, item))
}

/// Makes sure that a value, or each of several, is not in a grain that is a list.
#[function]
fn list_absent(ctx: &Context, name: String, value: Value, #[default(":")] delimiter: String) -> Result<Ret> {
    let name = with_colons(&name, &delimiter)?;
    let mut ret = Ret::new(name.clone());
    let grain = match existing(ctx, &name).filter(Value::truthy) {
        None => return Ok(ret.ok(format!("Grain {name} does not exist"))),
        Some(Value::List(list)) => list,
        Some(_) => return Ok(ret.fail(format!("Grain {name} is not a valid list"))),
    };
    let values = match value {
        Value::List(items) => items,
        single => vec![single],
    };
    let (mut comments, mut deleted) = (Vec::new(), Vec::new());
    for item in values {
        if !contains(&grain, &item) {
            comments.push(format!("Value {item} is absent from grain {name}"));
            continue;
        }
        if ctx.is_test() {
            comments.push(format!("Value {item} in grain {name} is set to be deleted"));
        } else {
            call_with_kwargs(ctx, "grains.remove", map! { "key" => name.clone(), "val" => item.clone() })?;
            comments.push(format!("Value {item} was deleted from grain {name}"));
        }
        deleted.push(item);
    }
    if !deleted.is_empty() {
        ret.changes.insert("deleted", deleted.clone());
    }
    ret.result = if ctx.is_test() && !deleted.is_empty() { None } else { Some(true) };
    ret.comment = comments.join("\n").into();
    Ok(ret)
}

/// Adds a value to a grain that is a list; ``convert`` converts other grains to a list.
#[function]
fn append(
    ctx: &Context,
    name: String,
    value: Value,
    #[default(false)] convert: Value,
    #[default(":")] delimiter: String,
) -> Result<Ret> {
    let name = with_colons(&name, &delimiter)?;
    let ret = Ret::new(name.clone());
    let grain = existing(ctx, &name).unwrap_or_default();
    if !grain.truthy() && !modules::grains::now(ctx).contains_key(&name) {
        return Ok(ret.fail(format!("Grain {name} does not exist")));
    }
    let changes = map! { "added" => value.clone() };
    let is_list = matches!(grain, Value::List(_));
    if holds(&grain, &value) {
        return Ok(ret.ok(format!("Value {value} is already in the list for grain {name}")));
    }
    if !is_list && convert != Value::Bool(true) {
        return Ok(ret.fail(format!("Grain {name} is not a valid list")));
    }
    if ctx.is_test() {
        let text = match is_list {
            true => format!("Value {value} in grain {name} is set to be added"),
            false => format!("Grain {name} is set to be converted to list and value {value} will be added"),
        };
        return Ok(ret.changed(changes).would(text));
    }
    if is_list {
        call_with_kwargs(ctx, "grains.append", map! { "key" => name.clone(), "val" => value.clone() })?;
    } else {
        let mut list = if grain.is_null() { Vec::new() } else { vec![grain] };
        list.push(value.clone());
        call_with_kwargs(ctx, "grains.setval", map! { "key" => name.clone(), "val" => list })?;
    }
    Ok(ret.changed(changes).ok(format!("Value {value} was added to grain {name}")))
}
