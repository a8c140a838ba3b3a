//! `pip.uptodate`.

use exec::{Context, Result, function};
use value::{Value, map};

use crate::Ret;
use crate::support::{call_with_kwargs, over};

/// Makes sure that all Python packages are up to date.
#[function]
fn uptodate(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] bin_env: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(false)] use_vt: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let place = map! { "bin_env" => bin_env, "user" => user, "cwd" => cwd };
    let packages = match call_with_kwargs(ctx, "pip.list_upgrades", place.clone()) {
        Err(error) => return Ok(ret.fail(error.to_string())),
        Ok(packages) => packages,
    };
    if !packages.truthy() {
        return Ok(ret.ok("System is already up-to-date."));
    }
    if ctx.is_test() {
        return Ok(ret.would("System update will be performed"));
    }
    let updated = call_with_kwargs(ctx, "pip.upgrade", over(map! { "use_vt" => use_vt }, &place))?;
    let updated = updated.into_map().unwrap_or_default();
    if updated.get("result") == Some(&Value::Bool(false)) {
        let mut whole = Value::from(ret.fail("Failed to update.")).into_map().unwrap_or_default();
        // Salt merges the function's answer over the result, with all its keys.
        whole.update(updated);
        return Ok(Ret::from_value(whole.into()));
    }
    Ok(match updated.is_empty() {
        true => ret.fail("Upgrade failed."),
        false => ret.ok("Upgrade successful.").changed(updated),
    })
}
