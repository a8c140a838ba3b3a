//! `file.tidied`.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use exec::{Context, Error, Result, function};
use grains::system::local_time;
use modules::file::paths::expand_user;
use python::calendar::days_of;
use targeting::PyRegex;
use value::Value;

use super::common::{join, start};
use super::symlink::remove;
use super::walk;
use crate::Ret;

/// The conditions for a file to be removed.
struct Rule {
    age: i64,
    size: i64,
    both: bool,
    only: Option<String>,
    time: String,
    matches: Vec<PyRegex>,
    exclude: Vec<PyRegex>,
    full_path: bool,
    rmdirs: bool,
    rmlinks: bool,
    follow: bool,
    today: i64,
}

/// The day of a time, counted from 1970, in the machine's time zone.
fn day_of(seconds: Option<i64>) -> Option<i64> {
    let time = local_time(seconds)?;
    Some(days_of(time.year.into(), time.month.into(), time.day.into()))
}

impl Rule {
    fn is_due(&self, name: &str, path: &str, meta: &Metadata) -> bool {
        let is_link = Path::new(path).is_symlink();
        let deletable = if is_link { self.rmlinks } else { !meta.is_dir() || self.rmdirs };
        // Only regular files have a size here. Directories and links count as empty, so a `size`
        // above zero never selects them.
        let size = if is_link || meta.is_dir() { 0 } else { i64::try_from(meta.size()).unwrap_or(i64::MAX) };
        let seconds = match self.time.as_str() {
            "ctime" => meta.ctime(),
            "mtime" => meta.mtime(),
            _ => meta.atime(),
        };
        // Ages are counted in calendar days of the local time zone, not in spans of 24 hours. A
        // time stamp in the future counts by its distance, as in Salt.
        let age = day_of(Some(seconds)).map_or(0, |day| (self.today - day).abs());
        let (old, large) = (age >= self.age, size >= self.size);
        let due = match self.only.as_deref() {
            Some("age") => old,
            Some(_) => large,
            None if self.both => old && large,
            None => old || large,
        };
        // The patterns have to match from the start of the text, as with Python's `re.match`.
        let text = if self.full_path { path } else { name };
        let named = self.matches.iter().any(|regex| regex.is_match(text));
        due && deletable && named && !self.exclude.iter().any(|regex| regex.is_match(text))
    }

    /// Collects the entries that are due, deepest entries first.
    fn collect(&self, root: &str, level: usize, due: &mut Vec<String>) {
        let step = walk::step(root);
        for name in &step.dirs {
            let path = join(root, name);
            // The bound keeps `followlinks` from running forever in a cycle of links, where Salt
            // would recurse until the path gets too long.
            if level < 200 && (self.follow || !Path::new(&path).is_symlink()) {
                self.collect(&path, level + 1, due);
            }
        }
        // A directory comes after everything inside it, so that it can be removed when its turn
        // comes.
        for name in step.files.iter().chain(&step.dirs) {
            let path = join(root, name);
            let meta = if Path::new(&path).is_symlink() { fs::symlink_metadata(&path) } else { fs::metadata(&path) };
            match meta {
                Ok(meta) if self.is_due(name, &path, &meta) => due.push(path),
                Ok(_) => {}
                // The file may have gone since the directory was read, or may be unreadable.
                // Neither stops the state.
                Err(error) => tracing::warn!("Unable to read {path}: {error}"),
            }
        }
    }
}

fn patterns(given: &Value) -> Result<Vec<PyRegex>> {
    let list = match given {
        Value::Null => Vec::new(),
        Value::List(many) => many.iter().map(Value::to_string).collect(),
        // As in Salt each character of a text is a pattern.
        one => one.to_string().chars().map(|c| c.to_string()).collect(),
    };
    list.iter().map(|pattern| PyRegex::new(pattern).map_err(|error| Error::Other(error.to_string()))).collect()
}

/// Removes files of a directory that are old or large.
#[function]
pub fn tidied(
    ctx: &Context,
    name: String,
    #[default(0)] age: i64,
    #[default(Value::Null)] matches: Value,
    #[default(false)] rmdirs: bool,
    #[default(0)] size: Value,
    #[default(Value::Null)] exclude: Value,
    #[default(false)] full_path_match: bool,
    #[default(false)] followlinks: bool,
    #[default("atime")] time_comparison: Value,
    #[default("OR")] age_size_logical_operator: String,
    #[default(Value::Null)] age_size_only: Value,
    #[default(true)] rmlinks: bool,
    kwargs: exec::KwArgs,
) -> Result<Ret> {
    let _ = kwargs;
    let name = expand_user(&name);
    let mut ret = start(&name);
    if !name.starts_with('/') {
        return Ok(ret.fail(format!("Specified file {name} is not an absolute path")));
    }
    if !Path::new(&name).is_dir() {
        return Ok(ret.fail(format!("{name} does not exist or is not a directory.")));
    }
    // Anything but `ctime` and `mtime` means `atime`, even a typing error.
    let time = time_comparison.as_str().unwrap_or_default().to_lowercase();
    let only = age_size_only.as_str().map(str::to_lowercase).filter(|only| ["age", "size"].contains(&only.as_str()));
    let rule = Rule {
        age,
        size: match &size {
            Value::Str(text) => bytes_of(text),
            other => other.as_i64().unwrap_or(0),
        },
        // Salt compares with "AND" exactly; a lower-case "and" is accepted here, too.
        both: age_size_logical_operator.eq_ignore_ascii_case("and"),
        only,
        time,
        matches: if matches.is_null() { patterns(&value::list![".*"])? } else { patterns(&matches)? },
        exclude: patterns(&exclude)?,
        full_path: full_path_match,
        rmdirs,
        rmlinks,
        follow: followlinks,
        today: day_of(None).unwrap_or(0),
    };
    let mut due = Vec::new();
    rule.collect(&name, 0, &mut due);
    if due.is_empty() {
        return Ok(ret.ok(format!("Nothing to remove from directory {name}")));
    }
    if ctx.is_test() {
        ret.changes.insert("removed", due);
        return Ok(ret.would(format!("{name} is set for tidy")));
    }
    let mut removed = Vec::new();
    for path in &due {
        let done = remove(ctx, path);
        if done.is_ok() {
            removed.push(path.as_str());
        }
        // Written in each round, so that a failure half way still reports the removed entries.
        ret.changes.insert("removed", removed.clone());
        match done {
            Ok(()) => {}
            Err(error) => return Ok(ret.fail(error.to_string())),
        }
    }
    Ok(ret.ok(format!("Removed {} files or directories from directory {name}", due.len())))
}

/// Reads a size such as `10M`, `2GiB` or `3kb` (a thousand bytes); 0 for an invalid one.
fn bytes_of(text: &str) -> i64 {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let Ok(number) = number.parse::<f64>() else { return 0 };
    let unit = unit.trim().to_lowercase();
    let (letter, tail) = match unit.chars().next() {
        Some(letter) => (letter, &unit[letter.len_utf8()..]),
        None => ('b', ""),
    };
    let Some(power) = "bkmgtpezy".find(letter) else { return 0 };
    let power = i32::try_from(power).unwrap_or(0);
    // `k` and `KiB` are 1024, `kB` is 1000: Salt's `human_to_bytes` with metric units on.
    let factor = match (letter, tail) {
        ('b', "") => 1.0,
        ('b', _) => return 0,
        (_, "" | "ib") => 1024f64.powi(power),
        (_, "b") => 1000f64.powi(power),
        _ => return 0,
    };
    (number * factor) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [("10", 10), ("1k", 1024), ("2KiB", 2048), ("3kb", 3000), ("1.5M", 1_572_864), ("x", 0)] {
            assert_eq!(bytes_of(text), bytes, "{text}");
        }
    }

    #[test]
    fn days_are_counted() {
        let today = day_of(None).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
        // The local date may be a day off from UTC's.
        assert!((today - now / 86_400).abs() <= 1);
        assert_eq!(day_of(Some(now - 5 * 86_400)), Some(today - 5));
    }
}
