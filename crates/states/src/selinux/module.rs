//! `selinux.module`, `module_install` and `module_remove`.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value};

use crate::support::call;
use crate::{Ret, args};

/// "enabled" or "disabled", however it is written.
fn refined(state: &Value) -> Option<&'static str> {
    match state.to_string().to_lowercase().as_str() {
        "1" | "on" | "yes" | "true" | "enabled" => Some("enabled"),
        "0" | "off" | "no" | "false" | "disabled" => Some("disabled"),
        _ => None,
    }
}

fn modules(ctx: &Context) -> Result<Map> {
    Ok(call(ctx, "selinux.list_semod", args![], Map::new())?.into_map().unwrap_or_default())
}

fn installed(ctx: &Context, path: Value) -> Result<Ret> {
    let ret = Ret::new(path.clone());
    Ok(match call(ctx, "selinux.install_semod", args![path.clone()], Map::new())?.truthy() {
        true => ret.ok(format!("Module {path} has been installed")),
        false => ret.fail(format!("Failed to install module {path}")),
    })
}

fn removed(ctx: &Context, name: &str) -> Result<Ret> {
    let ret = Ret::new(name);
    if !modules(ctx)?.contains_key(name) {
        return Ok(ret.fail(format!("Module {name} is not available")));
    }
    Ok(match call(ctx, "selinux.remove_semod", args![name], Map::new())?.truthy() {
        true => ret.ok(format!("Module {name} has been removed")),
        false => ret.fail(format!("Failed to remove module {name}")),
    })
}

/// Makes sure that a module is enabled or disabled; `install` and `remove` do that first.
#[function(name = "module")]
fn module(
    ctx: &Context,
    name: String,
    #[default("Enabled")] module_state: Value,
    #[default("any")] version: Value,
    opts: KwArgs,
) -> Result<Ret> {
    let opts = opts.given();
    let asked = |name: &str| opts.get(name).is_some_and(Value::truthy);
    let mut ret = Ret { result: Some(true), ..Ret::new(name.as_str()) };
    if asked("install") && asked("remove") {
        return Ok(ret.fail("Cannot install and remove at the same time"));
    }
    if asked("install") {
        ret = installed(ctx, opts.get("source").cloned().unwrap_or(name.as_str().into()))?;
        if ret.result != Some(true) {
            return Ok(ret);
        }
    } else if asked("remove") {
        return removed(ctx, &name);
    }
    let modules = modules(ctx)?;
    let Some(module) = modules.get(&name) else {
        return Ok(ret.fail(format!("Module {name} is not available")));
    };
    let Some(wanted) = refined(&module_state) else {
        return Ok(ret.fail(format!("{module_state} is not a valid state for the {name} module.")));
    };
    let part = |key: &str| module.get(key).cloned().unwrap_or_default();
    if version.as_str() != Some("any") && part("Version") != version {
        return Ok(ret.fail(format!(
            "Module version is {} and does not match the desired version of {version} or you are using semodule >= 2.4",
            part("Version")
        )));
    }
    if refined(&part("Enabled")) == Some(wanted) {
        return Ok(ret.ok(format!("Module {name} is in the desired state")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Module {name} is set to be toggled to {module_state}")));
    }
    Ok(match call(ctx, "selinux.setsemod", args![name.as_str(), wanted], Map::new())?.truthy() {
        true => ret.ok(format!("Module {name} has been set to {module_state}")),
        false => ret.fail(format!("Failed to set the Module {name} to {module_state}")),
    })
}

/// Installs a module from a file.
#[function]
fn module_install(ctx: &Context, name: Value) -> Result<Ret> {
    installed(ctx, name)
}

/// Removes a module.
#[function]
fn module_remove(ctx: &Context, name: String) -> Result<Ret> {
    removed(ctx, &name)
}
