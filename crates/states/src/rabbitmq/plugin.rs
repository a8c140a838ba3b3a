//! `rabbitmq_plugin`: plug-ins that are enabled.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::{failed, installed};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("rabbitmq_plugin", "Plug-ins that are enabled.", &[&DISABLED, &ENABLED]).only_if(installed);

fn turn(ctx: &Context, name: &str, runas: Value, on: bool) -> Result<Ret> {
    let ret = Ret::new(name);
    let runas = map! { "runas" => runas };
    let done = if on { "enabled" } else { "disabled" };
    match call(ctx, "rabbitmq.plugin_is_enabled", args![name], runas.clone()) {
        Ok(enabled) if enabled.truthy() == on => return Ok(ret.ok(format!("Plugin '{name}' is already {done}."))),
        Ok(_) => {}
        Err(error) => return failed(ret, error),
    }
    let (old, new) = if on { ("", name) } else { (name, "") };
    let changes = map! { "old" => old, "new" => new };
    if ctx.is_test() {
        return Ok(ret.would(format!("Plugin '{name}' is set to be {done}.")).changed(changes));
    }
    let fun = if on { "rabbitmq.enable_plugin" } else { "rabbitmq.disable_plugin" };
    match call(ctx, fun, args![name], runas) {
        Ok(_) => Ok(ret.ok(format!("Plugin '{name}' was {done}.")).changed(changes)),
        Err(error) => failed(ret, error),
    }
}

/// Makes sure that a plug-in is disabled.
#[function]
fn disabled(ctx: &Context, name: String, #[default(Value::Null)] runas: Value) -> Result<Ret> {
    turn(ctx, &name, runas, false)
}

/// Makes sure that a plug-in is enabled.
#[function]
fn enabled(ctx: &Context, name: String, #[default(Value::Null)] runas: Value) -> Result<Ret> {
    turn(ctx, &name, runas, true)
}
