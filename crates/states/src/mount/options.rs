//! Finds the options of a mounted file system whose difference requires a remount.

use exec::{Context, Result};
use regex::Regex;
use value::{Map, Value};

use crate::args;
use crate::support::{call, items};

/// Options that the kernel does not show.
// Options for the mount program or for fstab's readers. The kernel never reports them, so comparing
// them would remount for ever.
const INVISIBLE: [&str; 23] = [
    "_netdev",
    "actimeo",
    "bg",
    "comment",
    "defaults",
    "delay_connect",
    "direct-io-mode",
    "intr",
    "loop",
    "nointr",
    "nobootwait",
    "nofail",
    "password",
    "reconnect",
    "retry",
    "soft",
    "auto",
    "users",
    "bind",
    "nonempty",
    "transform_symlinks",
    "port",
    "backup-volfile-servers",
];

/// Options with a value that the kernel does not show.
const INVISIBLE_KEYS: [&str; 8] =
    ["actimeo", "comment", "credentials", "direct-io-mode", "password", "port", "retry", "secretfile"];

/// The arguments of the state about options.
#[derive(Default)]
pub struct OptionArgs {
    pub invisible: Value,
    pub invisible_keys: Value,
    pub ignored: Value,
    pub translated: Value,
    pub hidden: Value,
}

/// Options as a list; a text has commas between them.
pub fn list(opts: &Value) -> Vec<String> {
    match opts {
        Value::Str(text) => text.split(',').map(str::to_owned).collect(),
        other => items(other).iter().map(Value::to_string).collect(),
    }
}

fn texts(value: &Value) -> Vec<String> {
    items(value).iter().map(Value::to_string).collect()
}

/// A size such as "size=2g" in kilobytes.
fn kilobytes(option: &str) -> Option<String> {
    let found = Regex::new("^size=([0-9]+)(k|m|g)").expect("the pattern is constant").captures(option)?;
    let size: u64 = found[1].parse().ok()?;
    // The kernel reports the size of a tmpfs in kilobytes.
    let unit = match &found[2] {
        "m" => 1024,
        "g" => 1024 * 1024,
        _ => 1,
    };
    Some(format!("size={}k", size.checked_mul(unit)?))
}

/// An option with the number of the user or group it names.
fn numbered(ctx: &Context, option: String) -> Result<String> {
    let mut parts = option.split('=');
    let (key, Some(given)) = (parts.next().unwrap_or_default(), parts.next()) else { return Ok(option) };
    let fun = match key {
        "uid" => "user.info",
        "gid" => "group.info",
        _ => return Ok(option),
    };
    if !given.is_empty() && given.bytes().all(|digit| digit.is_ascii_digit()) {
        return Ok(format!("{key}={given}"));
    }
    let info = call(ctx, fun, args![given], Map::new())?;
    Ok(match info.get(key) {
        Some(number) => format!("{key}={number}"),
        // An unknown name stays as it is and then differs, which makes the problem visible.
        None => format!("{key}={given}"),
    })
}

/// The differing options.
#[derive(Debug, Default)]
pub struct Differing {
    /// The options that are not active.
    pub options: Vec<String>,
    /// The last option that was examined, in the form that was compared.
    pub last: String,
}

impl OptionArgs {
    /// Keys of options that do not count on a type of file systems.
    fn ignored(&self, fstype: &str) -> Vec<String> {
        match (self.ignored.get(fstype), fstype) {
            (Some(keys), _) => texts(keys),
            // ramfs accepts a size and ignores it.
            (None, "ramfs") => vec!["size".into()],
            (None, _) => Vec::new(),
        }
    }

    fn translated(&self, option: &str) -> String {
        match (self.translated.get(option), option) {
            (Some(other), _) => other.to_string(),
            // The short forms for NFS. The kernel reports the long one.
            (None, "tcp" | "udp") => format!("proto={option}"),
            (None, plain) => plain.to_owned(),
        }
    }

    /// Compares the options with those of the current mount.
    ///
    /// # Errors
    /// Those of the functions that look users and groups up.
    pub fn differing(&self, ctx: &Context, fstype: &str, wanted: &[String], active: &Map) -> Result<Differing> {
        let own = |name: &str| active.get(name).map(list).unwrap_or_default();
        let (shown, mut of_device) = (own("opts"), own("superopts"));
        let invisible = [texts(&self.invisible), list(&self.hidden)].concat();
        let keys = texts(&self.invisible_keys);
        let ignored = self.ignored(fstype);
        let is_key = |name: &str| INVISIBLE_KEYS.contains(&name) || keys.iter().any(|key| key == name);
        let mut found = Differing::default();
        for option in wanted {
            let mut option = self.translated(option);
            let key = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
            if is_key(&key(&option)) {
                // The value of such an option may be a secret or is rewritten by the kernel, so
                // only the key is compared.
                option = key(&option);
            }
            option = kilobytes(&option).unwrap_or(option);
            // mount.cifs takes `user`, the kernel reports `username`.
            if fstype == "cifs" && key(&option) == "user" {
                option = format!("username={}", option.split('=').nth(1).unwrap_or_default());
            }
            if ignored.contains(&key(&option)) {
                option = key(&option);
            }
            option = numbered(ctx, option)?;
            // As in Salt, an active size counts for every option.
            if let Some(place) = of_device.iter().position(|shown| kilobytes(shown).is_some()) {
                option = kilobytes(&of_device.remove(place)).unwrap_or_default();
                of_device.push(option.clone());
            }
            let hidden = INVISIBLE.contains(&option.as_str()) || invisible.contains(&option) || is_key(&option);
            if !shown.contains(&option) && !of_device.contains(&option) && !hidden && !ignored.contains(&option) {
                found.options.push(option.clone());
            }
            found.last = option;
        }
        Ok(found)
    }
}
