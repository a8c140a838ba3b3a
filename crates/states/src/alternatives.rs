//! `alternatives`: which of several programs a common name means.

use std::path::Path;

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("alternatives", "Common names mean one of several programs.", &[&AUTO, &INSTALL, &REMOVE, &SET])
        .only_if(|_| match cfg!(test) || Path::new("/etc/alternatives").is_dir() {
            true => Ok(()),
            false => Err("alternatives module could not be loaded".into()),
        });

fn start(name: &str, more: Map) -> Ret {
    Ret { result: Some(true), more, ..Ret::new(name) }
}

fn exists(ctx: &Context, name: &str, path: &str) -> Result<bool> {
    Ok(call(ctx, "alternatives.check_exists", args![name, path], Map::new())?.truthy())
}

fn current(ctx: &Context, name: &str) -> Result<Value> {
    call(ctx, "alternatives.show_current", args![name], Map::new())
}

/// Makes sure that a path is among the alternatives of a name.
#[function]
fn install(ctx: &Context, name: String, link: String, path: String, priority: Value) -> Result<Ret> {
    let facts = map! { "link" => link.as_str(), "path" => path.as_str(), "priority" => priority.clone() };
    let ret = start(&name, facts.clone());
    if exists(ctx, &name, &path)? {
        return Ok(ret.ok(format!("Alternative {path} for {name} is already registered")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Alternative will be set for {name} to {path} with priority {priority}")));
    }
    let place = args![name.as_str(), link.as_str(), path.as_str(), priority.clone()];
    let said = call(ctx, "alternatives.install", place, Map::new())?;
    if !exists(ctx, &name, &path)? {
        return Ok(ret.fail(format!("Alternative for {name} not installed: {said}")));
    }
    let chosen = call(ctx, "alternatives.check_installed", args![name.as_str(), path.as_str()], Map::new())?;
    let text = match chosen.truthy() {
        true => format!("Alternative for {name} set to path {path} with priority {priority}"),
        false => {
            format!("Alternative {path} for {name} registered with priority {priority} and not set to default")
        }
    };
    let mut changes = map! { "name" => name.as_str() };
    changes.update(facts);
    Ok(ret.ok(text).changed(changes))
}

/// Makes sure that a path is not among the alternatives of a name.
#[function]
fn remove(ctx: &Context, name: String, path: String) -> Result<Ret> {
    let ret = start(&name, map! { "path" => path.as_str() });
    if !exists(ctx, &name, &path)? {
        let current = current(ctx, &name)?;
        return Ok(match current.truthy() {
            true => ret.ok(format!("Alternative for {name} is set to it's default path {current}")),
            false => ret.fail(format!("Alternative for {name} doesn't exist")),
        });
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Alternative for {name} will be removed")));
    }
    call(ctx, "alternatives.remove", args![name.as_str(), path.as_str()], Map::new())?;
    let current = current(ctx, &name)?;
    Ok(match current.truthy() {
        true => {
            let text = format!("Alternative for {name} removed. Falling back to path {current}");
            ret.ok(text).changed(map! { "path" => current })
        }
        false => ret.ok(format!("Alternative for {name} removed")),
    })
}

/// Selects the alternative with the highest priority for a name.
#[function]
fn auto(ctx: &Context, name: String) -> Result<Ret> {
    let ret = start(&name, Map::new());
    let shown = call(ctx, "alternatives.display", args![name.as_str()], Map::new())?.to_string();
    if shown.lines().next().is_some_and(|line| line.ends_with(" auto mode")) {
        return Ok(ret.ok(format!("{name} already in auto mode")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("{name} will be put in auto mode")));
    }
    let said = call(ctx, "alternatives.auto", args![name.as_str()], Map::new())?;
    Ok(ret.changed(map! { "result" => said }))
}

/// Selects a path for a name.
#[function]
fn set(ctx: &Context, name: String, path: String) -> Result<Ret> {
    let ret = start(&name, map! { "path" => path.as_str() });
    if current(ctx, &name)?.as_str() == Some(&path) {
        return Ok(ret.ok(format!("Alternative for {name} already set to {path}")));
    }
    let shown = call(ctx, "alternatives.display", args![name.as_str()], Map::new())?.to_string();
    if !shown.lines().any(|line| line.starts_with(&path)) {
        return Ok(ret.fail(format!("Alternative {path} for {name} doesn't exist")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Alternative for {name} will be set to path {path}")));
    }
    call(ctx, "alternatives.set", args![name.as_str(), path.as_str()], Map::new())?;
    if current(ctx, &name)?.as_str() == Some(&path) {
        let text = format!("Alternative for {name} set to path {path}");
        return Ok(ret.ok(text).changed(map! { "path" => path.as_str() }));
    }
    Ok(ret.ok(format!("Alternative for {name} not updated")))
}
