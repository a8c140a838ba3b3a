//! The journal: changes since the last write to the database, appended to one file after the other.
//!
//! A record is `length u32, CRC-32 of the rest u32, kind u8, key length u32, key, value`; integers are little endian, and the
//! length counts what follows the checksum. Kind 1 sets a value, kind 0 removes one. A record truncated by the death of the
//! process ends its file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, Result, disk};

const NAME: &str = "journal.";
const HEADER: usize = 8;
/// The maximum length of a record; nothing that is stored is as long.
// A damaged length must not make the reader wait for, or allocate, gigabytes.
const MAX_RECORD: usize = 1 << 30;

/// A change of one row: its key and its value, or `None` to remove it.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// The journal file that is written now.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    number: u64,
    file: File,
    length: u64,
}

impl Journal {
    /// Starts a new file after the existing ones.
    pub fn create(directory: &Path) -> Result<Self> {
        // Old files may still have to be replayed, so their numbers are not reused.
        let number = numbers(directory)?.last().map_or(1, |last| last + 1);
        Self::numbered(directory, number)
    }

    fn numbered(directory: &Path, number: u64) -> Result<Self> {
        let path = path(directory, number);
        let file = disk::admit(&path)
            // `create_new`: two writers of one journal would overwrite each other.
            .and_then(|()| OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path))
            .map_err(Error::io("create", &path))?;
        Ok(Journal { directory: directory.to_owned(), number, file, length: 0 })
    }

    /// Appends all changes or none.
    pub fn append(&mut self, changes: &[Change]) -> Result<()> {
        // One write for all records: a crash leaves a prefix, and each record is either whole or recognisably cut off.
        let mut records = Vec::with_capacity(changes.iter().map(|(key, value)| 16 + key.len() + size(value)).sum());
        for (key, value) in changes {
            write_record(&mut records, key, value.as_deref());
        }
        let path = path(&self.directory, self.number);
        let written = disk::admit(&path).and_then(|()| self.file.write_all_at(&records, self.length));
        match written {
            Ok(()) => {
                self.length += records.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Half a record would hide what follows it. If it cannot be cut off, the next record overwrites it.
                let _ = self.file.set_len(self.length);
                Err(Error::io("write", &path)(error))
            }
        }
    }

    /// Continues in a new file, and returns the number of the last finished one.
    pub fn rotate(&mut self) -> Result<u64> {
        let finished = self.number;
        *self = Self::numbered(&self.directory, finished + 1)?;
        Ok(finished)
    }

    /// Removes the files up to a number.
    pub fn remove(directory: &Path, upto: u64) -> Result<()> {
        for number in numbers(directory)?.into_iter().filter(|number| *number <= upto) {
            disk::remove(&path(directory, number))?;
        }
        Ok(())
    }

    /// Reads all files in order. Of a file that is damaged in the middle, the records before the damage count; the damage is
    /// returned.
    pub fn replay(directory: &Path, mut each: impl FnMut(Change)) -> Result<Vec<Damaged>> {
        let mut damaged = Vec::new();
        for number in numbers(directory)? {
            let path = path(directory, number);
            let Some(content) = disk::read(&path)? else { continue };
            let rest = read_records(&content, &mut each).len();
            // A truncated last record is the normal trace of a crash and was never acknowledged. Anything else means
            // that acknowledged records are lost, which the operator must learn.
            if rest > HEADER && !is_cut_off(&content[content.len() - rest..]) {
                damaged.push(Damaged { path, at: content.len() - rest });
            }
        }
        Ok(damaged)
    }
}

/// A file of the journal that cannot be read to its end.
#[derive(Debug)]
pub struct Damaged {
    path: PathBuf,
    at: usize,
}

impl Damaged {
    /// Renames the file to `journal.N.damaged`, with an error in the log.
    pub fn put_aside(&self) -> Result<()> {
        let aside = self.path.with_added_extension("damaged");
        std::fs::rename(&self.path, &aside).map_err(Error::io("rename", &self.path))?;
        let (path, aside) = (self.path.display(), aside.display());
        tracing::error!(
            "{path} is damaged after {} bytes; what follows is not in the job cache, the file is kept as {aside}",
            self.at
        );
        Ok(())
    }
}

fn size(value: &Option<Vec<u8>>) -> usize {
    value.as_ref().map_or(0, Vec::len)
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{NAME}{number}"))
}

fn numbers(directory: &Path) -> Result<Vec<u64>> {
    let names = disk::text_names(directory)?.into_iter();
    let mut numbers: Vec<u64> = names.filter_map(|name| name.strip_prefix(NAME)?.parse().ok()).collect();
    // By number, not by name: `journal.10` follows `journal.9`.
    numbers.sort_unstable();
    Ok(numbers)
}

fn write_record(records: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    let start = records.len();
    let length = 5 + key.len() + value.map_or(0, <[u8]>::len);
    records.extend_from_slice(&(length as u32).to_le_bytes());
    records.extend_from_slice(&[0; 4]);
    records.push(u8::from(value.is_some()));
    records.extend_from_slice(&(key.len() as u32).to_le_bytes());
    records.extend_from_slice(key);
    records.extend_from_slice(value.unwrap_or_default());
    let sum = crc32fast::hash(&records[start + HEADER..]);
    records[start + 4..start + HEADER].copy_from_slice(&sum.to_le_bytes());
}

/// Passes each complete record to the callback, and returns the bytes after the last one.
fn read_records<'a>(mut content: &'a [u8], each: &mut impl FnMut(Change)) -> &'a [u8] {
    while let Some((change, rest)) = read_record(content) {
        each(change);
        content = rest;
    }
    content
}

fn read_record(content: &[u8]) -> Option<(Change, &[u8])> {
    let (length, sum) = (integer(content, 0)?, integer(content, 4)?);
    if length > MAX_RECORD {
        return None;
    }
    let record = content.get(HEADER..HEADER + length)?;
    // The checksum detects a torn write; it is no protection against other writers.
    if crc32fast::hash(record) as usize != sum {
        return None;
    }
    let (kind, key_length) = (*record.first()?, integer(record, 1)?);
    let key = record.get(5..5usize.checked_add(key_length)?)?.to_vec();
    let value = (kind == 1).then(|| record[5 + key.len()..].to_vec());
    Some(((key, value), &content[HEADER + length..]))
}

/// Returns whether a process died while it wrote this: the record announces more bytes than there are.
fn is_cut_off(rest: &[u8]) -> bool {
    integer(rest, 0).is_some_and(|length| length <= MAX_RECORD && length > rest.len() - HEADER)
}

fn integer(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed(directory: &Path) -> Vec<Change> {
        let mut changes = Vec::new();
        for damaged in Journal::replay(directory, |change| changes.push(change)).unwrap() {
            damaged.put_aside().unwrap();
        }
        changes
    }

    fn change(key: &str, value: Option<&str>) -> Change {
        (key.into(), value.map(|value| value.into()))
    }

    #[test]
    fn appended_changes_are_replayed_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let all = [change("a", Some("1")), change("b", Some("")), change("a", None)];
        let mut journal = Journal::create(dir.path()).unwrap();
        journal.append(&all[..2]).unwrap();
        let finished = journal.rotate().unwrap();
        journal.append(&all[2..]).unwrap();
        assert_eq!(replayed(dir.path()), all);
        // A new journal starts after the existing ones.
        Journal::create(dir.path()).unwrap().append(&[change("c", Some("2"))]).unwrap();
        Journal::remove(dir.path(), finished).unwrap();
        assert_eq!(replayed(dir.path()), [change("a", None), change("c", Some("2"))]);
    }

    #[test]
    fn a_truncated_record_ends_only_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let first = change("key", Some("value"));
        let mut journal = Journal::create(dir.path()).unwrap();
        journal.append(std::slice::from_ref(&first)).unwrap();
        let whole = std::fs::metadata(path(dir.path(), 1)).unwrap().len();
        journal.append(&[change("other", Some("longer value"))]).unwrap();
        let content = std::fs::read(path(dir.path(), 1)).unwrap();
        // Every possible length, because a process can die after any byte.
        for length in whole as usize..content.len() {
            std::fs::write(path(dir.path(), 1), &content[..length]).unwrap();
            assert_eq!(replayed(dir.path()), std::slice::from_ref(&first), "{length}");
        }
        assert!(!dir.path().join("journal.1.damaged").exists());
    }

    #[test]
    fn a_damaged_record_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path()).unwrap();
        journal.append(&[change("a", Some("1")), change("b", Some("2"))]).unwrap();
        let mut content = std::fs::read(path(dir.path(), 1)).unwrap();
        *content.last_mut().unwrap() ^= 1;
        std::fs::write(path(dir.path(), 1), &content).unwrap();
        assert_eq!(replayed(dir.path()), [change("a", Some("1"))]);
        assert_eq!(std::fs::read(dir.path().join("journal.1.damaged")).unwrap(), content);
    }
}
