//! Running jobs: `proc/<jid>`, the publication and the process id.

use std::path::{Path, PathBuf};

use value::{Map, Value};
use wire::msgpack::{Packing, pack};

use crate::Result;
use crate::disk::{self, Writing};

/// The running jobs of a minion, or the runners and wheels of a master.
#[derive(Clone, Debug)]
pub struct ProcDir {
    directory: PathBuf,
}

impl ProcDir {
    /// Returns the running jobs below a `cachedir`.
    pub fn new(cachedir: &Path) -> Self {
        ProcDir { directory: cachedir.join("proc") }
    }

    /// Creates the entry of a running job. Dropping the result removes it.
    pub fn enter(&self, jid: &str, pid: u32, load: &Map) -> Result<Running> {
        let path = disk::join_name(&self.directory, jid, "jid")?;
        let mut content = value::map! { "pid" => pid };
        content.extend(load.iter().map(|(key, value)| (key.clone(), value.clone())));
        disk::make_directory(&self.directory)?;
        disk::write(&path, &pack(&Value::Map(content), Packing::Wire), Writing::PRIVATE)?;
        Ok(Running { path })
    }

    /// Returns the entries of other processes that still run, and removes those of dead processes.
    pub fn of_others(&self) -> Result<Vec<Map>> {
        let mut running = Vec::new();
        for (path, note) in self.notes()? {
            match process_of(&note) {
                // Jobs run in this process, so it knows its own better than their files.
                Some(pid) if pid.cast_unsigned() == std::process::id() => {}
                Some(pid) if is_running(pid) => running.push(note),
                _ => {
                    disk::remove(&path)?;
                }
            }
        }
        Ok(running)
    }

    /// Removes the entries of dead processes, and, at the start of this process, those with its own id, which an earlier process
    /// left.
    pub fn tidy(&self) -> Result<()> {
        for (path, note) in self.notes()? {
            let alive =
                // Process ids are reused; in a container, every start may get the same one.
                process_of(&note).is_some_and(|pid| pid.cast_unsigned() != std::process::id() && is_running(pid));
            if !alive {
                disk::remove(&path)?;
            }
        }
        Ok(())
    }

    fn notes(&self) -> Result<Vec<(PathBuf, Map)>> {
        let mut notes = Vec::new();
        for name in disk::names(&self.directory)? {
            let path = self.directory.join(name);
            match self.read(&path) {
                Ok(found) => notes.extend(found.map(|note| (path, note))),
                Err(error) => tracing::debug!("{error}"),
            }
        }
        Ok(notes)
    }

    /// Returns the entry of a job.
    pub fn get(&self, jid: &str) -> Result<Option<Map>> {
        self.read(&disk::join_name(&self.directory, jid, "jid")?)
    }

    /// Returns all entries. Unreadable ones are skipped, empty ones removed.
    pub fn all(&self) -> Result<Vec<Map>> {
        Ok(self.notes()?.into_iter().map(|(_, note)| note).collect())
    }

    /// Removes an entry, and returns whether it existed.
    pub fn remove(&self, jid: &str) -> Result<bool> {
        disk::remove(&disk::join_name(&self.directory, jid, "jid")?)
    }

    /// Removes all entries, because jobs of an earlier process no longer run.
    pub fn clear(&self) -> Result<()> {
        for name in disk::names(&self.directory)? {
            disk::remove(&self.directory.join(name))?;
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Option<Map>> {
        let Some(content) = disk::read(path)? else { return Ok(None) };
        // Salt does the same: its programs may be killed between creating and writing the file.
        if content.is_empty() {
            disk::remove(path)?;
            return Ok(None);
        }
        Ok(disk::read_value(path)?.and_then(Value::into_map))
    }
}

/// Returns the process id of an entry.
fn process_of(note: &Map) -> Option<i32> {
    // Zero and negative ids mean groups of processes to the system.
    note.get("pid").and_then(Value::as_i64).and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0)
}

/// Returns whether a process exists, no matter which user owns it.
fn is_running(pid: i32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// The entry of a running job; dropping it removes the file.
#[derive(Debug)]
pub struct Running {
    path: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = disk::remove(&self.path) {
            tracing::warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_recorded_bytes_and_is_removed_with_the_job() {
        let vectors: Value = serde_json::from_str(include_str!("../testdata/jid.json")).unwrap();
        let recorded = vectors.get("proc_file").unwrap();
        let mut load = recorded.get("object").unwrap().as_map().unwrap().clone();
        load.remove("pid");
        let dir = tempfile::tempdir().unwrap();
        let proc = ProcDir::new(dir.path());
        let running = proc.enter("20240229131415678901", 4321, &load).unwrap();
        let written = std::fs::read(dir.path().join("proc/20240229131415678901")).unwrap();
        assert_eq!(hex::encode(written), recorded.get("hex").unwrap().as_str().unwrap());
        assert_eq!(proc.all().unwrap(), [recorded.get("object").unwrap().as_map().unwrap().clone()]);
        drop(running);
        assert_eq!(proc.all().unwrap(), []);
        assert!(proc.enter("../x", 1, &load).is_err());
    }

    #[test]
    fn entries_of_dead_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let proc = ProcDir::new(dir.path());
        let load = |jid: &str| value::map! { "jid" => jid, "fun" => "test.sleep" };
        let _mine = proc.enter("1", std::process::id(), &load("1")).unwrap();
        // The parent process runs, and no process has the largest possible id.
        let _other = proc.enter("2", std::os::unix::process::parent_id(), &load("2")).unwrap();
        let _gone = proc.enter("3", i32::MAX.unsigned_abs(), &load("3")).unwrap();
        let jids: Vec<_> =
            proc.of_others().unwrap().iter().map(|note| note.get_str("jid").unwrap().to_owned()).collect();
        assert_eq!(jids, ["2"]);
        assert!(!dir.path().join("proc/3").exists(), "the note of a dead process goes");
        assert!(dir.path().join("proc/1").exists());
        proc.tidy().unwrap();
        assert!(!dir.path().join("proc/1").exists(), "an earlier process had this id");
        assert!(dir.path().join("proc/2").exists());
    }

    #[test]
    fn empty_and_broken_entries_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let proc = ProcDir::new(dir.path());
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/1"), "").unwrap();
        std::fs::write(dir.path().join("proc/2"), "\u{92}").unwrap();
        assert_eq!(proc.all().unwrap(), []);
        assert!(!dir.path().join("proc/1").exists());
        proc.clear().unwrap();
        assert!(!dir.path().join("proc/2").exists());
    }
}
