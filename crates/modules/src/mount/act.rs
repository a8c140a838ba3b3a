//! Mounting, unmounting, and switching swap spaces on and off.

use exec::{Call, Context, Error, Result, function};
use value::{Map, Value, map};

use crate::util;

/// Returns options as a list; a text is split at commas.
fn list(opts: Value) -> Vec<Value> {
    match opts {
        Value::List(opts) => opts,
        // No options leave an empty list, not one with an empty text.
        Value::Null => Vec::new(),
        other => other.to_string().split(',').map(Value::from).collect(),
    }
}

fn joined(opts: &[Value]) -> String {
    opts.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
}

/// Runs a command as a user. Returns True, or its stderr.
fn run(ctx: &Context, line: String, user: Option<&str>) -> Result<Value> {
    let kwargs = map! { "runas" => user, "python_shell" => false };
    let said = ctx.call_with("cmd.run_all", Call { args: vec![line.into()], kwargs })?;
    let failed = said.get("retcode").is_some_and(Value::truthy);
    // Salt returns the complaint in place of True; states test for exactly True.
    Ok(if failed { said.get("stderr").cloned().unwrap_or_default() } else { true.into() })
}

/// Calls `mount.active` or `mount.swaps`.
fn call_for_map(ctx: &Context, fun: &str) -> Result<Map> {
    Ok(ctx.call(fun, Vec::new())?.into_map().unwrap_or_default())
}

struct Wish {
    name: String,
    device: Value,
    mkmnt: bool,
    fstype: Value,
    opts: Vec<Value>,
    user: Option<String>,
}

impl Wish {
    fn arguments(&self) -> String {
        let opts = format!("-o {}", joined(&self.opts));
        if self.fstype.truthy() { format!("{opts} -t {}", self.fstype) } else { opts }
    }

    fn mount(self, ctx: &Context) -> Result<Value> {
        // The directory belongs to the user who mounts.
        if self.mkmnt && !std::path::Path::new(&self.name).exists() {
            let args = vec![self.name.as_str().into()];
            ctx.call_with("file.mkdir", Call { args, kwargs: map! { "user" => self.user.as_deref() } })?;
        }
        let line = match self.device.truthy() {
            true => format!("mount {} '{}' '{}' ", self.arguments(), self.device, self.name),
            // Without a device mount looks the rest up in fstab.
            false => format!("mount '{}' ", self.name),
        };
        run(ctx, line, self.user.as_deref())
    }
}

fn only_mount(util: &str) -> Result<()> {
    match util {
        "guestfs" | "qemu_nbd" => Err(Error::execution(format!("not supported: mounting images with '{util}'"))),
        _ => Ok(()),
    }
}

/// Mounts a device at a place, which is made on demand. Returns True, or the error message of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.mount /mnt/foo /dev/sdz1 True
#[function]
fn mount(
    ctx: &Context,
    name: String,
    #[default(false)] device: Value,
    #[default(false)] mkmnt: bool,
    #[default("")] fstype: Value,
    #[default("defaults")] opts: Value,
    user: Option<String>,
    #[default("mount")] util: String,
) -> Result<Value> {
    only_mount(&util)?;
    if util != "mount" {
        return Ok(false.into());
    }
    Wish { name, device, mkmnt, fstype, opts: list(opts), user }.mount(ctx)
}

/// Remounts a file system with these options, or mounts it if it is not mounted. Returns True, or the error message of
/// the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.remount /mnt/foo /dev/sdz1 True
#[function]
fn remount(
    ctx: &Context,
    name: String,
    device: Value,
    #[default(false)] mkmnt: bool,
    #[default("")] fstype: Value,
    #[default("defaults")] opts: Value,
    user: Option<String>,
) -> Result<Value> {
    let mut wish = Wish { name, device, mkmnt, fstype, opts: list(opts), user };
    // Remounting a file system that is not mounted would fail; Salt mounts it.
    if !call_for_map(ctx, "mount.active")?.contains_key(&wish.name) {
        return wish.mount(ctx);
    }
    // A state may pass the option itself, and mount would see it twice.
    if !wish.opts.contains(&"remount".into()) {
        wish.opts.push("remount".into());
    }
    let line = format!("mount {} '{}' '{}' ", wish.arguments(), wish.device, wish.name);
    run(ctx, line, wish.user.as_deref())
}

/// Unmounts a place. Returns True, or the error message of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.umount /mnt/foo
///     salt '*' mount.umount /mnt/foo /dev/xvdc1
#[function]
fn umount(
    ctx: &Context,
    name: String,
    device: Option<String>,
    user: Option<String>,
    #[default("mount")] util: String,
    #[default(false)] lazy: bool,
) -> Result<Value> {
    only_mount(&util)?;
    if !call_for_map(ctx, "mount.active")?.contains_key(&name) {
        return Ok(format!("{name} does not have anything mounted").into());
    }
    // The device is safer when several file systems are mounted at one place.
    let what = device.filter(|device| !device.is_empty()).unwrap_or(name);
    let line = format!("umount{} '{what}'", if lazy { " -l" } else { "" });
    run(ctx, line, user.as_deref())
}

/// Returns whether a program mounts file systems through FUSE.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.is_fuse_exec sshfs
#[function]
fn is_fuse_exec(ctx: &Context, cmd: String) -> Result<bool> {
    let Some(path) = util::program(ctx, &cmd) else { return Ok(false) };
    if util::program(ctx, "ldd").is_none() {
        return Err(Error::CommandNotFound("ldd".into()));
    }
    // Such helpers stay in the foreground as the user who mounts; states treat them in another way.
    Ok(quietly(ctx, format!("ldd {path}"))?.to_string().contains("libfuse"))
}

fn quietly(ctx: &Context, line: String) -> Result<Value> {
    ctx.call_with("cmd.run", Call { args: vec![line.into()], kwargs: map! { "python_shell" => false } })
}

/// Switches a swap space on. Returns its figures, and whether it is new.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.swapon /root/swapfile
#[function]
fn swapon(ctx: &Context, name: String, #[default(Value::Null)] priority: Value) -> Result<Map> {
    let found = |on: &Map, new: bool| on.get(&name).map(|stats| map! { "stats" => stats.clone(), "new" => new });
    // swapon fails for a device that is in use.
    if let Some(found) = found(&call_for_map(ctx, "mount.swaps")?, false) {
        return Ok(found);
    }
    let priority = if priority.truthy() { format!(" -p {priority}") } else { String::new() };
    quietly(ctx, format!("swapon '{name}'{priority}"))?;
    Ok(found(&call_for_map(ctx, "mount.swaps")?, true).unwrap_or_default())
}

/// Switches a swap space off. Returns whether it is off; None if it was.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.swapoff /root/swapfile
#[function]
fn swapoff(ctx: &Context, name: String) -> Result<Option<bool>> {
    if !call_for_map(ctx, "mount.swaps")?.contains_key(&name) {
        return Ok(None);
    }
    quietly(ctx, format!("swapoff '{name}'"))?;
    Ok(Some(!call_for_map(ctx, "mount.swaps")?.contains_key(&name)))
}
