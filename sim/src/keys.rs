//! Key pairs, created once for all seeds of a process: creating one takes longer than a simulated hour.

use std::sync::OnceLock;

use crypto::PrivateKey;

/// A key pair in the format of Salt's two files.
pub struct Pair {
    /// The private half.
    pub private: String,
    /// The public half.
    pub public: String,
}

/// Masters share the first pair, minions have the others.
const PAIRS: usize = 9;

/// Returns a key pair by number.
///
/// # Panics
/// If OpenSSL cannot create keys.
pub fn pair(number: usize) -> &'static Pair {
    static POOL: OnceLock<Vec<Pair>> = OnceLock::new();
    let pool = POOL.get_or_init(|| std::iter::repeat_with(make).take(PAIRS).collect());
    &pool[number % PAIRS]
}

fn make() -> Pair {
    // Real randomness is harmless here: no key ever appears in a trace.
    let key = PrivateKey::generate(2048).expect("keys can be made");
    Pair { private: key.to_pem(None).expect("keys can be written"), public: key.public().to_pem() }
}
