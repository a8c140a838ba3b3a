//! What a member shows to strangers, and what strangers must show.

use std::str::FromStr;

use crypto::{MEMBER_KEY_LEN, PrivateKey, sha256};

/// What two members that do not know each other may have in common.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The secret of the set (`cluster_secret`). With a secret nothing else counts.
    pub secret: Option<Secret>,
    /// The master's key pair, which all members may have.
    pub master_key: Option<PrivateKey>,
    /// The key pair that signs the master's public key, which all members may have.
    pub sign_key: Option<PrivateKey>,
    /// Member keys that are believed without a proof (`cluster_pub_fingerprint`).
    pub pinned: Vec<KeyFingerprint>,
}

impl Credentials {
    /// Returns whether the owner of this key is believed at the first contact.
    pub fn pins(&self, key: &[u8; MEMBER_KEY_LEN]) -> bool {
        !self.pinned.is_empty() && self.pinned.contains(&KeyFingerprint::of(key))
    }
}

/// The SHA-256 of a raw public member key. It is read from 64 hex digits, with or without colons between pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFingerprint([u8; 32]);

/// An error: the text is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fingerprint of a member key has 64 hex digits")]
pub struct NoFingerprint;

impl KeyFingerprint {
    /// Returns the fingerprint of a key.
    pub fn of(key: &[u8; MEMBER_KEY_LEN]) -> Self {
        KeyFingerprint(sha256(&[key]))
    }
}

impl From<[u8; 32]> for KeyFingerprint {
    fn from(sha256: [u8; 32]) -> Self {
        KeyFingerprint(sha256)
    }
}

impl FromStr for KeyFingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let digits: Vec<u8> = text.trim().bytes().filter(|byte| *byte != b':').collect();
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| NoFingerprint)?;
        Ok(KeyFingerprint(bytes))
    }
}

/// The secret of the set. It is never printed.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Creates the secret from its text.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Secret(text.into())
    }

    /// Returns the text.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_people_write_them() {
        let key = [7; MEMBER_KEY_LEN];
        let shown = crypto::fingerprint(&key, crypto::HashType::Sha256);
        for text in [shown.clone(), shown.to_uppercase(), shown.replace(':', ""), format!(" {shown}\n")] {
            let pinned = vec![text.parse().unwrap()];
            assert!(Credentials { pinned, ..Credentials::default() }.pins(&key), "{text}");
        }
        assert!(!Credentials::default().pins(&key));
        for text in ["", "00", &shown[3..], &format!("{shown}:00"), &shown.replace(':', "g")] {
            assert_eq!(text.parse::<KeyFingerprint>(), Err(NoFingerprint));
        }
    }
}
