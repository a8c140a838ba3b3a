//! `sysctl` — the kernel's settings.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, list};

use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "sysctl",
    "Functions that look at the kernel's settings and change them.",
    &[&ASSIGN, &DEFAULT_CONFIG, &GET, &PERSIST, &SHOW],
);

const ROOT: &str = "/proc/sys";

/// Returns the path of a setting. As in `sysctl`, the first separator decides whether dots or slashes separate the parts; the
/// other one is part of a name: `net.ipv4.conf.eth0/1` is `net/ipv4/conf/eth0.1`.
fn path(name: &str) -> Option<PathBuf> {
    let is_path = name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/'));
    let swap = |c| match c {
        '.' if !is_path => '/',
        '/' if !is_path => '.',
        c => c,
    };
    let swapped: String = name.chars().map(swap).collect();
    // Names come from state files and must not lead out of `/proc/sys`.
    let inside = !swapped.is_empty() && !swapped.split('/').any(|part| part.is_empty() || part == "..");
    inside.then(|| Path::new(ROOT).join(swapped))
}

fn read(name: &str) -> Option<String> {
    let bytes = std::fs::read(path(name)?).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// White space between the numbers of a setting does not matter.
fn same(a: &str, b: &str) -> bool {
    // The kernel separates several numbers by tabs, users write blanks.
    a.split_whitespace().eq(b.split_whitespace())
}

fn set(name: &str, value: &str) -> Result<String> {
    let missing = || Error::execution(format!("sysctl {name} does not exist"));
    let path = path(name).filter(|path| path.is_file()).ok_or_else(missing)?;
    let refused = |error: std::io::Error| Error::execution(format!("sysctl -w failed: {name}: {error}"));
    std::fs::write(&path, format!("{value}\n")).map_err(refused)?;
    // The kernel may round what was written.
    Ok(read(name).unwrap_or_default())
}

/// Sets a value until the next reboot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysctl.assign net.ipv4.ip_forward 1
#[function]
fn assign(ctx: &Context, name: String, value: Value) -> Result<Map> {
    ctx.blocking(move || {
        let now = set(&name, &value.to_string())?;
        Ok([(name, now)].into_iter().collect())
    })
}

fn default_file() -> &'static str {
    // systemd does not read `/etc/sysctl.conf`.
    if Path::new("/run/systemd/system").exists() { "/etc/sysctl.d/99-salt.conf" } else { "/etc/sysctl.conf" }
}

/// Returns the file for permanent settings.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysctl.default_config
#[function]
fn default_config() -> Result<String> {
    Ok(default_file().into())
}

/// Returns a value.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysctl.get net.ipv4.ip_forward
#[function]
fn get(ctx: &Context, name: String) -> Result<String> {
    let asked = name.clone();
    let found = ctx.blocking(move || read(&asked));
    Ok(found.unwrap_or_else(|| {
        // Salt returns whatever `sysctl -n` prints, the error too.
        ctx.set_retcode(1);
        let place = path(&name).map_or_else(|| name.clone(), |path| path.to_string_lossy().into_owned());
        format!("sysctl: cannot stat {place}: No such file or directory")
    }))
}

/// Sets a value now and permanently.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysctl.persist net.ipv4.ip_forward 1
#[function]
fn persist(ctx: &Context, name: String, value: Value, config: Option<String>) -> Result<String> {
    ctx.blocking(move || {
        let file = PathBuf::from(config.unwrap_or_else(|| default_file().to_owned()));
        let value = value.to_string();
        let text = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "#\n# Kernel sysctl configuration\n#\n".to_owned()
            }
            done => done.map_err(|error| Error::io("read", &file, &error))?,
        };
        // The file is right, so only the running kernel may differ.
        let Some(changed) = with_setting(&text, &name, &value) else {
            if read(&name).is_some_and(|now| same(&now, &value)) {
                return Ok("Already set".to_owned());
            }
            return set(&name, &value).map(|_| "Updated".to_owned());
        };
        let written = file.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written = written.and_then(|()| util::replace_file(&file, changed.as_bytes(), 0o644));
        written.map_err(|error| Error::io("write", &file, &error))?;
        set(&name, &value).map(|_| "Updated".to_owned())
    })
}

/// Returns the text with the setting, or None if it has it already.
fn with_setting(text: &str, name: &str, value: &str) -> Option<String> {
    let mut out = String::new();
    let mut found = false;
    for line in text.lines() {
        let own = line.split_once('=').filter(|(key, _)| key.trim() == name);
        match own {
            Some((_, old)) if same(old, value) => return None,
            Some(_) => {
                found = true;
                out.push_str(&format!("{name} = {value}\n"));
            }
            None => out.push_str(&format!("{line}\n")),
        }
    }
    if !found {
        out.push_str(&format!("{name} = {value}\n"));
    }
    Some(out)
}

/// Returns all values, or those a file sets.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysctl.show
#[function]
fn show(ctx: &Context, #[default(false)] config_file: Value) -> Result<Value> {
    Ok(ctx.blocking(move || {
        if !config_file.truthy() {
            let mut found = Map::new();
            collect(Path::new(ROOT), "", &mut found);
            return Value::Map(found);
        }
        match std::fs::read_to_string(config_file.to_string()) {
            Ok(text) => Value::Map(settings(&text)),
            Err(_) => list![],
        }
    }))
}

fn settings(text: &str) -> Map {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).map(|(key, value)| (key.trim_end(), value.trim_start())).collect()
}

fn collect(directory: &Path, prefix: &str, found: &mut Map) {
    let mut entries: Vec<_> = std::fs::read_dir(directory).into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        // In a name with dots between its parts, a dot within a part is written as a slash.
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy().replace('.', "/"));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), &format!("{name}."), found);
        } else if let Some(value) = read(&name) {
            // Some settings can only be written.
            found.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths() {
        assert_eq!(path("net.ipv4.conf.eth0/1.mtu").unwrap(), Path::new("/proc/sys/net/ipv4/conf/eth0.1/mtu"));
        assert_eq!(path("net/ipv4/conf/eth0.1/mtu").unwrap(), Path::new("/proc/sys/net/ipv4/conf/eth0.1/mtu"));
        assert_eq!(path("a.//.//"), None);
        assert_eq!(path("a/../../x"), None);
        assert_eq!(path("/etc/passwd"), None);
        assert_eq!(path(""), None);
        assert!(read("kernel.ostype").is_some_and(|kernel| kernel == "Linux"));
        assert_eq!(set("no.such.name", "1").unwrap_err().to_string(), "sysctl no.such.name does not exist");
    }

    #[test]
    fn a_setting_is_written_once() {
        let text = "# a = 1\nb = 2\nc=3  4\n";
        assert_eq!(with_setting(text, "b", "5").unwrap(), "# a = 1\nb = 5\nc=3  4\n");
        assert_eq!(with_setting(text, "c", "3\t4"), None);
        assert!(with_setting(text, "a", "1").unwrap().ends_with("\na = 1\n"));
        assert_eq!(settings(text).text_keys().collect::<Vec<_>>(), ["b", "c"]);
    }
}
