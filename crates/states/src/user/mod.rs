//! `user`: accounts that exist, as described, or not.

mod absent;
mod changes;
mod create;
mod present;

use exec::{Context, Module, Result};
use value::{Map, Value, map};

use crate::args;
use crate::support::call;

/// The module.
pub static MODULE: Module =
    Module::new("user", "Accounts are there, as described, or not.", &[&absent::ABSENT, &present::PRESENT]);

/// Shown in place of a password.
const HIDDEN: &str = "XXX-REDACTED-XXX";

fn root(local: &Value) -> Map {
    if local.truthy() {
        // An explicit root makes the functions read the files in /etc instead of asking NSS, so
        // accounts of a directory service do not count.
        map! { "root" => "/" }
    } else {
        Map::new()
    }
}

fn info(ctx: &Context, name: &str, local: &Value) -> Result<Map> {
    Ok(call(ctx, "user.info", args![name], root(local))?.into_map().unwrap_or_default())
}

fn shadow(ctx: &Context, name: &str) -> Result<Map> {
    Ok(call(ctx, "shadow.info", args![name], Map::new())?.into_map().unwrap_or_default())
}

fn field(map: &Map, name: &str) -> Value {
    map.get(name).cloned().unwrap_or_default()
}
