//! `apache_site`: enabled sites of Apache.

use exec::{Context, Module, Result, function};

use super::switch::Switch;
use crate::Ret;

/// The module.
pub static MODULE: Module = Module::new("apache_site", "Sites of Apache are on or off.", &[&DISABLED, &ENABLED])
    .only_if(|grains| super::switches(grains, &["Debian"]));

const SWITCH: Switch = Switch { kind: "site", short: "site" };

/// Makes sure that a site is disabled.
#[function]
fn disabled(ctx: &Context, name: String) -> Result<Ret> {
    SWITCH.turn(ctx, &name, false)
}

/// Makes sure that a site is enabled.
#[function]
fn enabled(ctx: &Context, name: String) -> Result<Ret> {
    SWITCH.turn(ctx, &name, true)
}
