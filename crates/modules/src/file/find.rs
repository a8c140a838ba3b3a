//! `file.find`: paths below a directory, by their attributes.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use exec::{Context, KwArgs, Result, VarArgs, function};
use nix::unistd::{Group, User};
use targeting::PyRegex;
use value::{Map, Value};

use super::content::any_window;
use super::facts::{group_name, user_name};
use super::hash;
use super::paths::{expand_user, glob, split};

/// The letters of kinds of files, and what the kernel calls them.
const KINDS: [(char, u32); 7] = [
    ('b', 0o060_000),
    ('c', 0o020_000),
    ('d', 0o040_000),
    ('f', 0o100_000),
    ('l', 0o120_000),
    ('p', 0o010_000),
    ('s', 0o140_000),
];

fn kind_of(meta: &Metadata) -> char {
    let bits = meta.mode() & 0o170_000;
    KINDS.iter().find(|(_, kind)| *kind == bits).map_or('?', |(letter, _)| *letter)
}

/// Finds paths. Conditions: ``name``, ``iname`` (shell patterns), ``regex``, ``iregex``, ``type`` (letters of
/// ``bcdflps``), ``size`` (``+1m``), ``mtime`` (``-3d``), ``owner``, ``group``, ``grep``, ``mindepth``, ``maxdepth``. Actions:
/// ``print`` (``path,size,type,mode,mtime,user,group,md5,name``), ``delete`` (kinds), ``exec`` (with ``{}``).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.find / type=f name=\*.bak size=+10m
///     salt '*' file.find /var mtime=+30d size=+10m print=path,size,mtime
///     salt '*' file.find /var/log name=\*.[0-9] mtime=+30d size=+10m delete
#[function]
pub fn find(ctx: &Context, path: String, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut options = kwargs.given();
    let has = |word: &str| args.0.iter().any(|arg| arg.as_str() == Some(word));
    // On the command line an action may stand without a value.
    if has("delete") {
        options.insert("delete", "f");
    } else if has("print") {
        options.insert("print", "path");
    }
    Ok(ctx.blocking(move || match Finder::new(&options) {
        Ok(mut finder) => {
            // The start may be a pattern.
            glob(&expand_user(&path)).iter().for_each(|start| finder.find(start));
            finder.found.sort_by(order);
            Value::List(finder.found)
        }
        // Salt returns mistakes in the options as text.
        Err(reason) => Value::from(format!("error: {reason}")),
    }))
}

/// Sorts texts, and lists by their items.
fn order(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let differs = a.iter().zip(b).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
            differs.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        // Python could not compare values of two kinds; here they get some order rather than an error.
        _ => a.to_string().cmp(&b.to_string()),
    }
}

/// A condition a path has to meet.
enum Condition {
    Name(PyRegex),
    Kind(String),
    Owner(Vec<u32>),
    Group(Vec<u32>),
    Size(u64, u64),
    Changed { since: f64, later: bool },
    Contains(PyRegex),
}

/// The action on a path that was found.
enum Action {
    Print(Vec<String>),
    Delete,
    Run(String),
}

struct Finder {
    conditions: Vec<Condition>,
    actions: Vec<Action>,
    mindepth: i64,
    maxdepth: Option<i64>,
    test: bool,
    found: Vec<Value>,
}

impl Finder {
    fn new(options: &Map) -> std::result::Result<Self, String> {
        let number = |name: &str| -> std::result::Result<Option<i64>, String> {
            let Some(value) = options.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
            let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
            number.map(Some).ok_or_else(|| format!("invalid {name}: '{value}'"))
        };
        let mut finder = Finder {
            conditions: Vec::new(),
            actions: Vec::new(),
            mindepth: number("mindepth")?.unwrap_or(0),
            maxdepth: number("maxdepth")?,
            test: options.get("test").is_some_and(Value::truthy),
            found: Vec::new(),
        };
        for (key, value) in options.iter().filter(|(key, _)| !is_setting(key)) {
            finder.add(&key.to_string(), value)?;
        }
        // Conditions on contents are the dearest.
        finder.conditions.sort_by_key(|condition| match condition {
            Condition::Name(_) => 0,
            Condition::Contains(_) => 2,
            _ => 1,
        });
        if finder.actions.is_empty() {
            // As in find(1), printing is the action when no other is named.
            finder.actions.push(Action::Print(vec!["path".into()]));
        }
        Ok(finder)
    }

    fn add(&mut self, key: &str, value: &Value) -> std::result::Result<(), String> {
        if !value.truthy() {
            return Err(format!("missing value for \"{key}\" option"));
        }
        let text = value.to_string();
        let regex =
            |pattern: &str| PyRegex::new(pattern).map_err(|_| format!("invalid regular expression: \"{text}\""));
        // The translation is Salt's own and not fnmatch: brackets keep the meaning they have in a regular expression.
        let glob = || format!("{}$", text.replace('.', "\\.").replace('?', ".?").replace('*', ".*"));
        match key {
            "name" => self.conditions.push(Condition::Name(regex(&glob())?)),
            "iname" => self.conditions.push(Condition::Name(regex(&format!("(?i){}", glob()))?)),
            "regex" => self.conditions.push(Condition::Name(regex(&text)?)),
            "iregex" => self.conditions.push(Condition::Name(regex(&format!("(?i){text}"))?)),
            "type" => self.conditions.push(Condition::Kind(kinds(&text)?)),
            "owner" => self.conditions.push(Condition::Owner(owners(&text)?)),
            "group" => self.conditions.push(Condition::Group(groups(&text)?)),
            "size" => {
                let (least, most) = size(&text)?;
                self.conditions.push(Condition::Size(least, most));
            }
            "mtime" => self.conditions.push(changed(&text)?),
            "grep" => {
                let pattern = PyRegex::search(&text).map_err(|_| format!("invalid regular expression: \"{text}\""))?;
                self.conditions.push(Condition::Contains(pattern));
            }
            "print" => self.actions.push(Action::Print(words(&text))),
            "delete" => {
                let letters = if text.contains('a') { "bcdpfls".to_owned() } else { kinds(&text)? };
                // The value of `delete` also restricts what is found.
                self.conditions.push(Condition::Kind(letters));
                self.actions.push(Action::Delete);
            }
            "exec" => self.actions.push(Action::Run(text)),
            _ => return Err(format!("invalid option \"{key}\"")),
        }
        Ok(())
    }

    fn find(&mut self, start: &str) {
        if self.mindepth < 1 {
            self.look_at(start);
        }
        self.below(start, 1);
    }

    fn below(&mut self, directory: &str, depth: i64) {
        if self.maxdepth.is_some_and(|most| depth > most) {
            return;
        }
        let Ok(entries) = fs::read_dir(directory) else { return };
        let mut entries: Vec<_> = entries.flatten().collect();
        // The actions run in this order, so two runs do the same.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path().to_string_lossy().into_owned();
            if depth >= self.mindepth {
                self.look_at(&path);
            }
            // A directory that the action has just removed is not walked into.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.below(&path, depth + 1);
            }
        }
    }

    fn look_at(&mut self, path: &str) {
        // A link is judged by its target; one that leads nowhere by itself.
        let Some(meta) = fs::metadata(path).or_else(|_| fs::symlink_metadata(path)).ok() else { return };
        if self.conditions.iter().all(|condition| condition.fits(path, &meta)) {
            let results: Vec<Value> =
                self.actions.iter().filter_map(|action| action.carry_out(path, &meta, self.test)).collect();
            self.found.extend(results);
        }
    }
}

fn is_setting(key: &Value) -> bool {
    key.as_str().is_some_and(|key| key.starts_with('_') || ["mindepth", "maxdepth", "test"].contains(&key))
}

fn words(text: &str) -> Vec<String> {
    let words: Vec<String> = text.replace(',', " ").split_whitespace().map(str::to_owned).collect();
    if words.is_empty() { vec!["path".into()] } else { words }
}

fn kinds(text: &str) -> std::result::Result<String, String> {
    let letters: String = text.chars().filter(|c| *c != ',' && !c.is_whitespace()).collect();
    let unknown = letters.chars().find(|letter| !KINDS.iter().any(|(known, _)| known == letter));
    unknown.map_or(Ok(letters), |letter| Err(format!("invalid file type \"{letter}\"")))
}

fn owners(text: &str) -> std::result::Result<Vec<u32>, String> {
    let user = |name: &str| User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
    let number = |name: String| name.parse().ok().or_else(|| user(&name)).ok_or(format!("no such user \"{name}\""));
    words(text).into_iter().map(number).collect()
}

fn groups(text: &str) -> std::result::Result<Vec<u32>, String> {
    let group = |name: &str| Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
    let number = |name: String| name.parse().ok().or_else(|| group(&name)).ok_or(format!("no such group \"{name}\""));
    words(text).into_iter().map(number).collect()
}

/// Reads `10`, `+1m`, `-2.5k`: the least and the most bytes.
fn size(text: &str) -> std::result::Result<(u64, u64), String> {
    let text = text.trim();
    let wrong = || format!("invalid size: \"{text}\"");
    let (style, number) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.chars().next(), rest),
        None => (None, text),
    };
    let unit = |letter: char| "bkmgt".find(letter.to_ascii_lowercase()).map(|power| 1024_u64.pow(power as u32));
    let unit = number.chars().last().and_then(unit);
    let digits = if unit.is_some() { number[..number.len() - 1].trim() } else { number };
    let unit = unit.unwrap_or(1);
    let bytes = match digits.parse::<u64>() {
        Ok(count) => count.checked_mul(unit).ok_or_else(wrong)?,
        Err(_) => (digits.parse::<f64>().map_err(|_| wrong())? * unit as f64) as u64,
    };
    Ok(match style {
        Some('-') => (0, bytes),
        Some(_) => (bytes, u64::MAX),
        // `size=1k` means every size that rounds down to it.
        None => (bytes, bytes.saturating_add(unit - 1)),
    })
}

/// Reads `-3d`, `1w 2d`, `+12h`: changed within the time, or before it.
fn changed(text: &str) -> std::result::Result<Condition, String> {
    let wrong = || format!("invalid time interval: '{text}'");
    let trimmed = text.trim();
    let later = trimmed.starts_with('-');
    let mut rest = trimmed.trim_start_matches(['+', '-']);
    let (mut total, mut resolution) = (0.0, None);
    // The iterator is not reset: the units must come from large to small, as Salt's pattern asks.
    let mut units = [('w', 604_800.0), ('d', 86_400.0), ('h', 3_600.0), ('m', 60.0), ('s', 1.0)].iter();
    while !rest.trim_start().is_empty() {
        rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        let after = rest[end..].trim_start();
        let letter = after.chars().next().ok_or_else(wrong)?.to_ascii_lowercase();
        let (_, seconds) = units.find(|(unit, _)| *unit == letter).ok_or_else(wrong)?;
        total += number * seconds;
        resolution = Some(*seconds);
        rest = &after[1..];
    }
    let resolution = resolution.ok_or_else(wrong)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
    // Rounded to the smallest unit that was named.
    Ok(Condition::Changed { since: now - (total / resolution).floor() * resolution, later })
}

impl Condition {
    fn fits(&self, path: &str, meta: &Metadata) -> bool {
        match self {
            Condition::Name(regex) => regex.is_match(split(path).1),
            Condition::Kind(letters) => letters.contains(kind_of(meta)),
            Condition::Owner(uids) => uids.contains(&meta.uid()),
            Condition::Group(gids) => gids.contains(&meta.gid()),
            Condition::Size(least, most) => (*least..=*most).contains(&meta.size()),
            Condition::Changed { since, later: true } => meta.mtime() as f64 >= *since,
            Condition::Changed { since, later: false } => meta.mtime() as f64 <= *since,
            Condition::Contains(regex) => {
                meta.is_file() && any_window(path, |chunk| regex.is_match(&String::from_utf8_lossy(chunk)))
            }
        }
    }
}

impl Action {
    fn carry_out(&self, path: &str, meta: &Metadata, test: bool) -> Option<Value> {
        match self {
            Action::Print(fields) => {
                let mut values: Vec<Value> = fields.iter().filter_map(|field| printed(field, path, meta)).collect();
                // A single field is not wrapped in a list.
                if values.len() == 1 { values.pop() } else { Some(Value::List(values)) }
            }
            Action::Delete if test => Some(Value::from(path)),
            Action::Delete => {
                let place = Path::new(path);
                let done = if place.is_dir() && !place.is_symlink() {
                    fs::remove_dir_all(place)
                } else {
                    fs::remove_file(place)
                };
                done.is_ok().then(|| Value::from(path))
            }
            Action::Run(command) => Some(Value::from(run(command, path))),
        }
    }
}

fn printed(field: &str, path: &str, meta: &Metadata) -> Option<Value> {
    Some(match field {
        "path" => Value::from(path),
        "name" => Value::from(split(path).1),
        "size" => Value::from(meta.size()),
        "type" => Value::from(kind_of(meta).to_string()),
        "mode" => Value::from(meta.mode() & 0o777),
        "mtime" => Value::from(meta.mtime()),
        "user" => user_name(meta.uid()),
        "group" => group_name(meta.gid()),
        "md5" if meta.is_file() => Value::from(hash::of_file(path, "md5").unwrap_or_default()),
        "md5" => Value::from(""),
        _ => return None,
    })
}

fn run(command: &str, path: &str) -> String {
    // The path is put in before the line is split, so one with a blank becomes two words, as in Salt.
    let command = command.replace("{}", path);
    let words = python::shlex::split(&command).unwrap_or_default();
    let Some((program, args)) = words.split_first() else { return format!("{path}: Failed") };
    match std::process::Command::new(program).args(args).stdin(std::process::Stdio::null()).output() {
        Ok(output) => {
            if !output.stderr.is_empty() {
                tracing::error!("Error running command: {command}\n\n{}", String::from_utf8_lossy(&output.stderr));
            }
            format!("{command}:\n{}\n", String::from_utf8_lossy(&output.stdout))
        }
        Err(error) => {
            tracing::error!("Exception while executing command \"{command}\":\n\n{error}");
            format!("{path}: Failed")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn sizes_have_signs_and_units() {
        assert_eq!(size("10").unwrap(), (10, 10));
        // Without a sign, all sizes count that are one KiB when rounded down.
        assert_eq!(size("1k").unwrap(), (1024, 2047));
        assert_eq!(size("+1M").unwrap(), (1 << 20, u64::MAX));
        assert_eq!(size("-0.5k").unwrap(), (0, 512));
        assert_eq!(size("big").unwrap_err(), "invalid size: \"big\"");
    }

    #[test]
    fn times_are_sums_of_units() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        match changed("-1d 2h").unwrap() {
            Condition::Changed { since, later } => {
                assert!(later && (now - since - 26.0 * 3600.0).abs() < 2.0);
            }
            _ => panic!("not a time"),
        }
        // Salt's pattern takes the units only from large to small.
        for wrong in ["", "3x", "d", "1h 1d"] {
            assert!(changed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_are_found_by_conditions() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("a.txt"), "needle").unwrap();
        fs::write(folder.path().join("d/b.txt"), "hay").unwrap();
        let found = |options: Map| {
            let mut finder = Finder::new(&options).unwrap();
            finder.find(root);
            finder.found
        };
        let path = |name: &str| Value::from(format!("{root}/{name}"));
        assert_eq!(found(map! { "name" => "*.txt" }), [path("a.txt"), path("d/b.txt")]);
        assert_eq!(found(map! { "type" => "d", "mindepth" => 1 }), [path("d")]);
        assert_eq!(found(map! { "type" => "f", "maxdepth" => 1 }), [path("a.txt")]);
        assert_eq!(found(map! { "grep" => "need" }), [path("a.txt")]);
        let printed = found(map! { "iname" => "A.*", "print" => "name,size,type" });
        assert_eq!(printed, [list!["a.txt", 6, "f"]]);
        assert_eq!(found(map! { "name" => "b.txt", "delete" => "f" }), [path("d/b.txt")]);
        assert!(!folder.path().join("d/b.txt").exists());
        assert_eq!(Finder::new(&map! { "what" => 1 }).err().unwrap(), "invalid option \"what\"");
        assert_eq!(Finder::new(&map! { "name" => "" }).err().unwrap(), "missing value for \"name\" option");
    }
}
