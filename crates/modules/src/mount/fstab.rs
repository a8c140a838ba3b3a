//! Changing the table of file systems to be mounted.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value};

use crate::util;

/// File systems that are identified by their mount point, since their device means little.
const BY_PLACE: [&str; 14] = [
    "none",
    "tmpfs",
    "sysfs",
    "proc",
    "fusectl",
    "debugfs",
    "securityfs",
    "devtmpfs",
    "cgroup",
    "nfs",
    "nfs4",
    "glusterfs",
    "btrfs",
    "ceph",
];

const FIELDS: [&str; 6] = ["device", "name", "fstype", "opts", "dump", "pass_num"];

/// An entry of the table, or criteria for finding one: the fields in their order.
#[derive(Clone, Default)]
struct Entry([Option<String>; 6]);

impl Entry {
    fn read(line: &str) -> Option<Entry> {
        let words: Vec<&str> = line.split_whitespace().collect();
        // fstab(5) lets the last two fields be absent; with fewer than four the line means nothing.
        if line.starts_with('#') || !(4..=6).contains(&words.len()) {
            return None;
        }
        // An absent field counts as 0.
        let field = |place: usize| Some((*words.get(place).unwrap_or(&"0")).to_owned());
        Some(Entry(std::array::from_fn(field)))
    }

    fn line(&self) -> String {
        let [device, name, fstype, opts, dump, pass] =
            self.0.each_ref().map(|field| field.as_deref().unwrap_or("None"));
        format!("{device}\t\t{name}\t{fstype}\t{opts}\t{dump} {pass}\n")
    }

    /// Returns an entry with only some of the fields.
    fn pick(&self, names: &[String]) -> Result<Entry> {
        let mut picked = Entry::default();
        for name in names {
            let place = FIELDS.iter().position(|field| field == name);
            let place = place.filter(|place| self.0[*place].is_some());
            let unknown = || Error::execution(format!("Unrecognized keys in match_on: \"{}\"", names.join(", ")));
            let place = place.ok_or_else(unknown)?;
            // Fields that are not picked stay unknown and match every entry.
            picked.0[place].clone_from(&self.0[place]);
        }
        Ok(picked)
    }

    /// Returns whether all known fields equal those of an entry; options may be in any order.
    fn fits(&self, other: &Entry) -> bool {
        let sorted = |text: &str| {
            let mut options: Vec<String> = text.split(',').map(str::to_owned).collect();
            // The kernel ignores the order, and users write options in any order.
            options.sort();
            options
        };
        self.0.iter().zip(&other.0).zip(FIELDS).all(|((own, other), field)| match (own, other) {
            (None, _) => true,
            (Some(own), Some(other)) if field == "opts" => sorted(own) == sorted(other),
            (own, other) => own == other,
        })
    }
}

fn read(config: &str) -> Result<String> {
    std::fs::read_to_string(config).map_err(|error| Error::execution(format!("Couldn't read from {config}: {error}")))
}

/// Replaces the table atomically, with its owner and mode.
fn write(config: &str, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| Error::execution(format!("File not writable {config}: {error}"));
    // A link to a file elsewhere must stay a link.
    let path = Path::new(config).canonicalize().map_err(failed)?;
    let meta = path.metadata().map_err(failed)?;
    util::replace_file(&path, text.as_bytes(), meta.mode() & 0o7777).map_err(failed)?;
    // Only root may give a file away; in tests the owner is right anyway.
    if nix::unistd::geteuid().is_root() {
        chown(&path, Some(meta.uid()), Some(meta.gid())).map_err(failed)?;
    }
    Ok(())
}

/// Returns the table without the matching entries; `None` if there are none.
fn without(text: &str, entry: &Entry) -> Option<String> {
    let fits = |line: &&str| !Entry::read(line).is_some_and(|other| entry.fits(&other));
    let rest: String = text.split_inclusive('\n').filter(fits).collect();
    (rest != text).then_some(rest)
}

/// Returns the table with an entry, and the action: "present", "change" or "new".
fn with(text: &str, entry: &Entry, criteria: &Entry, keep: bool) -> (String, &'static str) {
    let (mut out, mut done) = (String::new(), None);
    for line in text.split_inclusive('\n') {
        match Entry::read(line).filter(|other| criteria.fits(other)) {
            Some(other) if !entry.fits(&other) && !keep => {
                out.push_str(&entry.line());
                done = Some("change");
            }
            Some(_) => {
                out.push_str(line);
                // The last matching line decides what is reported, as in Salt.
                done = Some("present");
            }
            None => out.push_str(line),
        }
    }
    if done.is_none() {
        // Otherwise the new entry would be appended to the last line and break both.
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&entry.line());
    }
    (out, done.unwrap_or("new"))
}

/// Returns the fields that identify an entry.
fn criteria(match_on: &Value, fstype: &str) -> Result<Vec<String>> {
    match match_on {
        Value::List(names) => Ok(names.iter().map(Value::to_string).collect()),
        Value::Str(name) if name == "auto" => {
            Ok(vec![if BY_PLACE.contains(&fstype) { "name".into() } else { "device".into() }])
        }
        Value::Str(name) => Ok(vec![name.clone()]),
        _ => Err(Error::execution("match_on must be a string or list of strings")),
    }
}

/// Removes a file system from the table; returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.rm_fstab /mnt/foo /dev/sdg
#[function]
fn rm_fstab(ctx: &Context, name: String, device: Value, #[default("/etc/fstab")] config: String) -> Result<bool> {
    let device = (!device.is_null()).then(|| device.to_string());
    let entry = Entry([device, Some(name), None, None, None, None]);
    ctx.blocking(move || {
        if let Some(rest) = without(&read(&config)?, &entry) {
            write(&config, &rest)?;
        }
        Ok(true)
    })
}

/// Makes sure that a file system is in the table. Returns "present", "change" or "new"; with ``test`` the table is not
/// changed. ``match_on`` names the fields that identify the entry; ``not_change`` keeps an entry that differs.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.set_fstab /mnt/foo /dev/sdz1 ext4
#[function]
fn set_fstab(
    ctx: &Context,
    name: String,
    device: String,
    fstype: String,
    #[default("defaults")] opts: Value,
    #[default(0)] dump: Value,
    #[default(0)] pass_num: Value,
    #[default("/etc/fstab")] config: String,
    #[default(false)] test: bool,
    #[default("auto")] match_on: Value,
    #[default(false)] not_change: bool,
    kwargs: KwArgs,
) -> Result<String> {
    let _: Map = kwargs.given();
    // States write a blank as `\ `; fstab wants it in octal, or the fields would shift.
    let escaped = |text: &str| text.replace("\\ ", "\\040");
    let opts = match opts {
        Value::List(opts) => opts.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    };
    let criteria = criteria(&match_on, &fstype)?;
    let text = |value: Value| (!value.is_null()).then(|| value.to_string());
    let entry =
        Entry([Some(escaped(&device)), Some(name), Some(fstype), Some(escaped(&opts)), text(dump), text(pass_num)]);
    let criteria = entry.pick(&criteria)?;
    ctx.blocking(move || {
        if !Path::new(&config).is_file() {
            return Err(Error::execution(format!("Bad config file \"{config}\"")));
        }
        let (text, done) = with(&read(&config)?, &entry, &criteria, not_change);
        // Salt reports what it would do in test mode with the same words.
        if done != "present" && !test {
            write(&config, &text)?;
        }
        Ok(done.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_a_last_newline_is_not_broken() {
        let entry = Entry::read("/dev/b /b ext4 ro 0 0").unwrap();
        let (text, done) = with("/dev/a / ext4 rw", &entry, &entry, false);
        assert_eq!((text.as_str(), done), ("/dev/a / ext4 rw\n/dev/b\t\t/b\text4\tro\t0 0\n", "new"));
    }
}
