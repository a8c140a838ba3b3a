//! Installing, upgrading, removing and holding packages.

use std::path::Path;
use std::time::{Duration, SystemTime};

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::{Packages, apt, differences, failure, flag, installed, problem, program_output, query, selections};
use crate::subprocess;

/// Removes packages that are no longer needed, or with ``list_only`` lists them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.autoremove
///     salt '*' pkg.autoremove list_only=True
#[function]
fn autoremove(ctx: &Context, #[default(false)] list_only: bool, #[default(false)] purge: bool) -> Result<Value> {
    let purge = if purge { &["--purge"][..] } else { &[] };
    if list_only {
        // Answering no makes apt print its plan and stop.
        let words = [&["apt-get", "--assume-no"], purge, &["autoremove"]].concat();
        return Ok(Value::from(to_be_removed(&program_output(ctx, &words)?)));
    }
    let old = installed(ctx)?;
    apt(ctx, &[&["--assume-yes"], purge, &["autoremove"]].concat())?;
    Ok(Value::Map(differences(&old, &installed(ctx)?)))
}

fn to_be_removed(text: &str) -> Vec<String> {
    let after = text.lines().skip_while(|line| !line.contains("The following packages will be REMOVED:")).skip(1);
    // The names are indented; the list ends with the first line that is not.
    let lines = after.take_while(|line| line.starts_with(' '));
    let mut names: Vec<String> = lines.flat_map(str::split_whitespace).map(str::to_owned).collect();
    names.sort();
    names
}

/// The packages a call is about: `name`, `pkgs` or `sources`, without versions.
fn targets(name: Option<String>, pkgs: &Value, sources: &Value) -> Result<Vec<String>> {
    if name.is_none() && !pkgs.truthy() && !sources.truthy() {
        return Err(Error::invocation("One of name, pkgs, or sources must be specified."));
    }
    if pkgs.truthy() && sources.truthy() {
        return Err(Error::invocation("Only one of pkgs or sources can be specified."));
    }
    let list = if pkgs.truthy() { pkgs } else { sources };
    let first = |item: &Value| match item {
        Value::Map(map) => map.keys().next().map_or_else(String::new, Value::to_string),
        other => other.to_string(),
    };
    Ok(match list {
        Value::List(items) => items.iter().map(first).collect(),
        Value::Null => name.into_iter().collect(),
        single => vec![first(single)],
    })
}

/// Holds packages at their current version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.hold <package name>
///     salt '*' pkg.hold pkgs='["foo", "bar"]'
#[function]
fn hold(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let mut report = Map::new();
    for target in targets(name, &pkgs, &sources)? {
        // One package at a time, so that one failure leaves the others held.
        let entry = set_held(ctx, &target, true)?;
        report.insert(target, entry);
    }
    Ok(report)
}

/// Unholds packages, so that they can be upgraded again.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.unhold <package name>
#[function]
fn unhold(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let mut report = Map::new();
    for target in targets(name, &pkgs, &sources)? {
        let entry = set_held(ctx, &target, false)?;
        report.insert(target, entry);
    }
    Ok(report)
}

pub(super) fn set_held(ctx: &Context, target: &str, held: bool) -> Result<Map> {
    let before = selections(ctx, Some(target), None)?;
    let is_held = before.get("hold").is_some_and(Value::truthy);
    let entry = |result: Value, changes: Map, comment: String| {
        map! { "name" => target, "changes" => changes, "result" => result, "comment" => comment }
    };
    // dpkg has no selection for a package it has never seen.
    if !held && before.is_empty() {
        return Ok(entry(false.into(), Map::new(), format!("Package {target} does not have a state.")));
    }
    let not = if held { "" } else { "not " };
    if is_held == held {
        return Ok(entry(true.into(), Map::new(), format!("Package {target} is already set {not}to be held.")));
    }
    if ctx.opt("test").is_some_and(Value::truthy) {
        return Ok(entry(Value::Null, Map::new(), format!("Package {target} is set {not}to be held.")));
    }
    let said = subprocess::quiet(ctx, &["apt-mark", if held { "hold" } else { "unhold" }, target])?;
    if let Some(reason) = failure(&said) {
        return Ok(entry(false.into(), Map::new(), reason));
    }
    let (old, new) = if held { ("install", "hold") } else { ("hold", "install") };
    let comment = if held { "is now being held" } else { "is no longer being held" };
    Ok(entry(true.into(), map! { "old" => old, "new" => new }, format!("Package {target} {comment}.")))
}

/// Returns dpkg's options that decide between the package's and the modified configuration files.
pub(super) fn keep_settings(replace: bool) -> Vec<&'static str> {
    if replace {
        return vec!["-o", "DPkg::Options::=--force-confnew"];
    }
    // `confold` keeps a changed file; `confdef` takes the default where there is one, so that dpkg
    // never asks.
    vec!["-o", "DPkg::Options::=--force-confold", "-o", "DPkg::Options::=--force-confdef"]
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
    uninstall(ctx, "purge", name, &pkgs)
}

/// Removes packages and leaves their settings; returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.remove <package name>
#[function]
fn remove(ctx: &Context, name: Option<String>, #[default(Value::Null)] pkgs: Value, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    uninstall(ctx, "remove", name, &pkgs)
}

fn uninstall(ctx: &Context, action: &str, name: Option<String>, pkgs: &Value) -> Result<Map> {
    let names: Vec<String> = name.iter().flat_map(|name| name.split(',')).map(|name| name.trim().to_owned()).collect();
    let names = if pkgs.truthy() { targets(None, pkgs, &Value::Null)? } else { names };
    let before = query(ctx)?;
    // A package marked for purging is still installed and can be removed.
    let old: Packages = before.purge_desired.into_iter().chain(before.installed).collect();
    let matching = |packages: &Packages| -> Vec<String> {
        packages.keys().filter(|known| names.iter().any(|name| targeting::fnmatch(known, name))).cloned().collect()
    };
    let mut found = matching(&old);
    if action == "purge" {
        // Of a removed package the configuration is left, and purging is about that.
        found.extend(matching(&before.removed));
    }
    if found.is_empty() {
        return Ok(Map::new());
    }
    let mut args = vec!["-q", "-y", action];
    args.extend(found.iter().map(String::as_str));
    let said = apt(ctx, &args)?;
    let after = query(ctx)?;
    let new: Packages = after.purge_desired.into_iter().chain(after.installed).collect();
    let mut changes = differences(&old, &new);
    if action == "purge" {
        changes = map! { "removed" => differences(&before.removed, &after.removed), "installed" => changes };
    }
    match failure(&said) {
        Some(reason) => {
            let details = map! { "errors" => vec![reason], "changes" => changes };
            Err(problem("Problem encountered removing package(s)", details))
        }
        None => Ok(changes),
    }
}

/// Refreshes the package lists. Returns for each whether it was new (True), unchanged (None) or could not be fetched
/// (False). With ``cache_valid_time``, only lists that are older than that many seconds are refreshed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.refresh_db
#[function]
fn refresh_db(
    ctx: &Context,
    #[default(0)] cache_valid_time: u64,
    #[default(false)] failhard: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    // States of this run need not do it again.
    let mark = Path::new(ctx.cachedir()).join("pkg_refresh");
    if let Err(error) = std::fs::remove_file(&mark)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("Encountered error removing rtag: {error}");
    }
    // The directory's own time changes whenever apt renames a new list into it.
    let age = || std::fs::metadata("/var/lib/apt/lists").ok()?.modified().ok();
    let young = |changed: SystemTime| changed.elapsed().is_ok_and(|age| age < Duration::from_secs(cache_valid_time));
    if cache_valid_time > 0 && age().is_some_and(young) {
        return Ok(Map::new());
    }
    let said = subprocess::quiet(ctx, &["apt-get", "-q", "update"])?;
    if said.retcode != Some(0) {
        return Err(Error::execution(said.stderr.trim_end()));
    }
    let lists = updated_lists(&said.stdout);
    let failed: Vec<String> =
        lists.iter().filter(|(_, state)| **state == Value::Bool(false)).map(|(name, _)| name.to_string()).collect();
    if failhard && !failed.is_empty() {
        return Err(Error::execution(format!("Error getting repos: {}", failed.join(", "))));
    }
    Ok(lists)
}

pub(super) fn refresh_lists(ctx: &Context, kwargs: &KwArgs) -> Result<()> {
    let valid = kwargs.0.get("cache_valid_time").and_then(Value::as_i64).and_then(|time| u64::try_from(time).ok());
    refresh_db(ctx, valid.unwrap_or(0), false, KwArgs::default()).map(drop)
}

/// Reads lines such as "Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]".
fn updated_lists(text: &str) -> Map {
    let mut lists = Map::new();
    for line in text.lines() {
        let Some((word, rest)) = line.trim().split_once(' ') else { continue };
        let name = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        // The size in brackets differs from run to run and is not part of the name.
        let without_size =
            || name.rfind(" [").filter(|_| name.ends_with("B]")).map_or(name.as_str(), |end| &name[..end]).to_owned();
        match word.split(':').next() {
            Some("Get") => lists.insert(without_size(), true),
            Some("Hit") => lists.insert(name, Value::Null),
            // An ignored list is one that could not be fetched but may be missing.
            Some("Ign" | "Err") => lists.insert(name, false),
            _ => None,
        };
    }
    lists
}

/// Upgrades all packages; returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade
///     salt '*' pkg.upgrade dist_upgrade=True
#[function]
fn upgrade(
    ctx: &Context,
    #[default(true)] refresh: bool,
    #[default(false)] dist_upgrade: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    if refresh {
        refresh_lists(ctx, &kwargs)?;
    }
    let old = installed(ctx)?;
    let mut args = vec!["-q", "-y"];
    args.extend(keep_settings(flag(&kwargs, "force_conf_new", false)));
    for (word, names) in [
        ("--allow-unauthenticated", ["skip_verify", "skip_verify"]),
        ("--download-only", ["download_only", "downloadonly"]),
        ("--allow-downgrades", ["allow_downgrades", "allow_downgrades"]),
    ] {
        args.extend(names.iter().any(|name| flag(&kwargs, name, false)).then_some(word));
    }
    args.push(if dist_upgrade { "dist-upgrade" } else { "upgrade" });
    let said = apt(ctx, &args)?;
    let changes = differences(&old, &installed(ctx)?);
    match failure(&said) {
        Some(_) => {
            let details = map! { "changes" => changes, "result" => said.into_map() };
            Err(problem("Problem encountered upgrading packages", details))
        }
        None => Ok(changes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn targets_are_named() {
        assert_eq!(targets(None, &list!["a", map! { "b" => "1" }], &Value::Null).unwrap(), ["a", "b"]);
        assert!(targets(None, &Value::Null, &Value::Null).is_err());
    }

    #[test]
    fn answers_of_apt_are_read() {
        let text = "Hit:1 http://x bookworm InRelease\nGet:2 http://y z InRelease [151 kB]\nErr:3 http://e f\n  404\nReading lists...\n";
        let expected = map! { "http://x bookworm InRelease" => Value::Null, "http://y z InRelease" => true, "http://e f" => false };
        assert_eq!(updated_lists(text), expected);
        let text = "Reading\nThe following packages will be REMOVED:\n  b a\n  c\n0 upgraded\n";
        assert_eq!(to_be_removed(text), ["a", "b", "c"]);
    }
}
