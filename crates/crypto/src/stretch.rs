//! Keys from secrets that people choose.

use openssl::error::ErrorStack;
use openssl::pkcs5::scrypt;

/// The parameters of scrypt: 32 MiB and about a tenth of a second for each guess.
const N: u64 = 1 << 15;
const R: u64 = 8;
const P: u64 = 1;

/// The maximum memory in bytes that OpenSSL may use: twice what is needed.
const MOST_MEMORY: u64 = 64 << 20;

/// Derives a key from a secret so that each guess of a weak one is expensive. Takes about a tenth of a second: never call it on a thread
/// that serves others.
///
/// # Errors
/// If OpenSSL cannot, for example without memory.
pub fn stretched(secret: &[u8], salt: &[u8]) -> Result<[u8; 32], ErrorStack> {
    let mut key = [0; 32];
    scrypt(secret, salt, N, R, P, MOST_MEMORY, &mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_the_secret_and_the_salt() {
        let key = stretched(b"secret", b"prod").unwrap();
        assert_eq!(key, stretched(b"secret", b"prod").unwrap());
        assert_ne!(key, stretched(b"secret", b"test").unwrap());
        assert_ne!(key, stretched(b"Secret", b"prod").unwrap());
    }
}
