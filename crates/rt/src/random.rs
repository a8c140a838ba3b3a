//! Randomness.

use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

/// A source of random bytes.
pub trait Random: Send + Sync {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);
}

/// The operating system's randomness, through a generator that is reseeded from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn fill(&self, buffer: &mut [u8]) {
        // A system call for each nonce would cost more than the nonce's message.
        rand::rng().fill_bytes(buffer);
    }
}

/// Random bytes generated from a seed, for simulations.
#[derive(Debug)]
pub struct SeededRandom(Mutex<StdRng>);

impl SeededRandom {
    /// Creates a source that gives the same bytes for the same seed.
    pub fn new(seed: u64) -> Self {
        SeededRandom(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        self.0.lock().expect("filling does not panic").fill_bytes(buffer);
    }
}
