//! `fileserver` — what the file server serves.

use exec::{Error, KwArgs, Result, function};
use files::{FileServer, Lists};
use value::{Map, Value, map};

use crate::context::failed;
use crate::texts::split_input;
use crate::{Module, RunnerContext};

/// The module.
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

/// Says whether the backend `roots`, which is the only one there is, is meant.
///
/// Names with a minus sign in front take backends away, unless there are others without.
fn roots_meant(ctx: &RunnerContext, backend: Option<&Value>) -> bool {
    let enabled = ctx.config.files.fileserver_backend.iter().any(|name| name == "roots");
    let named = backend.map(split_input).unwrap_or_default();
    if named.iter().all(String::is_empty) {
        return enabled;
    }
    if named.iter().all(|name| name.starts_with('-')) {
        return enabled && !named.iter().any(|name| name == "-roots");
    }
    named.iter().any(|name| name == "roots")
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
    if !roots_meant(ctx, backend.as_ref()) {
        return Ok(Vec::new());
    }
    // Salt returns the sorted names of the sources, then.
    if sources { Ok(vec!["roots".into()]) } else { Ok(ctx.files()?.envs()) }
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
        if !roots_meant(ctx, backend.as_ref()) {
            return Ok(pick(Lists::default()));
        }
        Ok(pick(ctx.files()?.lists(&saltenv.to_string()).map_err(failed)?))
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

/// Returns the links of an environment, with what they point to.
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

/// Returns the directories of an environment with nothing in them.
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

/// Looks for changes in all files, and tells the event bus if the options say so.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.update
#[function]
async fn update(ctx: &RunnerContext, backend: Option<Value>, kwargs: KwArgs) -> Result<bool> {
    let given = kwargs.given();
    if let Some(name) = given.keys().next() {
        let text = format!("update() got an unexpected keyword argument '{name}'");
        return Err(Error::Arguments(text));
    }
    if !roots_meant(ctx, backend.as_ref()) {
        return Ok(true);
    }
    let change = ctx.blocking(|ctx| ctx.files()?.update().map_err(failed)).await?;
    if ctx.config.raw.get("fileserver_events").is_some_and(Value::truthy) {
        ctx.events.fire("salt/fileserver/roots/update", change.to_event()).await;
    }
    Ok(true)
}

/// Forgets lists of files, so that they are made anew, and returns of which environments.
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
        if !roots_meant(ctx, backend.as_ref()) {
            return Ok(Map::new());
        }
        let mut cleared = clear_lists(&ctx.files()?, saltenv.as_ref())?;
        cleared.sort();
        Ok(if cleared.is_empty() {
            Map::new()
        } else {
            map! { "roots" => cleared }
        })
    })
    .await
}

fn clear_lists(server: &FileServer, saltenv: Option<&Value>) -> Result<Vec<String>> {
    let Some(saltenv) = saltenv else { return server.clear_lists(None).map_err(failed) };
    let mut cleared = Vec::new();
    for env in split_input(saltenv) {
        cleared.extend(server.clear_lists(Some(&env)).map_err(failed)?);
    }
    Ok(cleared)
}

/// Forgets what backends fetched from elsewhere. The backend `roots` fetches nothing.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.clear_cache
#[function]
async fn clear_cache(_ctx: &RunnerContext, backend: Option<Value>) -> Result<String> {
    let _ = backend;
    Ok("No cache was cleared".into())
}

/// Removes locks of backends. The backend `roots` has none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.clear_lock
#[function]
async fn clear_lock(_ctx: &RunnerContext, backend: Option<Value>, remote: Option<Value>) -> Result<String> {
    let _ = (backend, remote);
    Ok("No locks were removed".into())
}

/// Sets locks of backends. The backend `roots` has none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run fileserver.lock
#[function]
async fn lock(_ctx: &RunnerContext, backend: Option<Value>, remote: Option<Value>) -> Result<String> {
    let _ = (backend, remote);
    Ok("No locks were set".into())
}
