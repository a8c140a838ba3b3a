//! `environ`: the environment of the minion.

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::call_with_kwargs;

/// The module.
pub static MODULE: Module = Module::new("environ", "The environment of the minion.", &[&SETENV]);

/// Sets variables: one to a text, or those of a map. False makes a variable empty, or removes it with ``false_unsets``;
/// ``clear_all`` does that to all others.
#[function]
fn setenv(
    ctx: &Context,
    name: Value,
    value: Value,
    #[default(false)] false_unsets: Value,
    #[default(false)] clear_all: Value,
    #[default(false)] update_minion: Value,
    #[default(false)] permanent: Value,
) -> Result<Ret> {
    let mut ret = Ret::new(name.clone());
    let wanted = match value {
        Value::Map(map) => map,
        value @ (Value::Str(_) | Value::Bool(false)) => map! { name => value },
        _ => return Ok(ret.fail("Environ value must be string, dict or False")),
    };
    ret.changes = pending(&wanted, false_unsets == Value::Bool(true), clear_all == Value::Bool(true));
    if ctx.is_test() {
        let text = match ret.changes.is_empty() {
            true => "Environ values are already set with the correct values",
            false => "Environ values will be changed",
        };
        return Ok(ret.ok(text));
    }
    if ret.changes.is_empty() {
        return Ok(ret.ok("Environ values were already set with the correct values"));
    }
    let arguments = map! {
        "environ" => wanted, "false_unsets" => false_unsets, "clear_all" => clear_all, "update_minion" => update_minion,
        "permanent" => permanent,
    };
    match call_with_kwargs(ctx, "environ.setenv", arguments)? {
        Value::Map(changes) if !changes.is_empty() => Ok(ret.changed(changes).ok("Environ values were set")),
        _ => Ok(ret.fail("Failed to set environ variables")),
    }
}

/// Returns the changes that setting these variables would make.
fn pending(wanted: &Map, unsets: bool, clear_all: bool) -> Map {
    let current = modules::environ::variables();
    let gone = if unsets { Value::Null } else { "".into() };
    let mut changes = Map::new();
    if clear_all {
        let others = current.keys().filter(|name| !wanted.contains_key(name));
        changes = others.map(|name| (name.as_str(), gone.clone())).collect();
    }
    for (name, value) in wanted.iter() {
        let found = current.get(&name.to_string());
        match value {
            Value::Bool(false) if found.is_none() => {
                if !unsets {
                    changes.insert(name.clone(), "");
                }
            }
            Value::Bool(false) if unsets || found.is_some_and(|found| !found.is_empty()) => {
                changes.insert(name.clone(), gone.clone());
            }
            Value::Bool(false) => {}
            value if value.as_str() == Some(found.map_or("", String::as_str)) => {}
            value => drop(changes.insert(name.clone(), value.clone())),
        }
    }
    changes
}
