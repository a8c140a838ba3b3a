//! `blockdev`: settings of block devices, and file systems on them.

use std::path::Path;
use std::time::Duration;

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value, list, map};

use crate::support::{call, over};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("blockdev", "Block devices have settings and file systems.", &[&FORMATTED, &TUNED]);

/// Returns the fact that shows the effect of a setting.
fn fact(setting: &str) -> Option<&'static str> {
    Some(match setting {
        "read-ahead" => "getra",
        "filesystem-read-ahead" => "getfra",
        "read-only" | "read-write" => "getro",
        _ => return None,
    })
}

/// Returns the change of a setting as a text, if it did change.
fn change(setting: &str, wanted: &Value, old: &Value, new: &Value) -> Option<String> {
    if old == new {
        return None;
    }
    let shown = |value: &Value| match wanted {
        Value::Bool(_) => Value::from(value.as_str() == Some("1")),
        _ => value.clone(),
    };
    let turned = |value: Value| if setting == "read-write" { (!value.truthy()).into() } else { value };
    Some(format!("Changed from {} to {}", turned(shown(old)), turned(shown(new))))
}

/// Makes sure that a block device has settings: `read-ahead`, `filesystem-read-ahead`, `read-only`, `read-write`.
#[function]
fn tuned(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let wanted = kwargs.given();
    if !call(ctx, "file.is_blkdev", args![name.as_str()], Map::new())?.truthy() {
        return Ok(ret.fail(format!("Changes to {name} cannot be applied. Not a block device.")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Changes to {name} will be applied ")));
    }
    let old = call(ctx, "disk.dump", args![name.as_str()], Map::new())?;
    let new = call(ctx, "disk.tune", args![name.as_str()], wanted.clone())?;
    if !new.truthy() {
        return Ok(ret.fail(format!("Failed to modify block device {name}")));
    }
    let part = |facts: &Value, fact: &str| facts.get(fact).cloned().unwrap_or_default();
    let changed = wanted.iter().filter_map(|(setting, value)| {
        let setting = setting.as_str()?;
        let fact = fact(setting)?;
        Some((setting, change(setting, value, &part(&old, fact), &part(&new, fact))?))
    });
    let changed: Map = changed.collect();
    Ok(match changed.is_empty() {
        true => ret.ok(format!("Block device {name} already in correct state")),
        false => ret.ok(format!("Block device {name} successfully modified ")).changed(changed),
    })
}

/// The type of the file system on a device; an empty text if there is none.
fn file_system(ctx: &Context, device: &str) -> Result<String> {
    let command = list!["blkid", "-o", "value", "-s", "TYPE", device];
    let said = call(ctx, "cmd.run", vec![command], map! { "ignore_retcode" => true })?;
    Ok(if said.truthy() { said.to_string() } else { String::new() })
}

/// The number of looks for a new file system. udev may need its time.
const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_secs(3);

/// Makes sure that there is a file system of a type on a device.
#[function]
fn formatted(
    ctx: &Context,
    name: String,
    #[default("ext4")] fs_type: String,
    #[default(false)] force: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if !Path::new(&name).exists() {
        return Ok(ret.fail(format!("{name} does not exist")));
    }
    let old = file_system(ctx, &name)?;
    if old == fs_type {
        return Ok(ret.ok(format!("{name} already formatted with {fs_type}")));
    }
    if !cfg!(test) && modules::util::which(&format!("mkfs.{fs_type}")).is_none() {
        return Ok(ret.fail(format!("Invalid fs_type: {fs_type}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Changes to {name} will be applied ")));
    }
    let more = over(map! { "force" => force }, &kwargs.given());
    call(ctx, "disk.format", args![name.as_str(), fs_type.as_str()], more)?;
    let mut found = old;
    for look in 1..=LOOKS {
        tracing::info!("Check blk fstype attempt {look} of {LOOKS}");
        found = file_system(ctx, &name)?;
        if !found.is_empty() || look == LOOKS {
            break;
        }
        ctx.sleep(BETWEEN);
    }
    if found != fs_type {
        return Ok(ret.fail(format!("Failed to format {name}")));
    }
    let changes = map! { "new" => fs_type.as_str(), "old" => found };
    Ok(ret.ok(format!("{name} has been formatted with {fs_type}")).changed(changes))
}
