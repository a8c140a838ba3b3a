//! Making certificates, requests, lists and keys.

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use openssl::pkey::{PKey, Private};
use value::{Map, Value};

use super::cert::Cert;
use super::encode::{self, Encoding};
use super::{issue, keys, oids, pem, policy, sign};

/// The default of `days_valid` for certificates.
pub const DAYS: i64 = 365;
/// The default of `days_valid` for lists.
pub const DAYS_OF_LIST: i64 = 100;

/// Makes a certificate and returns it, or writes it to ``path``.
///
/// The parts of the subject (``CN``, ``O``, …) and the extensions (``basicConstraints``, ``keyUsage``, …) are
/// additional arguments. Keys and certificates are paths of files, or texts.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.create_certificate signing_private_key='/etc/pki/myca.key' csr='/etc/pki/my.csr'
#[function]
pub fn create_certificate(
    ctx: &Context,
    #[default(Value::Null)] ca_server: Value,
    #[default(Value::Null)] signing_policy: Value,
    #[default("pem")] encoding: String,
    #[default(Value::Null)] append_certs: Value,
    pkcs12_passphrase: Option<String>,
    #[default(false)] pkcs12_encryption_compat: bool,
    pkcs12_friendlyname: Option<String>,
    path: Option<String>,
    #[default(true)] overwrite: bool,
    #[default(false)] raw: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let mut args = kwargs.given();
    renamed(&mut args);
    if !args.contains_key("days_valid") && !args.contains_key("not_after") {
        // Salt announced 30 days for later versions. Until then it is a year.
        args.insert("days_valid", DAYS);
    }
    let encoding = Encoding {
        name: encoding,
        append: super::listed(&append_certs),
        passphrase: pkcs12_passphrase,
        old: pkcs12_encryption_compat,
        friendly_name: pkcs12_friendlyname,
    };
    // Wrong arguments must show before a certificate authority has signed anything.
    encode::check(&encoding.name, encode::OF_CERTIFICATES)?;
    sign::check_digest(&issue::digest(&args))?;
    encoding.check()?;
    let remote = issue::argument(&[("server", ca_server)].into_iter().collect(), "server").map(Value::to_string);
    if !args.contains_key("signing_private_key") && remote.is_none() {
        return Err(Error::invocation("Creating a certificate locally at least requires a signing private key."));
    }
    // A text and no error, as in Salt: an existing certificate is fine.
    if let Some(path) = path.as_deref().filter(|path| !overwrite && Path::new(path).is_file()) {
        return Ok(format!("The file at {path} exists and overwrite was set to false").into());
    }
    let (cert, key) = match remote {
        Some(server) => elsewhere(ctx, &server, &signing_policy, args)?,
        None => {
            // A policy wins over the arguments, also for a certificate that is signed here.
            policy::lay_over(&policy::local(ctx, &signing_policy)?, &mut args);
            if encoding.name == "pkcs12" && !args.contains_key("private_key") && args.contains_key("signing_cert") {
                return Err(encode::no_key());
            }
            ctx.blocking(move || signed_here(&args))?
        }
    };
    let bytes = encoding.write(&cert, key.as_ref())?;
    let Some(path) = path else { return Ok(encode::returned(bytes, encode::is_text(&encoding.name), raw)) };
    if encoding.name == "pem" {
        return pem::write_pem(text(bytes), path, overwrite, Some("CERTIFICATE".into())).map(Value::from);
    }
    // A container holds the private key, too.
    pem::write(&path, &bytes, if encoding.name == "pkcs12" { 0o600 } else { 0o666 })?;
    Ok(format!("Certificate written to {path}").into())
}

fn elsewhere(ctx: &Context, server: &str, signing_policy: &Value, args: Map) -> Result<(Cert, Option<PKey<Private>>)> {
    if signing_policy.is_null() {
        return Err(Error::invocation(
            "signing_policy must be specified to request a certificate from a remote ca_server",
        ));
    }
    let (bundle, key) = policy::signed_elsewhere(ctx, server, signing_policy, args)?;
    Ok((bundle.cert, key))
}

fn text(bytes: Vec<u8>) -> Value {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

fn renamed(args: &mut Map) {
    if let Some(digest) = args.remove("algorithm") {
        tracing::warn!("`algorithm` has been renamed to `digest`. Please update your code.");
        args.insert("digest", digest);
    }
    issue::renamed(args);
}

/// Signs a certificate with a key of this minion. The private key is the one that belongs to it, if it was given.
///
/// # Errors
/// The arguments are wrong.
pub fn signed_here(args: &Map) -> Result<(Cert, Option<PKey<Private>>)> {
    let order = issue::certificate(args, false)?;
    let key = order.signing_key.as_ref().expect("it is loaded unless another minion signs");
    let der = order.cert.sign(key, &issue::digest(args))?;
    let cert = Cert::read(&der).ok_or_else(|| Error::execution("The certificate that was made cannot be read"))?;
    if let Some(folder) = issue::argument(args, "copypath") {
        keep_copy(&cert, &folder.to_string(), issue::argument(args, "prepend_cn").is_some())?;
    }
    Ok((cert, order.private_key))
}

fn keep_copy(cert: &Cert, folder: &str, prepend: bool) -> Result<()> {
    // The name comes from the requester of the certificate and must not lead out of the folder.
    let name = cert.subject.first(oids::COMMON_NAME).filter(|_| prepend);
    if name.is_some_and(|name| name.contains('/')) {
        return Err(Error::invocation("The common name has a slash and cannot be part of the name of a file"));
    }
    let prefix = name.map(|name| format!("{name}-")).unwrap_or_default();
    let digits = hex::encode(&cert.serial);
    // Python's `{:x}` has no leading zeros.
    let digits = digits.trim_start_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let path = Path::new(folder).join(format!("{prefix}{digits}.crt"));
    pem::write(&path.to_string_lossy(), encode::pem("CERTIFICATE", &cert.der).as_bytes(), 0o600)
}

/// Makes a list of revoked certificates and returns it, or writes it to ``path``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.create_crl signing_cert=/etc/pki/ca.crt signing_private_key=/etc/pki/ca.key revoked="[{'certificate': '/etc/pki/certs/www1.crt', 'revocation_date': '2015-03-01 00:00:00'}]"
#[function]
pub fn create_crl(
    signing_private_key: Value,
    revoked: Value,
    #[default(Value::Null)] signing_cert: Value,
    #[default(Value::Null)] signing_private_key_passphrase: Value,
    #[default(false)] include_expired: bool,
    #[default(Value::Null)] days_valid: Value,
    #[default("sha256")] digest: String,
    #[default("pem")] encoding: String,
    #[default(Value::Null)] extensions: Value,
    path: Option<String>,
    #[default(false)] raw: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    super::refuse_unknown(&kwargs, &["text"])?;
    encode::check(&encoding, encode::OF_OTHERS)?;
    sign::check_digest(&digest)?;
    let args = value::map! {
        "signing_private_key" => signing_private_key, "revoked" => issue::revoked_list(&revoked)?,
        "signing_cert" => signing_cert, "signing_private_key_passphrase" => signing_private_key_passphrase,
        "include_expired" => include_expired,
        "days_valid" => if days_valid.is_null() { DAYS_OF_LIST.into() } else { days_valid },
        "extensions" => extensions,
    };
    finished("X509 CRL", "CRL", list(&args, &digest)?, &encoding, path, raw)
}

/// Signs a list of revoked certificates and returns it as DER.
///
/// # Errors
/// The arguments are wrong.
pub fn list(args: &Map, digest: &str) -> Result<Vec<u8>> {
    sign::check_digest(digest)?;
    let (list, key) = issue::revocations(args)?;
    list.sign(&key, digest)
}

/// Signs a request for a certificate and returns it as DER.
///
/// # Errors
/// The arguments are wrong.
pub fn request(args: &Map, digest: &str) -> Result<Vec<u8>> {
    sign::check_digest(digest)?;
    let (request, key) = issue::request(args)?;
    request.sign(&key, digest)
}

/// Returns the new object, or writes it to `path` and returns a message.
fn finished(label: &str, what: &str, der: Vec<u8>, encoding: &str, path: Option<String>, raw: bool) -> Result<Value> {
    let Some(path) = path else { return Ok(encode::written(label, der, encoding, raw)) };
    if encoding == "pem" {
        return pem::write_pem(encode::pem(label, &der).into(), path, true, Some(label.into())).map(Value::from);
    }
    pem::write(&path, &der, 0o666)?;
    Ok(format!("{what} written to {path}").into())
}

/// Makes a request for a certificate and returns it, or writes it to ``path``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.create_csr private_key='/etc/pki/myca.key' CN='My Cert'
#[function]
pub fn create_csr(
    private_key: Value,
    #[default(Value::Null)] private_key_passphrase: Value,
    #[default("sha256")] digest: String,
    #[default("pem")] encoding: String,
    path: Option<String>,
    #[default(false)] raw: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let mut args = kwargs.given();
    renamed(&mut args);
    let digest = issue::text(&args, "digest").unwrap_or(digest);
    encode::check(&encoding, encode::OF_OTHERS)?;
    sign::check_digest(&digest)?;
    args.insert("private_key", private_key);
    args.insert("private_key_passphrase", private_key_passphrase);
    finished("CERTIFICATE REQUEST", "CSR", request(&args, &digest)?, &encoding, path, raw)
}

/// Makes a private key and returns it, or writes it to ``path``, for the owner of the file alone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.create_private_key algo=ec keysize=384
#[function]
pub fn create_private_key(
    ctx: &Context,
    #[default("rsa")] algo: String,
    keysize: Option<i64>,
    passphrase: Option<String>,
    #[default("pem")] encoding: String,
    #[default(false)] pkcs12_encryption_compat: bool,
    path: Option<String>,
    #[default(false)] raw: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    super::refuse_unknown(&kwargs, &["bits", "cipher", "verbose", "text"])?;
    // `bits` is the name of the argument in Salt's old module `x509`.
    let bits = kwargs.0.get("bits").and_then(Value::as_i64);
    encode::check(&encoding, encode::OF_KEYS)?;
    // A large RSA key takes seconds and cannot be interrupted.
    let key = ctx.blocking(move || keys::generate(&algo, bits.or(keysize)))?;
    let bytes = keys::encode(&key, &encoding, passphrase.as_deref(), pkcs12_encryption_compat)?;
    let Some(path) = path else { return Ok(encode::returned(bytes, encoding == "pem", raw)) };
    if encoding == "pem" {
        // `write_pem` opens the file with mode 0600 before the key is in it.
        return pem::write_pem(text(bytes), path, true, Some(pem::PRIVATE_KEY.into())).map(Value::from);
    }
    pem::write(&path, &bytes, 0o600)?;
    Ok(Value::Null)
}
