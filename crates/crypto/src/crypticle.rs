//! Encrypted messages: AES-192-CBC, then HMAC-SHA256 over the ciphertext.
//!
//! Layout: 16 bytes of IV, ciphertext, 32 bytes of HMAC over both. The plaintext is `pickle::` (a name that outlived the
//! format), in replies the 32 characters of the request's nonce, then MessagePack.

use std::sync::LazyLock;

use bytes::Bytes;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::memcmp;
use value::{Map, Value};
use wire::msgpack::{self, Decode, Packing};

use crate::bulk_key::BulkKey;
use crate::hmac::{HmacKey, LEN as HMAC_LEN};
use crate::{InvalidKeyString, KeyString, random};

const PREFIX: &[u8] = b"pickle::";
const NONCE_LEN: usize = 32;
const IV_LEN: usize = 16;
const AES_KEY_LEN: usize = 24;

/// Looked up once, because that takes about as long as encrypting a small message.
static AES: LazyLock<Cipher> =
    LazyLock::new(|| Cipher::fetch(None, "AES-192-CBC", None).expect("the vendored library has AES"));

/// A symmetric key that is ready to encrypt and decrypt messages.
pub struct Crypticle {
    aes: [u8; AES_KEY_LEN],
    hmac: HmacKey,
    pub(crate) bulk: BulkKey,
}

/// Why an encrypted message was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It was encrypted with another key, or modified. The remedy is to sign in again.
    #[error("message was not sealed with this key")]
    Authentication,
    /// The padding is wrong although the HMAC is right: the sender is faulty.
    #[error("sealed message is padded wrongly")]
    Padding,
    /// It answers another request.
    #[error("nonce verification error")]
    Nonce,
    /// The plaintext is not MessagePack.
    #[error("sealed message has unreadable content: {0}")]
    Content(#[from] msgpack::Error),
}

impl Crypticle {
    /// Returns the key of a key string.
    pub fn new(key: &KeyString) -> Result<Self, InvalidKeyString> {
        let raw = key.raw()?;
        let bulk = BulkKey::derive(&raw).map_err(|_| InvalidKeyString)?;
        let (aes, hmac) = raw.split_at(AES_KEY_LEN);
        let aes = aes.try_into().map_err(|_| InvalidKeyString)?;
        Ok(Crypticle { aes, hmac: HmacKey::new(hmac).ok_or(InvalidKeyString)?, bulk })
    }

    /// Encrypts a value; replies carry the nonce of their request.
    pub fn seal(&self, value: &Value, nonce: Option<&str>) -> Bytes {
        self.seal_with_iv(value, nonce, random())
    }

    /// Encrypts a value with a given IV, which must never repeat under one key.
    pub fn seal_with_iv(&self, value: &Value, nonce: Option<&str>, iv: [u8; IV_LEN]) -> Bytes {
        let mut message = Vec::with_capacity(256);
        message.extend_from_slice(&iv);
        message.extend_from_slice(PREFIX);
        message.extend_from_slice(nonce.unwrap_or_default().as_bytes());
        msgpack::pack_into(&mut message, value, Packing::Wire);
        self.encrypt(message, iv).expect("AES and HMAC of the vendored library always work")
    }

    /// Decrypts a message; with a nonce, it must be the answer to that request.
    ///
    /// As in Salt, a plaintext without the prefix counts as an empty map.
    pub fn open(&self, sealed: &[u8], nonce: Option<&str>, mode: Decode) -> Result<Value, OpenError> {
        let plaintext = Bytes::from(self.decrypt(sealed)?);
        match plaintext.strip_prefix(PREFIX) {
            Some(content) => open_content(&plaintext.slice_ref(content), nonce, mode),
            None => Ok(Value::Map(Map::new())),
        }
    }

    /// Returns whether a message was encrypted with this key, without decrypting it.
    pub fn is_seal_of(&self, sealed: &[u8]) -> bool {
        self.authenticated(sealed).is_some()
    }

    /// Returns what precedes the HMAC if the HMAC is valid.
    fn authenticated<'a>(&self, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (body, hmac) = sealed.split_at(sealed.len().checked_sub(HMAC_LEN)?);
        // In constant time: the time of a comparison must not tell how many bytes of a forged tag are right.
        memcmp::eq(&self.hmac.tag(body), hmac).then_some(body)
    }

    /// Encrypts in place what follows the IV.
    fn encrypt(&self, mut message: Vec<u8>, iv: [u8; IV_LEN]) -> Result<Bytes, ErrorStack> {
        let len = message.len() - IV_LEN;
        // Room for the padding, for one more block that OpenSSL requires, and for the HMAC.
        message.reserve_exact(2 * IV_LEN + HMAC_LEN);
        message.resize(message.len() + 2 * IV_LEN, 0);
        let mut cipher = CipherCtx::new()?;
        cipher.encrypt_init(Some(&AES), Some(&self.aes), Some(&iv))?;
        let mut end = IV_LEN + cipher.cipher_update_inplace(&mut message[IV_LEN..], len)?;
        end += cipher.cipher_final(&mut message[end..])?;
        message.truncate(end);
        let hmac = self.hmac.tag(&message);
        message.extend_from_slice(&hmac);
        Ok(message.into())
    }

    fn decrypt(&self, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        // The HMAC first: an error that depends on the padding of unauthenticated bytes would be an oracle for
        // decrypting messages.
        let body = self.authenticated(sealed).ok_or(OpenError::Authentication)?;
        let (iv, ciphertext) = body.split_at_checked(IV_LEN).ok_or(OpenError::Padding)?;
        self.decrypt_body(iv, ciphertext).map_err(|_| OpenError::Padding)
    }

    fn decrypt_body(&self, iv: &[u8], ciphertext: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let mut cipher = CipherCtx::new()?;
        cipher.decrypt_init(Some(&AES), Some(&self.aes), Some(iv))?;
        // OpenSSL requires room for one more block.
        let mut plaintext = vec![0; ciphertext.len() + IV_LEN];
        let mut end = cipher.cipher_update(ciphertext, Some(&mut plaintext))?;
        end += cipher.cipher_final(&mut plaintext[end..])?;
        plaintext.truncate(end);
        Ok(plaintext)
    }
}

impl std::fmt::Debug for Crypticle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Crypticle(…)")
    }
}

impl Drop for Crypticle {
    fn drop(&mut self) {
        // The black box keeps the compiler from removing a write that nobody reads.
        self.aes.fill(0);
        std::hint::black_box(&self.aes);
    }
}

fn open_content(content: &Bytes, nonce: Option<&str>, mode: Decode) -> Result<Value, OpenError> {
    let Some(nonce) = nonce else { return Ok(msgpack::unpack_bytes(content, mode)?) };
    let found = content.get(..NONCE_LEN).ok_or(OpenError::Nonce)?;
    // memcmp::eq panics for slices of different lengths.
    if nonce.len() != NONCE_LEN || !memcmp::eq(found, nonce.as_bytes()) {
        return Err(OpenError::Nonce);
    }
    Ok(msgpack::unpack_bytes(&content.slice(NONCE_LEN..), mode)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, value, vectors};

    fn crypticle(vector: &serde_json::Value) -> Crypticle {
        Crypticle::new(&KeyString::parse(vector.as_str().unwrap().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn vectors_both_ways() {
        let all = vectors("crypticle");
        let key = crypticle(&all["key_string"]);
        for case in all["cases"].as_array().unwrap() {
            let (object, nonce) = (value(&case["object"]), case["nonce"].as_str());
            let recorded = bytes(&case["wire_hex"]);
            let iv = bytes(&case["iv_hex"]).as_ref().try_into().unwrap();
            assert_eq!(key.seal_with_iv(&object, nonce, iv), recorded, "{}", case["name"]);
            assert_eq!(key.open(&recorded, nonce, Decode::Default), Ok(object), "{}", case["name"]);
        }
    }

    #[test]
    fn request_and_reply_vectors() {
        let all = vectors("request");
        for (version, key) in [("v3", "session_key_string"), ("v2", "master_aes_key_string")] {
            let key = crypticle(&all[key]);
            let case = &all[version];
            let Ok(wire::envelope::Envelope::Sealed(sealed)) =
                wire::envelope::Envelope::decode(&bytes(&case["request_wire_hex"]))
            else {
                panic!("a sealed envelope")
            };
            let load = key.open(&sealed.load, None, Decode::Default).unwrap();
            assert_eq!(msgpack::pack(&load, Packing::Wire), bytes(&case["load_msgpack_hex"]));
            let iv = bytes(&case["iv_hex"]).as_ref().try_into().unwrap();
            assert_eq!(key.seal_with_iv(&load, None, iv), sealed.load);

            let reply = msgpack::unpack_bytes(&bytes(&case["reply_wire_hex"]), Decode::Raw).unwrap();
            let Value::Bytes(reply) = reply else { panic!("bytes") };
            let object = key.open(&reply, all["nonce"].as_str(), Decode::Default).unwrap();
            assert_eq!(object, value(&case["reply_object"]));
            let iv = bytes(&case["reply_iv_hex"]).as_ref().try_into().unwrap();
            assert_eq!(key.seal_with_iv(&object, all["nonce"].as_str(), iv), *reply);
        }
    }

    #[test]
    fn publication_vector() {
        let all = vectors("publish");
        let key = crypticle(&all["master_aes_key_string"]);
        let load = value(&all["load"]);
        let recorded = bytes(&all["encrypted_load_hex"]);
        let iv = bytes(&all["iv_hex"]).as_ref().try_into().unwrap();
        assert_eq!(key.seal_with_iv(&load, None, iv), recorded);
        let opened = key.open(&recorded, None, Decode::Default).unwrap();
        assert_eq!(opened.get("serial"), Some(&1.into()));
        assert_eq!(opened.get("jid"), load.get("jid"));
    }

    #[test]
    fn any_changed_byte_is_detected() {
        let key = Crypticle::new(&KeyString::generate()).unwrap();
        let sealed = key.seal(&"secret".into(), None);
        // Every byte, of IV, ciphertext and HMAC alike, and every truncation.
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert_eq!(key.open(&changed, None, Decode::Default), Err(OpenError::Authentication));
            assert_eq!(key.open(&sealed[..at], None, Decode::Default), Err(OpenError::Authentication));
        }
        let other = Crypticle::new(&KeyString::generate()).unwrap();
        assert_eq!(other.open(&sealed, None, Decode::Default), Err(OpenError::Authentication));
    }

    #[test]
    fn answers_to_other_requests_are_refused() {
        let key = Crypticle::new(&KeyString::generate()).unwrap();
        let nonce = "0123456789abcdef0123456789abcdef";
        let sealed = key.seal(&true.into(), Some(nonce));
        assert_eq!(key.open(&sealed, Some(nonce), Decode::Default), Ok(true.into()));
        // A nonce of another length, or of other bytes than characters, must be refused and not panic.
        for wrong in ["", "1123456789abcdef0123456789abcdef", "é123456789abcdef0123456789abcde"] {
            assert_eq!(key.open(&sealed, Some(wrong), Decode::Default), Err(OpenError::Nonce));
        }
        let without = key.seal(&true.into(), None);
        assert_eq!(key.open(&without, Some(nonce), Decode::Default), Err(OpenError::Nonce));
    }

    #[test]
    fn messages_of_all_lengths_round_trip() {
        let key = Crypticle::new(&KeyString::generate()).unwrap();
        for len in (0..70).chain([1 << 16, (1 << 20) + 1]) {
            let value = Value::bytes(vec![0xff; len]);
            let opened = key.open(&key.seal(&value, None), None, Decode::Raw);
            assert_eq!(opened, Ok(value));
        }
    }

    #[test]
    fn a_plaintext_without_the_prefix_is_an_empty_map() {
        let key = Crypticle::new(&KeyString::generate()).unwrap();
        let sealed = key.encrypt([[7; IV_LEN].as_slice(), b"something else"].concat(), [7; IV_LEN]).unwrap();
        assert_eq!(key.open(&sealed, None, Decode::Default), Ok(Map::new().into()));
    }
}
