//! The drop file `.dfn`: a request to a master to rotate its AES key.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::disk::{self, Writing};
use crate::{Error, Layout, Result};

/// The drop file in a master's `cachedir`.
#[derive(Clone, Debug)]
pub struct DropFile {
    cachedir: PathBuf,
    layout: Layout,
}

/// The result of looking for the drop file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// There is no drop file.
    Nothing,
    /// The key must be rotated; the file is removed.
    Rotate,
    /// The file does not have exactly the mode it is created with, so someone else may have written it. It stays.
    WrongMode,
    /// The file is for another master that shares the directory. It stays.
    OtherMaster,
}

/// A regular file that only its owner may read.
const MODE: u32 = 0o100400;

impl DropFile {
    /// Returns the drop file in a master's `cachedir`. 3006 writes it empty, later releases with the master's id.
    pub fn new(cachedir: impl Into<PathBuf>, layout: Layout) -> Self {
        DropFile { cachedir: cachedir.into(), layout }
    }

    /// Asks the master with this id to rotate its key, unless a request is already there. With `owner` the file is given to that
    /// user id, which may fail silently, as in Salt.
    pub fn request(&self, master_id: &str, owner: Option<u32>) -> Result<()> {
        let path = self.path();
        // A second request adds nothing: the pending one rotates the key too.
        if path.exists() {
            return Ok(());
        }
        // The master must never see the file with another mode, so it is renamed into place.
        let next = self.cachedir.join(".dfn-next");
        disk::make_directory(&self.cachedir)?;
        disk::write(&next, master_id.as_bytes(), Writing { mode: 0o400, ..Writing::PRIVATE })?;
        if let Some(owner) = owner {
            // A caller without the right to give files away usually runs as the master's user already.
            let _ = rt::owned::give(&next, owner, None);
        }
        std::fs::rename(&next, &path).map_err(Error::io("write", &path))
    }

    /// Checks whether the master with this id must rotate its key, and removes the request.
    ///
    /// An empty file, as written by 3006, is for whichever master looks first.
    pub fn take(&self, master_id: &str) -> Result<Dropped> {
        let path = self.path();
        // A link must not count: a user who can make one could point it at any private file of the master.
        let metadata = match std::fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Dropped::Nothing),
            Err(error) => return Err(Error::io("read the mode of", &path)(error)),
        };
        if metadata.mode() != MODE {
            // 3006 removes the file whatever its mode, so that it is not reported repeatedly.
            if self.layout == Layout::Until3007 && metadata.len() == 0 {
                disk::remove(&path)?;
            }
            return Ok(Dropped::WrongMode);
        }
        let Some(asked) = disk::read_text(&path)? else { return Ok(Dropped::Nothing) };
        if !asked.is_empty() && asked != master_id {
            return Ok(Dropped::OtherMaster);
        }
        // Two masters may check at once: only the one that removes the file rotates its key.
        Ok(if disk::remove(&path)? { Dropped::Rotate } else { Dropped::Nothing })
    }

    fn path(&self) -> PathBuf {
        self.cachedir.join(".dfn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_by_its_master() {
        let dir = tempfile::tempdir().unwrap();
        let file = DropFile::new(dir.path(), Layout::Since3008);
        assert_eq!(file.take("m1").unwrap(), Dropped::Nothing);
        file.request("m1", None).unwrap();
        file.request("m2", None).unwrap();
        assert_eq!(std::fs::metadata(dir.path().join(".dfn")).unwrap().mode(), MODE);
        assert_eq!(file.take("m2").unwrap(), Dropped::OtherMaster);
        assert_eq!(file.take("m1").unwrap(), Dropped::Rotate);
        assert_eq!(file.take("m1").unwrap(), Dropped::Nothing);
    }

    #[test]
    fn only_the_right_mode_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".dfn");
        std::fs::write(&path, "m1").unwrap();
        assert_eq!(DropFile::new(dir.path(), Layout::Since3008).take("m1").unwrap(), Dropped::WrongMode);
        assert!(path.exists());
        std::fs::write(&path, "").unwrap();
        assert_eq!(DropFile::new(dir.path(), Layout::Until3007).take("m1").unwrap(), Dropped::WrongMode);
        assert!(!path.exists());
    }

    #[test]
    fn an_empty_request_of_3006_is_for_any_master() {
        let dir = tempfile::tempdir().unwrap();
        let file = DropFile::new(dir.path(), Layout::Until3007);
        file.request("", None).unwrap();
        assert_eq!(file.take("m1").unwrap(), Dropped::Rotate);
    }
}
