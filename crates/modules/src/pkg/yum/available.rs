//! Queries of available packages.

use std::collections::{BTreeMap, BTreeSet};

use exec::{Context, KwArgs, Result, VarArgs, function};
use value::{Map, Value};

use super::{Manager, call, is_on, options};
use crate::packages::common::{self, Loose};
use crate::packages::rpm;
use crate::pkg_resource::compare_loosely;

/// A package in a list of dnf's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offered {
    pub name: String,
    pub arch: String,
    pub version: String,
    pub repo: String,
}

/// Lines above lists.
// The titles that yum and dnf print between packages. They are not always left out with `--quiet`.
const HEADERS: [&str; 5] =
    ["installed packages", "available packages", "available upgrades", "updated packages", "upgraded packages"];

/// Reads name, version and source of packages; a long name may break its line.
pub(super) fn offered(text: &str, osarch: &str) -> Vec<Offered> {
    let lines = text.split('\n').filter(|line| !HEADERS.contains(&line.to_lowercase().as_str()));
    // Yum breaks long lines at its idea of the width of a terminal. So the lines are joined and
    // every three words are a package.
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words
        .chunks_exact(3)
        .map(|three| {
            let (bare, arch) = three[0].rsplit_once('.').unwrap_or((three[0], osarch));
            Offered {
                name: rpm::resolve_name(bare, arch, osarch),
                arch: arch.to_owned(),
                version: three[1].trim_end_matches('-').to_owned(),
                // `@` marks the repo of an installed package.
                repo: three[2].trim_start_matches('@').to_owned(),
            }
        })
        .collect()
}

/// Returns the newest version of a package that is available, or an empty text when it is installed; for several a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.latest_version <package name>
///     salt '*' pkg.latest_version <package name> fromrepo=epel-testing
///     salt '*' pkg.available_version <package name>
#[function]
pub(super) fn latest_version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let kwargs = kwargs.given();
    if names.0.is_empty() {
        return Ok("".into());
    }
    if is_on(&kwargs, "refresh", true) {
        refresh(ctx, &kwargs, true)?;
    }
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    let found = newest(ctx, &names, &kwargs)?;
    Ok(match found.values().next() {
        Some(single) if names.len() == 1 => single.clone(),
        _ => found.into(),
    })
}

fn newest(ctx: &Context, names: &[String], kwargs: &Map) -> Result<Map> {
    let osarch = rpm::osarch(ctx).to_owned();
    let installed = rpm::list(ctx, rpm::Listing { as_list: true, ..Default::default() })?;
    let mut words = vec!["--quiet".to_owned()];
    words.extend(options(kwargs));
    words.extend(["list".to_owned(), "available".into()]);
    words.extend(names.iter().cloned());
    let said = call(ctx, &words, false)?;
    let mut updates = Vec::new();
    if said.retcode == Some(0) {
        updates = offered(&said.stdout, &osarch);
        updates.sort_by_key(|package| std::cmp::Reverse(Loose(package.version.clone())));
    } else if !said.stderr.is_empty() && !names.iter().all(|name| installed.contains_key(name)) {
        // With everything up to date the answer is an error, too: "No matching Packages to list".
        tracing::error!("the newest versions of {} cannot be told: {}", names.join(", "), said.stderr);
    }
    // A kernel may be installed in several versions, and only a version above all of them is new.
    let is_new = |package: &&Offered| {
        let there = rpm::versions(&installed, &package.name);
        !there.iter().any(|version| rpm::compare(version, &package.version, false).is_ge())
    };
    let mut found = Map::new();
    for name in names {
        // The caller may request `glibc.i686`.
        let arch = name.rsplit('.').next().filter(|arch| rpm::is_arch(arch)).unwrap_or(&osarch);
        let fits = |package: &&Offered| {
            package.name == *name
                && (["noarch", arch].contains(&package.arch.as_str()) || rpm::both_32(&package.arch, &osarch))
        };
        let best = updates.iter().filter(fits).find(is_new);
        found.insert(name.as_str(), best.map_or("", |package| package.version.as_str()));
    }
    Ok(found)
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

/// Returns the packages that have a newer version, with that version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_upgrades
///     salt '*' pkg.list_updates
#[function]
fn list_upgrades(ctx: &Context, #[default(true)] refresh: Value, kwargs: KwArgs) -> Result<Map> {
    let kwargs = kwargs.given();
    if crate::util::is_true(&refresh) {
        self::refresh(ctx, &kwargs, false)?;
    }
    let mut words = vec!["--quiet".to_owned()];
    words.extend(options(&kwargs));
    let newer = if Manager::of(ctx)?.is_dnf() { "--upgrades" } else { "updates" };
    words.extend(["list".to_owned(), newer.into()]);
    let said = call(ctx, &words, false)?;
    let found = offered(&said.stdout, rpm::osarch(ctx));
    Ok(found.into_iter().map(|package| (package.name, package.version)).collect())
}

/// Returns available packages with their versions, the newest first; with ``byrepo=True`` by source.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_repo_pkgs 'samba4*' fromrepo=base,updates
///     salt '*' pkg.list_repo_pkgs foo bar baz byrepo=True
#[function]
fn list_repo_pkgs(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names: Vec<String> = args.0.iter().map(Value::to_string).collect();
    repo_packages(ctx, &names, &kwargs.given())
}

/// Versions by source and name.
type ByRepo = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

pub(super) fn repo_packages(ctx: &Context, names: &[String], kwargs: &Map) -> Result<Map> {
    let manager = Manager::of(ctx)?;
    let repos = chosen_repos(ctx, kwargs)?;
    let cached = kwargs.get("cacheonly").is_some_and(Value::truthy);
    let mut found = ByRepo::new();
    let mut add = |text: &str, strict: bool| {
        for package in offered(text, rpm::osarch(ctx)) {
            let asked = || names.iter().any(|name| targeting::fnmatch(&package.name, name));
            if !strict || (repos.contains(&package.repo) && asked()) {
                found.entry(package.repo).or_default().entry(package.name).or_default().insert(package.version);
            }
        }
    };
    // Before 3.4.3 yum could not list a single repo, so everything is listed and sorted out here.
    if let Some(flags) = old_yum(ctx, manager)? {
        for kind in ["installed", "available"] {
            let mut words = flags.clone();
            words.extend(cached.then_some("-C"));
            words.extend(["list", kind]);
            let said = call(ctx, &words, false)?;
            if said.retcode == Some(0) {
                add(&said.stdout, true);
            }
        }
    } else {
        for repo in &repos {
            let enabled = format!("--enablerepo={repo}");
            let mut words = match manager {
                Manager::Tdnf => vec!["--quiet", &enabled, "list"],
                _ => vec!["--quiet", "--showduplicates", "repository-packages", repo, "list"],
            };
            words.extend(cached.then_some("-C"));
            words.extend(names.iter().map(String::as_str));
            let said = call(ctx, &words, false)?;
            // A repo without a matching package ends with an error code, but reports that only on stderr.
            if said.retcode == Some(0) || !said.stdout.contains("Error:") {
                add(&said.stdout, false);
            }
        }
    }
    Ok(package_map(found, kwargs.get("byrepo").is_some_and(Value::truthy)))
}

fn newest_first(versions: impl IntoIterator<Item = String>) -> Value {
    let mut versions: Vec<Loose> = versions.into_iter().map(Loose).collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions.into_iter().map(|version| version.0).collect()
}

fn package_map(found: ByRepo, by_repo: bool) -> Map {
    if by_repo {
        let packages = |packages: BTreeMap<String, BTreeSet<String>>| -> Map {
            packages.into_iter().map(|(name, versions)| (name, newest_first(versions))).collect()
        };
        return found.into_iter().map(|(repo, own)| (repo, packages(own))).collect();
    }
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, versions) in found.into_values().flatten() {
        all.entry(name).or_default().extend(versions);
    }
    all.into_iter().map(|(name, versions)| (name, newest_first(versions))).collect()
}

/// The options of versions of yum that cannot list a source by itself.
fn old_yum(ctx: &Context, manager: Manager) -> Result<Option<Vec<&'static str>>> {
    if manager != Manager::Yum {
        return Ok(None);
    }
    let text = common::output(ctx, &["yum", "--version"], true)?;
    let version = text.lines().next().unwrap_or_default().trim();
    let before = |other: &str| compare_loosely(version, other, false) < 0;
    Ok(match (before("3.2.13"), before("3.4.3")) {
        // Very old yums did not know `--showduplicates`, either.
        (true, _) => Some(vec!["--quiet"]),
        (false, true) => Some(vec!["--quiet", "--showduplicates"]),
        (false, false) => None,
    })
}

/// Returns the sources to query: those named, or those that are enabled.
fn chosen_repos(ctx: &Context, kwargs: &Map) -> Result<Vec<String>> {
    let named = |name: &str| common::texts(kwargs.get(name).filter(|value| value.truthy()));
    let from = named("fromrepo");
    // `fromrepo` turns every other repo off, so nothing else needs a look.
    if !from.is_empty() {
        return Ok(from);
    }
    let (off, on) = (named("disablerepo"), named("enablerepo"));
    let repos = super::repos::all(ctx, None, kwargs)?;
    let enabled = |settings: &Value| settings.get("enabled").is_none_or(|on| on.to_string() == "1");
    let chosen = repos.iter().map(|(name, settings)| (name.to_string(), settings));
    let chosen = chosen.filter(|(name, settings)| on.contains(name) || (!off.contains(name) && enabled(settings)));
    Ok(chosen.map(|(name, _)| name).collect())
}

/// Refreshes the package metadata: True when there is something to upgrade, False when it failed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.refresh_db
///     salt '*' pkg.clean_metadata
#[function]
fn refresh_db(ctx: &Context, kwargs: KwArgs) -> Result<Value> {
    let kwargs = kwargs.given();
    let check = kwargs.get("check_update").is_none_or(Value::truthy);
    refresh(ctx, &kwargs, check)
}

pub(super) fn refresh(ctx: &Context, kwargs: &Map, check: bool) -> Result<Value> {
    // The mark shows later states that the metadata is still old. Whatever the outcome, this was an attempt.
    common::clear_refresh_mark(ctx);
    let check = check && kwargs.get("check_update").is_none_or(Value::truthy);
    let options = options(kwargs);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let clean = [&["--quiet", "--assumeyes", "clean", "expire-cache"], &options[..]].concat();
    call(ctx, &clean, false)?;
    if !check {
        return Ok(true.into());
    }
    let mut words = vec!["--quiet", "--assumeyes", "check-update"];
    // On version 7 yum would also check the running kernel, which is not needed here and takes long with big repos.
    let seven = ctx.grains.get("osmajorrelease").and_then(Value::as_i64) == Some(7);
    if seven && ctx.grains.get_str("os_family") == Some("RedHat") {
        words.push("--setopt=autocheck_running_kernel=false");
    }
    words.extend(options);
    Ok(match call(ctx, &words, false)?.retcode {
        // 100 means "there are updates", which is the success of `check-update`. 0 means "none".
        Some(100) => true.into(),
        Some(0) => Value::Null,
        _ => false.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_break_their_lines() {
        let text = "Available Packages\nbash.x86_64   5.1.8-6.el9   baseos\na-very-long-name.noarch\n   1:2.0-3.el9\n  @epel\n\
                    glibc.i686 2.34-60.el9 baseos\n";
        let found = offered(text, "x86_64");
        let names: Vec<&str> = found.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["bash", "a-very-long-name", "glibc.i686"]);
        assert_eq!(found[1].repo, "epel");
        assert_eq!(offered("", "x86_64"), []);
    }
}
