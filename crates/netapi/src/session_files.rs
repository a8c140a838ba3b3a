//! Sessions on the disk, so that a restart of salt-api logs nobody out.
//!
//! Each session is a file of its own that only its owner can read. It is named after the digest of the id, so who sees the names
//! cannot use the sessions. The time of its last change is that of the last request.

use std::fs::{self, File, FileTimes};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::sessions::{ID_BYTES, Session, is_alive};

/// The largest file that is read. Users may be in many groups.
const LARGEST: u64 = 1 << 20;

/// The files of sessions.
#[derive(Clone, Debug)]
pub struct SessionFiles {
    directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Record {
    token: String,
    user: String,
    eauth: String,
    groups: Vec<String>,
    expire: f64,
}

impl SessionFiles {
    /// Returns the files in the master's cache directory.
    pub fn new(cachedir: &Path) -> Self {
        SessionFiles { directory: cachedir.join("api_sessions") }
    }

    /// Stores a session that begins.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn store(&self, id: &str, session: &Session, now: SystemTime) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let expire = session.expire.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let record = Record {
            token: session.token.clone(),
            user: session.user.clone(),
            eauth: session.backend.clone(),
            groups: session.groups.clone(),
            expire,
        };
        let path = self.path(id);
        rt::disk::replace(&path, &serde_json::to_vec(&record)?, 0o600, rt::disk::Durability::Process)?;
        self.touch(id, now)
    }

    /// Reads a session, with the time of its last request. Removes it if it has ended.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(&self, id: &str, now: SystemTime) -> io::Result<Option<(Session, SystemTime)>> {
        // Anything else is not worth a look at the disk.
        if id.len() != 2 * ID_BYTES || !crate::low::is_hex(id) {
            return Ok(None);
        }
        self.read_file(&self.path(id), now)
    }

    fn read_file(&self, path: &Path, now: SystemTime) -> io::Result<Option<(Session, SystemTime)>> {
        let mut text = Vec::new();
        let used = match File::open(path) {
            Ok(file) => {
                let used = file.metadata()?.modified()?;
                file.take(LARGEST).read_to_end(&mut text)?;
                used
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match parse(&text).filter(|session| is_alive(session, used, now)) {
            Some(session) => Ok(Some((session, used))),
            None => remove(path).map(|()| None),
        }
    }

    /// Notes a request.
    ///
    /// # Errors
    /// When the file cannot be changed.
    pub fn touch(&self, id: &str, now: SystemTime) -> io::Result<()> {
        match File::options().write(true).open(self.path(id)) {
            Ok(file) => file.set_times(FileTimes::new().set_modified(now)),
            // It ends at the same time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a session that ends.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn remove(&self, id: &str) -> io::Result<()> {
        remove(&self.path(id))
    }

    /// Removes the sessions that have ended.
    ///
    /// # Errors
    /// When a file cannot be read or removed.
    pub fn clean(&self, now: SystemTime) -> io::Result<()> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            self.read_file(&entry?.path(), now)?;
        }
        Ok(())
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(hex::encode(openssl::sha::sha256(id.as_bytes())))
    }
}

fn parse(text: &[u8]) -> Option<Session> {
    let record: Record = serde_json::from_slice(text).ok()?;
    Some(Session {
        token: record.token,
        user: record.user,
        backend: record.eauth,
        groups: record.groups,
        expire: UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(record.expire).ok()?)?,
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn session(start: SystemTime) -> Session {
        Session {
            token: "a".repeat(64),
            user: "fred".into(),
            backend: "file".into(),
            groups: vec!["web".into()],
            expire: start + 12 * HOUR,
        }
    }

    #[test]
    fn a_session_survives_and_its_id_is_not_on_the_disk() {
        let place = tempfile::tempdir().unwrap();
        let (files, start) = (SessionFiles::new(place.path()), UNIX_EPOCH + 1_000_000 * HOUR);
        assert_eq!(files.read(ID, start).unwrap(), None);
        files.store(ID, &session(start), start).unwrap();
        assert_eq!(SessionFiles::new(place.path()).read(ID, start + HOUR).unwrap(), Some((session(start), start)));
        let names: Vec<_> = fs::read_dir(&files.directory).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(files.directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_ne!(names[0].file_name().to_str().unwrap(), ID);
        assert!(!fs::read_to_string(names[0].path()).unwrap().contains(ID));
        // The name of the file is no id.
        assert_eq!(files.read(names[0].file_name().to_str().unwrap(), start).unwrap(), None);
    }

    #[test]
    fn a_session_slides_to_the_end_of_its_token() {
        let place = tempfile::tempdir().unwrap();
        let (files, start) = (SessionFiles::new(place.path()), UNIX_EPOCH + 1_000_000 * HOUR);
        files.store(ID, &session(start), start).unwrap();
        files.touch(ID, start + 9 * HOUR).unwrap();
        assert!(files.read(ID, start + 11 * HOUR).unwrap().is_some());
        assert!(files.read(ID, start + 12 * HOUR).unwrap().is_none());
        files.store(ID, &session(start), start).unwrap();
        assert!(files.read(ID, start + 10 * HOUR).unwrap().is_none(), "nobody used it for ten hours");
        assert_eq!(fs::read_dir(&files.directory).unwrap().count(), 0);
        files.touch(ID, start).unwrap();
    }

    #[test]
    fn ended_and_broken_records_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let (files, start) = (SessionFiles::new(place.path()), UNIX_EPOCH + 1_000_000 * HOUR);
        files.clean(start).unwrap();
        files.store(ID, &session(start), start).unwrap();
        fs::write(files.directory.join("broken"), "{").unwrap();
        files.clean(start).unwrap();
        assert!(files.read(ID, start).unwrap().is_some());
        assert_eq!(fs::read_dir(&files.directory).unwrap().count(), 1);
        files.clean(start + 20 * HOUR).unwrap();
        assert_eq!(fs::read_dir(&files.directory).unwrap().count(), 0);
        for id in ["", "../../etc/passwd", &"g".repeat(40), &"a".repeat(64)] {
            assert_eq!(files.read(id, start).unwrap(), None, "{id}");
        }
        files.store(ID, &session(start), start).unwrap();
        files.remove(ID).unwrap();
        files.remove(ID).unwrap();
        assert_eq!(files.read(ID, start).unwrap(), None);
    }
}
