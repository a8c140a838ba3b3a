//! `log` — lines of a log file that match a pattern.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use exec::Context;
use fancy_regex::Regex;
use futures_util::future::BoxFuture;
use nix::sys::inotify::AddWatchFlags;
use value::{Map, Value, map};

use super::inotify::Notifier;
use crate::config::{flat, list};
use crate::{Found, Kind, Watcher};

pub const KIND: Kind = Kind {
    name: "log",
    validate: |config, _| match list(config, "log")?.get_str("file") {
        Some(_) => Ok(()),
        None => Err("Configuration for log beacon must contain file option.".to_owned()),
    },
    watch: |config| Box::new(Log { config: flat(config), place: None, changes: None }),
};

/// The maximum that is read at once; the rest waits for the next look.
const MOST: u64 = 4 * 1024 * 1024;

struct Log {
    config: Map,
    /// The offset that was read last.
    place: Option<u64>,
    changes: Option<Notifier>,
}

fn event(tag: &str) -> Map {
    // All four fields exist in every event, as in Salt's.
    map! { "tag" => tag, "match" => "no", "raw" => "", "error" => "" }
}

impl Log {
    fn read(&mut self) -> Result<String, String> {
        let path = self.config.get_str("file").unwrap_or_default().to_owned();
        let mut read = || -> std::io::Result<String> {
            let mut file = File::open(&path)?;
            let end = file.metadata()?.len();
            let from = match self.place.replace(end) {
                None => return Ok(String::new()),
                // A file that has become shorter is a new one.
                Some(place) if place > end => 0,
                Some(place) => place,
            };
            file.seek(SeekFrom::Start(from))?;
            let mut content = Vec::new();
            file.take(MOST).read_to_end(&mut content)?;
            // The last line may not be complete yet.
            let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            // A line longer than the limit is cut, or it would never be finished.
            let whole = if content.len() as u64 == MOST && whole == 0 { content.len() } else { whole };
            self.place = Some(from + whole as u64);
            Ok(String::from_utf8_lossy(&content[..whole]).into_owned())
        };
        let text =
            read().map_err(|error| format!("[Errno {}] {error}: '{path}'", error.raw_os_error().unwrap_or(0)))?;
        if self.changes.is_none() {
            // Without inotify the interval is enough.
            let mut changes = Notifier::new().ok();
            let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DELETE_SELF;
            if changes.as_mut().is_some_and(|changes| changes.watch(Path::new(&path), flags).is_ok()) {
                self.changes = changes;
            }
        }
        Ok(text)
    }

    fn judge(&self, text: &str) -> Vec<Map> {
        let Some(tags) = self.config.get("tags").and_then(Value::as_map) else { return Vec::new() };
        let (mut found, mut patterns) = (Vec::new(), Vec::new());
        for (tag, settings) in tags.iter() {
            let Some(pattern) = settings.get("regex").filter(|regex| regex.truthy()) else { continue };
            // Salt's `match` is anchored at the start of the line only.
            match Regex::new(&format!("^(?:{pattern})")) {
                Ok(regex) => patterns.push((tag.to_string(), regex)),
                // One bad pattern must not silence the others.
                Err(_) => {
                    let mut event = event(&tag.to_string());
                    event.insert("error", "bad regex");
                    found.push(event);
                }
            }
        }
        for line in text.lines() {
            for (tag, regex) in &patterns {
                let matched = regex.is_match(line);
                let mut event = event(tag);
                match matched {
                    Ok(false) => continue,
                    Ok(true) => {
                        event.insert("raw", line);
                        event.insert("match", "yes");
                    }
                    // A pattern with too many possibilities is given up by the library.
                    Err(_) => drop(event.insert("error", "bad match")),
                }
                found.push(event);
            }
        }
        found
    }
}

impl Watcher for Log {
    fn look<'a>(&'a mut self, _: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            if let Some(changes) = &mut self.changes
                && changes.read().iter().any(|change| !change.mask.contains(AddWatchFlags::IN_MODIFY))
            {
                // The file was moved or deleted: watch the next one of that name.
                self.changes = None;
            }
            let text = self.read()?;
            Ok(self.judge(&text))
        })
    }

    fn ready(&mut self) -> Option<BoxFuture<'_, ()>> {
        self.changes.as_ref().map(|changes| Box::pin(changes.ready()) as BoxFuture<'_, ()>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn new_matching_lines_are_reported() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "old good-bye").unwrap();
        let path = file.path().display().to_string();
        let tags = map! { "bye" => map! { "regex" => ".*good-bye.*" }, "bad" => map! { "regex" => "(" } };
        let mut log = Log { config: map! { "file" => path, "tags" => tags }, place: None, changes: None };
        assert_eq!(log.read().unwrap(), "");
        write!(file, "a good-bye\nhello\nhalf").unwrap();
        log.ready().unwrap().await;
        let text = log.read().unwrap();
        let found = log.judge(&text);
        let expected = map! { "tag" => "bye", "match" => "yes", "raw" => "a good-bye", "error" => "" };
        assert_eq!(found.iter().filter(|event| event.get_str("error") == Some("")).collect::<Vec<_>>(), [&expected]);
        writeln!(file, " good-bye").unwrap();
        // The half of the first look was kept for this one.
        assert_eq!(log.read().unwrap(), "half good-bye\n");
    }
}
