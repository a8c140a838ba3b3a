//! `pkg` on Debian and its relatives: dpkg and apt.
//!
//! [`reads`] looks, [`changes`] installs and removes; what both need of dpkg and apt stands here.

mod changes;
mod definition;
mod install;
mod keys;
mod reads;
mod repos;
mod restarts;
mod selections;

pub use definition::{Facts, expanded, split};

use std::collections::BTreeMap;
use std::path::Path;

use exec::{Context, Error, KwArgs, Module, Result};
use value::{Map, Value, map};

use crate::subprocess::{self, Outcome};
use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "pkg",
    "Functions that look at packages and change what is installed, with dpkg and apt.",
    &[
        &keys::ADD_REPO_KEY,
        &changes::AUTOREMOVE,
        &reads::AVAILABLE_VERSION,
        &repos::DEL_REPO,
        &keys::DEL_REPO_KEY,
        &reads::FILE_DICT,
        &reads::FILE_LIST,
        &repos::GET_REPO,
        &keys::GET_REPO_KEYS,
        &reads::GET_SELECTIONS,
        &changes::HOLD,
        &reads::INFO_INSTALLED,
        &install::INSTALL,
        &reads::LATEST_VERSION,
        &selections::LIST_DOWNLOADED,
        &reads::LIST_PKGS,
        &reads::LIST_REPO_PKGS,
        &repos::LIST_REPOS,
        &reads::LIST_UPGRADES,
        &repos::MOD_REPO,
        &reads::NORMALIZE_NAME,
        &reads::OWNER,
        &reads::PARSE_ARCH,
        &changes::PURGE,
        &changes::REFRESH_DB,
        &changes::REMOVE,
        &restarts::SERVICES_NEED_RESTART,
        &selections::SET_SELECTIONS,
        &reads::SHOW,
        &changes::UNHOLD,
        &changes::UPGRADE,
        &reads::UPGRADE_AVAILABLE,
        &reads::VERSION,
        &reads::VERSION_CMP,
        &reads::WHICH,
    ],
)
.only_if(debian)
.provided_by("aptpkg");

fn debian(grains: &Map) -> std::result::Result<(), String> {
    let family = grains.get_str("os_family");
    // Without grains the program decides.
    if family == Some("Debian") || (family.is_none() && util::which("dpkg-query").is_some()) {
        return Ok(());
    }
    Err("The pkg module could not be loaded: unsupported OS family".into())
}

/// Keeps maintainer scripts from asking.
// A question would wait for ever, as there is no terminal.
const ENVIRONMENT: [&str; 5] = [
    "env",
    "APT_LISTBUGS_FRONTEND=none",
    "APT_LISTCHANGES_FRONTEND=none",
    "DEBIAN_FRONTEND=noninteractive",
    "UCF_FORCE_CONFFOLD=1",
];

/// Returns what a program printed.
fn program_output(ctx: &Context, words: &[&str]) -> Result<String> {
    Ok(subprocess::quiet(ctx, words)?.stdout)
}

/// Runs apt so that it changes something: without questions, and protected from the end of the minion, which it may
/// update. Waits while another process holds the lock.
fn apt(ctx: &Context, args: &[&str]) -> Result<Outcome> {
    let mut words = Vec::new();
    // In a separate scope, because an upgrade may restart the minion, and a dpkg that is killed half way leaves a
    // broken system.
    let scope = util::config_get(ctx, "systemd.scope").is_none_or(|on| on.truthy());
    if scope && Path::new("/run/systemd/system").exists() && util::which("systemd-run").is_some() {
        words.extend(["systemd-run", "--scope", "--description", "saltern pkg"]);
    }
    words.extend(ENVIRONMENT);
    // Unattended upgrades hold the lock for a while after boot.
    words.extend(["apt-get", "-o", "DPkg::Lock::Timeout=120"]);
    words.extend(args);
    subprocess::quiet(ctx, &words)
}

/// The versions of the installed packages by name.
type Packages = BTreeMap<String, Vec<String>>;

/// The content of dpkg's database.
#[derive(Debug, Default, PartialEq, Eq)]
struct Installed {
    installed: Packages,
    removed: Packages,
    purge_desired: Packages,
}

fn query(ctx: &Context) -> Result<Installed> {
    let format = "${Status} ${Package} ${Version} ${Architecture}\n";
    let text = program_output(ctx, &["dpkg-query", "--showformat", format, "-W"])?;
    let grain = |name| ctx.grains.get_str(name).unwrap_or_default();
    // Salt marks foreign packages only on amd64.
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
        // "deinstall" means removed with the configuration left.
        let place = if wanted == "deinstall" {
            &mut found.removed
        } else if ["install", "hold"].contains(&wanted) && status.contains("installed") {
            // `half-configured` contains no "installed" and is left out.
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
            // One package can be listed twice, once for each architecture.
            versions.sort();
            versions.dedup();
        }
    }
    found
}

fn installed(ctx: &Context) -> Result<Packages> {
    let found = query(ctx)?;
    let mut all = found.purge_desired;
    all.extend(found.installed);
    Ok(all)
}

fn package_map(packages: Packages, as_list: bool) -> Map {
    let text = |versions: Vec<String>| if as_list { Value::from(versions) } else { Value::from(versions.join(",")) };
    packages.into_iter().map(|(name, versions)| (name, text(versions))).collect()
}

/// Returns the packages that differ, each with its `old` and its `new` version.
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
    Error::detailed(what, details)
}

fn failure(said: &Outcome) -> Option<String> {
    // apt writes some errors to stdout.
    let text = if said.stderr.trim().is_empty() { &said.stdout } else { &said.stderr };
    (said.retcode != Some(0)).then(|| text.trim_end().to_owned())
}

fn flag(kwargs: &KwArgs, name: &str, default: bool) -> bool {
    kwargs.0.get(name).map_or(default, |value| match value {
        Value::Str(text) => ["true", "yes", "1", "on"].contains(&text.to_lowercase().as_str()),
        other => other.truthy(),
    })
}

fn selections(ctx: &Context, pattern: Option<&str>, state: Option<&str>) -> Result<Map> {
    let text = program_output(ctx, &["dpkg", "--get-selections", pattern.unwrap_or("*")])?;
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
    fn selections_are_grouped() {
        assert_eq!(
            parse_selections("bash\t\tinstall\nx hold\n"),
            map! { "install" => list!["bash"], "hold" => list!["x"] }
        );
    }
}
