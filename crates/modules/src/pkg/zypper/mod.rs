//! `pkg` on SUSE: rpm and zypper.

mod call;
mod changes;
mod holds;
mod install;
mod patches;
mod products;
mod reads;
mod repos;
mod search;

use exec::{Context, Function, Module};
use value::{Map, Value};

use crate::packages::common;
use crate::util;

/// The execution module `pkg`.
pub static MODULE: Module = Module::new(
    "pkg",
    "Functions that look at packages and change what is installed, with rpm and zypper.",
    &[
        &AVAILABLE_VERSION,
        &holds::CLEAN_LOCKS,
        &repos::DEL_REPO,
        &products::DIFF,
        &products::DOWNLOAD,
        &reads::FILE_DICT,
        &reads::FILE_LIST,
        &repos::GET_REPO,
        &holds::HOLD,
        &search::INFO_AVAILABLE,
        &reads::INFO_INSTALLED,
        &install::INSTALL,
        &search::LATEST_VERSION,
        &products::LIST_DOWNLOADED,
        &holds::LIST_HOLDS,
        &patches::LIST_INSTALLED_PATCHES,
        &patches::LIST_INSTALLED_PATTERNS,
        &holds::LIST_LOCKS,
        &patches::LIST_PATCHES,
        &patches::LIST_PATTERNS,
        &reads::LIST_PKGS,
        &products::LIST_PRODUCTS,
        &search::LIST_PROVIDES,
        &search::LIST_REPO_PKGS,
        &repos::LIST_REPOS,
        &LIST_UPDATES,
        &search::LIST_UPGRADES,
        &repos::MOD_REPO,
        &reads::MODIFIED,
        &reads::NORMALIZE_NAME,
        &reads::OWNER,
        &reads::PARSE_ARCH,
        &changes::PURGE,
        &repos::REFRESH_DB,
        &changes::REMOVE,
        &search::RESOLVE_CAPABILITIES,
        &search::SEARCH,
        &patches::SERVICES_NEED_RESTART,
        &holds::UNHOLD,
        &changes::UPGRADE,
        &search::UPGRADE_AVAILABLE,
        &reads::VERIFY,
        &reads::VERSION,
        &reads::VERSION_CMP,
    ],
)
.only_if(suse)
.provided_by("zypperpkg");

static AVAILABLE_VERSION: Function = Function { name: "available_version", ..search::LATEST_VERSION };
static LIST_UPDATES: Function = Function { name: "list_updates", ..search::LIST_UPGRADES };

fn suse(grains: &Map) -> std::result::Result<(), String> {
    // The grain is "Suse" for openSUSE as well.
    if grains.get_str("os_family") != Some("Suse") {
        return Err("Module zypper: non SUSE OS not supported by zypper package manager".into());
    }
    match util::which("zypper") {
        Some(_) => Ok(()),
        None => Err("Module zypper: zypper package manager not found".into()),
    }
}

/// Another root directory, if an argument names one.
fn root_of(kwargs: &Map) -> Option<String> {
    kwargs.get("root").filter(|root| root.truthy()).map(Value::to_string)
}

/// A path below the root directory.
fn below(ctx: &Context, root: Option<&str>, path: &str) -> String {
    #[cfg(test)]
    if let Some(test) = ctx.opts.get_str("__root") {
        return format!("{test}{path}");
    }
    let _ = ctx;
    format!("{}{path}", root.unwrap_or_default().trim_end_matches('/'))
}
