//! The pillar of the master itself, and the compiler of pillar.

use std::sync::Arc;

use exec::Result;
use pillar::{Compiler, GitExternal, Request};
use value::{Map, map};

use crate::RunnerContext;
use crate::context::failed;

/// Returns the pillar of the master's own id.
///
/// # Errors
/// When the options of the pillar are invalid.
pub async fn own_pillar(ctx: &RunnerContext, saltenv: Option<String>, pillarenv: Option<String>) -> Result<Map> {
    ctx.blocking(move |ctx| {
        let id = ctx.config.id.clone();
        let grains = map! { "id" => id.as_str() };
        let request = Request {
            id: &id,
            grains: Some(&grains),
            saltenv: saltenv.as_deref(),
            pillarenv: pillarenv.as_deref(),
            ..Request::default()
        };
        Ok(compiler(ctx)?.compile(&request))
    })
    .await
}

/// Returns the compiler of the pillar of minions.
///
/// # Errors
/// When the options of the pillar are invalid.
pub fn compiler(ctx: &RunnerContext) -> Result<Compiler> {
    // External pillar from git is a separate source, which the compiler does not build itself.
    let git = GitExternal::of_master(&ctx.config).map_err(failed)?;
    let compiler = Compiler::new(&ctx.config).map_err(failed)?;
    Ok(compiler.with_world(pillar::world(ctx.catalogue, &ctx.config.raw)).with_external(Arc::new(git)))
}
