//! Signs certificates.

use exec::{Error, Result};
use openssl::hash::MessageDigest;
use openssl::pkey::{Id, PKey, PKeyRef, Private};
use openssl::sign::Signer;

use super::der::{self, Item, tag};

/// An algorithm of a signature: its identifier, and other values as DER.
#[derive(Clone, Debug, PartialEq)]
pub struct Algorithm {
    /// The identifier.
    pub oid: String,
    parameters: Vec<u8>,
}

const ED25519: &str = "1.3.101.112";
const ED448: &str = "1.3.101.113";
const PSS: &str = "1.2.840.113549.1.1.10";

/// Digests that signatures are made over: the name of the argument, the algorithm with RSA and with elliptic curves.
const DIGESTS: &[(&str, &str, &str)] = &[
    ("sha224", "1.2.840.113549.1.1.14", "1.2.840.10045.4.3.1"),
    ("sha256", "1.2.840.113549.1.1.11", "1.2.840.10045.4.3.2"),
    ("sha384", "1.2.840.113549.1.1.12", "1.2.840.10045.4.3.3"),
    ("sha512", "1.2.840.113549.1.1.13", "1.2.840.10045.4.3.4"),
    ("sha3_224", "2.16.840.1.101.3.4.3.13", "2.16.840.1.101.3.4.3.9"),
    ("sha3_256", "2.16.840.1.101.3.4.3.14", "2.16.840.1.101.3.4.3.10"),
    ("sha3_384", "2.16.840.1.101.3.4.3.15", "2.16.840.1.101.3.4.3.11"),
    ("sha3_512", "2.16.840.1.101.3.4.3.16", "2.16.840.1.101.3.4.3.12"),
];

/// Old algorithms that signatures are still read with.
const OLD: &[(&str, &str)] = &[
    ("md5", "1.2.840.113549.1.1.4"),
    ("sha1", "1.2.840.113549.1.1.5"),
    ("sha1", "1.3.14.3.2.29"),
    ("sha1", "1.2.840.10045.4.1"),
    ("sha1", "1.2.840.10040.4.3"),
    ("sha224", "2.16.840.1.101.3.4.3.1"),
    ("sha256", "2.16.840.1.101.3.4.3.2"),
];

/// The digests of PSS by their identifiers.
const PSS_DIGESTS: &[(&str, &str)] = &[
    ("sha224", "2.16.840.1.101.3.4.2.4"),
    ("sha256", "2.16.840.1.101.3.4.2.1"),
    ("sha384", "2.16.840.1.101.3.4.2.2"),
    ("sha512", "2.16.840.1.101.3.4.2.3"),
];

/// The digests an argument may name.
pub const NAMES: [&str; 11] = [
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha512_224",
    "sha512_256",
    "sha3_224",
    "sha3_256",
    "sha3_384",
    "sha3_512",
];

/// Refuses the name of a digest there is not.
///
/// # Errors
/// The name is not a digest.
pub fn check_digest(digest: &str) -> Result<()> {
    if NAMES.contains(&digest.to_lowercase().as_str()) {
        return Ok(());
    }
    Err(Error::execution(format!("Invalid value '{digest}' for digest. Valid: {}", NAMES.join(", "))))
}

/// The digest that a signature is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Digest {
    /// By one of this name.
    Named(&'static str),
    /// By its own means.
    Own,
    /// In a way we do not know.
    Unknown,
}

impl Algorithm {
    /// The algorithm for a key and the name of a digest.
    ///
    /// # Errors
    /// They do not go together.
    pub fn of(key: &PKeyRef<Private>, digest: &str) -> Result<Self> {
        let digest = digest.to_lowercase();
        let plain = |oid: &str| Algorithm { oid: oid.to_owned(), parameters: Vec::new() };
        let known = DIGESTS.iter().find(|(name, ..)| *name == digest);
        let unsupported = || {
            let shown = digest.replace("sha512_", "sha512-");
            Error::Other(format!("Hash algorithm \"{shown}\" not supported for signatures"))
        };
        match key.id() {
            Id::ED25519 => Ok(plain(ED25519)),
            Id::ED448 => Ok(plain(ED448)),
            Id::EC => known.map(|(.., oid)| plain(oid)).ok_or_else(unsupported),
            Id::RSA => {
                let oid = known.map(|(_, oid, _)| *oid).ok_or_else(unsupported)?;
                Ok(Algorithm { oid: oid.to_owned(), parameters: der::tlv(tag::NULL, &[]) })
            }
            _ => Err(Error::execution("not supported: signatures with keys other than RSA, EC, ed25519 and ed448")),
        }
    }

    /// Reads an algorithm.
    pub fn read(item: Item) -> Option<Self> {
        let mut inside = item.inside();
        let oid = inside.expect(tag::OID)?.oid()?;
        let parameters = if inside.is_empty() { Vec::new() } else { inside.next()?.whole.to_vec() };
        Some(Algorithm { oid, parameters })
    }

    /// The algorithm as DER.
    pub fn to_der(&self) -> Vec<u8> {
        der::sequence(&[der::oid(&self.oid).expect("it was read or is in the tables"), self.parameters.clone()])
    }

    /// The digest it makes.
    pub fn digest(&self) -> Digest {
        if self.oid == ED25519 || self.oid == ED448 {
            return Digest::Own;
        }
        if self.oid == PSS {
            return self.pss_digest().map_or(Digest::Unknown, Digest::Named);
        }
        let known = DIGESTS.iter().find(|(_, rsa, ec)| *rsa == self.oid || *ec == self.oid).map(|(name, ..)| *name);
        let old = || OLD.iter().find(|(_, oid)| *oid == self.oid).map(|(name, _)| *name);
        known.or_else(old).map_or(Digest::Unknown, Digest::Named)
    }

    fn pss_digest(&self) -> Option<&'static str> {
        let mut parameters = der::Reader::new(&self.parameters).inside(tag::SEQUENCE)?;
        let Some(hash) = parameters.optional(der::fields(0)) else { return Some("sha1") };
        let oid = hash.inside().inside(tag::SEQUENCE)?.expect(tag::OID)?.oid()?;
        PSS_DIGESTS.iter().find(|(_, known)| *known == oid).map(|(name, _)| *name)
    }
}

fn message_digest(name: &str) -> MessageDigest {
    match name {
        "sha224" => MessageDigest::sha224(),
        "sha384" => MessageDigest::sha384(),
        "sha512" => MessageDigest::sha512(),
        "sha3_224" => MessageDigest::sha3_224(),
        "sha3_256" => MessageDigest::sha3_256(),
        "sha3_384" => MessageDigest::sha3_384(),
        "sha3_512" => MessageDigest::sha3_512(),
        _ => MessageDigest::sha256(),
    }
}

/// Signs bytes.
///
/// # Errors
/// OpenSSL cannot.
pub fn signature(bytes: &[u8], key: &PKey<Private>, algorithm: &Algorithm) -> Result<Vec<u8>> {
    let signer = match algorithm.digest() {
        Digest::Named(name) => Signer::new(message_digest(name), key),
        _ => Signer::new_without_digest(key),
    };
    let signed = signer.and_then(|mut signer| signer.sign_oneshot_to_vec(bytes));
    signed.map_err(|error| Error::execution(format!("failed to sign: {error}")))
}
