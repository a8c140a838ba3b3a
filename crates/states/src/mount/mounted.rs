//! `mount.mounted`.

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use modules::file::paths::real;
use regex::Regex;
use value::{Map, Value, map};

use super::options::{OptionArgs, list};
use super::{active, escaped, is_true, mapped, swap};
use crate::support::{call, items};
use crate::{Ret, args};

/// The arguments of the state.
struct Wish {
    name: String,
    /// The name without links, and as the kernel's tables show it.
    real_name: String,
    shown_name: String,
    device: String,
    fstype: String,
    mkmnt: Value,
    opts: Vec<String>,
    user: Value,
    regexes: Vec<String>,
    known: OptionArgs,
    copy_options: bool,
}

/// The device as the kernel names it, and other names for it.
#[derive(Default)]
struct Device {
    real: String,
    names: Vec<String>,
    /// The device was found by its label, so whatever is mounted is accepted.
    labelled: bool,
}

fn options_of(entry: Option<&Value>) -> Vec<String> {
    let part = |name: &str| entry.and_then(|entry| entry.get(name)).map(list).unwrap_or_default();
    [part("opts"), part("superopts")].concat()
}

fn text_of(entry: &Value, name: &str) -> Option<String> {
    entry.get(name).filter(|value| value.truthy()).map(Value::to_string)
}

impl Wish {
    fn copy(&mut self, from: Option<&Value>) {
        if self.copy_options {
            self.opts.extend(options_of(from));
            self.opts.sort();
            self.opts.dedup();
        }
    }

    /// The device behind a bind mount, whose options count, too.
    fn bound(&mut self, active: &mut Map) -> Result<String> {
        let shown = active.get(&self.shown_name).and_then(|entry| text_of(entry, "device")).unwrap_or_default();
        let mut place = escaped(&self.device);
        let real = if shown.starts_with('/') {
            // A bind mount shows the device of the file system it comes from, so the nearest
            // mounted parent is searched.
            while !active.contains_key(&place) {
                // Without this the loop would never end where / itself is not listed, for instance
                // in a container.
                if place == "/" || place.is_empty() {
                    return Err(Error::execution(format!("nothing that is mounted holds {}", self.device)));
                }
                let plain = place.replace("\\040", " ");
                let parent = plain.rsplit_once('/').map_or("", |(parent, _)| parent);
                place = if parent.is_empty() { "/".into() } else { parent.to_owned() };
            }
            self.copy(active.get(&place));
            active.get(&place).and_then(|entry| text_of(entry, "device")).unwrap_or_default()
        } else if active.contains_key(&place) {
            self.copy(active.get(&place));
            shown
        } else {
            return Ok(shown);
        };
        if let Some(Value::List(opts)) =
            active.get_mut(&self.shown_name).and_then(|entry| entry.as_map_mut()?.get_mut("opts"))
        {
            // The kernel does not list `bind`, but it is wanted and active.
            opts.push("bind".into());
        }
        Ok(real)
    }

    /// Finds the device. The inner error is the comment if there is none.
    fn device(&mut self, ctx: &Context, active: &mut Map) -> Result<std::result::Result<Device, String>> {
        let mut found = Device { real: self.device.clone(), ..Device::default() };
        let upper = self.device.to_uppercase();
        let behind = self.device.split('=').nth(1).unwrap_or_default().to_owned();
        if self.device.starts_with('/') {
            let bind = self.opts.iter().any(|option| option == "bind") && active.contains_key(&self.shown_name);
            found.real = if bind { self.bound(active)? } else { real(&self.device) };
        } else if upper.starts_with("UUID=") {
            found.real = behind.trim_matches('"').to_lowercase();
        } else if upper.starts_with("LABEL=") {
            // Salt runs blkid only to see whether the label exists. It does not use the device it
            // finds.
            let said = call(ctx, "cmd.run_all", args![format!("blkid -t LABEL={behind}")], Map::new())?;
            if said.get("retcode").and_then(Value::as_i64).is_some_and(|code| code > 0) {
                return Ok(Err(format!("Unable to find device with label {behind}.")));
            }
            found.labelled = true;
        }
        if let Some(mapped) = mapped(&self.device).filter(|path| Path::new(path).exists()) {
            // /proc/mounts shows logical volumes by their device mapper name.
            found.real = mapped;
        }
        // `sshfs#user@host:` in fstab: the part in front is the program, the rest is the listed device.
        let fuse = Regex::new(r"^\w+#(.+)").expect("the pattern is constant");
        if let Some(parts) = fuse.captures(&self.device) {
            found.real = parts[1].to_owned();
        }
        Ok(Ok(found))
    }

    fn arguments(&self) -> Map {
        map! { "mkmnt" => self.mkmnt.clone(), "fstype" => self.fstype.as_str(), "opts" => self.opts.clone() }
    }

    fn unmount(&self, ctx: &Context, more: Map) -> Result<Value> {
        call(ctx, "mount.umount", args![self.real_name.as_str()], more)
    }

    /// Remounts the device because its options changed. The inner error is the failure.
    fn again(&mut self, ctx: &Context, ret: &mut Ret, why: &Why) -> Result<std::result::Result<(), String>> {
        let (place, why_text) = (args![self.real_name.as_str(), self.device.as_str()], why.text());
        // These file systems do not take new options while mounted.
        let from_scratch = ["nfs", "cvfs"].contains(&self.fstype.as_str()) || self.fstype.starts_with("fuse");
        if !from_scratch {
            ret.changes.insert("umount", format!("Forced remount because options ({why_text}) changed"));
            let said = call(ctx, "mount.remount", place, self.arguments())?;
            // The execution function adds it to the list, but it must not get into fstab.
            self.opts.retain(|option| option != "remount");
            return Ok(done(&said));
        }
        ret.changes.insert("umount", format!("Forced unmount and mount because options ({why_text}) changed"));
        if !is_true(&self.unmount(ctx, Map::new())?) {
            if let Why::Options(_) = why {
                ret.changes.insert(
                    "umount",
                    format!(
                        "Forced a lazy unmount and mount because the previous unmount failed and because the options \
                         ({why_text}) changed"
                    ),
                );
            }
            // Files are still open. A lazy unmount detaches the place now and the device when they
            // are closed.
            let said = self.unmount(ctx, map! { "lazy" => true })?;
            if !is_true(&said) {
                return Ok(Err(format!("Unable to unmount {}: {said}.", self.real_name)));
            }
        }
        Ok(done(&call(ctx, "mount.mount", place, self.arguments())?))
    }
}

/// True, or what was complained about.
fn done(said: &Value) -> std::result::Result<(), String> {
    if is_true(said) { Ok(()) } else { Err(said.to_string()) }
}

/// The reasons to remount.
enum Why {
    /// These options are not active.
    Options(Vec<String>),
    /// Options are remembered that are not wanted any more; this is the last one that was compared.
    Remembered(String),
}

impl Why {
    fn text(&self) -> String {
        match self {
            Why::Options(options) => options.join(","),
            Why::Remembered(last) => last.clone(),
        }
    }
}

/// Decides whether the state continues.
enum Step {
    /// On with the next.
    On,
    /// The state ends.
    End,
}

/// Checks the current mount and corrects it.
fn mounted_already(
    ctx: &Context,
    wish: &mut Wish,
    mut device: Device,
    active: &mut Map,
    ret: &mut Ret,
    remember: &mut bool,
) -> Result<Step> {
    let entry = active.get(&wish.shown_name).cloned().unwrap_or_default();
    device.names.extend(text_of(&entry, "device"));
    // The device may be listed by a link, such as one below /dev/disk.
    device.names.extend(device.names.first().map(|first| real(first)));
    for name in ["alt_device", "device_uuid", "device_label"] {
        device.names.extend(text_of(&entry, name).filter(|name| !device.names.contains(name)));
    }
    if !wish.opts.is_empty()
        && let Step::End = options_right(ctx, wish, entry.as_map().unwrap_or(&Map::new()), ret, remember)?
    {
        return Ok(Step::End);
    }
    if device.labelled || device.names.contains(&device.real) {
        ret.comment = "Target was already mounted".into();
        return Ok(Step::On);
    }
    other_device(ctx, wish, &device, active, ret, remember)
}

fn options_right(ctx: &Context, wish: &mut Wish, entry: &Map, ret: &mut Ret, remember: &mut bool) -> Result<Step> {
    let mut found = wish.known.differing(ctx, &wish.fstype, &wish.opts, entry)?;
    if !found.options.is_empty() {
        found.options.sort();
        if ctx.is_test() {
            let options = found.options.join(",");
            *ret = ret.clone().would(format!("Remount would be forced because options ({options}) changed"));
            return Ok(Step::End);
        }
        if let Err(why) = wish.again(ctx, ret, &Why::Options(found.options))? {
            *ret = ret.clone().fail(why);
            return Ok(Step::End);
        }
        *remember = true;
    }
    // The options of the last run. They reveal one that was taken out of the state, which the
    // kernel's list cannot.
    let remembered = call(ctx, "mount.read_mount_cache", args![wish.real_name.as_str()], Map::new())?;
    let Some(remembered) = remembered.get("opts") else {
        *remember = true;
        return Ok(Step::On);
    };
    let gone: Vec<String> = list(remembered).into_iter().filter(|option| !wish.opts.contains(option)).collect();
    if gone.is_empty() {
        return Ok(Step::On);
    }
    if ctx.is_test() {
        *ret = ret.clone().would(format!("Remount would be forced because options ({})changed", gone.join(",")));
        return Ok(Step::End);
    }
    if let Err(why) = wish.again(ctx, ret, &Why::Remembered(found.last))? {
        *ret = ret.clone().fail(why);
        return Ok(Step::End);
    }
    *remember = true;
    Ok(Step::On)
}

/// Another device is mounted at the place.
fn other_device(
    ctx: &Context,
    wish: &Wish,
    device: &Device,
    active: &mut Map,
    ret: &mut Ret,
    remember: &mut bool,
) -> Result<Step> {
    for pattern in &wish.regexes {
        let pattern = targeting::PyRegex::new(pattern).map_err(|error| Error::execution(error.to_string()))?;
        // The user declares that such devices may change their name, as network mounts do.
        if let Some(name) = device.names.iter().find(|name| pattern.is_match(name)) {
            let text = format!("An umount will not be forced because device matched device_name_regex: {name}");
            *ret = ret.clone().ok(text);
            return Ok(Step::On);
        }
    }
    if ctx.is_test() {
        let text = format!("An umount would have been forced because devices do not match.  Watched: {}", wish.device);
        *ret = ret.clone().would(text);
        return Ok(Step::On);
    }
    let wanted = match device.real == wish.device {
        true => wish.device.clone(),
        false => format!("{} ({})", wish.device, device.real),
    };
    let current = device.names.join(", ");
    let text = format!("Forced unmount because devices don't match. Wanted: {wanted}, current: {current}");
    ret.changes.insert("umount", text);
    // The answer is ignored; the list of mounts shows whether it worked.
    wish.unmount(ctx, map! { "user" => wish.user.clone() })?;
    // Read again, so that the step after this sees the place as free and mounts the device.
    *active = self::active(ctx)?;
    if active.contains_key(&wish.shown_name) {
        *ret = ret.clone().fail("Unable to unmount");
        return Ok(Step::End);
    }
    *remember = true;
    Ok(Step::On)
}

/// Mounts the device if it is not mounted.
fn mount_now(ctx: &Context, wish: &Wish, ret: &mut Ret, remember: &mut bool) -> Result<Step> {
    let (name, there) = (&wish.name, Path::new(&wish.name).exists());
    let make = wish.mkmnt.truthy();
    if ctx.is_test() {
        let text = match (there, make) {
            (true, _) => format!("{name} would be mounted"),
            (false, true) => format!("{name} would be created and mounted"),
            (false, false) => format!("{name} does not exist and would not be created"),
        };
        *ret = ret.clone().would(text);
        return Ok(Step::End);
    }
    if !there && !make {
        *ret = ret.clone().fail("Mount directory is not present");
        return Ok(Step::End);
    }
    let place = args![name.as_str(), wish.device.as_str(), wish.mkmnt.clone(), wish.fstype.as_str(), wish.opts.clone()];
    let said = call(ctx, "mount.mount", place, map! { "user" => wish.user.clone() })?;
    let now = active(ctx)?;
    *remember = true;
    if let Value::Str(why) = said {
        *ret = ret.clone().fail(why);
        return Ok(Step::End);
    }
    // A successful call without a mount, such as one by an automounter, is reported without a
    // change.
    if now.contains_key(&wish.shown_name) {
        ret.comment = "Target was successfully mounted".into();
        ret.changes.insert("mount", true);
    }
    Ok(Step::On)
}

/// The place alone, when nothing is to be mounted.
fn place_only(ctx: &Context, wish: &Wish, ret: &mut Ret) -> Result<()> {
    let name = &wish.name;
    let text = match (Path::new(name).exists(), ctx.is_test(), wish.mkmnt.truthy()) {
        (true, true, _) => format!("{name} would not be mounted"),
        (true, false, _) => format!("{name} not mounted"),
        (false, true, make) => {
            ret.result = None;
            match make {
                true => format!("{name} would be created, but not mounted"),
                false => format!("{name} does not exist and would neither be created nor mounted"),
            }
        }
        (false, false, true) => {
            call(ctx, "file.mkdir", args![name.as_str()], map! { "user" => wish.user.clone() })?;
            format!("{name} was created, not mounted")
        }
        (false, false, false) => format!("{name} not present and not mounted"),
    };
    ret.comment = text.into();
    Ok(())
}

/// The line of the table of mounts.
struct Line {
    dump: Value,
    pass_num: Value,
    config: String,
    match_on: Value,
}

/// Makes sure that the table of mounts has the entry; returns whether the state ends.
fn persist(ctx: &Context, wish: &Wish, line: Line, mount: bool, ret: &mut Ret, remember: bool) -> Result<()> {
    let Line { dump, pass_num, config, match_on } = line;
    let entry = args![
        wish.name.as_str(),
        wish.device.as_str(),
        wish.fstype.as_str(),
        wish.opts.clone(),
        dump,
        pass_num,
        config
    ];
    let mut more = if ctx.is_test() {
        map! { "test" => true }
    } else {
        Map::new()
    };
    more.insert("match_on", match_on);
    let said = call(ctx, "mount.set_fstab", entry, more)?;
    if ctx.is_test() && said.as_str() != Some("present") {
        let name = &wish.name;
        ret.result = None;
        let text = match (said.as_str(), mount) {
            (Some("new"), true) => {
                format!("{name} is mounted, but needs to be written to the fstab in order to be made persistent.")
            }
            (Some("new"), false) => {
                format!("{name} needs to be written to the fstab in order to be made persistent.")
            }
            (Some("change"), true) => format!("{name} is mounted, but its fstab entry must be updated."),
            (Some("change"), false) => format!("The {name} fstab entry must be updated."),
            _ => {
                ret.result = Some(false);
                format!(
                    "Unable to detect fstab status for mount point {name} due to unexpected output '{said}' from call \
                     to mount.set_fstab. This is most likely a bug."
                )
            }
        };
        ret.comment = format!("{}. {text}", ret.comment).into();
        return Ok(());
    }
    // Only after something was mounted: the cache must describe the active mount.
    if remember {
        let place = args![wish.real_name.as_str(), wish.device.as_str()];
        let mut more = wish.arguments();
        let opts = more.remove("opts").unwrap_or_default();
        more.insert("mount_opts", opts);
        call(ctx, "mount.write_mount_cache", place, more)?;
    }
    *ret = match said.as_str() {
        Some("present") => {
            Ret { comment: format!("{}. Entry already exists in the fstab.", ret.comment).into(), ..ret.clone() }
        }
        Some("bad config") => {
            let text = format!("{}. However, the fstab was not found.", ret.comment);
            ret.clone().fail(text)
        }
        _ => swap::recorded(ret.clone(), &said),
    };
    Ok(())
}

/// Corrects the mount and the table.
fn apply(ctx: &Context, mut wish: Wish, line: Option<Line>, mount: bool, mut ret: Ret) -> Result<Ret> {
    let (mut active, mut remember) = (active(ctx)?, false);
    let device = match wish.device(ctx, &mut active)? {
        Ok(device) => device,
        Err(why) => return Ok(ret.fail(why)),
    };
    if mount && active.contains_key(&wish.shown_name) {
        let step = mounted_already(ctx, &mut wish, device, &mut active, &mut ret, &mut remember)?;
        if let Step::End = step {
            return Ok(ret);
        }
    }
    if !active.contains_key(&wish.shown_name) {
        if mount {
            if let Step::End = mount_now(ctx, &wish, &mut ret, &mut remember)? {
                return Ok(ret);
            }
        } else {
            place_only(ctx, &wish, &mut ret)?;
        }
    }
    if let Some(line) = line {
        persist(ctx, &wish, line, mount, &mut ret, remember)?;
    }
    Ok(ret)
}

/// Makes sure that a device is mounted with these options, and that the table of mounts has the entry.
#[function]
fn mounted(
    ctx: &Context,
    name: String,
    device: Value,
    fstype: Value,
    #[default(false)] mkmnt: Value,
    #[default("defaults")] opts: Value,
    #[default(0)] dump: Value,
    #[default(0)] pass_num: Value,
    #[default("/etc/fstab")] config: String,
    #[default(true)] persist: bool,
    #[default(true)] mount: bool,
    #[default(Value::Null)] user: Value,
    #[default("auto")] match_on: Value,
    #[default(Value::Null)] device_name_regex: Value,
    #[default(Value::Null)] extra_mount_invisible_options: Value,
    #[default(Value::Null)] extra_mount_invisible_keys: Value,
    #[default(Value::Null)] extra_mount_ignore_fs_keys: Value,
    #[default(Value::Null)] extra_mount_translate_options: Value,
    #[default(Value::Null)] hidden_opts: Value,
    #[default(true)] bind_mount_copy_active_opts: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = kwargs;
    let ret = Ret { result: Some(true), ..Ret::new(name.as_str()) };
    let missing = [("name", name.is_empty()), ("device", !device.truthy()), ("fstype", !fstype.truthy())];
    if let Some((what, _)) = missing.iter().find(|(_, missing)| *missing) {
        return Ok(ret.fail(format!("Must provide {what} to mount.mounted")));
    }
    let name = if name == "/" { name } else { name.trim_end_matches('/').to_owned() };
    let real_name = real(&name);
    let wish = Wish {
        shown_name: escaped(&real_name),
        real_name,
        name,
        device: device.to_string(),
        fstype: fstype.to_string(),
        mkmnt,
        opts: list(&opts),
        user,
        regexes: items(&device_name_regex).iter().map(Value::to_string).collect(),
        known: OptionArgs {
            invisible: extra_mount_invisible_options,
            invisible_keys: extra_mount_invisible_keys,
            ignored: extra_mount_ignore_fs_keys,
            translated: extra_mount_translate_options,
            hidden: hidden_opts,
        },
        copy_options: bind_mount_copy_active_opts,
    };
    let line = persist.then_some(Line { dump, pass_num, config, match_on });
    apply(ctx, wish, line, mount, ret)
}
