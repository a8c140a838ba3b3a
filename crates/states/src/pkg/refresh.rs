//! The mark that the first state of a run that needs the package lists must refresh them.

use std::os::unix::fs::OpenOptionsExt;

use exec::{Context, Result, function};
use value::{Map, Value};

use crate::support::{call, has};

/// The path of the mark. It exists until a state of the run has refreshed the package lists.
pub fn mark(ctx: &Context) -> String {
    format!("{}/pkg_refresh", ctx.cachedir())
}

/// Prepares for the first package state of a run: marks the package lists for a refresh.
#[function]
fn mod_init(ctx: &Context, low: Map) -> Result<Value> {
    let mut done = Value::Bool(true);
    if has(ctx, "pkg.ex_mod_init") {
        done = call(ctx, "pkg.ex_mod_init", vec![low.clone().into()], Map::new())?;
    }
    // Only these two need fresh lists. Removing works with the installed packages.
    if !["installed", "latest"].contains(&low.get_str("fun").unwrap_or_default()) {
        return Ok(Value::Bool(false));
    }
    let path = mark(ctx);
    // The functions that install and upgrade look for this file.
    let written = ctx.blocking(move || std::fs::OpenOptions::new().mode(0o600).append(true).create(true).open(path));
    // Without the mark the lists may be stale, which is no reason to fail the run.
    if let Err(error) = written {
        tracing::warn!("Encountered error writing rtag: {error}");
    }
    Ok(done)
}
