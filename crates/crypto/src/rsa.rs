//! RSA keys, and Salt's operations with them.

use std::fmt;
use std::str::FromStr;

use openssl::bn::{BigNum, BigNumRef};
use openssl::encrypt::{Decrypter, Encrypter};
use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private, Public};
use openssl::rsa::{Padding, Rsa};
use openssl::sign::{Signer, Verifier};
use openssl::symm::Cipher;

use crate::{HashType, KeyString, x931};

/// The sizes of accepted keys in bits: smaller ones are insecure, larger ones only waste the processor time of the peer.
const ACCEPTED_BITS: std::ops::RangeInclusive<u32> = 1024..=16_384;

/// The bytes that a minion signs to prove its identity.
const TOK: &[u8] = b"salt";

/// An encryption algorithm, by its name in the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encryption {
    /// OAEP with SHA-1 in both places: the default.
    #[default]
    OaepSha1,
    /// OAEP with SHA-224 in both places.
    OaepSha224,
}

/// A signature algorithm, by its name in the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Signature {
    /// PKCS #1 v1.5 with SHA-1: the default.
    #[default]
    Pkcs1v15Sha1,
    /// PKCS #1 v1.5 with SHA-224.
    Pkcs1v15Sha224,
}

/// An unknown algorithm name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported algorithm {0:?}")]
pub struct UnsupportedAlgorithm(pub String);

/// A failed operation with an RSA key. The error does not repeat contents of keys and messages.
#[derive(Debug, thiserror::Error)]
pub enum RsaError {
    /// The text is not an RSA private key, or its passphrase is missing or wrong.
    #[error("not a readable RSA private key, or its passphrase is missing or wrong")]
    PrivateKey(#[source] ErrorStack),
    /// The text is not an RSA public key.
    #[error("not a readable RSA public key")]
    PublicKey(#[source] ErrorStack),
    /// A key of this size in bits is refused.
    #[error("RSA key of {0} bits is outside of the accepted 1024 to 16384")]
    Size(u32),
    /// Generating a key failed.
    #[error("failed to make an RSA key of {bits} bits")]
    Generate {
        /// The requested size.
        bits: u32,
        /// OpenSSL's error.
        source: ErrorStack,
    },
    /// Writing a key as text failed.
    #[error("failed to write an RSA key as text")]
    Write(#[source] ErrorStack),
    /// The ciphertext was not made for this key and algorithm.
    #[error("failed to decrypt with the RSA key")]
    Decrypt(#[source] ErrorStack),
    /// The message is too long for the key.
    #[error("failed to encrypt {len} bytes to the RSA key")]
    Encrypt {
        /// The length of the message.
        len: usize,
        /// OpenSSL's error.
        source: ErrorStack,
    },
    /// Signing failed.
    #[error("failed to sign with the RSA key")]
    Sign(#[source] ErrorStack),
    /// The message is too long for the key.
    #[error("message of {0} bytes is too long to be signed with the RSA key itself")]
    TooLong(usize),
}

/// The private key of an RSA pair. It is never printed.
#[derive(Clone)]
pub struct PrivateKey(PKey<Private>);

/// The public key of an RSA pair.
#[derive(Clone)]
pub struct PublicKey(PKey<Public>);

// === impl PrivateKey ===

impl PrivateKey {
    /// Generates a pair with the exponent 65537. This takes a noticeable time: not for an async task.
    pub fn generate(bits: u32) -> Result<Self, RsaError> {
        if !ACCEPTED_BITS.contains(&bits) {
            return Err(RsaError::Size(bits));
        }
        let pair = Rsa::generate(bits).and_then(PKey::from_rsa);
        pair.map(PrivateKey).map_err(|source| RsaError::Generate { bits, source })
    }

    /// Reads a key file: PKCS #1 or PKCS #8, encrypted or not.
    pub fn from_pem(pem: &[u8], passphrase: Option<&str>) -> Result<Self, RsaError> {
        // Without the empty default OpenSSL would ask for a passphrase on the terminal.
        let passphrase = passphrase.unwrap_or_default();
        let key = PKey::private_key_from_pem_passphrase(pem, passphrase.as_bytes()).map_err(RsaError::PrivateKey)?;
        check_size(key.rsa().map_err(RsaError::PrivateKey)?.n())?;
        Ok(PrivateKey(key))
    }

    /// Formats the key like Salt's key files: PKCS #1, with a passphrase in the traditional encrypted form.
    pub fn to_pem(&self, passphrase: Option<&str>) -> Result<String, RsaError> {
        let rsa = self.rsa().map_err(RsaError::Write)?;
        let pem = match passphrase {
            None => rsa.private_key_to_pem(),
            Some(passphrase) => rsa.private_key_to_pem_passphrase(Cipher::aes_256_cbc(), passphrase.as_bytes()),
        };
        Ok(String::from_utf8_lossy(&pem.map_err(RsaError::Write)?).into_owned())
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        // By its numbers: writing and parsing it takes longer than parsing the private key did.
        let public = self.0.rsa().and_then(|own| Rsa::from_public_components(own.n().to_owned()?, own.e().to_owned()?));
        PublicKey(public.and_then(PKey::from_rsa).expect("a private key has a public half"))
    }

    /// Signs bytes.
    pub fn sign(&self, algorithm: Signature, message: &[u8]) -> Result<Vec<u8>, RsaError> {
        let digest = algorithm.hash().message_digest();
        let signature = Signer::new(digest, &self.0).and_then(|mut signer| signer.sign_oneshot_to_vec(message));
        signature.map_err(RsaError::Sign)
    }

    /// Decrypts what was encrypted to the public key.
    pub fn decrypt(&self, algorithm: Encryption, ciphertext: &[u8]) -> Result<Vec<u8>, RsaError> {
        self.decrypt_inner(algorithm, ciphertext).map_err(RsaError::Decrypt)
    }

    fn decrypt_inner(&self, algorithm: Encryption, ciphertext: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let digest = algorithm.hash().message_digest();
        let mut decrypter = Decrypter::new(&self.0)?;
        decrypter.set_rsa_padding(Padding::PKCS1_OAEP)?;
        decrypter.set_rsa_oaep_md(digest)?;
        // Salt uses the same digest in both places; OpenSSL would default to SHA-1 for the mask.
        decrypter.set_rsa_mgf1_md(digest)?;
        let mut plaintext = vec![0; decrypter.decrypt_len(ciphertext)?];
        let len = decrypter.decrypt(ciphertext, &mut plaintext)?;
        plaintext.truncate(len);
        Ok(plaintext)
    }

    /// Signs a short message with X9.31 padding, from which [`PublicKey::recover_x931`] recovers it.
    pub fn sign_x931(&self, message: &[u8]) -> Result<Vec<u8>, RsaError> {
        let rsa = self.rsa().map_err(RsaError::Sign)?;
        let block = x931::pad(message, rsa.size() as usize).ok_or(RsaError::TooLong(message.len()))?;
        sign_block(&rsa, &block).map_err(RsaError::Sign)
    }

    /// Returns the token that proves the sender of a request to a master. It is always the same for a key.
    pub fn tok(&self) -> Result<Vec<u8>, RsaError> {
        self.sign_x931(TOK)
    }

    /// Returns the key's signature of the master's AES key, for the sign-in reply.
    pub fn sign_key_string(&self, key: &KeyString) -> Result<Vec<u8>, RsaError> {
        self.sign_x931(key.sha256_hex().as_bytes())
    }

    fn rsa(&self) -> Result<Rsa<Private>, ErrorStack> {
        self.0.rsa()
    }
}

/// Signs a padded block: returns the smaller of `s` and `n - s`, padded on the left with zeros.
fn sign_block(rsa: &Rsa<Private>, block: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let mut signature = vec![0; rsa.size() as usize];
    rsa.private_encrypt(block, &mut signature, Padding::NONE)?;
    let s = BigNum::from_slice(&signature)?;
    let other = difference(rsa.n(), &s)?;
    // X9.31 sends the smaller of the two roots. It may have leading zeros, which must be kept.
    if other < s { other.to_vec_padded(rsa.size() as i32) } else { Ok(signature) }
}

fn difference(n: &BigNumRef, s: &BigNumRef) -> Result<BigNum, ErrorStack> {
    let mut difference = BigNum::new()?;
    difference.checked_sub(n, s)?;
    Ok(difference)
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({} bits)", self.0.bits())
    }
}

// === impl PublicKey ===

impl PublicKey {
    /// Parses a key text: SubjectPublicKeyInfo or PKCS #1, with any line ends.
    pub fn from_pem(pem: &[u8]) -> Result<Self, RsaError> {
        let pem = pem.trim_ascii();
        // The first error is reported: it belongs to the usual form.
        let rsa = Rsa::public_key_from_pem(pem).or_else(|first| Rsa::public_key_from_pem_pkcs1(pem).map_err(|_| first));
        let rsa = rsa.map_err(RsaError::PublicKey)?;
        check_size(rsa.n())?;
        PKey::from_rsa(rsa).map(PublicKey).map_err(RsaError::PublicKey)
    }

    /// Formats the key like Salt's key files: SubjectPublicKeyInfo, with a line feed at the end.
    pub fn to_pem(&self) -> String {
        let pem = self.0.public_key_to_pem().expect("a readable key can be written");
        String::from_utf8_lossy(&pem).into_owned()
    }

    /// Returns the size of the key in bits.
    pub fn bits(&self) -> u32 {
        self.0.bits()
    }

    /// Returns whether this is the owner's signature of the message.
    pub fn verify(&self, algorithm: Signature, message: &[u8], signature: &[u8]) -> bool {
        let digest = algorithm.hash().message_digest();
        let checked =
            Verifier::new(digest, &self.0).and_then(|mut verifier| verifier.verify_oneshot(signature, message));
        // A malformed signature is an error in OpenSSL. For the caller it is simply not valid.
        checked.unwrap_or(false)
    }

    /// Encrypts a short message to the owner.
    pub fn encrypt(&self, algorithm: Encryption, message: &[u8]) -> Result<Vec<u8>, RsaError> {
        self.encrypt_inner(algorithm, message).map_err(|source| RsaError::Encrypt { len: message.len(), source })
    }

    fn encrypt_inner(&self, algorithm: Encryption, message: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let digest = algorithm.hash().message_digest();
        let mut encrypter = Encrypter::new(&self.0)?;
        encrypter.set_rsa_padding(Padding::PKCS1_OAEP)?;
        encrypter.set_rsa_oaep_md(digest)?;
        encrypter.set_rsa_mgf1_md(digest)?;
        let mut ciphertext = vec![0; encrypter.encrypt_len(message)?];
        let len = encrypter.encrypt(message, &mut ciphertext)?;
        ciphertext.truncate(len);
        Ok(ciphertext)
    }

    /// Returns the message that the owner signed with [`PrivateKey::sign_x931`]; `None` if it is not the owner's signature.
    pub fn recover_x931(&self, signature: &[u8]) -> Option<Vec<u8>> {
        let rsa = self.0.rsa().ok()?;
        let block = recover_block(&rsa, signature).ok()?;
        x931::unpad(&block).map(<[u8]>::to_vec)
    }

    /// Returns whether this is the owner's [`PrivateKey::tok`].
    pub fn verify_tok(&self, tok: &[u8]) -> bool {
        self.recover_x931(tok).is_some_and(|message| message == TOK)
    }

    /// Returns whether this is the owner's [`PrivateKey::sign_key_string`].
    pub fn verify_key_string(&self, key: &KeyString, signature: &[u8]) -> bool {
        self.recover_x931(signature).is_some_and(|message| message == key.sha256_hex().as_bytes())
    }
}

fn recover_block(rsa: &Rsa<Public>, signature: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let size = rsa.size() as usize;
    let mut block = vec![0; size];
    rsa.public_decrypt(signature, &mut block, Padding::NONE)?;
    // The trailer tells the two roots apart: a block ends in the nibble C, and `n` is odd.
    if block.last().is_some_and(|byte| byte & 0x0f == 0x0c) {
        return Ok(block);
    }
    difference(rsa.n(), &*BigNum::from_slice(&block)?)?.to_vec_padded(size as i32)
}

fn check_size(n: &BigNumRef) -> Result<(), RsaError> {
    let bits = n.num_bits() as u32;
    if ACCEPTED_BITS.contains(&bits) { Ok(()) } else { Err(RsaError::Size(bits)) }
}

/// Keys are equal if their numbers are, however they are written.
impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.public_eq(&other.0)
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({} bits)", self.0.bits())
    }
}

// === names of algorithms ===

impl Encryption {
    /// Returns the name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Encryption::OaepSha1 => "OAEP-SHA1",
            Encryption::OaepSha224 => "OAEP-SHA224",
        }
    }

    fn hash(self) -> HashType {
        match self {
            Encryption::OaepSha1 => HashType::Sha1,
            Encryption::OaepSha224 => HashType::Sha224,
        }
    }
}

impl Signature {
    /// Returns the name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Signature::Pkcs1v15Sha1 => "PKCS1v15-SHA1",
            Signature::Pkcs1v15Sha224 => "PKCS1v15-SHA224",
        }
    }

    fn hash(self) -> HashType {
        match self {
            Signature::Pkcs1v15Sha1 => HashType::Sha1,
            Signature::Pkcs1v15Sha224 => HashType::Sha224,
        }
    }
}

impl FromStr for Encryption {
    type Err = UnsupportedAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnsupportedAlgorithm> {
        let known = [Encryption::OaepSha1, Encryption::OaepSha224].into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| UnsupportedAlgorithm(name.chars().take(40).collect()))
    }
}

impl FromStr for Signature {
    type Err = UnsupportedAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnsupportedAlgorithm> {
        let known = [Signature::Pkcs1v15Sha1, Signature::Pkcs1v15Sha224].into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| UnsupportedAlgorithm(name.chars().take(40).collect()))
    }
}

impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
