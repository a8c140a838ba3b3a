//! TLS for the tcp transport: Salt's option `ssl`.

use std::path::PathBuf;
use std::pin::Pin;

use openssl::ssl::{
    Ssl, SslAcceptor, SslConnector, SslContextBuilder, SslFiletype, SslMethod, SslVerifyMode, SslVersion,
};
use rt::BoxStream;
use tokio_openssl::SslStream;

use crate::Error;

/// The settings of the option `ssl`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Our certificate, PEM.
    pub certfile: Option<PathBuf>,
    /// Its key, PEM; by default it is in the certificate's file.
    pub keyfile: Option<PathBuf>,
    /// The certificate authorities that must have signed a peer's certificate, PEM.
    pub ca_certs: Option<PathBuf>,
    /// The requirement for a certificate of the peer: `CERT_NONE`, `CERT_OPTIONAL`, `CERT_REQUIRED`.
    pub cert_reqs: Option<CertReqs>,
    /// The only allowed protocol version (`PROTOCOL_TLSv1_2`), if one is set.
    pub ssl_version: Option<String>,
    /// OpenSSL's cipher list.
    pub ciphers: Option<String>,
}

/// The requirement for a certificate of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertReqs {
    /// No certificate is requested.
    None,
    /// A certificate that is presented must be valid.
    Optional,
    /// A valid certificate is required.
    Required,
}

impl CertReqs {
    /// Parses Python's names.
    pub fn named(name: &str) -> Option<Self> {
        match name.strip_prefix("ssl.").unwrap_or(name) {
            "CERT_NONE" | "0" => Some(CertReqs::None),
            "CERT_OPTIONAL" | "1" => Some(CertReqs::Optional),
            "CERT_REQUIRED" | "2" => Some(CertReqs::Required),
            _ => None,
        }
    }
}

/// TLS with loaded keys and certificates.
#[derive(Clone)]
pub struct Tls {
    acceptor: Option<SslAcceptor>,
    connector: SslConnector,
    check_name: bool,
}

impl Tls {
    /// Loads the files.
    ///
    /// # Errors
    /// If a file cannot be used. The error names it.
    pub fn new(settings: &TlsSettings) -> Result<Self, Error> {
        let mut connector = SslConnector::builder(SslMethod::tls_client()).map_err(|error| failed("set up", error))?;
        set_up(&mut connector, settings)?;
        // A client checks the master's certificate unless told not to.
        let reqs = settings.cert_reqs.unwrap_or(CertReqs::Required);
        connector.set_verify(if reqs == CertReqs::None { SslVerifyMode::NONE } else { SslVerifyMode::PEER });
        // Without a certificate this side can only be a client.
        let acceptor = match settings.certfile {
            Some(_) => Some(acceptor(settings)?),
            None => None,
        };
        Ok(Tls { acceptor, connector: connector.build(), check_name: reqs != CertReqs::None })
    }

    /// Does the handshake as the server.
    ///
    /// # Errors
    /// If there is no certificate to present, or the peer does not present the required one.
    pub async fn accept(&self, stream: BoxStream) -> Result<BoxStream, Error> {
        let acceptor = self.acceptor.as_ref().ok_or_else(|| Error::Tls("the server has no certfile".to_owned()))?;
        let ssl = Ssl::new(acceptor.context()).map_err(|error| failed("begin", error))?;
        let mut stream = SslStream::new(ssl, stream).map_err(|error| failed("begin", error))?;
        Pin::new(&mut stream).accept().await.map_err(|error| failed("accept the peer", error))?;
        Ok(Box::new(stream))
    }

    /// Does the handshake as the client of a server with this name.
    ///
    /// # Errors
    /// If the server's certificate is not valid.
    pub async fn connect(&self, stream: BoxStream, name: &str) -> Result<BoxStream, Error> {
        let settings = self.connector.configure().map_err(|error| failed("begin", error))?;
        let ssl = settings.verify_hostname(self.check_name).into_ssl(name).map_err(|error| failed("begin", error))?;
        let mut stream = SslStream::new(ssl, stream).map_err(|error| failed("begin", error))?;
        Pin::new(&mut stream).connect().await.map_err(|error| failed("connect to the server", error))?;
        Ok(Box::new(stream))
    }
}

/// Wraps an accepted connection in TLS, if there are settings for it.
pub(crate) async fn secure(stream: BoxStream, tls: Option<&Tls>) -> Result<BoxStream, Error> {
    match tls {
        None => Ok(stream),
        Some(tls) => tls.accept(stream).await,
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

fn acceptor(settings: &TlsSettings) -> Result<SslAcceptor, Error> {
    let builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server());
    let mut builder = builder.map_err(|error| failed("set up", error))?;
    set_up(&mut builder, settings)?;
    // OpenSSL refuses to resume sessions of clients with certificates unless the server has a name for its sessions.
    builder.set_session_id_context(b"salt").map_err(|error| failed("set up", error))?;
    // Without the setting a server demands certificates, as Salt's does.
    builder.set_verify(match settings.cert_reqs.unwrap_or(CertReqs::Required) {
        CertReqs::None => SslVerifyMode::NONE,
        CertReqs::Optional => SslVerifyMode::PEER,
        CertReqs::Required => SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT,
    });
    Ok(builder.build())
}

fn set_up(builder: &mut SslContextBuilder, settings: &TlsSettings) -> Result<(), Error> {
    let shown = |path: &PathBuf| format!("read {}", path.display());
    if let Some(certificate) = &settings.certfile {
        let key = settings.keyfile.as_ref().unwrap_or(certificate);
        builder.set_certificate_chain_file(certificate).map_err(|error| failed(&shown(certificate), error))?;
        // OpenSSL checks here that the key belongs to the certificate.
        builder.set_private_key_file(key, SslFiletype::PEM).map_err(|error| failed(&shown(key), error))?;
    }
    if let Some(authorities) = &settings.ca_certs {
        builder.set_ca_file(authorities).map_err(|error| failed(&shown(authorities), error))?;
    }
    if let Some(ciphers) = &settings.ciphers {
        builder.set_cipher_list(ciphers).map_err(|error| failed("use the ciphers", error))?;
    }
    if let Some(name) = &settings.ssl_version {
        let version = protocol(name)?;
        builder.set_min_proto_version(version).map_err(|error| failed("use the version", error))?;
        builder.set_max_proto_version(version).map_err(|error| failed("use the version", error))?;
    }
    Ok(())
}

/// Maps Python's names of protocol versions. The generic names return `None`, so that any version is allowed.
fn protocol(name: &str) -> Result<Option<SslVersion>, Error> {
    match name.strip_prefix("ssl.").unwrap_or(name) {
        "PROTOCOL_TLS" | "PROTOCOL_SSLv23" | "PROTOCOL_TLS_CLIENT" | "PROTOCOL_TLS_SERVER" => Ok(None),
        "PROTOCOL_TLSv1" => Ok(Some(SslVersion::TLS1)),
        "PROTOCOL_TLSv1_1" => Ok(Some(SslVersion::TLS1_1)),
        "PROTOCOL_TLSv1_2" => Ok(Some(SslVersion::TLS1_2)),
        other => Err(Error::Tls(format!("ssl_version {other:?} is not known"))),
    }
}

fn failed(doing: &str, error: impl std::fmt::Display) -> Error {
    Error::Tls(format!("failed to {doing}: {error}"))
}
