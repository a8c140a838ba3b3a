//! Key pairs, made once for all seeds of a process: to make one takes longer than a simulated hour.

use std::sync::OnceLock;

use crypto::PrivateKey;

/// A key pair as the two files of Salt hold it.
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
/// When OpenSSL cannot make keys.
pub fn pair(number: usize) -> &'static Pair {
    static POOL: OnceLock<Vec<Pair>> = OnceLock::new();
    let pool = POOL.get_or_init(|| std::iter::repeat_with(make).take(PAIRS).collect());
    &pool[number % PAIRS]
}

fn make() -> Pair {
    let key = PrivateKey::generate(2048).expect("keys can be made");
    Pair { private: key.to_pem(None).expect("keys can be written"), public: key.public().to_pem() }
}
