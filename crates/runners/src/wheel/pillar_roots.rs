//! `pillar_roots` — the pillar files in the directories of the master's environments.

use exec::{Result, function};
use value::{Map, Value};

use crate::wheel::roots::{self, Write};
use crate::{Module, WheelContext};

/// The wheel functions `pillar_roots.*`.
pub static MODULE: Module = Module::new(
    "pillar_roots",
    "The pillar files in the directories of the master's environments.",
    &[&FIND, &LIST_ENV, &LIST_ROOTS, &READ, &WRITE],
);

/// Returns the files that match a path, each with `txt` or `bin`.
#[function]
async fn find(ctx: &WheelContext, path: String, #[default("base")] saltenv: String) -> Result<Vec<Map>> {
    ctx.blocking(move |ctx| Ok(roots::found(&ctx.config.pillar.pillar_roots, &path, &saltenv))).await
}

/// Returns the files of an environment as a tree.
#[function]
async fn list_env(ctx: &WheelContext, #[default("base")] saltenv: String) -> Result<Map> {
    ctx.blocking(move |ctx| Ok(roots::list_env(&ctx.config.pillar.pillar_roots, &saltenv))).await
}

/// Returns the files of all environments.
#[function]
async fn list_roots(ctx: &WheelContext) -> Result<Map> {
    ctx.blocking(|ctx| Ok(roots::list_roots(&ctx.config.pillar.pillar_roots))).await
}

/// Returns the content of the text files that match a path.
#[function]
async fn read(ctx: &WheelContext, path: String, #[default("base")] saltenv: String) -> Result<Vec<Map>> {
    ctx.blocking(move |ctx| roots::read(&ctx.config.pillar.pillar_roots, &path, &saltenv)).await
}

/// Writes a file in a directory of an environment, by default the first.
#[function]
async fn write(
    ctx: &WheelContext,
    data: Value,
    path: String,
    #[default("base")] saltenv: String,
    #[default(0)] index: u64,
) -> Result<String> {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    ctx.blocking(move |ctx| {
        roots::write(&ctx.config.pillar.pillar_roots, &Write { data: &data, path: &path, saltenv: &saltenv, index })
    })
    .await
}
