//! `saltutil` — custom Python plug-ins of the master.
//!
//! There is nothing here that could load them. Where there are none in the file server, nothing had to be synced, and
//! that is what the functions say; where there are some, they are refused by name.

use exec::{Result, function};
use value::{Map, Value};

use crate::context::failed;
use crate::refusal::refuse;
use crate::texts::split_input;
use crate::{Module, RunnerContext};

/// The module.
pub static MODULE: Module = Module::new(
    "saltutil",
    "Custom Python plug-ins of the master.",
    &[
        &SYNC_ALL,
        &SYNC_CACHE,
        &SYNC_CLOUDS,
        &SYNC_EAUTH_TOKENS,
        &SYNC_ENGINES,
        &SYNC_EXECUTORS,
        &SYNC_FILESERVER,
        &SYNC_GRAINS,
        &SYNC_MODULES,
        &SYNC_OUTPUT,
        &SYNC_PILLAR,
        &SYNC_PROXYMODULES,
        &SYNC_QUEUES,
        &SYNC_RENDERERS,
        &SYNC_RETURNERS,
        &SYNC_ROSTER,
        &SYNC_RUNNERS,
        &SYNC_SDB,
        &SYNC_SERIALIZERS,
        &SYNC_STATES,
        &SYNC_THORIUM,
        &SYNC_TOPS,
        &SYNC_UTILS,
        &SYNC_WHEEL,
        &SYNC_WRAPPER,
    ],
);

/// The kinds of plug-ins: the name a function has, and the directory.
const KINDS: [(&str, &str); 24] = [
    ("cache", "cache"),
    ("clouds", "clouds"),
    ("tokens", "tokens"),
    ("engines", "engines"),
    ("executors", "executors"),
    ("fileserver", "fileserver"),
    ("grains", "grains"),
    ("modules", "modules"),
    ("output", "output"),
    ("pillar", "pillar"),
    ("proxymodules", "proxy"),
    ("queues", "queues"),
    ("renderers", "renderers"),
    ("returners", "returners"),
    ("roster", "roster"),
    ("runners", "runners"),
    ("sdb", "sdb"),
    ("serializers", "serializers"),
    ("states", "states"),
    ("thorium", "thorium"),
    ("tops", "tops"),
    ("utils", "utils"),
    ("wheel", "wheel"),
    ("wrapper", "wrapper"),
];

/// Returns what there was to sync: nothing.
async fn sync(ctx: &RunnerContext, saltenv: Value, kind: &'static str) -> Result<Vec<Value>> {
    ctx.blocking(move |ctx| {
        let server = ctx.files()?;
        let prefix = format!("_{kind}/");
        for env in split_input(&saltenv) {
            let files = server.lists(&env).map_err(failed)?.files;
            let plug_in = |file: &&String| {
                file.starts_with(&prefix) && [".py", ".pyx", ".so", ".zip"].iter().any(|end| file.ends_with(end))
            };
            if let Some(file) = files.iter().find(plug_in) {
                return refuse(&format!("plug-ins written in Python, such as salt://{file} (saltenv {env})"));
            }
        }
        Ok(Vec::new())
    })
    .await
}

/// Syncs plug-ins of all kinds to the master, of which there must be none: they are written in Python.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltutil.sync_all
#[function]
async fn sync_all(
    ctx: &RunnerContext,
    #[default("base")] saltenv: Value,
    extmod_whitelist: Option<Value>,
    extmod_blacklist: Option<Value>,
) -> Result<Map> {
    let _ = (extmod_whitelist, extmod_blacklist);
    let mut all = Map::new();
    for (name, kind) in KINDS {
        all.insert(name, sync(ctx, saltenv.clone(), kind).await?);
    }
    Ok(all)
}

macro_rules! sync {
    ($($(#[$doc:meta])* $name:ident: $kind:literal),*) => { $(
        $(#[$doc])*
        #[function]
        async fn $name(
            ctx: &RunnerContext,
            #[default("base")] saltenv: Value,
            extmod_whitelist: Option<Value>,
            extmod_blacklist: Option<Value>,
        ) -> Result<Vec<Value>> {
            let _ = (extmod_whitelist, extmod_blacklist);
            sync(ctx, saltenv, $kind).await
        }
    )* };
}

sync! {
    /// Syncs plug-ins from `salt://_cache`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_cache
    sync_cache: "cache",
    /// Syncs plug-ins from `salt://_clouds`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_clouds
    sync_clouds: "clouds",
    /// Syncs plug-ins from `salt://_tokens`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_eauth_tokens
    sync_eauth_tokens: "tokens",
    /// Syncs plug-ins from `salt://_engines`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_engines
    sync_engines: "engines",
    /// Syncs plug-ins from `salt://_executors`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_executors
    sync_executors: "executors",
    /// Syncs plug-ins from `salt://_fileserver`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_fileserver
    sync_fileserver: "fileserver",
    /// Syncs plug-ins from `salt://_grains`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_grains
    sync_grains: "grains",
    /// Syncs plug-ins from `salt://_modules`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_modules
    sync_modules: "modules",
    /// Syncs plug-ins from `salt://_output`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_output
    sync_output: "output",
    /// Syncs plug-ins from `salt://_pillar`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_pillar
    sync_pillar: "pillar",
    /// Syncs plug-ins from `salt://_proxy`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_proxymodules
    sync_proxymodules: "proxy",
    /// Syncs plug-ins from `salt://_queues`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_queues
    sync_queues: "queues",
    /// Syncs plug-ins from `salt://_renderers`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_renderers
    sync_renderers: "renderers",
    /// Syncs plug-ins from `salt://_returners`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_returners
    sync_returners: "returners",
    /// Syncs plug-ins from `salt://_roster`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_roster
    sync_roster: "roster",
    /// Syncs plug-ins from `salt://_runners`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_runners
    sync_runners: "runners",
    /// Syncs plug-ins from `salt://_sdb`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_sdb
    sync_sdb: "sdb",
    /// Syncs plug-ins from `salt://_serializers`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_serializers
    sync_serializers: "serializers",
    /// Syncs plug-ins from `salt://_states`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_states
    sync_states: "states",
    /// Syncs plug-ins from `salt://_thorium`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_thorium
    sync_thorium: "thorium",
    /// Syncs plug-ins from `salt://_tops`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_tops
    sync_tops: "tops",
    /// Syncs plug-ins from `salt://_utils`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_utils
    sync_utils: "utils",
    /// Syncs plug-ins from `salt://_wheel`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_wheel
    sync_wheel: "wheel",
    /// Syncs plug-ins from `salt://_wrapper`, of which there must be none: they are written in Python.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_wrapper
    sync_wrapper: "wrapper"
}
