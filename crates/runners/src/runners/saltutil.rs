//! `saltutil` — custom Python plug-ins of the master.
//!
//! They are copied to `extension_modules`; nothing here could load them.

use exec::{Result, function};
use value::{Map, Value};

use crate::extmods::{self, Chosen};
use crate::{Module, RunnerContext};

/// The functions of the runner `saltutil`.
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

/// The kinds of plug-ins: the name in the result, and the directory. They differ for proxy modules, as in Salt.
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

/// Copies the plug-ins of one kind and returns the names of those that changed.
async fn sync(ctx: &RunnerContext, saltenv: Value, kind: &'static str, chosen: Chosen) -> Result<Vec<Value>> {
    ctx.blocking(move |ctx| extmods::sync(ctx, &saltenv, kind, &chosen)).await
}

/// Brings the plug-ins of all kinds to the master and returns those that changed. They are Python, which is not run yet.
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
    let chosen = Chosen { whitelist: extmod_whitelist, blacklist: extmod_blacklist };
    let mut all = Map::new();
    for (name, kind) in KINDS {
        all.insert(name, sync(ctx, saltenv.clone(), kind, chosen.clone()).await?);
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
            let chosen = Chosen { whitelist: extmod_whitelist, blacklist: extmod_blacklist };
            sync(ctx, saltenv, $kind, chosen).await
        }
    )* };
}

sync! {
    /// Brings the plug-ins in `salt://_cache` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_cache
    sync_cache: "cache",
    /// Brings the plug-ins in `salt://_clouds` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_clouds
    sync_clouds: "clouds",
    /// Brings the plug-ins in `salt://_tokens` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_eauth_tokens
    sync_eauth_tokens: "tokens",
    /// Brings the plug-ins in `salt://_engines` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_engines
    sync_engines: "engines",
    /// Brings the plug-ins in `salt://_executors` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_executors
    sync_executors: "executors",
    /// Brings the plug-ins in `salt://_fileserver` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_fileserver
    sync_fileserver: "fileserver",
    /// Brings the plug-ins in `salt://_grains` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_grains
    sync_grains: "grains",
    /// Brings the plug-ins in `salt://_modules` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_modules
    sync_modules: "modules",
    /// Brings the plug-ins in `salt://_output` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_output
    sync_output: "output",
    /// Brings the plug-ins in `salt://_pillar` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_pillar
    sync_pillar: "pillar",
    /// Brings the plug-ins in `salt://_proxy` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_proxymodules
    sync_proxymodules: "proxy",
    /// Brings the plug-ins in `salt://_queues` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_queues
    sync_queues: "queues",
    /// Brings the plug-ins in `salt://_renderers` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_renderers
    sync_renderers: "renderers",
    /// Brings the plug-ins in `salt://_returners` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_returners
    sync_returners: "returners",
    /// Brings the plug-ins in `salt://_roster` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_roster
    sync_roster: "roster",
    /// Brings the plug-ins in `salt://_runners` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_runners
    sync_runners: "runners",
    /// Brings the plug-ins in `salt://_sdb` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_sdb
    sync_sdb: "sdb",
    /// Brings the plug-ins in `salt://_serializers` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_serializers
    sync_serializers: "serializers",
    /// Brings the plug-ins in `salt://_states` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_states
    sync_states: "states",
    /// Brings the plug-ins in `salt://_thorium` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_thorium
    sync_thorium: "thorium",
    /// Brings the plug-ins in `salt://_tops` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_tops
    sync_tops: "tops",
    /// Brings the plug-ins in `salt://_utils` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_utils
    sync_utils: "utils",
    /// Brings the plug-ins in `salt://_wheel` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_wheel
    sync_wheel: "wheel",
    /// Brings the plug-ins in `salt://_wrapper` to the master and returns those that changed. They are Python, which is not run
    /// yet.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run saltutil.sync_wrapper
    sync_wrapper: "wrapper"
}
