//! Plans the changes of packages: what is to be installed, reinstalled, removed, downloaded.

use exec::{Context, Result};
use modules::pkg_resource::{self, repack};
use value::{Map, Value, map};

use super::versions::{conditions, fulfilled};
use super::{clean, failed, listed, versions_in, versions_of};
use crate::support::{call, caught, caught_or_refused, has, join, over};
use crate::{Ret, args};

/// The arguments of `pkg.installed`, cleaned up.
pub struct Wish {
    /// The name of the state.
    pub name: String,
    /// The version of the one package.
    pub version: Value,
    /// Packages, from repositories.
    pub pkgs: Value,
    /// Packages, from files.
    pub sources: Value,
    /// True if the check that unknown packages exist in the repositories is skipped.
    pub skip_suggestions: bool,
    /// The verification of the files of installed packages.
    pub verify: Verify,
    /// True if names are brought into the form that `pkg.list_pkgs` uses.
    pub normalize: bool,
    /// True if epochs are ignored in comparisons; `None` decides by the version.
    pub ignore_epoch: Value,
    /// True if packages are installed although they are installed already.
    pub reinstall: bool,
    /// True if the package lists are refreshed first.
    pub refresh: bool,
    /// Everything else, for execution functions.
    pub kwargs: Map,
}

/// The settings for checking the files of packages.
#[derive(Default)]
pub struct Verify {
    /// True if verification is on.
    pub on: bool,
    ignore_types: Value,
    options: Value,
}

impl Verify {
    /// Reads `pkg_verify`: a flag or a list of settings.
    pub fn of(value: &Value) -> Self {
        let items = value.as_list();
        let setting = |name: &str| {
            let found = items.into_iter().flatten().find_map(|item| item.get(name)).filter(|value| !value.is_null());
            found.cloned().unwrap_or(Value::List(Vec::new()))
        };
        // Any list switches it on, even one whose settings are all unknown.
        let on = items.map_or(*value == Value::Bool(true), |items| !items.is_empty());
        Verify { on, ignore_types: setting("ignore_types"), options: setting("verify_options") }
    }

    /// Returns the problems with the files of a package.
    pub fn check(&self, ctx: &Context, package: &str, kwargs: &Map) -> Result<Value> {
        let own = map! { "ignore_types" => self.ignore_types.clone(), "verify_options" => self.options.clone() };
        call(ctx, "pkg.verify", args![package], over(kwargs.clone(), &own))
    }
}

/// The tasks of `pkg.installed`.
#[derive(Default)]
pub struct Plan {
    /// All packages with the requested versions.
    pub desired: Map,
    /// The packages to install.
    pub targets: Map,
    /// The packages that dpkg has marked for purging. The mark must go.
    pub unpurge: Vec<String>,
    /// The packages to install again.
    pub reinstall: Map,
    /// The packages whose files were altered, with the problems found.
    pub altered: Map,
    /// Additional comments.
    pub warnings: Vec<String>,
    /// True if planning has already refreshed the package lists.
    pub refreshed: bool,
}

/// A plan, or the final result if there is nothing to do or after an error.
pub type Found<T> = std::result::Result<T, Ret>;

fn invalid(name: &str, what: &str) -> Ret {
    failed(name, format!("Invalidly formatted {what} parameter. See minion log."))
}

/// Finds the packages that `installed` must install.
pub fn install(ctx: &Context, wish: &Wish) -> Result<Found<Plan>> {
    let name = &wish.name;
    if wish.pkgs.truthy() && wish.sources.truthy() {
        return Ok(Err(failed(name, "Only one of \"pkgs\" and \"sources\" is permitted.")));
    }
    let capabilities =
        wish.kwargs.get("resolve_capabilities").is_some_and(Value::truthy) && has(ctx, "pkg.list_provides");
    let (current, provided) = match current(ctx, wish, capabilities) {
        Ok(found) => found,
        Err(error) => return Ok(Err(failed(name, caught(error)?.text))),
    };
    let several = wish.pkgs.truthy() || wish.sources.truthy();
    let mut plan = Plan { desired: desired(ctx, wish)?, ..Plan::default() };
    if plan.desired.is_empty() {
        return Ok(Err(invalid(name, if wish.pkgs.truthy() { "'pkgs'" } else { "'sources'" })));
    }
    // A package that is waiting to be purged looks installed, but would vanish with the next
    // cleanup.
    plan.unpurge = unpurge(ctx, &plan.desired, &wish.kwargs)?;
    // The common case, answered before anything expensive is asked.
    if !several && let Some(done) = one_is_there(wish, &plan, &versions_in(&current, name)) {
        return Ok(Err(done));
    }
    // A misspelt name fails here with suggestions, before the package manager changes anything.
    if !wish.sources.truthy() && !wish.skip_suggestions {
        let missing = not_installed(ctx, &plan.desired, &current, &wish.ignore_epoch)?;
        if !missing.is_empty()
            && let Some(ret) = unknown(ctx, name, &missing, &wish.kwargs)?
        {
            return Ok(Err(ret));
        }
    }
    // `version: latest` must become a number before versions are compared.
    take_latest(ctx, wish, &mut plan, &current)?;
    let known = InstalledState { current, provided };
    sort_out(ctx, wish, &mut plan, &known)
}

fn current(ctx: &Context, wish: &Wish, capabilities: bool) -> Result<(Map, Map)> {
    let current = listed(ctx, "pkg.list_pkgs", over(map! { "versions_as_list" => true }, &wish.kwargs))?;
    let provided = if capabilities { listed(ctx, "pkg.list_provides", wish.kwargs.clone())? } else { Map::new() };
    Ok((current, provided))
}

fn desired(ctx: &Context, wish: &Wish) -> Result<Map> {
    if wish.pkgs.truthy() {
        let split = wish.kwargs.get("split_arch").is_none_or(Value::truthy);
        // Without `split_arch` the suffix of the architecture must survive, and normalizing would
        // strip it.
        return repack(ctx, &wish.pkgs, wish.normalize && split);
    }
    if wish.sources.truthy() {
        let kwargs = map! { "normalize" => wish.normalize };
        return Ok(call(ctx, "pkg_resource.pack_sources", vec![wish.sources.clone()], kwargs)?
            .into_map()
            .unwrap_or_default());
    }
    Ok(map! { pkg_resource::normalized(ctx, &wish.name, wish.normalize)? => wish.version.clone() })
}

fn unpurge(ctx: &Context, desired: &Map, kwargs: &Map) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in desired.text_keys() {
        // Asked once per package, as in Salt.
        let leaving = listed(ctx, "pkg.list_pkgs", over(map! { "purge_desired" => true }, kwargs))?;
        if leaving.contains_key(name) {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

fn one_is_there(wish: &Wish, plan: &Plan, versions: &[String]) -> Option<Ret> {
    let name = &wish.name;
    if plan.unpurge.contains(name) || wish.reinstall || wish.verify.on || versions.is_empty() {
        return None;
    }
    let ret = Ret::new(name.as_str());
    match wish.version.as_str() {
        // Plain text comparison: an operator or a pattern goes the long way.
        Some(version) if versions.iter().any(|there| there == version) => {
            Some(ret.ok(format!("Version {version} of package '{name}' is already installed")))
        }
        None => Some(ret.ok(format!("Package {name} is already installed"))),
        Some(_) => None,
    }
}

fn not_installed(ctx: &Context, desired: &Map, current: &Map, ignore_epoch: &Value) -> Result<Map> {
    let mut missing = Map::new();
    for (name, version) in desired {
        let there = match (current.get(&name.to_string()), version) {
            (None, _) => false,
            // Any version will do, and one is there.
            (Some(_), Value::Null) => true,
            (Some(_), version) => {
                let versions = versions_in(current, &name.to_string());
                fulfilled(ctx, &versions, &version.to_string(), ignore_epoch, false)?
            }
        };
        if !there {
            missing.insert(name.clone(), version.clone());
        }
    }
    Ok(missing)
}

/// Checks whether packages exist at all; reports those that do not.
fn unknown(ctx: &Context, name: &str, wanted: &Map, kwargs: &Map) -> Result<Option<Ret>> {
    if !has(ctx, "pkg.check_db") {
        return Ok(None);
    }
    let found = match call(ctx, "pkg.check_db", wanted.keys().cloned().collect(), kwargs.clone()) {
        Ok(found) => found.into_map().unwrap_or_default(),
        Err(error) => {
            // No database to ask, for instance offline. The package manager will complain itself.
            caught(error)?;
            return Ok(None);
        }
    };
    let (mut without, mut comments) = (Vec::new(), Vec::new());
    for (package, info) in &found {
        if info.get("found") != Some(&Value::Bool(false)) {
            continue;
        }
        match info.get("suggestions").filter(|suggestions| suggestions.truthy()) {
            Some(Value::List(names)) => {
                let names = join(names, ", ");
                comments.push(format!("Package '{package}' not found (possible matches: {names})"));
            }
            _ => without.push(package.to_string()),
        }
    }
    if !without.is_empty() {
        without.sort();
        let text = "The following package(s) were not found, and no possible matches were found in the package db: ";
        comments.insert(0, format!("{text}{}", without.join(", ")));
    }
    if comments.is_empty() {
        return Ok(None);
    }
    // The empty part makes the joined text end in a full stop.
    if comments.len() > 1 {
        comments.push(String::new());
    }
    Ok(Some(failed(name, comments.join(". ").trim_end())))
}

fn take_latest(ctx: &Context, wish: &Wish, plan: &mut Plan, current: &Map) -> Result<()> {
    let is_latest = |(_, version): &(&Value, &Value)| version.as_str() == Some("latest");
    let names: Vec<Value> = plan.desired.iter().filter(is_latest).map(|(name, _)| name.clone()).collect();
    if wish.sources.truthy() || names.is_empty() {
        return Ok(());
    }
    let kwargs = over(map! { "refresh" => wish.refresh }, &wish.kwargs);
    let answer = call(ctx, "pkg.latest_version", names.clone(), kwargs)?;
    let found = match &names[..] {
        // A single name is answered with a bare version.
        [one] => map! { one.clone() => answer },
        _ => answer.into_map().unwrap_or_default(),
    };
    plan.refreshed = wish.refresh;
    for (name, version) in found {
        // No newer version is available, so the installed one is the latest.
        let there = || versions_in(current, &name.to_string()).pop().map_or(Value::Null, Value::from);
        let version = if version.truthy() { version } else { there() };
        plan.desired.insert(name, version);
    }
    Ok(())
}

struct InstalledState {
    current: Map,
    provided: Map,
}

impl InstalledState {
    fn versions(&self, ctx: &Context, package: &str) -> Result<Vec<String>> {
        let versions = versions_of(ctx, &self.current, package)?;
        let provider = || self.provided.get(package)?.as_list()?.first().map(Value::to_string);
        match provider() {
            // The name is a capability. Only its first provider counts, as in Salt.
            Some(provider) if versions.is_empty() => Ok(versions_in(&self.current, &provider)),
            _ => Ok(versions),
        }
    }
}

/// The verdict on one package that is installed in some version.
enum Look {
    Target,
    Again(Option<Value>),
    Fine,
    /// Fine, and a version was compared.
    FineVersion,
    Problem(String),
    VerifyFailed(String),
    Warning(String),
}

fn sort_out(ctx: &Context, wish: &Wish, plan: &mut Plan, known: &InstalledState) -> Result<Found<Plan>> {
    // Salt keeps only the last verification error, because its loop overwrites the variable.
    let (mut problems, mut verify_failed, mut compared) = (Vec::new(), None, false);
    for (package, version) in plan.desired.clone() {
        let package = package.to_string();
        let there = known.versions(ctx, &package)?;
        let looked = match there.is_empty() {
            true => Look::Target,
            false => look(ctx, wish, &package, &version, &there, &mut compared)?,
        };
        match looked {
            Look::Target => drop(plan.targets.insert(package, version)),
            Look::Again(altered) => {
                plan.altered.extend(altered.map(|altered| (package.clone(), altered)));
                plan.reinstall.insert(package, version);
            }
            Look::Problem(text) => problems.push(text),
            Look::VerifyFailed(text) => verify_failed = Some(text),
            Look::Warning(text) => plan.warnings.push(text),
            Look::Fine | Look::FineVersion => {}
        }
    }
    problems.extend(verify_failed);
    if !problems.is_empty() {
        return Ok(Err(failed(&wish.name, problems.join(" "))));
    }
    if plan.targets.is_empty() && plan.unpurge.is_empty() && plan.reinstall.is_empty() {
        // The text claims a match of versions only if one was compared.
        let desired = if compared && !wish.sources.truthy() { " and are at the desired version" } else { "" };
        let ret = Ret::new(wish.name.as_str()).ok(format!("All specified packages are already installed{desired}"));
        return Ok(Err(super::with_warnings(ret, &plan.warnings)));
    }
    Ok(Ok(std::mem::take(plan)))
}

/// Checks a package that is installed in some version.
fn look(
    ctx: &Context,
    wish: &Wish,
    package: &str,
    version: &Value,
    there: &[String],
    compared: &mut bool,
) -> Result<Look> {
    // A forced reinstallation ignores versions.
    if wish.reinstall {
        return Ok(Look::Again(None));
    }
    let (wanted, from_file) = if wish.sources.truthy() {
        match file_version(ctx, version, &wish.kwargs)? {
            Ok(version) => (version, true),
            Err(look) => return Ok(look),
        }
    } else {
        // Some package managers know more than versions, such as Gentoo's use flags. A mismatch
        // there means to install again.
        let extra = call(ctx, "pkg_resource.check_extra_requirements", args![package, version.clone()], Map::new())?;
        if !extra.truthy() {
            return Ok(Look::Target);
        }
        if clean(ctx, version)?.is_none() {
            return if wish.verify.on { checked(ctx, wish, package) } else { Ok(Look::Fine) };
        }
        (version.to_string(), false)
    };
    // A file has exactly one version, so "or newer" makes no sense for it.
    let updates = !from_file && wish.kwargs.get("allow_updates").is_some_and(Value::truthy);
    match fulfilled(ctx, there, &wanted, &wish.ignore_epoch, updates) {
        Err(error) => return Ok(Look::Problem(caught(error)?.text)),
        Ok(fulfilled) => {
            *compared = true;
            if fulfilled {
                return Ok(Look::FineVersion);
            }
        }
    }
    // With a range Salt does not verify but goes straight to installing.
    let exact = conditions(&version.to_string()).iter().any(|(sign, _)| sign == "==");
    if wish.verify.on && exact { checked(ctx, wish, package) } else { Ok(Look::Target) }
}

fn checked(ctx: &Context, wish: &Wish, package: &str) -> Result<Look> {
    match wish.verify.check(ctx, package, &wish.kwargs) {
        Ok(wrong) if wrong.truthy() => Ok(Look::Again(Some(wrong))),
        Ok(_) => Ok(Look::Fine),
        // A failed check must not pass for an intact package.
        Err(error) => Ok(Look::VerifyFailed(caught_or_refused(error)?.text)),
    }
}

/// The version of a package in a file.
fn file_version(ctx: &Context, source: &Value, kwargs: &Map) -> Result<std::result::Result<String, Look>> {
    if !has(ctx, "lowpkg.bin_pkg_info") {
        // The version in a file cannot be read here, so an installed package counts as right.
        return Ok(Err(Look::Fine));
    }
    let problem = |why: &str| Look::Problem(format!("Unable to cache {source}: {why}"));
    let own = map! {
        "saltenv" => kwargs.get("saltenv").cloned().unwrap_or_default(),
        "verify_ssl" => kwargs.get("verify_ssl").cloned().unwrap_or(true.into()),
    };
    let path = match call(ctx, "cp.cache_file", vec![source.clone()], own) {
        Ok(path) => path,
        Err(error) => return Ok(Err(problem(&caught(error)?.text))),
    };
    let Some(path) = path.as_str().filter(|path| !path.is_empty()) else {
        return Ok(Err(problem("file not found")));
    };
    if !std::path::Path::new(path).exists() {
        return Ok(Err(Look::Problem(format!("{source} does not exist on minion"))));
    }
    let info = call(ctx, "lowpkg.bin_pkg_info", args![path], Map::new())?;
    Ok(match info.get("version") {
        Some(version) => Ok(version.to_string()),
        // Unreadable metadata is no reason to reinstall on every run.
        None => Err(Look::Warning(format!("Failed to parse metadata for {source}"))),
    })
}

/// Returns which of the packages are installed as requested, and which are not.
pub fn verify(
    ctx: &Context,
    desired: &Map,
    there: &Map,
    provided: &Map,
    ignore_epoch: &Value,
) -> Result<(Vec<String>, Vec<String>)> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (package, version) in desired {
        let package = package.to_string();
        // On Debian a state may write `name=version` as the name.
        let bare = package.split('=').next().unwrap_or_default();
        let mut versions = versions_of(ctx, there, bare)?;
        if let (true, Some(Value::List(providers))) = (versions.is_empty(), provided.get(bare)) {
            versions = providers.first().map(|name| versions_in(there, &name.to_string())).unwrap_or_default();
        }
        let fine = match versions.first() {
            None => false,
            Some(_) if version.as_str() == Some("latest") => true,
            Some(first) => match clean(ctx, version)?.filter(|version| !version.is_empty()) {
                None => true,
                Some(_) => {
                    let wanted = version.to_string();
                    // `1.2*` is a prefix here, before the comparison by the package manager gets to
                    // see it.
                    wanted.strip_suffix('*').is_some_and(|start| first.starts_with(start))
                        || fulfilled(ctx, &versions, &wanted, ignore_epoch, false)?
                }
            },
        };
        if fine { good.push(package) } else { bad.push(package) }
    }
    Ok((good, bad))
}

/// The arguments of `pkg.removed`, `pkg.purged` and `pkg.downloaded`.
pub struct Others<'a> {
    /// The name of the state.
    pub name: &'a str,
    /// The version of the one package.
    pub version: Value,
    /// Packages.
    pub pkgs: &'a Value,
    /// True if names are brought into the form that `pkg.list_pkgs` uses.
    pub normalize: bool,
    /// True if epochs are ignored in comparisons.
    pub ignore_epoch: &'a Value,
    /// Everything else.
    pub kwargs: &'a Map,
}

impl Others<'_> {
    fn desired(&self, ctx: &Context) -> Result<Map> {
        if self.pkgs.truthy() {
            return repack(ctx, self.pkgs, self.normalize);
        }
        Ok(map! { pkg_resource::normalized(ctx, self.name, self.normalize)? => self.version.clone() })
    }
}

/// Finds the packages that `removed` or `purged` must remove.
pub fn remove(ctx: &Context, others: &Others<'_>) -> Result<Found<Vec<String>>> {
    let own = map! { "versions_as_list" => true };
    let current = listed(ctx, "pkg.list_pkgs", over(own, others.kwargs))?;
    // Without `pkgs`, names are made those of lists even when they should not be.
    let normalize = others.normalize || !others.pkgs.truthy();
    let wanted = Others { normalize, version: others.version.clone(), ..*others }.desired(ctx)?;
    if wanted.is_empty() {
        return Ok(Err(invalid(others.name, "pkgs")));
    }
    let (mut targets, mut problems, mut compared) = (Vec::new(), Vec::new(), false);
    for (package, version) in &wanted {
        let package = package.to_string();
        let there = versions_in(&current, &package);
        if there.is_empty() {
            continue;
        }
        if clean(ctx, version)?.is_none() {
            targets.push(package);
            continue;
        }
        compared = true;
        match fulfilled(ctx, &there, &version.to_string(), others.ignore_epoch, false) {
            // Only a matching version is removed. Another one counts as absent.
            Ok(true) => targets.push(package),
            Ok(false) => {}
            Err(error) => problems.push(caught(error)?.text),
        }
    }
    if !problems.is_empty() {
        return Ok(Err(failed(others.name, problems.join(" "))));
    }
    if targets.is_empty() {
        let matching = if compared { " (matching specified versions)" } else { "" };
        let text = format!("All specified packages{matching} are already absent");
        return Ok(Err(Ret::new(others.name).ok(text)));
    }
    Ok(Ok(targets))
}

/// Finds the packages that `downloaded` must fetch.
pub fn download(ctx: &Context, others: &Others<'_>) -> Result<Found<Map>> {
    let name = others.name;
    let current = listed(ctx, "pkg.list_downloaded", others.kwargs.clone())?;
    let wanted = others.desired(ctx)?;
    if wanted.is_empty() {
        return Ok(Err(invalid(name, "pkgs")));
    }
    let there = versions_in(&current, name);
    if !others.pkgs.truthy() && wanted.contains_key(name) && !there.is_empty() {
        let done = Ret::new(name);
        match others.version.as_str() {
            Some(version) if there.iter().any(|there| there == version) => {
                return Ok(Err(done.ok(format!("Version {version} of package '{name}' is already downloaded"))));
            }
            None => return Ok(Err(done.ok(format!("Package {name} is already downloaded")))),
            Some(_) => {}
        }
    }
    // Unlike for `pkg.installed` there is no way to skip this check.
    if let Some(ret) = unknown(ctx, name, &wanted, others.kwargs)? {
        return Ok(Err(ret));
    }
    let (mut targets, mut problems, mut compared) = (Map::new(), Vec::new(), false);
    for (package, version) in &wanted {
        let there = versions_in(&current, &package.to_string());
        if there.is_empty() {
            targets.insert(package.clone(), version.clone());
        } else if version.truthy() {
            compared = true;
            match fulfilled(ctx, &there, &version.to_string(), others.ignore_epoch, false) {
                Ok(true) => {}
                Ok(false) => drop(targets.insert(package.clone(), version.clone())),
                Err(error) => problems.push(caught(error)?.text),
            }
        }
    }
    if !problems.is_empty() {
        return Ok(Err(failed(name, problems.join(" "))));
    }
    if targets.is_empty() {
        let matching = if compared { " (matching specified versions)" } else { "" };
        return Ok(Err(Ret::new(name).ok(format!("All specified packages{matching} are already downloaded"))));
    }
    Ok(Ok(targets))
}

/// Returns the versions of each package before and after an installation that is only pretended.
pub fn installable(ctx: &Context, targets: &Map, current: &Map) -> Result<Map> {
    // Salt queries the newest version even when there is nothing to query.
    let newest: Vec<String> =
        targets.iter().filter(|(_, version)| !version.truthy()).map(|(name, _)| name.to_string()).collect();
    let names = newest.iter().map(Value::from).collect();
    let answer = call(ctx, "pkg.latest_version", names, Map::new())?;
    let (mut found, known) = match (newest.first(), answer) {
        (Some(_), Value::Map(found)) => (found, true),
        (Some(first), Value::Str(version)) => (map! { first.as_str() => version }, true),
        _ => (Map::new(), false),
    };
    let explicit = targets.text_keys().filter(|name| !newest.iter().any(|known| known == name));
    let explicit: Vec<Value> = explicit.map(|name| super::name_and_version(name, targets).into()).collect();
    if !explicit.is_empty() {
        let lists = call(ctx, "pkg.list_repo_pkgs", explicit, Map::new())?.into_map().unwrap_or_default();
        for (name, versions) in lists {
            if let Some(first) = versions.as_list().and_then(<[Value]>::first) {
                found.insert(name, first.clone());
            }
        }
    }
    // As in Salt, packages that only the repositories named are reported, too, unless the newest versions were
    // requested.
    let mut changes = if known { Map::new() } else { found.clone() };
    for name in targets.text_keys() {
        let new = found.get(name).filter(|version| version.truthy()).cloned().unwrap_or("installed".into());
        let old = current.get(name).cloned().unwrap_or("".into());
        changes.insert(name, map! { "new" => new, "old" => old });
    }
    Ok(changes)
}
