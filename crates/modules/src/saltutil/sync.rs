//! Synchronises custom modules from the file server (`salt://_modules` and so on) to the minion.
//!
//! The files are kept in Salt's places, so that a real minion that takes over finds them and `list_extmods` shows them.
//! They are Python and cannot be run here, which is logged once for each sync that brought some.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use exec::{Body, Bound, Context, Error, Function, Param, Refresh, Result, function};
use files::CachedDir;
use value::{Map, Value};

use crate::{fileclient, util};

/// The settings of a sync.
struct Sync {
    /// The directory on the server without its underscore, and here.
    form: &'static str,
    saltenv: Option<Value>,
    /// Only these, or all but these: names, or a map from kind to names.
    whitelist: Option<Value>,
    blacklist: Option<Value>,
}

/// Returns the folder of the custom modules.
pub fn extension_modules(ctx: &Context) -> PathBuf {
    let option = ctx.opt_str("extension_modules").map(PathBuf::from);
    option.unwrap_or_else(|| Path::new(ctx.cachedir()).join("extmods"))
}

/// All files below a directory.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                // The file type does not follow links, so a link to a directory cannot lead in a
                // circle.
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => files.push(entry.path()),
                Err(error) => tracing::warn!("failed to look at {}: {error}", entry.path().display()),
            }
        }
    }
    files
}

impl Sync {
    /// Synchronises the modules and returns the names of those that changed.
    fn run(&self, ctx: &Context) -> Result<Vec<String>> {
        let folder = extension_modules(ctx).join(self.form);
        store::disk::make_directories(&folder).map_err(|error| Error::io("make the directory", &folder, &error))?;
        let (mut changed, mut wanted) = (Vec::new(), BTreeSet::new());
        for env in self.environments(ctx) {
            for (inside, cached) in self.fetch(ctx, &env)? {
                let name = module_name(&inside);
                // Not in the list of wanted files, so a copy from before is removed.
                if !self.allows(ctx, &name) {
                    continue;
                }
                wanted.insert(inside.clone());
                if bring(&cached, &folder.join(&inside))? {
                    changed.push(format!("{}.{name}", self.form));
                }
            }
        }
        // Modules that are gone from the server must go, or they would stay in use.
        if ctx.opts.get("clean_dynamic_modules") != Some(&Value::Bool(false)) {
            remove_others(&folder, &wanted)?;
        }
        if !changed.is_empty() {
            tracing::warn!("{} were synced; modules in Python cannot be run by this minion", changed.join(", "));
        }
        Ok(changed)
    }

    fn environments(&self, ctx: &Context) -> Vec<String> {
        match &self.saltenv {
            Some(envs) if envs.truthy() => util::split_input(envs),
            _ => vec![ctx.opt_str("saltenv").unwrap_or("base").to_owned()],
        }
    }

    /// Fetches the directory into the file cache; gives each file with its path inside.
    fn fetch(&self, ctx: &Context, env: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
        let how = CachedDir {
            saltenv: env.to_owned(),
            // Salt copies these kinds only.
            include: Some(r"E@\.(pyx?|so|zip)$".to_owned()),
            ..CachedDir::default()
        };
        let address = format!("salt://_{}", self.form);
        let files = fileclient::within(ctx, fileclient::client(ctx)?.cache_dir(&address, &how))?;
        let top = Path::new(ctx.cachedir()).join("files").join(env).join(format!("_{}", self.form));
        Ok(files
            .into_iter()
            .filter_map(|file| Some((file.strip_prefix(&top).ok()?.to_owned(), file.clone())))
            .collect())
    }

    fn allows(&self, ctx: &Context, name: &str) -> bool {
        let listed = |given: &Option<Value>, option: &str| match given.as_ref().or_else(|| ctx.opt(option)) {
            // The options list names by kind, the arguments of a call only names.
            Some(Value::Map(kinds)) => {
                kinds.get(self.form).map(|names| util::split_input(names).iter().any(|n| n == name))
            }
            Some(names) if given.is_some() => Some(util::split_input(names).iter().any(|n| n == name)),
            _ => None,
        };
        listed(&self.whitelist, "extmod_whitelist") != Some(false)
            && listed(&self.blacklist, "extmod_blacklist") != Some(true)
    }
}

/// `sub/mod.py` is `sub.mod`.
fn module_name(inside: &Path) -> String {
    let plain = inside.with_extension("");
    let parts: Vec<_> = plain.iter().map(|part| part.to_string_lossy()).collect();
    parts.join(".")
}

/// Copies a file that is new or different, and returns whether it was.
fn bring(from: &Path, to: &Path) -> Result<bool> {
    let content = std::fs::read(from).map_err(|error| Error::io("read", from, &error))?;
    // An untouched file keeps its times, and is not reported.
    if std::fs::read(to).is_ok_and(|known| known == content) {
        return Ok(false);
    }
    let folder = to.parent().unwrap_or(Path::new("/"));
    store::disk::make_directories(folder)
        .and_then(|()| util::replace_file(to, &content, 0o600))
        .map_err(|error| Error::io("write", to, &error))?;
    Ok(true)
}

/// Removes what the server no longer has, and directories that became empty.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    for file in files_below(folder) {
        if file.strip_prefix(folder).is_ok_and(|inside| !wanted.contains(inside)) {
            std::fs::remove_file(&file).map_err(|error| Error::io("remove", &file, &error))?;
            let parents = file.ancestors().skip(1).take_while(|parent| *parent != folder);
            for parent in parents {
                // One that is not empty stays.
                if std::fs::remove_dir(parent).is_err() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// The part of the minion to reload after a sync.
#[derive(Clone, Copy)]
enum After {
    Nothing,
    Refresh(Refresh),
    Event(&'static str),
}

impl After {
    fn run(self, ctx: &Context) -> Result<()> {
        match self {
            After::Nothing => Ok(()),
            After::Refresh(what) => ctx.wait(ctx.agent.refresh(what)).map(drop),
            After::Event(tag) => ctx.wait(ctx.agent.fire_local(tag, Map::new())).map(drop),
        }
    }
}

/// Some kinds are for masterless minions alone: they belong to the master.
fn check_masterless(ctx: &Context, form: &str) -> Result<()> {
    let what = match form {
        "pillar" => "Pillar modules",
        "tops" => "Master top modules",
        "wrapper" => "Wrapper modules",
        _ => return Ok(()),
    };
    if ctx.is_local() {
        Ok(())
    } else {
        Err(Error::execution(format!("{what} can only be synced to masterless minions")))
    }
}

fn one_kind(ctx: &Context, sync: Sync, after: After) -> Result<Vec<String>> {
    check_masterless(ctx, sync.form)?;
    let changed = sync.run(ctx)?;
    after.run(ctx)?;
    Ok(changed)
}

/// The arguments of a sync function, in the order of its parameters.
fn arguments(function: &Function, bound: Bound) -> Map {
    function.params.iter().map(|param| param.name).zip(bound.values).collect()
}

fn by_table(ctx: &Context, form: &'static str, given: Map, after: After) -> Result<Value> {
    let some = |name: &str| given.get(name).filter(|value| value.truthy()).cloned();
    let sync = Sync {
        form,
        saltenv: some("saltenv"),
        whitelist: some("extmod_whitelist"),
        blacklist: some("extmod_blacklist"),
    };
    let clean = some("clean_pillar_cache").is_some();
    let after = match after {
        _ if some("refresh").is_none() => After::Nothing,
        After::Refresh(Refresh::Pillar { .. }) => After::Refresh(Refresh::Pillar { clean }),
        after => after,
    };
    Ok(one_kind(ctx, sync, after)?.into())
}

/// Makes a parameter that has a default.
macro_rules! param {
    ($name:literal, $default:expr) => {
        Param { name: $name, default: Some(|| Value::from($default)), keyword_only: false }
    };
}

/// Makes the entry of a function that syncs one kind of modules; they differ in little but their names. `$refresh` is
/// the default of the parameter of that name, `$more` what else there is.
macro_rules! sync {
    ($constant:ident, $name:literal, $form:literal, [$($refresh:expr)?], $after:expr $(, $more:expr)*) => {
        #[doc = concat!("The table entry of `", $name, "`.")]
        pub static $constant: Function = Function {
            name: $name,
            doc: concat!(
                "Brings the custom modules in ``salt://_", $form, "`` to the minion and returns those that changed.\n\n",
                "They are kept but cannot be run, being Python. The lists hold names to be left out or kept to.\n\n",
                "CLI Example:\n\n.. code-block:: bash\n\n    salt '*' saltutil.", $name, "\n    salt '*' saltutil.",
                $name, " saltenv=base,dev"
            ),
            params: &[
                param!("saltenv", ()),
                $(param!("refresh", $refresh),)?
                param!("extmod_whitelist", ()),
                param!("extmod_blacklist", ()),
                $($more),*
            ],
            varargs: None,
            kwargs: None,
            out: None,
            body: Body::Plain(|ctx, bound| by_table(ctx, $form, arguments(&$constant, bound), $after)),
        };
    };
}

const MODULES: After = After::Refresh(Refresh::Modules);
const PILLAR: After = After::Refresh(Refresh::Pillar { clean: false });

sync!(SYNC_BEACONS, "sync_beacons", "beacons", [true], After::Refresh(Refresh::Beacons));
sync!(SYNC_CLOUDS, "sync_clouds", "clouds", [true], MODULES);
sync!(SYNC_ENGINES, "sync_engines", "engines", [false], MODULES);
sync!(SYNC_EXECUTORS, "sync_executors", "executors", [true], MODULES);
sync!(
    SYNC_GRAINS,
    "sync_grains",
    "grains",
    [true],
    After::Refresh(Refresh::Grains),
    param!("clean_pillar_cache", false)
);
sync!(SYNC_LOG_HANDLERS, "sync_log_handlers", "log_handlers", [true], MODULES);
sync!(SYNC_MATCHERS, "sync_matchers", "matchers", [false], MODULES);
sync!(SYNC_MODULES, "sync_modules", "modules", [true], MODULES);
sync!(SYNC_OUTPUT, "sync_output", "output", [true], MODULES);
sync!(SYNC_OUTPUTTERS, "sync_outputters", "output", [true], MODULES);
sync!(SYNC_PILLAR, "sync_pillar", "pillar", [true], PILLAR, param!("clean_pillar_cache", false));
sync!(SYNC_PROXYMODULES, "sync_proxymodules", "proxy", [false], MODULES);
sync!(SYNC_RENDERERS, "sync_renderers", "renderers", [true], MODULES);
sync!(SYNC_RESOURCES, "sync_resources", "resources", [true], After::Event("resource_refresh"));
sync!(SYNC_RETURNERS, "sync_returners", "returners", [true], MODULES);
sync!(SYNC_SDB, "sync_sdb", "sdb", [], After::Nothing);
sync!(SYNC_SERIALIZERS, "sync_serializers", "serializers", [true], MODULES);
sync!(SYNC_STATES, "sync_states", "states", [true], MODULES);
sync!(SYNC_THORIUM, "sync_thorium", "thorium", [false], MODULES);
sync!(SYNC_TOPS, "sync_tops", "tops", [true], After::Nothing);
sync!(SYNC_UTILS, "sync_utils", "utils", [true], MODULES);
sync!(SYNC_WRAPPER, "sync_wrapper", "wrapper", [true], MODULES);

/// The kinds that `sync_all` synchronises, under the names it returns them by; the first and the last two for
/// masterless minions.
// In Salt's order, which is that of the result.
const ALL_KINDS: [(&str, &str); 21] = [
    ("tops", "tops"),
    ("clouds", "clouds"),
    ("beacons", "beacons"),
    ("modules", "modules"),
    ("states", "states"),
    ("sdb", "sdb"),
    ("grains", "grains"),
    ("renderers", "renderers"),
    ("returners", "returners"),
    ("output", "output"),
    ("utils", "utils"),
    ("log_handlers", "log_handlers"),
    ("executors", "executors"),
    ("proxymodules", "proxy"),
    ("engines", "engines"),
    ("thorium", "thorium"),
    ("serializers", "serializers"),
    ("matchers", "matchers"),
    ("resources", "resources"),
    ("pillar", "pillar"),
    ("wrapper", "wrapper"),
];

/// Synchronises the custom modules of all kinds to the minion and returns those that changed, by kind.
///
/// They are kept but cannot be run, because they are Python. The whitelist and the blacklist hold names, or maps from
/// kind to names.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.sync_all
///     salt '*' saltutil.sync_all saltenv=base,dev refresh=False
#[function]
pub fn sync_all(
    ctx: &Context,
    saltenv: Option<Value>,
    #[default(true)] refresh: bool,
    extmod_whitelist: Option<Value>,
    extmod_blacklist: Option<Value>,
    #[default(false)] clean_pillar_cache: bool,
) -> Result<Map> {
    let mut changed = Map::new();
    for (name, form) in ALL_KINDS {
        // Left out silently here; a direct call is an error.
        if check_masterless(ctx, form).is_err() {
            continue;
        }
        let (saltenv, whitelist, blacklist) = (saltenv.clone(), extmod_whitelist.clone(), extmod_blacklist.clone());
        changed.insert(name, Sync { form, saltenv, whitelist, blacklist }.run(ctx)?);
    }
    if refresh {
        // One refresh at the end, and not one for each kind.
        After::Refresh(Refresh::Pillar { clean: clean_pillar_cache }).run(ctx)?;
    }
    Ok(changed)
}
