//! The master's AES key and its rotation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crypto::{Crypticle, KeyString, PrivateKey};
use rt::Rt;

/// The key publications are sealed with. Replaced as a whole; what was sealed with the old one is not opened again.
pub struct AesKey(RwLock<Arc<Generation>>);

/// One AES key, from one rotation to the next.
pub struct Generation {
    key: KeyString,
    crypticle: Crypticle,
    serial: AtomicU64,
    proof: OnceLock<Vec<u8>>,
}

impl AesKey {
    pub(crate) fn new(rt: &Rt) -> Self {
        AesKey(RwLock::new(Arc::new(Generation::new(rt))))
    }

    pub(crate) fn rotate(&self, rt: &Rt) {
        let next = Arc::new(Generation::new(rt));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// Returns the key in force.
    pub fn current(&self) -> Arc<Generation> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Generation {
    fn new(rt: &Rt) -> Self {
        let key = KeyString::from_random(rt.bytes());
        let crypticle = Crypticle::new(&key).expect("a key made of random bytes is well formed");
        Generation { key, crypticle, serial: AtomicU64::new(0), proof: OnceLock::new() }
    }

    /// The key as its text.
    pub fn key(&self) -> &KeyString {
        &self.key
    }

    /// What seals and opens with it.
    pub fn crypticle(&self) -> &Crypticle {
        &self.crypticle
    }

    /// Returns the number of the next publication: 1, 2, 3…
    pub fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the proof that the master made this key: its digest, privately encrypted. It is the same in each sign-in
    /// answer, so it is computed once.
    pub(crate) fn proof(&self, master: &PrivateKey) -> Result<Vec<u8>, crypto::RsaError> {
        if let Some(proof) = self.proof.get() {
            return Ok(proof.clone());
        }
        let proof = master.sign_key_string(&self.key)?;
        Ok(self.proof.get_or_init(|| proof).clone())
    }
}
