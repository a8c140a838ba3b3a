//! Symmetric keys in the form in which they are sent: text.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use openssl::memcmp;

use crate::HashType;

/// The length of a key string in characters.
pub const KEY_STRING_LEN: usize = 76;

/// The length of the decoded bytes.
const RAW_LEN: usize = 56;

/// Returns random bytes from the operating system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    openssl::rand::rand_bytes(&mut bytes).expect("the operating system has random numbers");
    bytes
}

/// The text of a symmetric key: 56 random bytes in Base64. This text is encrypted with RSA, hashed and stored.
///
/// It compares in constant time, is never printed, and is overwritten when dropped.
#[derive(Clone)]
pub struct KeyString(Vec<u8>);

/// A text that is not a key string. The error does not repeat it, because it may almost be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key string is not the Base64 form of {RAW_LEN} bytes")]
pub struct InvalidKeyString;

impl KeyString {
    /// Generates a key from the operating system's random numbers.
    pub fn generate() -> Self {
        Self::from_random(random())
    }

    /// Creates the key from random bytes.
    pub fn from_random(bytes: [u8; RAW_LEN]) -> Self {
        KeyString(STANDARD.encode(bytes).into_bytes())
    }

    /// Parses a key string. White space at its end, as editors leave it, is dropped.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidKeyString> {
        let key = KeyString(text.trim_ascii_end().to_vec());
        key.raw()?;
        Ok(key)
    }

    /// Returns the text. It is the secret itself: only for encrypting, hashing and storing.
    pub fn expose(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns the hex SHA-256 of the text, which the master signs in the sign-in reply.
    pub fn sha256_hex(&self) -> String {
        HashType::Sha256.hex(&self.0)
    }

    /// Returns the 24 bytes of AES key followed by the 32 bytes of HMAC key.
    pub(crate) fn raw(&self) -> Result<[u8; RAW_LEN], InvalidKeyString> {
        let bytes = STANDARD.decode(&self.0).map_err(|_| InvalidKeyString)?;
        bytes.try_into().map_err(|_| InvalidKeyString)
    }
}

impl PartialEq for KeyString {
    fn eq(&self, other: &Self) -> bool {
        // The length is no secret, and memcmp::eq panics if the lengths differ.
        self.0.len() == other.0.len() && memcmp::eq(&self.0, &other.0)
    }
}

impl Eq for KeyString {}

impl fmt::Debug for KeyString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyString(…)")
    }
}

impl Drop for KeyString {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_keys_differ_and_have_the_right_length() {
        let (a, b) = (KeyString::generate(), KeyString::generate());
        assert_ne!(a, b);
        assert_eq!(a.expose().len(), KEY_STRING_LEN);
        assert_eq!(KeyString::parse(a.expose().as_bytes()), Ok(a));
    }

    #[test]
    fn other_texts_are_refused_and_secrets_not_printed() {
        for text in ["", "x", "AAAA", &"A".repeat(76), "!!!"] {
            assert_eq!(KeyString::parse(text.as_bytes()), Err(InvalidKeyString), "{text}");
        }
        assert_eq!(format!("{:?}", KeyString::generate()), "KeyString(…)");
    }
}
