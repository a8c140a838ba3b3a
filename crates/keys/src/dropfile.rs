//! The drop file `.dfn`, which asks a master to rotate its AES key.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::KeyError;
use crate::atomic::{self, Manner, Owner};

/// The state of the drop file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropFile {
    /// Nothing, or a request to another master that shares the directory.
    Nothing,
    /// A request, which has been removed.
    Request,
    /// Something other than a regular file with mode 0400. It is not a request, and stays.
    WrongMode,
}

/// Requests a new AES key from the master with this id and cache directory, so that minions with a deleted or rejected
/// key are locked out. Does nothing if a request is already waiting, or if the directory does not exist, since no
/// master has run then.
pub fn request_rotation(cachedir: &Path, master_id: &str, owner: Owner) -> Result<(), KeyError> {
    let path = path(cachedir);
    if path.is_file() {
        tracing::info!("AES key rotation already requested");
        return Ok(());
    }
    if matches!(fs::symlink_metadata(cachedir), Err(error) if error.kind() == io::ErrorKind::NotFound) {
        tracing::debug!("no master has run with {}, so it has no AES key to change", cachedir.display());
        return Ok(());
    }
    tracing::info!("Rotating AES key");
    // Exactly this mode: the master ignores a file with any other.
    let manner = Manner { mode: 0o400, owner, durable: false };
    atomic::write(&path, master_id.as_bytes(), manner).map_err(KeyError::io("write", &path))
}

/// Takes a request to the master with this id, which then creates a new AES key.
///
/// An empty request, as written by Salt 3006, is for every master.
pub fn take_rotation_request(cachedir: &Path, master_id: &str) -> Result<DropFile, KeyError> {
    let path = path(cachedir);
    // Links are not followed. `cachedir` may be open to programs of other users, and a link could make the master read
    // any file.
    let file = match fs::symlink_metadata(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DropFile::Nothing),
        Err(error) => return Err(KeyError::io("look at", &path)(error)),
    };
    if !file.is_file() || file.permissions().mode() & 0o7777 != 0o400 || file.size() > 4096 {
        return Ok(DropFile::WrongMode);
    }
    let asked = fs::read(&path).map_err(KeyError::io("read", &path))?;
    // Masters may share a cache directory; the request of another one stays for it.
    if !asked.is_empty() && asked != master_id.as_bytes() {
        return Ok(DropFile::Nothing);
    }
    fs::remove_file(&path).map_err(KeyError::io("remove", &path))?;
    Ok(DropFile::Request)
}

fn path(cachedir: &Path) -> PathBuf {
    cachedir.join(".dfn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_by_the_one_it_is_for() {
        let dir = tempfile::tempdir().unwrap();
        let take = |id| take_rotation_request(dir.path(), id).unwrap();
        assert_eq!(take("salt_master"), DropFile::Nothing);
        request_rotation(dir.path(), "salt_master", Owner::NOBODY).unwrap();
        request_rotation(dir.path(), "salt_master", Owner::NOBODY).unwrap();
        assert_eq!(fs::metadata(path(dir.path())).unwrap().permissions().mode() & 0o7777, 0o400);
        assert_eq!(take("other_master"), DropFile::Nothing);
        assert_eq!(take("salt_master"), DropFile::Request);
        assert_eq!(take("salt_master"), DropFile::Nothing);
    }

    #[test]
    fn strangers_requests_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(dir.path());
        fs::write(&path, "").unwrap();
        assert_eq!(take_rotation_request(dir.path(), "m").unwrap(), DropFile::WrongMode);
        assert!(path.exists());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(take_rotation_request(dir.path(), "m").unwrap(), DropFile::Request);
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(take_rotation_request(dir.path(), "m").unwrap(), DropFile::WrongMode);
    }
}
