//! `mount.swap`.

use exec::{Context, Result, function};
use value::{Map, Value};

use crate::support::call;
use crate::{Ret, args};

fn swaps(ctx: &Context) -> Result<Map> {
    Ok(call(ctx, "mount.swaps", args![], Map::new())?.into_map().unwrap_or_default())
}

/// The device behind a link.
fn device(ctx: &Context, name: &str) -> Result<String> {
    if !call(ctx, "file.is_link", args![name], Map::new())?.truthy() {
        return Ok(name.to_owned());
    }
    let target = call(ctx, "file.readlink", args![name], Map::new())?.to_string();
    if target.starts_with('/') {
        return Ok(target);
    }
    // A relative link from /dev/disk/by-… points to a node in /dev.
    Ok(format!("/dev/{}", target.rsplit('/').next().unwrap_or_default()))
}

/// Makes sure that a swap space is in use, and in the table of mounts.
#[function]
fn swap(
    ctx: &Context,
    name: String,
    #[default(true)] persist: bool,
    #[default("/etc/fstab")] config: String,
) -> Result<Ret> {
    let mut ret = Ret { result: Some(true), ..Ret::new(name.as_str()) };
    let mut on = swaps(ctx)?;
    let real = device(ctx, &name)?;
    if on.contains_key(&real) {
        ret.comment = format!("Swap {name} already active").into();
    } else if ctx.is_test() {
        ret = ret.would(format!("Swap {name} is set to be activated"));
    } else {
        call(ctx, "mount.swapon", args![real.as_str()], Map::new())?;
        on = swaps(ctx)?;
        ret = match on.get(&real) {
            Some(stats) => {
                let stats = stats.as_map().cloned().unwrap_or_default();
                ret.ok(format!("Swap {name} activated")).changed(stats)
            }
            None => ret.fail(format!("Swap {name} failed to activate")),
        };
    }
    if persist { kept(ctx, ret, &name, &config, &on) } else { Ok(ret) }
}

fn kept(ctx: &Context, mut ret: Ret, name: &str, config: &str, on: &Map) -> Result<Ret> {
    let table = call(ctx, "mount.fstab", args![config], Map::new())?.into_map().unwrap_or_default();
    if ctx.is_test() {
        let named = table.values().any(|entry| entry.get("device").and_then(Value::as_str) == Some(name));
        if !table.contains_key(name) && !named {
            ret.result = None;
            // Salt's text speaks of activating, although the swap is active in this branch.
            if on.contains_key(name) {
                ret.comment = format!("Swap {name} is set to be added to the fstab and to be activated").into();
            }
        }
        return Ok(ret);
    }
    // Swap entries all have `none` as their place, so the table holds only the last of them.
    let field = |key: &str| table.get("none").and_then(|entry| entry.get(key)?.as_str());
    if field("device") == Some(name) && field("fstype") != Some("swap") {
        return Ok(ret);
    }
    let entry = args!["none", name, "swap", value::list!["defaults"], 0, 0, config];
    let said = call(ctx, "mount.set_fstab", entry, Map::new())?;
    Ok(recorded(ret, &said))
}

/// Adds the change of the table of mounts.
pub(super) fn recorded(mut ret: Ret, said: &Value) -> Ret {
    let comment = ret.comment.to_string();
    let (change, text) = match said.as_str() {
        Some("new") => ("new", ". Added new entry to the fstab."),
        Some("change") => ("update", ". Updated the entry in the fstab."),
        _ => return ret,
    };
    ret.changes.insert("persist", change);
    ret.comment = format!("{comment}{text}").into();
    ret
}
