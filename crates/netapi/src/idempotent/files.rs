//! Keys of requests on the disk. A file is named after the digest of its user and key, and its age is that of the key.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::own_jobs::Owner;

/// The files.
#[derive(Clone, Debug)]
pub struct Files(PathBuf);

/// What is known of a key.
#[derive(Debug, PartialEq)]
pub struct Record {
    /// The digest of the request.
    pub digest: [u8; 32],
    /// The job.
    pub jid: String,
    /// How long the key is known.
    pub age: Duration,
}

/// Returns the name of the file of a key.
pub fn name(user: &Owner, key: &str) -> String {
    let parts = [user.backend.as_str(), user.user.as_str(), key];
    // No part may look like the end of another one.
    let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    hex::encode(openssl::sha::sha256(text.as_bytes()))
}

impl Files {
    /// Returns the files in the master's cache directory.
    pub fn new(cachedir: &Path) -> Self {
        Files(cachedir.join("api_idempotency_keys"))
    }

    /// Stores a key.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn store(&self, name: &str, digest: [u8; 32], jid: &str) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let text = format!("{} {jid}", hex::encode(digest));
        rt::disk::replace(&self.0.join(name), text.as_bytes(), 0o600, rt::disk::Durability::Process)
    }

    /// Reads a key, unless it is too old.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(&self, name: &str, now: SystemTime, kept: Duration) -> io::Result<Option<Record>> {
        let path = self.0.join(name);
        let (text, changed) =
            match fs::read_to_string(&path).and_then(|text| Ok((text, fs::metadata(&path)?.modified()?))) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
        let age = now.duration_since(changed).unwrap_or_default();
        Ok(parse(&text, age).filter(|_| age < kept))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the keys that are too old.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn clean(&self, now: SystemTime, kept: Duration) -> io::Result<()> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let changed = entry.metadata()?.modified()?;
            if now.duration_since(changed).is_ok_and(|age| age >= kept) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

fn parse(text: &str, age: Duration) -> Option<Record> {
    let (digest, jid) = text.split_once(' ')?;
    let digest = hex::decode(digest).ok()?.try_into().ok()?;
    Some(Record { digest, jid: jid.to_owned(), age })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_keys_are_told_apart() {
        let owner = |user: &str, backend: &str| Owner { user: user.into(), backend: backend.into() };
        let names = [
            name(&owner("a", "b"), "c"),
            name(&owner("ab", ""), "c"),
            name(&owner("a", "b"), "d"),
            name(&owner("a", "bc"), ""),
        ];
        for (place, one) in names.iter().enumerate() {
            assert!(names[..place].iter().all(|other| other != one));
        }
    }

    #[test]
    fn a_broken_file_is_no_key() {
        assert_eq!(parse("", Duration::ZERO), None);
        assert_eq!(parse("aabb 1", Duration::ZERO), None);
        let text = format!("{} 20261126160511953300", "ab".repeat(32));
        assert_eq!(parse(&text, Duration::ZERO).unwrap().jid, "20261126160511953300");
    }
}
