//! Session keys, one per minion in `sessions/<id>`, and the minions that have used one, in `sessions_used/<id>`.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use wire::MinionId;

use crate::disk::{self, Writing};
use crate::{Error, Result};

/// The session keys of a master. Masters that share the directory share the keys.
pub struct SessionKeys {
    directory: PathBuf,
    lifetime: Duration,
    known: Mutex<HashMap<MinionId, (SystemTime, String)>>,
    /// The directory with an empty file for each minion that has ever used a session key.
    used: PathBuf,
    /// The minions that are known to have such a file.
    marked: Mutex<HashSet<MinionId>>,
}

impl SessionKeys {
    /// Returns the keys in a master's `cachedir`. Each is replaced at the age of `lifetime` (`publish_session`).
    pub fn new(cachedir: &Path, lifetime: Duration) -> Self {
        SessionKeys {
            directory: cachedir.join("sessions"),
            lifetime,
            known: Mutex::default(),
            used: cachedir.join("sessions_used"),
            marked: Mutex::default(),
        }
    }

    /// Returns the key of a minion, and creates one if there is none or it is too old.
    ///
    /// If another master or an operator replaces a key in the directory, the file's modification time shows it.
    pub fn get(&self, id: &MinionId, now: SystemTime, make: impl FnOnce() -> String) -> Result<String> {
        let path = self.path(id);
        let written = modified(&path)?;
        // A file from the future has age zero here: a clock that was set back must not replace the keys of all minions
        // at once.
        let fresh = written.filter(|written| now.duration_since(*written).unwrap_or_default() <= self.lifetime);
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = fresh {
            if let Some((_, key)) = lock().get(id).filter(|(known, _)| *known == written) {
                return Ok(key.clone());
            }
        } else {
            disk::make_directory(&self.directory)?;
            disk::write(&path, make().as_bytes(), Writing::PRIVATE)?;
        }
        // Read it back: if two masters create a key at once, both must use the one that was written last.
        let written = modified(&path)?.unwrap_or(now);
        let key = disk::read_text(&path)?.ok_or_else(|| Error::malformed(&path, "it vanished"))?;
        lock().insert(id.clone(), (written, key.clone()));
        Ok(key)
    }

    /// Returns whether a minion was ever marked with [`SessionKeys::mark_used`].
    pub fn was_used(&self, id: &MinionId) -> bool {
        self.marked().contains(id) || self.used.join(id.as_str()).exists()
    }

    /// Stores that a minion uses session keys. This is cheap if it is known already.
    pub fn mark_used(&self, id: &MinionId) -> Result<()> {
        if self.marked().contains(id) {
            return Ok(());
        }
        disk::make_directory(&self.used)?;
        // On disk, because a minion that has proved that it knows session keys must not be downgraded after a restart.
        disk::write(&self.used.join(id.as_str()), b"", Writing::PRIVATE)?;
        self.marked().insert(id.clone());
        Ok(())
    }

    /// Removes the mark of a minion, because another machine may get its id.
    pub fn unmark(&self, id: &MinionId) -> Result<bool> {
        self.marked().remove(id);
        disk::remove(&self.used.join(id.as_str()))
    }

    fn marked(&self) -> MutexGuard<'_, HashSet<MinionId>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the key of a minion, for instance when its key pair is deleted.
    pub fn remove(&self, id: &MinionId) -> Result<bool> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        disk::remove(&self.path(id))
    }

    fn path(&self, id: &MinionId) -> PathBuf {
        self.directory.join(id.as_str())
    }
}

/// Keys are never printed.
impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKeys").field("directory", &self.directory).field("lifetime", &self.lifetime).finish()
    }
}

fn modified(path: &Path) -> Result<Option<SystemTime>> {
    match std::fs::metadata(path).and_then(|metadata| metadata.modified()) {
        Ok(time) => Ok(Some(time)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read the time of", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn used_keys_are_known_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let keys = || SessionKeys::new(dir.path(), Duration::ZERO);
        let id = MinionId::new("web1").unwrap();
        let first = keys();
        assert!(!first.was_used(&id));
        first.mark_used(&id).unwrap();
        first.mark_used(&id).unwrap();
        assert!(first.was_used(&id) && keys().was_used(&id));
        first.unmark(&id).unwrap();
        assert!(!first.was_used(&id) && !keys().was_used(&id));
    }

    #[test]
    fn an_old_key_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(86_400);
        let keys = SessionKeys::new(dir.path(), day);
        let id = MinionId::new("web1").unwrap();
        let now = SystemTime::now();
        let never = || -> String { panic!("a good key is not replaced") };
        assert_eq!(keys.get(&id, now, || "one".into()).unwrap(), "one");
        assert_eq!(keys.get(&id, now, never).unwrap(), "one");
        assert_eq!(SessionKeys::new(dir.path(), day).get(&id, now, never).unwrap(), "one");
        let mode = std::fs::metadata(dir.path().join("sessions/web1")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(keys.get(&id, now + day * 2, || "two".into()).unwrap(), "two");
        assert!(keys.remove(&id).unwrap());
        assert_eq!(keys.get(&id, now, || "three".into()).unwrap(), "three");
        assert!(!format!("{keys:?}").contains("three"));
    }
}
