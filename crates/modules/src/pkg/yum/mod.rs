//! `pkg` on Red Hat's family and its relatives: rpm with dnf or yum.
//!
//! [`reads`] queries installed packages, [`available`] those that can be installed; [`install`] and [`changes`] change
//! them, [`holds`] keeps versions, [`groups`] handles groups, [`repos`] the files of sources.

mod available;
mod changes;
mod files;
mod groups;
mod holds;
mod install;
mod patches;
mod reads;
mod repos;

pub(crate) use reads::{downloaded, info_installed};

use exec::{Context, Error, Function, Module, Result};
use value::{Map, Value};

use crate::packages::{common, rpm};
use crate::subprocess::{Extra, Outcome};
use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "pkg",
    "Functions that look at packages and change what is installed, with rpm and dnf or yum.",
    &[
        &AVAILABLE_VERSION,
        &CLEAN_METADATA,
        &repos::DEL_REPO,
        &files::DIFF,
        &files::DOWNLOAD,
        &files::FILE_DICT,
        &files::FILE_LIST,
        &GET_LOCKED_PACKAGES,
        &repos::GET_REPO,
        &groups::GROUP_DIFF,
        &groups::GROUP_INFO,
        &groups::GROUP_INSTALL,
        &groups::GROUP_LIST,
        &GROUPINSTALL,
        &holds::HOLD,
        &reads::INFO_INSTALLED,
        &install::INSTALL,
        &available::LATEST_VERSION,
        &reads::LIST_DOWNLOADED,
        &holds::LIST_HOLDS,
        &patches::LIST_INSTALLED_PATCHES,
        &patches::LIST_PATCHES,
        &reads::LIST_PKGS,
        &available::LIST_REPO_PKGS,
        &repos::LIST_REPOS,
        &LIST_UPDATES,
        &available::LIST_UPGRADES,
        &repos::MOD_REPO,
        &files::MODIFIED,
        &reads::NORMALIZE_NAME,
        &files::OWNER,
        &reads::PARSE_ARCH,
        &changes::PURGE,
        &available::REFRESH_DB,
        &changes::REMOVE,
        &patches::SERVICES_NEED_RESTART,
        &holds::UNHOLD,
        &changes::UPDATE,
        &changes::UPGRADE,
        &available::UPGRADE_AVAILABLE,
        &files::VERIFY,
        &reads::VERSION,
        &reads::VERSION_CMP,
    ],
)
.only_if(red_hat)
.provided_by("yumpkg");

static AVAILABLE_VERSION: Function = Function { name: "available_version", ..available::LATEST_VERSION };
static CLEAN_METADATA: Function = Function { name: "clean_metadata", ..available::REFRESH_DB };
static GET_LOCKED_PACKAGES: Function = Function { name: "get_locked_packages", ..holds::LIST_HOLDS };
static GROUPINSTALL: Function = Function { name: "groupinstall", ..groups::GROUP_INSTALL };
static LIST_UPDATES: Function = Function { name: "list_updates", ..available::LIST_UPGRADES };

fn red_hat(grains: &Map) -> std::result::Result<(), String> {
    match rpm::is_red_hat_relative(grains) {
        true if Manager::found().is_some() => Ok(()),
        true => Err("DNF nor YUM found".into()),
        false => Err("Module yumpkg: no yum based system detected".into()),
    }
}

/// The program that fetches packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Dnf5,
    Dnf,
    Tdnf,
    Yum,
}

impl Manager {
    // In the order of preference: `dnf` and `yum` are often links to something newer.
    const ALL: [Manager; 4] = [Manager::Dnf5, Manager::Dnf, Manager::Tdnf, Manager::Yum];

    fn name(self) -> &'static str {
        match self {
            Manager::Dnf5 => "dnf5",
            Manager::Dnf => "dnf",
            Manager::Tdnf => "tdnf",
            Manager::Yum => "yum",
        }
    }

    fn found() -> Option<Manager> {
        Manager::ALL.into_iter().find(|manager| util::which(manager.name()).is_some())
    }

    /// Returns the manager of this machine, the newest that is installed.
    fn of(ctx: &Context) -> Result<Manager> {
        #[cfg(test)]
        if let Some(name) = ctx.opts.get("__manager") {
            let named = Manager::ALL.into_iter().find(|manager| name.as_str() == Some(manager.name()));
            return named.ok_or_else(|| Error::CommandNotFound("dnf".into()));
        }
        let _ = ctx;
        Manager::found().ok_or_else(|| Error::CommandNotFound("Neither dnf nor yum is on this machine".into()))
    }

    /// Returns whether it is one of dnf's two generations.
    fn is_dnf(self) -> bool {
        matches!(self, Manager::Dnf | Manager::Dnf5)
    }
}

/// Runs dnf or yum; with `merged` its messages are in the output.
fn call<W: AsRef<str>>(ctx: &Context, words: &[W], merged: bool) -> Result<Outcome> {
    let own = [Manager::of(ctx)?.name()].into_iter().chain(words.iter().map(AsRef::as_ref));
    // An update of the minion's own package restarts its service, which would kill the package
    // manager halfway.
    let words = common::in_scope(ctx, own.map(str::to_owned).collect());
    common::run(ctx, &words, Extra { merge: merged, ..Extra::default() })
}

/// The options of a call that choose sources and settings.
fn options(kwargs: &Map) -> Vec<String> {
    let text = |name: &str| kwargs.get(name).filter(|value| value.truthy());
    let mut words = Vec::new();
    if let Some(repo) = text("fromrepo").or_else(|| text("repo")) {
        // `fromrepo` wins over the other two.
        words.extend(["--disablerepo=*".to_owned(), format!("--enablerepo={repo}")]);
    } else {
        for name in ["disablerepo", "enablerepo"] {
            let repos = match text(name) {
                Some(Value::List(repos)) => repos.iter().map(Value::to_string).collect(),
                Some(repo) => vec![repo.to_string()],
                None => Vec::new(),
            };
            words.extend(repos.iter().map(|repo| format!("--{name}={repo}")));
        }
    }
    for name in ["disableexcludes", "branch"] {
        words.extend(text(name).map(|value| format!("--{name}={value}")));
    }
    words.extend(common::texts(kwargs.get("setopt")).iter().map(|item| format!("--setopt={item}")));
    words
}

/// Arguments that [`options`] reads.
const OPTIONS: [&str; 7] = ["fromrepo", "repo", "disablerepo", "enablerepo", "disableexcludes", "branch", "setopt"];

/// The same, and each further argument as an option of the same name.
fn all_options(kwargs: &Map) -> Vec<String> {
    let mut words = options(kwargs);
    let mut more: Vec<(&str, &Value)> = kwargs
        .iter()
        .filter_map(|(key, value)| Some((key.as_str()?, value)))
        // Salt passes on whatever else was given as an option of the command.
        .filter(|(key, _)| !key.starts_with("__") && !OPTIONS.contains(key) && *key != "get_extra_options")
        .collect();
    more.sort_by_key(|(key, _)| *key);
    for (key, value) in more {
        match value {
            Value::Str(text) => words.push(format!("--{key}={text}")),
            Value::Bool(true) => words.push(format!("--{key}")),
            _ => {}
        }
    }
    words
}

/// A yes or no argument, as Salt reads words.
fn is_on(kwargs: &Map, name: &str, default: bool) -> bool {
    kwargs.get(name).map_or(default, util::is_true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn arguments_choose_sources() {
        let words = |kwargs: Map| options(&kwargs).join(" ");
        assert_eq!(words(map! { "repo" => "a", "enablerepo" => "b" }), "--disablerepo=* --enablerepo=a");
        let several = map! { "disablerepo" => "*", "enablerepo" => list!["a", "b"], "setopt" => "x=1, y=2" };
        let expected = "--disablerepo=* --enablerepo=a --enablerepo=b --setopt=x=1 --setopt=y=2";
        assert_eq!(words(several), expected);
        assert_eq!(
            all_options(&map! { "security" => true, "advisory" => "x", "n" => 1 }),
            ["--advisory=x", "--security"]
        );
    }

    #[test]
    fn relatives_are_known_by_their_name() {
        assert!(rpm::is_red_hat_relative(&map! { "os" => "Rocky", "os_family" => "RedHat" }));
        assert!(rpm::is_red_hat_relative(&map! { "os" => "openEuler", "os_family" => "openEuler" }));
        assert!(!rpm::is_red_hat_relative(&map! { "os" => "Debian", "os_family" => "Debian" }));
    }
}
