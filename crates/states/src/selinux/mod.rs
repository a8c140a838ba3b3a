//! `selinux`: the mode, booleans, modules and policies of SELinux.

mod boolean;
mod module;
mod policies;

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, needs};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new(
    "selinux",
    "The mode, booleans, modules and policies of SELinux are as wanted.",
    &[
        &boolean::BOOLEAN,
        &policies::FCONTEXT_POLICY_ABSENT,
        &policies::FCONTEXT_POLICY_APPLIED,
        &policies::FCONTEXT_POLICY_PRESENT,
        &boolean::MOD_AGGREGATE,
        &MODE,
        &module::MODULE,
        &module::MODULE_INSTALL,
        &module::MODULE_REMOVE,
        &policies::PORT_POLICY_ABSENT,
        &policies::PORT_POLICY_PRESENT,
    ],
)
.only_if(|_| {
    let needed = ["semanage", "setsebool", "semodule"];
    needed.iter().try_for_each(|program| needs(&[program], "selinux module could not be loaded"))
});

/// The name of a mode, however it is written.
fn refined(mode: &str) -> Option<&'static str> {
    let mode = mode.to_lowercase();
    match mode.as_str() {
        "1" | "on" => Some("Enforcing"),
        "0" | "off" => Some("Permissive"),
        _ if mode.starts_with('e') => Some("Enforcing"),
        _ if mode.starts_with('p') => Some("Permissive"),
        _ if mode.starts_with('d') => Some("Disabled"),
        _ => None,
    }
}

/// Makes sure that SELinux is in a mode, now and after a reboot.
#[function]
fn mode(ctx: &Context, name: Value) -> Result<Ret> {
    let ret = Ret::new(name.clone());
    let Some(wanted) = refined(&name.to_string()) else {
        return Ok(ret.fail(format!("{name} is not an accepted mode")));
    };
    let mut now = call(ctx, "selinux.getenforce", args![], Map::new())?;
    let configured = call(ctx, "selinux.getconfig", args![], Map::new())?;
    let is = |value: &Value| value.as_str() == Some(wanted);
    if is(&now) && !is(&configured) {
        now = configured;
    }
    if is(&now) {
        return Ok(ret.ok(format!("SELinux is already in {wanted} mode")));
    }
    if ctx.is_test() {
        let ret = ret.changed(map! { "old" => now, "new" => wanted });
        return Ok(ret.would(format!("SELinux mode is set to be changed to {wanted}")));
    }
    let new = call(ctx, "selinux.setenforce", args![wanted], Map::new())?;
    let after_start = wanted == "Disabled" && !is(&new) && is(&call(ctx, "selinux.getconfig", args![], Map::new())?);
    if is(&new) || after_start {
        let ret = ret.changed(map! { "old" => now, "new" => new });
        return Ok(ret.ok(format!("SELinux has been set to {wanted} mode")));
    }
    Ok(ret.fail(format!("Failed to set SELinux to {wanted} mode")))
}
