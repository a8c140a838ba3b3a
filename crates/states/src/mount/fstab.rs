//! `mount.fstab_present` and `mount.fstab_absent`.

use exec::{Context, Result, function};
use value::{Map, Value, map};

use super::is_true;
use crate::support::{call, call_with_kwargs};
use crate::{Ret, args};

/// Returns the name of the device for the table, such as its UUID, or None if there is none.
fn converted(ctx: &Context, device: &str, by: Option<&str>) -> Result<Value> {
    let Some(by) = by.filter(|by| !by.is_empty()) else { return Ok(device.into()) };
    let key = by.to_uppercase();
    if (by == "device" && device.starts_with('/')) || device.starts_with(&format!("{key}=")) {
        return Ok(device.into());
    }
    let known = match device.starts_with('/') {
        true => call(ctx, "disk.blkid", args![device], Map::new())?,
        false => call_with_kwargs(ctx, "disk.blkid", map! { "token" => device })?,
    };
    let known = known.into_map().unwrap_or_default();
    // Several devices can carry one label. An ambiguous name is refused rather than guessed.
    let only = if known.len() == 1 { known.iter().next() } else { None };
    Ok(match only {
        Some((name, _)) if by == "device" => name.clone(),
        Some((_, facts)) => facts.get(&key).map_or(Value::Null, |value| format!("{key}={value}").into()),
        None => Value::Null,
    })
}

fn without_slash(path: &str) -> &str {
    if path == "/" { path } else { path.trim_end_matches('/') }
}

fn comments(ret: Ret, result: Option<bool>, texts: &[String]) -> Ret {
    Ret { result, comment: texts.iter().map(|text| Value::from(text.as_str())).collect(), ..ret }
}

/// Makes sure that a file system is in the table of mounts; a new one is mounted.
#[function]
fn fstab_present(
    ctx: &Context,
    name: String,
    fs_file: String,
    fs_vfstype: Value,
    #[default("defaults")] fs_mntops: Value,
    #[default(0)] fs_freq: Value,
    #[default(0)] fs_passno: Value,
    mount_by: Option<String>,
    #[default("/etc/fstab")] config: String,
    #[default(true)] mount: bool,
    #[default("auto")] match_on: Value,
    #[default(false)] not_change: Value,
    #[default(true)] fs_mount: Value,
) -> Result<Ret> {
    let _ = fs_mount;
    let ret = Ret::new(name.as_str());
    let place = without_slash(&fs_file);
    let device = converted(ctx, &name, mount_by.as_deref())?;
    if !device.truthy() {
        let by = Value::from(mount_by);
        return Ok(comments(ret, Some(false), &[format!("Device {name} cannot be converted to {by}")]));
    }
    let mut entry = map! {
        "name" => place, "device" => device, "fstype" => fs_vfstype, "opts" => fs_mntops, "dump" => fs_freq,
        "pass_num" => fs_passno, "config" => config.as_str(),
    };
    // The execution function then only returns what it would do.
    if ctx.is_test() {
        entry.insert("test", true);
    }
    entry.update(map! { "match_on" => match_on, "not_change" => not_change });
    let said = call_with_kwargs(ctx, "mount.set_fstab", entry)?;
    if ctx.is_test() {
        return Ok(would(ret, &said, (&name, place, &config), mount));
    }
    match said.as_str() {
        Some("present") => Ok(comments(ret, Some(true), &[format!("{place} entry was already in {config}.")])),
        Some("new") => {
            let ret = ret.changed(map! { "persist" => said });
            let added = format!("{place} entry added in {config}.");
            if !mount {
                return Ok(comments(ret, Some(true), &[added]));
            }
            let (result, text) = match call(ctx, "mount.mount", args![place], Map::new())? {
                Value::Str(why) => {
                    // The program puts its own name in front of the message.
                    let why = why.split_once(':').map_or(why.as_str(), |(_, why)| why);
                    (false, format!("Error while mounting {why}"))
                }
                _ => (true, format!("Mounted {name} on {place}")),
            };
            Ok(comments(ret, Some(result), &[added, text]))
        }
        Some("change") => {
            let ret = ret.changed(map! { "persist" => said });
            Ok(comments(ret, Some(true), &[format!("{place} entry updated in {config}.")]))
        }
        _ => Ok(comments(ret, Some(false), &[format!("{place} entry cannot be changed in {config}: {said}.")])),
    }
}

fn would(ret: Ret, said: &Value, (name, place, config): (&str, &str, &str), mount: bool) -> Ret {
    match said.as_str() {
        Some("present") => comments(ret, Some(true), &[format!("{place} entry is already in {config}.")]),
        Some("new") => {
            let mut texts = vec![format!("{place} entry will be written in {config}.")];
            texts.extend(mount.then(|| format!("Will mount {name} on {place}")));
            comments(ret, None, &texts)
        }
        Some("change") => comments(ret, None, &[format!("{place} entry will be updated in {config}.")]),
        _ => comments(ret, Some(false), &[format!("{place} entry cannot be created in {config}: {said}.")]),
    }
}

/// Makes sure that a file system is not in the table of mounts.
#[function]
fn fstab_absent(
    ctx: &Context,
    name: String,
    fs_file: String,
    mount_by: Option<String>,
    #[default("/etc/fstab")] config: String,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let place = without_slash(&fs_file);
    let device = converted(ctx, &name, mount_by.as_deref())?;
    let table = call(ctx, "mount.fstab", args![config.as_str()], Map::new())?;
    let there = table.get(place).is_some();
    let missing = format!("{place} entry is already missing in {config}.");
    if ctx.is_test() {
        let text = if there { format!("{place} entry will be removed from {config}.") } else { missing };
        // Salt returns None here even if there is nothing to remove.
        return Ok(comments(ret, None, &[text]));
    }
    if !there {
        return Ok(comments(ret, Some(true), &[missing]));
    }
    let entry = map! { "name" => place, "device" => device, "config" => config.as_str() };
    if is_true(&call_with_kwargs(ctx, "mount.rm_fstab", entry)?) {
        let ret = ret.changed(map! { "persist" => "removed" });
        return Ok(comments(ret, Some(true), &[format!("{place} entry removed from {config}.")]));
    }
    Ok(comments(ret, Some(false), &[format!("{place} entry failed when removing from {config}.")]))
}
