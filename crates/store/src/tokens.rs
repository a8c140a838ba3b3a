//! Tokens of external authentication.
//!
//! 3006 and 3007 store the map of a token in `tokens/<token>`, 3008 in `tokens/<token>.p`, wrapped with its expiry. One layout
//! is written, both are read.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use value::{Map, Value, map};
use wire::msgpack::{Packing, pack};

use crate::disk::{self, Writing};
use crate::local_fs::{seconds, unexpired};
use crate::{Error, Layout, Result};

/// The tokens of a master.
#[derive(Clone, Debug)]
pub struct TokenStore {
    directory: PathBuf,
    layout: Layout,
}

impl TokenStore {
    /// Returns the tokens in a directory (option `token_dir`).
    pub fn new(directory: impl Into<PathBuf>, layout: Layout) -> Self {
        TokenStore { directory: directory.into(), layout }
    }

    /// Stores a token, and returns whether its text was free. The map must contain `token` and `expire`.
    pub fn store(&self, token: &Map) -> Result<bool> {
        let text = token.get_str("token").unwrap_or_default();
        let (old, new) = self.files(text)?;
        // In either layout: after a change of layout the same text must not identify two users.
        if old.exists() || new.exists() {
            return Ok(false);
        }
        disk::make_directory(&self.directory)?;
        match self.layout {
            Layout::Until3007 => {
                // The two layouts also differ in packing.
                disk::write_new(&old, &pack(&Value::Map(token.clone()), Packing::Wire), Writing::PRIVATE)
            }
            Layout::Since3008 => {
                let expires = token.get("expire").and_then(Value::as_f64).unwrap_or(0.0) as i64;
                let entry = map! { "data" => token.clone(), "_expires" => expires };
                disk::write_new(&new, &pack(&Value::Map(entry), Packing::Bin), Writing::PRIVATE)
            }
        }
    }

    /// Returns the map of a valid token. An expired or unreadable token is removed.
    pub fn get(&self, token: &str, now: SystemTime) -> Result<Option<Map>> {
        let (old, new) = self.files(token)?;
        // The map holds the expiry as well, so a token of either layout expires.
        for path in [new, old] {
            if let Some(map) = self.read(&path, now)? {
                return Ok(Some(map));
            }
        }
        Ok(None)
    }

    /// Removes a token, and returns whether it existed.
    pub fn remove(&self, token: &str) -> Result<bool> {
        let (old, new) = self.files(token)?;
        let removed = disk::remove(&old)?;
        Ok(disk::remove(&new)? || removed)
    }

    /// Returns all tokens, valid or not.
    pub fn list(&self) -> Result<Vec<String>> {
        let names = disk::text_names(&self.directory)?.into_iter();
        let mut tokens: Vec<String> = names.map(|name| name.trim_end_matches(".p").to_owned()).collect();
        // `token_dir` may hold other files, and `clean` deletes what this lists.
        tokens.retain(|token| is_token(token));
        tokens.dedup();
        Ok(tokens)
    }

    /// Removes expired and unreadable tokens, and returns their number.
    pub fn clean(&self, now: SystemTime) -> Result<usize> {
        let mut removed = 0;
        for token in self.list()? {
            removed += usize::from(self.get(&token, now)?.is_none());
        }
        Ok(removed)
    }

    fn read(&self, path: &Path, now: SystemTime) -> Result<Option<Map>> {
        let map = match disk::read_value(path) {
            Ok(None) => return Ok(None),
            Ok(Some(value)) => unexpired(value, now).and_then(Value::into_map),
            // Salt removes tokens that it cannot read; keeping them would only repeat the error.
            Err(Error::Malformed { .. }) => None,
            Err(error) => return Err(error),
        };
        let good = |map: &Map| map.get("expire").and_then(Value::as_f64).is_some_and(|expire| expire >= seconds(now));
        match map.filter(good) {
            Some(map) => Ok(Some(map)),
            None => disk::remove(path).map(|_| None),
        }
    }

    /// Returns the paths in the older and the newer layout.
    fn files(&self, token: &str) -> Result<(PathBuf, PathBuf)> {
        if !is_token(token) {
            // The text itself is a secret, even an invalid one.
            return Err(Error::bad_name("token", "…"));
        }
        Ok((self.directory.join(token), self.directory.join(format!("{token}.p"))))
    }
}

/// A token is a hash in hex: 32 characters with md5, 128 with sha512.
fn is_token(text: &str) -> bool {
    (32..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    fn vector(name: &str) -> Value {
        let vectors: Value = serde_json::from_str(include_str!("../testdata/misc.json")).unwrap();
        vectors.get("token").unwrap().get(name).unwrap().clone()
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn both_layouts_are_written_as_recorded() {
        let token = vector("object").into_map().unwrap();
        let text = token.get_str("token").unwrap().to_owned();
        for (layout, file, recorded) in [
            (Layout::Until3007, text.clone(), "file_3006_3007_hex (tokens/<token>, wire packing)"),
            (Layout::Since3008, format!("{text}.p"), "file_3008_hex (tokens/<token>.p)"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let tokens = TokenStore::new(dir.path().join("tokens"), layout);
            assert!(tokens.store(&token).unwrap());
            assert!(!tokens.store(&token).unwrap());
            let path = dir.path().join("tokens").join(file);
            assert_eq!(hex::encode(std::fs::read(&path).unwrap()), vector(recorded).as_str().unwrap());
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            for reader in [Layout::Until3007, Layout::Since3008] {
                let tokens = TokenStore::new(dir.path().join("tokens"), reader);
                assert_eq!(tokens.get(&text, at(1_700_000_001)).unwrap(), Some(token.clone()));
            }
            assert_eq!(tokens.list().unwrap(), std::slice::from_ref(&text));
            assert_eq!(tokens.clean(at(1_700_000_001)).unwrap(), 0);
            assert_eq!(tokens.clean(at(1_700_043_300)).unwrap(), 1);
            assert!(!path.exists());
        }
    }

    #[test]
    fn an_invalid_token_never_becomes_a_path() {
        let tokens = TokenStore::new("/nowhere", Layout::Since3008);
        for text in ["", "../../etc/passwd", "x", &"g".repeat(64), &"a".repeat(300)] {
            let error = tokens.get(text, at(0)).unwrap_err().to_string();
            assert!(!error.contains("passwd"), "{error}");
        }
    }

    #[test]
    fn a_broken_token_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = TokenStore::new(dir.path(), Layout::Until3007);
        let text = "a".repeat(64);
        std::fs::write(dir.path().join(&text), b"\x92").unwrap();
        assert_eq!(tokens.get(&text, at(0)).unwrap(), None);
        assert_eq!(tokens.list().unwrap(), Vec::<String>::new());
    }
}
