//! Reading arguments that are a path, a text (PEM, hexadecimal or base64) or bytes.

use std::path::Path;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use exec::{Error, Result};
use openssl::pkcs12::Pkcs12;
use value::Value;

use super::cert::{Cert, Crl, Csr};
use super::der::{Reader, fields, tag};

/// The reasons why something could not be loaded.
#[derive(Debug)]
pub enum Unloaded {
    /// The password is wrong.
    InvalidPassword,
    /// A passphrase is needed.
    MissingPassword,
    /// A passphrase was given, but the key is not encrypted.
    SuperfluousPassword,
    /// The content is something else.
    Unreadable(String),
    /// The source is missing or lacks the requested object.
    Source(Error),
}

// States check the kind of failure, for example to replace a key whose passphrase is wrong. Functions only show its
// text.
impl From<Unloaded> for Error {
    fn from(why: Unloaded) -> Error {
        Error::invocation(match why {
            Unloaded::InvalidPassword => "Bad decrypt - is the password correct?".to_owned(),
            Unloaded::MissingPassword => "Private key is encrypted. Please provide a password.".to_owned(),
            Unloaded::SuperfluousPassword => "Private key is unencrypted. Please remove the password.".to_owned(),
            Unloaded::Unreadable(what) => what,
            Unloaded::Source(error) => return error,
        })
    }
}

/// The loaded thing, or the reason why there is none.
pub type Loaded<T> = std::result::Result<T, Unloaded>;

const BEGIN: &[u8] = b"-----BEGIN";
const END: &[u8] = b"-----END";

/// Returns whether bytes hold a PEM.
pub fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|window| window == BEGIN)
}

/// Returns whether an argument is the path of a file.
pub fn is_file(value: &Value) -> bool {
    value.as_str().is_some_and(|path| !path.contains('\0') && Path::new(path).is_file())
}

/// The bytes an argument means.
///
/// # Errors
/// The value is not a source, or the file cannot be read.
pub fn bytes(value: &Value) -> Result<Vec<u8>> {
    match value {
        Value::Str(path) if is_file(value) => {
            std::fs::read(path).map_err(|error| Error::Other(crate::file::python_text(&error, path)))
        }
        Value::Str(text) => text_bytes(text),
        Value::Bytes(bytes) => Ok(bytes.to_vec()),
        _ => Err(no_source()),
    }
}

fn no_source() -> Error {
    Error::invocation(
        "Could not load provided source. You need to pass an existing file, (PEM|hex|base64)-encoded string or raw bytes.",
    )
}

fn text_bytes(text: &str) -> Result<Vec<u8>> {
    // Salt's mark for base64 that could be hex just as well.
    if let Some(encoded) = text.strip_prefix("b64:") {
        return base64_bytes(encoded).ok_or_else(|| Error::Other("Incorrect padding".into()));
    }
    if is_pem(text.as_bytes()) {
        return Ok(text.as_bytes().to_vec());
    }
    // Python's `bytes.fromhex` skips blanks.
    let packed: String = text.split_ascii_whitespace().collect();
    hex::decode(&packed).ok().or_else(|| base64_bytes(text)).ok_or_else(no_source)
}

/// Decodes base64 and passes over what does not belong to it.
pub fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let is_digit = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    // Python's `b64decode` skips what is not a digit and only insists on the padding.
    let digits: String = text.chars().filter(is_digit).collect();
    let padding = text.chars().filter(|c| *c == '=').count();
    let enough = matches!((digits.len() % 4, padding), (0, _) | (2, 2..) | (3, 1..));
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&STANDARD, config).decode(digits).ok().filter(|_| enough)
}

/// The PEM blocks of a file, each with its label.
fn blocks(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut current: Option<(String, String)> = None;
    for line in bytes.split(|byte| *byte == b'\n') {
        if line.starts_with(BEGIN) {
            let label = String::from_utf8_lossy(&line[BEGIN.len()..]).trim().trim_end_matches('-').trim().to_owned();
            current = Some((label, String::new()));
        } else if line.starts_with(END) {
            let block = current.take();
            let decoded = block.and_then(|(label, body)| Some((label, base64_bytes(&body)?)));
            // A broken block keeps its place, since "the first block" must not silently become the
            // second.
            found.push(decoded.unwrap_or_default());
        } else if let Some((_, body)) = &mut current {
            body.push_str(&String::from_utf8_lossy(line));
        }
    }
    found
}

/// A certificate and what was beside it.
#[derive(Debug)]
pub struct Bundle {
    /// The certificate.
    pub cert: Cert,
    /// The encoding it was found in.
    pub encoding: &'static str,
    /// The certificates behind it.
    pub chain: Vec<Cert>,
    /// The name it has in a PKCS#12 container.
    pub friendly_name: Option<Vec<u8>>,
}

fn unreadable<T>(text: &str) -> Loaded<T> {
    Err(Unloaded::Unreadable(text.to_owned()))
}

/// Loads a certificate: PEM, DER, PKCS#7 as either of them, or PKCS#12.
pub fn cert(value: &Value, passphrase: Option<&str>) -> Loaded<Bundle> {
    let bytes = bytes(value).map_err(Unloaded::Source)?;
    let bundle = |mut certs: Vec<Cert>, encoding| {
        let cert = if certs.is_empty() { None } else { Some(certs.remove(0)) };
        cert.map(|cert| Bundle { cert, encoding, chain: certs, friendly_name: None })
    };
    if is_pem(&bytes) {
        let blocks = blocks(&bytes);
        if let Some((label, content)) = blocks.first().filter(|(label, _)| label.starts_with("PKCS7")) {
            let _ = label;
            let found = pkcs7_certs(content).and_then(|certs| bundle(certs, "pkcs7_pem"));
            return found.map_or_else(|| unreadable("Could not load PEM-encoded PKCS#7 blob"), Ok);
        }
        let is_cert = |label: &str| matches!(label, "CERTIFICATE" | "X509 CERTIFICATE");
        // The first block is the certificate, the others are its chain.
        let first = blocks.first().filter(|(label, _)| is_cert(label)).and_then(|(_, content)| Cert::read(content));
        let Some(first) = first else { return unreadable("Could not load PEM-encoded certificate.") };
        let others =
            blocks[1..].iter().filter(|(label, _)| is_cert(label)).filter_map(|(_, content)| Cert::read(content));
        let chain = others.collect();
        return Ok(Bundle { cert: first, encoding: "pem", chain, friendly_name: None });
    }
    // DER first, then PKCS #12 and PKCS #7, as in Salt.
    if let Some(cert) = Cert::read(&bytes) {
        return Ok(Bundle { cert, encoding: "der", chain: Vec::new(), friendly_name: None });
    }
    if let Some(container) = container(&bytes, passphrase)? {
        let read = |cert: &openssl::x509::X509Ref| cert.to_der().ok().and_then(|der| Cert::read(&der));
        if let Some(cert) = container.cert.as_deref().and_then(read) {
            let chain = container.ca.iter().flatten().filter_map(read).collect();
            let friendly_name = container.cert.as_deref().and_then(|cert| cert.alias()).map(<[u8]>::to_vec);
            return Ok(Bundle { cert, encoding: "pkcs12", chain, friendly_name });
        }
    }
    let found = pkcs7_certs(&bytes).and_then(|certs| bundle(certs, "pkcs7_der"));
    found.map_or_else(|| unreadable("Could not deserialize binary data, neither as DER nor PKCS#7, PKCS#12."), Ok)
}

/// Opens a PKCS#12 container. Returns None if it is none.
pub fn container(bytes: &[u8], passphrase: Option<&str>) -> Loaded<Option<openssl::pkcs12::ParsedPkcs12_2>> {
    let Ok(container) = Pkcs12::from_der(bytes) else { return Ok(None) };
    let passphrase = passphrase.unwrap_or_default();
    // No container can have such a passphrase, see `keys::pkcs12`.
    if passphrase.contains('\0') {
        return Err(Unloaded::InvalidPassword);
    }
    container.parse2(passphrase).map(Some).map_err(|stack| {
        let reasons: Vec<&str> = stack.errors().iter().filter_map(openssl::error::Error::reason).collect();
        // RC2 is in the legacy provider of OpenSSL 3, which is not loaded here.
        if reasons.contains(&"unsupported") || reasons.contains(&"unknown digest algorithm") {
            return Unloaded::Source(Error::execution("not supported: a PKCS#12 container encrypted with RC2"));
        }
        Unloaded::InvalidPassword
    })
}

/// The certificates of a PKCS#7 message (RFC 2315, section 9.1).
fn pkcs7_certs(bytes: &[u8]) -> Option<Vec<Cert>> {
    let mut message = Reader::new(bytes).inside(tag::SEQUENCE)?;
    if message.expect(tag::OID)?.oid()? != super::encode::SIGNED_DATA {
        return None;
    }
    let mut signed = message.inside(fields(0))?.inside(tag::SEQUENCE)?;
    signed.expect(tag::INTEGER)?;
    signed.expect(tag::SET)?;
    signed.expect(tag::SEQUENCE)?;
    signed.inside(fields(0))?.all()?.into_iter().map(|item| Cert::read(item.whole)).collect()
}

/// Loads a list of revoked certificates and returns its encoding.
pub fn crl(value: &Value) -> Loaded<(Crl, &'static str)> {
    let bytes = bytes(value).map_err(Unloaded::Source)?;
    if is_pem(&bytes) {
        let found = first_block(&bytes, &["X509 CRL"]).and_then(|content| Crl::read(&content));
        let wrong = "Could not load PEM-encoded certificate revocation list.";
        return found.map_or_else(|| unreadable(wrong), |crl| Ok((crl, "pem")));
    }
    let wrong = "Could not load DER-encoded certificate revocation list.";
    Crl::read(&bytes).map_or_else(|| unreadable(wrong), |crl| Ok((crl, "der")))
}

/// Loads a request and returns its encoding.
pub fn csr(value: &Value) -> Loaded<(Csr, &'static str)> {
    let bytes = bytes(value).map_err(Unloaded::Source)?;
    if is_pem(&bytes) {
        let labels = ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"];
        let found = first_block(&bytes, &labels).and_then(|content| Csr::read(&content));
        let wrong = "Could not load PEM-encoded certificate signing request.";
        return found.map_or_else(|| unreadable(wrong), |csr| Ok((csr, "pem")));
    }
    let wrong = "Could not load DER-encoded certificate signing request.";
    Csr::read(&bytes).map_or_else(|| unreadable(wrong), |csr| Ok((csr, "der")))
}

fn first_block(bytes: &[u8], labels: &[&str]) -> Option<Vec<u8>> {
    blocks(bytes).into_iter().find(|(label, _)| labels.contains(&label.as_str())).map(|(_, content)| content)
}
