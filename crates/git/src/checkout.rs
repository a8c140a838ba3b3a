//! Directories with the files of a commit. They are created once and never change; another commit is another directory.

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use store::disk;

use crate::tree::{Entry, Tree};
use crate::{Error, Repository, Result};

/// How often the modification time of a directory in use is renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(600);

/// Returns the directory with the files of a tree below `checkouts`. The first time it is created.
///
/// # Errors
/// If the repository cannot be read or the disk fails.
pub fn directory(checkouts: &Path, repository: &Repository, tree: &Tree) -> Result<PathBuf> {
    let place = checkouts.join(tree.oid.as_str());
    if place.is_dir() {
        renew(&place);
        return Ok(place);
    }
    disk::make_directory(checkouts)?;
    let fresh = tempfile::Builder::new()
        .prefix(".new")
        // A temporary directory would be 0700. What protects the files is the mode of the directory above.
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir_in(checkouts)
        .map_err(Error::io("make", checkouts))?;
    fill(fresh.path(), repository, tree)?;
    // From here on the directory is renamed or removed explicitly, not by its guard.
    let fresh = fresh.keep();
    match std::fs::rename(&fresh, &place) {
        Ok(()) => {}
        // Another process was faster.
        Err(_) if place.is_dir() => drop(disk::remove_tree(&fresh)),
        Err(error) => {
            let _ = disk::remove_tree(&fresh);
            return Err(Error::io("put in place", &place)(error));
        }
    }
    Ok(place)
}

/// Renews the modification time of a directory in use, unless that was done lately.
pub(crate) fn renew(place: &Path) {
    let noted = std::fs::metadata(place).and_then(|state| state.modified()).ok();
    let age = noted.and_then(|time| SystemTime::now().duration_since(time).ok());
    if age.is_some_and(|age| age <= RENEWAL_INTERVAL) {
        return;
    }
    let renewed = std::fs::File::open(place).and_then(|directory| directory.set_modified(SystemTime::now()));
    if let Err(error) = renewed {
        tracing::debug!("failed to renew the modification time of {}: {error}", place.display());
    }
}

/// Fails if a file exists already, so that no link can redirect a write.
fn fill(directory: &Path, repository: &Repository, tree: &Tree) -> Result<()> {
    for (name, entry) in tree.entries() {
        let path = directory.join(name);
        match entry {
            Entry::Directory(tree) => {
                std::fs::create_dir(&path).map_err(Error::io("make", &path))?;
                fill(&path, repository, tree)?;
            }
            // A submodule is an empty directory after a checkout without its content, in git too.
            Entry::Module => std::fs::create_dir(&path).map_err(Error::io("make", &path))?,
            Entry::Link { target } => symlink(target, &path).map_err(Error::io("link", &path))?,
            Entry::File { mode, oid } => {
                // Git knows no other modes of files.
                let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
                let mut options = OpenOptions::new();
                options.write(true).read(true).create_new(true).mode(mode);
                let mut file = options.open(&path).map_err(Error::io("write", &path))?;
                repository.copy(oid, &mut file)?;
            }
        }
    }
    Ok(())
}

/// Removes directories that were not used for a while, and incomplete ones.
pub fn remove_old(checkouts: &Path, age: Duration) {
    let now = SystemTime::now();
    for name in disk::text_names(checkouts).unwrap_or_default() {
        let path = checkouts.join(&name);
        let used = std::fs::symlink_metadata(&path).and_then(|state| state.modified()).ok();
        if used.and_then(|time| now.duration_since(time).ok()).is_some_and(|unused| unused > age)
            && let Err(error) = disk::remove_tree(&path)
        {
            tracing::debug!("failed to remove {}: {error}", path.display());
        }
    }
}
