//! Reads certificates, requests, lists and keys.
#![expect(non_snake_case, reason = "Salt has an argument asObj")]

use exec::{Context, Error, Result, function};
use openssl::hash::{MessageDigest, hash};
use value::{Map, Value, map};

use super::cert::Cert;
use super::keys;
use super::load::{self, Unloaded};
use super::{changes, decimal_to_hex, oids, pretty_hex, show, times};

fn fingerprint(der: &[u8], digest: MessageDigest) -> String {
    pretty_hex(&hash(digest, der).expect("the digest is there"))
}

/// Kind and size of a public key, as DER.
fn about_key(der: &[u8]) -> (Value, Value) {
    let key = keys::from_der(der);
    let kind = key.as_ref().and_then(|key| keys::kind(key));
    (kind.into(), key.and_then(|key| keys::size(&key)).into())
}

fn public_pem(der: &[u8]) -> Result<String> {
    let unreadable = || Error::execution("not supported: the kind of this public key");
    let key = keys::from_der(der).ok_or_else(unreadable)?;
    let pem = key.public_key_to_pem().map_err(|error| Error::execution(error.to_string()))?;
    Ok(String::from_utf8_lossy(&pem).into_owned())
}

fn algorithm(oid: &str) -> String {
    oids::display_name(oid).unwrap_or("Unknown OID").to_owned()
}

/// Returns the fields of a certificate.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.read_certificate /etc/pki/mycert.crt
#[function]
fn read_certificate(ctx: &Context, certificate: Value) -> Result<Map> {
    let cert = load::cert(&certificate, None)?.cert;
    let (kind, size) = about_key(&cert.key);
    let mut fingerprints = map! {
        "sha1" => fingerprint(&cert.der, MessageDigest::sha1()),
        "sha256" => fingerprint(&cert.der, MessageDigest::sha256()),
    };
    if !ctx.opt("fips_mode").is_some_and(Value::truthy) {
        fingerprints.insert("md5", fingerprint(&cert.der, MessageDigest::md5()));
    }
    Ok(map! {
        "version" => cert.version as i64,
        "key_size" => size,
        "key_type" => kind,
        "serial_number" => decimal_to_hex(&cert.serial),
        "fingerprints" => fingerprints,
        "subject" => cert.subject.to_map(),
        "subject_hash" => cert.subject.short_hash(),
        "subject_str" => cert.subject.text(),
        "issuer" => cert.issuer.to_map(),
        "issuer_hash" => cert.issuer.short_hash(),
        "issuer_str" => cert.issuer.text(),
        "not_before" => cert.not_before.strftime(times::FORMAT).to_string(),
        "not_after" => cert.not_after.strftime(times::FORMAT).to_string(),
        "public_key" => public_pem(&cert.key)?,
        "extensions" => show::extensions(&cert.extensions, oids::EXTENSIONS),
        "signature_algorithm" => algorithm(&cert.algorithm.oid),
    })
}

/// Returns the fields of the certificates that match a pattern.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.read_certificates "/etc/pki/*.crt"
#[function]
fn read_certificates(ctx: &Context, glob_path: String) -> Result<Map> {
    let mut found = Map::new();
    for path in super::matching(&glob_path) {
        let cert = read_certificate(ctx, path.as_str().into())?;
        found.insert(path, cert);
    }
    Ok(found)
}

/// Returns the fields of a list of revoked certificates.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.read_crl /etc/pki/my.crl
#[function]
fn read_crl(crl: Value) -> Result<Map> {
    let (crl, _) = load::crl(&crl)?;
    let revoked = crl.revoked.iter().map(|entry| {
        let about = map! {
            "revocation_date" => entry.date.strftime(times::FORMAT).to_string(),
            "extensions" => show::extensions(&entry.extensions, oids::ENTRY_EXTENSIONS),
        };
        (Value::from(decimal_to_hex(&entry.serial).replace(':', "")), Value::from(about))
    });
    Ok(map! {
        "issuer" => crl.issuer.to_map(),
        "last_update" => crl.last_update.strftime(times::FORMAT).to_string(),
        "next_update" => crl.next_update.map(|time| time.strftime(times::FORMAT).to_string()),
        "revoked_certificates" => revoked.collect::<Map>(),
        "extensions" => show::extensions(&crl.extensions, oids::EXTENSIONS),
        "signature_algorithm" => algorithm(&crl.algorithm.oid),
    })
}

/// Returns the fields of a certificate request.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.read_csr /etc/pki/mycert.csr
#[function]
fn read_csr(csr: Value) -> Result<Map> {
    let (csr, _) = load::csr(&csr)?;
    if csr.version != 0 {
        return Err(Error::Other(format!("{} is not a valid CSR version", csr.version)));
    }
    let (kind, size) = about_key(&csr.key);
    Ok(map! {
        "key_size" => size,
        "key_type" => kind,
        "subject" => csr.subject.to_map(),
        "subject_hash" => csr.subject.short_hash(),
        "subject_str" => csr.subject.text(),
        "public_key_hash" => pretty_hex(&keys::key_id(&csr.key)),
        "extensions" => show::extensions(&csr.extensions, oids::EXTENSIONS),
    })
}

/// Returns whether a certificate has expired, or will expire within that many days.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.expires /etc/pki/my.crt days=7
#[function]
fn expires(certificate: Value, #[default(0)] days: f64) -> Result<bool> {
    is_over(&load::cert(&certificate, None)?.cert, days)
}

fn is_over(cert: &Cert, days: f64) -> Result<bool> {
    Ok(cert.not_after == times::in_days(days)? || changes::is_near(cert.not_after, days)?)
}

/// Describes a certificate, except for whether it has expired.
fn about(certificate: &Value, cert: &Cert) -> Map {
    let mut about = Map::new();
    if load::is_file(certificate) {
        about.insert("path", certificate.clone());
    }
    if let Some(name) = cert.subject.first(oids::COMMON_NAME) {
        about.insert("cn", name);
    }
    about
}

/// Returns the common name of a certificate and whether it has expired.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.expired /etc/pki/mycert.crt
#[function]
fn expired(certificate: Value) -> Result<Map> {
    let cert = load::cert(&certificate, None)?.cert;
    let mut told = about(&certificate, &cert);
    told.insert("expired", is_over(&cert, 0.0)?);
    Ok(told)
}

/// Returns the common name of a certificate and whether it will expire within that many days.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.will_expire "/etc/pki/mycert.crt" days=30
#[function]
fn will_expire(certificate: Value, days: Value) -> Result<Map> {
    let cert = load::cert(&certificate, None)?.cert;
    let number = super::issue::number(&days).ok_or_else(|| Error::invocation("days must be a number"))?;
    let mut told = map! { "check_days" => days };
    told.update(about(&certificate, &cert));
    told.insert("will_expire", is_over(&cert, number)?);
    Ok(told)
}

/// Returns the size of a private key in bits, if keys of its kind have several sizes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.get_private_key_size /etc/pki/my.key
#[function]
fn get_private_key_size(private_key: Value, passphrase: Option<String>) -> Result<Value> {
    let (key, _) = keys::private(&private_key, passphrase.as_deref())?;
    Ok(keys::size(&key).into())
}

/// Finds the public key in a public key, a certificate, a private key or a request, as DER.
///
/// # Errors
/// The key is of none of these kinds, or the passphrase is wrong.
pub fn public_key(key: &Value, passphrase: Option<&str>) -> Result<Vec<u8>> {
    // A path that is none is the same for all of them.
    if let Ok(public) = keys::public(key) {
        return public.public_key_to_der().map_err(|error| Error::execution(error.to_string()));
    }
    match load::cert(key, passphrase) {
        Ok(bundle) => return Ok(bundle.cert.key),
        Err(why @ Unloaded::InvalidPassword) => return Err(Error::execution(Error::from(why).to_string())),
        Err(_) => {}
    }
    match keys::private(key, passphrase) {
        Ok((key, _)) => return keys::public_der(&key),
        Err(Unloaded::Unreadable(_) | Unloaded::Source(_)) => {}
        Err(why) => return Err(Error::execution(Error::from(why).to_string())),
    }
    match load::csr(key) {
        Ok((csr, _)) => Ok(csr.key),
        Err(_) => Err(Error::execution("Could not load key as certificate, public key, private key or CSR")),
    }
}

/// Returns the public key of a private key, a certificate or a request.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.get_public_key /etc/pki/my.key
#[function]

fn get_public_key(key: Value, passphrase: Option<String>, #[default(Value::Null)] asObj: Value) -> Result<String> {
    let _ = asObj;
    public_pem(&public_key(&key, passphrase.as_deref())?)
}

fn parsed(der: &[u8]) -> Result<openssl::pkey::PKey<openssl::pkey::Public>> {
    keys::from_der(der).ok_or_else(|| Error::execution("not supported: the kind of this public key"))
}

/// Returns whether a list of revoked certificates was signed with the key of a certificate.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.verify_crl /etc/pki/my.crl /etc/pki/my.crt
#[function]
fn verify_crl(crl: Value, cert: Value) -> Result<bool> {
    let (crl, _) = load::crl(&crl)?;
    Ok(crl.is_signed_by(&parsed(&public_key(&cert, None)?)?))
}

/// Returns whether a private key belongs to a public key, which may be that of a certificate.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.verify_private_key /etc/pki/my.key /etc/pki/my.crt
#[function]
fn verify_private_key(private_key: Value, public_key: Value, passphrase: Option<String>) -> Result<bool> {
    let (key, _) = keys::private(&private_key, passphrase.as_deref())?;
    let public = self::public_key(&public_key, None)?;
    keys::same(&public, &keys::public_der(&key)?)
}

/// Returns whether a certificate was signed with a key: its own, or that of another certificate.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.verify_signature /etc/pki/my.key /etc/pki/my.crt
#[function]
fn verify_signature(
    certificate: Value,
    #[default(Value::Null)] signing_pub_key: Value,
    signing_pub_key_passphrase: Option<String>,
) -> Result<bool> {
    let cert = load::cert(&certificate, None)?.cert;
    let signer = if signing_pub_key.truthy() { &signing_pub_key } else { &certificate };
    let key = parsed(&public_key(signer, signing_pub_key_passphrase.as_deref())?)?;
    if keys::kind(&key).is_none() {
        return Err(Error::invocation("Invalid public key type, can only process rsa, ec, ed25519, ed448"));
    }
    Ok(cert.is_signed_by(&key))
}
