//! `mount`: file systems, swap spaces, and the table of both.

mod fstab;
mod mounted;
mod options;
mod swap;

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, call_with_kwargs};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new(
    "mount",
    "File systems and swap spaces are in use or not, and in the table of mounts or not.",
    &[&fstab::FSTAB_ABSENT, &fstab::FSTAB_PRESENT, &MOD_WATCH, &mounted::MOUNTED, &swap::SWAP, &UNMOUNTED],
);

/// Returns all mounts with their details.
fn active(ctx: &Context) -> Result<Map> {
    Ok(call_with_kwargs(ctx, "mount.active", map! { "extended" => true })?.into_map().unwrap_or_default())
}

/// Blanks as the kernel's tables show them.
fn escaped(path: &str) -> String {
    // /proc/mounts separates its fields by blanks, so the kernel writes those of a path in octal.
    path.replace(' ', "\\040")
}

/// The name the device mapper has for a logical volume: `/dev/vg/lv` is `/dev/mapper/vg-lv`.
fn mapped(device: &str) -> Option<String> {
    let (group, volume) = device.strip_prefix("/dev/")?.split_once('/')?;
    let plain = !group.is_empty() && !volume.is_empty() && !volume.contains('/');
    // The device mapper joins the two names with a dash and doubles those inside them.
    plain.then(|| format!("/dev/mapper/{}-{}", group.replace('-', "--"), volume.replace('-', "--")))
}

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true)
}

/// Makes sure that nothing is mounted at a place; `persist` removes it from the table, too.
#[function]
fn unmounted(
    ctx: &Context,
    name: String,
    device: Option<String>,
    #[default("/etc/fstab")] config: String,
    #[default(false)] persist: bool,
    #[default(Value::Null)] user: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = kwargs;
    let mut ret = Ret { result: Some(true), ..Ret::new(name.as_str()) };
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to mount.unmounted"));
    }
    let device = device.filter(|device| !device.is_empty());
    if active(ctx)?.contains_key(&escaped(&name)) {
        if ctx.is_test() {
            return Ok(ret.would(format!("Mount point {name} is mounted but should not be")));
        }
        let mut place = args![name.as_str()];
        place.extend(device.as_deref().map(Value::from));
        let said = call(ctx, "mount.umount", place, map! { "user" => user })?;
        ret = match &said {
            Value::Str(complaint) => ret.fail(complaint.as_str()),
            Value::Bool(true) => ret.ok("Target was successfully unmounted").changed(map! { "umount" => true }),
            // Salt's text for an answer that is neither success nor complaint.
            _ => ret.ok("Execute set to False, Target was not unmounted"),
        };
        // The remembered options belong to the mount that is gone.
        call(ctx, "mount.delete_mount_cache", args![name.as_str()], Map::new())?;
    } else {
        ret.comment = "Target was already unmounted".into();
    }
    if persist { forget(ctx, ret, &name, device, &config) } else { Ok(ret) }
}

/// Removes a place from the table.
fn forget(ctx: &Context, mut ret: Ret, name: &str, device: Option<String>, config: &str) -> Result<Ret> {
    let table = call(ctx, "mount.fstab", args![config], Map::new())?;
    let said = |ret: &Ret, more: &str| Value::from(format!("{}{more}", ret.comment));
    let Some(entry) = table.get(name) else {
        ret.comment = said(&ret, ". fstab entry not found");
        return Ok(ret);
    };
    // Another device may be registered for the same place. Its entry must stay.
    if let Some(device) =
        device.as_deref().filter(|device| entry.get("device").and_then(Value::as_str) != Some(*device))
    {
        ret.comment = said(&ret, &format!(". fstab entry for device {device} not found"));
        return Ok(ret);
    }
    if ctx.is_test() {
        return Ok(ret.would(format!(
            "Mount point {name} is unmounted but needs to be purged from {config} to be made persistent"
        )));
    }
    if is_true(&call(ctx, "mount.rm_fstab", args![name, Value::from(device), config], Map::new())?) {
        ret.comment = said(&ret, ". Removed target from fstab");
        ret.changes.insert("persist", "purged");
    } else {
        ret.result = Some(false);
        ret.comment = said(&ret, ". Failed to persist purge");
    }
    Ok(ret)
}

/// Remounts a file system when a watched state has changed.
#[function]
fn mod_watch(ctx: &Context, name: String, #[default(Value::Null)] user: Value, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let given = kwargs.given();
    let part = |name: &str| given.get(name).cloned().unwrap_or_default();
    let fun = part("sfun");
    if fun.as_str() != Some("mounted") {
        return Ok(ret.ok(format!("Watch not supported in {fun} at this time")));
    }
    let opts = given.get("opts").cloned().unwrap_or("defaults".into());
    let place = args![name.as_str(), part("device"), false, part("fstype"), opts];
    let said = call(ctx, "mount.remount", place, map! { "user" => user })?;
    // A complaint is a text; Salt takes it for success.
    Ok(if is_true(&said) {
        ret.ok(format!("{name} remounted"))
    } else {
        ret.fail(format!("{name} failed to remount: {said}"))
    })
}
