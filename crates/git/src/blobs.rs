//! Contents of files, extracted from repositories once and stored by their object names.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crypto::{HashType, Hasher};

use crate::{Error, Oid, Repository, Result};

/// A directory of contents. Several masters may share it.
pub struct Blobs {
    directory: PathBuf,
    /// Contents that this process has verified.
    seen: Mutex<HashSet<Oid>>,
}

/// The number of names that are cached.
const MAX_SEEN: usize = 200_000;

impl Blobs {
    /// Returns the contents stored in a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Blobs { directory: directory.into(), seen: Mutex::default() }
    }

    /// Returns the file with a content. The first time it is extracted from the repository.
    ///
    /// # Errors
    /// If the repository cannot be read or the disk fails.
    pub fn file(&self, repository: &Repository, oid: &Oid) -> Result<PathBuf> {
        // A subdirectory per first byte, as git itself does: no directory becomes huge.
        let path = self.directory.join(&oid.as_str()[..2]).join(&oid.as_str()[2..]);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(oid);
        // Hashed once per process. The file is not synced when it is written, so after a power failure it may be cut.
        if seen && path.exists() || !seen && is_whole(&path, oid) {
            self.see(oid);
            return Ok(path);
        }
        self.extract(repository, oid, &path)?;
        self.see(oid);
        Ok(path)
    }

    fn see(&self, oid: &Oid) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_SEEN {
            seen.clear();
        }
        seen.insert(oid.clone());
    }

    fn extract(&self, repository: &Repository, oid: &Oid, path: &Path) -> Result<()> {
        let directory = path.parent().unwrap_or(&self.directory);
        store::disk::make_directories(directory).map_err(Error::io("make", directory))?;
        let mut file =
            tempfile::Builder::new().prefix(".tmp").tempfile_in(directory).map_err(Error::io("write", path))?;
        // Under a temporary name: another master that shares the directory must not serve half of it.
        repository.copy(oid, file.as_file_mut())?;
        file.persist(path).map_err(|error| Error::io("write", path)(error.error))?;
        Ok(())
    }

    /// Removes contents that are no longer served and were not used for a while.
    pub fn remove_old(&self, keep: &HashSet<Oid>, age: Duration) {
        let now = SystemTime::now();
        for group in store::disk::text_names(&self.directory).unwrap_or_default() {
            let directory = self.directory.join(&group);
            for name in store::disk::text_names(&directory).unwrap_or_default() {
                let path = directory.join(&name);
                let used =
                    // The later of both times. Many file systems are mounted so that reading does not update the access
                    // time.
                    std::fs::metadata(&path).ok().and_then(|state| state.accessed().ok().max(state.modified().ok()));
                let old = used.and_then(|time| now.duration_since(time).ok()).is_some_and(|old| old > age);
                let kept = Oid::new(&format!("{group}{name}")).is_some_and(|oid| keep.contains(&oid));
                if old && !kept {
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
    }
}

/// Returns whether a file has the content of its name: a power failure may have truncated it.
fn is_whole(path: &Path, oid: &Oid) -> bool {
    let kind = if oid.as_str().len() == 40 { HashType::Sha1 } else { HashType::Sha256 };
    let hash = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let mut hasher = Hasher::new(kind);
        hasher.update(format!("blob {}\0", file.metadata()?.len()).as_bytes());
        let mut buffer = vec![0; 64 << 10];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hasher.finish_hex()),
                len => hasher.update(&buffer[..len]),
            }
        }
    };
    hash().is_ok_and(|hash| hash == oid.as_str())
}
