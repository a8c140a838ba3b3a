//! `pkg` on Debian and its relatives: dpkg and apt.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use exec::{Call, Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, map};

use super::{debian_version, sources};
use crate::cmd::{self, Outcome};
use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "pkg",
    "Functions that look at packages and change what is installed, with dpkg and apt.",
    &[
        &AUTOREMOVE,
        &AVAILABLE_VERSION,
        &FILE_DICT,
        &FILE_LIST,
        &GET_REPO,
        &GET_SELECTIONS,
        &HOLD,
        &INFO_INSTALLED,
        &INSTALL,
        &LATEST_VERSION,
        &LIST_PKGS,
        &LIST_REPO_PKGS,
        &LIST_REPOS,
        &LIST_UPGRADES,
        &NORMALIZE_NAME,
        &OWNER,
        &PARSE_ARCH,
        &PURGE,
        &REFRESH_DB,
        &REMOVE,
        &SHOW,
        &UNHOLD,
        &UPGRADE,
        &UPGRADE_AVAILABLE,
        &VERSION,
        &VERSION_CMP,
        &WHICH,
    ],
)
.only_if(debian);

fn debian(grains: &Map) -> std::result::Result<(), String> {
    let family = grains.get_str("os_family");
    if family == Some("Debian") || (family.is_none() && util::which("dpkg-query").is_some()) {
        return Ok(());
    }
    Err("The pkg module could not be loaded: unsupported OS family".into())
}

/// Keeps maintainer scripts from asking.
const ENVIRONMENT: [&str; 5] = [
    "env",
    "APT_LISTBUGS_FRONTEND=none",
    "APT_LISTCHANGES_FRONTEND=none",
    "DEBIAN_FRONTEND=noninteractive",
    "UCF_FORCE_CONFFOLD=1",
];

/// Returns what a program printed.
async fn said(ctx: &Context, words: &[&str]) -> Result<String> {
    Ok(cmd::quiet(ctx, words).await?.stdout)
}

/// Runs apt so that it changes something: without questions, and not ended with the minion that it may update. Waits
/// while another one holds the lock.
async fn apt(ctx: &Context, args: &[&str]) -> Result<Outcome> {
    let mut words = Vec::new();
    let scope = util::config_get(ctx, "systemd.scope").is_none_or(|on| on.truthy());
    if scope && Path::new("/run/systemd/system").exists() && util::which("systemd-run").is_some() {
        words.extend(["systemd-run", "--scope", "--description", "saltern pkg"]);
    }
    words.extend(ENVIRONMENT);
    words.extend(["apt-get", "-o", "DPkg::Lock::Timeout=120"]);
    words.extend(args);
    cmd::quiet(ctx, &words).await
}

/// What is installed, by name; the versions of each.
type Packages = BTreeMap<String, Vec<String>>;

/// What dpkg knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Installed {
    installed: Packages,
    removed: Packages,
    purge_desired: Packages,
}

async fn query(ctx: &Context) -> Result<Installed> {
    let format = "${Status} ${Package} ${Version} ${Architecture}\n";
    let text = said(ctx, &["dpkg-query", "--showformat", format, "-W"]).await?;
    let grain = |name| ctx.grains.get_str(name).unwrap_or_default();
    let foreign = grain("cpuarch") == "x86_64" && grain("osarch") == "amd64";
    Ok(parse_query(&text, foreign.then_some("amd64")))
}

/// Reads lines such as "install ok installed bash 5.2.15-2+b8 amd64". Packages of another architecture than the own
/// one have it behind their name.
fn parse_query(text: &str, own: Option<&str>) -> Installed {
    let mut found = Installed::default();
    for line in text.lines() {
        let [wanted, _, status, name, version, arch, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            continue;
        };
        let foreign = arch != "all" && own.is_some_and(|own| own != arch);
        let name = if foreign { format!("{name}:{arch}") } else { name.to_owned() };
        let place = if wanted == "deinstall" {
            &mut found.removed
        } else if ["install", "hold"].contains(&wanted) && status.contains("installed") {
            &mut found.installed
        } else if wanted == "purge" && status == "installed" {
            &mut found.purge_desired
        } else {
            continue;
        };
        place.entry(name).or_default().push(version.to_owned());
    }
    for packages in [&mut found.installed, &mut found.removed, &mut found.purge_desired] {
        for versions in packages.values_mut() {
            versions.sort();
            versions.dedup();
        }
    }
    found
}

async fn installed(ctx: &Context) -> Result<Packages> {
    let found = query(ctx).await?;
    let mut all = found.purge_desired;
    all.extend(found.installed);
    Ok(all)
}

fn shown(packages: Packages, as_list: bool) -> Map {
    let text = |versions: Vec<String>| if as_list { Value::from(versions) } else { Value::from(versions.join(",")) };
    packages.into_iter().map(|(name, versions)| (name, text(versions))).collect()
}

/// What differs: the old and the new version of each package.
fn differences(old: &Packages, new: &Packages) -> Map {
    let text =
        |packages: &Packages, name: &String| packages.get(name).map_or(String::new(), |versions| versions.join(","));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let pairs = names.into_iter().map(|name| (name, text(old, name), text(new, name)));
    pairs
        .filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| (name, map! { "new" => new, "old" => old }))
        .collect()
}

/// An error with details, as Salt words it.
fn problem(what: &str, details: Map) -> Error {
    let details = yaml::dump(&Value::Map(details), yaml::Flow::Block);
    Error::execution(format!("{what}. Additional info follows:\n\n{}", details.trim_end()))
}

fn failure(said: &Outcome) -> Option<String> {
    let text = if said.stderr.trim().is_empty() { &said.stdout } else { &said.stderr };
    (said.retcode != Some(0)).then(|| text.trim_end().to_owned())
}

/// Removes packages nothing needs any more, or with ``list_only`` names them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.autoremove
///     salt '*' pkg.autoremove list_only=True
#[function]
async fn autoremove(ctx: &Context, #[default(false)] list_only: bool, #[default(false)] purge: bool) -> Result<Value> {
    let purge = if purge { &["--purge"][..] } else { &[] };
    if list_only {
        let words = [&["apt-get", "--assume-no"], purge, &["autoremove"]].concat();
        return Ok(Value::from(to_be_removed(&said(ctx, &words).await?)));
    }
    let old = installed(ctx).await?;
    apt(ctx, &[&["--assume-yes"], purge, &["autoremove"]].concat()).await?;
    Ok(Value::Map(differences(&old, &installed(ctx).await?)))
}

fn to_be_removed(text: &str) -> Vec<String> {
    let after = text.lines().skip_while(|line| !line.contains("The following packages will be REMOVED:")).skip(1);
    let lines = after.take_while(|line| line.starts_with(' '));
    let mut names: Vec<String> = lines.flat_map(str::split_whitespace).map(str::to_owned).collect();
    names.sort();
    names
}

/// Returns the newest version that could be installed, or nothing if the newest one is there.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.available_version <package name>
#[function]
async fn available_version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    newest(ctx, &names, &kwargs).await
}

/// Returns the newest version that could be installed, or nothing if the newest one is there. The lists are read anew
/// first unless ``refresh=False``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.latest_version <package name>
///     salt '*' pkg.latest_version <package1> <package2> fromrepo=unstable
#[function]
async fn latest_version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    newest(ctx, &names, &kwargs).await
}

async fn newest(ctx: &Context, names: &VarArgs, kwargs: &KwArgs) -> Result<Value> {
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    if kwargs.0.contains_key("repo") {
        return Err(Error::invocation("The 'repo' argument is invalid, use 'fromrepo' instead"));
    }
    if names.is_empty() {
        return Ok(Value::from(""));
    }
    if flag(kwargs, "refresh", true) {
        refresh(ctx, kwargs).await?;
    }
    let release = kwargs.0.get_str("fromrepo").map(|release| format!("APT::Default-Release={release}"));
    let mut words = vec!["apt-cache", "-q", "policy"];
    words.extend(names.iter().map(String::as_str));
    words.extend(release.iter().flat_map(|release| ["-o", release]));
    let candidates = candidates(&said(ctx, &words).await?);
    let installed = installed(ctx).await?;
    let show_installed = flag(kwargs, "show_installed", false);
    let newest = |name: &String| {
        let candidate = candidates.get(name).cloned().unwrap_or_default();
        let newer = |version: &String| debian_version::compare(version, &candidate).is_ge();
        let current = installed.get(name).is_some_and(|versions| versions.iter().any(newer));
        if current && !show_installed { String::new() } else { candidate }
    };
    Ok(one_or_all(&names, newest))
}

/// A single name is answered with a value, several with a map.
fn one_or_all(names: &[String], answer: impl Fn(&String) -> String) -> Value {
    match names {
        [one] => Value::from(answer(one)),
        names => Value::Map(names.iter().map(|name| (name, answer(name))).collect()),
    }
}

/// Reads what `apt-cache policy` prints: a name with a colon, then lines with blanks in front.
fn candidates(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        match line.trim().strip_prefix("Candidate:") {
            Some(version) if version.trim() != "(none)" => {
                drop(found.insert(name.to_owned(), version.trim().to_owned()))
            }
            Some(_) => {}
            None if !line.starts_with(' ') => name = line.strip_suffix(':').unwrap_or(name),
            None => {}
        }
    }
    found
}

fn flag(kwargs: &KwArgs, name: &str, default: bool) -> bool {
    kwargs.0.get(name).map_or(default, |value| match value {
        Value::Str(text) => ["true", "yes", "1", "on"].contains(&text.to_lowercase().as_str()),
        other => other.truthy(),
    })
}

/// Names of installed packages, or all of them; an error text when one is not there.
async fn installed_names(ctx: &Context, packages: &VarArgs) -> Result<std::result::Result<Vec<String>, String>> {
    let names: Vec<String> = packages.0.iter().map(Value::to_string).collect();
    let mut words = vec!["dpkg-query", "-f=${db:Status-Status}\t${binary:Package}\n", "-W"];
    words.extend(names.iter().map(String::as_str));
    let said = cmd::quiet(ctx, &words).await?;
    if said.retcode != Some(0) {
        return Ok(Err(format!("Error:  {}", said.stderr.trim_end())));
    }
    let lines = said.stdout.lines().filter_map(|line| line.strip_prefix("installed\t"));
    Ok(Ok(lines.map(str::to_owned).collect()))
}

async fn files_of(ctx: &Context, package: &str) -> Result<Vec<String>> {
    Ok(said(ctx, &["dpkg", "-L", package]).await?.lines().map(str::to_owned).collect())
}

/// Returns the files of packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_dict httpd
#[function]
async fn file_dict(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let names = match installed_names(ctx, &packages).await? {
        Ok(names) => names,
        Err(text) => return Ok(Value::from(text)),
    };
    let mut found = Map::new();
    for name in names {
        let files = files_of(ctx, &name).await?;
        found.insert(name, files);
    }
    Ok(Value::from(map! { "errors" => Vec::<String>::new(), "packages" => found }))
}

/// Returns the files of packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_list httpd
#[function]
async fn file_list(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let names = match installed_names(ctx, &packages).await? {
        Ok(names) => names,
        Err(text) => return Ok(Value::from(text)),
    };
    let mut files = Vec::new();
    for name in names {
        files.extend(files_of(ctx, &name).await?);
    }
    files.sort();
    files.dedup();
    Ok(Value::from(map! { "errors" => Vec::<String>::new(), "files" => files }))
}

/// Returns the source of packages a line of ``sources.list`` describes, as far as it is set up.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.get_repo "deb http://deb.debian.org/debian bookworm main"
#[function]
async fn get_repo(ctx: &Context, repo: String, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let Some(wanted) = sources::one_line(&repo, "") else { return Ok(Map::new()) };
    let all = ctx.blocking(|| sources::all(Path::new("/etc/apt"))).await?;
    let same = |shown: &Map| {
        let text = |key| shown.get_str(key).unwrap_or_default();
        let comps: Vec<&str> =
            shown.get("comps").and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str).collect();
        text("type") == wanted.types[0]
            && text("uri").trim_end_matches('/') == wanted.uris[0].trim_end_matches('/')
            && text("dist") == wanted.suites[0]
            && (wanted.comps.is_empty() || wanted.comps.iter().any(|comp| comps.contains(&comp.as_str())))
    };
    Ok(all.iter().flat_map(sources::Source::shown).map(|(_, shown)| shown).find(same).unwrap_or_default())
}

/// Returns what is wanted of packages (`install`, `hold`, `deinstall`, `purge`), with the packages of each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.get_selections 'python-*'
///     salt '*' pkg.get_selections state=hold
#[function]
async fn get_selections(ctx: &Context, pattern: Option<String>, state: Option<String>) -> Result<Map> {
    selections(ctx, pattern.as_deref(), state.as_deref()).await
}

async fn selections(ctx: &Context, pattern: Option<&str>, state: Option<&str>) -> Result<Map> {
    let text = said(ctx, &["dpkg", "--get-selections", pattern.unwrap_or("*")]).await?;
    let mut found = parse_selections(&text);
    Ok(match state {
        Some(state) => map! { state => found.remove(state).unwrap_or(Value::List(Vec::new())) },
        None => found,
    })
}

fn parse_selections(text: &str) -> Map {
    let mut found = Map::new();
    for line in text.lines() {
        let [name, state] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        if let Value::List(names) = found.entry_or_insert_with(state, || Value::List(Vec::new())) {
            names.push(Value::from(name));
        }
    }
    found
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

/// Keeps packages at the version they have.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.hold <package name>
///     salt '*' pkg.hold pkgs='["foo", "bar"]'
#[function]
async fn hold(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let mut report = Map::new();
    for target in targets(name, &pkgs, &sources)? {
        let entry = set_held(ctx, &target, true).await?;
        report.insert(target, entry);
    }
    Ok(report)
}

/// Lets packages be upgraded again.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.unhold <package name>
#[function]
async fn unhold(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let mut report = Map::new();
    for target in targets(name, &pkgs, &sources)? {
        let entry = set_held(ctx, &target, false).await?;
        report.insert(target, entry);
    }
    Ok(report)
}

async fn set_held(ctx: &Context, target: &str, held: bool) -> Result<Map> {
    let before = selections(ctx, Some(target), None).await?;
    let is_held = before.get("hold").is_some_and(Value::truthy);
    let entry = |result: Value, changes: Map, comment: String| {
        map! { "name" => target, "changes" => changes, "result" => result, "comment" => comment }
    };
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
    let said = cmd::quiet(ctx, &["apt-mark", if held { "hold" } else { "unhold" }, target]).await?;
    if let Some(reason) = failure(&said) {
        return Ok(entry(false.into(), Map::new(), reason));
    }
    let (old, new) = if held { ("install", "hold") } else { ("hold", "install") };
    let comment = if held { "is now being held" } else { "is no longer being held" };
    Ok(entry(true.into(), map! { "old" => old, "new" => new }, format!("Package {target} {comment}.")))
}

/// Returns what dpkg knows of installed packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.info_installed <package1> <package2> failhard=False
#[function]
async fn info_installed(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    let mut words = vec!["dpkg-query", "-W", INFO_FORMAT];
    words.extend(names.iter().map(String::as_str));
    let said = cmd::quiet(ctx, &words).await?;
    if said.retcode != Some(0) && flag(&kwargs, "failhard", true) {
        return Err(Error::execution(format!("Error getting packages information: {}", said.stderr.trim_end())));
    }
    if said.retcode != Some(0) {
        return Ok(Map::new());
    }
    ctx.blocking(move || said.stdout.split(INFO_END).filter_map(package_info).collect()).await
}

/// What is asked of dpkg, one field a line; the description, which has several lines, comes last.
const INFO_FORMAT: &str = "-f=name:${Package}\\nrevision:${binary:Revision}\\narchitecture:${Architecture}\\n\
    packager:${Maintainer}\\nsummary:${Summary}\\nsource:${source:Package}\\nversion:${Version}\\ngroup:${Section}\\n\
    size:${Size}\\nMD5:${MD5sum}\\nSHA1:${SHA1}\\nSHA256:${SHA256}\\nvendor:${Origin}\\nurl:${Homepage}\\n\
    status:${db:Status-Abbrev}\\ninstall_date:${db-fsys:Last-Modified}\\ndescription:${Description}\\n\\n*/~^\\\\*\\n";

/// What ends a package in the answer.
const INFO_END: &str = "\n*/~^\\*\n";

fn package_info(text: &str) -> Option<(String, Map)> {
    let (fields, description) = text.trim_start_matches('\n').split_once("\ndescription:")?;
    let mut info = Map::new();
    for (key, value) in fields.lines().filter_map(|line| line.split_once(':')) {
        match key {
            "status" if value.as_bytes().get(1) != Some(&b'i') => return None,
            "status" => {}
            "install_date" => info.extend(value.parse().ok().map(|seconds| (key, utc(seconds)))),
            _ if value.is_empty() => {}
            _ => drop(info.insert(key, value)),
        }
    }
    info.insert("description", description);
    let name = info.get_str("name")?.to_owned();
    info.extend(license(&name).map(|license| ("license", license)));
    Some((name, info))
}

/// Writes seconds since 1970 as `2025-05-20T00:00:00Z`.
fn utc(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The civil calendar counted from March, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// The licences the package's copyright file names.
fn license(name: &str) -> Option<String> {
    let bytes = std::fs::read(format!("/usr/share/doc/{name}/copyright")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("License:")).map(str::trim).collect();
    names.sort_unstable();
    names.dedup();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

/// What is to be installed: a package, `package=version`, or the path of a file.
async fn wanted(
    ctx: &Context,
    name: Option<String>,
    pkgs: &Value,
    sources: &Value,
    kwargs: &KwArgs,
) -> Result<Vec<String>> {
    let mut wanted = Vec::new();
    let list = |value: &Value| match value {
        Value::List(items) => items.clone(),
        Value::Map(map) => map.iter().map(|(key, value)| Value::from(map! { key.clone() => value.clone() })).collect(),
        Value::Null => Vec::new(),
        single => util::split_input(single).into_iter().map(Value::from).collect(),
    };
    for item in list(sources) {
        let source = item.as_map().and_then(|map| map.values().next()).unwrap_or(&item).to_string();
        let cached =
            ctx.call_with("cp.cache_file", Call { args: vec![source.clone().into()], kwargs: Map::new() }).await?;
        let missing = || Error::execution(format!("failed to fetch {source}"));
        wanted.push(cached.as_str().filter(|path| !path.is_empty()).ok_or_else(missing)?.to_owned());
    }
    for item in list(pkgs) {
        match item.as_map() {
            Some(map) => wanted.extend(map.iter().map(|(name, version)| pinned(&name.to_string(), version))),
            None => wanted.push(item.to_string()),
        }
    }
    if wanted.is_empty() {
        let version = kwargs.0.get("version").cloned().unwrap_or_default();
        wanted.extend(name.iter().flat_map(|name| name.split(',')).map(|name| pinned(name.trim(), &version)));
    }
    if let Some(bad) = wanted.iter().find(|target| target.starts_with('-') || target.is_empty()) {
        return Err(Error::invocation(format!("'{bad}' is not the name of a package")));
    }
    Ok(wanted)
}

fn pinned(name: &str, version: &Value) -> String {
    let version = if version.is_null() { String::new() } else { version.to_string() };
    let version = version.trim_start_matches(['=', ' ']);
    if version.is_empty() || version == "latest" { name.to_owned() } else { format!("{name}={version}") }
}

/// Installs or upgrades packages; returns what changed.
///
/// ``pkgs`` is a list of names or of ``name: version``, ``sources`` a list of ``name: file``. With ``refresh=True`` the
/// lists are read anew first.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.install <package name>
///     salt '*' pkg.install pkgs='["foo", {"bar": "1.2.3-0ubuntu0"}]'
#[function]
async fn install(
    ctx: &Context,
    name: Option<String>,
    #[default(false)] refresh: bool,
    fromrepo: Option<String>,
    #[default(false)] skip_verify: bool,
    #[default(Value::Null)] debconf: Value,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    #[default(false)] reinstall: bool,
    #[default(false)] downloadonly: bool,
    #[default(false)] ignore_epoch: bool,
    #[default(true)] normalize: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    // apt understands names with and without the architecture, and compares versions itself.
    let _ = (ignore_epoch, normalize);
    if debconf.truthy() {
        return Err(Error::execution("not supported: debconf"));
    }
    if refresh {
        self::refresh(ctx, &kwargs).await?;
    }
    let wanted = wanted(ctx, name, &pkgs, &sources, &kwargs).await?;
    if wanted.is_empty() {
        return Ok(Map::new());
    }
    let old = installed(ctx).await?;
    let release = fromrepo.map(|release| format!("APT::Default-Release={release}"));
    let mut args = vec!["-q", "-y"];
    args.extend(keep_settings(flag(&kwargs, "force_conf_new", false)));
    args.extend(release.iter().flat_map(|release| ["-o", release]));
    let download = downloadonly || flag(&kwargs, "download_only", false);
    for (word, on) in [
        ("--allow-unauthenticated", skip_verify),
        ("--reinstall", reinstall),
        ("--download-only", download),
        ("--no-install-recommends", !flag(&kwargs, "install_recommends", true)),
        ("--only-upgrade", flag(&kwargs, "only_upgrade", false)),
        // A version that was asked for may be an older one.
        ("--allow-downgrades", wanted.iter().any(|target| target.contains('='))),
    ] {
        args.extend(on.then_some(word));
    }
    args.push("install");
    args.extend(wanted.iter().map(String::as_str));
    let said = apt(ctx, &args).await?;
    let changes = differences(&old, &installed(ctx).await?);
    match failure(&said) {
        Some(reason) => {
            let details = map! { "errors" => vec![reason], "changes" => changes };
            Err(problem("Problem encountered installing package(s)", details))
        }
        None => Ok(changes),
    }
}

/// Whether settings an operator changed stay, or are replaced by the package's.
fn keep_settings(replace: bool) -> Vec<&'static str> {
    if replace {
        return vec!["-o", "DPkg::Options::=--force-confnew"];
    }
    vec!["-o", "DPkg::Options::=--force-confold", "-o", "DPkg::Options::=--force-confdef"]
}

/// Returns the installed packages and their versions, with ``versions_as_list`` as lists; with ``removed`` those of which
/// only settings are left, with ``purge_desired`` those about to be purged.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_pkgs
#[function]
async fn list_pkgs(
    ctx: &Context,
    #[default(false)] versions_as_list: bool,
    #[default(false)] removed: bool,
    #[default(false)] purge_desired: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let found = query(ctx).await?;
    let packages = match (removed, purge_desired) {
        (true, _) => found.removed,
        (false, true) => found.purge_desired,
        (false, false) => found.purge_desired.into_iter().chain(found.installed).collect(),
    };
    Ok(shown(packages, versions_as_list))
}

/// Returns the versions of packages that could be installed, of all or of those named.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_repo_pkgs foo bar baz
#[function]
async fn list_repo_pkgs(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let names: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let mut words = vec!["apt-cache"];
    words.push(if names.is_empty() { "dump" } else { "show" });
    words.extend(names.iter().map(String::as_str));
    Ok(repo_versions(&said(ctx, &words).await?))
}

fn repo_versions(text: &str) -> Map {
    let mut found = Map::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(package) = line.strip_prefix("Package: ") {
            name = Some(package.trim());
        } else if let (Some(version), Some(name)) = (line.trim().strip_prefix("Version: "), name)
            && let Value::List(versions) = found.entry_or_insert_with(name, || Value::List(Vec::new()))
        {
            versions.push(Value::from(version.trim()));
        }
    }
    found
}

/// Returns the sources of packages, by address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_repos
#[function]
async fn list_repos(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    ctx.blocking(|| {
        let mut repos = Map::new();
        for (uri, shown) in sources::all(Path::new("/etc/apt")).iter().flat_map(sources::Source::shown) {
            if let Value::List(list) = repos.entry_or_insert_with(uri, || Value::List(Vec::new())) {
                list.push(Value::Map(shown));
            }
        }
        repos
    })
    .await
}

/// Returns the packages that could be upgraded, with the new version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_upgrades
#[function]
async fn list_upgrades(
    ctx: &Context,
    #[default(true)] refresh: bool,
    #[default(true)] dist_upgrade: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    if refresh {
        self::refresh(ctx, &kwargs).await?;
    }
    let release = kwargs.0.get_str("fromrepo").map(|release| format!("APT::Default-Release={release}"));
    let mut words = vec!["apt-get", "--just-print", if dist_upgrade { "dist-upgrade" } else { "upgrade" }];
    words.extend(release.iter().flat_map(|release| ["-o", release]));
    let said = cmd::quiet(ctx, &words).await?;
    match failure(&said) {
        Some(reason) => Err(Error::execution(format!("Failed to get upgrades: {reason}"))),
        None => Ok(upgrades(&said.stdout)),
    }
}

/// Reads lines such as "Conf bash (5.2.15-2+b13 Debian:12/stable [amd64])".
fn upgrades(text: &str) -> Map {
    let lines = text.lines().filter_map(|line| line.strip_prefix("Conf ")?.split_once(" ("));
    lines.map(|(name, rest)| (name, rest.split([' ', ')']).next().unwrap_or_default())).collect()
}

/// Returns the name of a package without the architecture of this machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.normalize_name zsh:amd64
#[function]
fn normalize_name(ctx: &Context, name: String) -> Result<String> {
    let own = ctx.grains.get_str("osarch").unwrap_or_default();
    Ok(match name.rsplit_once(':') {
        Some((bare, arch)) if arch == own || ["all", "any"].contains(&arch) => bare.to_owned(),
        _ => name,
    })
}

/// Returns the package each file belongs to; nothing for files of no package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.owner /usr/bin/apachectl /usr/bin/basename
#[function]
async fn owner(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let mut found = Map::new();
    for path in paths.0.iter().map(Value::to_string) {
        let text = said(ctx, &["dpkg", "-S", &path]).await?;
        found.insert(path, text.split(':').next().unwrap_or_default());
    }
    Ok(match found.len() {
        0 => Value::from(""),
        1 => found.values().next().cloned().unwrap_or_default(),
        _ => Value::Map(found),
    })
}

/// Splits the name of a package from its architecture.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.parse_arch zsh:amd64
#[function]
fn parse_arch(name: String) -> Result<Map> {
    Ok(match name.rsplit_once(':') {
        Some((bare, arch)) => map! { "name" => bare, "arch" => arch },
        None => map! { "name" => name, "arch" => Value::Null },
    })
}

/// Removes packages with their settings; returns what changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.purge <package name>
#[function]
async fn purge(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    uninstall(ctx, "purge", name, &pkgs).await
}

/// Removes packages and leaves their settings; returns what changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.remove <package name>
#[function]
async fn remove(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    uninstall(ctx, "remove", name, &pkgs).await
}

async fn uninstall(ctx: &Context, action: &str, name: Option<String>, pkgs: &Value) -> Result<Map> {
    let names: Vec<String> = name.iter().flat_map(|name| name.split(',')).map(|name| name.trim().to_owned()).collect();
    let names = if pkgs.truthy() { targets(None, pkgs, &Value::Null)? } else { names };
    let before = query(ctx).await?;
    let old: Packages = before.purge_desired.into_iter().chain(before.installed).collect();
    let matching = |packages: &Packages| -> Vec<String> {
        packages.keys().filter(|known| names.iter().any(|name| targeting::fnmatch(known, name))).cloned().collect()
    };
    let mut found = matching(&old);
    if action == "purge" {
        found.extend(matching(&before.removed));
    }
    if found.is_empty() {
        return Ok(Map::new());
    }
    let mut args = vec!["-q", "-y", action];
    args.extend(found.iter().map(String::as_str));
    let said = apt(ctx, &args).await?;
    let after = query(ctx).await?;
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

/// Reads the lists of packages anew. Returns for each whether it was new (True), the same (None) or could not be got
/// (False). With ``cache_valid_time`` only if they are older than so many seconds.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.refresh_db
#[function]
async fn refresh_db(
    ctx: &Context,
    #[default(0)] cache_valid_time: u64,
    #[default(false)] failhard: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let age = || std::fs::metadata("/var/lib/apt/lists").ok()?.modified().ok();
    let young = |changed: SystemTime| changed.elapsed().is_ok_and(|age| age < Duration::from_secs(cache_valid_time));
    if cache_valid_time > 0 && age().is_some_and(young) {
        return Ok(Map::new());
    }
    let said = cmd::quiet(ctx, &["apt-get", "-q", "update"]).await?;
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

async fn refresh(ctx: &Context, kwargs: &KwArgs) -> Result<()> {
    let valid = kwargs.0.get("cache_valid_time").and_then(Value::as_i64).and_then(|time| u64::try_from(time).ok());
    refresh_db(ctx, valid.unwrap_or(0), false, KwArgs::default()).await.map(drop)
}

/// Reads lines such as "Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]".
fn updated_lists(text: &str) -> Map {
    let mut lists = Map::new();
    for line in text.lines() {
        let Some((word, rest)) = line.trim().split_once(' ') else { continue };
        let name = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        let without_size =
            || name.rfind(" [").filter(|_| name.ends_with("B]")).map_or(name.as_str(), |end| &name[..end]).to_owned();
        match word.split(':').next() {
            Some("Get") => lists.insert(without_size(), true),
            Some("Hit") => lists.insert(name, Value::Null),
            Some("Ign" | "Err") => lists.insert(name, false),
            _ => None,
        };
    }
    lists
}

/// Returns what the lists say of packages, by package and version. ``filter`` names the fields to return.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.show gawk
///     salt '*' pkg.show 'nginx-*' filter=description,provides
#[function]
async fn show(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Map> {
    if flag(&kwargs, "refresh", false) {
        refresh(ctx, &kwargs).await?;
    }
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    if names.is_empty() {
        return Ok(Map::new());
    }
    let filter = kwargs.0.get("filter").map(util::split_input).unwrap_or_default();
    let filter: Vec<String> = filter.iter().map(|field| field.to_lowercase()).collect();
    let mut words = vec!["apt-cache", "show"];
    words.extend(names.iter().map(String::as_str));
    Ok(shown_packages(&said(ctx, &words).await?, &filter))
}

fn shown_packages(text: &str, filter: &[String]) -> Map {
    let mut found = Map::new();
    for paragraph in text.split("\n\n") {
        let mut fields: Map = paragraph
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.trim(), value.trim()))
            .filter(|(key, _)| {
                let key = key.to_lowercase();
                filter.is_empty() || ["package", "version"].contains(&key.as_str()) || filter.contains(&key)
            })
            .collect();
        let (Some(name), Some(version)) = (fields.remove("Package"), fields.remove("Version")) else { continue };
        let versions = found.entry_or_insert_with(name, || Value::Map(Map::new()));
        if let Some(Value::Map(known)) =
            versions.as_map_mut().map(|map| map.entry_or_insert_with(version, || Map::new().into()))
        {
            known.update(fields);
        }
    }
    found
}

/// Upgrades all packages; returns what changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade
///     salt '*' pkg.upgrade dist_upgrade=True
#[function]
async fn upgrade(
    ctx: &Context,
    #[default(true)] refresh: bool,
    #[default(false)] dist_upgrade: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    if refresh {
        self::refresh(ctx, &kwargs).await?;
    }
    let old = installed(ctx).await?;
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
    let said = apt(ctx, &args).await?;
    let changes = differences(&old, &installed(ctx).await?);
    match failure(&said) {
        Some(_) => {
            let details = map! { "changes" => changes, "result" => said.into_map() };
            Err(problem("Problem encountered upgrading packages", details))
        }
        None => Ok(changes),
    }
}

/// Says whether a newer version of a package could be installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade_available <package name>
#[function]
async fn upgrade_available(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let newest = newest(ctx, &VarArgs(vec![name.into()]), &kwargs).await?;
    Ok(newest != Value::from(""))
}

/// Returns the version of a package, or nothing if it is not installed; for several, or a pattern, a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.version <package name>
///     salt '*' pkg.version <package1> <package2> <package3>
#[function]
async fn version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let installed = installed(ctx).await?;
    let as_list = flag(&kwargs, "versions_as_list", false);
    let mut found = Packages::new();
    let mut pattern = false;
    for name in names.0.iter().map(Value::to_string) {
        if name.contains('*') {
            pattern = true;
            let matching = installed.iter().filter(|(known, _)| targeting::fnmatch(known, &name));
            found.extend(matching.map(|(known, versions)| (known.clone(), versions.clone())));
        } else {
            let versions = installed.get(&name).cloned().unwrap_or_default();
            found.insert(name, versions);
        }
    }
    let shown = shown(found, as_list);
    Ok(match shown.values().next() {
        Some(single) if shown.len() == 1 && !pattern => single.clone(),
        _ => Value::Map(shown),
    })
}

/// Compares two versions: -1 when the first is older, 0 when they are equal, 1 when it is newer.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.version_cmp '0.2.4-0ubuntu1' '0.2.4.1-0ubuntu1'
#[function]
fn version_cmp(pkg1: String, pkg2: String, #[default(false)] ignore_epoch: bool, kwargs: KwArgs) -> Result<i64> {
    let _ = kwargs;
    let bare = |version: &str| match version.split_once(':') {
        Some((_, rest)) if ignore_epoch => rest.to_owned(),
        _ => version.to_owned(),
    };
    Ok(debian_version::compare(&bare(&pkg1), &bare(&pkg2)) as i64)
}

/// Returns the package a file belongs to: False if there is no such file, nothing if it belongs to none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.which /usr/bin/apt
#[function]
async fn which(ctx: &Context, path: String) -> Result<Value> {
    if !path.starts_with('/') || !Path::new(&path).exists() {
        return Ok(Value::Bool(false));
    }
    let text = said(ctx, &["dpkg", "-S", &path]).await?;
    Ok(text.split_once(':').map_or(Value::Null, |(package, _)| Value::from(package)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn what_dpkg_knows_is_sorted_out() {
        let text = "install ok installed bash 5.2.15-2+b8 amd64\nhold ok installed zlib1g 1.2 i386\n\
                    install ok half-configured x 1 all\ndeinstall ok config-files old 0.9 all\n\
                    purge ok installed gone 3 all\nunknown ok not-installed y\n";
        let found = parse_query(text, Some("amd64"));
        let names = |packages: &Packages| packages.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found.installed), ["bash", "zlib1g:i386"]);
        assert_eq!(names(&found.removed), ["old"]);
        assert_eq!(names(&found.purge_desired), ["gone"]);
        assert_eq!(names(&parse_query(text, None).installed), ["bash", "zlib1g"]);
    }

    #[test]
    fn changes_show_old_and_new() {
        let packages = |pairs: &[(&str, &str)]| -> Packages {
            pairs.iter().map(|(name, version)| ((*name).to_owned(), vec![(*version).to_owned()])).collect()
        };
        let (old, new) =
            (packages(&[("a", "1"), ("b", "1"), ("c", "1")]), packages(&[("a", "2"), ("b", "1"), ("d", "1")]));
        let expected = map! {
            "a" => map! { "new" => "2", "old" => "1" },
            "c" => map! { "new" => "", "old" => "1" },
            "d" => map! { "new" => "1", "old" => "" },
        };
        assert_eq!(differences(&old, &new), expected);
    }

    #[test]
    fn answers_of_apt_are_read() {
        let text = "bash:\n  Installed: 5.2.15-2+b8\n  Candidate: 5.2.15-2+b13\n  Version table:\n     5.2 500\n\
                    none:\n  Installed: (none)\n  Candidate: (none)\n";
        assert_eq!(candidates(text), BTreeMap::from([("bash".to_owned(), "5.2.15-2+b13".to_owned())]));
        let text = "Inst bash [5] (6 Debian:12 [amd64])\nConf bash (6 Debian:12 [amd64])\nConf x (1)\n";
        assert_eq!(upgrades(text), map! { "bash" => "6", "x" => "1" });
        let text = "Hit:1 http://x bookworm InRelease\nGet:2 http://y z InRelease [151 kB]\nErr:3 http://e f\n  404\nReading lists...\n";
        let expected = map! { "http://x bookworm InRelease" => Value::Null, "http://y z InRelease" => true, "http://e f" => false };
        assert_eq!(updated_lists(text), expected);
        let text = "Reading\nThe following packages will be REMOVED:\n  b a\n  c\n0 upgraded\n";
        assert_eq!(to_be_removed(text), ["a", "b", "c"]);
        assert_eq!(
            parse_selections("bash\t\tinstall\nx hold\n"),
            map! { "install" => list!["bash"], "hold" => list!["x"] }
        );
        assert_eq!(
            repo_versions("Package: a\n Version: 1\nPackage: b\nVersion: 2\n"),
            map! { "a" => list!["1"], "b" => list!["2"] }
        );
    }

    #[test]
    fn details_of_packages_are_read() {
        let text = "name:bash\nrevision:\narchitecture:amd64\nstatus:ii \ninstall_date:1747699200\ndescription:A shell\n more\n";
        let (name, info) = package_info(text).unwrap();
        assert_eq!(name, "bash");
        assert_eq!(info.get_str("install_date"), Some("2025-05-20T00:00:00Z"));
        assert_eq!(info.get_str("description"), Some("A shell\n more\n"));
        assert!(!info.contains_key("revision") && !info.contains_key("status"));
        assert_eq!(package_info("name:x\nstatus:rc \ndescription:"), None);
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        let text = "Package: a\nVersion: 1\nSize: 3\n\nPackage: a\nVersion: 2\nDescription: x\n";
        let expected = map! { "a" => map! { "1" => map! {}, "2" => map! { "Description" => "x" } } };
        assert_eq!(shown_packages(text, &["description".into()]), expected);
    }

    #[test]
    fn versions_are_pinned() {
        assert_eq!(pinned("a", &"1.2".into()), "a=1.2");
        assert_eq!(pinned("a", &"=1.2".into()), "a=1.2");
        assert_eq!(pinned("a", &Value::Null), "a");
        assert_eq!(targets(None, &list!["a", map! { "b" => "1" }], &Value::Null).unwrap(), ["a", "b"]);
        assert!(targets(None, &Value::Null, &Value::Null).is_err());
    }
}
