//! The functions of SUSE's package: modules are enabled by a word in a settings file.

use exec::{Call, Context, Module, Result, function};
use value::map;

use super::debian::{A2DISMOD, A2ENMOD};
use crate::util;

/// Registers the functions of `apache`.
pub static MODULE: Module = Module::new(
    "apache",
    "Functions that turn modules of Apache on and off.",
    &[&A2DISMOD, &A2ENMOD, &CHECK_MOD_ENABLED],
)
.only_if(|grains| match grains.get_str("os_family") == Some("Suse") && util::is_installed("apache2ctl") {
    true => Ok(()),
    false => Err("apache execution module not loaded: apache not installed.".into()),
})
.provided_by("suse_apache");

/// Returns whether a module is enabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.check_mod_enabled status
#[function]
fn check_mod_enabled(ctx: &Context, r#mod: String) -> Result<bool> {
    // States use the names of Debian's files; SUSE lists modules without an ending.
    let name = r#mod.strip_suffix(".load").or_else(|| r#mod.strip_suffix(".conf")).unwrap_or(&r#mod);
    let call = Call { args: vec!["a2enmod -l".into()], kwargs: map! { "python_shell" => false } };
    let on = ctx.call_with("cmd.run", call)?.to_string();
    Ok(on.split(' ').any(|known| known == name))
}
