//! Encryption of large answers between two Saltern peers: AES-256-GCM instead of AES-CBC followed by HMAC-SHA256.
//!
//! Both are equally strong. GCM takes a fifth of the time, and masters and minions spend most of theirs on chunks of files. A
//! peer asks for it inside an encrypted request, so nobody on the network path can choose it, and a peer that does not know it
//! answers as usual. The key is derived from the session key (HKDF-SHA256, RFC 5869), so that no key serves two algorithms.
//!
//! Layout: the 12 characters `saltern:gcm:`, 12 bytes of nonce, ciphertext, 16 bytes of tag. The request's nonce is
//! authenticated with it. Other encrypted messages begin with a random IV, so the characters distinguish the two.

use bytes::{Bytes, BytesMut};
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use value::Value;
use wire::msgpack::{self, Decode, Packing};

use crate::{Crypticle, OpenError, random};

/// The value with which a request asks for such answers, in the field [`BULK_FIELD`] of its load.
pub const BULK_NAME: &str = "aes-256-gcm";

/// The field of a load that names the form of the answer.
pub const BULK_FIELD: &str = "saltern_seal";

const MAGIC: &[u8; 12] = b"saltern:gcm:";
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
const START: usize = MAGIC.len() + NONCE_LEN;

impl Crypticle {
    /// Encrypts an answer for a peer that has asked for this form; `nonce` is that of its request.
    pub fn seal_bulk(&self, value: &Value, nonce: &str) -> Bytes {
        self.encrypt_bulk(value, nonce).expect("AES-GCM of the vendored library always works")
    }

    /// Decrypts such an answer, to the request with this nonce.
    ///
    /// # Errors
    /// If it was encrypted with another key or for another request, was modified, or does not contain MessagePack.
    pub fn open_bulk(&self, sealed: Bytes, nonce: &str, mode: Decode) -> Result<Value, OpenError> {
        // Nobody else reads the buffer of an answer, so it is decrypted in place.
        let mut sealed = sealed.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        self.decrypt_bulk(&mut sealed, nonce).map_err(|_| OpenError::Authentication)?;
        let content = sealed.freeze();
        // Only now, after the tag was checked: nothing is parsed for a stranger.
        Ok(msgpack::unpack_bytes(&content.slice(START..content.len() - TAG_LEN), mode)?)
    }

    fn encrypt_bulk(&self, value: &Value, nonce: &str) -> Result<Bytes, ErrorStack> {
        // Random, because both peers encrypt under the same key and share no counter. That is safe for 2^32 messages
        // under one key (NIST SP 800-38D).
        let iv: [u8; NONCE_LEN] = random();
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&iv);
        msgpack::pack_into(&mut out, value, Packing::Wire);
        let len = out.len() - START;
        let mut cipher = CipherCtx::new()?;
        cipher.encrypt_init(Some(Cipher::aes_256_gcm()), Some(&self.bulk.0), Some(&iv))?;
        cipher.cipher_update(nonce.as_bytes(), None)?;
        cipher.cipher_update_inplace(&mut out[START..], len)?;
        cipher.cipher_final(&mut [0; TAG_LEN])?;
        let mut tag = [0; TAG_LEN];
        cipher.tag(&mut tag)?;
        out.extend_from_slice(&tag);
        Ok(out.into())
    }

    fn decrypt_bulk(&self, sealed: &mut [u8], nonce: &str) -> Result<(), ErrorStack> {
        let Some((head, rest)) = sealed.split_at_mut_checked(START) else { return Err(ErrorStack::get()) };
        let Some(len) = rest.len().checked_sub(TAG_LEN) else { return Err(ErrorStack::get()) };
        let (content, tag) = rest.split_at_mut(len);
        let mut cipher = CipherCtx::new()?;
        cipher.decrypt_init(Some(Cipher::aes_256_gcm()), Some(&self.bulk.0), Some(&head[MAGIC.len()..]))?;
        // Must precede the final step, which compares the tag in constant time.
        cipher.set_tag(tag)?;
        cipher.cipher_update(nonce.as_bytes(), None)?;
        cipher.cipher_update_inplace(content, len)?;
        cipher.cipher_final(&mut [0; TAG_LEN])?;
        Ok(())
    }
}

/// Returns whether an encrypted message has this form.
pub fn is_bulk(message: &[u8]) -> bool {
    message.starts_with(MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyString;

    const NONCE: &str = "0123456789abcdef0123456789abcdef";

    fn pair() -> (Crypticle, Crypticle) {
        let key = KeyString::generate();
        (Crypticle::new(&key).unwrap(), Crypticle::new(&key).unwrap())
    }

    #[test]
    fn both_peers_of_a_session_derive_the_same_key() {
        let (ours, theirs) = pair();
        for len in (0..70).chain([1 << 18]) {
            let value = Value::bytes(vec![0xff; len]);
            let sealed = ours.seal_bulk(&value, NONCE);
            assert!(is_bulk(&sealed));
            let shared = sealed.clone();
            assert_eq!(theirs.open_bulk(sealed, NONCE, Decode::Raw), Ok(value.clone()), "shared buffer");
            assert_eq!(theirs.open_bulk(shared, NONCE, Decode::Raw), Ok(value), "own buffer");
        }
    }

    #[test]
    fn any_change_is_detected() {
        let (ours, theirs) = pair();
        let sealed = ours.seal_bulk(&"piece".into(), NONCE);
        // The magic decides which form a message has; changing it leads to the other form, whose HMAC then fails.
        for at in MAGIC.len()..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            let opened = theirs.open_bulk(changed.into(), NONCE, Decode::Raw);
            assert_eq!(opened, Err(OpenError::Authentication));
        }
        for end in 0..sealed.len() {
            let opened = theirs.open_bulk(sealed.slice(..end), NONCE, Decode::Raw);
            assert_eq!(opened, Err(OpenError::Authentication));
        }
        let (stranger, _) = pair();
        assert_eq!(stranger.open_bulk(sealed.clone(), NONCE, Decode::Raw), Err(OpenError::Authentication));
        let other_request = "1".repeat(32);
        assert_eq!(theirs.open_bulk(sealed, &other_request, Decode::Raw), Err(OpenError::Authentication));
    }

    #[test]
    fn the_other_form_is_recognised() {
        let (ours, _) = pair();
        assert!(!is_bulk(&ours.seal(&"piece".into(), Some(NONCE))));
    }
}
