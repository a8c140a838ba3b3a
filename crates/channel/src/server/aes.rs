//! The master's AES key and its rotation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use crypto::{Crypticle, KeyString, PrivateKey};
use rt::Rt;
use tokio::time::Instant;

/// The key publications are sealed with. After a rotation by age, requests sealed with the old one are opened for a while;
/// after one that locks somebody out they are not.
pub struct AesKey(RwLock<Keys>);

struct Keys {
    current: Arc<Generation>,
    previous: Option<(Arc<Generation>, Instant)>,
}

/// Why the key is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// It is old enough. For so long what was sealed with it is still opened.
    Age(Duration),
    /// A minion's key was taken away, and it must not read or say anything any more.
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
        keys.previous = overlap.map(|overlap| (old, Instant::now() + overlap));
    }

    /// Returns the key in force.
    pub fn current(&self) -> Arc<Generation> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).current.clone()
    }

    /// Returns the key before, while it still counts for what minions send.
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
