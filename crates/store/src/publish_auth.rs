//! The minion that published a job through its master: `publish_auth/<jid>`. Only that minion may ask for the returns.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use wire::{Jid, MinionId};

use crate::disk::{self, Writing};
use crate::{Error, Result};

/// The publishers of jobs.
#[derive(Clone, Debug)]
pub struct PublishAuth {
    directory: PathBuf,
}

impl PublishAuth {
    /// Returns the publishers, stored in a master's `cachedir`.
    pub fn new(cachedir: &Path) -> Self {
        PublishAuth { directory: cachedir.join("publish_auth") }
    }

    /// Stores who published a job.
    pub fn store(&self, jid: &Jid, publisher: &MinionId) -> Result<()> {
        disk::make_directory(&self.directory)?;
        disk::write(&self.directory.join(jid.as_str()), publisher.as_str().as_bytes(), Writing::PRIVATE)
    }

    /// Returns whether this minion published the job.
    pub fn published(&self, jid: &Jid, id: &MinionId) -> Result<bool> {
        let publisher = disk::read_text(&self.directory.join(jid.as_str()))?;
        Ok(publisher.as_deref() == Some(id.as_str()))
    }

    /// Removes entries older than `keep`.
    pub fn clean(&self, keep: Duration, now: SystemTime) -> Result<()> {
        for name in disk::names(&self.directory)? {
            let path = self.directory.join(name);
            let modified = match std::fs::metadata(&path).and_then(|metadata| metadata.modified()) {
                Ok(modified) => modified,
                // Another master that shares the directory may clean at the same time.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("read the time of", &path)(error)),
            };
            if now.duration_since(modified).is_ok_and(|age| age > keep) {
                disk::remove(&path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_publisher_is_known_until_the_entry_expires() {
        let dir = tempfile::tempdir().unwrap();
        let notes = PublishAuth::new(dir.path());
        let jid = Jid::new("20240229131415678901").unwrap();
        let [web1, web2] = ["web1", "web2"].map(|id| MinionId::new(id).unwrap());
        notes.store(&jid, &web1).unwrap();
        assert!(notes.published(&jid, &web1).unwrap());
        assert!(!notes.published(&jid, &web2).unwrap());
        let keep = Duration::from_secs(60);
        notes.clean(keep, SystemTime::now()).unwrap();
        assert!(notes.published(&jid, &web1).unwrap());
        notes.clean(keep, SystemTime::now() + keep * 2).unwrap();
        assert!(!notes.published(&jid, &web1).unwrap());
    }
}
