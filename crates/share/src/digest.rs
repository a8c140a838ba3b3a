//! Digests: by what two copies of a record are told apart without sending it.

use std::fmt;

/// The first 16 bytes of the SHA-256 of a packed value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// Returns the digest of a value in pieces.
    pub fn of(pieces: &[&[u8]]) -> Digest {
        let mut digest = [0; 16];
        digest.copy_from_slice(&crypto::sha256(pieces)[..16]);
        Digest(digest)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}
