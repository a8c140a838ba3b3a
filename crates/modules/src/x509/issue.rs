//! Builds certificates, requests and lists from the arguments of functions and states.

use exec::{Error, Result};
use openssl::pkey::{PKey, Private};
use value::{Map, Value};

use super::cert::{Cert, NewCert, NewCrl, NewCsr, Revoked};
use super::extension::{Around, Extension, find};
use super::names::Name;
use super::{build, keys, load, oids, serial, times};

/// A certificate to be signed, and everything that is needed for it.
pub struct CertificateToSign {
    /// The certificate.
    pub cert: NewCert,
    /// The key that signs it, unless another minion does.
    pub signing_key: Option<PKey<Private>>,
    /// The private key that belongs to it, if it was given.
    pub private_key: Option<PKey<Private>>,
    /// The certificate of the issuer, unless it is its own.
    pub signing_cert: Option<Cert>,
}

/// An argument that was given.
pub fn argument<'a>(args: &'a Map, name: &str) -> Option<&'a Value> {
    args.get(name).filter(|value| value.truthy())
}

/// An argument that is text.
pub fn text(args: &Map, name: &str) -> Option<String> {
    args.get(name).filter(|value| !value.is_null()).map(Value::to_string)
}

/// The digest to sign with.
pub fn digest(args: &Map) -> String {
    text(args, "digest").unwrap_or_else(|| "sha256".into())
}

/// Loads the private key an argument means.
fn private_key(args: &Map, name: &str) -> Result<PKey<Private>> {
    let reference = args.get(name).cloned().unwrap_or_default();
    let passphrase = text(args, &format!("{name}_passphrase"));
    Ok(keys::private(&reference, passphrase.as_deref())?.0)
}

/// Builds a certificate to be signed. `remote` is one that another minion signs.
///
/// # Errors
/// The arguments are wrong or incompatible.
pub fn certificate(args: &Map, remote: bool) -> Result<CertificateToSign> {
    // When another minion signs, its key never comes here, and so only the parts that do not need it are made.
    let signing_key = if remote { None } else { Some(private_key(args, "signing_private_key")?) };
    let serial = serial::from_value(args.get("serial_number"))?;
    let csr = argument(args, "csr").map(load::csr).transpose()?.map(|(csr, _)| csr);
    let signing_cert = argument(args, "signing_cert").map(|cert| load::cert(cert, None)).transpose()?;
    let signing_cert = signing_cert.map(|bundle| bundle.cert);
    let mut own_key = None;
    let key = match (&signing_cert, &signing_key) {
        // Without a certificate of the issuer the certificate is self-signed.
        (None, Some(signing_key)) => {
            own_key = Some(signing_key.clone());
            keys::public_der(signing_key)?
        }
        // Nothing is left to derive a key from.
        (None, None) => return Err(Error::execution("The signing policy has no signing_cert")),
        _ if argument(args, "private_key").is_some() => {
            let key = private_key(args, "private_key")?;
            let public = keys::public_der(&key)?;
            own_key = Some(key);
            public
        }
        // Salt checks a private key first, then a public one, and the request last.
        _ => match (argument(args, "public_key"), &csr) {
            (Some(key), _) => {
                let key = keys::public(key)?;
                key.public_key_to_der().map_err(|error| Error::execution(error.to_string()))?
            }
            (None, Some(csr)) => csr.key.clone(),
            (None, None) => return Err(no_key()),
        },
    };
    if let (Some(cert), Some(signing_key)) = (&signing_cert, &signing_key)
        // Such a certificate would look right and fail at every client.
        && !keys::same(&cert.key, &keys::public_der(signing_key)?)?
    {
        return Err(mismatch());
    }
    let subject = subject(args)?;
    let issuer = signing_cert.as_ref().map_or_else(|| subject.clone(), |cert| cert.subject.clone());
    let not_before =
        argument(args, "not_before").map_or_else(|| Ok(times::now()), |time| times::parse(&time.to_string()))?;
    let not_after = match argument(args, "not_after") {
        Some(time) => times::parse(&time.to_string())?,
        None => times::in_days(args.get("days_valid").map_or(Some(30.0), number).unwrap_or(30.0))?,
    };
    if not_after < not_before {
        let text = "The not valid after date must be after the not valid before date.";
        return Err(Error::Other(text.into()));
    }
    // In a self-signed certificate the identifiers of subject and authority are the same.
    let own = if signing_cert.is_none() { Some(key.as_slice()) } else { None };
    let around = Around { subject_key: Some(&key), issuer: signing_cert.as_ref(), issuer_key: own };
    let mut extensions = requested_extensions(args, around, oids::in_certificate)?;
    // A policy or an argument takes precedence over the request.
    if let Some(csr) = &csr {
        add_requested(&mut extensions, &csr.extensions);
    }
    let cert = NewCert { serial, issuer, subject, not_before, not_after, key, extensions };
    Ok(CertificateToSign { cert, signing_key, private_key: own_key, signing_cert })
}

fn no_key() -> Error {
    Error::invocation(
        "This certificate is not self-signed (signing_cert is set) and thus needs public_key, private_key or csr to \
         derive public key to sign",
    )
}

fn mismatch() -> Error {
    Error::invocation("Signing private key does not match the certificate's public key")
}

/// A number of days, which need not be whole.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => text.trim().parse().ok(),
        other => other.as_f64().or_else(|| other.as_i64().map(|number| number as f64)),
    }
}

fn subject(args: &Map) -> Result<Name> {
    argument(args, "subject").map_or_else(|| Name::from_map(args), Name::from_value)
}

/// The extensions that arguments request; an empty one is left out.
fn requested_extensions(args: &Map, around: Around<'_>, allowed: fn(&str) -> bool) -> Result<Vec<Extension>> {
    let names = oids::EXTENSIONS.iter().map(|(name, _)| *name).filter(|name| allowed(name));
    // The order is the fixed one of Salt's table, so that a certificate does not depend on the
    // order of arguments.
    let asked = names.filter_map(|name| Some((name, args.get(name).filter(|value| !value.is_null())?)));
    asked.map(|(name, value)| build::build(name, value, around)).collect()
}

/// Adds the extensions of a request that nothing else has set.
fn add_requested(extensions: &mut Vec<Extension>, requested: &[Extension]) {
    for (name, oid) in oids::EXTENSIONS.iter().filter(|(name, oid)| oids::in_request(name) && !oid.is_empty()) {
        let _ = name;
        if find(extensions, oid).is_none()
            && let Some(extension) = find(requested, oid)
        {
            extensions.push(extension.clone());
        }
    }
}

/// Puts together what a request is to be, with the key that signs it.
///
/// # Errors
/// The arguments are wrong.
pub fn request(args: &Map) -> Result<(NewCsr, PKey<Private>)> {
    let private = private_key(args, "private_key")?;
    let key = keys::public_der(&private)?;
    let subject = subject(args)?;
    let around = Around { subject_key: Some(&key), ..Around::default() };
    let extensions = requested_extensions(args, around, oids::in_request)?;
    Ok((NewCsr { subject, key, extensions }, private))
}

/// Puts together what a list of revoked certificates is to be, with the key that signs it.
///
/// # Errors
/// The arguments are wrong.
pub fn revocations(args: &Map) -> Result<(NewCrl, PKey<Private>)> {
    let signing_cert = argument(args, "signing_cert").map(|cert| load::cert(cert, None)).transpose()?;
    let signing_cert = signing_cert.map(|bundle| bundle.cert);
    let private = private_key(args, "signing_private_key")?;
    if let Some(cert) = &signing_cert
        && !keys::same(&cert.key, &keys::public_der(&private)?)?
    {
        return Err(mismatch());
    }
    // Expired certificates are refused anyway, so that they need not be in the list.
    let include_expired = argument(args, "include_expired").is_some();
    let mut revoked = Vec::new();
    for entry in args.get("revoked").and_then(Value::as_list).unwrap_or_default() {
        let entry = entry.as_map().ok_or_else(|| Error::invocation(format!("{entry} is not a revoked certificate")))?;
        revoked.extend(revocation(entry, include_expired)?);
    }
    let mut extensions = Vec::new();
    let around = Around { issuer: signing_cert.as_ref(), ..Around::default() };
    for (name, value) in args.get("extensions").and_then(Value::as_map).into_iter().flatten() {
        let name = name.to_string();
        if !oids::CRL_EXTENSIONS.contains(&name.as_str()) {
            // As in Salt, a warning is logged and the extension is skipped.
            tracing::warn!("Ignoring invalid CRL extension: {name}");
            continue;
        }
        if name == "authorityKeyIdentifier" && around.issuer.is_none() {
            let text = "Need CA certificate or CA pubkey to calculate authorityKeyIdentifier";
            return Err(Error::Other(text.into()));
        }
        extensions.push(build::build(&name, value, around)?);
    }
    let days = args.get("days_valid").and_then(number).unwrap_or(100.0);
    let crl = NewCrl {
        issuer: signing_cert.map(|cert| cert.subject),
        last_update: times::now(),
        next_update: times::in_days(days)?,
        revoked,
        extensions,
    };
    Ok((crl, private))
}

/// Reads an entry for the list. Returns None for a certificate that has expired anyway.
fn revocation(entry: &Map, include_expired: bool) -> Result<Option<Revoked>> {
    let mut number = entry.get("serial_number").cloned().unwrap_or_default();
    let mut not_after = entry.get("not_after").map(|time| times::parse(&time.to_string())).transpose()?;
    let mut serial = None;
    if let Some(reference) = entry.get("certificate") {
        let cert = load::cert(reference, None)?.cert;
        not_after = Some(cert.not_after);
        serial = Some(cert.serial);
        // Only so that the check below passes: the serial number is already known.
        number = Value::Bool(true);
    }
    if !number.truthy() {
        return Err(Error::invocation("Need serial_number or certificate"));
    }
    let serial = serial.map_or_else(|| serial::from_value(Some(&number)), Ok)?;
    if not_after.is_some_and(|time| times::now() > time) && !include_expired {
        return Ok(None);
    }
    let date = entry.get("revocation_date").map_or_else(|| Ok(times::now()), |time| times::parse(&time.to_string()))?;
    let mut extensions = Vec::new();
    for (name, value) in entry.get("extensions").and_then(Value::as_map).into_iter().flatten() {
        let name = name.to_string();
        if oids::named(oids::ENTRY_EXTENSIONS, &name).is_none() {
            tracing::warn!("Ignoring invalid CRL entry extension: {name}");
            continue;
        }
        extensions.push(build::build(&name, value, Around::default())?);
    }
    Ok(Some(Revoked { serial, date, extensions }))
}

/// The list of revoked certificates in the form of today, from that of earlier releases too.
pub fn revoked_list(revoked: &Value) -> Result<Vec<Value>> {
    let items = revoked.as_list().ok_or_else(|| Error::invocation("revoked must be a list"))?;
    let entry = |item: &Value| {
        let mut entry = item.as_map().cloned().unwrap_or_default();
        // In SLS files an entry may be a name with a list of parts, the usual style of Salt's
        // arguments.
        if entry.len() == 1
            && let Some(Value::List(parts)) = entry.values().next()
        {
            let parts = parts.iter().filter_map(Value::as_map).flat_map(|part| part.clone());
            entry = parts.collect();
        }
        // The old module had `reason` beside the serial number.
        if let Some(reason) = entry.remove("reason") {
            let extensions = entry.entry_or_insert_with("extensions", || Map::new().into());
            if let Some(extensions) = extensions.as_map_mut() {
                extensions.insert("CRLReason", reason);
            }
        }
        Value::Map(entry)
    };
    Ok(items.iter().map(entry).collect())
}

/// Renames arguments that older releases called otherwise.
pub fn renamed(args: &mut Map) {
    for (name, old) in oids::OLD_NAMES {
        for old in *old {
            if let Some(value) = args.remove(old) {
                tracing::warn!("Found {old} in keyword args. Please migrate to the short name: {name}");
                args.insert(*name, value);
            }
        }
    }
}
