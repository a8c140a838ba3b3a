//! The list of voters in a file: a start must not begin with a list that others do not know.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use share::votes::SavedVoters;
use store::disk::{self, Writing};

/// By how many seconds the last change of an inode may be later than the last one of its content.
const MOST_BETWEEN: i64 = 60;

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
    /// It is older than what this master has promised since.
    #[error("{}: it was restored from a backup, which counts as if it were lost", _0.display())]
    Restored(PathBuf),
    /// Its times cannot be read.
    #[error("{}: {error}", path.display())]
    Times {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
}

impl VotersFile {
    /// Returns the file beside that of the shared records.
    pub fn beside(records: &Path) -> VotersFile {
        VotersFile(records.with_file_name("voters"))
    }

    /// Returns what was written; `None` if nothing ever was.
    pub fn read(&self) -> Result<Option<SavedVoters>, VotersFileError> {
        let path = || self.0.clone();
        let Some(packed) = disk::read(&self.0)? else { return Ok(None) };
        let times = std::fs::metadata(&self.0).map_err(|error| VotersFileError::Times { path: path(), error })?;
        if is_restored(&times) {
            return Err(VotersFileError::Restored(path()));
        }
        let saved = SavedVoters::unpack(&Bytes::from(packed));
        saved.map(Some).map_err(|error| VotersFileError::Damaged { path: path(), error })
    }

    /// Writes what [`SetAction::Save`](share::votes::SetAction::Save) says.
    pub fn write(&self, packed: &[u8]) -> store::Result<()> {
        disk::write(&self.0, packed, Writing { sync: true, ..Writing::PRIVATE })
    }
}

/// Programs that restore a backup set the time of the content, and no program can set that of the inode.
fn is_restored(times: &Metadata) -> bool {
    times.ctime() - times.mtime() > MOST_BETWEEN
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_list_is_read_again_and_a_damaged_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = VotersFile::beside(&dir.path().join("share.redb"));
        assert_eq!(file.read().unwrap(), None);
        let saved = SavedVoters { lease_time: 6_000, ..SavedVoters::default() };
        file.write(&saved.pack()).unwrap();
        assert_eq!(file.read().unwrap(), Some(saved));
        file.write(b"x").unwrap();
        assert!(file.read().unwrap_err().to_string().contains("voters: "));
    }

    #[test]
    fn a_file_that_was_restored_with_its_time_counts_as_lost() {
        let dir = tempfile::tempdir().unwrap();
        let file = VotersFile::beside(&dir.path().join("share.redb"));
        file.write(&SavedVoters::default().pack()).unwrap();
        let opened = std::fs::File::options().write(true).open(&file.0).unwrap();
        opened.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
        assert!(file.read().unwrap_err().to_string().contains("restored from a backup"));
    }
}
