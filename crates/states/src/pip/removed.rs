//! `pip.removed`.

use exec::{Context, Error, Result, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::call_with_kwargs;

/// Makes sure that a Python package is not installed.
#[function]
fn removed(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] requirements: Value,
    #[default(Value::Null)] bin_env: Value,
    #[default(Value::Null)] log: Value,
    #[default(Value::Null)] proxy: Value,
    #[default(Value::Null)] timeout: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(false)] use_vt: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let place = map! { "bin_env" => bin_env, "user" => user, "cwd" => cwd };
    let installed = match call_with_kwargs(ctx, "pip.list", place.clone()) {
        Ok(installed) => installed,
        Err(error @ (Error::Execution(_) | Error::Detailed { .. } | Error::CommandNotFound(_))) => {
            return Ok(ret.fail(format!("Error uninstalling '{name}': {error}")));
        }
        Err(error) => return Err(error),
    };
    if installed.get(&name).is_none() {
        return Ok(ret.ok("Package is not installed."));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Package {name} is set to be removed")));
    }
    let mut kwargs = place;
    kwargs.update(map! {
        "pkgs" => name.as_str(), "requirements" => requirements, "log" => log, "proxy" => proxy, "timeout" => timeout,
        "use_vt" => use_vt,
    });
    if !call_with_kwargs(ctx, "pip.uninstall", kwargs)?.truthy() {
        return Ok(ret.fail("Could not remove package."));
    }
    let changes: Map = [(name, "Removed")].into_iter().collect();
    Ok(ret.ok("Package was successfully removed.").changed(changes))
}
