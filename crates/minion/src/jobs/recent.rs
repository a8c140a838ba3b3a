//! The job ids seen recently: a job runs once, even if it arrives through two masters, twice from one, or again after
//! a restart.
//!
//! The file also has the last [serial numbers](Serials): a job id is forgotten after a while, and somebody who recorded
//! the publication could then send it again.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use channel::client::{KeyDigest, Serials};
use store::disk::{self, Writing};
use tracing::warn;

/// The largest number of ids that are remembered, whatever their age.
const MOST: usize = 20_000;

/// The minimum time for which an id is remembered. A restarted master may offer a job again for this long.
pub const LEAST: Duration = Duration::from_secs(600);

/// The latest job ids: `minion_jid_queue_hwm` of them, and those of jobs that a master may still offer.
#[derive(Debug)]
pub struct RecentJids {
    most: usize,
    seen: Mutex<Seen>,
    serials: Arc<Serials>,
    log: Mutex<Option<Log>>,
}

#[derive(Debug, Default)]
struct Seen {
    order: VecDeque<String>,
    /// Until when each must not be forgotten, in seconds since 1970.
    until: HashMap<String, u64>,
}

/// The ids on disk: one line each, appended before the job starts. Between them come lines of serial numbers.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    lines: usize,
    failed: bool,
}

impl RecentJids {
    /// Remembers up to `most` ids, in memory only. `serials` are written to disk and read together with the ids.
    pub fn new(most: usize, serials: Arc<Serials>) -> Self {
        RecentJids { most, seen: Mutex::default(), serials, log: Mutex::default() }
    }

    /// Loads what was remembered before a restart, and writes to disk from now on.
    ///
    /// # Errors
    /// When the file cannot be read or written. Ids are then remembered in memory only.
    pub fn open(&self, path: &Path, now: SystemTime) -> store::Result<()> {
        let text = disk::read(path)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter_map(serial_of).for_each(|(key, serial)| self.serials.restore(&key, serial));
        let lines: Vec<(&str, u64)> = text.lines().filter_map(line).collect();
        let first = lines.len().saturating_sub(self.most.max(1));
        for (place, (jid, until)) in lines.into_iter().enumerate() {
            if place >= first || until >= seconds(now) {
                self.seen().insert(jid, until);
            }
        }
        let log = self.start_log(path)?;
        *self.log() = Some(log);
        Ok(())
    }

    /// Notes an id, which is remembered for at least `keep`. Returns whether its job should run: it is new or, with
    /// `minion_jid_queue_hwm: 0`, it was published and not requested by this minion.
    pub fn note(&self, jid: &str, keep: Duration, now: SystemTime, published: bool) -> bool {
        let until = seconds(now + keep.max(LEAST));
        if !self.seen().insert(jid, until) {
            return self.most == 0 && published;
        }
        // Before the job starts: after a crash in the middle of it, the job must not run again.
        self.write(jid, until);
        self.seen().forget(self.most, seconds(now));
        true
    }

    /// Returns the ids that a master may still offer, the latest first.
    pub fn young(&self, most: usize, now: SystemTime) -> Vec<String> {
        let (seen, now) = (self.seen(), seconds(now));
        let young = seen.order.iter().rev().filter(|jid| seen.until.get(*jid).is_some_and(|until| *until >= now));
        young.take(most).cloned().collect()
    }

    fn write(&self, jid: &str, until: u64) {
        let mut log = self.log();
        let Some(open) = log.as_mut() else { return };
        // Somebody emptied the cache: what is written into a deleted file is forgotten with this process.
        if open.file.metadata().is_ok_and(|file| file.nlink() == 0) {
            match self.start_log(&open.path.clone()) {
                Ok(new) => *open = new,
                Err(error) => warn!("{error}; a job may run again after a restart"),
            }
            return;
        }
        let serials = self.serials.take_unsaved();
        open.lines += serials.len() + 1;
        let written = open.file.write_all(format!("{}{jid} {until}\n", serial_lines(&serials)).as_bytes());
        match written {
            Ok(()) => open.failed = false,
            // Said once, until writing works again: every job would log it.
            Err(error) => {
                if !std::mem::replace(&mut open.failed, true) {
                    warn!("failed to write {}: {error}; a job may run again after a restart", open.path.display());
                }
            }
        }
        let kept = self.seen().order.len();
        // Rewritten when most lines are obsolete; the constant keeps small files from being rewritten often.
        if open.lines > kept * 2 + 1000 {
            match self.start_log(&open.path.clone()) {
                Ok(new) => *open = new,
                Err(error) => {
                    warn!("{error}");
                    open.lines = 0;
                }
            }
        }
    }

    /// Writes the file from memory.
    fn start_log(&self, path: &Path) -> store::Result<Log> {
        let serials = self.serials.take_all();
        let (ids, lines) = {
            let seen = self.seen();
            let line = |jid: &String| format!("{jid} {}\n", seen.until.get(jid).copied().unwrap_or_default());
            (seen.order.iter().map(line).collect::<String>(), seen.order.len() + serials.len())
        };
        let text = serial_lines(&serials) + &ids;
        if let Some(directory) = path.parent() {
            disk::make_directory(directory)?;
        }
        disk::write(path, text.as_bytes(), Writing::PRIVATE)?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(|source| store::Error::Io { action: "open", path: path.to_owned(), source })?;
        Ok(Log { path: path.to_owned(), file, lines, failed: false })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Noting does not panic.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Option<Log>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn insert(&mut self, jid: &str, until: u64) -> bool {
        let new = self.until.insert(jid.to_owned(), until).is_none();
        // An id that arrives again keeps its place: its age counts from the first time.
        if new {
            self.order.push_back(jid.to_owned());
        }
        new
    }

    fn forget(&mut self, most: usize, now: u64) {
        while self.order.len() > most {
            let over = self.order.front().is_none_or(|jid| self.until.get(jid).is_none_or(|until| *until < now));
            if !over && self.order.len() <= MOST {
                return;
            }
            if let Some(oldest) = self.order.pop_front() {
                self.until.remove(&oldest);
            }
        }
    }
}

/// Writes a line for each serial number: `serial`, the digest of its key, the number. Readers of job ids pass over it.
fn serial_lines(serials: &[(KeyDigest, i64)]) -> String {
    serials.iter().map(|(key, serial)| format!("serial {key} {serial}\n")).collect()
}

fn serial_of(line: &str) -> Option<(KeyDigest, i64)> {
    let (key, serial) = line.strip_prefix("serial ")?.split_once(' ')?;
    Some((KeyDigest::parse(key)?, serial.parse().ok()?))
}

fn line(line: &str) -> Option<(&str, u64)> {
    let (jid, until) = line.split_once(' ')?;
    Some((jid, until.parse().ok()?))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    const NO_TIME: Duration = Duration::ZERO;

    #[test]
    fn a_jid_is_new_once_until_it_is_old_and_newer_ones_push_it_out() {
        let recent = RecentJids::new(2, Arc::default());
        assert!(recent.note("1", NO_TIME, at(0), true));
        assert!(!recent.note("1", NO_TIME, at(0), true));
        assert!(recent.note("2", Duration::from_secs(5000), at(0), true));
        assert!(recent.note("3", NO_TIME, at(1), true));
        assert!(!recent.note("1", NO_TIME, at(1), true), "still young");
        assert!(recent.note("4", NO_TIME, at(1000), true));
        assert!(recent.note("1", NO_TIME, at(1000), true), "old, and two newer ones have come");
        // The bound on the number must not forget a job that a master may offer again.
        assert!(!recent.note("2", NO_TIME, at(1000), true), "its job may still be offered");
        assert_eq!(recent.young(2, at(1000)), ["1", "4"]);
    }

    #[test]
    fn without_a_memory_published_jobs_run_each_time_and_missed_ones_once() {
        let recent = RecentJids::new(0, Arc::default());
        assert!(recent.note("1", NO_TIME, at(0), true));
        assert!(recent.note("1", NO_TIME, at(0), true));
        assert!(!recent.note("1", NO_TIME, at(0), false));
    }

    #[test]
    fn what_ran_is_known_after_the_end_at_any_moment() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("saltern/jids");
        let before = RecentJids::new(100, Arc::default());
        before.open(&path, at(0)).unwrap();
        assert!(before.note("1", NO_TIME, at(10), true));
        assert!(before.note("2", NO_TIME, at(10), true));
        // No farewell: the process was killed, in the middle of a line.
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"3 12").unwrap();
        let after = RecentJids::new(100, Arc::default());
        after.open(&path, at(11)).unwrap();
        assert!(!after.note("1", NO_TIME, at(11), false));
        assert!(!after.note("2", NO_TIME, at(11), true));
        assert!(after.note("4", NO_TIME, at(11), true));
    }

    #[test]
    fn a_file_that_somebody_deletes_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jids");
        let before = RecentJids::new(100, Arc::default());
        before.open(&path, at(0)).unwrap();
        assert!(before.note("1", NO_TIME, at(10), true));
        std::fs::remove_file(&path).unwrap();
        assert!(before.note("2", NO_TIME, at(10), true) && before.note("3", NO_TIME, at(10), true));
        let after = RecentJids::new(100, Arc::default());
        after.open(&path, at(11)).unwrap();
        assert!(["1", "2", "3"].iter().all(|jid| !after.note(jid, NO_TIME, at(11), false)));
    }

    #[test]
    fn serial_numbers_are_written_with_the_ids() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jids");
        let key = KeyDigest::parse(&"a5".repeat(16)).unwrap();
        let before = RecentJids::new(100, Arc::default());
        before.open(&path, at(0)).unwrap();
        before.serials.restore(&key, 3);
        // The whole file is written when it was deleted, and lines are appended later.
        std::fs::remove_file(&path).unwrap();
        assert!(before.note("1", NO_TIME, at(10), true) && before.note("2", NO_TIME, at(10), true));
        let after = RecentJids::new(100, Arc::default());
        after.open(&path, at(11)).unwrap();
        assert_eq!(after.serials.take_all(), [(key, 3)]);
        assert!(!after.note("1", NO_TIME, at(11), true) && !after.note("2", NO_TIME, at(11), true));
    }

    #[test]
    fn the_file_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jids");
        let recent = RecentJids::new(10, Arc::default());
        recent.open(&path, at(0)).unwrap();
        for number in 0..5000u64 {
            assert!(recent.note(&format!("2024022913141500{number:04}"), NO_TIME, at(number * 100), true));
        }
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 1100, "{lines} lines");
        let again = RecentJids::new(10, Arc::default());
        again.open(&path, at(500_000)).unwrap();
        assert!(!again.note("20240229131415004999", NO_TIME, at(500_000), true));
        assert!(again.note("20240229131415000001", NO_TIME, at(500_000), true));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let recent = RecentJids::new(10, Arc::default());
        let error = recent.open(Path::new("/proc/nowhere/jids"), at(0)).unwrap_err();
        assert!(error.to_string().contains("/proc/nowhere"), "{error}");
        assert!(recent.note("1", NO_TIME, at(0), true) && !recent.note("1", NO_TIME, at(0), true));
    }
}
