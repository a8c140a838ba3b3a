//! Certificates, requests and lists of revoked certificates: read, and made.

use exec::{Error, Result};
use jiff::civil::DateTime;
use openssl::pkey::{PKey, Private, Public};
use openssl::x509::{X509, X509Crl};

use super::der::{self, Item, Reader, field, fields, tag};
use super::extension::{Extension, find};
use super::names::Name;
use super::oids;
use super::sign::{self, Algorithm};
use super::times;

/// A certificate.
#[derive(Clone, Debug)]
pub struct Cert {
    /// All of it.
    pub der: Vec<u8>,
    /// 1 to 3.
    pub version: u64,
    /// The serial number's bytes, the highest first.
    pub serial: Vec<u8>,
    /// The algorithm of the signature.
    pub algorithm: Algorithm,
    /// The issuer.
    pub issuer: Name,
    /// Whom it is about.
    pub subject: Name,
    /// From when it is good.
    pub not_before: DateTime,
    /// Until when it is good.
    pub not_after: DateTime,
    /// The public key, as DER.
    pub key: Vec<u8>,
    /// The extensions.
    pub extensions: Vec<Extension>,
}

/// The three signed parts.
fn signed(bytes: &[u8]) -> Option<(Item<'_>, Algorithm)> {
    let mut all = Reader::new(bytes);
    let mut whole = all.inside(tag::SEQUENCE)?;
    let body = whole.expect(tag::SEQUENCE)?;
    let algorithm = Algorithm::read(whole.expect(tag::SEQUENCE)?)?;
    whole.expect(tag::BIT_STRING)?;
    (all.is_empty() && whole.is_empty()).then_some((body, algorithm))
}

impl Cert {
    /// Reads a certificate. Returns None if it is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (body, algorithm) = signed(bytes)?;
        let mut body = body.inside();
        let version = body.optional(fields(0));
        let version = version.map_or(Some(0), |version| version.inside().expect(tag::INTEGER)?.small())? + 1;
        let serial = body.expect(tag::INTEGER)?.body.to_vec();
        body.expect(tag::SEQUENCE)?;
        let issuer = Name::read(body.inside(tag::SEQUENCE)?)?;
        let mut validity = body.inside(tag::SEQUENCE)?;
        let (not_before, not_after) = (times::read(validity.next()?)?, times::read(validity.next()?)?);
        let subject = Name::read(body.inside(tag::SEQUENCE)?)?;
        let key = body.expect(tag::SEQUENCE)?.whole.to_vec();
        // The unique identifiers of version 2. They are not used in practice, but they may stand here.
        body.optional(field(1));
        body.optional(field(2));
        let extensions = body.optional(fields(3));
        let extensions = extensions.map(|found| Extension::read_all(found.inside().inside(tag::SEQUENCE)?));
        let extensions = extensions.map_or(Some(Vec::new()), |read| read)?;
        let der = bytes.to_vec();
        Some(Cert { der, version, serial, algorithm, issuer, subject, not_before, not_after, key, extensions })
    }

    /// Returns whether a key has signed this certificate.
    pub fn is_signed_by(&self, key: &PKey<Public>) -> bool {
        // Only the cryptography itself is OpenSSL's. The fields are read by our own reader, which
        // keeps them byte for byte.
        X509::from_der(&self.der).and_then(|cert| cert.verify(key)).unwrap_or(false)
    }
}

/// A request for a certificate.
#[derive(Clone, Debug)]
pub struct Csr {
    /// All of it.
    pub der: Vec<u8>,
    /// 0 in all that follow the standard.
    pub version: u64,
    /// The algorithm of the signature.
    pub algorithm: Algorithm,
    /// Whom it is about.
    pub subject: Name,
    /// The public key, as DER.
    pub key: Vec<u8>,
    /// The requested extensions.
    pub extensions: Vec<Extension>,
}

impl Csr {
    /// Reads a request. Returns None if it is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (body, algorithm) = signed(bytes)?;
        let mut body = body.inside();
        let version = body.expect(tag::INTEGER)?.small()?;
        let subject = Name::read(body.inside(tag::SEQUENCE)?)?;
        let key = body.expect(tag::SEQUENCE)?.whole.to_vec();
        let mut extensions = Vec::new();
        if let Some(attributes) = body.optional(fields(0)) {
            for attribute in attributes.inside().all()? {
                let mut attribute = attribute.inside();
                // Other attributes, such as a challenge password, are of no interest here.
                if attribute.expect(tag::OID)?.oid()? == oids::EXTENSION_REQUEST {
                    extensions = Extension::read_all(attribute.inside(tag::SET)?.inside(tag::SEQUENCE)?)?;
                }
            }
        }
        Some(Csr { der: bytes.to_vec(), version, algorithm, subject, key, extensions })
    }
}

/// A revoked certificate in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Revoked {
    /// The serial number's bytes, the highest first.
    pub serial: Vec<u8>,
    /// When it was revoked.
    pub date: DateTime,
    /// The extensions of the entry.
    pub extensions: Vec<Extension>,
}

/// A list of revoked certificates.
#[derive(Clone, Debug)]
pub struct Crl {
    /// All of it.
    pub der: Vec<u8>,
    /// The algorithm of the signature.
    pub algorithm: Algorithm,
    /// The issuer.
    pub issuer: Name,
    /// When the list was made.
    pub last_update: DateTime,
    /// When the next one will be made.
    pub next_update: Option<DateTime>,
    /// The revoked certificates.
    pub revoked: Vec<Revoked>,
    /// The extensions.
    pub extensions: Vec<Extension>,
}

impl Crl {
    /// Reads a list. Returns None if it is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (body, algorithm) = signed(bytes)?;
        let mut body = body.inside();
        // The version is missing in CRLs of version 1.
        body.optional(tag::INTEGER);
        body.expect(tag::SEQUENCE)?;
        let issuer = Name::read(body.inside(tag::SEQUENCE)?)?;
        let last_update = times::read(body.next()?)?;
        // `nextUpdate` is optional, and only its tag distinguishes it from what follows.
        let next_update = body.optional(tag::UTC_TIME).or_else(|| body.optional(tag::GENERALIZED_TIME));
        let next_update = next_update.map_or(Some(None), |item| times::read(item).map(Some))?;
        let mut revoked = Vec::new();
        if let Some(entries) = body.optional(tag::SEQUENCE) {
            revoked = entries.inside().all()?.into_iter().map(read_revoked).collect::<Option<_>>()?;
        }
        let extensions = body.optional(fields(0));
        let extensions = extensions.map(|found| Extension::read_all(found.inside().inside(tag::SEQUENCE)?));
        let extensions = extensions.map_or(Some(Vec::new()), |read| read)?;
        Some(Crl { der: bytes.to_vec(), algorithm, issuer, last_update, next_update, revoked, extensions })
    }

    /// The extension that holds the number of this list.
    pub fn number_extension(&self) -> Option<&Extension> {
        find(&self.extensions, oids::CRL_NUMBER)
    }

    /// The number of this list.
    pub fn number(&self) -> Option<i64> {
        // A number of up to 20 bytes is allowed. One that does not fit counts as none.
        let number = Reader::new(&self.number_extension()?.value).expect(tag::INTEGER)?.small()?;
        i64::try_from(number).ok()
    }

    /// Returns whether a key has signed this list.
    pub fn is_signed_by(&self, key: &PKey<Public>) -> bool {
        X509Crl::from_der(&self.der).and_then(|crl| crl.verify(key)).unwrap_or(false)
    }
}

fn read_revoked(item: Item) -> Option<Revoked> {
    let mut inside = item.inside();
    let serial = inside.expect(tag::INTEGER)?.body.to_vec();
    let date = times::read(inside.next()?)?;
    let extensions = match inside.optional(tag::SEQUENCE) {
        Some(extensions) => Extension::read_all(extensions.inside())?,
        None => Vec::new(),
    };
    Some(Revoked { serial, date, extensions })
}

// === making ===

/// A certificate that is not signed yet.
#[derive(Clone, Debug)]
pub struct NewCert {
    /// The serial number's bytes, the highest first.
    pub serial: Vec<u8>,
    /// The issuer.
    pub issuer: Name,
    /// Whom it is about.
    pub subject: Name,
    /// From when it is good.
    pub not_before: DateTime,
    /// Until when it is good.
    pub not_after: DateTime,
    /// The public key, as DER.
    pub key: Vec<u8>,
    /// The extensions.
    pub extensions: Vec<Extension>,
}

/// A request that is not signed yet.
#[derive(Clone, Debug)]
pub struct NewCsr {
    /// Whom it is about.
    pub subject: Name,
    /// The public key, as DER.
    pub key: Vec<u8>,
    /// The extensions to request.
    pub extensions: Vec<Extension>,
}

/// A list that is not signed yet.
#[derive(Clone, Debug)]
pub struct NewCrl {
    /// The issuer.
    pub issuer: Option<Name>,
    /// When the list was made.
    pub last_update: DateTime,
    /// When the next one will be made.
    pub next_update: DateTime,
    /// The revoked certificates.
    pub revoked: Vec<Revoked>,
    /// The extensions.
    pub extensions: Vec<Extension>,
}

fn finished(body: Vec<u8>, key: &PKey<Private>, algorithm: &Algorithm) -> Result<Vec<u8>> {
    let signature = sign::signature(&body, key, algorithm)?;
    Ok(der::sequence(&[body, algorithm.to_der(), der::bit_string(&signature)]))
}

impl NewCert {
    /// Signs the certificate and returns it as DER.
    ///
    /// # Errors
    /// The digest cannot be used with this key.
    pub fn sign(&self, key: &PKey<Private>, digest: &str) -> Result<Vec<u8>> {
        let algorithm = Algorithm::of(key, digest)?;
        let mut parts = vec![
            // Version 3 is written as 2, since versions count from zero. Extensions need version 3.
            der::tlv(fields(0), &der::integer(2)),
            der::tlv(tag::INTEGER, &der::unsigned(&self.serial)),
            // The algorithm stands inside the signed part, too, so that it cannot be exchanged.
            algorithm.to_der(),
            self.issuer.to_der(),
            der::sequence(&[times::to_der(self.not_before), times::to_der(self.not_after)]),
            self.subject.to_der(),
            self.key.clone(),
        ];
        // An empty sequence of extensions is forbidden, so the whole field goes.
        if !self.extensions.is_empty() {
            parts.push(der::tlv(fields(3), &Extension::all_to_der(&self.extensions)));
        }
        finished(der::sequence(&parts), key, &algorithm)
    }
}

impl NewCsr {
    /// Signs the request and returns it as DER.
    ///
    /// # Errors
    /// The digest cannot be used with this key.
    pub fn sign(&self, key: &PKey<Private>, digest: &str) -> Result<Vec<u8>> {
        let algorithm = Algorithm::of(key, digest)?;
        let attributes = if self.extensions.is_empty() {
            Vec::new()
        } else {
            let oid = der::oid(oids::EXTENSION_REQUEST).expect("it is one");
            der::sequence(&[oid, der::set(vec![Extension::all_to_der(&self.extensions)])])
        };
        // The only version of requests there is. The field of attributes must stand even when it is
        // empty.
        let parts = [der::integer(0), self.subject.to_der(), self.key.clone(), der::tlv(fields(0), &attributes)];
        finished(der::sequence(&parts), key, &algorithm)
    }
}

impl NewCrl {
    /// Signs the list and returns it as DER.
    ///
    /// # Errors
    /// The digest cannot be used with this key, or there is no issuer.
    pub fn sign(&self, key: &PKey<Private>, digest: &str) -> Result<Vec<u8>> {
        let algorithm = Algorithm::of(key, digest)?;
        // `signing_cert` is optional for Salt's function, but nothing else names the issuer. The text is
        // `cryptography`'s.
        let issuer = self.issuer.as_ref().ok_or_else(|| Error::Other("A CRL must have an issuer name".into()))?;
        let mut parts = vec![
            // Version 2, the one with extensions.
            der::integer(1),
            algorithm.to_der(),
            issuer.to_der(),
            times::to_der(self.last_update),
            times::to_der(self.next_update),
        ];
        // Without revoked certificates the list must be absent (RFC 5280, 5.1.2.6).
        if !self.revoked.is_empty() {
            parts.push(der::sequence(&self.revoked.iter().map(entry).collect::<Vec<_>>()));
        }
        if !self.extensions.is_empty() {
            parts.push(der::tlv(fields(0), &Extension::all_to_der(&self.extensions)));
        }
        finished(der::sequence(&parts), key, &algorithm)
    }
}

fn entry(revoked: &Revoked) -> Vec<u8> {
    let serial = der::tlv(tag::INTEGER, &der::unsigned(&revoked.serial));
    let mut parts = vec![serial, times::to_der(revoked.date)];
    if !revoked.extensions.is_empty() {
        parts.push(Extension::all_to_der(&revoked.extensions));
    }
    der::sequence(&parts)
}
