//! Queries of installed and available packages.

use std::collections::BTreeMap;
use std::path::Path;

use exec::{Context, Error, KwArgs, Result, VarArgs, function};
use value::{Map, Value, map};

use super::changes::refresh_lists;
use super::{Packages, failure, flag, installed, package_map, program_output, query, selections};
use crate::lowpkg::dpkg::{license, utc};
use crate::pkg::debian_version;
use crate::{subprocess, util};

/// Returns the newest available version, or nothing if it is installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.available_version <package name>
#[function]
fn available_version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    newest(ctx, &names, &kwargs)
}

/// Returns the newest available version, or an empty text if it is installed. The package lists are refreshed first
/// unless ``refresh=False``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.latest_version <package name>
///     salt '*' pkg.latest_version <package1> <package2> fromrepo=unstable
#[function]
fn latest_version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    newest(ctx, &names, &kwargs)
}

fn newest(ctx: &Context, names: &VarArgs, kwargs: &KwArgs) -> Result<Value> {
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    // Salt refuses the old name of the argument.
    if kwargs.0.contains_key("repo") {
        return Err(Error::invocation("The 'repo' argument is invalid, use 'fromrepo' instead"));
    }
    if names.is_empty() {
        return Ok(Value::from(""));
    }
    if flag(kwargs, "refresh", true) {
        refresh_lists(ctx, kwargs)?;
    }
    let release = kwargs.0.get_str("fromrepo").map(|release| format!("APT::Default-Release={release}"));
    let mut words = vec!["apt-cache", "-q", "policy"];
    words.extend(names.iter().map(String::as_str));
    words.extend(release.iter().flat_map(|release| ["-o", release]));
    let candidates = candidates(&program_output(ctx, &words)?);
    let installed = installed(ctx)?;
    let show_installed = flag(kwargs, "show_installed", false);
    let newest = |name: &String| {
        let candidate = candidates.get(name).cloned().unwrap_or_default();
        // "or equal": an installed version that is newer than the candidate needs no update either.
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

/// Names of installed packages, or all of them; an error text when one is not installed.
fn installed_names(ctx: &Context, packages: &VarArgs) -> Result<std::result::Result<Vec<String>, String>> {
    let names: Vec<String> = packages.0.iter().map(Value::to_string).collect();
    let mut words = vec!["dpkg-query", "-f=${db:Status-Status}\t${binary:Package}\n", "-W"];
    words.extend(names.iter().map(String::as_str));
    let said = subprocess::counted(ctx, &words)?;
    if said.retcode != Some(0) {
        return Ok(Err(format!("Error:  {}", said.stderr.trim_end())));
    }
    let lines = said.stdout.lines().filter_map(|line| line.strip_prefix("installed\t"));
    Ok(Ok(lines.map(str::to_owned).collect()))
}

fn files_of(ctx: &Context, package: &str) -> Result<Vec<String>> {
    Ok(program_output(ctx, &["dpkg", "-L", package])?.lines().map(str::to_owned).collect())
}

/// Returns the files of packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_dict httpd
#[function]
fn file_dict(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let names = match installed_names(ctx, &packages)? {
        Ok(names) => names,
        Err(text) => return Ok(Value::from(text)),
    };
    let mut found = Map::new();
    for name in names {
        let files = files_of(ctx, &name)?;
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
fn file_list(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let names = match installed_names(ctx, &packages)? {
        Ok(names) => names,
        Err(text) => return Ok(Value::from(text)),
    };
    let mut files = Vec::new();
    for name in names {
        files.extend(files_of(ctx, &name)?);
    }
    files.sort();
    files.dedup();
    Ok(Value::from(map! { "errors" => Vec::<String>::new(), "files" => files }))
}

/// Returns the selection states (`install`, `hold`, `deinstall`, `purge`), with the packages of each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.get_selections 'python-*'
///     salt '*' pkg.get_selections state=hold
#[function]
fn get_selections(ctx: &Context, pattern: Option<String>, state: Option<String>) -> Result<Map> {
    selections(ctx, pattern.as_deref(), state.as_deref())
}

/// Returns the information of dpkg about installed packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.info_installed <package1> <package2> failhard=False
#[function]
fn info_installed(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    let mut words = vec!["dpkg-query", "-W", INFO_FORMAT];
    words.extend(names.iter().map(String::as_str));
    let said = subprocess::quiet(ctx, &words)?;
    if said.retcode != Some(0) && flag(&kwargs, "failhard", true) {
        return Err(Error::execution(format!("Error getting packages information: {}", said.stderr.trim_end())));
    }
    if said.retcode != Some(0) {
        return Ok(Map::new());
    }
    Ok(ctx.blocking(move || said.stdout.split(INFO_END).filter_map(package_info).collect()))
}

/// The format for `dpkg-query`. The description comes last because it has several lines.
const INFO_FORMAT: &str = "-f=name:${Package}\\nrevision:${binary:Revision}\\narchitecture:${Architecture}\\n\
    packager:${Maintainer}\\nsummary:${Summary}\\nsource:${source:Package}\\nversion:${Version}\\ngroup:${Section}\\n\
    size:${Size}\\nMD5:${MD5sum}\\nSHA1:${SHA1}\\nSHA256:${SHA256}\\nvendor:${Origin}\\nurl:${Homepage}\\n\
    status:${db:Status-Abbrev}\\ninstall_date:${db-fsys:Last-Modified}\\ndescription:${Description}\\n\\n*/~^\\\\*\\n";

/// The end mark of a package in the answer.
// A sequence that no description contains; empty lines do occur in them.
const INFO_END: &str = "\n*/~^\\*\n";

fn package_info(text: &str) -> Option<(String, Map)> {
    let (fields, description) = text.trim_start_matches('\n').split_once("\ndescription:")?;
    let mut info = Map::new();
    for (key, value) in fields.lines().filter_map(|line| line.split_once(':')) {
        match key {
            // The second letter is the state: only `i` is installed. `rc` is removed with its
            // configuration left.
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

/// Returns the installed packages and their versions, with ``versions_as_list`` as lists; with ``removed`` those of
/// which only the configuration is left, with ``purge_desired`` those about to be purged.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_pkgs
#[function]
fn list_pkgs(
    ctx: &Context,
    #[default(false)] versions_as_list: bool,
    #[default(false)] removed: bool,
    #[default(false)] purge_desired: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let found = query(ctx)?;
    let packages = match (removed, purge_desired) {
        (true, _) => found.removed,
        (false, true) => found.purge_desired,
        (false, false) => found.purge_desired.into_iter().chain(found.installed).collect(),
    };
    Ok(package_map(packages, versions_as_list))
}

/// Returns the available versions of packages, of all or of those named.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_repo_pkgs foo bar baz
#[function]
fn list_repo_pkgs(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let names: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let mut words = vec!["apt-cache"];
    words.push(if names.is_empty() { "dump" } else { "show" });
    words.extend(names.iter().map(String::as_str));
    Ok(repo_versions(&program_output(ctx, &words)?))
}

pub(super) fn repo_versions(text: &str) -> Map {
    let mut found = Map::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(package) = line.strip_prefix("Package: ") {
            name = Some(package.trim());
        // `dump` indents the versions and `show` does not.
        } else if let (Some(version), Some(name)) = (line.trim().strip_prefix("Version: "), name)
            && let Value::List(versions) = found.entry_or_insert_with(name, || Value::List(Vec::new()))
        {
            versions.push(Value::from(version.trim()));
        }
    }
    found
}

/// Returns the packages that could be upgraded, with the new version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_upgrades
#[function]
fn list_upgrades(
    ctx: &Context,
    #[default(true)] refresh: bool,
    #[default(true)] dist_upgrade: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    if refresh {
        refresh_lists(ctx, &kwargs)?;
    }
    let release = kwargs.0.get_str("fromrepo").map(|release| format!("APT::Default-Release={release}"));
    let mut words = vec!["apt-get", "--just-print", if dist_upgrade { "dist-upgrade" } else { "upgrade" }];
    words.extend(release.iter().flat_map(|release| ["-o", release]));
    let said = subprocess::quiet(ctx, &words)?;
    match failure(&said) {
        Some(reason) => Err(Error::execution(format!("Failed to get upgrades: {reason}"))),
        None => Ok(upgrades(&said.stdout)),
    }
}

/// Reads lines such as "Conf bash (5.2.15-2+b13 Debian:12/stable [amd64])".
fn upgrades(text: &str) -> Map {
    // `Inst` lines show both versions, `Conf` lines only the new one.
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

/// Returns the package that owns each file; nothing for files of no package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.owner /usr/bin/apachectl /usr/bin/basename
#[function]
fn owner(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let mut found = Map::new();
    for path in paths.0.iter().map(Value::to_string) {
        let text = subprocess::counted(ctx, &["dpkg", "-S", &path])?.stdout;
        // A file of several packages lists them with commas before the colon.
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

/// Returns the information of the package lists, by package and version. ``filter`` names the fields to return.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.show gawk
///     salt '*' pkg.show 'nginx-*' filter=description,provides
#[function]
fn show(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Map> {
    if flag(&kwargs, "refresh", false) {
        refresh_lists(ctx, &kwargs)?;
    }
    let names: Vec<String> = names.0.iter().map(Value::to_string).collect();
    if names.is_empty() {
        return Ok(Map::new());
    }
    let filter = kwargs.0.get("filter").map(util::split_input).unwrap_or_default();
    let filter: Vec<String> = filter.iter().map(|field| field.to_lowercase()).collect();
    let mut words = vec!["apt-cache", "show"];
    words.extend(names.iter().map(String::as_str));
    Ok(shown_packages(&subprocess::counted(ctx, &words)?.stdout, &filter))
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

/// Returns whether a newer version of a package is available.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade_available <package name>
#[function]
fn upgrade_available(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let newest = newest(ctx, &VarArgs(vec![name.into()]), &kwargs)?;
    Ok(newest != Value::from(""))
}

/// Returns the version of a package, or an empty text if it is not installed; for several, or a pattern, a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.version <package name>
///     salt '*' pkg.version <package1> <package2> <package3>
#[function]
fn version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let installed = installed(ctx)?;
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
    let shown = package_map(found, as_list);
    Ok(match shown.values().next() {
        // A pattern is always answered with a map, even if it matches one package.
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

/// Returns the package that owns a file: False if there is no such file, nothing if no package owns it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.which /usr/bin/apt
#[function]
fn which(ctx: &Context, path: String) -> Result<Value> {
    if !path.starts_with('/') || !Path::new(&path).exists() {
        return Ok(Value::Bool(false));
    }
    let text = program_output(ctx, &["dpkg", "-S", &path])?;
    Ok(text.split_once(':').map_or(Value::Null, |(package, _)| Value::from(package)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn answers_of_apt_are_read() {
        let text = "bash:\n  Installed: 5.2.15-2+b8\n  Candidate: 5.2.15-2+b13\n  Version table:\n     5.2 500\n\
                    none:\n  Installed: (none)\n  Candidate: (none)\n";
        assert_eq!(candidates(text), BTreeMap::from([("bash".to_owned(), "5.2.15-2+b13".to_owned())]));
        let text = "Inst bash [5] (6 Debian:12 [amd64])\nConf bash (6 Debian:12 [amd64])\nConf x (1)\n";
        assert_eq!(upgrades(text), map! { "bash" => "6", "x" => "1" });
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
}
