//! `fileserver` — what the file server serves.

use exec::{Error, KwArgs, Result, function};
use files::{Chosen, FileServer, Lists};
use value::{Map, Value};

use crate::context::failed;
use crate::texts::split_input;
use crate::{Module, RunnerContext};

/// The functions of the runner `fileserver`.
pub static MODULE: Module = Module::new(
    "fileserver",
    "What the file server serves.",
    &[
        &CLEAR_CACHE,
        &CLEAR_FILE_LIST_CACHE,
        &CLEAR_LOCK,
        &DIR_LIST,
        &EMPTY_DIR_LIST,
        &ENVS,
        &FILE_LIST,
        &LOCK,
        &SYMLINK_LIST,
        &UPDATE,
    ],
);

/// Returns the backends a runner should use.
fn chosen(server: &FileServer, backend: Option<&Value>) -> Chosen {
    server.choose(&backend.filter(|backend| backend.truthy()).map(split_input).unwrap_or_default())
}

/// Returns the names of the environments.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.envs
///     salt-run fileserver.envs backend=roots
#[function]
async fn envs(ctx: &RunnerContext, backend: Option<Value>, #[default(false)] sources: bool) -> Result<Vec<String>> {
    ctx.blocking(move |ctx| {
        let server = ctx.files()?;
        let chosen = chosen(&server, backend.as_ref());
        // Salt returns the sorted names of the sources, then.
        Ok(if sources { sorted(chosen.names()) } else { server.envs_of(&chosen) })
    })
    .await
}

fn sorted(names: Vec<&str>) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = names.into_iter().map(str::to_owned).collect();
    names.into_iter().collect()
}

async fn listed<T>(
    ctx: &RunnerContext,
    saltenv: Value,
    backend: Option<Value>,
    pick: impl FnOnce(Lists) -> T + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
{
    ctx.blocking(move |ctx| {
        let server = ctx.files()?;
        let chosen = chosen(&server, backend.as_ref());
        Ok(pick(server.lists_of(&chosen, &saltenv.to_string()).map_err(failed)?))
    })
    .await
}

/// Returns the files of an environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.file_list
///     salt-run fileserver.file_list saltenv=prod
#[function]
async fn file_list(ctx: &RunnerContext, #[default("base")] saltenv: Value, backend: Option<Value>) -> Result<Value> {
    listed(ctx, saltenv, backend, |lists| lists.files.into_iter().collect()).await
}

/// Returns the links of an environment, with their targets.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.symlink_list
#[function]
async fn symlink_list(ctx: &RunnerContext, #[default("base")] saltenv: Value, backend: Option<Value>) -> Result<Map> {
    listed(ctx, saltenv, backend, |lists| lists.links.into_iter().collect()).await
}

/// Returns the directories of an environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.dir_list
#[function]
async fn dir_list(ctx: &RunnerContext, #[default("base")] saltenv: Value, backend: Option<Value>) -> Result<Value> {
    listed(ctx, saltenv, backend, |lists| lists.dirs.into_iter().collect()).await
}

/// Returns the empty directories of an environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.empty_dir_list
#[function]
async fn empty_dir_list(
    ctx: &RunnerContext,
    #[default("base")] saltenv: Value,
    backend: Option<Value>,
) -> Result<Value> {
    listed(ctx, saltenv, backend, |lists| lists.empty_dirs.into_iter().collect()).await
}

/// Updates backends: looks for changes in all files, fetches repositories, and fires an event if the options say so.
/// `remotes` are the names of the repositories to fetch, by default all.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.update
///     salt-run fileserver.update backend=roots,git
///     salt-run fileserver.update backend=git remotes=myrepo,yourrepo
#[function]
async fn update(ctx: &RunnerContext, backend: Option<Value>, kwargs: KwArgs) -> Result<bool> {
    let given = kwargs.given();
    if let Some(name) = given.text_keys().find(|name| *name != "remotes") {
        let text = format!("update() got an unexpected keyword argument '{name}'");
        return Err(Error::Arguments(text));
    }
    let remotes = given.get("remotes").filter(|remotes| remotes.truthy()).map(split_input).unwrap_or_default();
    let updated = ctx
        .blocking(move |ctx| {
            let server = ctx.files()?;
            server.update(&chosen(&server, backend.as_ref()), &remotes).map_err(failed)
        })
        .await?;
    if ctx.config.raw.get("fileserver_events").is_some_and(Value::truthy) {
        for updated in updated {
            ctx.events.fire(&updated.tag(), updated.event).await;
        }
    }
    Ok(true)
}

/// Deletes cached file lists and returns the environments of the deleted lists. Only the backend `roots` keeps such
/// lists.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.clear_file_list_cache
///     salt-run fileserver.clear_file_list_cache saltenv=base
#[function]
async fn clear_file_list_cache(ctx: &RunnerContext, saltenv: Option<Value>, backend: Option<Value>) -> Result<Map> {
    ctx.blocking(move |ctx| {
        let server = ctx.files()?;
        let envs = saltenv.as_ref().map(split_input);
        server.clear_lists(&chosen(&server, backend.as_ref()), envs.as_deref()).map_err(failed)
    })
    .await
}

/// Returns what a backend did, or Salt's sentence for nothing.
fn or_nothing(said: Map, nothing: &str) -> Value {
    if said.is_empty() { nothing.into() } else { said.into() }
}

/// Deletes what backends fetched from remotes. It is fetched again at the next update.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.clear_cache
///     salt-run fileserver.clear_cache backend=git
#[function]
async fn clear_cache(ctx: &RunnerContext, backend: Option<Value>) -> Result<Value> {
    ctx.blocking(move |ctx| {
        let server = ctx.files()?;
        Ok(or_nothing(server.clear_cache(&chosen(&server, backend.as_ref())), "No cache was cleared"))
    })
    .await
}

/// Removes locks of repositories, of all or of those whose address matches the pattern `remote`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.clear_lock
///     salt-run fileserver.clear_lock backend=git remote='*github.com*'
#[function]
async fn clear_lock(ctx: &RunnerContext, backend: Option<Value>, remote: Option<Value>) -> Result<Value> {
    ctx.blocking(move |ctx| {
        let server = ctx.files()?;
        let remote = remote.filter(Value::truthy).map(|remote| remote.to_string());
        let said = server.clear_lock(&chosen(&server, backend.as_ref()), remote.as_deref());
        Ok(or_nothing(said, "No locks were removed"))
    })
    .await
}

/// Locks repositories, all or those whose address matches the pattern `remote`, so that they are not fetched until the
/// lock is cleared.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.lock
///     salt-run fileserver.lock backend=git remote='*github.com*'
#[function]
async fn lock(ctx: &RunnerContext, backend: Option<Value>, remote: Option<Value>) -> Result<Value> {
    ctx.blocking(move |ctx| {
        let server = ctx.files()?;
        Ok(or_nothing(server.lock(&chosen(&server, backend.as_ref()), remote.as_ref()), "No locks were set"))
    })
    .await
}
