//! `mount` — mounts and the table of mounts.

mod act;
mod cache;
mod fstab;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::file::{facts, paths};

/// Registers the functions of `mount`.
pub static MODULE: Module = Module::new(
    "mount",
    "Functions that look at mounted file systems and at the table of those to be mounted, and change both.",
    &[
        &ACTIVE,
        &cache::DELETE_MOUNT_CACHE,
        &FSTAB,
        &GET_DEVICE_FROM_PATH,
        &GET_MOUNT_FROM_PATH,
        &act::IS_FUSE_EXEC,
        &IS_MOUNTED,
        &act::MOUNT,
        &cache::READ_MOUNT_CACHE,
        &act::REMOUNT,
        &fstab::RM_FSTAB,
        &fstab::SET_FSTAB,
        &act::SWAPOFF,
        &act::SWAPON,
        &SWAPS,
        &act::UMOUNT,
        &cache::WRITE_MOUNT_CACHE,
    ],
);

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))
}

/// Decodes the octal escapes of the kernel's tables.
fn unescaped(text: &str) -> String {
    // The backslash last: undone first, it would create new escapes.
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Splits options, and replaces ids of users and groups by names.
fn options(text: &str) -> Vec<String> {
    text.split(',')
        .map(|option| {
            // States write names where the kernel shows numbers, and the two are compared.
            let named = option.split_once('=').and_then(|(key, number)| {
                let number = number.parse().ok()?;
                let name = match key {
                    "uid" => facts::user_name(number),
                    "gid" => facts::group_name(number),
                    _ => return None,
                };
                Some(format!("{key}={name}"))
            });
            named.unwrap_or_else(|| option.to_owned())
        })
        .collect()
}

/// Reads `/proc/self/mounts`.
fn mounts(text: &str) -> Map {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        // A line of another shape is skipped: one strange mount must not hide all others.
        .filter(|fields| fields.len() >= 4)
        .map(|fields| {
            let entry = map! {
                "device" => fields[0],
                "alt_device" => unescaped(fields[0]),
                "fstype" => fields[2],
                "opts" => options(fields[3]),
            };
            (fields[1], entry)
        })
        .collect()
}

/// Reads `/proc/self/mountinfo`.
fn mountinfo(text: &str, devices: &Map) -> Map {
    text.lines().filter_map(|line| mountinfo_line(line, devices)).collect()
}

fn mountinfo_line(line: &str, devices: &Map) -> Option<(String, Map)> {
    // The number of optional fields varies, so proc(5) ends them with a dash.
    let (first, second) = line.split_once(" - ")?;
    let first: Vec<&str> = first.split_whitespace().collect();
    let second: Vec<&str> = second.split_whitespace().collect();
    let (major, minor) = first.get(2)?.split_once(':')?;
    let device = *second.get(1)?;
    let known = |name: &str| devices.get(device).and_then(|info| info.get(name)?.as_str());
    let entry = map! {
        "mountid" => *first.first()?,
        "parentid" => *first.get(1)?,
        "major" => major,
        "minor" => minor,
        "root" => *first.get(3)?,
        "opts" => options(first.get(5)?),
        "fstype" => *second.first()?,
        // Salt shows a blank in this form, which is what fstab states contain.
        "device" => device.replace("\\040", "\\ "),
        "alt_device" => unescaped(device),
        "superopts" => options(second.get(2)?),
        "device_uuid" => known("UUID").map(str::to_lowercase),
        "device_label" => known("LABEL"),
    };
    Some(((*first.get(4)?).to_owned(), entry))
}

/// Returns the mounts, by place, with ``extended`` in more detail.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.active
#[function]
fn active(ctx: &Context, #[default(false)] extended: bool) -> Result<Map> {
    if !extended {
        return ctx.blocking(|| read("/proc/self/mounts").map(|text| mounts(&text)));
    }
    let devices = match crate::util::which("blkid") {
        // The kernel knows neither UUIDs nor labels.
        Some(_) => ctx.call("disk.blkid", Vec::new())?.into_map().unwrap_or_default(),
        None => Map::new(),
    };
    ctx.blocking(move || read("/proc/self/mountinfo").map(|text| mountinfo(&text, &devices)))
}

/// Returns the table of file systems to be mounted, by where.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.fstab
#[function]
fn fstab(ctx: &Context, #[default("/etc/fstab")] config: String) -> Result<Map> {
    ctx.blocking(move || {
        if !Path::new(&config).is_file() {
            return Ok(Map::new());
        }
        read(&config).map(|text| table(&text))
    })
}

fn table(text: &str) -> Map {
    let mut found = Map::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let [device, name, kind, opts, rest @ ..] = &line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        if rest.len() > 2 {
            continue;
        }
        let entry = map! {
            "device" => *device,
            "fstype" => *kind,
            "opts" => opts.split(',').collect::<Vec<_>>(),
            "dump" => rest.first().copied().unwrap_or("0"),
            "pass" => rest.get(1).copied().unwrap_or("0"),
        };
        // Underscores distinguish several lines for one place.
        let mut name = (*name).to_owned();
        while found.contains_key(&name) {
            name.push('_');
        }
        found.insert(name, entry);
    }
    found
}

/// Returns the mount point of the file system of a path.
fn mount_point(path: &str) -> String {
    let real = paths::real(path);
    let mut place = Path::new(&real);
    let device = |path: &Path| std::fs::symlink_metadata(path).ok().map(|meta| meta.dev());
    while let Some(parent) = place.parent() {
        // The number of the device changes where a file system is mounted. A path that does not exist has none, so its
        // parents are tried.
        if device(place).is_some() && device(place) != device(parent) {
            break;
        }
        place = parent;
    }
    place.to_string_lossy().into_owned()
}

/// Returns the device that holds a path.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.get_device_from_path /
#[function]
fn get_device_from_path(ctx: &Context, path: String) -> Result<Value> {
    ctx.blocking(move || {
        let mounts = mounts(&read("/proc/self/mounts")?);
        Ok(mounts.get(&mount_point(&path)).and_then(|entry| entry.get("device")).cloned().unwrap_or_default())
    })
}

/// Returns where the file system of a path is mounted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.get_mount_from_path /opt/some/nested/path
#[function]
fn get_mount_from_path(ctx: &Context, path: String) -> Result<String> {
    Ok(ctx.blocking(move || mount_point(&path)))
}

/// Returns whether something is mounted at a place.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.is_mounted /mnt/share
#[function]
fn is_mounted(ctx: &Context, name: String) -> Result<bool> {
    ctx.blocking(move || Ok(mounts(&read("/proc/self/mounts")?).contains_key(&name)))
}

/// Returns the active swap spaces.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.swaps
#[function]
fn swaps(ctx: &Context) -> Result<Map> {
    ctx.blocking(|| read("/proc/swaps").map(|text| swap_spaces(&text)))
}

fn swap_spaces(text: &str) -> Map {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("Filename"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|fields| fields.len() >= 5)
        .map(|f| (f[0], map! { "type" => f[1], "size" => f[2], "used" => f[3], "priority" => f[4] }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn the_kernels_tables_are_read() {
        let found = mounts("/dev/vda / ext4 rw,uid=0 0 0\nbroken\n");
        let expected = map! { "device" => "/dev/vda", "alt_device" => "/dev/vda", "fstype" => "ext4", "opts" => list!["rw", "uid=root"] };
        assert_eq!(found, map! { "/" => expected });
        let line = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let devices = map! { "/dev/root" => map! { "UUID" => "AB", "LABEL" => "sys" } };
        let found = Value::from(mountinfo(line, &devices));
        assert_eq!(found.traverse("/mnt2:device_uuid", ":"), Some(&"ab".into()));
        assert_eq!(found.traverse("/mnt2:superopts", ":"), Some(&list!["rw", "errors=continue"]));
        let found = swap_spaces("Filename Type Size Used Priority\n/dev/dm-1 partition 100 0 -2\n");
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn the_table_of_mounts_is_read() {
        let text =
            "# remark\nUUID=1 / ext4 defaults,noatime 0 1\nnone /tmp tmpfs defaults\nx /tmp tmpfs ro 0 0\nbad line\n";
        let found = table(text);
        // A second mount at a place gets its own key, as in Salt.
        assert_eq!(found.text_keys().collect::<Vec<_>>(), ["/", "/tmp", "/tmp_"]);
        let root = map! { "device" => "UUID=1", "fstype" => "ext4", "opts" => list!["defaults", "noatime"], "dump" => "0", "pass" => "1" };
        assert_eq!(found.get("/"), Some(&root.into()));
    }

    #[test]
    fn paths_lie_on_mounts() {
        assert_eq!(mount_point("/proc/self/status"), "/proc");
        assert_eq!(mount_point("/"), "/");
    }
}
