//! The texts and the fingerprints of keys.

use std::fs;
use std::path::Path;

use crypto::{HashType, PublicKey, clean_key, pem_finger};
use tracing::error;
use value::{Map, Value, map};

use super::KeyManager;
use super::selection::{ids, matching, texts};
use crate::{Bank, KeyError};

impl KeyManager {
    /// `key.print`: the texts of the keys that match, by directory and id.
    pub fn key_str(&self, pattern: &Value) -> Result<Map, KeyError> {
        self.for_matches(self.glob_match(pattern)?, |path, text| {
            report_corrupt(path, text);
            Value::from(text)
        })
    }

    /// `key.finger`: the fingerprints of the keys that match, by directory and id; the master's own files are matched as
    /// well, under `local`.
    ///
    /// The digest covers the key's body, the form that other tools and `master_finger` compare.
    pub fn finger(&self, pattern: &Value, hash_type: Option<HashType>) -> Result<Map, KeyError> {
        let kind = hash_type.unwrap_or(self.options.hash_type);
        let mut all = matching(pattern, self.list_all()?);
        let local = all.remove("local");
        let mut fingers = self.for_matches(all, |path, text| match report_corrupt(path, text) {
            // The digest of what is not there looks like any other.
            true => Value::from(format!("no public key in {}", path.display())),
            false => Value::from(pem_finger(text.as_bytes(), kind)),
        })?;
        if let Some(local) = local {
            let mut files = Map::new();
            for name in texts(&local) {
                let finger = crate::finger_file(&self.options.master.pki_dir.join(&name), kind)?;
                files.insert(name, finger);
            }
            fingers.insert("local", files);
        }
        Ok(fingers)
    }

    fn for_matches(&self, matches: Map, make: impl Fn(&Path, &str) -> Value) -> Result<Map, KeyError> {
        let mut out = Map::new();
        for bank in Bank::LISTED.into_iter().filter(|bank| matches.contains_key(bank.directory())) {
            let mut found = Map::new();
            for id in ids(&matches, bank) {
                // Somebody may have removed it since the list was made.
                if let Some(text) = self.store.read(bank, &id)? {
                    found.insert(id.as_str(), make(&self.store.path(bank, &id), &text));
                }
            }
            out.insert(bank.directory(), found);
        }
        Ok(out)
    }

    /// `key.finger_master`: `{"local": {"master.pub": fingerprint}}`.
    pub fn finger_master(&self, hash_type: Option<HashType>) -> Result<Map, KeyError> {
        let kind = hash_type.unwrap_or(self.options.hash_type);
        let finger = crate::finger_file(&self.options.master.pair_path()?.public(), kind)?;
        Ok(map! { "local" => map! { "master.pub" => finger } })
    }

    /// `key.master_key_str`: `{"local": {"<short id>.pub": text}}`.
    pub fn master_key_str(&self) -> Result<Map, KeyError> {
        let path = self.options.master.pair_path()?.public();
        let text = fs::read_to_string(&path).map_err(KeyError::io("read key", &path))?;
        let name = format!("{}.pub", self.options.master.short_id());
        Ok(map! { "local" => map! { name => clean_key(&text) } })
    }
}

/// Returns whether a file contains no valid key, and logs an error if so.
fn report_corrupt(path: &Path, text: &str) -> bool {
    let corrupt = PublicKey::from_pem(text.as_bytes()).is_err();
    if corrupt {
        error!("{} holds no RSA public key: the minion cannot sign in until it is deleted or replaced", path.display());
    }
    corrupt
}
