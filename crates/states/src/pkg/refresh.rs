//! The mark that lists of packages are to be read anew by the first state of a run that needs them.

use std::os::unix::fs::OpenOptionsExt;

use exec::{Context, Result, function};
use value::{Map, Value};

use crate::support::{call, has};

/// The file that stands as long as lists were not read in this run.
pub fn mark(ctx: &Context) -> String {
    format!("{}/pkg_refresh", ctx.cachedir())
}

/// Prepares for the first package state of a run: lists are to be read anew.
#[function]
fn mod_init(ctx: &Context, low: Map) -> Result<Value> {
    let mut done = Value::Bool(true);
    if has(ctx, "pkg.ex_mod_init") {
        done = call(ctx, "pkg.ex_mod_init", vec![low.clone().into()], Map::new())?;
    }
    if !["installed", "latest"].contains(&low.get_str("fun").unwrap_or_default()) {
        return Ok(Value::Bool(false));
    }
    let path = mark(ctx);
    let written = ctx.blocking(move || std::fs::OpenOptions::new().mode(0o600).append(true).create(true).open(path));
    if let Err(error) = written {
        tracing::warn!("Encountered error writing rtag: {error}");
    }
    Ok(done)
}
