//! Runs that are tried first and applied on demand; and the caches of runs.

use std::path::{Path, PathBuf};

use exec::{Context, Error, KwArgs, Result, function};
use store::disk::{self, Writing};
use value::{Map, Value, map};

use super::apply::applied;

fn file(ctx: &Context) -> PathBuf {
    // Salt's file and format, so a request survives a change of the program.
    Path::new(ctx.cachedir()).join("req_state.p")
}

fn failed(error: store::Error) -> Error {
    Error::execution(error.to_string())
}

fn requests(ctx: &Context) -> Result<Map> {
    Ok(disk::read_value(&file(ctx)).map_err(failed)?.and_then(Value::into_map).unwrap_or_default())
}

fn write(ctx: &Context, requests: Map) -> Result<()> {
    disk::write_value(&file(ctx), &requests.into(), Writing::PRIVATE).map_err(failed)
}

/// Returns what ``state.apply`` would do, and stores the request until ``state.run_request``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.request
///     salt '*' state.request web,db
#[function(out = "highstate")]
pub fn request(ctx: &Context, mods: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let mut kwargs = kwargs.0;
    // A request shows what would happen; `run_request` later does it.
    kwargs.insert("test", true);
    let ret = applied(ctx, mods.clone(), kwargs.clone())?;
    let name = kwargs.get("name").map_or_else(|| "default".to_owned(), Value::to_string);
    let mut all = requests(ctx)?;
    all.insert(name, map! { "test_run" => ret.clone(), "mods" => mods, "kwargs" => kwargs });
    write(ctx, all)?;
    Ok(ret)
}

/// Returns the stored requests, or one of them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.check_request
#[function(out = "highstate")]
pub fn check_request(ctx: &Context, name: Option<String>) -> Result<Value> {
    let all = requests(ctx)?;
    match name.filter(|name| !name.is_empty()) {
        Some(name) => all.get(&name).cloned().ok_or_else(|| Error::execution(format!("there is no request '{name}'"))),
        None => Ok(all.into()),
    }
}

/// Deletes the stored requests, or one of them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.clear_request
#[function]
pub fn clear_request(ctx: &Context, name: Option<String>) -> Result<bool> {
    if !file(ctx).is_file() {
        return Ok(true);
    }
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return disk::remove(&file(ctx)).map(|_| true).map_err(failed);
    };
    let mut all = requests(ctx)?;
    if all.remove(&name).is_none() {
        return Ok(false);
    }
    write(ctx, all).map(|()| true)
}

/// Applies a stored request.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.run_request
#[function(out = "highstate")]
pub fn run_request(ctx: &Context, #[default("default")] name: String, kwargs: KwArgs) -> Result<Value> {
    let mut all = requests(ctx)?;
    let Some(Value::Map(mut kept)) = all.remove(&name) else {
        return Ok(Map::new().into());
    };
    let Some(Value::Map(mut given)) = kept.remove("kwargs") else {
        return Ok(Map::new().into());
    };
    // Arguments of now win over those of the request.
    given.update(kwargs.0);
    given.remove("test");
    let ret = applied(ctx, kept.remove("mods"), given)?;
    // All requests go, as in Salt, and not only the one that was run.
    disk::remove(&file(ctx)).map_err(failed)?;
    Ok(ret)
}

/// Removes the caches of runs and returns their names.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.clear_cache
#[function]
pub fn clear_cache(ctx: &Context) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for name in disk::text_names(Path::new(ctx.cachedir())).map_err(failed)? {
        let path = Path::new(ctx.cachedir()).join(&name);
        if name.ends_with(".cache.p") && path.is_file() {
            disk::remove(&path).map_err(failed)?;
            removed.push(name);
        }
    }
    Ok(removed)
}
