//! `grains`: grains that are set on the minion.

mod lists;

use exec::{Context, Error, Module, Result, function};
use regex::Regex;
use value::{Map, Value, map, python};

use crate::Ret;
use crate::support::call_with_kwargs;
use lists::{APPEND, LIST_ABSENT, LIST_PRESENT};

/// The module.
pub static MODULE: Module = Module::new(
    "grains",
    "Grains that are set on the minion.",
    &[&ABSENT, &APPEND, &EXISTS, &LIST_ABSENT, &LIST_PRESENT, &PRESENT],
);

/// The name with colons where it has the delimiter, which is a pattern.
fn with_colons(name: &str, delimiter: &str) -> Result<String> {
    let pattern = Regex::new(delimiter)
        .map_err(|error| Error::Other(format!("the delimiter '{delimiter}' is not a pattern: {error}")))?;
    Ok(pattern.replace_all(name, ":").into_owned())
}

/// The current grain, if there is one.
fn existing(ctx: &Context, name: &str) -> Option<Value> {
    modules::util::traverse(&modules::grains::now(ctx), name, ":").cloned()
}

/// Checks that the grain exists.
#[function]
fn exists(ctx: &Context, name: String, #[default(":")] delimiter: String) -> Result<Ret> {
    let name = with_colons(&name, &delimiter)?;
    let found = existing(ctx, &name).is_some();
    let ret = Ret::new(name);
    Ok(if found { ret.ok("Grain exists") } else { ret.fail("Grain does not exist") })
}

/// Sets a grain, which may be nested. A map or a list is replaced with ``force``.
#[function]
fn present(
    ctx: &Context,
    name: String,
    value: Value,
    #[default(":")] delimiter: String,
    #[default(false)] force: Value,
) -> Result<Ret> {
    let name = with_colons(&name, &delimiter)?;
    let ret = Ret::new(name.clone());
    let found = existing(ctx, &name);
    if found.as_ref().is_some_and(|found| python::equal(found, &value)) {
        return Ok(ret.ok("Grain is already set"));
    }
    if ctx.is_test() {
        return Ok(match found {
            None => ret.changed(map! { "new" => name.clone() }).would(format!("Grain {name} is set to be added")),
            Some(_) => {
                let changes = map! { "changed" => map! { name.as_str() => value } };
                ret.changed(changes).would(format!("Grain {name} is set to be changed"))
            }
        });
    }
    let arguments = map! { "key" => name.clone(), "val" => value.clone(), "force" => force };
    let mut ret = Ret::from_value(call_with_kwargs(ctx, "grains.set", arguments)?);
    if ret.result == Some(true) && !ret.changes.is_empty() {
        ret.comment = format!("Set grain {name} to {value}").into();
    }
    ret.name = name.into();
    Ok(ret)
}

/// Sets a grain to None, or deletes it with ``destructive``. A map or a list needs ``force``.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default(false)] destructive: Value,
    #[default(":")] delimiter: String,
    #[default(false)] force: Value,
) -> Result<Ret> {
    let name = with_colons(&name, &delimiter)?;
    let gone = destructive == Value::Bool(true);
    let Some(found) = existing(ctx, &name) else {
        return Ok(Ret::new(name.clone()).ok(format!("Grain {name} does not exist")));
    };
    let changes = match (gone, found.is_null()) {
        (true, _) => map! { "deleted" => name.clone() },
        (false, true) => Map::new(),
        (false, false) => map! { "grain" => name.clone(), "value" => () },
    };
    if ctx.is_test() {
        let text = match (gone, found.is_null()) {
            (true, _) => format!("Grain {name} is set to be deleted"),
            (false, true) => String::new(),
            (false, false) => format!("Value for grain {name} is set to be deleted (None)"),
        };
        return Ok(Ret::new(name).changed(changes).would(text));
    }
    let arguments = map! { "key" => name.clone(), "val" => (), "destructive" => destructive.clone(), "force" => force };
    let mut ret = Ret::from_value(call_with_kwargs(ctx, "grains.set", arguments)?);
    ret.name = name.clone().into();
    if ret.result == Some(true) && (gone || !found.is_null()) {
        let text =
            if gone { format!("Grain {name} was deleted") } else { format!("Value for grain {name} was set to None") };
        return Ok(ret.changed(changes).ok(text));
    }
    Ok(ret)
}
