//! Copies of files that states replaced, below `file_backup` in the cache directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use exec::{Context, Result, function};
use grains::system::{LocalTime, local_time};
use value::{Map, Value, map};

use super::os_error;
use super::paths::{expand_user, split};

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time of a copy. The fields are in the order they sort by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    year: i32,
    month: usize,
    day: u32,
    time: String,
    micros: u32,
    weekday: String,
}

impl Stamp {
    /// Reads `Fri_Nov_20_11:15:00_123456_2026`.
    fn parse(text: &str) -> Option<Self> {
        // Salt names copies with strftime: English day and month, separated by underscores.
        let [weekday, month, day, time, micros, year] = text.split('_').collect::<Vec<_>>()[..] else { return None };
        let month = MONTHS.iter().position(|name| *name == month)?;
        let clock = time.len() == 8 && time.split(':').count() == 3;
        let known = WEEKDAYS.contains(&weekday) && clock;
        known.then_some(Stamp {
            year: year.parse().ok()?,
            month,
            day: day.parse().ok()?,
            time: time.to_owned(),
            micros: micros.parse().ok()?,
            weekday: weekday.to_owned(),
        })
    }

    fn of(time: &LocalTime, micros: u32) -> Self {
        let weekday = usize::try_from(time.weekday).unwrap_or(0);
        Stamp {
            year: time.year,
            month: usize::try_from(time.month - 1).unwrap_or(0),
            day: u32::try_from(time.day).unwrap_or(1),
            time: format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second),
            micros,
            weekday: WEEKDAYS[weekday % 7].to_owned(),
        }
    }

    fn suffix(&self) -> String {
        let month = MONTHS[self.month % 12];
        format!("{}_{month}_{:02}_{}_{:06}_{}", self.weekday, self.day, self.time, self.micros, self.year)
    }

    fn as_python_prints(&self) -> String {
        let month = MONTHS[self.month % 12];
        format!("{} {month} {:02} {} {}.{:06}", self.weekday, self.day, self.year, self.time, self.micros)
    }
}

fn root(ctx: &Context) -> PathBuf {
    Path::new(ctx.cachedir()).join("file_backup")
}

/// The copies of one file, newest first.
fn copies(root: &Path, path: &str, limit: Option<usize>) -> Vec<Map> {
    let (directory, name) = split(path);
    let directory = root.join(directory.trim_start_matches('/'));
    let Ok(entries) = fs::read_dir(&directory) else { return Vec::new() };
    let mut found: Vec<(Stamp, PathBuf, u64)> = entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().to_string_lossy().into_owned();
            // The stamp is checked, or the copies of `a_b` would show up among those of `a`.
            let stamp = Stamp::parse(file.strip_prefix(name)?.strip_prefix('_')?)?;
            let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((stamp, entry.path(), meta.len()))
        })
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0));
    found.truncate(limit.unwrap_or(usize::MAX));
    let show = |(stamp, path, size): (Stamp, PathBuf, u64)| {
        map! { "Backup Time" => stamp.as_python_prints(), "Size" => size, "Location" => path.to_string_lossy() }
    };
    found.into_iter().map(show).collect()
}

fn numbered(copies: Vec<Map>) -> Map {
    copies.into_iter().enumerate().collect()
}

fn limit_of(limit: &Value) -> Option<usize> {
    let number = limit.as_i64().or_else(|| limit.as_str()?.parse().ok());
    if number.is_none() && !limit.is_null() {
        // Salt logs this and lists all copies.
        tracing::error!("file.list_backups: 'limit' value must be numeric");
    }
    number.and_then(|number| usize::try_from(number).ok())
}

/// Returns the backups of a file, newest first, by number.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.list_backups /foo/bar/baz.txt
#[function]
pub fn list_backups(ctx: &Context, path: String, #[default(Value::Null)] limit: Value) -> Result<Map> {
    let root = root(ctx);
    Ok(ctx.blocking(move || numbered(copies(&root, &expand_user(&path), limit_of(&limit)))))
}

/// Returns the backups of a file, as ``file.list_backups``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.list_backup /foo/bar/baz.txt
#[function]
pub fn list_backup(ctx: &Context, path: String, #[default(Value::Null)] limit: Value) -> Result<Map> {
    list_backups(ctx, path, limit)
}

/// Returns the backups of all files of a directory (named with a slash at its end).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.list_backups_dir /foo/bar/
#[function]
pub fn list_backups_dir(ctx: &Context, path: String, #[default(Value::Null)] limit: Value) -> Result<Map> {
    let root = root(ctx);
    Ok(ctx.blocking(move || {
        let path = expand_user(&path);
        let parent = split(&path).0;
        let directory = root.join(parent.trim_start_matches('/'));
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| original_name(&entry.file_name().to_string_lossy()).map(str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        let listed = |name: String| {
            let found = copies(&root, &format!("{parent}/{name}"), limit_of(&limit));
            (name, numbered(found))
        };
        names.into_iter().map(listed).collect()
    }))
}

/// Returns the name of the original: what precedes the six parts of the stamp.
fn original_name(file: &str) -> Option<&str> {
    // Counted from the end, since the name of the file may hold underscores.
    let (place, _) = file.rmatch_indices('_').nth(5)?;
    Stamp::parse(&file[place + 1..]).map(|_| &file[..place])
}

/// Restores a backup of a file; the current file is backed up in turn.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.restore_backup /foo/bar/baz.txt 0
#[function]
pub fn restore_backup(ctx: &Context, path: String, backup_id: Value) -> Result<Map> {
    let root = root(ctx);
    ctx.blocking(move || {
        let path = expand_user(&path);
        let source = match location(&root, &path, &backup_id) {
            Ok(source) => source,
            Err(comment) => return Ok(answer(false, comment)),
        };
        // The present file is kept as well, so a restore can be undone.
        if Path::new(&path).exists() {
            keep(&root, &path)?;
        }
        Ok(match fs::read(&source).and_then(|content| fs::write(&path, content)) {
            Ok(()) => answer(true, format!("Successfully restored {source} to {path}")),
            Err(error) => answer(false, format!("Unable to restore {source} to {path}: {error}")),
        })
    })
}

/// Removes a backup.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.delete_backup /foo/bar/baz.txt 0
#[function]
pub fn delete_backup(ctx: &Context, path: String, backup_id: Value) -> Result<Map> {
    let root = root(ctx);
    Ok(ctx.blocking(move || match location(&root, &expand_user(&path), &backup_id) {
        Err(comment) => answer(false, comment),
        Ok(copy) => match fs::remove_file(&copy) {
            Ok(()) => answer(true, format!("Successfully removed {copy}")),
            Err(error) => answer(false, format!("Unable to remove {copy}: {error}")),
        },
    }))
}

/// Removes a backup, as ``file.delete_backup``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.remove_backup /foo/bar/baz.txt 0
#[function]
pub fn remove_backup(ctx: &Context, path: String, backup_id: Value) -> Result<Map> {
    delete_backup(ctx, path, backup_id)
}

fn answer(result: bool, comment: String) -> Map {
    map! { "result" => result, "comment" => comment }
}

fn location(root: &Path, path: &str, id: &Value) -> std::result::Result<String, String> {
    let number: usize = id.to_string().parse().map_err(|_| format!("Invalid backup_id '{id}'"))?;
    let copies = copies(root, path, None);
    let missing = || format!("backup_id '{id}' does not exist for {path}");
    copies.get(number).and_then(|copy| copy.get_str("Location")).map(str::to_owned).ok_or_else(missing)
}

/// Copies a file into the backup directory, with its owner and the permissions of owner and group.
pub fn keep(root: &Path, path: &str) -> Result<()> {
    let (directory, name) = split(path);
    let directory = root.join(directory.trim_start_matches('/'));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let Some(time) = local_time(i64::try_from(now.as_secs()).ok()) else {
        return Err(exec::Error::execution(format!("failed to tell the time for a copy of {path}")));
    };
    let copy = directory.join(format!("{name}_{}", Stamp::of(&time, now.subsec_micros()).suffix()));
    let done = store::disk::make_directories(&directory).and_then(|()| {
        let meta = fs::metadata(path)?;
        // Readable only for the minion until owner and mode are set: the file may be a secret. An existing copy or link
        // is never written to.
        let mut kept = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy)?;
        std::io::copy(&mut fs::File::open(path)?, &mut kept)?;
        std::os::unix::fs::chown(&copy, Some(meta.uid()), Some(meta.gid()))?;
        // Closed to other users, like everything the minion keeps: an old version may contain a secret.
        fs::set_permissions(&copy, fs::Permissions::from_mode(meta.mode() & 0o750))
    });
    done.map_err(|error| os_error(&error, &copy.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_kept_listed_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("file_backup");
        // With an underscore, because the stamp behind the name holds some, too.
        let path = folder.path().join("a_b.txt").to_str().unwrap().to_owned();
        // Of different lengths, so that the sizes distinguish the copies.
        for content in ["one", "twoo"] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o2755)).unwrap();
            keep(&root, &path).unwrap();
        }
        let found = copies(&root, &path, None);
        let sizes: Vec<_> = found.iter().map(|copy| copy.get("Size").cloned().unwrap()).collect();
        assert_eq!(sizes, [Value::Int(4), Value::Int(3)]);
        assert_eq!(copies(&root, &path, Some(1)).len(), 1);
        let oldest = location(&root, &path, &Value::Int(1)).unwrap();
        assert_eq!(fs::read_to_string(&oldest).unwrap(), "one");
        assert_eq!(fs::metadata(&oldest).unwrap().mode() & 0o7777, 0o750, "closed to other users");
        let file = Path::new(&oldest).file_name().unwrap().to_str().unwrap();
        assert_eq!(original_name(file), Some("a_b.txt"));
        assert_eq!(location(&root, &path, &"x".into()), Err("Invalid backup_id 'x'".into()));
        assert_eq!(location(&root, &path, &Value::Int(5)), Err(format!("backup_id '5' does not exist for {path}")));
    }

    #[test]
    fn stamps_read_back() {
        let text = "Fri_Nov_20_11:15:00_123456_2026";
        let stamp = Stamp::parse(text).unwrap();
        assert_eq!(stamp.suffix(), text);
        assert_eq!(stamp.as_python_prints(), "Fri Nov 20 2026 11:15:00.123456");
        assert_eq!(Stamp::parse("Fri_Nov_20"), None);
        assert_eq!(Stamp::parse("Xxx_Nov_20_11:15:00_123456_2026"), None);
    }
}
