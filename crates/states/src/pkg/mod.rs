//! `pkg`: packages that are installed, up to date, removed or held.
//!
//! [`targets`] plans the changes; the files named after the functions make and report them.

mod aggregate;
mod beacon;
mod downloaded;
mod groups;
mod held;
mod installed;
mod latest;
mod refresh;
mod reinstalls;
mod removed;
mod report;
mod targets;
mod uptodate;
mod versions;
mod watch;

use std::path::Path;

use exec::{Context, Module, Result};
use modules::pkg_resource;
use value::{Map, Value};

use crate::Ret;
use crate::support::{call, has};

/// The module.
pub static MODULE: Module = Module::new(
    "pkg",
    "Packages are there, are the newest, are gone, are kept.",
    &[
        &downloaded::DOWNLOADED,
        &groups::GROUP_INSTALLED,
        &held::HELD,
        &installed::INSTALLED,
        &latest::LATEST,
        &aggregate::MOD_AGGREGATE,
        &beacon::MOD_BEACON,
        &refresh::MOD_INIT,
        &watch::MOD_WATCH,
        &downloaded::PATCH_DOWNLOADED,
        &downloaded::PATCH_INSTALLED,
        &removed::PURGED,
        &removed::REMOVED,
        &held::UNHELD,
        &uptodate::UPTODATE,
    ],
);

/// Shows a package with the wanted version, as `a=1.0`. A version with an operator needs no further
/// `=`.
fn name_and_version(name: &str, desired: &Map) -> String {
    match desired.get(name).filter(|version| version.truthy()).map(Value::to_string) {
        None => name.to_owned(),
        Some(version) if version.starts_with(['<', '>', '=']) => format!("{name}{version}"),
        Some(version) => format!("{name}={version}"),
    }
}

/// Replaces capabilities such as `perl(Error)` by the packages that provide them. Returns whether a
/// refresh is still due.
fn resolved(ctx: &Context, pkgs: Value, refresh: bool, kwargs: &Map) -> Result<(Value, bool)> {
    if !pkgs.truthy() || !has(ctx, "pkg.resolve_capabilities") {
        return Ok((pkgs, refresh));
    }
    let mut kwargs = kwargs.clone();
    kwargs.insert("refresh", refresh);
    // Resolving refreshes the lists itself if needed, so it need not be done again.
    Ok((call(ctx, "pkg.resolve_capabilities", vec![pkgs], kwargs)?, false))
}

/// Calls a function that returns a map of names, such as `pkg.list_pkgs`.
fn listed(ctx: &Context, fun: &str, kwargs: Map) -> Result<Map> {
    Ok(call(ctx, fun, Vec::new(), kwargs)?.into_map().unwrap_or_default())
}

/// Returns the versions of a package in such a map.
fn versions_in(list: &Map, name: &str) -> Vec<String> {
    match list.get(name) {
        Some(Value::List(versions)) => versions.iter().map(Value::to_string).collect(),
        Some(Value::Map(versions)) => versions.keys().map(Value::to_string).collect(),
        Some(single) if single.truthy() => vec![single.to_string()],
        _ => Vec::new(),
    }
}

/// The versions of a package, looked up by its name and then by its normalized name.
fn versions_of(ctx: &Context, list: &Map, name: &str) -> Result<Vec<String>> {
    let versions = versions_in(list, name);
    if !versions.is_empty() || !has(ctx, "pkg.normalize_name") {
        return Ok(versions);
    }
    Ok(versions_in(list, &pkg_resource::normalized(ctx, name, true)?))
}

/// The version as the package manager compares it; `None` when any version will do.
fn clean(ctx: &Context, version: &Value) -> Result<Option<String>> {
    let version = match version.truthy() && has(ctx, "pkg.version_clean") {
        true => call(ctx, "pkg.version_clean", vec![version.clone()], Map::new())?,
        false => version.clone(),
    };
    Ok(if version.is_null() { None } else { Some(version.to_string()) })
}

/// Returns whether the package lists must be refreshed: on request, or by default once per state
/// run.
fn refresh_wanted(ctx: &Context, refresh: &Value) -> bool {
    // `refresh: False` wins over the mark, while a missing argument leaves the decision to it.
    crate::support::is_true(refresh) || (*refresh != Value::Bool(false) && Path::new(&refresh::mark(ctx)).is_file())
}

/// Returns whether a list was given but is empty. A missing one is not a list.
fn empty_list(value: &Value) -> bool {
    value.as_list().is_some_and(<[Value]>::is_empty)
}

fn failed(name: &str, comment: impl Into<Value>) -> Ret {
    Ret::new(name).fail(comment)
}

fn with_warnings(mut ret: Ret, warnings: &[String]) -> Ret {
    if !warnings.is_empty() {
        ret.more.insert("warnings", warnings.to_vec());
    }
    ret
}
