//! HMAC-SHA256 (RFC 2104) with a key that is used for many short messages.
//!
//! OpenSSL's own needs four allocations and a dozen look-ups per message, which costs more than the digest of a small one. The
//! part that depends only on the key, the digest of the two padded keys, is computed once here; the digest is OpenSSL's.

use openssl::sha::Sha256;

/// The length of a tag in bytes.
pub(crate) const LEN: usize = 32;

/// The length of a block of SHA-256 in bytes.
const BLOCK: usize = 64;

/// A key that is ready to sign.
pub(crate) struct HmacKey {
    inner: Sha256,
    outer: Sha256,
}

impl HmacKey {
    /// Creates a key of at most 64 bytes; `None` for longer ones, which SHA-256 would have to shorten.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        // RFC 2104: the key, padded with zeros to a block, XOR the pad byte.
        let begun = |pad: u8| {
            let mut block = [pad; BLOCK];
            block.get_mut(..key.len())?.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
            let mut digest = Sha256::new();
            digest.update(&block);
            // The padded block contains the key.
            block.fill(0);
            std::hint::black_box(&block);
            Some(digest)
        };
        Some(HmacKey { inner: begun(0x36)?, outer: begun(0x5c)? })
    }

    /// Returns the tag of a message.
    pub(crate) fn tag(&self, message: &[u8]) -> [u8; LEN] {
        let (mut inner, mut outer) = (self.inner.clone(), self.outer.clone());
        inner.update(message);
        outer.update(&inner.finish());
        outer.finish()
    }
}

/// Returns the HMAC-SHA256 of a message, for a key of any length.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let tag = |key: &[u8]| HmacKey::new(key).map(|key| key.tag(message));
    // RFC 2104: a key that is longer than a block counts as its digest.
    tag(key).or_else(|| tag(&crate::sha256(&[key]))).expect("a digest is shorter than a block")
}

impl Drop for HmacKey {
    fn drop(&mut self) {
        (self.inner, self.outer) = (Sha256::new(), Sha256::new());
        std::hint::black_box(&self.inner);
        std::hint::black_box(&self.outer);
    }
}

#[cfg(test)]
mod tests {
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::sign::Signer;

    use super::*;

    #[test]
    fn tags_are_those_of_rfc_4231() {
        let key = HmacKey::new(b"Jefe").unwrap();
        let tag = hex::encode(key.tag(b"what do ya want for nothing?"));
        assert_eq!(tag, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert!(HmacKey::new(&[1; 65]).is_none());
    }

    #[test]
    fn keys_may_be_longer_than_a_block() {
        // RFC 4231, test case 6.
        let tag = hmac_sha256(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex::encode(tag), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn tags_are_those_of_the_library_for_all_lengths() {
        for len in 1..=BLOCK {
            let secret: Vec<u8> = (0..len as u8).collect();
            let (ours, theirs) = (HmacKey::new(&secret).unwrap(), PKey::hmac(&secret).unwrap());
            for message in [vec![], vec![7; len], vec![9; 1000 + len]] {
                let mut signer = Signer::new(MessageDigest::sha256(), &theirs).unwrap();
                assert_eq!(ours.tag(&message).to_vec(), signer.sign_oneshot_to_vec(&message).unwrap());
            }
        }
    }
}
