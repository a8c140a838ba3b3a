//! Queries of available packages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use exec::{Context, Error, KwArgs, Result, VarArgs, function};
use regex::Regex;
use value::{Map, Value, map};

use super::call::{Zypper, attribute};
use super::{repos, root_of};
use crate::packages::common::{self, Loose};

/// Returns the packages that have a newer version, with that version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_upgrades
///     salt '*' pkg.list_updates
#[function]
fn list_upgrades(ctx: &Context, #[default(true)] refresh: bool, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let kwargs = kwargs.given();
    if refresh {
        repos::refresh(ctx, root.as_deref(), &kwargs)?;
    }
    let mut words = vec!["list-updates".to_owned()];
    let from = kwargs.get("fromrepo").map(crate::util::split_input).unwrap_or_default();
    words.extend(from.into_iter().flat_map(|repo| ["--repo".to_owned(), repo]));
    let found = Zypper::looking(root.as_deref()).elements(ctx, &words, "update")?;
    let packages = found.iter().filter(|update| attribute(update, "kind") == "package");
    Ok(packages.map(|update| (attribute(update, "name"), attribute(update, "edition"))).collect())
}

/// Returns information about available packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.info_available <package1> <package2>
#[function]
fn info_available(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names: BTreeSet<String> = names.0.iter().map(Value::to_string).collect();
    if names.is_empty() {
        return Ok(Map::new());
    }
    let kwargs = kwargs.given();
    let root = root_of(&kwargs);
    if kwargs.get("refresh").is_none_or(Value::truthy) {
        repos::refresh(ctx, root.as_deref(), &kwargs)?;
    }
    available(ctx, &names.into_iter().collect::<Vec<_>>(), root.as_deref())
}

/// The number of packages in one call of `zypper info`.
const BATCH: usize = 200;

pub(super) fn available(ctx: &Context, names: &[String], root: Option<&str>) -> Result<Map> {
    let mut found = Map::new();
    // Salt's number, which keeps the line of arguments short.
    for batch in names.chunks(BATCH) {
        let mut words = vec!["info", "-t", "package"];
        words.extend(batch.iter().map(String::as_str));
        let zypper = Zypper { looks: true, ..Zypper::at(root) };
        found.update(parse_info(&zypper.call(ctx, &words)?.stdout));
    }
    Ok(found)
}

static BETWEEN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("Information for packag(?:e)*").expect("the pattern is fixed"));

fn parse_info(text: &str) -> Map {
    let mut found = Map::new();
    for part in BETWEEN.split(text) {
        let mut info = Map::new();
        let lines = part.split('\n').filter(|line| !line.starts_with("-----"));
        // There is no XML for `info`, so the text is read: one `Key : Value` to a line.
        for (key, value) in lines.filter_map(|line| line.split_once(':')) {
            if !value.trim().is_empty() {
                info.insert(key.trim().to_lowercase(), value.trim());
            }
        }
        let Some(name) = info.remove("name") else { continue };
        if let Some(there) = info.get_str("installed").map(|text| text.to_lowercase().starts_with("yes")) {
            info.insert("installed", there);
        }
        found.insert(name, info);
    }
    found
}

/// Returns the newest version of a package that is available, or an empty text when it is installed; for several a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.latest_version <package name>
///     salt '*' pkg.available_version <package name>
#[function]
fn latest_version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let asked: BTreeSet<String> = names.0.iter().map(Value::to_string).collect();
    if asked.is_empty() {
        return Ok(Map::new().into());
    }
    let infos = info_available(ctx, names, kwargs)?;
    let mut found = Map::new();
    for name in &asked {
        let part = |key: &str| infos.get(name).and_then(|info| info.get(key)).cloned();
        let status = part("status").map(|status| status.to_string().to_lowercase()).unwrap_or_default();
        // Only then is there something newer than the installed version.
        let new = status.contains("not installed") || status.contains("out-of-date");
        found.insert(name.as_str(), if new { part("version").unwrap_or_default() } else { "".into() });
    }
    Ok(match found.values().next() {
        Some(single) if found.len() == 1 => single.clone(),
        _ => found.into(),
    })
}

/// Returns whether there is a newer version of a package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade_available <package name>
#[function]
fn upgrade_available(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    Ok(latest_version(ctx, VarArgs(vec![name.into()]), kwargs)?.truthy())
}

fn newest_first(versions: impl IntoIterator<Item = String>) -> Value {
    let mut versions: Vec<Loose> = versions.into_iter().map(Loose).collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions.into_iter().map(|version| version.0).collect()
}

/// Returns available packages with their versions, the newest first; with ``byrepo=True`` by source.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_repo_pkgs 'python2-*' byrepo=True
#[function]
fn list_repo_pkgs(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let from = kwargs.0.get("fromrepo").filter(|from| from.truthy()).map(Value::to_string);
    let mut words = vec!["se", "-s"];
    words.extend(names.iter().map(String::as_str));
    let zypper = Zypper { looks: false, ..Zypper::looking(root_of(&kwargs.0).as_deref()) };
    let mut found: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for package in zypper.elements(ctx, &words, "solvable")? {
        let part = |name: &str| attribute(&package, name).to_owned();
        let asked = names.is_empty() || names.iter().any(|name| targeting::fnmatch(&part("name"), name));
        let whole = ["repository", "name", "edition"].iter().all(|name| package.contains_key(name));
        let wanted = part("kind") == "package" && from.as_ref().is_none_or(|from| *from == part("repository"));
        if asked && whole && wanted {
            let repo = found.entry(part("repository")).or_default();
            repo.entry(part("name")).or_default().insert(part("edition"));
        }
    }
    if kwargs.0.get("byrepo").is_some_and(Value::truthy) {
        let packages = |own: BTreeMap<String, BTreeSet<String>>| -> Map {
            own.into_iter().map(|(name, versions)| (name, newest_first(versions))).collect()
        };
        return Ok(found.into_iter().map(|(repo, own)| (repo, packages(own))).collect());
    }
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, versions) in found.into_values().flatten() {
        all.entry(name).or_default().extend(versions);
    }
    Ok(all.into_iter().map(|(name, versions)| (name, newest_first(versions))).collect())
}

/// Arguments of `search` and their options.
const OPTIONS: [(&str, &str); 12] = [
    ("provides", "--provides"),
    ("recommends", "--recommends"),
    ("requires", "--requires"),
    ("suggests", "--suggests"),
    ("conflicts", "--conflicts"),
    ("obsoletes", "--obsoletes"),
    ("file_list", "--file-list"),
    ("search_descriptions", "--search-descriptions"),
    ("case_sensitive", "--case-sensitive"),
    ("installed_only", "--installed-only"),
    ("not_installed_only", "-u"),
    ("details", "--details"),
];

/// Returns the packages that match a word, with information about each.
///
/// ``match`` is ``exact``, ``words`` or ``substrings``; ``provides=True``, ``installed_only=True`` and similar
/// arguments restrict the search.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.search <criteria>
///     salt '*' pkg.search <criteria> match=exact provides=True
#[function]
pub(super) fn search(ctx: &Context, criteria: String, #[default(false)] refresh: bool, kwargs: KwArgs) -> Result<Map> {
    let kwargs = kwargs.given();
    let root = root_of(&kwargs);
    if refresh {
        repos::refresh(ctx, root.as_deref(), &kwargs)?;
    }
    let mut words = vec!["search"];
    words.extend(match kwargs.get_str("match") {
        Some("exact") => Some("--match-exact"),
        Some("words") => Some("--match-words"),
        Some("substrings") => Some("--match-substrings"),
        _ => None,
    });
    let option = |name: &str| OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, option)| *option);
    words.extend(kwargs.text_keys().filter_map(option));
    words.push(&criteria);
    let zypper = Zypper { tolerant: true, ..Zypper::looking(root.as_deref()) };
    let found = zypper.elements(ctx, &words, "solvable")?;
    if found.is_empty() {
        return Err(Error::execution(format!("No packages found matching '{criteria}'")));
    }
    Ok(found.into_iter().map(|package| (attribute(&package, "name").to_owned(), package)).collect())
}

/// Returns the capabilities that installed packages provide beside their names: the packages, by capability.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_provides
#[function]
fn list_provides(ctx: &Context, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let mut words = vec!["rpm"];
    words.extend(root.iter().flat_map(|root| ["--root", root.as_str()]));
    words.extend(["-qa", "--queryformat", "%{PROVIDES}_|-%{NAME}\n"]);
    let text = common::output(ctx, &words, true)?;
    let mut found = Map::new();
    for (capability, name) in text.lines().filter_map(|line| line.split_once("_|-")) {
        // Every package provides itself.
        if capability == name {
            continue;
        }
        if let Value::List(names) = found.entry_or_insert_with(capability, || Value::List(Vec::new())) {
            names.push(name.into());
        }
    }
    Ok(found)
}

/// Returns the packages of a list, with those in place of capabilities that provide them, if ``resolve_capabilities=True``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.resolve_capabilities resolve_capabilities=True w3m_ssl
#[function]
fn resolve_capabilities(
    ctx: &Context,
    pkgs: Value,
    #[default(false)] refresh: bool,
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<Vec<Value>> {
    let kwargs = kwargs.given();
    if refresh {
        repos::refresh(ctx, root.as_deref(), &kwargs)?;
    }
    let resolve = kwargs.get("resolve_capabilities").is_some_and(Value::truthy);
    let mut found = Vec::new();
    for package in pkgs.as_list().unwrap_or_default() {
        let (mut name, version) = match package.as_map().and_then(|map| map.iter().next()) {
            Some((name, version)) => (name.to_string(), version.clone()),
            None => (package.to_string(), Value::Null),
        };
        if resolve && let Some(provider) = provider(ctx, &name, root.as_deref())? {
            name = provider;
        }
        found.push(if version.truthy() { map! { name => version }.into() } else { name.into() });
    }
    Ok(found)
}

/// Returns the package that provides a capability, if exactly one does.
fn provider(ctx: &Context, name: &str, root: Option<&str>) -> Result<Option<String>> {
    let exact = |more: Map| {
        let mut kwargs = map! { "root" => root, "match" => "exact" };
        kwargs.update(more);
        KwArgs(kwargs)
    };
    match search(ctx, name.to_owned(), false, exact(Map::new())) {
        // Nothing of this name, so it may be a capability.
        Err(Error::Execution(_)) => {}
        found => return found.map(|_| None),
    }
    match search(ctx, name.to_owned(), false, exact(map! { "provides" => true })) {
        Ok(found) if found.len() == 1 => Ok(found.text_keys().next().map(str::to_owned)),
        Ok(_) => {
            tracing::warn!("the capability '{name}' is provided by several packages");
            Ok(None)
        }
        Err(Error::Execution(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_packages_is_read() {
        let text = "Information for package vim:\n------------------------\nRepository     : oss\nName           : vim\n\
                    Version        : 9.0-1\nInstalled      : No\nStatus         : not installed\n";
        let found = parse_info(text);
        let vim = found.get("vim").unwrap();
        assert_eq!(vim.get("installed"), Some(&Value::Bool(false)));
        assert_eq!(vim.get("version").and_then(Value::as_str), Some("9.0-1"));
    }
}
