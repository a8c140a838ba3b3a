//! `pkg` on Arch: pacman.

mod changes;
mod groups;
mod reads;

use exec::{Context, Function, Module, Result};
use value::Map;

use crate::packages::common;
use crate::pkg_resource;

/// The module.
pub static MODULE: Module = Module::new(
    "pkg",
    "Functions that look at packages and change what is installed, with pacman.",
    &[
        &AVAILABLE_VERSION,
        &reads::FILE_DICT,
        &reads::FILE_LIST,
        &groups::GROUP_DIFF,
        &groups::GROUP_INFO,
        &groups::GROUP_LIST,
        &changes::INSTALL,
        &reads::LATEST_VERSION,
        &reads::LIST_PKGS,
        &reads::LIST_REPO_PKGS,
        &reads::LIST_UPGRADES,
        &reads::OWNER,
        &changes::PURGE,
        &changes::REFRESH_DB,
        &changes::REMOVE,
        &changes::UPGRADE,
        &reads::UPGRADE_AVAILABLE,
        &reads::VERSION,
    ],
)
.only_if(|grains| match grains.get_str("os_family") {
    Some("Arch") => Ok(()),
    _ => Err("The pacman module could not be loaded: unsupported OS family.".into()),
})
.provided_by("pacmanpkg");

static AVAILABLE_VERSION: Function = Function { name: "available_version", ..reads::LATEST_VERSION };

/// Returns the installed packages, each with its versions as one text.
fn installed_versions(ctx: &Context) -> Result<Map> {
    pkg_resource::stringify(reads::installed(ctx, None, true)?)
}
