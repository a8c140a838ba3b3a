//! The master's key that a link trusts.

use std::sync::{Mutex, PoisonError, Weak};

use channel::client::{Distrust, FileTrust, Keep, Trust};
use crypto::{HashType, PublicKey};
use tracing::{debug, error, info};

use super::Link;

/// The record of the master's key, `minion_master.pub`, as one link sees it.
///
/// All links share the file, as in Salt. With signed keys each master may have its own key, and the file holds that of
/// the latest sign-in. So each link remembers the key that its master proved to have, and checks this master's
/// signatures with it.
pub struct LinkTrust {
    file: FileTrust,
    /// Masters may have different keys, since their signatures are verified.
    signed: bool,
    hash_type: HashType,
    proved: Mutex<Option<String>>,
    link: Weak<Link>,
}

impl LinkTrust {
    /// Creates the record of a link.
    pub fn new(file: FileTrust, signed: bool, hash_type: HashType, link: Weak<Link>) -> Self {
        LinkTrust { file, signed, hash_type, proved: Mutex::default(), link }
    }
}

impl Trust for LinkTrust {
    /// Returns the key on record. If an operator has removed the file, the remembered key is forgotten, too.
    fn known(&self) -> Result<Option<String>, Distrust> {
        let record = self.file.known()?;
        let mut proved = self.proved.lock().unwrap_or_else(PoisonError::into_inner);
        // Without signed keys there is one key for all masters: the file's.
        if record.is_none() || !self.signed {
            *proved = None;
        }
        Ok(proved.clone().or(record))
    }

    fn keep(&self, keep: Keep, key: &str) -> Result<(), Distrust> {
        self.file.keep(keep, key)?;
        *self.proved.lock().unwrap_or_else(PoisonError::into_inner) = Some(crypto::clean_key(key));
        if let Some(link) = self.link.upgrade() {
            link.note_fingerprint(crypto::pem_finger(key.as_bytes(), self.hash_type));
        }
        Ok(())
    }

    fn signing_key(&self) -> Result<PublicKey, Distrust> {
        self.file.signing_key()
    }

    fn note_verified(&self, fits: bool) {
        let Some(link) = self.link.upgrade() else { return };
        let (master, name) = (&link.settings.address, self.file.signing_name());
        if fits {
            debug!(
                "Successfully verified signature of master public key with verification public key {name} (master {master})"
            );
            info!("Received signed and verified master pubkey from master {master}");
        } else {
            debug!("Failed to verify signature of public key (verification public key {name}, master {master})");
            error!("Received signed public-key from master {master} but signature verification failed!");
        }
    }

    fn explain(&self, distrust: Distrust, known: Option<&str>, shown: &str, digest: HashType) -> Distrust {
        self.file.explain(distrust, known, shown, digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(dir: &std::path::Path, signed: bool) -> LinkTrust {
        LinkTrust::new(FileTrust::new(dir, "master_sign"), signed, HashType::default(), Weak::new())
    }

    #[test]
    fn with_signed_keys_each_link_holds_on_to_the_key_of_its_master() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (trust(dir.path(), true), trust(dir.path(), true));
        a.keep(Keep::Replace, "KEY A").unwrap();
        b.keep(Keep::Replace, "KEY B").unwrap();
        assert_eq!(a.known().unwrap().as_deref(), Some("KEY A"));
        assert_eq!(b.known().unwrap().as_deref(), Some("KEY B"));
        assert_eq!(trust(dir.path(), true).known().unwrap().as_deref(), Some("KEY B"), "the file has the latest");
        std::fs::remove_file(dir.path().join("minion_master.pub")).unwrap();
        assert_eq!(a.known().unwrap(), None);
    }

    #[test]
    fn without_signatures_the_one_record_counts_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (trust(dir.path(), false), trust(dir.path(), false));
        a.keep(Keep::First, "KEY A").unwrap();
        // Hot masters without signed keys must share one key.
        assert_eq!(b.keep(Keep::First, "KEY B"), Err(Distrust::Changed(None)));
        assert_eq!(b.known().unwrap().as_deref(), Some("KEY A"));
    }
}
