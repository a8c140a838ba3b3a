//! `pkg` on Alpine: apk.

use std::sync::Mutex;

use exec::{Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, map};

use crate::packages::common;
use crate::subprocess::Extra;
use crate::util::is_true;
use crate::{pkg_resource, util};

/// The module.
pub static MODULE: Module = Module::new(
    "pkg",
    "Functions that look at packages and change what is installed, with apk.",
    &[
        &FILE_DICT,
        &FILE_LIST,
        &INSTALL,
        &LATEST_VERSION,
        &LIST_PKGS,
        &LIST_UPGRADES,
        &OWNER,
        &PURGE,
        &REFRESH_DB,
        &REMOVE,
        &UPGRADE,
        &VERSION,
    ],
)
.only_if(|grains| match grains.get_str("os_family") {
    Some("Alpine") => Ok(()),
    _ => Err("Module apk only works on Alpine Linux based systems".into()),
})
.provided_by("apkpkg");

/// The installed packages, kept until something is changed.
#[derive(Default)]
struct InstalledCache(Mutex<Option<Map>>);

/// Packages with the list of their versions.
fn installed(ctx: &Context, remembered: bool) -> Result<Map> {
    let memo = ctx.memo.get::<InstalledCache>();
    let known = memo.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    if let Some(packages) = known.filter(|_| remembered) {
        return Ok(packages);
    }
    let text = common::output(ctx, &["apk", "info", "-v"], true)?;
    let mut packages = Map::new();
    for (name, version) in text.lines().filter_map(split) {
        if let Value::List(versions) = packages.entry_or_insert_with(name, || Value::List(Vec::new())) {
            versions.push(version.into());
        }
    }
    for (_, versions) in packages.iter_mut() {
        if let Value::List(versions) = versions {
            versions.sort_by_key(Value::to_string);
        }
    }
    *memo.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(packages.clone());
    Ok(packages)
}

/// Splits `busybox-extras-1.36.1-r5` into name and version.
fn split(line: &str) -> Option<(&str, &str)> {
    // `name-version-r1`: the last part is the revision of the package and belongs to the version.
    let (rest, _) = line.rsplit_once('-')?;
    let (name, _) = rest.rsplit_once('-')?;
    Some((name, &line[name.len() + 1..]))
}

/// The same, with the versions of each as one text.
fn installed_versions(ctx: &Context) -> Result<Map> {
    pkg_resource::stringify(installed(ctx, true)?)
}

/// Returns installed packages with their versions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_pkgs
///     salt '*' pkg.list_pkgs versions_as_list=True
#[function]
fn list_pkgs(ctx: &Context, #[default(false)] versions_as_list: Value, kwargs: KwArgs) -> Result<Map> {
    if ["removed", "purge_desired"].iter().any(|name| kwargs.0.get(name).is_some_and(is_true)) {
        return Ok(Map::new());
    }
    let packages = installed(ctx, kwargs.0.get("use_context").is_none_or(Value::truthy))?;
    if is_true(&versions_as_list) { Ok(packages) } else { pkg_resource::stringify(packages) }
}

/// Returns the version of an installed package; for several a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.version <package name>
///     salt '*' pkg.version <package1> <package2> <package3>
#[function]
fn version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let as_list = kwargs.0.get("versions_as_list").is_some_and(Value::truthy);
    let packages = if names.0.is_empty() { Map::new() } else { installed(ctx, true)? };
    Ok(pkg_resource::versions_of(&packages, &names.0, as_list))
}

/// Refreshes the package index.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.refresh_db
#[function]
fn refresh_db(ctx: &Context, kwargs: KwArgs) -> Result<bool> {
    let _ = kwargs;
    refresh(ctx).map(|()| true)
}

fn refresh(ctx: &Context) -> Result<()> {
    let said = common::run(ctx, &["apk", "update"], Extra::default())?;
    common::clear_refresh_mark(ctx);
    match said.retcode {
        Some(0) => Ok(()),
        _ => {
            // The text is Salt's, though nothing was to be installed.
            let info = map! { "errors" => vec![said.stdout], "changes" => false };
            Err(Error::detailed("Problem encountered installing package(s)", info))
        }
    }
}

/// Reads lines such as `(1/2) Upgrading busybox (1.36.1-r4 -> 1.36.1-r5)`: the packages with their new versions.
fn upgrades(text: &str) -> Vec<(String, String)> {
    let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = words.filter_map(|words| Some((words.get(2)?.to_string(), words.get(5)?.trim_matches(')').to_owned())));
    found.collect()
}

/// Returns the newest version of a package that is available, or an empty text when it is installed; for several a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.latest_version <package name>
#[function]
fn latest_version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    if names.is_empty() {
        return Ok("".into());
    }
    let packages = installed_versions(ctx)?;
    if kwargs.0.get("refresh").is_none_or(is_true) {
        refresh(ctx)?;
    }
    let mut found: Map = names.iter().map(|name| (name.as_str(), "")).collect();
    for (name, version) in upgrades(&common::output(ctx, &["apk", "upgrade", "-s"], false)?) {
        if names.contains(&name) {
            found.insert(name, version);
        }
    }
    // Packages that are not installed are not among the upgrades and have to be searched for.
    for name in &names {
        if found.get(name).is_some_and(Value::truthy) {
            continue;
        }
        let text = common::output(ctx, &["apk", "search", name], false)?;
        for (_, version) in text.lines().filter_map(split).filter(|(other, _)| other == name) {
            let there = packages.get_str(name) == Some(version);
            found.insert(name.as_str(), if there { "" } else { version });
        }
    }
    Ok(match found.values().next() {
        Some(single) if names.len() == 1 => single.clone(),
        _ => found.into(),
    })
}

/// Returns the packages that have a newer version, with that version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_upgrades
#[function]
fn list_upgrades(ctx: &Context, #[default(true)] refresh: Value, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    if is_true(&refresh) {
        self::refresh(ctx)?;
    }
    let said = common::run(ctx, &["apk", "upgrade", "-s"], Extra::default())?;
    if said.retcode != Some(0) {
        return Err(Error::execution(said.stderr + &said.stdout));
    }
    let lines: Vec<&str> = said.stdout.lines().filter(|line| line.contains("Upgrading")).collect();
    Ok(upgrades(&lines.join("\n")).into_iter().collect())
}

/// The names a call is about.
fn names(name: Option<String>) -> Vec<String> {
    let name = name.filter(|name| !name.is_empty());
    name.map(|name| name.split(',').map(str::to_owned).collect()).unwrap_or_default()
}

fn checked(names: Vec<String>) -> Result<Vec<String>> {
    match names.iter().find(|name| name.is_empty() || name.starts_with('-')) {
        // Names may come from pillars, and apk would read these as options.
        Some(bad) => Err(Error::invocation(format!("'{bad}' is not the name of a package"))),
        None => Ok(names),
    }
}

/// The name in an item of a list of packages, which may be a map of it to a version.
fn name_of(item: &Value) -> String {
    match item {
        Value::Map(map) => map.keys().next().map(Value::to_string).unwrap_or_default(),
        other => other.to_string(),
    }
}

/// Runs a command that changes packages, and returns the changes.
fn change(ctx: &Context, words: &[String], what: &str) -> Result<Map> {
    let old = installed_versions(ctx)?;
    let said = common::run(ctx, words, Extra::default())?;
    let failed = said.retcode != Some(0) && !said.stderr.is_empty();
    ctx.memo.forget::<InstalledCache>();
    let changes = common::differences(&old, &installed_versions(ctx)?);
    let errors = if failed { vec![said.stderr] } else { Vec::new() };
    common::outcome(&format!("Problem encountered {what} package(s)"), errors, changes)
}

/// Installs or upgrades packages; returns the changes. Versions are ignored.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.install <package name>
///     salt '*' pkg.install pkgs='["foo", "bar"]'
#[function]
fn install(
    ctx: &Context,
    name: Option<String>,
    #[default(false)] refresh: Value,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let several = pkgs.truthy() || sources.truthy();
    let mut wanted = if several { Vec::new() } else { names(name) };
    wanted.extend(pkgs.as_list().unwrap_or_default().iter().map(name_of));
    let wanted = checked(wanted)?;
    if wanted.is_empty() {
        return Ok(Map::new());
    }
    let old = installed(ctx, true)?;
    if is_true(&refresh) {
        self::refresh(ctx)?;
    }
    let mut words = vec!["apk".to_owned(), "add".into()];
    // `add` leaves an installed package at its version unless it is asked to upgrade.
    words.extend(wanted.iter().any(|name| old.contains_key(name)).then(|| "-u".to_owned()));
    words.extend(wanted);
    change(ctx, &words, "installing")
}

/// Removes packages; returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.remove <package name>
///     salt '*' pkg.remove pkgs='["foo", "bar"]'
#[function]
fn remove(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(false)] purge: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    removed(ctx, name, &pkgs, purge)
}

/// Removes packages with their settings; returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.purge <package name>
#[function]
fn purge(ctx: &Context, name: Option<String>, #[default(Value::Null)] pkgs: Value, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    removed(ctx, name, &pkgs, true)
}

fn removed(ctx: &Context, name: Option<String>, pkgs: &Value, purge: bool) -> Result<Map> {
    let mut wanted = names(name);
    wanted.extend(pkgs.as_list().unwrap_or_default().iter().map(name_of));
    let wanted = checked(wanted)?;
    if wanted.is_empty() {
        return Ok(Map::new());
    }
    let mut words = vec!["apk".to_owned(), "del".into()];
    words.extend(purge.then(|| "--purge".to_owned()));
    words.extend(wanted);
    change(ctx, &words, "removing")
}

/// Upgrades all packages, or those named; returns ``result``, ``changes`` and ``comment``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade
#[function]
fn upgrade(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(true)] refresh: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    if is_true(&refresh) {
        self::refresh(ctx)?;
    }
    let old = installed_versions(ctx)?;
    let mut wanted = if pkgs.truthy() { Vec::new() } else { names(name) };
    wanted.extend(util::split_input(&pkgs));
    let wanted = checked(wanted)?;
    let verb: &[&str] = if wanted.is_empty() { &["apk", "upgrade"] } else { &["apk", "add", "-u"] };
    let words: Vec<&str> = verb.iter().copied().chain(wanted.iter().map(String::as_str)).collect();
    let said = common::run(ctx, &words, Extra { merge: true, ..Extra::default() })?;
    ctx.memo.forget::<InstalledCache>();
    // Unlike other modules, Salt's returns a failed upgrade and does not raise.
    let done = said.retcode == Some(0);
    let comment = if done { String::new() } else { said.stdout };
    let changes = common::differences(&old, &installed_versions(ctx)?);
    Ok(map! { "changes" => changes, "result" => done, "comment" => comment })
}

/// Returns the files of packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_list httpd postfix
#[function]
fn file_list(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    file_dict(ctx, packages, kwargs)
}

/// Returns the files of packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_dict httpd postfix
#[function]
fn file_dict(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    if packages.0.is_empty() {
        return Ok("Package name should be provided".into());
    }
    let mut found = Map::new();
    for name in checked(packages.0.iter().map(Value::to_string).collect())? {
        let text = common::output(ctx, &["apk", "info", "-L", &name], false)?;
        // The title of the list.
        let files: Vec<&str> = text.lines().filter(|line| !line.ends_with("contains:")).collect();
        if !files.is_empty() {
            found.insert(name, files);
        }
    }
    Ok(map! { "errors" => Vec::<String>::new(), "packages" => found }.into())
}

/// Returns the packages that own files.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.owner /usr/bin/apachectl
///     salt '*' pkg.owner /usr/bin/apachectl /usr/bin/basename
#[function]
fn owner(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    if paths.0.is_empty() {
        return Ok("You must provide a path".into());
    }
    let mut found = Map::new();
    for path in paths.0.iter().map(Value::to_string) {
        let text = common::output(ctx, &["apk", "info", "-W", &path], false)?;
        let package = match text.split_once("by ") {
            _ if text.is_empty() => format!("Error running ['apk', 'info', '-W', '{path}']"),
            _ if text.contains("ERROR:") => "Could not find owner package".to_owned(),
            Some((_, rest)) => rest.split("by ").next().unwrap_or_default().trim().to_owned(),
            None => text,
        };
        found.insert(path, package);
    }
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_split() {
        assert_eq!(split("busybox-extras-1.36.1-r5"), Some(("busybox-extras", "1.36.1-r5")));
        assert_eq!(split("WARNING: x"), None);
        let text = "(1/2) Upgrading busybox (1.36.1-r4 -> 1.36.1-r5)\nOK: 8 MiB in 15 packages\n";
        assert_eq!(upgrades(text)[0], ("busybox".to_owned(), "1.36.1-r5".to_owned()));
    }
}
