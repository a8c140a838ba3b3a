//! The cryptography of Salt's protocol as plain functions: RSA, encrypted messages, digests, fingerprints.
//!
//! Nothing here opens a socket or a file, or knows the peers. All arithmetic is OpenSSL's; Salt's own conventions (the layout of
//! encrypted messages, X9.31 without a hash, fingerprints) are implemented here. Secrets never appear in `Debug` output or
//! errors.

mod bulk;
mod bulk_key;
mod checksum;
mod crypticle;
mod digest;
mod hmac;
mod member_key;
mod password_hash;
mod pem;
mod rsa;
mod secret;
mod stretch;
mod x931;

pub use bulk::{BULK_FIELD, BULK_NAME, is_bulk};
pub use checksum::crc32;
pub use crypticle::{Crypticle, OpenError};
pub use digest::{HashType, Hasher, UnknownHashType, filter_topic, sha256, socket_hash};
pub use hmac::hmac_sha256;
pub use member_key::{MEMBER_KEY_LEN, MEMBER_SIGNATURE_LEN, MemberKey, MemberKeyError, MemberPublicKey};
pub use password_hash::{CRYPT_LETTERS, ShaCrypt};
pub use pem::{clean_key, fingerprint, is_pem_block, pem_finger};
pub use rsa::{Encryption, PrivateKey, PublicKey, RsaError, Signature, UnsupportedAlgorithm};
pub use secret::{InvalidKeyString, KEY_STRING_LEN, KeyString, random};
pub use stretch::stretched;

#[cfg(test)]
mod testing;
