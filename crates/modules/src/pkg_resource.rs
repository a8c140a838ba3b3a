//! `pkg_resource` — what the package managers have in common.

use std::cmp::Ordering;
use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value};

/// The module.
pub static MODULE: Module = Module::new(
    "pkg_resource",
    "What the package managers have in common.",
    &[
        &ADD_PKG,
        &CHECK_EXTRA_REQUIREMENTS,
        &FORMAT_PKG_LIST,
        &FORMAT_VERSION,
        &PACK_SOURCES,
        &PARSE_TARGETS,
        &SORT_PKGLIST,
        &STRINGIFY,
        &VERSION,
        &VERSION_CLEAN,
        &VERSION_COMPARE,
    ],
);

fn has(ctx: &Context, fun: &str) -> bool {
    ctx.agent.registry().find(fun).is_ok()
}

fn call(ctx: &Context, fun: &str, args: Vec<Value>, kwargs: Map) -> Result<Value> {
    ctx.call_with(fun, Call { args, kwargs })
}

/// Returns the name a package has in lists, when names are to be made alike.
pub fn normalized(ctx: &Context, name: &str, normalize: bool) -> Result<String> {
    if !normalize || !has(ctx, "pkg.normalize_name") {
        return Ok(name.to_owned());
    }
    Ok(call(ctx, "pkg.normalize_name", vec![name.into()], Map::new())?.to_string())
}

/// Turns a list of names and of `name: version` maps into one map; empty when something in it is neither.
pub fn packed(list: &Value) -> Map {
    let mut found = Map::new();
    for item in list.as_list().unwrap_or_default() {
        match item {
            Value::Str(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_) => {
                found.insert(item.to_string(), Value::Null);
            }
            Value::Map(map) if map.len() == 1 => {
                found.extend(map.iter().map(|(key, value)| (key.to_string(), value.clone())));
            }
            _ => {
                tracing::error!("Invalid input: {list}");
                return Map::new();
            }
        }
    }
    found
}

/// The same for packages: versions are text, names are those of lists.
///
/// # Errors
/// When a name stands in the list twice, or something in it is not a package.
pub fn repack(ctx: &Context, pkgs: &Value, normalize: bool) -> Result<Map> {
    let list = match pkgs {
        Value::Str(text) => yaml::load(text, "argument").unwrap_or_default(),
        other => other.clone(),
    };
    let mut found = Map::new();
    for (name, version) in packed(&list) {
        let version = if version.is_null() { version } else { version.to_string().into() };
        found.insert(normalized(ctx, &name.to_string(), normalize)?, version);
    }
    // Normalizing can make two names one, so the entries are counted and not only compared.
    let given = match pkgs {
        Value::List(items) => items.len(),
        Value::Map(map) => map.len(),
        // Salt takes `len()` of the argument, which for a text is its number of letters. Texts
        // practically never pass.
        Value::Str(text) => text.chars().count(),
        _ => found.len(),
    };
    if given != found.len() {
        return Err(Error::invocation(format!(
            "You are passing a list of packages that contains duplicated packages names: {pkgs}. This cannot be processed. \
             In case you are targeting different versions of the same package, please target them individually"
        )));
    }
    Ok(found)
}

/// Adds a version of a package to a map of lists, which is returned.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.add_pkg '{}' bind 9
#[function]
fn add_pkg(pkgs: Map, name: String, pkgver: Value) -> Result<Map> {
    let mut pkgs = pkgs;
    if let Value::List(versions) = pkgs.entry_or_insert_with(name, || Value::List(Vec::new())) {
        versions.push(pkgver);
    }
    Ok(pkgs)
}

/// Returns whether a package of this version satisfies the given requirements; the package manager may know more.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.check_extra_requirements <pkgname> <extra_requirements>
#[function]
fn check_extra_requirements(ctx: &Context, pkgname: Value, pkgver: Value) -> Result<Value> {
    if pkgver.truthy() && has(ctx, "pkg.check_extra_requirements") {
        return call(ctx, "pkg.check_extra_requirements", vec![pkgname, pkgver], Map::new());
    }
    Ok(Value::Bool(true))
}

/// Returns a list of packages with full versions in the form of ``pkg.list_pkgs``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.format_pkg_list packages versions_as_list attr
#[function]
pub(crate) fn format_pkg_list(ctx: &Context, packages: Map, versions_as_list: Value, attr: Value) -> Result<Map> {
    if attr.truthy() {
        return with_attributes(ctx, &packages, &attr);
    }
    let version = |item: &Value| {
        let part = |name| item.get(name).filter(|part| part.truthy()).map(Value::to_string);
        whole_version(part("epoch"), part("version").unwrap_or_default(), part("release"))
    };
    let mut found = Map::new();
    for (name, items) in &packages {
        let versions: Vec<String> = items.as_list().unwrap_or_default().iter().map(version).collect();
        let shown = if versions_as_list.truthy() { versions.into() } else { Value::from(versions.join(",")) };
        found.insert(name.clone(), shown);
    }
    Ok(found)
}

/// All that can be asked of a package in a list.
const ATTRIBUTES: [&str; 6] = ["epoch", "version", "release", "arch", "install_date", "install_date_time_t"];

fn with_attributes(ctx: &Context, packages: &Map, attr: &Value) -> Result<Map> {
    let asked = crate::util::split_input(attr);
    let all = attr.as_str() == Some("all");
    let wanted = |key: &str| all || ["version", "arch"].contains(&key) || asked.iter().any(|name| name == key);
    let mut found = Map::new();
    for (name, items) in packages {
        let parsed = match has(ctx, "pkg.parse_arch") {
            true => call(ctx, "pkg.parse_arch", vec![name.clone()], Map::new())?,
            false => value::map! { "name" => name.clone(), "arch" => Value::Null }.into(),
        };
        let arch = parsed.get("arch").cloned().unwrap_or_default();
        let mut shown_name = name.clone();
        let mut versions = Vec::new();
        for item in items.as_list().unwrap_or_default() {
            let kept: Map = ATTRIBUTES
                .iter()
                .filter(|key| wanted(key))
                .filter_map(|key| Some((*key, item.get(key)?.clone())))
                .collect();
            // The name carries the architecture only while that is foreign.
            if *kept.get("arch").unwrap_or(&Value::Null) == arch
                && let Some(bare) = parsed.get("name").filter(|bare| bare.truthy())
            {
                shown_name = bare.clone();
            }
            versions.push(Value::Map(kept));
        }
        if let Value::List(list) = found.entry_or_insert_with(shown_name, || Value::List(Vec::new())) {
            list.extend(versions);
        }
    }
    Ok(found)
}

/// Returns a version with its epoch and release.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.format_version 1 2.3 4
#[function]
fn format_version(epoch: Value, version: Value, release: Value) -> Result<String> {
    let part = |value: Value| value.truthy().then(|| value.to_string());
    Ok(whole_version(part(epoch), version.to_string(), part(release)))
}

/// Writes `epoch:version-release`.
pub fn whole_version(epoch: Option<String>, version: String, release: Option<String>) -> String {
    let mut text = epoch.map_or_else(|| version.clone(), |epoch| format!("{epoch}:{version}"));
    if let Some(release) = release {
        text.push('-');
        text.push_str(&release);
    }
    text
}

/// Converts a list of ``name: source`` maps to one map; empty when an item is invalid.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.pack_sources '[{"foo": "salt://foo.rpm"}, {"bar": "salt://bar.rpm"}]'
#[function]
fn pack_sources(ctx: &Context, sources: Value, #[default(true)] normalize: bool) -> Result<Map> {
    packed_sources(ctx, &sources, normalize)
}

fn packed_sources(ctx: &Context, sources: &Value, normalize: bool) -> Result<Map> {
    let list = match sources {
        Value::Str(text) => yaml::load(text, "argument").unwrap_or_default(),
        other => other.clone(),
    };
    let mut found = Map::new();
    for item in list.as_list().unwrap_or_default() {
        let Some(map) = item.as_map().filter(|map| map.len() == 1) else {
            tracing::error!("Invalid input: {sources}. Input must be a list of 1-element dicts");
            return Ok(Map::new());
        };
        for (name, source) in map {
            found.insert(normalized(ctx, &name.to_string(), normalize)?, source.clone());
        }
    }
    Ok(found)
}

/// Returns the packages of a call and their kind: packages with their versions (``repository``), files (``file``) or
/// advisories (``advisory``).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.parse_targets
#[function]
fn parse_targets(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    #[default("base")] saltenv: String,
    #[default(true)] normalize: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let nothing = || value::list![Value::Null, Value::Null];
    if pkgs.truthy() && sources.truthy() {
        tracing::error!("Only one of \"pkgs\" and \"sources\" can be used.");
        return Ok(nothing());
    }
    if let Some(ids) = kwargs.0.get("advisory_ids") {
        return Ok(match (pkgs.truthy(), ids.truthy()) {
            (true, _) => nothing(),
            (false, true) => value::list![ids.clone(), "advisory"],
            (false, false) => value::list![value::list![name], "advisory"],
        });
    }
    if pkgs.truthy() {
        let found = repack(ctx, &pkgs, normalize)?;
        return Ok(if found.is_empty() { nothing() } else { value::list![found, "repository"] });
    }
    if sources.truthy() {
        let files = source_files(ctx, &sources, &saltenv, normalize)?;
        return Ok(files.map_or_else(nothing, |files| value::list![files, "file"]));
    }
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        tracing::error!("No package sources provided");
        return Ok(nothing());
    };
    let version = kwargs.0.get("version").cloned().unwrap_or_default();
    let mut found = Map::new();
    for name in name.split(',') {
        found.insert(normalized(ctx, name, normalize)?, version.clone());
    }
    Ok(value::list![found, "repository"])
}

fn source_files(ctx: &Context, sources: &Value, saltenv: &str, normalize: bool) -> Result<Option<Vec<String>>> {
    let sources = packed_sources(ctx, sources, normalize)?;
    let mut files = Vec::new();
    for (name, source) in &sources {
        let source = source.to_string();
        let scheme = source.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| SCHEMES.contains(&scheme)) {
            let cached = call(ctx, "cp.cache_file", vec![source.clone().into(), saltenv.into()], Map::new())?;
            let missing = || Error::execution(format!("Unable to cache source {source} for package {name}"));
            files.push(cached.as_str().filter(|path| !path.is_empty()).ok_or_else(missing)?.to_owned());
        } else if Path::new(&source).is_absolute() {
            files.push(source);
        } else {
            let text = format!("Path {source} for package {name} is either not absolute or an invalid protocol");
            return Err(Error::invocation(text));
        }
    }
    Ok(Some(files).filter(|files| !files.is_empty()))
}

/// The kinds of addresses that files can be fetched from.
const SCHEMES: [&str; 7] = ["salt", "http", "https", "ftp", "s3", "swift", "file"];

/// Returns the map with the versions of each package sorted, each once.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.sort_pkglist '["3.45", "2.13"]'
#[function]
fn sort_pkglist(pkgs: Map) -> Result<Map> {
    let mut pkgs = pkgs;
    for (_, versions) in pkgs.iter_mut() {
        if let Value::List(list) = versions {
            list.sort_by_key(Value::to_string);
            list.dedup();
        }
    }
    Ok(pkgs)
}

/// Returns the map with the versions of each package as one text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.stringify 'vim: 7.127'
#[function]
pub(crate) fn stringify(pkgs: Map) -> Result<Map> {
    Ok(pkgs.into_iter().map(|(name, versions)| (name, joined(&versions))).collect())
}

fn joined(versions: &Value) -> String {
    match versions {
        Value::List(list) => list.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Returns the version of a package, or an empty text if it is not installed; for several, or a pattern, a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.version vim
///     salt '*' pkg_resource.version foo bar baz
#[function]
fn version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut kwargs = kwargs.given();
    let as_list = kwargs.remove("versions_as_list").is_some_and(|on| on.truthy());
    kwargs.insert("versions_as_list", true);
    let installed = match names.0.is_empty() {
        true => Map::new(),
        false => call(ctx, "pkg.list_pkgs", Vec::new(), kwargs)?.into_map().unwrap_or_default(),
    };
    Ok(versions_of(&installed, &names.0, as_list))
}

/// Picks the versions of packages out of a list of all.
pub fn versions_of(installed: &Map, names: &[Value], as_list: bool) -> Value {
    let shown = |versions: &Value| if as_list { versions.clone() } else { joined(versions).into() };
    let mut found = Map::new();
    let mut pattern = false;
    for name in names.iter().map(Value::to_string) {
        if name.contains('*') {
            pattern = true;
            let matching = installed.iter().filter(|(known, _)| targeting::fnmatch(&known.to_string(), &name));
            found.extend(matching.map(|(known, versions)| (known.clone(), shown(versions))));
        } else {
            let versions = installed.get(&name).map_or_else(|| shown(&Value::List(Vec::new())), shown);
            found.insert(name, versions);
        }
    }
    match found.values().next() {
        Some(single) if found.len() == 1 && !pattern => single.clone(),
        _ => Value::Map(found),
    }
}

/// Returns a version in the form that the package manager compares.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.version_clean <version_string>
#[function]
fn version_clean(ctx: &Context, verstr: Value) -> Result<Value> {
    if verstr.truthy() && has(ctx, "pkg.version_clean") {
        return call(ctx, "pkg.version_clean", vec![verstr], Map::new());
    }
    Ok(verstr)
}

/// Returns whether two versions compare as the operator says.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg_resource.version_compare 1.2 '>=' 1.1
#[function]
fn version_compare(ver1: String, oper: String, ver2: String, #[default(false)] ignore_epoch: bool) -> Result<bool> {
    let order = compare_loosely(&ver1, &ver2, ignore_epoch);
    Ok(match oper.as_str() {
        "<" => order < 0,
        "<=" => order <= 0,
        "==" => order == 0,
        ">=" => order >= 0,
        ">" => order > 0,
        "!=" => order != 0,
        _ => false,
    })
}

/// Compares versions of no known kind, part by part: numbers by value, words by letters, a word below a number.
pub fn compare_loosely(a: &str, b: &str, ignore_epoch: bool) -> i64 {
    let bare = |version: &str| match version.split_once(':') {
        Some((_, rest)) if ignore_epoch => rest.to_owned(),
        _ => version.to_owned(),
    };
    let (a, b) = (parts(&bare(a)), parts(&bare(b)));
    let order = a.iter().zip(&b).map(|(a, b)| part_order(a, b)).find(|order| order.is_ne());
    order.unwrap_or_else(|| a.len().cmp(&b.len())) as i64
}

fn part_order(a: &str, b: &str) -> Ordering {
    match (a.parse::<u128>(), b.parse::<u128>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Greater,
        (Err(_), Ok(_)) => Ordering::Less,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

fn parts(version: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut before = None;
    for c in version.chars() {
        let kind = if c.is_ascii_digit() { Some(true) } else { c.is_alphabetic().then_some(false) };
        match kind {
            Some(_) if kind == before => parts.last_mut().expect("there is one").push(c),
            Some(_) => parts.push(c.to_string()),
            // Signs between the parts only separate them.
            None => {}
        }
        before = kind;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn lists_of_packages_are_packed() {
        let found = packed(&list!["a", map! { "b" => "1.0" }, 3]);
        assert_eq!(found, map! { "a" => Value::Null, "b" => "1.0", "3" => Value::Null });
        assert!(packed(&list!["a", map! { "b" => 1, "c" => 2 }]).is_empty());
    }

    #[test]
    fn a_package_named_twice_is_refused() {
        let (ctx, _) = exec::testing::context(&[&MODULE], map! {}, map! {}, map! {});
        let error = repack(&ctx, &list!["a", "a"], true).unwrap_err();
        assert!(error.to_string().contains("duplicated packages names: ['a', 'a']"), "{error}");
    }

    #[test]
    fn attributes_are_picked() {
        let (ctx, _) = exec::testing::context(&[&MODULE], map! {}, map! {}, map! {});
        let packages =
            map! { "a" => list![map! { "epoch" => "1", "version" => "2", "release" => "3", "arch" => "x" }] };
        let call =
            |attr: Value| ctx.call("pkg_resource.format_pkg_list", vec![packages.clone().into(), false.into(), attr]);
        assert_eq!(call(Value::Null).unwrap(), map! { "a" => "1:2-3" }.into());
        let kept = call(list!["epoch"]).unwrap();
        assert_eq!(kept, map! { "a" => list![map! { "epoch" => "1", "version" => "2", "arch" => "x" }] }.into());
    }

    #[test]
    fn versions_of_no_kind_are_compared() {
        for (a, b, order) in
            [("1.2", "1.10", -1), ("1.0", "1.0", 0), ("2", "1.9", 1), ("1.0a", "1.0", 1), ("1:1", "2", -1)]
        {
            assert_eq!(compare_loosely(a, b, false), order, "{a} {b}");
        }
        assert_eq!(compare_loosely("1:2", "2", true), 0);
    }
}
