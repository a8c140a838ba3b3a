//! The master's AES key and its rotation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use crypto::{Crypticle, KeyString, PrivateKey};
use rt::Rt;
use tokio::time::Instant;

/// The key that encrypts publications. After a rotation by age, requests encrypted with the old key are accepted for a
/// while; after a rotation that locks a minion out, they are not.
pub struct AesKey(RwLock<Keys>);

struct Keys {
    current: Arc<Generation>,
    previous: Option<(Arc<Generation>, Instant)>,
}

/// Why the key is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// It is old enough. Requests encrypted with it are accepted for this long.
    Age(Duration),
    /// A minion's key was removed. It must not be able to read or send anything from now on.
    LockOut,
}

/// One AES key, from one rotation to the next.
pub struct Generation {
    key: KeyString,
    crypticle: Crypticle,
    serial: AtomicU64,
    proof: OnceLock<Vec<u8>>,
}

impl AesKey {
    pub(crate) fn new(rt: &Rt) -> Self {
        AesKey(RwLock::new(Keys { current: Arc::new(Generation::new(rt)), previous: None }))
    }

    pub(crate) fn rotate(&self, rt: &Rt, reason: Rotation) {
        let overlap = match reason {
            Rotation::Age(overlap) => Some(overlap),
            Rotation::LockOut => None,
        };
        let next = Arc::new(Generation::new(rt));
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut keys.current, next);
        // Set in the same step: no request may find the new key without the old one beside it.
        keys.previous = overlap.map(|overlap| (old, Instant::now() + overlap));
    }

    /// Returns the current key.
    pub fn current(&self) -> Arc<Generation> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).current.clone()
    }

    /// Returns the previous key, as long as requests encrypted with it are accepted.
    pub fn previous(&self) -> Option<Arc<Generation>> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        keys.previous.as_ref().filter(|(_, until)| *until > Instant::now()).map(|(previous, _)| previous.clone())
    }
}

impl Generation {
    fn new(rt: &Rt) -> Self {
        let key = KeyString::from_random(rt.bytes());
        let crypticle = Crypticle::new(&key).expect("a key made of random bytes is well formed");
        Generation { key, crypticle, serial: AtomicU64::new(0), proof: OnceLock::new() }
    }

    /// Returns the key as text.
    pub fn key(&self) -> &KeyString {
        &self.key
    }

    /// Returns what encrypts and decrypts with the key.
    pub fn crypticle(&self) -> &Crypticle {
        &self.crypticle
    }

    /// Returns the serial number of the next publication: 1, 2, 3…
    pub fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the proof that the master made this key: the key's digest, encrypted with the master's private key. It
    /// is the same in each answer to a sign-in, so it is computed once.
    pub(crate) fn proof(&self, master: &PrivateKey) -> Result<Vec<u8>, crypto::RsaError> {
        if let Some(proof) = self.proof.get() {
            return Ok(proof.clone());
        }
        let proof = master.sign_key_string(&self.key)?;
        // Two threads may compute it at once; the signature is deterministic, so both are right.
        Ok(self.proof.get_or_init(|| proof).clone())
    }
}
