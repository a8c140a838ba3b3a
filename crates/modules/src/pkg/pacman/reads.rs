//! Looking at packages.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use exec::{Context, Error, KwArgs, Result, VarArgs, function};
use value::{Map, Value, map};

use super::changes::refresh;
use crate::packages::common::{self, Loose};
use crate::pkg_resource;
use crate::subprocess::Extra;
use crate::util::is_true;

/// The installed packages, kept until something is changed.
#[derive(Default)]
struct InstalledCache(Mutex<Option<Map>>);

/// Discards the cached list of installed packages after a change.
pub(super) fn changed(ctx: &Context) {
    ctx.memo.forget::<InstalledCache>();
}

/// Packages with the list of their versions.
pub(super) fn installed(ctx: &Context, root: Option<&str>, remembered: bool) -> Result<Map> {
    let memo = ctx.memo.get::<InstalledCache>();
    let known = memo.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    if let Some(packages) = known.filter(|_| remembered && root.is_none()) {
        return Ok(packages);
    }
    let mut words = vec!["pacman", "-Q"];
    words.extend(root.iter().flat_map(|root| ["-r", root]));
    let text = common::output(ctx, &words, true)?;
    let mut packages = Map::new();
    for (name, version) in pairs(&text) {
        if let Value::List(versions) = packages.entry_or_insert_with(name, || Value::List(Vec::new())) {
            versions.push(version.into());
        }
    }
    if root.is_none() {
        *memo.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(packages.clone());
    }
    Ok(packages)
}

/// The first two words of each line.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    let words = text.lines().map(str::split_whitespace);
    words.filter_map(|mut words| Some((words.next()?.to_owned(), words.next()?.to_owned()))).collect()
}

/// Returns installed packages with their versions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_pkgs
#[function]
fn list_pkgs(ctx: &Context, #[default(false)] versions_as_list: Value, kwargs: KwArgs) -> Result<Map> {
    if ["removed", "purge_desired"].iter().any(|name| kwargs.0.get(name).is_some_and(is_true)) {
        return Ok(Map::new());
    }
    let remembered = kwargs.0.get("use_context").is_none_or(Value::truthy);
    let packages = installed(ctx, kwargs.0.get_str("root"), remembered)?;
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
    let root = kwargs.0.get_str("root");
    let packages = if names.0.is_empty() { Map::new() } else { installed(ctx, root, true)? };
    Ok(pkg_resource::versions_of(&packages, &names.0, as_list))
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
pub(super) fn latest_version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    if names.is_empty() {
        return Ok("".into());
    }
    if kwargs.0.get("refresh").is_some_and(is_true) {
        refresh(ctx, None)?;
    }
    // `--print-format` only shows what would be installed, so up-to-date packages are left out.
    let mut words = vec!["pacman", "-Sp", "--needed", "--print-format", "%n %v"];
    words.extend(names.iter().map(String::as_str));
    words.extend(kwargs.0.get_str("root").iter().flat_map(|root| ["-r", root]));
    let mut found: Map = names.iter().map(|name| (name.as_str(), "")).collect();
    for line in common::output(ctx, &words, false)?.lines() {
        if let [name, version] = line.split_whitespace().collect::<Vec<_>>()[..]
            && found.contains_key(name)
        {
            found.insert(name, version);
        }
    }
    Ok(match found.values().next() {
        Some(single) if names.len() == 1 => single.clone(),
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
    let _ = kwargs;
    Ok(latest_version(ctx, VarArgs(vec![name.into()]), KwArgs::default())?.truthy())
}

/// Returns the packages that have a newer version, with that version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_upgrades
#[function]
fn list_upgrades(ctx: &Context, #[default(false)] refresh: bool, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let mut words = vec!["pacman", "-S", "-p", "-u", "--print-format", "%n %v"];
    words.extend(root.iter().flat_map(|root| ["-r", root.as_str()]));
    words.extend(refresh.then_some("-y"));
    let said = common::run(ctx, &words, Extra::default())?;
    if said.retcode != Some(0) {
        let why = format!("{}{}", said.stderr, said.stdout);
        let why = if why.is_empty() { why } else { format!(": {why}") };
        return Err(Error::execution(format!("Error listing upgrades{why}")));
    }
    let mut found = Map::new();
    for line in said.stdout.lines() {
        if let [name, version] = line.split_whitespace().collect::<Vec<_>>()[..]
            // With `-y` the progress of the lists is printed, too.
            && !(name.eq_ignore_ascii_case("downloading") && version.to_lowercase().contains(".db"))
        {
            found.insert(name, version);
        }
    }
    Ok(found)
}

/// Returns available packages with their versions; with ``byrepo=True`` by source.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_repo_pkgs foo bar baz
///     salt '*' pkg.list_repo_pkgs 'samba4*' fromrepo=base,updates
#[function]
fn list_repo_pkgs(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let kwargs = kwargs.given();
    let known = ["fromrepo", "byrepo", "refresh"];
    let other: Vec<String> = kwargs
        .iter()
        .filter(|(key, _)| !key.as_str().is_some_and(|key| known.contains(&key)))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !other.is_empty() {
        return Err(Error::invocation(format!("The following keyword arguments are not valid: {}", other.join(", "))));
    }
    repo_packages(ctx, &names, &kwargs)
}

type ByRepo = BTreeMap<String, BTreeMap<String, Vec<String>>>;

pub(super) fn repo_packages(ctx: &Context, names: &[String], kwargs: &Map) -> Result<Map> {
    let repos = common::texts(kwargs.get("fromrepo").filter(|from| from.truthy()));
    if kwargs.get("refresh").is_some_and(Value::truthy) {
        refresh(ctx, None)?;
    }
    let text = common::output(ctx, &["pacman", "-Sl"], false)?;
    let mut found = ByRepo::new();
    for line in text.lines() {
        let [repo, name, version, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        let chosen = repos.is_empty() || repos.iter().any(|other| other == repo);
        let asked = names.is_empty() || names.iter().any(|pattern| targeting::fnmatch(name, pattern));
        if chosen && asked {
            found.entry(repo.into()).or_default().entry(name.into()).or_default().push(version.into());
        }
    }
    let newest_first = |versions: Vec<String>| -> Value {
        let mut versions: Vec<Loose> = versions.into_iter().map(Loose).collect();
        versions.sort_by(|a, b| b.cmp(a));
        versions.into_iter().map(|version| version.0).collect()
    };
    if kwargs.get("byrepo").is_some_and(Value::truthy) {
        let packages = |own: BTreeMap<String, Vec<String>>| -> Map {
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

/// Pairs of a package and one of its files.
type Owned = Vec<(String, String)>;

/// Returns pacman's lines about the files of packages; the first name may be another root directory.
fn file_lines(ctx: &Context, packages: &VarArgs) -> Result<(Vec<String>, Owned)> {
    let names: Vec<String> = packages.0.iter().map(Value::to_string).collect();
    let mut words = vec!["pacman", "-Ql"];
    let rest = match names.split_first() {
        // Salt takes a first argument that is a path for another root.
        Some((root, rest)) if Path::new(root).exists() => {
            words.extend(["-r", root]);
            rest
        }
        _ => &names[..],
    };
    words.extend(rest.iter().map(String::as_str));
    let text = common::output(ctx, &words, true)?;
    let (errors, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("error"));
    let file = |line: &str| {
        let (package, path) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // Salt splits at blanks and joins with one.
        (package.to_owned(), path.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    Ok((errors.into_iter().map(str::to_owned).collect(), lines.into_iter().map(file).collect()))
}

/// Returns the files of packages, or of all.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_list httpd postfix
#[function]
fn file_list(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let (errors, files) = file_lines(ctx, &packages)?;
    Ok(map! { "errors" => errors, "files" => files.into_iter().map(|(_, path)| path).collect::<Value>() })
}

/// Returns the files of packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_dict httpd postfix
#[function]
fn file_dict(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let (errors, files) = file_lines(ctx, &packages)?;
    let mut found = Map::new();
    for (package, path) in files {
        if let Value::List(paths) = found.entry_or_insert_with(package, || Value::List(Vec::new())) {
            paths.push(path.into());
        }
    }
    Ok(map! { "errors" => errors, "packages" => found })
}

/// Returns the package that owns a file; for several a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.owner /usr/bin/apachectl
#[function]
fn owner(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let mut found = Map::new();
    for path in paths.0.iter().map(Value::to_string) {
        let package = common::output(ctx, &["pacman", "-Qqo", &path], false)?;
        found.insert(path, package);
    }
    Ok(match found.len() {
        0 => "".into(),
        1 => found.values().next().cloned().unwrap_or_default(),
        _ => found.into(),
    })
}
