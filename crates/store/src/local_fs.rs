//! Salt's `localfs` cache: a file `<bank>/<key>.p` for each value.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use value::Value;
use wire::msgpack::{Decode, unpack};

use crate::disk::{self, Writing};
use crate::{Error, Precondition, Result, Store};

/// Values as files below one directory, `cachedir`.
///
/// As in Salt, a key is also looked up in a file `<bank>.p` that holds a map of keys.
#[derive(Clone, Debug)]
pub struct LocalFs {
    root: PathBuf,
    sync: bool,
}

impl LocalFs {
    /// Returns the store in a directory, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        LocalFs { root: root.into(), sync: false }
    }

    /// Returns a store that syncs each write.
    pub fn synced(self) -> Self {
        LocalFs { sync: true, ..self }
    }

    /// Returns the decoded value under a key. An expired value counts as absent.
    pub fn fetch(&self, bank: &str, key: &str, now: SystemTime) -> Result<Option<Value>> {
        let path = self.file(bank, key)?;
        let Some(content) = self.get(bank, key)? else { return Ok(None) };
        let value = unpack(&content, Decode::Default).map_err(|error| Error::malformed(&path, error))?;
        Ok(unexpired(value, now))
    }

    /// Returns when a value was last written.
    pub fn updated(&self, bank: &str, key: &str) -> Result<Option<SystemTime>> {
        let path = self.file(bank, key)?;
        match std::fs::metadata(&path) {
            Ok(metadata) => metadata.modified().map(Some).map_err(Error::io("read the time of", &path)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read the time of", &path)(error)),
        }
    }

    /// Removes a whole bank, and returns whether it existed.
    pub fn flush(&self, bank: &str) -> Result<bool> {
        disk::remove_tree(&self.bank(bank)?)
    }

    fn bank(&self, bank: &str) -> Result<PathBuf> {
        disk::join_inside(&self.root, bank, "bank")
    }

    fn file(&self, bank: &str, key: &str) -> Result<PathBuf> {
        disk::join_inside(&self.bank(bank)?, &format!("{key}.p"), "key")
    }

    /// Reads a key from a bank that is a single file.
    fn in_bank_file(&self, bank: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let path = disk::join_inside(&self.root, &format!("{bank}.p"), "bank")?;
        let Some(Value::Map(mut map)) = disk::read_value(&path)? else { return Ok(None) };
        Ok(map.remove(key).map(|value| wire::msgpack::pack(&value, wire::msgpack::Packing::Bin)))
    }
}

impl Store for LocalFs {
    fn get(&self, bank: &str, key: &str) -> Result<Option<Vec<u8>>> {
        match disk::read(&self.file(bank, key)?)? {
            Some(content) => Ok(Some(content)),
            None => self.in_bank_file(bank, key),
        }
    }

    fn put(&self, bank: &str, key: &str, value: &[u8], when: Precondition) -> Result<bool> {
        let path = self.file(bank, key)?;
        disk::make_directory(path.parent().unwrap_or(&self.root))?;
        let writing = Writing { sync: self.sync, ..Writing::PRIVATE };
        match when {
            Precondition::None => disk::write(&path, value, writing).map(|()| true),
            Precondition::Absent => disk::write_new(&path, value, writing),
        }
    }

    fn delete(&self, bank: &str, key: &str) -> Result<bool> {
        disk::remove(&self.file(bank, key)?)
    }

    fn list(&self, bank: &str) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        collect(&self.bank(bank)?, "", &mut keys)?;
        keys.sort();
        Ok(keys)
    }
}

/// Collects keys, including those with `/`. Salt's older lines keep banks inside banks, which are listed by name.
fn collect(directory: &Path, prefix: &str, keys: &mut Vec<String>) -> Result<()> {
    for name in disk::text_names(directory)? {
        // Another process is writing this file, or died while it did.
        if name.starts_with(".tmp") {
            continue;
        }
        match name.strip_suffix(".p") {
            Some(key) => keys.push(format!("{prefix}{key}")),
            // Not traversed: a key with a `/` is a directory here, and Salt's own listing names it too.
            None if directory.join(&name).is_dir() => keys.push(format!("{prefix}{name}")),
            None => {}
        }
    }
    Ok(())
}

/// Takes the value out of `{"data": …, "_expires": …}`, unless it has expired.
pub fn unexpired(value: Value, now: SystemTime) -> Option<Value> {
    match value {
        Value::Map(mut map) if map.len() == 2 && map.contains_key("data") && map.contains_key("_expires") => {
            let expires = map.get("_expires").and_then(Value::as_f64).unwrap_or(0.0);
            (expires > seconds(now)).then(|| map.remove("data").unwrap_or_default())
        }
        other => Some(other),
    }
}

/// Seconds since 1970, as Python's `time.time()`.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use value::map;
    use wire::msgpack::{Packing, pack};

    use super::*;

    fn store() -> (tempfile::TempDir, LocalFs) {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalFs::new(dir.path());
        (dir, store)
    }

    #[test]
    fn values_can_be_stored_and_deleted() {
        let (_dir, store) = store();
        assert_eq!(store.get("grains", "web1").unwrap(), None);
        assert!(store.put("grains", "web1", b"one", Precondition::Absent).unwrap());
        assert!(!store.put("grains", "web1", b"two", Precondition::Absent).unwrap());
        assert!(store.put("grains", "web1", b"two", Precondition::None).unwrap());
        assert!(store.put("grains", "db1", b"x", Precondition::None).unwrap());
        assert_eq!(store.get("grains", "web1").unwrap().unwrap(), b"two");
        assert_eq!(store.list("grains").unwrap(), ["db1", "web1"]);
        assert!(store.updated("grains", "web1").unwrap().is_some());
        assert!(store.delete("grains", "web1").unwrap());
        assert!(!store.delete("grains", "web1").unwrap());
        assert!(store.flush("grains").unwrap());
        assert_eq!(store.list("grains").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_bank_may_be_one_file() {
        let (dir, store) = store();
        let bank = Value::from(map! { "a" => 1, "b" => 2 });
        std::fs::write(dir.path().join("roster.p"), pack(&bank, Packing::Bin)).unwrap();
        assert_eq!(store.fetch("roster", "b", SystemTime::now()).unwrap(), Some(Value::Int(2)));
        assert_eq!(store.fetch("roster", "c", SystemTime::now()).unwrap(), None);
    }

    #[test]
    fn an_expired_value_is_absent() {
        let (_dir, store) = store();
        let value = Value::from(map! { "data" => 7, "_expires" => 1_000 });
        store.put("bank", "key", &pack(&value, Packing::Bin), Precondition::None).unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(store.fetch("bank", "key", at(999)).unwrap(), Some(Value::Int(7)));
        assert_eq!(store.fetch("bank", "key", at(1_001)).unwrap(), None);
    }

    #[test]
    fn hostile_names_are_refused() {
        let (_dir, store) = store();
        for key in ["../x", "/x", "a/../../x", "", "a\0"] {
            assert!(store.get("grains", key).is_err() || key.is_empty(), "{key:?}");
            assert!(store.get(key, "x").is_err(), "{key:?}");
        }
    }
}
