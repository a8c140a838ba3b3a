//! `apache_conf`: enabled configurations of Apache.

use exec::{Context, Module, Result, function};

use super::switch::Switch;
use crate::Ret;

/// The module.
pub static MODULE: Module =
    Module::new("apache_conf", "Configurations of Apache are on or off.", &[&DISABLED, &ENABLED]).only_if(|grains| {
        super::switches(grains, &["Debian"])?;
        crate::support::needs(&["a2enconf"], super::NOT_LOADED)
    });

const SWITCH: Switch = Switch { kind: "conf", short: "conf" };

/// Makes sure that a configuration is disabled.
#[function]
fn disabled(ctx: &Context, name: String) -> Result<Ret> {
    SWITCH.turn(ctx, &name, false)
}

/// Makes sure that a configuration is enabled.
#[function]
fn enabled(ctx: &Context, name: String) -> Result<Ret> {
    SWITCH.turn(ctx, &name, true)
}
