//! The master's key, which all minions of a swarm know from one record in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use channel::client::{Distrust, Keep, Trust};
use crypto::{PublicKey, RsaError, clean_key};

/// The key of the master, as the first minion saw it, or as it was known beforehand.
#[derive(Debug, Default)]
pub(crate) struct Record {
    key: OnceLock<String>,
    /// The parsed key. Parsing it for each minion would be a cost that real minions do not share with each other.
    read: OnceLock<PublicKey>,
    /// True if minions know it that have not signed in yet.
    beforehand: bool,
}

impl Record {
    /// Returns a record of a key that is known before any minion has signed in.
    pub(crate) fn known(key: Option<&str>) -> Self {
        let key = key.map(clean_key);
        Record { beforehand: key.is_some(), key: key.map_or_else(OnceLock::new, OnceLock::from), read: OnceLock::new() }
    }
}

/// What one minion knows of the master's key. A minion that has not signed in yet knows nothing, so it sends no token,
/// like a new minion.
#[derive(Debug)]
pub(crate) struct SharedTrust {
    record: Arc<Record>,
    knows: AtomicBool,
}

impl SharedTrust {
    pub(crate) fn new(record: Arc<Record>) -> Self {
        let knows = AtomicBool::new(record.beforehand);
        SharedTrust { record, knows }
    }
}

impl Trust for SharedTrust {
    fn known(&self) -> Result<Option<String>, Distrust> {
        let knows = self.knows.load(Ordering::Relaxed);
        Ok(self.record.key.get().filter(|_| knows).cloned())
    }

    fn keep(&self, _: Keep, key: &str) -> Result<(), Distrust> {
        let key = clean_key(key);
        // Whichever minion is first decides. A swarm that sees two keys is connected to two masters, and its numbers
        // would mean nothing.
        if *self.record.key.get_or_init(|| key.clone()) != key {
            return Err(Distrust::Changed(None));
        }
        self.knows.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn signing_key(&self) -> Result<PublicKey, Distrust> {
        // Only needed if masters must sign their keys (`verify_master_pubkey_sign`), which minions of a swarm do not
        // demand.
        Err(Distrust::Unsigned)
    }

    fn read(&self, text: &str) -> Result<PublicKey, RsaError> {
        if self.record.key.get().is_none_or(|key| key != text.trim_ascii_end()) {
            return PublicKey::from_pem(text.as_bytes());
        }
        if let Some(read) = self.record.read.get() {
            return Ok(read.clone());
        }
        let read = PublicKey::from_pem(text.as_bytes())?;
        Ok(self.record.read.get_or_init(|| read).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_minion_knows_no_key_and_all_must_see_the_same() {
        let record = Arc::new(Record::known(None));
        let [first, second, third] = [(); 3].map(|()| SharedTrust::new(record.clone()));
        assert_eq!(first.known(), Ok(None));
        first.keep(Keep::First, "KEY A\r\n").unwrap();
        assert_eq!(first.known(), Ok(Some(clean_key("KEY A"))));
        assert_eq!(second.known(), Ok(None), "it has not signed in");
        second.keep(Keep::First, "KEY A").unwrap();
        assert_eq!(third.keep(Keep::First, "KEY B"), Err(Distrust::Changed(None)));
    }

    #[test]
    fn a_key_that_was_known_beforehand_is_known_to_all() {
        let record = Arc::new(Record::known(Some("KEY A")));
        assert_eq!(SharedTrust::new(record).known(), Ok(Some(clean_key("KEY A"))));
    }
}
