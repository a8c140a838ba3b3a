//! The differences between an existing object and the wanted one.

use exec::{Error, Result};
use jiff::civil::DateTime;
use value::{Map, Value, map};

use super::cert::{Cert, Crl, Csr, NewCrl, NewCsr};
use super::extension::{Extension, find};
use super::issue::{self, CertificateToSign};
use super::load::Bundle;
use super::sign::{self, Algorithm, Digest};
use super::{decimal_to_hex, keys, load, times};

/// The wishes about a certificate that are not part of its content.
#[derive(Clone, Debug)]
pub struct OutputOptions<'a> {
    /// The encoding of the file.
    pub encoding: &'a super::encode::Encoding,
    /// For how many days it must still be good.
    pub days_remaining: f64,
    /// The requested digest, before a policy was applied.
    pub digest: Value,
    /// True if another minion signs it.
    pub remote: bool,
}

/// The differences between a certificate and the arguments, with the policy merged over them.
///
/// # Errors
/// The arguments are wrong.
pub fn of_certificate(current: &Bundle, wanted: &OutputOptions<'_>, args: &Map) -> Result<(Map, CertificateToSign)> {
    // The keys are those of Salt's `x509.certificate_managed`, whose reports users read and match.
    let mut changes = Map::new();
    let friendly_name = wanted.encoding.friendly_name.clone().filter(|name| !name.is_empty());
    if wanted.encoding.name != current.encoding {
        changes.insert("encoding", wanted.encoding.name.as_str());
    } else if current.encoding == "pkcs12"
        && current.friendly_name.as_deref() != friendly_name.as_deref().map(str::as_bytes)
    {
        changes.insert("pkcs12_friendlyname", wanted.encoding.friendly_name.clone());
    }
    let cert = &current.cert;
    if cert.not_after < times::in_days(wanted.days_remaining)? {
        changes.insert("expiration", true);
    }
    // The order of the chain counts: clients check it from the first to the last.
    let chain = wanted.encoding.append.iter().map(|cert| Ok(load::cert(cert, None)?.cert.der));
    let chain: Vec<Vec<u8>> = chain.collect::<Result<_>>()?;
    if !chain.iter().eq(current.chain.iter().map(|cert| &cert.der)) {
        changes.insert("additional_certs", true);
    }
    // Everything the new certificate would have is made, only the signature is not, since that
    // costs most.
    let order = issue::certificate(args, wanted.remote)?;
    if differs(&cert.algorithm, &issue::digest(args))? {
        changes.insert("digest", wanted.digest.clone());
    }
    changes.update(of_contents(cert, &order, args)?);
    Ok((changes, order))
}

fn of_contents(cert: &Cert, order: &CertificateToSign, args: &Map) -> Result<Map> {
    let mut changes = Map::new();
    let new = &order.cert;
    let number = |bytes: &[u8]| super::der::unsigned(bytes);
    // Without a fixed number every certificate gets a random one, which is not a change.
    if let Some(serial) = args.get("serial_number").filter(|serial| !serial.is_null())
        && number(&new.serial) != number(&cert.serial)
    {
        changes.insert("serial_number", serial.clone());
    }
    if !keys::same(&new.key, &cert.key)? {
        changes.insert("private_key", true);
    }
    if let Some(signing_cert) = &order.signing_cert
        // The name of an issuer may stay the same when its key is replaced.
        && !keys::from_der(&signing_cert.key).is_some_and(|key| cert.is_signed_by(&key))
    {
        changes.insert("signing_private_key", true);
    }
    if new.subject != cert.subject {
        changes.insert("subject_name", new.subject.text());
    }
    if new.issuer != cert.issuer {
        changes.insert("issuer_name", new.issuer.text());
    }
    changes.update(of_extensions(&cert.extensions, &new.extensions));
    Ok(changes)
}

/// Returns whether a signature was made with another digest. Algorithms with a built-in digest never differ.
///
/// # Errors
/// There is no such digest.
pub fn differs(algorithm: &Algorithm, digest: &str) -> Result<bool> {
    match algorithm.digest() {
        // Ed25519 and Ed448 bring their own digest, whichever was requested.
        Digest::Own => Ok(false),
        _ if !sign::NAMES.contains(&digest.to_lowercase().as_str()) => {
            Err(Error::execution("The selected hashing algorithm does not exist in the cryptography python library"))
        }
        Digest::Named(name) => Ok(name != digest.to_lowercase()),
        Digest::Unknown => {
            tracing::warn!("Could not determine the digest of a signature. Continuing anyways");
            Ok(false)
        }
    }
}

/// The differences of extensions, under one key; none when they are the same.
fn of_extensions(current: &[Extension], new: &[Extension]) -> Map {
    let (mut added, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for extension in new {
        match find(current, &extension.oid) {
            None => added.push(extension.display_name()),
            Some(before) if before != extension => changed.push(extension.display_name()),
            Some(_) => {}
        }
    }
    // The order of extensions makes no difference, so they are matched by identifier.
    removed.extend(current.iter().filter(|before| find(new, &before.oid).is_none()).map(Extension::display_name));
    if added.is_empty() && changed.is_empty() && removed.is_empty() {
        return Map::new();
    }
    map! { "extensions" => map! { "added" => added, "changed" => changed, "removed" => removed } }
}

/// The differences of a request.
///
/// # Errors
/// The keys are of a kind we do not know.
pub fn of_request(current: &Csr, new: &NewCsr) -> Result<Map> {
    let mut changes = Map::new();
    if !keys::same(&current.key, &new.key)? {
        changes.insert("private_key", true);
    }
    if current.subject != new.subject {
        changes.insert("subject_name", new.subject.text());
    }
    changes.update(of_extensions(&current.extensions, &new.extensions));
    Ok(changes)
}

/// The differences of a list of revoked certificates. `key` is the public key that signs it, as DER.
#[must_use]
pub fn of_revocations(current: &Crl, new: &NewCrl, key: &[u8]) -> Map {
    let mut changes = Map::new();
    if let Some(issuer) = new.issuer.as_ref().filter(|issuer| **issuer != current.issuer) {
        changes.insert("issuer_name", issuer.text());
    }
    if !keys::from_der(key).is_some_and(|key| current.is_signed_by(&key)) {
        changes.insert("public_key", true);
    }
    // Leading zero bytes make no difference between serial numbers.
    let number = |bytes: &[u8]| super::der::unsigned(bytes);
    let (mut added, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for entry in &new.revoked {
        let shown = decimal_to_hex(&entry.serial);
        match current.revoked.iter().find(|known| number(&known.serial) == number(&entry.serial)) {
            None => added.push(shown),
            Some(known) => {
                let other = |of: &Extension, among: &[Extension]| find(among, &of.oid) != Some(of);
                let lost = |of: &&Extension| find(&entry.extensions, &of.oid).is_none();
                // Salt names the serial number once per extension that differs.
                let count = entry.extensions.iter().filter(|of| other(of, &known.extensions)).count()
                    + known.extensions.iter().filter(lost).count();
                changed.extend(std::iter::repeat_n(shown, count));
            }
        }
    }
    for known in &current.revoked {
        if !new.revoked.iter().any(|entry| number(&known.serial) == number(&entry.serial)) {
            removed.push(decimal_to_hex(&known.serial));
        }
    }
    if !(added.is_empty() && changed.is_empty() && removed.is_empty()) {
        changes.insert("revocations", map! { "added" => added, "changed" => changed, "removed" => removed });
    }
    changes.update(of_extensions(&current.extensions, &new.extensions));
    changes
}

/// Returns whether a time is within this number of days.
///
/// # Errors
/// The time is out of range.
pub fn is_near(time: DateTime, days: f64) -> Result<bool> {
    Ok(time < times::in_days(days)?)
}
