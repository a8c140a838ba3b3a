//! `apache_module`: enabled modules of Apache.

use exec::{Context, Module, Result, function};

use super::switch::Switch;
use crate::Ret;

/// The module.
pub static MODULE: Module = Module::new("apache_module", "Modules of Apache are on or off.", &[&DISABLED, &ENABLED])
    .only_if(|grains| super::switches(grains, &["Debian", "Suse"]));

const SWITCH: Switch = Switch { kind: "module", short: "mod" };

/// Makes sure that a module is disabled.
#[function]
fn disabled(ctx: &Context, name: String) -> Result<Ret> {
    SWITCH.turn(ctx, &name, false)
}

/// Makes sure that a module is enabled.
#[function]
fn enabled(ctx: &Context, name: String) -> Result<Ret> {
    SWITCH.turn(ctx, &name, true)
}
