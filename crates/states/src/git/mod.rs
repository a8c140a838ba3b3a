//! `git`: checkouts, repositories and options of git.
//!
//! [`latest`] follows a remote; [`cloned`], [`detached`], [`present`] and [`config`] are the lesser states.

mod cloned;
mod config;
mod detached;
mod latest;
mod present;
mod repo;

use exec::Module;
use value::Map;

use cloned::CLONED;
use config::{CONFIG_SET, CONFIG_UNSET};
use detached::DETACHED;
use latest::LATEST;
use present::PRESENT;

/// The module.
pub static MODULE: Module = Module::new(
    "git",
    "Checkouts, repositories and options of git.",
    &[&CLONED, &CONFIG_SET, &CONFIG_UNSET, &DETACHED, &LATEST, &PRESENT],
)
.only_if(installed);

fn installed(_grains: &Map) -> std::result::Result<(), String> {
    match modules::util::which("git") {
        Some(_) => Ok(()),
        None => Err("git module could not be loaded".into()),
    }
}
