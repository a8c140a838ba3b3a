//! The selection states of dpkg, and downloaded packages.

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::{failure, parse_selections, selections};
use crate::lowpkg::dpkg::utc;
use crate::subprocess;

/// Sets the selection state of packages: ``install``, ``hold``, ``deinstall`` or ``purge``. Returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.set_selections selection='{"install": ["netcat"]}'
///     salt '*' pkg.set_selections salt://path/to/file
#[function]
fn set_selections(
    ctx: &Context,
    path: Option<String>,
    #[default(Value::Null)] selection: Value,
    #[default(false)] clear: bool,
    #[default("base")] saltenv: String,
) -> Result<Map> {
    let wanted = match (path.filter(|path| !path.is_empty()), selection) {
        // Salt's own text, which names both arguments.
        (Some(_), selection) if selection.truthy() => {
            return Err(Error::invocation(
                "The 'selection' and 'path' arguments to pkg.set_selections are mutually exclusive, and cannot be specified \
                 together",
            ));
        }
        (Some(path), _) => {
            let path = ctx.call("cp.cache_file", vec![path.into(), saltenv.into()])?.to_string();
            let text = std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error))?;
            parse_selections(&text)
        }
        (None, Value::Str(text)) => {
            let error = |error: yaml::Error| Error::invocation(format!("Improperly-formatted selection: {error}"));
            yaml::load(&text, "selection").map_err(error)?.into_map().unwrap_or_default()
        }
        (None, selection) => selection.into_map().unwrap_or_default(),
    };
    let bad: Vec<&str> =
        wanted.text_keys().filter(|state| !["install", "hold", "deinstall", "purge"].contains(state)).collect();
    if !bad.is_empty() {
        return Err(Error::invocation(format!("Invalid state(s): {}", bad.join(", "))));
    }
    // Not in test mode: this deletes dpkg's data about all packages.
    if clear && !wanted.is_empty() && !ctx.is_test() {
        let said = subprocess::quiet(ctx, &["dpkg", "--clear-selections"])?;
        if let Some(why) = failure(&said) {
            return Err(Error::execution(format!("Running dpkg --clear-selections failed: {why}")));
        }
    }
    let known = selections(ctx, None, None)?;
    set_all(ctx, &wanted, &known)
}

fn set_all(ctx: &Context, wanted: &Map, known: &Map) -> Result<Map> {
    let state_of = |name: &Value| {
        let has = |list: &Value| list.as_list().is_some_and(|list| list.contains(name));
        known.iter().find(|(_, list)| has(list)).map_or(Value::Null, |(state, _)| state.clone())
    };
    let mut changes = Map::new();
    for (state, names) in wanted {
        for name in names.as_list().unwrap_or_default() {
            let old = state_of(name);
            if old == *state || ctx.is_test() {
                continue;
            }
            // dpkg reads selections from its standard input.
            let said = subprocess::fed(ctx, &["dpkg", "--set-selections"], format!("{name} {state}\n").into_bytes())?;
            if said.retcode == Some(0) {
                changes.insert(name.clone(), map! { "old" => old, "new" => state.clone() });
            } else {
                tracing::error!("failed to set state {state} for package {name}");
            }
        }
    }
    Ok(changes)
}

/// Returns the packages in apt's cache, by name and version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_downloaded
#[function]
fn list_downloaded(ctx: &Context, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let cache = format!("{}/var/cache/apt", root.as_deref().unwrap_or_default().trim_end_matches('/'));
    let mut files = Vec::new();
    packages_below(Path::new(&cache), &mut files);
    let mut found = Map::new();
    for path in files {
        let info = ctx.call("lowpkg.bin_pkg_info", vec![path.as_str().into()])?;
        let text = |name: &str| info.get(name).map(Value::to_string).unwrap_or_default();
        let meta = std::fs::metadata(&path).map_err(|error| Error::io("look at", &path, &error))?;
        let seconds = std::os::unix::fs::MetadataExt::ctime(&meta);
        let entry = map! {
            "path" => path.as_str(),
            "size" => meta.len(),
            "creation_date_time_t" => seconds,
            "creation_date_time" => utc(seconds).trim_end_matches('Z'),
        };
        let versions = found.entry_or_insert_with(text("name"), || Map::new().into());
        if let Value::Map(versions) = versions {
            versions.insert(text("version"), entry);
        }
    }
    Ok(found)
}

fn packages_below(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Links may lead in circles.
        if path.is_dir() && !path.is_symlink() {
            packages_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "deb") {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}
