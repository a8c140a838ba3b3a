//! The spool of a minion's unacknowledged returns: `saltern/returns/`, one MessagePack file each.
//!
//! A file is a map with `version`, `minion`, `created` (milliseconds since 1970), `publisher` (the master of the job), `job` (the
//! publication's fields that are not in the return) and `load` (the return as it is sent). It is written under a temporary name
//! and renamed, so the death of the process leaves it complete or absent. It is not synced: a power failure may lose the
//! returns of the last seconds, or leave a broken file, which is set aside when it is read.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crypto::HashType;
use value::{Map, Value, map};
use wire::msgpack::{Packing, pack_into, pack_map_header, pack_map_into};

use crate::disk::{self, Writing};
use crate::{Error, Result};

/// The version of the file layout.
const VERSION: i64 = 1;
/// The suffix of a file that cannot be used.
const BROKEN: &str = ".broken";
/// The maximum number of spooled returns of one job and master.
const MAX_PER_JOB: usize = 1000;

/// The spool.
#[derive(Clone, Debug)]
pub struct ReturnSpool {
    directory: PathBuf,
}

/// A return, with the information about its job.
#[derive(Clone, Debug, PartialEq)]
pub struct Spooled {
    /// The minion.
    pub minion: String,
    /// The time at which the job ended.
    pub created: SystemTime,
    /// The master that published the job.
    pub publisher: Publisher,
    /// The publication's fields that are not in the return: target and returners.
    pub job: Map,
    /// The return.
    pub load: Map,
}

/// A master that publishes jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publisher {
    /// The configured address, host and port.
    pub address: String,
    /// Its id, if it has sent it.
    pub id: Option<String>,
    /// The fingerprint of its key, if known.
    pub fingerprint: Option<String>,
    /// True if it has peers that accept copies of returns.
    pub has_peers: bool,
}

impl ReturnSpool {
    /// Returns the spool below a `cachedir`.
    pub fn new(cachedir: &Path) -> Self {
        ReturnSpool { directory: cachedir.join("saltern/returns") }
    }

    /// Returns the directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a return, whose [bytes](Spooled::to_bytes) are `content`, and returns the name of its file.
    pub fn write(&self, returned: &Spooled, content: &[u8]) -> Result<String> {
        // A job may return more than once, for instance if its master sends it again. The bound keeps a broken master
        // from filling the disk with one job.
        for number in 0..MAX_PER_JOB {
            let name = file_name(returned, number);
            if self.write_new(&self.directory.join(&name), content)? {
                return Ok(name);
            }
        }
        Err(Error::malformed(&self.directory, format!("{MAX_PER_JOB} returns of one job")))
    }

    fn write_new(&self, path: &Path, content: &[u8]) -> Result<bool> {
        match disk::write_new(path, content, Writing::PRIVATE) {
            // Made only when needed: most minions never spool anything.
            Err(error) if error.is_not_found() => {
                let mut builder = std::fs::DirBuilder::new();
                let made = builder.recursive(true).mode(0o700).create(&self.directory);
                made.map_err(Error::io("create directory", &self.directory))?;
                disk::write_new(path, content, Writing::PRIVATE)
            }
            other => other,
        }
    }

    /// Reads a return; `None` if the file does not exist.
    pub fn read(&self, name: &str) -> Result<Option<Spooled>> {
        let path = disk::join_name(&self.directory, name, "return")?;
        let Some(value) = disk::read_value(&path)? else { return Ok(None) };
        Spooled::from_value(value).map(Some).map_err(|reason| Error::malformed(&path, reason))
    }

    /// Returns the size of a file.
    pub fn size(&self, name: &str) -> Result<u64> {
        let path = disk::join_name(&self.directory, name, "return")?;
        std::fs::metadata(&path).map(|meta| meta.len()).map_err(Error::io("read", &path))
    }

    /// Removes a return, and returns whether it existed.
    pub fn remove(&self, name: &str) -> Result<bool> {
        disk::remove(&disk::join_name(&self.directory, name, "return")?)
    }

    /// Renames a file that cannot be used, so that it is read only once, and returns its new path.
    pub fn set_aside(&self, name: &str) -> Result<PathBuf> {
        let path = disk::join_name(&self.directory, name, "return")?;
        let aside = self.directory.join(format!("{name}{BROKEN}"));
        std::fs::rename(&path, &aside).map_err(Error::io("rename", &path))?;
        Ok(aside)
    }

    /// Returns the names of the returns, oldest job first. Removes temporary files of processes that died while they wrote.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = disk::text_names(&self.directory)?;
        // Kept for the operator, but never sent.
        names.retain(|name| !name.ends_with(BROKEN));
        let (litter, names): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.starts_with(".tmp"));
        for name in litter {
            self.remove(&name)?;
        }
        Ok(names)
    }
}

/// Job ids that are not file names are hashed, and so are masters, whose addresses may contain anything.
fn file_name(returned: &Spooled, number: usize) -> String {
    let jid = returned.jid();
    // The job id comes from a master, and must not lead out of the directory.
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let plain = !jid.is_empty() && jid.len() <= 64 && jid.bytes().all(good);
    let jid = if plain { jid.to_owned() } else { HashType::Sha256.hex(jid.as_bytes())[..32].to_owned() };
    let master = HashType::Sha256.hex(returned.publisher.address.as_bytes());
    let number = if number == 0 { String::new() } else { format!("-{number}") };
    format!("{jid}-{}{number}.p", &master[..16])
}

impl Spooled {
    /// Returns the job id.
    pub fn jid(&self) -> &str {
        self.load.get_str("jid").unwrap_or_default()
    }

    /// Returns the content of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let created = self.created.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let about = [
            ("version", VERSION.into()),
            ("minion", self.minion.as_str().into()),
            ("created", i64::try_from(created.as_millis()).unwrap_or(i64::MAX).into()),
            ("publisher", self.publisher.to_value()),
        ];
        let parts = [("job", &self.job), ("load", &self.load)];
        let mut out = Vec::new();
        pack_map_header(&mut out, about.len() + parts.len());
        for (name, value) in &about {
            pack_into(&mut out, &Value::from(*name), Packing::Bin);
            pack_into(&mut out, value, Packing::Bin);
        }
        for (name, map) in parts {
            pack_into(&mut out, &Value::from(name), Packing::Bin);
            pack_map_into(&mut out, map, Packing::Bin);
        }
        out
    }

    fn from_value(value: Value) -> std::result::Result<Self, String> {
        let mut map = value.into_map().ok_or("no map")?;
        match map.get("version").and_then(Value::as_i64) {
            // A later release may have written the file before a downgrade. Guessing its meaning could send a wrong
            // return.
            Some(VERSION) => {}
            other => return Err(format!("unknown version {other:?}")),
        }
        let created = map.get("created").and_then(Value::as_i64).and_then(|at| u64::try_from(at).ok());
        let created = created.map(Duration::from_millis).and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
        let minion = map.get_str("minion").map(str::to_owned);
        let publisher = map.get("publisher").and_then(Value::as_map).and_then(Publisher::from_map);
        let mut part = |name: &str| map.remove(name).and_then(Value::into_map);
        let (job, load) = (part("job"), part("load"));
        let load = load.filter(|load| load.contains_key("return") && load.get_str("jid").is_some());
        match (minion, created, publisher, job, load) {
            (Some(minion), Some(created), Some(publisher), Some(job), Some(load)) => {
                Ok(Spooled { minion, created, publisher, job, load })
            }
            _ => Err("a field is missing or invalid".to_owned()),
        }
    }
}

impl Publisher {
    fn to_value(&self) -> Value {
        map! {
            "address" => self.address.as_str(),
            "id" => self.id.clone(),
            "fingerprint" => self.fingerprint.clone(),
            "has_peers" => self.has_peers,
        }
        .into()
    }

    fn from_map(map: &Map) -> Option<Self> {
        let text = |name: &str| map.get_str(name).map(str::to_owned);
        let has_peers = map.get("has_peers").is_some_and(Value::truthy);
        Some(Publisher { address: text("address")?, id: text("id"), fingerprint: text("fingerprint"), has_peers })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn spooled(jid: &str, address: &str) -> Spooled {
        let publisher = Publisher { address: address.to_owned(), id: Some("m1".to_owned()), ..Publisher::default() };
        Spooled {
            minion: "web1".to_owned(),
            created: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            publisher,
            job: map! { "tgt" => "*" },
            load: map! { "cmd" => "_return", "jid" => jid, "return" => Value::bytes(vec![0xff, 0]) },
        }
    }

    fn write(spool: &ReturnSpool, returned: &Spooled) -> String {
        spool.write(returned, &returned.to_bytes()).unwrap()
    }

    #[test]
    fn a_spooled_return_is_read_back_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let spool = ReturnSpool::new(dir.path());
        let one = spooled("20240229131415678901", "[::1]:4506");
        let name = write(&spool, &one);
        assert!(name.starts_with("20240229131415678901-"), "{name}");
        assert_eq!(spool.read(&name).unwrap(), Some(one.clone()));
        assert_eq!(spool.size(&name).unwrap(), one.to_bytes().len() as u64);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(spool.directory()), mode(&spool.directory().join(&name))), (0o700, 0o600));
        assert_ne!(write(&spool, &spooled("20240229131415678901", "b:4506")), name);
        let again = write(&spool, &one);
        assert_ne!(again, name, "a job that came twice has two returns");
        assert!(spool.remove(&name).unwrap() && spool.remove(&again).unwrap() && !spool.remove(&name).unwrap());
    }

    #[test]
    fn names_are_safe_and_temporary_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let spool = ReturnSpool::new(dir.path());
        assert!(spool.names().unwrap().is_empty());
        let hostile = write(&spool, &spooled("../../etc/passwd", "a/../b"));
        std::fs::write(spool.directory().join(".tmpabc"), "half").unwrap();
        assert_eq!(spool.names().unwrap(), [hostile]);
        assert!(!spool.directory().join(".tmpabc").exists());
        assert!(spool.read("../x").is_err());
    }

    #[test]
    fn broken_files_are_reported_and_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let spool = ReturnSpool::new(dir.path());
        let name = write(&spool, &spooled("1", "a:1"));
        let path = spool.directory().join(&name);
        let whole = std::fs::read(&path).unwrap();
        for broken in [&whole[..whole.len() - 1], &[], b"\x80"] {
            std::fs::write(&path, broken).unwrap();
            let error = spool.read(&name).unwrap_err().to_string();
            assert!(error.contains(&name), "{error}");
        }
        let aside = spool.set_aside(&name).unwrap();
        assert!(aside.exists() && spool.names().unwrap().is_empty());
    }
}
