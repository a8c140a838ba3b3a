//! What is running: `proc/<jid>`, the publication with the process id in front.

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

    /// Notes that a job runs in a process. The note goes when the returned mark is dropped.
    pub fn enter(&self, jid: &str, pid: u32, load: &Map) -> Result<Running> {
        let path = disk::join_name(&self.directory, jid, "jid")?;
        let mut content = value::map! { "pid" => pid };
        content.extend(load.iter().map(|(key, value)| (key.clone(), value.clone())));
        disk::make_directory(&self.directory)?;
        disk::write(&path, &pack(&Value::Map(content), Packing::Wire), Writing::PRIVATE)?;
        Ok(Running { path })
    }

    /// Returns the note of a job.
    pub fn get(&self, jid: &str) -> Result<Option<Map>> {
        self.read(&disk::join_name(&self.directory, jid, "jid")?)
    }

    /// Returns all notes. Those that cannot be read are skipped, those that are empty removed.
    pub fn all(&self) -> Result<Vec<Map>> {
        let mut running = Vec::new();
        for name in disk::names(&self.directory)? {
            match self.read(&self.directory.join(name)) {
                Ok(found) => running.extend(found),
                Err(error) => tracing::debug!("{error}"),
            }
        }
        Ok(running)
    }

    /// Removes a note, as for a process that is gone, and says whether there was one.
    pub fn remove(&self, jid: &str) -> Result<bool> {
        disk::remove(&disk::join_name(&self.directory, jid, "jid")?)
    }

    /// Removes all notes: what ran before this process started runs no more.
    pub fn clear(&self) -> Result<()> {
        for name in disk::names(&self.directory)? {
            disk::remove(&self.directory.join(name))?;
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Option<Map>> {
        let Some(content) = disk::read(path)? else { return Ok(None) };
        if content.is_empty() {
            disk::remove(path)?;
            return Ok(None);
        }
        Ok(disk::read_value(path)?.and_then(Value::into_map))
    }
}

/// The mark of a running job; dropping it removes the note.
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
    fn a_note_has_the_recorded_bytes_and_goes_with_the_job() {
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
    fn empty_and_broken_notes_do_no_harm() {
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
