//! Directories with the files of a commit. They are created once and never change; another commit is another directory.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use store::disk;

use crate::tree::{Entry, Tree};
use crate::{Error, Repository, Result};

/// The interval at which the modification time of a directory in use is renewed.
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
        // A temporary directory would be 0700.
        .permissions(std::fs::Permissions::from_mode(0o750))
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
                make_directory(&path)?;
                fill(&path, repository, tree)?;
            }
            // A submodule is an empty directory after a checkout without its content, in git too.
            Entry::Module => make_directory(&path)?,
            Entry::Link { target } => symlink(target, &path).map_err(Error::io("link", &path))?,
            Entry::File { mode, oid } => {
                // Git knows two modes, 0644 and 0755. These files are closed to other users: a pillar holds secrets.
                let mode = if mode & 0o111 == 0 { 0o640 } else { 0o750 };
                let mut options = OpenOptions::new();
                options.write(true).read(true).create_new(true).mode(mode);
                let mut file = options.open(&path).map_err(Error::io("write", &path))?;
                repository.copy(oid, &mut file)?;
            }
        }
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new().mode(0o750).create(path).map_err(Error::io("make", path))
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
