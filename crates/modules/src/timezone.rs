//! `timezone` — the system's time zone.

use std::path::Path;

use exec::{Context, Error, Module, Result, function};
use grains::system::local_time;

use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "timezone",
    "Functions that look at the system's time zone and set it.",
    &[&GET_HWCLOCK, &GET_OFFSET, &GET_ZONE, &GET_ZONECODE, &SET_HWCLOCK, &SET_ZONE, &ZONE_COMPARE],
);

const ZONES: &str = "/usr/share/zoneinfo";

/// Finds the zone below a root: the target of `/etc/localtime`, the content of `/etc/timezone`, or else the zone with
/// the same content.
fn zone(root: &Path) -> Option<String> {
    let localtime = root.join("etc/localtime");
    // The link is what the C library follows. `/etc/timezone` may be stale.
    if let Ok(target) = std::fs::read_link(&localtime) {
        let path = crate::file::paths::normalize(&Path::new("/etc").join(target).to_string_lossy());
        if let Some((_, name)) = path.split_once("/zoneinfo/") {
            return Some(name.to_owned());
        }
    }
    let named = std::fs::read_to_string(root.join("etc/timezone")).ok().map(|text| text.trim().to_owned());
    named
        .filter(|name| !name.is_empty())
        // `/etc/localtime` may be a copy, and then only its content reveals the zone.
        .or_else(|| same_zone(&std::fs::read(localtime).ok()?, &root.join(&ZONES[1..]), ""))
}

/// Looks for a zone with this content; names begin with a capital.
fn same_zone(content: &[u8], directory: &Path, prefix: &str) -> Option<String> {
    let mut entries: Vec<_> = std::fs::read_dir(directory).ok()?.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    entries.into_iter().find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Leaves out `posix/`, `right/` and the tables.
        if !name.starts_with(|c: char| c.is_ascii_uppercase()) {
            return None;
        }
        if entry.path().is_dir() {
            return same_zone(content, &entry.path(), &format!("{prefix}{name}/"));
        }
        (std::fs::read(entry.path()).ok()? == content).then(|| format!("{prefix}{name}"))
    })
}

fn current(ctx: &Context) -> Result<String> {
    ctx.blocking(|| zone(Path::new("/"))).ok_or_else(|| Error::execution("Unable to get timezone"))
}

/// Returns whether the hardware clock runs in UTC or in local time.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' timezone.get_hwclock
#[function]
fn get_hwclock(ctx: &Context) -> Result<String> {
    let text = ctx.blocking(|| std::fs::read_to_string("/etc/adjtime").unwrap_or_default());
    // The third line of adjtime(5), and UTC when there is none.
    let local = text.lines().nth(2).is_some_and(|line| line.trim() == "LOCAL");
    Ok(if local { "localtime" } else { "UTC" }.into())
}

/// Returns the offset of local time from UTC, as `+0100`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' timezone.get_offset
#[function]
fn get_offset() -> Result<String> {
    let time = local_time(None).ok_or_else(|| Error::execution("Unable to get timezone"))?;
    Ok(offset(time.offset))
}

fn offset(seconds: i64) -> String {
    let minutes = seconds.abs() / 60;
    format!("{}{:02}{:02}", if seconds < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
}

/// Returns the system's time zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' timezone.get_zone
#[function]
fn get_zone(ctx: &Context) -> Result<String> {
    current(ctx)
}

/// Returns the short name of the time zone, as `CET`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' timezone.get_zonecode
#[function]
fn get_zonecode() -> Result<String> {
    grains::system::zone_name().ok_or_else(|| Error::execution("Unable to get timezone"))
}

/// Makes the hardware clock run in ``UTC`` or in ``localtime``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' timezone.set_hwclock UTC
#[function]
fn set_hwclock(ctx: &Context, clock: String) -> Result<bool> {
    if !["UTC", "localtime"].contains(&clock.as_str()) {
        return Err(Error::invocation("Hardware clock must be either 'UTC' or 'localtime'"));
    }
    let local = clock == "localtime";
    if util::which("timedatectl").is_some() && Path::new("/run/systemd/system").exists() {
        let said =
            crate::subprocess::quiet(ctx, &["timedatectl", "set-local-rtc", if local { "true" } else { "false" }])?;
        return Ok(said.retcode == Some(0));
    }
    let said = crate::subprocess::quiet(ctx, &["hwclock", if local { "--localtime" } else { "--utc" }, "--systohc"])?;
    Ok(said.retcode == Some(0))
}

/// Sets the system's time zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' timezone.set_zone 'America/Denver'
#[function]
fn set_zone(ctx: &Context, timezone: String) -> Result<value::Value> {
    let debian = ["Debian", "Gentoo"].contains(&ctx.grains.get_str("os_family").unwrap_or_default());
    ctx.blocking(move || {
        let path = format!("{ZONES}/{timezone}");
        if timezone.contains("..") || !Path::new(&path).is_file() {
            return Ok(value::Value::from(format!("Zone does not exist: {path}")));
        }
        link_zone(&path).map_err(|error| Error::io("set", "/etc/localtime", &error))?;
        if debian {
            let text = format!("{}\n", timezone.trim());
            let file = Path::new("/etc/timezone");
            util::replace_file(file, text.as_bytes(), 0o644).map_err(|error| Error::io("write", file, &error))?;
        }
        Ok(value::Value::Bool(true))
    })
}

/// Replaces the link by a rename, so that no program ever finds none.
fn link_zone(target: &str) -> std::io::Result<()> {
    let beside = tempfile::Builder::new().make_in("/etc", |path| std::os::unix::fs::symlink(target, path))?;
    beside.into_temp_path().persist("/etc/localtime").map_err(|error| error.error)
}

/// Returns whether the system's time zone is this one, by content; by name where there is no `/etc/localtime`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' timezone.zone_compare 'America/Denver'
#[function]
fn zone_compare(ctx: &Context, timezone: String) -> Result<bool> {
    let wanted = read_zone(&timezone)?;
    match std::fs::read("/etc/localtime") {
        Ok(set) => Ok(set == wanted),
        Err(_) => Ok(current(ctx)? == timezone),
    }
}

fn read_zone(name: &str) -> Result<Vec<u8>> {
    let path = format!("{ZONES}/{name}");
    std::fs::read(path).map_err(|_| Error::invocation(format!("Can't find a local timezone \"{name}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_zone_that_is_none_is_named() {
        for name in ["No/Where", ""] {
            let why = read_zone(name).unwrap_err().to_string();
            assert_eq!(why, format!("Can't find a local timezone \"{name}\""));
        }
    }

    #[test]
    fn the_zone_is_found_in_every_way() {
        let folder = tempfile::tempdir().unwrap();
        let etc = folder.path().join("etc");
        let zones = folder.path().join("usr/share/zoneinfo/Europe");
        std::fs::create_dir_all(&etc).unwrap();
        std::fs::create_dir_all(&zones).unwrap();
        std::fs::write(zones.join("Berlin"), "berlin").unwrap();
        assert_eq!(zone(folder.path()), None);
        std::fs::write(etc.join("localtime"), "berlin").unwrap();
        assert_eq!(zone(folder.path()).as_deref(), Some("Europe/Berlin"));
        std::fs::write(etc.join("timezone"), "Asia/Tokyo\n").unwrap();
        assert_eq!(zone(folder.path()).as_deref(), Some("Asia/Tokyo"));
        std::fs::remove_file(etc.join("localtime")).unwrap();
        symlink("../usr/share/zoneinfo/America/New_York", etc.join("localtime")).unwrap();
        assert_eq!(zone(folder.path()).as_deref(), Some("America/New_York"));
    }

    #[test]
    fn offsets_have_signs() {
        assert_eq!(offset(0), "+0000");
        assert_eq!(offset(-12_600), "-0330");
        assert_eq!(offset(7_200), "+0200");
    }
}
