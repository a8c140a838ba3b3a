//! The files from which a restarted master restores the jobs that may still be delivered.
//!
//! A held job has a file in `<cachedir>/saltern/held`, written once and removed at the end. Other jobs are in the job
//! cache; `<cachedir>/saltern/recent` has the ids of those that may still be valid.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use store::disk::{self, Writing};
use tracing::warn;
use value::{Map, Value, map};
use wire::Jid;

/// A held job on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldJob {
    /// Its id.
    pub jid: Jid,
    /// The publication.
    pub publication: Arc<Map>,
    /// The minions that are expected to answer.
    pub targets: Vec<String>,
    /// Only minions can decide whether they are targeted.
    pub judged_by_minions: bool,
    /// When the hold ends.
    pub until: SystemTime,
}

/// The directory of held jobs.
#[derive(Clone, Debug)]
pub struct HeldFiles {
    directory: PathBuf,
}

impl HeldFiles {
    /// Returns the directory below a cache directory.
    pub fn new(cachedir: &Path) -> Self {
        HeldFiles { directory: cachedir.join("saltern/held") }
    }

    /// Writes a job.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, job: &HeldJob) -> store::Result<()> {
        disk::make_directory(&self.directory)?;
        let content = map! {
            "jid" => &job.jid, "publication" => (*job.publication).clone(), "targets" => job.targets.clone(),
            "judged_by_minions" => job.judged_by_minions, "until" => unix(job.until),
        };
        // Synced: the client is told that the job is held, so a power cut must not lose it.
        disk::write_value(&self.path(&job.jid), &content.into(), Writing { sync: true, ..Writing::PRIVATE })
    }

    /// Removes a job that has ended.
    pub fn remove(&self, jid: &Jid) {
        if let Err(error) = disk::remove(&self.path(jid)) {
            warn!("the job {jid} is not held any more, but its file stays: {}", crate::chain(&error));
        }
    }

    /// Reads all jobs. Unreadable ones stay in place, with a warning.
    pub fn all(&self) -> Vec<HeldJob> {
        let names = disk::text_names(&self.directory).unwrap_or_else(|error| {
            warn!("held jobs cannot be read: {}", crate::chain(&error));
            Vec::new()
        });
        let read = |name: &String| {
            let jid = Jid::new(name.strip_suffix(".p")?).ok()?;
            let path = self.directory.join(name);
            let content = disk::read_value(&path).map_err(|error| crate::chain(&error));
            match content.map(|content| content.and_then(|content| held_job(jid, &content))) {
                Ok(Some(job)) => Some(job),
                Ok(None) => {
                    warn!("{} is not a held job", path.display());
                    None
                }
                Err(error) => {
                    warn!("a held job cannot be read: {error}");
                    None
                }
            }
        };
        names.iter().filter_map(read).collect()
    }

    fn path(&self, jid: &Jid) -> PathBuf {
        self.directory.join(format!("{jid}.p"))
    }
}

fn held_job(jid: Jid, content: &Value) -> Option<HeldJob> {
    let targets = content.get("targets")?.as_list()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Some(HeldJob {
        publication: Arc::new(content.get("publication")?.as_map()?.clone()),
        targets,
        judged_by_minions: content.get("judged_by_minions")?.as_bool()?,
        until: UNIX_EPOCH + Duration::try_from_secs_f64(content.get("until")?.as_f64()?).ok()?,
        jid,
    })
}

fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The ids of jobs that are not held and may still be valid.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    open: Mutex<Option<(File, usize)>>,
}

/// The file is rewritten after this number of lines.
const LINES: usize = 4096;

impl Journal {
    /// Returns the journal below a cache directory.
    pub fn new(cachedir: &Path) -> Self {
        Journal { path: cachedir.join("saltern/recent"), open: Mutex::default() }
    }

    /// Returns the jobs that are still valid and the time each ends, in the order of publication.
    pub fn read(&self, now: SystemTime) -> Vec<(Jid, SystemTime)> {
        let text = disk::read(&self.path).unwrap_or_else(|error| {
            warn!("jobs published before the start cannot be read: {}", crate::chain(&error));
            None
        });
        // A line may be cut by the end of the process that wrote it.
        let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
        let read = |line: &str| {
            let (jid, until) = line.split_once(' ')?;
            let until = UNIX_EPOCH + Duration::try_from_secs_f64(until.parse().ok()?).ok()?;
            (until > now).then_some((Jid::new(jid).ok()?, until))
        };
        text.lines().filter_map(read).collect()
    }

    /// Notes a job. If the journal cannot be written, the job is published anyway; it is lost only if the master ends
    /// before delivering it.
    pub fn note(&self, jid: &str, until: SystemTime, now: SystemTime) {
        let line = format!("{jid} {:.3}\n", unix(until));
        if let Err(error) = self.try_note(&line, now) {
            warn!("failed to write {}: {error}", self.path.display());
        }
    }

    fn try_note(&self, line: &str, now: SystemTime) -> std::io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out: after an error the next note starts with a new file.
        let (mut file, lines) = match open.take() {
            Some((file, lines)) if lines < LINES => (file, lines),
            _ => self.rewrite(now)?,
        };
        file.write_all(line.as_bytes())?;
        *open = Some((file, lines + 1));
        Ok(())
    }

    fn rewrite(&self, now: SystemTime) -> std::io::Result<(File, usize)> {
        let valid = self.read(now);
        let text: String = valid.iter().map(|(jid, until)| format!("{jid} {:.3}\n", unix(*until))).collect();
        let directory = self.path.parent().unwrap_or(Path::new("."));
        disk::make_directory(directory).map_err(std::io::Error::other)?;
        disk::write(&self.path, text.as_bytes(), Writing::PRIVATE).map_err(std::io::Error::other)?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        Ok((file, valid.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jid(number: u32) -> Jid {
        Jid::new(format!("202402291314156{number:05}")).unwrap()
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn held_jobs_are_found_again_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let files = HeldFiles::new(dir.path());
        assert_eq!(files.all(), []);
        let job = HeldJob {
            jid: jid(1),
            publication: Arc::new(map! { "fun" => "test.ping" }),
            targets: vec!["a".into(), "b".into()],
            judged_by_minions: false,
            until: at(1_700_000_000),
        };
        files.write(&job).unwrap();
        std::fs::write(dir.path().join("saltern/held/20240229131415600002.p"), b"broken").unwrap();
        // What a crash in the middle of a write leaves.
        std::fs::write(dir.path().join("saltern/held/.tmpx"), b"").unwrap();
        assert_eq!(files.all(), [job]);
        files.remove(&jid(1));
        assert_eq!(files.all(), []);
    }

    #[test]
    fn the_journal_forgets_what_is_over_and_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(dir.path());
        for number in 0..LINES as u32 + 10 {
            journal.note(jid(number).as_str(), at(100 + u64::from(number)), at(50 + u64::from(number)));
        }
        let lines = std::fs::read_to_string(dir.path().join("saltern/recent")).unwrap().lines().count();
        assert!(lines < 100, "{lines} lines");
        let again = Journal::new(dir.path());
        let last = LINES as u32 + 9;
        let left = again.read(at(100 + u64::from(last) - 5));
        assert_eq!(left.len(), 5);
        assert_eq!(left.last().unwrap().0, jid(last));
        let path = dir.path().join("saltern/recent");
        let mut cut = std::fs::read(&path).unwrap();
        // Like after a crash in the middle of a line.
        cut.truncate(cut.len() - 3);
        std::fs::write(&path, cut).unwrap();
        assert!(again.read(at(0)).len() >= 5, "a cut line harms nothing before it");
    }
}
