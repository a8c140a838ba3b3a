//! The list of voters in a file: a start must not begin with a list that others do not know.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use share::votes::VoterList;
use store::disk::{self, Writing};

/// The file of the list.
#[derive(Clone)]
pub struct VotersFile(PathBuf);

/// Why the file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VotersFileError {
    /// The disk refuses it.
    #[error(transparent)]
    Disk(#[from] store::Error),
    /// It is damaged.
    #[error("{}: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: share::Malformed,
    },
}

impl VotersFile {
    /// Returns the file beside that of the shared records.
    pub fn beside(records: &Path) -> VotersFile {
        VotersFile(records.with_file_name("voters"))
    }

    /// Returns the list, and the longest lease that may have been granted under it; `None` if there never was one.
    pub fn read(&self) -> Result<Option<(VoterList, u64)>, VotersFileError> {
        let Some(packed) = disk::read(&self.0)? else { return Ok(None) };
        let list = VoterList::unpack(&Bytes::from(packed));
        list.map(Some).map_err(|error| VotersFileError::Damaged { path: self.0.clone(), error })
    }

    /// Writes what [`SetAction::Save`](share::votes::SetAction::Save) says.
    pub fn write(&self, packed: &[u8]) -> store::Result<()> {
        disk::write(&self.0, packed, Writing { sync: true, ..Writing::PRIVATE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_again_and_a_damaged_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = VotersFile::beside(&dir.path().join("share.redb"));
        assert_eq!(file.read().unwrap(), None);
        let list = VoterList { number: 3, founded: true, ..VoterList::default() };
        file.write(&list.pack(6_000)).unwrap();
        assert_eq!(file.read().unwrap(), Some((list, 6_000)));
        file.write(b"x").unwrap();
        assert!(file.read().unwrap_err().to_string().contains("voters: "));
    }
}
