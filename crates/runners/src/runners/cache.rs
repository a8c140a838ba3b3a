//! `cache` — what the master remembers of its minions, and values kept by bank and key.

use std::path::PathBuf;
use std::sync::Arc;

use ::cache::{Cache, Part};
use exec::{KwArgs, Result, function};
use git::{Group, LockType, Role};
use pillar::GitExternal;
use value::{Map, Value, map};
use wire::MinionId;

use crate::context::failed;
use crate::minions::Minions;
use crate::refusal::refuse;
use crate::texts::split_input;
use crate::{Module, RunnerContext, other_masters};

/// The functions of the runner `cache`.
pub static MODULE: Module = Module::new(
    "cache",
    "What the master remembers of its minions, and values kept by bank and key.",
    &[
        &CLEAR_ALL,
        &CLEAR_GIT_LOCK,
        &CLEAR_GRAINS,
        &CLEAR_MINE,
        &CLEAR_MINE_FUNC,
        &CLEAR_PILLAR,
        &CLOUD,
        &FETCH,
        &FLUSH,
        &GRAINS,
        &LIST,
        &MIGRATE,
        &MINE,
        &PILLAR,
        &STORE,
    ],
);

/// Returns the cached grains of minions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.grains '*'
#[function]
async fn grains(ctx: &RunnerContext, tgt: Value, #[default("glob")] tgt_type: String, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    grains_of(ctx, tgt, tgt_type).await
}

/// Returns the cached grains of the minions a target matches.
pub(super) async fn grains_of(ctx: &RunnerContext, tgt: Value, tgt_type: String) -> Result<Map> {
    ctx.blocking(move |ctx| {
        let minions = Minions::new(ctx)?;
        let ids = minions.matching(&tgt, &tgt_type)?;
        Ok(by_id(ctx, &minions, Part::Grains, ids))
    })
    .await
}

/// Returns the cached pillar of minions; without a target, of all that have one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.pillar
#[function]
async fn pillar(
    ctx: &RunnerContext,
    tgt: Option<Value>,
    #[default("glob")] tgt_type: String,
    kwargs: KwArgs,
) -> Result<Map> {
    // Salt takes and ignores additional arguments here.
    let _ = kwargs;
    ctx.blocking(move |ctx| {
        let minions = Minions::new(ctx)?;
        let Some(tgt) = tgt.filter(Value::truthy) else {
            let mut all = by_id(ctx, &minions, Part::Pillar, minions.with_data());
            all.retain(|_, pillar| pillar.truthy());
            return Ok(all);
        };
        let ids = minions.matching(&tgt, &tgt_type)?;
        Ok(by_id(ctx, &minions, Part::Pillar, ids))
    })
    .await
}

/// Returns the cached mine of minions; without a target, of all.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.mine
#[function]
async fn mine(
    ctx: &RunnerContext,
    tgt: Option<Value>,
    #[default("glob")] tgt_type: String,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    ctx.blocking(move |ctx| {
        let minions = Minions::new(ctx)?;
        let ids = match tgt.filter(Value::truthy) {
            Some(tgt) => minions.matching(&tgt, &tgt_type)?,
            None => minions.with_data(),
        };
        // With `enforce_mine_cache` the mine is kept even if other data are not.
        let kept = ctx.config.jobs.minion_data_cache || ctx.config.jobs.enforce_mine_cache;
        Ok(if kept { minions.all(Part::Mine, ids) } else { empty(ids) })
    })
    .await
}

fn by_id(ctx: &RunnerContext, minions: &Minions<'_>, part: Part, ids: Vec<String>) -> Map {
    // Without the cache, old files may remain. They are stale, so every minion gets an empty map.
    if ctx.config.jobs.minion_data_cache { minions.all(part, ids) } else { empty(ids) }
}

fn empty(ids: Vec<String>) -> Map {
    ids.into_iter().map(|id| (id, Map::new())).collect()
}

/// The cached data to delete.
#[derive(Default)]
struct Clear {
    pillar: bool,
    grains: bool,
    mine: bool,
    mine_function: Option<String>,
}

async fn clear(ctx: &RunnerContext, tgt: Option<Value>, tgt_type: String, what: Clear) -> Result<bool> {
    // Without a target Salt deletes nothing rather than everything.
    let Some(tgt) = tgt else { return Ok(false) };
    let cleared = ctx.blocking(move |ctx| what.run(ctx, &tgt, &tgt_type)).await?;
    if !cleared.is_empty() {
        let ids: Vec<Value> = cleared.into_iter().map(Value::from).collect();
        // The others would keep the data for ever, since nothing compares caches with records.
        let told = other_masters::tell(ctx, map! { "what" => "data_changed", "ids" => ids }).await;
        if let Err(reason) = told {
            tracing::warn!("the data are cleared on this master only: {reason}");
        }
    }
    Ok(true)
}

impl Clear {
    /// Clears, and returns the minions that had data.
    fn run(&self, ctx: &RunnerContext, tgt: &Value, tgt_type: &str) -> Result<Vec<String>> {
        let minions = Minions::new(ctx)?;
        let known = minions.with_data();
        // Minions without any cached data are skipped, as in Salt: there is nothing to delete.
        let ids: Vec<String> = minions.matching(tgt, tgt_type)?.into_iter().filter(|id| known.contains(id)).collect();
        for id in &ids {
            if let Ok(id) = MinionId::new(id) {
                self.forget(ctx, &id)?;
            }
        }
        Ok(ids)
    }

    fn forget(&self, ctx: &RunnerContext, id: &MinionId) -> Result<()> {
        let data = ctx.data()?;
        for (part, wanted) in [(Part::Pillar, self.pillar), (Part::Grains, self.grains)] {
            if wanted {
                data.remove_part(part, id).map_err(failed)?;
            }
        }
        if self.mine {
            data.remove_mine(id).map_err(failed)?;
        } else if let Some(function) = &self.mine_function {
            let mut mine = data.mine(id).map_err(failed)?.map(|mine| (*mine).clone()).unwrap_or_default();
            // As in Salt, an entry whose value counts as false is not worth a write.
            if mine.remove(function.as_str()).is_some_and(|gone| gone.truthy()) {
                data.store_mine(id, mine).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Deletes the cached pillar of minions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.clear_pillar '*'
#[function]
async fn clear_pillar(ctx: &RunnerContext, tgt: Option<Value>, #[default("glob")] tgt_type: String) -> Result<bool> {
    clear(ctx, tgt, tgt_type, Clear { pillar: true, ..Clear::default() }).await
}

/// Deletes the cached grains of minions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.clear_grains '*'
#[function]
async fn clear_grains(ctx: &RunnerContext, tgt: Option<Value>, #[default("glob")] tgt_type: String) -> Result<bool> {
    clear(ctx, tgt, tgt_type, Clear { grains: true, ..Clear::default() }).await
}

/// Deletes the cached mine of minions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.clear_mine '*'
#[function]
async fn clear_mine(ctx: &RunnerContext, tgt: Option<Value>, #[default("glob")] tgt_type: String) -> Result<bool> {
    clear(ctx, tgt, tgt_type, Clear { mine: true, ..Clear::default() }).await
}

/// Deletes one function in the cached mine of minions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.clear_mine_func tgt='*' clear_mine_func_flag='network.interfaces'
#[function]
async fn clear_mine_func(
    ctx: &RunnerContext,
    tgt: Option<Value>,
    #[default("glob")] tgt_type: String,
    clear_mine_func_flag: Option<String>,
) -> Result<bool> {
    if clear_mine_func_flag.is_none() {
        return Ok(false);
    }
    clear(ctx, tgt, tgt_type, Clear { mine_function: clear_mine_func_flag, ..Clear::default() }).await
}

/// Deletes the cached grains, pillar and mine of minions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.clear_all '*'
#[function]
async fn clear_all(ctx: &RunnerContext, tgt: Option<Value>, #[default("glob")] tgt_type: String) -> Result<bool> {
    clear(ctx, tgt, tgt_type, Clear { pillar: true, grains: true, mine: true, ..Clear::default() }).await
}

/// Removes locks of the repositories of `gitfs` or `git_pillar`, all or those whose address matches the pattern
/// `remote`; `type` is one or several of `update`, `checkout` and `mountpoint`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.clear_git_lock gitfs
///     salt-run cache.clear_git_lock git_pillar type=update,checkout
#[function]
async fn clear_git_lock(
    ctx: &RunnerContext,
    role: String,
    remote: Option<String>,
    mut kwargs: KwArgs,
) -> Result<Value> {
    let kinds = kwargs.0.remove("type").filter(Value::truthy).map(|kinds| split_input(&kinds));
    // A misspelt `type` would clear all kinds of locks.
    if let Some(name) = kwargs.given().text_keys().next() {
        return Err(exec::Error::invocation(format!("The following keyword arguments are not valid: {name}")));
    }
    let all = || LockType::ALL.iter().map(|kind| kind.name().to_owned()).collect();
    let kinds: Vec<LockType> =
        // Unknown kinds are skipped. Naming only such kinds removes nothing.
        kinds.unwrap_or_else(all).iter().filter_map(|name| LockType::from_name(name.trim())).collect();
    ctx.blocking(move |ctx| match role.as_str() {
        "gitfs" => {
            let remotes = ctx.config.raw.get("gitfs_remotes").and_then(Value::as_list).unwrap_or_default();
            let group = Group::new(Role::GitFs, remotes, &ctx.config.raw, ctx.cachedir()).map_err(failed)?;
            Ok(clear_locks([&group], remote.as_deref(), &kinds))
        }
        "git_pillar" => {
            let sources = GitExternal::of_master(&ctx.config).map_err(failed)?.sources();
            Ok(clear_locks(sources.iter().map(|source| source.group()), remote.as_deref(), &kinds))
        }
        "winrepo" => refuse("winrepo"),
        _ => Err(exec::Error::invocation(format!("Invalid role '{role}'"))),
    })
    .await
}

fn clear_locks<'a>(groups: impl IntoIterator<Item = &'a Group>, remote: Option<&str>, kinds: &[LockType]) -> Value {
    let (mut cleared, mut errors) = (Vec::new(), Vec::new());
    for group in groups {
        for kind in kinds {
            let (done, failed) = group.clear_lock(remote, *kind);
            cleared.extend(done);
            errors.extend(failed);
        }
    }
    if cleared.is_empty() && errors.is_empty() {
        return "No locks were removed".into();
    }
    let mut said = map! { "cleared" => cleared, "errors" => errors };
    said.retain(|_, said| said.truthy());
    said.into()
}

/// Returns cached data of cloud machines. Not supported: there is no salt-cloud.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.cloud 'salt*'
#[function]
async fn cloud(_ctx: &RunnerContext, tgt: Value, provider: Option<String>) -> Result<Value> {
    let _ = (tgt, provider);
    refuse("cache.cloud (salt-cloud)")
}

/// Moves values from one cache driver to another. Not supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.migrate dry_run=True
#[function]
async fn migrate(
    _ctx: &RunnerContext,
    #[default("localfs")] src_driver: String,
    #[default("mmap_cache")] dst_driver: String,
    bank: Option<String>,
    cachedir: Option<String>,
    #[default(false)] dry_run: bool,
) -> Result<Value> {
    let _ = (bank, cachedir, dry_run);
    refuse(&format!("cache.migrate from {src_driver} to {dst_driver}"))
}

/// Returns the cache of the option `cache`. A separate directory matters only to `localfs`, as in Salt.
fn opened(ctx: &RunnerContext, cachedir: Option<String>) -> Result<Arc<Cache>> {
    let usual = ctx.data()?;
    let Some(cachedir) = cachedir.filter(|_| !usual.is_remote()) else { return Ok(usual) };
    Ok(Arc::new(Cache::in_directory(PathBuf::from(cachedir))))
}

/// Stores a value under a key of a bank.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.store mycache mykey 'The time has come the walrus said'
#[function]
async fn store(ctx: &RunnerContext, bank: String, key: String, data: Value, cachedir: Option<String>) -> Result<()> {
    ctx.blocking(move |ctx| opened(ctx, cachedir)?.put(&bank, &key, &data).map_err(failed)).await
}

/// Lists the keys of a bank.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.list cloud/active/ec2/myec2 cachedir=/var/cache/salt/
#[function]
async fn list(ctx: &RunnerContext, bank: String, cachedir: Option<String>) -> Result<Vec<String>> {
    ctx.blocking(move |ctx| opened(ctx, cachedir)?.list(&bank).map_err(failed)).await
}

/// Returns the value under a key of a bank; an empty map when there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.fetch cloud/active/ec2/myec2 myminion cachedir=/var/cache/salt/
#[function]
async fn fetch(ctx: &RunnerContext, bank: String, key: String, cachedir: Option<String>) -> Result<Value> {
    ctx.blocking(move |ctx| {
        let value = opened(ctx, cachedir)?.fetch(&bank, &key, ctx.rt.now()).map_err(failed)?;
        Ok(value.unwrap_or_else(|| map! {}.into()))
    })
    .await
}

/// Removes a key from a bank, or the whole bank, and returns whether there was one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run cache.flush cloud/active/ec2/myec2 myminion cachedir=/var/cache/salt/
#[function]
async fn flush(ctx: &RunnerContext, bank: String, key: Option<String>, cachedir: Option<String>) -> Result<bool> {
    ctx.blocking(move |ctx| {
        let cache = opened(ctx, cachedir)?;
        match key {
            Some(key) => cache.delete(&bank, &key),
            None => cache.flush(&bank),
        }
        .map_err(failed)
    })
    .await
}
