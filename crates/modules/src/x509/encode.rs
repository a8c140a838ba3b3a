//! Encodes certificates, requests and lists.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use exec::{Error, Result, function};
use value::Value;

use super::cert::Cert;
use super::der::{self, fields, tag};
use super::keys::{self, Contents};
use super::load;

/// A message that is signed, or only carries certificates (RFC 2315).
pub const SIGNED_DATA: &str = "1.2.840.113549.1.7.2";
const DATA: &str = "1.2.840.113549.1.7.1";

/// The encodings of certificates.
pub const OF_CERTIFICATES: &[&str] = &["der", "pem", "pkcs7_der", "pkcs7_pem", "pkcs12"];
/// The encodings of requests and lists.
pub const OF_OTHERS: &[&str] = &["der", "pem"];
/// The encodings of private keys.
pub const OF_KEYS: &[&str] = &["der", "pem", "pkcs12"];

/// Refuses an encoding there is not.
///
/// # Errors
/// The encoding is not among them.
pub fn check(encoding: &str, known: &[&str]) -> Result<()> {
    if known.contains(&encoding) {
        return Ok(());
    }
    Err(Error::execution(format!("Invalid value '{encoding}' for encoding. Valid: {}", known.join(", "))))
}

/// Returns whether an encoding is text.
pub fn is_text(encoding: &str) -> bool {
    matches!(encoding, "pem" | "pkcs7_pem")
}

/// DER as PEM.
pub fn pem(label: &str, der: &[u8]) -> String {
    let body = BASE64_STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// Converts bytes to a result of functions: text, or base64; raw on demand.
pub fn returned(bytes: Vec<u8>, is_text: bool, raw: bool) -> Value {
    if raw {
        // Raw bytes cannot be shown by every outputter, so they are only returned on demand.
        return Value::bytes(bytes);
    }
    let text = if is_text { String::from_utf8_lossy(&bytes).into_owned() } else { BASE64_STANDARD.encode(&bytes) };
    text.into()
}

/// The encoding of a certificate, with all that goes into the file.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// The name, one of [`OF_CERTIFICATES`].
    pub name: String,
    /// References to the certificates behind it.
    pub append: Vec<Value>,
    /// The password of a PKCS#12 container.
    pub passphrase: Option<String>,
    /// True if that container is encrypted in the old way.
    pub old: bool,
    /// The name of the certificate in there.
    pub friendly_name: Option<String>,
}

impl Encoding {
    /// Refuses impossible combinations.
    ///
    /// # Errors
    /// There is no such encoding, or it holds one certificate only.
    pub fn check(&self) -> Result<()> {
        check(&self.name, OF_CERTIFICATES)?;
        if self.name == "der" && !self.append.is_empty() {
            // A DER file holds exactly one value.
            return Err(Error::invocation("Cannot encode a certificate chain in DER"));
        }
        Ok(())
    }

    /// Writes a certificate.
    ///
    /// # Errors
    /// A certificate behind it cannot be loaded, or the private key is missing.
    pub fn write(&self, cert: &Cert, key: Option<&openssl::pkey::PKey<openssl::pkey::Private>>) -> Result<Vec<u8>> {
        let append = self.append.iter().map(|cert| Ok(load::cert(cert, None)?.cert)).collect::<Result<Vec<_>>>()?;
        let all: Vec<&[u8]> = std::iter::once(cert).chain(&append).map(|cert| cert.der.as_slice()).collect();
        match self.name.as_str() {
            "der" => Ok(cert.der.clone()),
            "pem" => {
                let blocks: Vec<String> = all.iter().map(|cert| pem("CERTIFICATE", cert)).collect();
                Ok(blocks.join("\n").into_bytes())
            }
            "pkcs12" => {
                let key = key.ok_or_else(no_key)?;
                let contents = Contents { certs: &all, name: self.friendly_name.as_deref() };
                keys::pkcs12(key, contents, self.passphrase.as_deref(), self.old)
            }
            "pkcs7_pem" => Ok(pem("PKCS7", &pkcs7(&all)).into_bytes()),
            _ => Ok(pkcs7(&all)),
        }
    }
}

/// A PKCS#12 container without a key would not have the certificate at its place.
pub fn no_key() -> Error {
    Error::invocation("Creating a PKCS12-encoded certificate without embedded private key is unsupported")
}

/// A message that carries nothing but certificates.
fn pkcs7(certs: &[&[u8]]) -> Vec<u8> {
    let oid = |text: &str| der::oid(text).expect("it is one");
    // Certificates of PKCS #7 are a SET, too, and so have no order.
    let mut certs: Vec<Vec<u8>> = certs.iter().map(|cert| cert.to_vec()).collect();
    certs.sort();
    let signed = der::sequence(&[
        der::integer(1),
        // A message without content and signatures that only carries certificates ("certs-only").
        der::tlv(tag::SET, &[]),
        der::sequence(&[oid(DATA)]),
        der::constructed(fields(0), &certs),
        der::tlv(tag::SET, &[]),
    ]);
    der::sequence(&[oid(SIGNED_DATA), der::tlv(fields(0), &signed)])
}

/// Returns a certificate in another encoding, followed by others and, for ``pkcs12``, with its private key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.encode_certificate /etc/pki/my.crt pem /etc/pki/ca.crt
#[function]
fn encode_certificate(
    certificate: Value,
    #[default("pem")] encoding: String,
    #[default(Value::Null)] append_certs: Value,
    #[default(Value::Null)] private_key: Value,
    private_key_passphrase: Option<String>,
    pkcs12_passphrase: Option<String>,
    #[default(false)] pkcs12_encryption_compat: bool,
    pkcs12_friendlyname: Option<String>,
    #[default(false)] raw: bool,
) -> Result<Value> {
    let encoding = Encoding {
        name: encoding,
        append: super::listed(&append_certs),
        passphrase: pkcs12_passphrase,
        old: pkcs12_encryption_compat,
        friendly_name: pkcs12_friendlyname,
    };
    encoding.check()?;
    match (encoding.name == "pkcs12", private_key.truthy()) {
        (false, true) => {
            return Err(Error::invocation("Embedding private keys is only supported for pkcs12 encoding"));
        }
        (true, false) => return Err(no_key()),
        _ => {}
    }
    let cert = load::cert(&certificate, None)?.cert;
    let key =
        private_key.truthy().then(|| keys::private(&private_key, private_key_passphrase.as_deref())).transpose()?;
    let bytes = encoding.write(&cert, key.as_ref().map(|(key, _)| key))?;
    Ok(returned(bytes, is_text(&encoding.name), raw))
}

/// Returns a list of revoked certificates in another encoding.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.encode_crl /etc/pki/my.crl der
#[function]
fn encode_crl(crl: Value, #[default("pem")] encoding: String, #[default(false)] raw: bool) -> Result<Value> {
    check(&encoding, OF_OTHERS)?;
    let (crl, _) = load::crl(&crl)?;
    Ok(written("X509 CRL", crl.der, &encoding, raw))
}

/// Returns a request for a certificate in another encoding.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.encode_csr /etc/pki/my.csr der
#[function]
fn encode_csr(csr: Value, #[default("pem")] encoding: String, #[default(false)] raw: bool) -> Result<Value> {
    check(&encoding, OF_OTHERS)?;
    let (csr, _) = load::csr(&csr)?;
    Ok(written("CERTIFICATE REQUEST", csr.der, &encoding, raw))
}

/// Returns DER as PEM or unchanged.
pub fn written(label: &str, der: Vec<u8>, encoding: &str, raw: bool) -> Value {
    let bytes = if encoding == "pem" { pem(label, &der).into_bytes() } else { der };
    returned(bytes, encoding == "pem", raw)
}

/// Returns a private key in another encoding, with another password.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.encode_private_key /etc/pki/my.key der
#[function]
fn encode_private_key(
    private_key: Value,
    #[default("pem")] encoding: String,
    passphrase: Option<String>,
    private_key_passphrase: Option<String>,
    #[default(false)] pkcs12_encryption_compat: bool,
    #[default(false)] raw: bool,
) -> Result<Value> {
    check(&encoding, OF_KEYS)?;
    let (key, _) = keys::private(&private_key, private_key_passphrase.as_deref())?;
    let bytes = keys::encode(&key, &encoding, passphrase.as_deref(), pkcs12_encryption_compat)?;
    Ok(returned(bytes, encoding == "pem", raw))
}
