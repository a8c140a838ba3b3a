//! `firewalld`: zones and services of the firewall daemon.

mod present;
mod service;

use exec::{Context, Module, Result};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::{call, caught, needs};

/// The module.
pub static MODULE: Module = Module::new(
    "firewalld",
    "Zones and services of the firewall daemon are as wanted.",
    &[&present::PRESENT, &service::SERVICE],
)
.only_if(|_| needs(&["firewall-cmd"], "firewall-cmd is not available, firewalld is probably not installed."));

/// Each item once, in order.
fn unique(items: &[Value]) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for item in items {
        if !found.contains(item) {
            found.push(item.clone());
        }
    }
    found
}

/// The items of one list that are not in another.
fn without(items: &[Value], others: &[Value]) -> Vec<Value> {
    unique(items).into_iter().filter(|item| !others.contains(item)).collect()
}

/// Queries a list.
fn listed(ctx: &Context, fun: &str, args: Vec<Value>, kwargs: Map) -> Result<Vec<Value>> {
    Ok(call(ctx, fun, args, kwargs)?.into_list().unwrap_or_default())
}

fn permanent() -> Map {
    map! { "permanent" => true }
}

/// A failure of the daemon becomes the comment; what was changed until then stays.
fn settled(ret: &mut Ret, outcome: Result<()>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) => {
            *ret = ret.clone().fail(format!("Error: {}", caught(error)?.text));
            Ok(false)
        }
    }
}

/// Activates permanent settings.
fn reload(ctx: &Context) -> Result<()> {
    call(ctx, "firewalld.reload_rules", Vec::new(), Map::new()).map(drop)
}
