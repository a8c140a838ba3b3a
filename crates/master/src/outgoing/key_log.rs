//! Files that name records, one in a line: what is still to be done with them if the master is killed.
//!
//! Lines are appended without a sync, as returns are to the journal of the job cache: the death of the process loses none of them.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use share::{Class, Key};

/// A file that is appended to.
pub struct KeyLog {
    path: PathBuf,
    file: Mutex<Arc<File>>,
    /// A full disk has taken a part of a line only.
    torn: AtomicBool,
}

impl KeyLog {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(path: PathBuf) -> io::Result<KeyLog> {
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = opened.map_err(|error| named("create", &path, &error))?;
        Ok(KeyLog { path, file: Mutex::new(Arc::new(file)), torn: AtomicBool::new(false) })
    }

    fn file(&self) -> Arc<File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds records.
    ///
    /// # Errors
    /// If they could not be written.
    pub fn append<'a>(&self, records: impl Iterator<Item = (Class, &'a Key)>) -> io::Result<()> {
        let mut text = lines(records);
        if text.is_empty() {
            return Ok(());
        }
        // Otherwise the first record would become the end of half a line. What that half names is looked for and not found, or was
        // done before.
        if self.torn.swap(false, Ordering::Relaxed) {
            text.insert(0, '\n');
        }
        // One write, so that lines of several threads do not mix.
        (&*self.file()).write_all(text.as_bytes()).map_err(|error| {
            self.torn.store(true, Ordering::Relaxed);
            named("write", &self.path, &error)
        })
    }

    /// Names these records and no others. Nobody may append meanwhile.
    ///
    /// # Errors
    /// If a file beside it cannot be written or take its place.
    pub fn replace<'a>(&self, records: impl Iterator<Item = (Class, &'a Key)>) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let attempt = || -> io::Result<File> {
            if let Err(error) = std::fs::remove_file(&new)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            let mut file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&new)?;
            file.write_all(lines(records).as_bytes())?;
            std::fs::rename(&new, &self.path)?;
            Ok(file)
        };
        let file = attempt().map_err(|error| named("shorten", &self.path, &error))?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(file);
        Ok(())
    }

    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// If it cannot be asked for.
    pub fn size(&self) -> io::Result<u64> {
        self.file().metadata().map(|file| file.len()).map_err(|error| named("look at", &self.path, &error))
    }

    /// Forgets all records.
    ///
    /// # Errors
    /// If the file cannot be truncated.
    pub fn clear(&self) -> io::Result<()> {
        self.file().set_len(0).map_err(|error| named("truncate", &self.path, &error))
    }
}

fn lines<'a>(records: impl Iterator<Item = (Class, &'a Key)>) -> String {
    let mut text = String::new();
    for (class, key) in records {
        // Only environments of pillars may contain it, and their minions send them again.
        if !key.as_str().contains('\n') {
            text.push_str(&format!("{} {key}\n", class.number()));
        }
    }
    text
}

/// Reads some of the records that a file names, from a position on. Returns them and the position behind them; at the end of the
/// file there are none.
///
/// # Errors
/// If the file cannot be read.
pub fn read(path: &Path, from: u64, most: usize) -> io::Result<(Vec<(Class, Key)>, u64)> {
    let attempt = || -> io::Result<(Vec<(Class, Key)>, u64)> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), from)),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(from))?;
        let (mut reader, mut at, mut found) = (BufReader::new(file), from, Vec::new());
        let mut line = Vec::new();
        while found.len() < most {
            line.clear();
            let length = reader.read_until(b'\n', &mut line)?;
            // A line without an end was never acknowledged.
            if line.pop() != Some(b'\n') {
                break;
            }
            at += length as u64;
            found.extend(record(&line));
        }
        Ok((found, at))
    };
    attempt().map_err(|error| named("read", path, &error))
}

/// Adds to an error which file could not be used.
fn named(action: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("failed to {action} {}: {error}", path.display()))
}

fn record(line: &[u8]) -> Option<(Class, Key)> {
    let (class, key) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((Class::from_number(class.parse().ok()?)?, Key::new(key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_in_steps_and_half_a_line_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = KeyLog::open(path.clone()).unwrap();
        let keys: Vec<(Class, Key)> =
            ["a", "b/c", "d\ne", "f"].iter().map(|text| (Class::Data, Key::new(text).unwrap())).collect();
        log.append(keys.iter().map(|(class, key)| (*class, key))).unwrap();
        (&*log.file()).write_all(b"8 half").unwrap();
        let (first, at) = read(&path, 0, 2).unwrap();
        assert_eq!(first, keys[..2]);
        let (rest, end) = read(&path, at, 2).unwrap();
        assert_eq!(rest, keys[3..]);
        assert_eq!(read(&path, end, 2).unwrap(), (Vec::new(), end));
        log.replace(keys[1..2].iter().map(|(class, key)| (*class, key))).unwrap();
        log.append(keys[3..].iter().map(|(class, key)| (*class, key))).unwrap();
        assert_eq!(read(&path, 0, 9).unwrap(), ([&keys[1..2], &keys[3..]].concat(), log.size().unwrap()));
        // As after a write that a full disk took half of.
        (&*log.file()).write_all(b"8 half").unwrap();
        log.torn.store(true, Ordering::Relaxed);
        log.append(keys[..2].iter().map(|(class, key)| (*class, key))).unwrap();
        assert!(read(&path, 0, 9).unwrap().0.ends_with(&keys[..2]));
        log.clear().unwrap();
        assert_eq!(read(&path, 0, 2).unwrap(), (Vec::new(), 0));
        assert_eq!(read(&dir.path().join("none"), 0, 2).unwrap().0, []);
    }
}
