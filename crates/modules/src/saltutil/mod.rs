//! `saltutil` — the minion looking after itself: its jobs, what it has loaded, its caches and keys.

mod jobs;
mod on_master;
mod sync;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use exec::{Call, Context, Error, KwArgs, Module, Refresh, Result, VarArgs, function};
use value::{Map, Value, map};

use jobs::{
    FIND_CACHED_JOB, FIND_JOB, IS_RUNNING, KILL_ALL_JOBS, KILL_JOB, RUNNING, SIGNAL_JOB, TERM_ALL_JOBS, TERM_JOB,
};
use on_master::{CMD, CMD_ITER, RUNNER, WHEEL};
use sync::{
    SYNC_ALL, SYNC_BEACONS, SYNC_CLOUDS, SYNC_ENGINES, SYNC_EXECUTORS, SYNC_GRAINS, SYNC_LOG_HANDLERS, SYNC_MATCHERS,
    SYNC_MODULES, SYNC_OUTPUT, SYNC_OUTPUTTERS, SYNC_PILLAR, SYNC_PROXYMODULES, SYNC_RENDERERS, SYNC_RESOURCES,
    SYNC_RETURNERS, SYNC_SDB, SYNC_SERIALIZERS, SYNC_STATES, SYNC_THORIUM, SYNC_TOPS, SYNC_UTILS, SYNC_WRAPPER,
};

/// The module.
pub static MODULE: Module = Module::new(
    "saltutil",
    "The minion looking after itself.",
    &[
        &CLEAR_CACHE,
        &CLEAR_JOB_CACHE,
        &CMD,
        &CMD_ITER,
        &FIND_CACHED_JOB,
        &FIND_JOB,
        &IS_RUNNING,
        &KILL_ALL_JOBS,
        &KILL_JOB,
        &LIST_EXTMODS,
        &MMODULE,
        &PILLAR_REFRESH,
        &REFRESH_BEACONS,
        &REFRESH_GRAINS,
        &REFRESH_MATCHERS,
        &REFRESH_MODULES,
        &REFRESH_PILLAR,
        &REFRESH_RESOURCES,
        &REGEN_KEYS,
        &REVOKE_AUTH,
        &RUNNER,
        &RUNNING,
        &SIGNAL_JOB,
        &SYNC_ALL,
        &SYNC_BEACONS,
        &SYNC_CLOUDS,
        &SYNC_ENGINES,
        &SYNC_EXECUTORS,
        &SYNC_GRAINS,
        &SYNC_LOG_HANDLERS,
        &SYNC_MATCHERS,
        &SYNC_MODULES,
        &SYNC_OUTPUT,
        &SYNC_OUTPUTTERS,
        &SYNC_PILLAR,
        &SYNC_PROXYMODULES,
        &SYNC_RENDERERS,
        &SYNC_RESOURCES,
        &SYNC_RETURNERS,
        &SYNC_SDB,
        &SYNC_SERIALIZERS,
        &SYNC_STATES,
        &SYNC_THORIUM,
        &SYNC_TOPS,
        &SYNC_UTILS,
        &SYNC_WRAPPER,
        &TERM_ALL_JOBS,
        &TERM_JOB,
        &UPDATE,
        &WHEEL,
    ],
);

/// Refreshes the grains and, unless ``refresh_pillar=False``, compiles the pillar with them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.refresh_grains
#[function]
fn refresh_grains(ctx: &Context, kwargs: KwArgs) -> Result<bool> {
    let mut given = kwargs.given();
    let with_pillar = given.remove("refresh_pillar").is_none_or(|wanted| wanted.truthy());
    let clean = given.remove("clean_pillar_cache").is_some_and(|wanted| wanted.truthy());
    if let Some((name, value)) = given.iter().next() {
        let text = format!("The following keyword arguments are not valid: {name}={value}");
        return Err(Error::Invocation(text));
    }
    // The cache on disk would hand the old grains to the next start.
    remove_grains_cache(ctx);
    ctx.wait(ctx.agent.refresh(Refresh::Grains))?;
    if with_pillar && clean {
        ctx.wait(ctx.agent.refresh(Refresh::Pillar { clean }))?;
    }
    // As in Salt, the outcome of the refresh is not reported.
    Ok(true)
}

/// With the option `grains_cache` old grains would be read back.
fn remove_grains_cache(ctx: &Context) {
    let file = Path::new(ctx.cachedir()).join("grains.cache.p");
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!("Could not remove grains cache {}: {error}", file.display());
        }
        _ => {}
    }
}

/// Recompiles the pillar at every master. ``wait=True`` waits until that is done, at most ``timeout`` seconds. With
/// ``clean_cache=False`` a master that has the option ``pillar_cache`` may answer with its cached pillar.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.refresh_pillar
///     salt '*' saltutil.refresh_pillar wait=True timeout=60
#[function]
fn refresh_pillar(
    ctx: &Context,
    #[default(false)] wait: bool,
    #[default(30)] timeout: u64,
    #[default(true)] clean_cache: bool,
) -> Result<bool> {
    new_pillar(ctx, wait.then_some(timeout), clean_cache)
}

/// The same as ``saltutil.refresh_pillar``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.pillar_refresh
#[function]
fn pillar_refresh(
    ctx: &Context,
    #[default(false)] wait: bool,
    #[default(30)] timeout: u64,
    #[default(true)] clean_cache: bool,
) -> Result<bool> {
    new_pillar(ctx, wait.then_some(timeout), clean_cache)
}

fn new_pillar(ctx: &Context, seconds: Option<u64>, clean: bool) -> Result<bool> {
    let what = Refresh::Pillar { clean };
    // Without `wait` the refresh is only ordered.
    let Some(seconds) = seconds else { return ctx.wait(ctx.agent.refresh(what)) };
    let done = ctx.wait(ctx.agent.refresh_within(what, Duration::from_secs(seconds)))?;
    Ok(done.unwrap_or_else(|| {
        // Salt only logs a timeout and still returns True.
        tracing::warn!("Pillar refresh did not complete within timeout {seconds}");
        true
    }))
}

/// The longest wait of ``saltutil.refresh_modules async=False``.
const MODULES_PATIENCE: Duration = Duration::from_secs(30);

/// Reloads the modules, with the grains they depend on. ``async=False`` waits until that is done.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.refresh_modules
///     salt-call saltutil.refresh_modules async=False
#[function]
fn refresh_modules(ctx: &Context, kwargs: KwArgs) -> Result<bool> {
    if kwargs.0.get("async").is_none_or(Value::truthy) {
        return ctx.wait(ctx.agent.refresh(Refresh::Modules));
    }
    // Salt does not report either that the wait timed out.
    Ok(ctx.wait(ctx.agent.refresh_within(Refresh::Modules, MODULES_PATIENCE))?.unwrap_or(true))
}

/// Reloads the settings of the beacons.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.refresh_beacons
#[function]
fn refresh_beacons(ctx: &Context) -> Result<bool> {
    ctx.wait(ctx.agent.refresh(Refresh::Beacons))
}

/// Reloads the matchers.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.refresh_matchers
#[function]
fn refresh_matchers(ctx: &Context) -> Result<bool> {
    ctx.wait(ctx.agent.refresh(Refresh::Matchers))
}

/// Fires the event that refreshes resources. There are none here, so it has no effect.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.refresh_resources
#[function]
fn refresh_resources(ctx: &Context) -> Result<bool> {
    ctx.wait(ctx.agent.fire_local("resource_refresh", Map::new()))
}

/// Returns the custom modules that were synced, by kind.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.list_extmods
#[function]
fn list_extmods(ctx: &Context) -> Result<Map> {
    let top = sync::extension_modules(ctx);
    let mut kinds = Map::new();
    for kind in store::disk::names(&top).map_err(|error| Error::execution(error.to_string()))? {
        let folder = top.join(&kind);
        if !folder.is_dir() {
            continue;
        }
        let mut names: Vec<String> = sync::files_below(&folder)
            .iter()
            .filter_map(|file| file.file_name()?.to_str()?.split('.').next().map(str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        kinds.insert(kind.to_string_lossy(), names);
    }
    Ok(kinds)
}

/// Removes all files in the cache directory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.clear_cache
#[function]
fn clear_cache(ctx: &Context) -> Result<bool> {
    let top = PathBuf::from(ctx.cachedir());
    Ok(ctx.blocking(move || remove_files(&top)))
}

fn remove_files(top: &Path) -> bool {
    // Not a cache: returns that no master has acknowledged yet, and the ids of jobs that must not run again.
    let kept = top.join("saltern");
    for file in sync::files_below(top).into_iter().filter(|file| !file.starts_with(&kept)) {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::error!(
                    "Attempt to clear cache with saltutil.clear_cache FAILED with: {}: {error}",
                    file.display()
                );
                return false;
            }
            _ => {}
        }
    }
    true
}

/// Removes jobs from the minion's job cache that are older than that many hours.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.clear_job_cache hours=12
#[function]
fn clear_job_cache(ctx: &Context, #[default(24)] hours: u64) -> Result<bool> {
    let top = Path::new(ctx.cachedir()).join("minion_jobs");
    // A huge number of hours reaches back beyond the clock's range. Nothing is that old.
    let oldest = SystemTime::now().checked_sub(Duration::from_secs(hours.saturating_mul(3600)));
    let Some(oldest) = oldest else { return Ok(true) };
    for entry in std::fs::read_dir(&top).into_iter().flatten().flatten() {
        let is_old = entry.metadata().and_then(|meta| meta.modified()).is_ok_and(|changed| changed < oldest);
        if is_old
            && entry.path().is_dir()
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            let path = entry.path();
            tracing::error!(
                "Attempt to clear cache with saltutil.clear_job_cache FAILED with: {}: {error}",
                path.display()
            );
            return Ok(false);
        }
    }
    Ok(true)
}

/// Asks every master to delete this minion's key, as far as they allow it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.revoke_auth
#[function]
fn revoke_auth(ctx: &Context, #[default(false)] preserve_minion_cache: bool) -> Result<bool> {
    let load = map! { "cmd" => "revoke_auth", "id" => ctx.id(), "preserve_minion_cache" => preserve_minion_cache };
    ctx.wait(ctx.agent.broadcast(load))
}

/// Removes this minion's keys, so that new ones are made at the next start. Every master must then accept the new key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.regen_keys
#[function]
fn regen_keys(ctx: &Context) -> Result<()> {
    let folder = PathBuf::from(ctx.opt_str("pki_dir").unwrap_or("/etc/salt/pki/minion"));
    let entries = std::fs::read_dir(&folder).map_err(|error| Error::io("list the keys in", &folder, &error))?;
    // The running minion keeps its key in memory. It makes a new one when it starts again.
    for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
        std::fs::remove_file(entry.path()).map_err(|error| Error::io("remove the key", entry.path(), &error))?;
    }
    Ok(())
}

/// Calls a function as if the minion ran in another environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.mmodule base test.ping
#[function]
fn mmodule(ctx: &Context, saltenv: String, fun: String, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut opts = (*ctx.opts).clone();
    opts.insert("saltenv", saltenv);
    let there = Context { opts: opts.into(), ..ctx.clone() };
    there.call_permitted(&fun, Call { args: args.0, kwargs: kwargs.given() })
}

/// Refused: a minion is updated by the package manager or by replacing its file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.update
#[function]
fn update(version: Option<String>) -> Result<Map> {
    let _ = version;
    Ok(map! { "_error" => "not supported: a minion does not replace its own program" })
}
