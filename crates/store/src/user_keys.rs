//! The keys that authenticate local users to the master: `.<user>_key`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::disk::{self, Writing};
use crate::{Error, Result};

/// The longest key that is read, in bytes: a generated one has 216.
const MOST_BYTES: u64 = 4096;

/// The keys of local users, in a master's `cachedir`.
#[derive(Clone, Debug)]
pub struct UserKeys {
    cachedir: PathBuf,
}

impl UserKeys {
    /// Returns the keys in a master's `cachedir`.
    pub fn new(cachedir: impl Into<PathBuf>) -> Self {
        UserKeys { cachedir: cachedir.into() }
    }

    /// Returns the path of a user's key. Backslashes of Windows names become `_`.
    pub fn path(&self, user: &str) -> Result<PathBuf> {
        disk::join_name(&self.cachedir, &format!(".{}_key", user.replace('\\', "_")), "user")
    }

    /// Returns a user's key, if it exists and may be read.
    pub fn read(&self, user: &str) -> Result<Option<String>> {
        disk::read_text(&self.path(user)?)
    }

    /// Returns a user's key, and creates one if there is none. With `owner` the file is given to that user id.
    pub fn ensure(&self, user: &str, owner: Option<u32>, make: impl FnOnce() -> String) -> Result<String> {
        let path = self.path(user)?;
        // An empty key would protect nothing.
        if let Some(key) = read(&path)?.filter(|key| !key.is_empty()) {
            give(&path, owner)?;
            return Ok(key);
        }
        let key = make();
        disk::make_directory(&self.cachedir)?;
        disk::write(&path, key.as_bytes(), Writing::PRIVATE)?;
        give(&path, owner)?;
        Ok(key)
    }

    /// Returns all keys with the names of their users.
    pub fn all(&self) -> Result<Vec<(String, String)>> {
        let mut keys = Vec::new();
        for name in disk::text_names(&self.cachedir)? {
            let Some(user) = name.strip_prefix('.').and_then(|name| name.strip_suffix("_key")) else { continue };
            if let Some(key) = read(&self.cachedir.join(&name))? {
                keys.push((user.to_owned(), key));
            }
        }
        Ok(keys)
    }
}

/// Reads a key. The directory belongs to the master's user, whose links root must not follow.
fn read(path: &Path) -> Result<Option<String>> {
    match rt::owned::open_to_read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
        Ok(file) => {
            let mut key = String::new();
            file.take(MOST_BYTES).read_to_string(&mut key).map_err(Error::io("read", path))?;
            Ok(Some(key))
        }
    }
}

fn give(path: &Path, owner: Option<u32>) -> Result<()> {
    match owner {
        // The directory belongs to the master's user, who could place a link to a file of root there.
        Some(owner) => rt::owned::give(path, owner, None).map_err(Error::io("change the owner of", path)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_created_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let keys = UserKeys::new(dir.path());
        assert_eq!(keys.read("root").unwrap(), None);
        assert_eq!(keys.ensure("root", None, || "secret".into()).unwrap(), "secret");
        assert_eq!(keys.ensure("root", None, || panic!("there is one")).unwrap(), "secret");
        let path = dir.path().join(".root_key");
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(keys.ensure("DOM\\fred", None, || "other".into()).unwrap(), "other");
        assert!(dir.path().join(".DOM_fred_key").is_file());
        assert_eq!(keys.all().unwrap().len(), 2);
        assert!(keys.read("../x").is_err());
    }

    #[test]
    fn a_link_to_a_file_of_another_user_is_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let keys = UserKeys::new(dir.path());
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("secret", dir.path().join(".fred_key")).unwrap();
        let error = keys.ensure("fred", Some(65_533), || panic!("there is one")).unwrap_err();
        let (error, cause) = (error.to_string(), std::error::Error::source(&error).unwrap().to_string());
        assert!(error.contains(".fred_key") && cause == "it is a link", "{error}: {cause}");
    }
}
