//! Locks, which keep packages at the version they have.

use exec::{Context, Error, KwArgs, Result, VarArgs, function};
use regex::Regex;
use value::{Map, Value, map};

use super::call::Zypper;
use super::{below, search};
use crate::pkg::yum;

/// The file in which zypper keeps its locks.
const LOCKS: &str = "/etc/zypp/locks";

/// Returns the locks, by the name of the package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_locks
#[function]
fn list_locks(ctx: &Context, root: Option<String>) -> Result<Map> {
    locks(ctx, root.as_deref())
}

fn locks(ctx: &Context, root: Option<&str>) -> Result<Map> {
    let path = below(ctx, root, LOCKS);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(parsed(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(Error::io("read", &path, &error)),
    }
}

fn parsed(text: &str) -> Map {
    let mut found = Map::new();
    // The file has a paragraph for every lock.
    for part in text.split("\n\n") {
        let pairs = part.lines().filter_map(|line| line.split_once(':'));
        let mut lock: Map = pairs.map(|(key, value)| (key.trim(), value.trim())).collect();
        if let Some(name) = lock.remove("solvable_name").filter(Value::truthy) {
            found.insert(name, lock);
        }
    }
    found
}

/// Returns the held packages; with ``full=False`` their names alone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_holds
#[function]
fn list_holds(
    ctx: &Context,
    pattern: Option<String>,
    #[default(true)] full: bool,
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<Vec<String>> {
    let _ = kwargs;
    let wanted = match pattern.filter(|pattern| !pattern.is_empty()) {
        None => None,
        Some(pattern) => {
            let whole = format!("^(?:{pattern}-\\S+)");
            Some(Regex::new(&whole).map_err(|error| Error::invocation(format!("pattern '{pattern}': {error}")))?)
        }
    };
    let mut infos = Map::new();
    for (name, lock) in &locks(ctx, root.as_deref())? {
        let part = |key: &str| lock.get(key).map(Value::to_string);
        if part("type").is_some_and(|kind| kind != "package") {
            continue;
        }
        let name = name.to_string();
        let how = map! {
            "root" => root.clone(), "match" => if name.contains('*') { Value::Null } else { "exact".into() },
            "case_sensitive" => part("case_sensitive").is_none_or(|on| on == "on"), "installed_only" => true, "details" => true,
        };
        let packages = match search::search(ctx, name, false, KwArgs(how)) {
            Ok(packages) => packages,
            // A lock may be for a package that is not installed.
            Err(Error::Execution(_)) => continue,
            Err(error) => return Err(error),
        };
        for package in packages.text_keys().filter(|package| !infos.contains_key(package)).collect::<Vec<_>>() {
            let how = map! { "root" => root.clone(), "attr" => "edition,epoch", "all_versions" => true };
            infos.update(yum::info_installed(ctx, VarArgs(vec![package.into()]), KwArgs(how))?);
        }
    }
    let mut found: Vec<String> = Vec::new();
    for (name, versions) in &infos {
        for info in versions.as_list().unwrap_or_default() {
            let part = |key: &str, default: &str| info.get(key).map_or(default.to_owned(), Value::to_string);
            let shown = match full {
                true => format!("{name}-{}:{}.*", part("epoch", "0"), part("edition", "None")),
                false => name.to_string(),
            };
            if !found.contains(&shown) && wanted.as_ref().is_none_or(|wanted| wanted.is_match(&shown)) {
                found.push(shown);
            }
        }
    }
    Ok(found)
}

/// Removes locks that have no effect; returns how many.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.clean_locks
#[function]
fn clean_locks(ctx: &Context, root: Option<String>) -> Result<Map> {
    if !std::path::Path::new(&below(ctx, root.as_deref(), LOCKS)).exists() {
        return Ok(map! { "removed" => 0 });
    }
    let said = Zypper { xml: true, ..Zypper::at(root.as_deref()) }.call(ctx, &["cl"])?;
    let answer = super::call::parsed(&said.stdout)?;
    let texts = answer.descendants().filter(|node| node.has_tag_name("message")).filter_map(|node| node.text());
    // The message is "Removed 3 locks.", and the number stays a text, as in Salt.
    let count = texts.map(str::to_lowercase).find(|text| text.starts_with("removed"));
    let count = count.and_then(|text| text.split(' ').nth(1).map(str::to_owned));
    Ok(map! { "removed" => count.map_or(Value::Int(0), Value::from) })
}

/// Names with versions, if they have one.
fn targets(name: Option<String>, pkgs: &Value) -> Result<Vec<(String, Option<String>)>> {
    let name = name.filter(|name| !name.is_empty());
    if name.is_none() && !pkgs.truthy() {
        return Err(Error::execution("Name or packages must be specified."));
    }
    let one = |item: &Value| match item.as_map().and_then(|map| map.iter().next()) {
        Some((name, version)) => (name.to_string(), version.truthy().then(|| version.to_string())),
        None => (item.to_string(), None),
    };
    Ok(match pkgs {
        Value::List(items) if !items.is_empty() => items.iter().map(one).collect(),
        other if other.truthy() => vec![one(other)],
        _ => name.into_iter().map(|name| (name, None)).collect(),
    })
}

fn entry(name: &str, comment: String, changes: Map, result: bool) -> Map {
    map! { "name" => name, "changes" => changes, "result" => result, "comment" => comment }
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
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let targets = targets(name, &pkgs)?;
    let locks = locks(ctx, root.as_deref())?;
    let (mut report, mut words) = (Map::new(), vec!["al".to_owned()]);
    for (target, version) in targets {
        if locks.get(&target).is_some_and(Value::truthy) {
            let text = format!("Package {target} is already set to be held.");
            report.insert(target.as_str(), entry(&target, text, Map::new(), true));
            continue;
        }
        words.push(version.map_or_else(|| target.clone(), |version| format!("{target}={version}")));
        let text = format!("Package {target} is now being held.");
        report.insert(target.as_str(), entry(&target, text, map! { "new" => "hold", "old" => "" }, true));
    }
    if words.len() > 1 {
        Zypper::at(root.as_deref()).call(ctx, &words)?;
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
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let targets = targets(name, &pkgs)?;
    let locks = locks(ctx, root.as_deref())?;
    let (mut report, mut words) = (Map::new(), vec!["rl".to_owned()]);
    for (target, version) in targets {
        let Some(lock) = locks.get(&target).filter(|lock| lock.truthy()) else {
            let text = format!("Package {target} was already unheld.");
            report.insert(target.as_str(), entry(&target, text, Map::new(), true));
            continue;
        };
        let held = lock.get("version").map(|held| held.to_string().trim_start_matches(['=', ' ']).to_owned());
        if version.is_some() && version != held {
            let text = format!("Unable to unhold package {target} as it is held with the other version.");
            report.insert(target.as_str(), entry(&target, text, Map::new(), false));
            continue;
        }
        // A lock of one version is only removed with that version.
        words.push(match held.filter(|held| !held.is_empty()) {
            Some(held) => format!("{target}={held}"),
            None => target.clone(),
        });
        let text = format!("Package {target} is no longer held.");
        report.insert(target.as_str(), entry(&target, text, map! { "new" => "", "old" => "hold" }, true));
    }
    if words.len() > 1 {
        Zypper::at(root.as_deref()).call(ctx, &words)?;
    }
    Ok(report)
}
