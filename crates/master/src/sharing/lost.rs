//! The ids whose key files are lost, in a file: a later start must not take for deletions what was lost before it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use share::Key;
use store::disk::{self, Writing};

/// The file of lost ids.
pub struct LostFile(PathBuf);

impl LostFile {
    /// Returns the file beside that of the shared records.
    pub fn beside(records: &Path) -> LostFile {
        LostFile(records.with_file_name("lost"))
    }

    /// Returns the ids that were lost and that nobody has restored or adopted.
    pub fn read(&self) -> store::Result<BTreeSet<String>> {
        let text = disk::read_text(&self.0)?.unwrap_or_default();
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Writes down what is lost now.
    pub fn write(&self, ids: &[Key]) -> store::Result<()> {
        if ids.is_empty() {
            return disk::remove(&self.0).map(drop);
        }
        let text: String = ids.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
        disk::write(&self.0, text.as_bytes(), Writing { sync: true, ..Writing::PRIVATE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_ids_are_read_again_until_nothing_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let file = LostFile::beside(&dir.path().join("share.redb"));
        assert!(file.read().unwrap().is_empty());
        file.write(&["web1", "web2"].map(|id| Key::new(id).unwrap())).unwrap();
        assert_eq!(file.read().unwrap().into_iter().collect::<Vec<_>>(), ["web1", "web2"]);
        file.write(&[]).unwrap();
        assert!(file.read().unwrap().is_empty());
    }
}
