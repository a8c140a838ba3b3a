//! Extensions of certificates, requests and lists of revoked certificates.

use value::Value;

use super::cert::Cert;
use super::der::{self, Item, Reader, tag};
use super::oids;

/// An extension: what it holds is DER.
#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    /// The identifier.
    pub oid: String,
    /// True if a reader that does not know it must refuse the certificate.
    pub critical: bool,
    /// The content, as DER.
    pub value: Vec<u8>,
}

/// The keys and certificates that extensions may be derived from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around<'a> {
    /// The public key the certificate is for, as DER.
    pub subject_key: Option<&'a [u8]>,
    /// The certificate of the issuer.
    pub issuer: Option<&'a Cert>,
    /// The public key of the issuer, where it has no certificate yet.
    pub issuer_key: Option<&'a [u8]>,
}

impl Extension {
    /// An extension of this kind.
    pub fn new(oid: &str, critical: bool, value: Vec<u8>) -> Self {
        Extension { oid: oid.to_owned(), critical, value }
    }

    /// The extension as DER.
    pub fn to_der(&self) -> Vec<u8> {
        let oid = der::oid(&self.oid).expect("extensions have identifiers that were read");
        let critical = if self.critical { der::tlv(tag::BOOLEAN, &[0xff]) } else { Vec::new() };
        der::sequence(&[oid, critical, der::tlv(tag::OCTET_STRING, &self.value)])
    }

    fn read(item: Item) -> Option<Self> {
        let mut inside = item.inside();
        let oid = inside.expect(tag::OID)?.oid()?;
        let critical = inside.optional(tag::BOOLEAN).is_some_and(|item| item.truth());
        Some(Extension { oid, critical, value: inside.expect(tag::OCTET_STRING)?.body.to_vec() })
    }

    /// Reads a sequence of extensions.
    pub fn read_all(items: Reader) -> Option<Vec<Self>> {
        items.all()?.into_iter().map(Extension::read).collect()
    }

    /// Several extensions as DER.
    pub fn all_to_der(extensions: &[Extension]) -> Vec<u8> {
        der::sequence(&extensions.iter().map(Extension::to_der).collect::<Vec<_>>())
    }

    /// Returns the name that reports of changes use.
    pub fn display_name(&self) -> String {
        oids::display_name(&self.oid).unwrap_or("Unknown OID").to_owned()
    }
}

/// Finds an extension.
pub fn find<'a>(extensions: &'a [Extension], oid: &str) -> Option<&'a Extension> {
    extensions.iter().find(|extension| extension.oid == oid)
}

/// Returns whether a word is in an argument, by Python's rules: a part of a text, an item of a list, a key of a map.
pub fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::Str(text) => text.contains(word),
        Value::List(items) => items.iter().any(|item| item.as_str() == Some(word)),
        Value::Map(map) => map.contains_key(word),
        _ => false,
    }
}

/// Stands for the value of a word that has none.
pub const PRESENT: &str = "__present__";

/// Reads a value as OpenSSL's configuration writes it: words, with values behind colons, and whether `critical` stands first.
pub fn words(text: &str) -> (Vec<(String, String)>, bool) {
    // OpenSSL wants `critical` to be the first word. Salt relies on that for texts.
    let critical = text.starts_with("critical");
    let text = if critical { text["critical".len()..].trim_matches(',').trim() } else { text };
    let word = |word: &str| match word.trim().split_once(':') {
        Some((name, value)) => (name.trim().to_owned(), value.trim().to_owned()),
        // Salt's parser puts this marker where a word has no value.
        None => (word.trim().to_owned(), PRESENT.to_owned()),
    };
    (text.split(',').map(word).collect(), critical)
}
