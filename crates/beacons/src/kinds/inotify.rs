//! `inotify` — changes of files, reported by the kernel.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use exec::Context;
use fancy_regex::Regex;
use futures_util::future::BoxFuture;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::net::unix::pipe::Receiver;
use value::{Map, Value, map};

use crate::config::{flat, is_on, list};
use crate::{Found, Kind, Watcher};

pub const KIND: Kind = Kind {
    name: "inotify",
    validate: |config, _| validate(config),
    watch: |config| Box::new(Files { config: flat(config), notifier: None, missing: true }),
};

/// The maximum number of watched directories below one.
const MOST: usize = 100_000;

/// `IN_EXCL_UNLINK` of `inotify(7)`.
const EXCL_UNLINK: AddWatchFlags = AddWatchFlags::from_bits_retain(0x0400_0000);

const MASKS: [(&str, AddWatchFlags); 18] = [
    ("access", AddWatchFlags::IN_ACCESS),
    ("attrib", AddWatchFlags::IN_ATTRIB),
    ("close_nowrite", AddWatchFlags::IN_CLOSE_NOWRITE),
    ("close_write", AddWatchFlags::IN_CLOSE_WRITE),
    ("create", AddWatchFlags::IN_CREATE),
    ("delete", AddWatchFlags::IN_DELETE),
    ("delete_self", AddWatchFlags::IN_DELETE_SELF),
    ("excl_unlink", EXCL_UNLINK),
    ("ignored", AddWatchFlags::IN_IGNORED),
    ("modify", AddWatchFlags::IN_MODIFY),
    ("moved_from", AddWatchFlags::IN_MOVED_FROM),
    ("moved_to", AddWatchFlags::IN_MOVED_TO),
    ("move_self", AddWatchFlags::IN_MOVE_SELF),
    ("oneshot", AddWatchFlags::IN_ONESHOT),
    ("onlydir", AddWatchFlags::IN_ONLYDIR),
    ("open", AddWatchFlags::IN_OPEN),
    ("unmount", AddWatchFlags::IN_UNMOUNT),
    ("isdir", AddWatchFlags::IN_ISDIR),
];

fn validate(config: &Value) -> Result<(), String> {
    let config = list(config, "inotify")?;
    let wrong = |text: &str| Err(format!("Configuration for inotify beacon {text}"));
    let Some(files) = config.get("files") else { return wrong("must include files.") };
    let Some(files) = files.as_map() else { return wrong("invalid, files must be a dict.") };
    for settings in files.values() {
        let Some(settings) = settings.as_map() else { return wrong("must be a list of dictionaries.") };
        if !["mask", "recurse", "auto_add"].iter().any(|name| settings.contains_key(name)) {
            return wrong("must contain mask, recurse or auto_add items.");
        }
        for name in ["auto_add", "recurse"] {
            if settings.get(name).is_some_and(|value| value.as_bool().is_none()) {
                return wrong(&format!("{name} must be boolean."));
            }
        }
        let Some(masks) = settings.get("mask") else { continue };
        let Some(masks) = masks.as_list() else { return wrong("mask must be list.") };
        // `isdir` is part of an event; it cannot be requested.
        let known = |mask: &&Value| MASKS.iter().any(|(name, _)| *name != "isdir" && mask.as_str() == Some(name));
        if let Some(mask) = masks.iter().find(|mask| !known(mask)) {
            return wrong(&format!("invalid mask option {mask}."));
        }
    }
    Ok(())
}

/// An event of a file.
pub(super) struct Change {
    /// The watched path.
    pub watched: PathBuf,
    /// The file: the watched path, or one in it.
    pub path: PathBuf,
    /// The event.
    pub mask: AddWatchFlags,
}

/// The kernel's events.
pub(super) struct Notifier {
    inotify: Inotify,
    /// The same file descriptor, registered with tokio.
    reports: Receiver,
    paths: HashMap<WatchDescriptor, PathBuf>,
}

impl Notifier {
    pub fn new() -> Result<Self, String> {
        let inotify =
            Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(|error| error.to_string())?;
        let fd = inotify.as_fd().try_clone_to_owned();
        // Registered under a second descriptor, because tokio wants to own its own.
        let reports = fd.and_then(Receiver::from_owned_fd_unchecked).map_err(|error| error.to_string())?;
        Ok(Notifier { inotify, reports, paths: HashMap::new() })
    }

    pub fn watch(&mut self, path: &Path, mask: AddWatchFlags) -> nix::Result<()> {
        let descriptor = self.inotify.add_watch(path, mask)?;
        self.paths.insert(descriptor, path.to_owned());
        Ok(())
    }

    pub fn watches(&self, path: &Path) -> bool {
        self.paths.values().any(|watched| watched == path)
    }

    /// Reads the events since the last call.
    pub fn read(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        loop {
            while let Ok(events) = self.inotify.read_events() {
                changes.extend(events.into_iter().filter_map(|event| self.change(event)));
            }
            // No event fits into one byte: this reads nothing, but returns whether there are more, and clears tokio's readiness if not.
            // The bound keeps one look from running for ever while a program writes.
            match self.reports.try_read(&mut [0]) {
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock && changes.len() < MOST => {}
                _ => return changes,
            }
        }
    }

    fn change(&mut self, event: InotifyEvent) -> Option<Change> {
        let watched = self.paths.get(&event.wd)?.clone();
        // The kernel has removed the watch; a new one may get the same number.
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.paths.remove(&event.wd);
        }
        let path = event.name.map_or_else(|| watched.clone(), |name| watched.join(name));
        Some(Change { watched, path, mask: event.mask })
    }

    /// Waits for an event.
    pub async fn ready(&self) {
        if self.reports.readable().await.is_err() {
            // Without a working descriptor there will be no event: only the caller's interval remains.
            std::future::pending().await
        }
    }
}

struct Files {
    config: Map,
    notifier: Option<Notifier>,
    /// True if a path does not exist yet.
    missing: bool,
}

fn mask_of(settings: &Map) -> AddWatchFlags {
    let usual = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MODIFY;
    let Some(names) = settings.get("mask").and_then(Value::as_list) else { return usual };
    let flag = |name: &Value| MASKS.iter().find(|(known, _)| name.as_str() == Some(known)).map(|(_, flag)| *flag);
    names.iter().filter_map(flag).fold(AddWatchFlags::empty(), |all, flag| all | flag)
}

/// Options of a watch that are not events.
fn options() -> AddWatchFlags {
    EXCL_UNLINK | AddWatchFlags::IN_ONESHOT | AddWatchFlags::IN_ONLYDIR
}

/// Formats an event as `pyinotify` does: `IN_CREATE|IN_ISDIR`.
fn mask_name(mask: AddWatchFlags) -> String {
    let mut names: Vec<String> = MASKS
        .iter()
        .filter(|(_, flag)| mask.contains(*flag))
        .map(|(name, _)| format!("IN_{}", name.to_uppercase()))
        .collect();
    // pyinotify puts this name last.
    names.sort_by_key(|name| name == "IN_ISDIR");
    names.join("|")
}

impl Files {
    fn files(&self) -> BTreeMap<PathBuf, Map> {
        let files = self.config.get("files").and_then(Value::as_map).cloned().unwrap_or_default();
        let pair = |(path, settings): (&Value, &Value)| {
            (PathBuf::from(path.to_string()), settings.as_map().cloned().unwrap_or_default())
        };
        files.iter().map(pair).collect()
    }

    /// Watches the configured paths that exist.
    fn watch(&mut self) -> Result<(), String> {
        let files = self.files();
        if self.notifier.is_none() {
            self.notifier = Some(Notifier::new()?);
        }
        let Some(notifier) = &mut self.notifier else { return Ok(()) };
        // Decided again at each check: a missing path may exist now.
        self.missing = false;
        for (path, settings) in files {
            if notifier.watches(&path) {
                continue;
            }
            if path.exists() {
                add(notifier, &path, &settings, is_on(&settings, "recurse"))?;
            } else {
                self.missing = true;
            }
        }
        Ok(())
    }

    /// Returns the configured path of an event, with its settings.
    fn settings_of(&self, watched: &Path) -> Option<Map> {
        let files = self.files();
        // With `recurse` the event comes from a directory below the configured one.
        watched.ancestors().find_map(|path| files.get(path).cloned())
    }

    fn event(&mut self, change: &Change) -> Result<Option<Map>, String> {
        let settings = self.settings_of(&change.watched).unwrap_or_default();
        let is_new_directory = change.mask.contains(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ISDIR);
        if is_new_directory
            && is_on(&settings, "auto_add")
            && let Some(notifier) = &mut self.notifier
        {
            // It may be gone again.
            let _ = add(notifier, &change.path, &settings, is_on(&settings, "recurse"));
        }
        // The end of a watch is always reported, as by pyinotify.
        let wanted = (mask_of(&settings) - options()) | AddWatchFlags::IN_IGNORED;
        if !change.mask.intersects(wanted) || is_excluded(&settings, &change.path) {
            return Ok(None);
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Ok(Some(
            map! { "tag" => text(&change.watched), "path" => text(&change.path), "change" => mask_name(change.mask) },
        ))
    }
}

fn add(notifier: &mut Notifier, path: &Path, settings: &Map, recurse: bool) -> Result<(), String> {
    let mut mask = mask_of(settings);
    // Needed to notice new directories, even if the operator did not request such events.
    if is_on(settings, "auto_add") {
        mask |= AddWatchFlags::IN_CREATE;
    }
    // A stack of directories, so that a deep tree does not exhaust the thread's own.
    let mut open = vec![path.to_owned()];
    let mut count = 0;
    while let Some(path) = open.pop() {
        count += 1;
        if count > MOST {
            return Err(format!("more than {MOST} directories below {}", path.display()));
        }
        notifier.watch(&path, mask).map_err(|error| format!("{}: {error}", path.display()))?;
        if !recurse || !path.is_dir() {
            continue;
        }
        let Ok(entries) = std::fs::read_dir(&path) else { continue };
        // `file_type` does not follow links: a link to a parent would never end.
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(directories.map(|entry| entry.path()).filter(|path| !is_excluded(settings, path)));
    }
    Ok(())
}

fn is_excluded(settings: &Map, path: &Path) -> bool {
    let path = path.to_string_lossy().into_owned();
    let path = path.as_str();
    let excluded = |entry: &Value| match entry {
        Value::Map(entry) => entry.iter().next().is_some_and(|(pattern, options)| {
            let pattern = pattern.to_string();
            if options.get("regex").is_some_and(Value::truthy) {
                Regex::new(&pattern).is_ok_and(|regex| regex.is_match(path).unwrap_or(false))
            } else {
                path.starts_with(&pattern)
            }
        }),
        other => {
            let pattern = other.to_string();
            if pattern.contains('*') { glob(&pattern, path) } else { path.starts_with(&pattern) }
        }
    };
    settings.get("exclude").and_then(Value::as_list).is_some_and(|list| list.iter().any(excluded))
}

/// Matches a pattern with `*` and `?` against the whole path, as `fnmatch` does.
fn glob(pattern: &str, text: &str) -> bool {
    let escaped: String = pattern
        .chars()
        .map(|c| match c {
            // Everything else is escaped, brackets too: the option has only these two wildcards.
            '*' => ".*".to_owned(),
            '?' => ".".to_owned(),
            other if other.is_alphanumeric() || other == '/' => other.to_string(),
            other => format!("\\{other}"),
        })
        .collect();
    Regex::new(&format!("^(?s:{escaped})$")).is_ok_and(|regex| regex.is_match(text).unwrap_or(false))
}

impl Watcher for Files {
    fn look<'a>(&'a mut self, _: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move { self.take() })
    }

    fn ready(&mut self) -> Option<BoxFuture<'_, ()>> {
        // While a path is missing, the kernel does not report its creation.
        let notifier = self.notifier.as_ref().filter(|_| !self.missing)?;
        Some(Box::pin(notifier.ready()))
    }
}

impl Files {
    fn take(&mut self) -> Found {
        let changes = self.notifier.as_mut().map(Notifier::read).unwrap_or_default();
        let mut found: Vec<Map> = Vec::new();
        for change in &changes {
            // `coalesce` drops repeated events of one look.
            if let Some(event) = self.event(change)?
                && !(is_on(&self.config, "coalesce") && found.contains(&event))
            {
                found.push(event);
            }
        }
        // After the events, so that a file that was replaced is watched again at once.
        self.watch()?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn watcher(config: Map) -> Files {
        validate(&list![config.clone()]).unwrap();
        Files { config, notifier: None, missing: true }
    }

    #[tokio::test]
    async fn changes_are_reported_with_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display().to_string();
        let settings = map! { "mask" => list!["create", "delete"], "recurse" => true, "auto_add" => true, "exclude" => list![format!("{path}/no")] };
        let mut files = watcher(map! { "files" => map! { path.as_str() => settings } });
        assert!(files.take().unwrap().is_empty());
        std::fs::write(directory.path().join("a"), "x").unwrap();
        std::fs::write(directory.path().join("no"), "x").unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        files.ready().unwrap().await;
        let found = files.take().unwrap();
        let event = |file: &str, change: &str| map! { "tag" => path.as_str(), "path" => format!("{path}/{file}"), "change" => change };
        assert_eq!(found, [event("a", "IN_CREATE"), event("d", "IN_CREATE|IN_ISDIR")]);
        std::fs::write(directory.path().join("d/b"), "x").unwrap();
        files.ready().unwrap().await;
        assert_eq!(files.take().unwrap()[0].get_str("path"), Some(format!("{path}/d/b").as_str()));
    }

    #[tokio::test]
    async fn a_file_created_later_is_watched() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("later");
        let mut files =
            watcher(map! { "files" => map! { file.display().to_string() => map! { "mask" => list!["modify"] } } });
        assert!(files.take().unwrap().is_empty());
        assert!(files.ready().is_none());
        std::fs::write(&file, "x").unwrap();
        // The first look after the creation only starts the watch.
        assert!(files.take().unwrap().is_empty());
        std::fs::write(&file, "y").unwrap();
        files.ready().unwrap().await;
        assert!(!files.take().unwrap().is_empty());
    }

    #[test]
    fn an_invalid_configuration_is_refused() {
        let wrong = |files: Value| validate(&list![map! { "files" => files }]).unwrap_err();
        assert_eq!(
            wrong(map! { "/x" => map! { "mask" => list!["fly"] } }.into()),
            "Configuration for inotify beacon invalid mask option fly."
        );
        assert!(wrong(map! { "/x" => map! {} }.into()).contains("must contain mask"));
        assert!(glob("/a/*.tmp", "/a/b/c.tmp") && !glob("/a/*.tmp", "/a/b.txt"));
    }
}
