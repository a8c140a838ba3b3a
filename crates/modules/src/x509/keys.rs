//! Private and public keys: loaded, made, compared and encoded.

use exec::{Error, Result};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::{MessageDigest, hash};
use openssl::nid::Nid;
use openssl::pkcs12::Pkcs12;
use openssl::pkey::{Id, PKey, PKeyRef, Private, Public};
use openssl::rsa::Rsa;
use openssl::symm::Cipher;
use value::Value;

use super::der::{Reader, tag};
use super::load::{self, Loaded, Unloaded};

/// Loads a private key and returns its encoding: PEM, DER or PKCS#12.
pub fn private(value: &Value, passphrase: Option<&str>) -> Loaded<(PKey<Private>, &'static str)> {
    let bytes = load::bytes(value).map_err(Unloaded::Source)?;
    // The order of attempts is Salt's: PEM, PKCS #12, DER.
    if load::is_pem(&bytes) {
        return private_pem(&bytes, passphrase).map(|key| (key, "pem"));
    }
    if let Some(container) = load::container(&bytes, passphrase)? {
        let missing = || Unloaded::Source(Error::execution("PKCS12-encoded blob does not contain a private key."));
        return container.pkey.map(|key| (key, "pkcs12")).ok_or_else(missing);
    }
    private_der(&bytes, passphrase).map(|key| (key, "der"))
}

fn private_pem(bytes: &[u8], passphrase: Option<&str>) -> Loaded<PKey<Private>> {
    let text = String::from_utf8_lossy(bytes);
    let begin = text.find("-----BEGIN").unwrap_or(0);
    let unreadable = || Unloaded::Unreadable("Could not load PEM-encoded private key".to_owned());
    let head = &text[begin..];
    let head = &head[..head.find("-----END").unwrap_or(head.len())];
    if !head.lines().next().is_some_and(|line| line.contains("PRIVATE KEY")) {
        return Err(unreadable());
    }
    if !head.contains("ENCRYPTED") {
        // Without a password there must be no prompt for one.
        let key = PKey::private_key_from_pem_passphrase(bytes, b"").map_err(|_| unreadable())?;
        // Salt refuses a passphrase that is not needed, so that no user believes an unencrypted key to be encrypted.
        return if passphrase.is_some() { Err(Unloaded::SuperfluousPassword) } else { Ok(key) };
    }
    let passphrase = passphrase.ok_or(Unloaded::MissingPassword)?;
    PKey::private_key_from_pem_passphrase(bytes, passphrase.as_bytes()).map_err(|_| Unloaded::InvalidPassword)
}

fn private_der(bytes: &[u8], passphrase: Option<&str>) -> Loaded<PKey<Private>> {
    if is_encrypted(bytes) {
        let passphrase = passphrase.ok_or(Unloaded::MissingPassword)?;
        return PKey::private_key_from_pkcs8_passphrase(bytes, passphrase.as_bytes())
            .map_err(|_| Unloaded::InvalidPassword);
    }
    let wrong = "Could not deserialize binary data, neither as DER nor PKCS#12.";
    // OpenSSL would also try other formats. Only a sequence can be a key in DER.
    let plain =
        if Reader::new(bytes).inside(tag::SEQUENCE).is_some() { PKey::private_key_from_der(bytes).ok() } else { None };
    let key = plain.ok_or_else(|| Unloaded::Unreadable(wrong.to_owned()))?;
    if passphrase.is_some() { Err(Unloaded::SuperfluousPassword) } else { Ok(key) }
}

/// Returns whether this is a key behind a password (RFC 5958, section 3).
fn is_encrypted(bytes: &[u8]) -> bool {
    let read = || {
        let mut inside = Reader::new(bytes).inside(tag::SEQUENCE)?;
        // EncryptedPrivateKeyInfo is an algorithm and an octet string. Any plain key begins with a
        // version.
        inside.inside(tag::SEQUENCE)?.expect(tag::OID)?;
        inside.expect(tag::OCTET_STRING)?;
        Some(inside.is_empty())
    };
    read().unwrap_or(false)
}

/// Loads a public key: PEM or DER.
pub fn public(value: &Value) -> Loaded<PKey<Public>> {
    let bytes = load::bytes(value).map_err(Unloaded::Source)?;
    let unreadable = |kind| Unloaded::Unreadable(format!("Could not load {kind}-encoded public key."));
    if load::is_pem(&bytes) {
        let has = |label: &str| bytes.windows(label.len()).any(|window| window == label.as_bytes());
        if has("-----BEGIN PUBLIC KEY") {
            return PKey::public_key_from_pem(&bytes).map_err(|_| unreadable("PEM"));
        }
        // The old format of RSA (PKCS #1), which OpenSSL reads with a separate function.
        let old = has("-----BEGIN RSA PUBLIC KEY").then(|| Rsa::public_key_from_pem_pkcs1(&bytes).ok()).flatten();
        return old.and_then(|key| PKey::from_rsa(key).ok()).ok_or_else(|| unreadable("PEM"));
    }
    from_der(&bytes).ok_or_else(|| unreadable("DER"))
}

/// Reads a public key as certificates hold it.
pub fn from_der(bytes: &[u8]) -> Option<PKey<Public>> {
    Reader::new(bytes).inside(tag::SEQUENCE)?;
    PKey::public_key_from_der(bytes).ok()
}

/// The public half of a private key, as DER.
pub fn public_der(key: &PKeyRef<Private>) -> Result<Vec<u8>> {
    key.public_key_to_der().map_err(|error| Error::execution(format!("failed to encode a public key: {error}")))
}

/// The digest by which a key is named in certificates: that of its bits (RFC 5280, section 4.2.1.2).
pub fn key_id(der: &[u8]) -> Vec<u8> {
    let bits = || {
        let mut inside = Reader::new(der).inside(tag::SEQUENCE)?;
        inside.expect(tag::SEQUENCE)?;
        // Method 1 of RFC 5280, 4.2.1.2: the key alone, without the byte that counts unused bits.
        // Here SHA-1 only names and protects nothing.
        inside.expect(tag::BIT_STRING)?.body.get(1..)
    };
    hash(MessageDigest::sha1(), bits().unwrap_or(der)).expect("SHA-1 is there").to_vec()
}

/// The kind of a key.
pub fn kind<T>(key: &PKeyRef<T>) -> Option<&'static str> {
    match key.id() {
        Id::RSA | Id::RSA_PSS => Some("rsa"),
        Id::EC => Some("ec"),
        Id::ED25519 => Some("ed25519"),
        Id::ED448 => Some("ed448"),
        _ => None,
    }
}

/// The size of a key in bits, where keys of its kind have several.
pub fn size<T: openssl::pkey::HasPublic>(key: &PKeyRef<T>) -> Option<i64> {
    matches!(kind(key), Some("rsa" | "ec")).then(|| i64::from(key.bits()))
}

/// Returns whether two public keys, as DER, are the same.
///
/// # Errors
/// One of the keys is of an unknown kind.
pub fn same(a: &[u8], b: &[u8]) -> Result<bool> {
    let unknown = || Error::invocation("Did not recognize key type");
    let (a, b) = (from_der(a).ok_or_else(unknown)?, from_der(b).ok_or_else(unknown)?);
    // `public_eq` alone would complain about keys of different kinds.
    let (first, second) = (kind(&a).ok_or_else(unknown)?, kind(&b).ok_or_else(unknown)?);
    Ok(first == second && a.public_eq(&b))
}

/// Makes a private key.
///
/// # Errors
/// There are none of this kind or size.
pub fn generate(algo: &str, keysize: Option<i64>) -> Result<PKey<Private>> {
    let made = match (algo, keysize.filter(|size| *size != 0)) {
        ("rsa", size) => {
            let size = size.unwrap_or(2048);
            // Salt's list. Smaller keys are unsafe, and odd sizes trouble some devices.
            if ![2048, 3072, 4096].contains(&size) {
                return Err(Error::invocation("RSA key size must be either 2048, 3072 or 4096 bits."));
            }
            Rsa::generate(size as u32).and_then(PKey::from_rsa)
        }
        ("ec", size) => {
            let curve = match size.unwrap_or(256) {
                256 => Nid::X9_62_PRIME256V1,
                384 => Nid::SECP384R1,
                521 => Nid::SECP521R1,
                _ => return Err(Error::invocation("EC key size must be either 256, 384, 521 bits.")),
            };
            EcGroup::from_curve_name(curve).and_then(|group| EcKey::generate(&group)).and_then(PKey::from_ec_key)
        }
        ("ed25519", _) => PKey::generate_ed25519(),
        ("ed448", _) => PKey::generate_ed448(),
        _ => {
            return Err(Error::invocation(format!(
                "Invalid algorithm specified for generating private key: {algo}. Valid: rsa, ec, ed25519, ed448"
            )));
        }
    };
    made.map_err(|error| Error::execution(format!("failed to make a private key: {error}")))
}

/// The content of a PKCS#12 container beside the key.
#[derive(Default)]
pub struct Contents<'a> {
    /// The certificate, and those behind it, as DER.
    pub certs: &'a [&'a [u8]],
    /// The name of the certificate.
    pub name: Option<&'a str>,
}

/// Encodes a private key.
///
/// # Errors
/// OpenSSL cannot.
pub fn encode(key: &PKey<Private>, encoding: &str, passphrase: Option<&str>, old: bool) -> Result<Vec<u8>> {
    let cipher = Cipher::aes_256_cbc();
    let encoded = match (encoding, passphrase) {
        ("pkcs12", _) => return pkcs12(key, Contents::default(), passphrase, old),
        ("der", None) => key.private_key_to_pkcs8(),
        ("der", Some(pass)) => key.private_key_to_pkcs8_passphrase(cipher, pass.as_bytes()),
        (_, None) => key.private_key_to_pem_pkcs8(),
        (_, Some(pass)) => key.private_key_to_pem_pkcs8_passphrase(cipher, pass.as_bytes()),
    };
    encoded.map_err(|error| Error::execution(format!("failed to encode a private key: {error}")))
}

/// Puts a key, and certificates, into a PKCS#12 container.
///
/// # Errors
/// OpenSSL cannot.
pub fn pkcs12(key: &PKey<Private>, contents: Contents<'_>, passphrase: Option<&str>, old: bool) -> Result<Vec<u8>> {
    let name = contents.name.unwrap_or_default();
    // OpenSSL takes C strings and would cut them off.
    if name.contains('\0') || passphrase.is_some_and(|pass| pass.contains('\0')) {
        return Err(Error::invocation("Names and passphrases of PKCS#12 containers must not hold zero bytes"));
    }
    let make = || {
        let mut builder = Pkcs12::builder();
        builder.pkey(key);
        if !name.is_empty() {
            builder.name(name);
        }
        if let Some((first, others)) = contents.certs.split_first() {
            builder.cert(openssl::x509::X509::from_der(first)?.as_ref());
            let mut chain = openssl::stack::Stack::new()?;
            for cert in others {
                chain.push(openssl::x509::X509::from_der(cert)?)?;
            }
            builder.ca(chain);
        }
        let (cipher, rounds, digest) = match passphrase {
            // -1 is OpenSSL's "no encryption". There is no passphrase to stretch, so one round will
            // do.
            None => (Nid::from_raw(-1), 1, MessageDigest::sha256()),
            // The format that old Windows and Java versions can read. The numbers of rounds are `cryptography`'s.
            Some(_) if old => (Nid::PBE_WITHSHA1AND3_KEY_TRIPLEDES_CBC, 50_000, MessageDigest::sha1()),
            Some(_) => (Nid::AES_256_CBC, 20_000, MessageDigest::sha256()),
        };
        builder.key_algorithm(cipher).cert_algorithm(cipher).key_iter(rounds).mac_iter(rounds).mac_md(digest);
        builder.build2(passphrase.unwrap_or_default())?.to_der()
    };
    make().map_err(|error: openssl::error::ErrorStack| {
        Error::execution(format!("failed to make a PKCS#12 container: {error}"))
    })
}
