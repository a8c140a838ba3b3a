//! Installing, upgrading and removing packages.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::installed_versions;
use super::reads::{changed, repo_packages};
use crate::packages::common::{self, Targets};
use crate::subprocess::Extra;
use crate::util::is_true;

/// Refreshes the package databases: True for each that changed, False for each that did not.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.refresh_db
#[function]
fn refresh_db(ctx: &Context, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    refresh(ctx, root.as_deref())
}

pub(super) fn refresh(ctx: &Context, root: Option<&str>) -> Result<Map> {
    common::clear_refresh_mark(ctx);
    let mut words = vec!["pacman", "-Sy"];
    words.extend(root.iter().flat_map(|root| ["-r", root]));
    // The answer is read as text, so it must not be translated.
    let extra = Extra { env: vec![("LANG".to_owned(), "C".to_owned())], ..Extra::default() };
    let said = common::run(ctx, &words, extra)?;
    if said.retcode != Some(0) {
        return Err(Error::execution(format!("Error refreshing package database: {}", said.stderr)));
    }
    let mut found = Map::new();
    for line in said.stdout.lines().filter(|line| !line.trim().starts_with("::")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [name, ..] if line.contains("is up to date") => drop(found.insert(name, false)),
            // The name of the file is that of the repo, such as `core.db`.
            [_, name, ..] if line.contains("downloading") => {
                found.insert(name.split('.').next().unwrap_or_default(), true);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Installs or upgrades packages; returns the changes.
///
/// ``pkgs`` is a list of names or of ``name: version``, ``sources`` a list of ``name: file``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.install <package name>
///     salt '*' pkg.install pkgs='["foo", {"bar": "<1.2.3-4"}]'
#[function]
fn install(
    ctx: &Context,
    name: Option<String>,
    #[default(false)] refresh: Value,
    #[default(Value::Null)] sysupgrade: Value,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let kwargs = kwargs.given();
    let targets = common::parse_targets(ctx, vec![name.into(), pkgs, sources], kwargs.clone())?;
    // Salt compares with True here and nothing else.
    let yes = |value: &Value| *value == Value::Bool(true);
    let mut words = vec!["pacman".to_owned()];
    match targets {
        Targets::None => return Ok(Map::new()),
        Targets::Files(files) => {
            words.extend(["-U", "--noprogressbar", "--noconfirm"].map(str::to_owned));
            words.extend(files);
        }
        Targets::Advisories(_) => {
            return Err(Error::invocation("pacman knows no advisories: advisory_ids cannot be installed"));
        }
        Targets::Packages(packages) => {
            let chosen = chosen(ctx, &packages, &refresh)?;
            words.push("-S".to_owned());
            // Looking for a version may have refreshed already.
            words.extend((yes(&refresh) && !chosen.refreshed).then(|| "-y".to_owned()));
            words.extend(yes(&sysupgrade).then(|| "-u".to_owned()));
            // Without `--needed` pacman would reinstall up-to-date packages.
            words.extend(["--noprogressbar", "--noconfirm", "--needed"].map(str::to_owned));
            if !chosen.errors.is_empty() {
                return common::outcome("Problem encountered installing package(s)", chosen.errors, Map::new());
            }
            words.extend(chosen.words);
        }
    }
    words.extend(kwargs.get("root").into_iter().flat_map(|root| ["-r".to_owned(), root.to_string()]));
    change(ctx, words, "installing")
}

/// The packages as pacman takes them.
#[derive(Default)]
struct Chosen {
    words: Vec<String>,
    errors: Vec<String>,
    /// True if the databases were refreshed during the search for versions.
    refreshed: bool,
}

fn chosen(ctx: &Context, packages: &Map, refresh: &Value) -> Result<Chosen> {
    let mut chosen = Chosen::default();
    let mut patterns = Vec::new();
    for (name, version) in packages {
        if version.is_null() {
            chosen.words.push(name.to_string());
            continue;
        }
        let text = version.to_string();
        let (sign, version) = common::split_comparison(&text);
        let sign = if sign.is_empty() { "=" } else { sign };
        match version.contains('*') {
            false => chosen.words.push(format!("{name}{sign}{version}")),
            // Pacman knows no patterns in versions, so they are looked up first. "At least 1.*"
            // makes no sense.
            true if sign == "=" => patterns.push((name.to_string(), version.to_owned())),
            true => chosen.errors.push(format!("Invalid wildcard for {name}{sign}{version}")),
        }
    }
    if patterns.is_empty() {
        return Ok(chosen);
    }
    let names: Vec<String> = patterns.iter().map(|(name, _)| name.clone()).collect();
    let available = repo_packages(ctx, &names, &map! { "refresh" => refresh.clone() })?;
    chosen.refreshed = refresh.truthy();
    for (name, pattern) in patterns {
        let candidates = available.get(&name).and_then(Value::as_list).unwrap_or_default();
        let candidates: Vec<String> = candidates.iter().map(Value::to_string).collect();
        match candidates.iter().find(|candidate| targeting::fnmatch(candidate, &pattern)) {
            Some(version) => chosen.words.push(format!("{name}={version}")),
            None => {
                let known = if candidates.is_empty() { "none".to_owned() } else { candidates.join(", ") };
                let text = format!("No version matching '{pattern}' found for package '{name}' (available: {known})");
                chosen.errors.push(text);
            }
        }
    }
    Ok(chosen)
}

/// Runs a command that changes packages, and returns the changes.
fn change(ctx: &Context, words: Vec<String>, what: &str) -> Result<Map> {
    let old = installed_versions(ctx)?;
    let said = common::run(ctx, &common::in_scope(ctx, words), Extra::default())?;
    let failed = said.retcode != Some(0) && !said.stderr.is_empty();
    changed(ctx);
    let changes = common::differences(&old, &installed_versions(ctx)?);
    let errors = if failed { vec![said.stderr] } else { Vec::new() };
    common::outcome(&format!("Problem encountered {what} package(s)"), errors, changes)
}

/// Upgrades all packages; returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade
#[function]
fn upgrade(ctx: &Context, #[default(false)] refresh: Value, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let old = installed_versions(ctx)?;
    let mut words = ["pacman", "-Su", "--noprogressbar", "--noconfirm"].map(str::to_owned).to_vec();
    words.extend(is_true(&refresh).then(|| "-y".to_owned()));
    words.extend(root.into_iter().flat_map(|root| ["-r".to_owned(), root]));
    let said = common::run(ctx, &common::in_scope(ctx, words), Extra::default())?;
    changed(ctx);
    let changes = common::differences(&old, &installed_versions(ctx)?);
    if said.retcode != Some(0) {
        let info = map! { "changes" => changes, "result" => said.into_map() };
        // Even a failed upgrade may have changed something.
        return Err(Error::detailed("Problem encountered upgrading packages", info));
    }
    Ok(changes)
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
fn remove(ctx: &Context, name: Option<String>, #[default(Value::Null)] pkgs: Value, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    removed(ctx, name, pkgs, "-R")
}

/// Removes packages with their dependents and with dependencies that nothing else needs; returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.purge <package name>
#[function]
fn purge(ctx: &Context, name: Option<String>, #[default(Value::Null)] pkgs: Value, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    removed(ctx, name, pkgs, "-Rsc")
}

fn removed(ctx: &Context, name: Option<String>, pkgs: Value, how: &str) -> Result<Map> {
    let Targets::Packages(wanted) = common::parse_targets(ctx, vec![name.into(), pkgs], Map::new())? else {
        return Ok(Map::new());
    };
    let old = installed_versions(ctx)?;
    // Pacman refuses the whole call when one package is missing.
    let there: Vec<String> = wanted.text_keys().filter(|name| old.contains_key(name)).map(str::to_owned).collect();
    if there.is_empty() {
        return Ok(Map::new());
    }
    let mut words = ["pacman", how, "--noprogressbar", "--noconfirm"].map(str::to_owned).to_vec();
    words.extend(there);
    change(ctx, words, "removing")
}
