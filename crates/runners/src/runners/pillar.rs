//! `pillar` — pillar as the master makes it.

use exec::{KwArgs, Result, function};
use pillar::Request;
use store::minion_data::pillar_place;
use targeting::MinionData;
use value::{Map, Value, map};

use crate::context::failed;
use crate::minions::Minions;
use crate::own_pillar::compiler;
use crate::{Module, RunnerContext};

/// The functions of the runner `pillar`.
pub static MODULE: Module = Module::new(
    "pillar",
    "Pillar as the master makes it.",
    &[&CLEAR_PILLAR_CACHE, &SHOW_PILLAR, &SHOW_PILLAR_CACHE, &SHOW_TOP],
);

/// Returns the merged top files of the pillar, by environment and target; errors instead, if there are any.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run pillar.show_top
#[function]
async fn show_top(ctx: &RunnerContext, minion: Option<String>, #[default("base")] saltenv: String) -> Result<Value> {
    let _the_same_for_all = minion;
    let shown = ctx.blocking(move |ctx| Ok(compiler(ctx)?.show_top(Some(&saltenv)))).await?;
    match shown {
        Ok(top) => Ok(top.into()),
        Err(errors) => {
            ctx.progress(map! { "data" => errors.clone(), "outputter" => "nested" }).await;
            Ok(errors.into())
        }
    }
}

/// Returns the pillar of a minion, or without one the pillar that every minion gets. Other named arguments are grains.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run pillar.show_pillar 'www.example.com'
///     salt-run pillar.show_pillar pillarenv=dev
#[function]
async fn show_pillar(ctx: &RunnerContext, #[default("*")] minion: String, kwargs: KwArgs) -> Result<Map> {
    ctx.blocking(move |ctx| {
        let mut given = kwargs.given();
        let saltenv = given.remove("saltenv").map_or_else(|| "base".to_owned(), |env| env.to_string());
        let pillarenv = given.remove("pillarenv").filter(|env| !env.is_null()).map(|env| env.to_string());
        // Without cached grains Salt knows only the name of a minion.
        let mut grains = match ctx.config.jobs.minion_data_cache {
            true => Minions::new(ctx)?.grains(&minion).map(|grains| (*grains).clone()).unwrap_or_default(),
            false => map! { "fqdn" => minion.as_str() },
        };
        // Given grains win: operators use them to see the pillar of a machine that does not exist yet.
        grains.update(given);
        let request = Request {
            id: &minion,
            grains: Some(&grains),
            saltenv: Some(&saltenv),
            pillarenv: pillarenv.as_deref(),
            ..Request::default()
        };
        Ok(compiler(ctx)?.compile(&request))
    })
    .await
}

fn is_cached(ctx: &RunnerContext) -> bool {
    let cached = ctx.config.pillar.pillar_cache || ctx.config.jobs.minion_data_cache;
    if !cached {
        tracing::info!("The pillar_cache is set to False or not enabled.");
    }
    cached
}

/// Returns the bank and the key of a minion's pillar in the cache.
fn cache_place(ctx: &RunnerContext, id: &str, pillarenv: Option<&Value>) -> (String, String) {
    let given = pillarenv.filter(|env| env.truthy()).map(Value::to_string);
    // The compiler caches under the environment of the option, so an empty argument means that one.
    let env = given.or_else(|| ctx.config.pillar.pillarenv.clone()).filter(|env| !env.is_empty());
    pillar_place(id, env.as_deref())
}

/// Deletes the cached pillar of minions. False without such a cache.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run pillar.clear_pillar_cache 'minion'
#[function]
async fn clear_pillar_cache(ctx: &RunnerContext, #[default("*")] minion: Value, kwargs: KwArgs) -> Result<bool> {
    if !is_cached(ctx) {
        return Ok(false);
    }
    ctx.blocking(move |ctx| {
        let cache = ctx.data()?;
        for id in Minions::new(ctx)?.matching(&minion, "glob")? {
            let (bank, key) = cache_place(ctx, &id, kwargs.0.get("pillarenv"));
            cache.delete(&bank, &key).map_err(failed)?;
        }
        Ok(true)
    })
    .await
}

/// Returns the cached pillar of minions. False without such a cache.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run pillar.show_pillar_cache 'minion'
#[function]
async fn show_pillar_cache(ctx: &RunnerContext, #[default("*")] minion: Value, kwargs: KwArgs) -> Result<Value> {
    if !is_cached(ctx) {
        return Ok(false.into());
    }
    ctx.blocking(move |ctx| {
        let cache = ctx.data()?;
        let mut shown = Map::new();
        for id in Minions::new(ctx)?.matching(&minion, "glob")? {
            // The key contains the environment: each has its own cached pillar.
            let (bank, key) = cache_place(ctx, &id, kwargs.0.get("pillarenv"));
            if let Some(pillar) = cache.fetch(&bank, &key, ctx.rt.now()).map_err(failed)?.filter(Value::truthy) {
                shown.insert(id, pillar);
            }
        }
        Ok(shown.into())
    })
    .await
}
