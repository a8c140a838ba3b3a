//! The Ed25519 key of a master that shares with others: what a member signs its decisions with.
//!
//! These keys have nothing to do with Salt's RSA keys: minions never see them.

use std::fmt;

use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey, Private, Public};
use openssl::sign::{Signer, Verifier};

/// The length of a raw public member key in bytes.
pub const MEMBER_KEY_LEN: usize = 32;

/// The length of a signature in bytes.
pub const MEMBER_SIGNATURE_LEN: usize = 64;

/// A failed operation with a member key. The error does not repeat contents of keys.
#[derive(Debug, thiserror::Error)]
pub enum MemberKeyError {
    /// Generating a key failed.
    #[error("failed to make an Ed25519 key")]
    Generate(#[source] ErrorStack),
    /// The text is not an unencrypted private key in PEM form.
    #[error("not a readable private key")]
    Pem(#[source] ErrorStack),
    /// The key is one of another algorithm.
    #[error("private key is not an Ed25519 key")]
    Algorithm,
    /// Writing the key as text failed.
    #[error("failed to write an Ed25519 key as text")]
    Write(#[source] ErrorStack),
    /// Signing failed.
    #[error("failed to sign with the Ed25519 key")]
    Sign(#[source] ErrorStack),
}

/// The private key of a member. It is never printed.
#[derive(Clone)]
pub struct MemberKey {
    key: PKey<Private>,
    public: [u8; MEMBER_KEY_LEN],
}

impl MemberKey {
    /// Generates a key from the operating system's random numbers.
    pub fn generate() -> Result<Self, MemberKeyError> {
        let key = PKey::generate_ed25519().map_err(MemberKeyError::Generate)?;
        MemberKey::new(key)
    }

    /// Creates the key from its 32 random bytes.
    pub fn from_random(bytes: [u8; MEMBER_KEY_LEN]) -> Result<Self, MemberKeyError> {
        let key = PKey::private_key_from_raw_bytes(&bytes, Id::ED25519).map_err(MemberKeyError::Generate)?;
        MemberKey::new(key)
    }

    /// Reads a key file: PKCS #8, not encrypted.
    pub fn from_pem(pem: &[u8]) -> Result<Self, MemberKeyError> {
        // Without the empty passphrase OpenSSL would ask for one on the terminal.
        let key = PKey::private_key_from_pem_passphrase(pem, b"").map_err(MemberKeyError::Pem)?;
        MemberKey::new(key)
    }

    /// Formats the key as PKCS #8.
    pub fn to_pem(&self) -> Result<String, MemberKeyError> {
        let pem = self.key.private_key_to_pem_pkcs8().map_err(MemberKeyError::Write)?;
        Ok(String::from_utf8_lossy(&pem).into_owned())
    }

    /// Returns the raw public key.
    pub fn public(&self) -> [u8; MEMBER_KEY_LEN] {
        self.public
    }

    /// Returns the key as OpenSSL's TLS takes it.
    pub fn openssl(&self) -> &PKey<Private> {
        &self.key
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; MEMBER_SIGNATURE_LEN], MemberKeyError> {
        let mut signature = [0; MEMBER_SIGNATURE_LEN];
        let mut signer = Signer::new_without_digest(&self.key).map_err(MemberKeyError::Sign)?;
        signer.sign_oneshot(&mut signature, message).map_err(MemberKeyError::Sign)?;
        Ok(signature)
    }

    fn new(key: PKey<Private>) -> Result<Self, MemberKeyError> {
        if key.id() != Id::ED25519 {
            return Err(MemberKeyError::Algorithm);
        }
        let raw = key.raw_public_key().map_err(MemberKeyError::Pem)?;
        let public = raw.try_into().map_err(|_| MemberKeyError::Algorithm)?;
        Ok(MemberKey { key, public })
    }
}

impl fmt::Debug for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemberKey(…)")
    }
}

/// The public key of another member, ready to verify.
#[derive(Clone)]
pub struct MemberPublicKey(PKey<Public>);

impl MemberPublicKey {
    /// Reads a raw public key; `None` if it has another length.
    pub fn from_raw(raw: &[u8]) -> Option<Self> {
        PKey::public_key_from_raw_bytes(raw, Id::ED25519).ok().map(MemberPublicKey)
    }

    /// Returns whether this key signed this message.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        // An error of the library is a signature that does not fit.
        signature.len() == MEMBER_SIGNATURE_LEN
            && Verifier::new_without_digest(&self.0)
                .and_then(|mut verifier| verifier.verify_oneshot(signature, message))
                .unwrap_or(false)
    }
}

impl fmt::Debug for MemberPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemberPublicKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_rfc_8032() {
        let key = |hex: &str| hex::decode(hex).unwrap().try_into().unwrap();
        // Test 2 of section 7.1.
        let member =
            MemberKey::from_random(key("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")).unwrap();
        assert_eq!(hex::encode(member.public()), "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
        let signature = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                         085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
        assert_eq!(hex::encode(member.sign(&[0x72]).unwrap()), signature);
    }

    #[test]
    fn a_key_survives_its_file_and_verifies_only_what_it_signed() {
        let member = MemberKey::generate().unwrap();
        let read = MemberKey::from_pem(member.to_pem().unwrap().as_bytes()).unwrap();
        assert_eq!(read.public(), member.public());
        let public = MemberPublicKey::from_raw(&read.public()).unwrap();
        let mut signature = member.sign(b"accept web1").unwrap();
        assert!(public.verify(b"accept web1", &signature));
        assert!(!public.verify(b"accept web2", &signature));
        assert!(!public.verify(b"accept web1", &signature[..63]));
        signature[5] ^= 1;
        assert!(!public.verify(b"accept web1", &signature));
    }

    #[test]
    fn other_keys_are_refused_and_secrets_not_printed() {
        let rsa = crate::PrivateKey::generate(2048).unwrap().to_pem(None).unwrap();
        assert!(matches!(MemberKey::from_pem(rsa.as_bytes()), Err(MemberKeyError::Algorithm)));
        assert!(matches!(MemberKey::from_pem(b"no key"), Err(MemberKeyError::Pem(_))));
        assert!(MemberPublicKey::from_raw(b"too short").is_none());
        assert_eq!(format!("{:?}", MemberKey::generate().unwrap()), "MemberKey(…)");
    }
}
