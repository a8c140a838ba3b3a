//! Certificates: those that are trusted, and our own.

use std::fs;
use std::path::{Path, PathBuf};

use mysql_async::{ClientIdentity, SslOpts};
use openssl::error::ErrorStack;
use openssl::pkcs12::Pkcs12;
use openssl::pkey::{PKey, Private};
use openssl::stack::Stack;
use openssl::x509::X509;

use crate::{Error, Result};

/// The option with the file of trusted certificates.
const CA: &str = "mysql.ssl_ca";
const CERT: &str = "mysql.ssl_cert";
const KEY: &str = "mysql.ssl_key";

/// How a connection is protected.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// The file with the certificates that may sign the server's. Without it those count that the system trusts.
    pub ca: Option<PathBuf>,
    /// Our own certificate.
    pub identity: Option<Identity>,
    /// Whether the server's certificate is checked.
    pub check: bool,
    /// Whether the certificate must be for the name of the host.
    pub check_name: bool,
}

/// The files of our own certificate and its key.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The certificate, followed by those that lead to the authority.
    pub certificate: PathBuf,
    /// The key, without a password.
    pub key: PathBuf,
}

impl Tls {
    /// Reads the files.
    pub(super) fn load(&self) -> Result<SslOpts> {
        let mut opts = SslOpts::default()
            .with_danger_accept_invalid_certs(!self.check)
            .with_danger_skip_domain_validation(!self.check || !self.check_name);
        if let Some(path) = &self.ca {
            let (text, _) = certificates(CA, path)?;
            opts = opts.with_root_certs(vec![text.into()]).with_disable_built_in_roots(true);
        }
        let identity = self.identity.as_ref().map(Identity::load).transpose()?;
        Ok(opts.with_client_identity(identity))
    }
}

impl Identity {
    fn load(&self) -> Result<ClientIdentity> {
        let (_, mut found) = certificates(CERT, &self.certificate)?;
        let own = found.remove(0);
        let key = PKey::private_key_from_pem_callback(&read(KEY, &self.key)?, |_| Ok(0))
            .map_err(|_| Error::option(KEY, format!("{} has no private key without a password", self.key.display())))?;
        if !own.public_key().is_ok_and(|public| public.public_eq(&key)) {
            return Err(Error::option(KEY, format!("{} is not the key of the certificate", self.key.display())));
        }
        let archive = archive(&key, &own, found)
            .map_err(|error| Error::option(CERT, format!("{}: {error}", self.certificate.display())))?;
        Ok(ClientIdentity::new(archive.into()))
    }
}

/// The only form that the library takes: PKCS#12, here with an empty password.
fn archive(key: &PKey<Private>, own: &X509, others: Vec<X509>) -> std::result::Result<Vec<u8>, ErrorStack> {
    let mut chain = Stack::new()?;
    others.into_iter().try_for_each(|certificate| chain.push(certificate))?;
    Pkcs12::builder().pkey(key).cert(own).ca(chain).build2("")?.to_der()
}

/// Returns the text of a file, and the certificates in it: at least one.
fn certificates(option: &'static str, path: &Path) -> Result<(Vec<u8>, Vec<X509>)> {
    let text = read(option, path)?;
    match X509::stack_from_pem(&text) {
        Ok(found) if !found.is_empty() => Ok((text, found)),
        Ok(_) => Err(Error::option(option, format!("{} has no certificate", path.display()))),
        Err(error) => Err(Error::option(option, format!("{}: {error}", path.display()))),
    }
}

fn read(option: &'static str, path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::option(option, format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named_with_their_option() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        let ca = Tls { ca: Some(path.clone()), identity: None, check: true, check_name: true };
        let own =
            Tls { ca: None, identity: Some(Identity { certificate: path.clone(), key: path.clone() }), ..ca.clone() };
        for (tls, option) in [(&ca, "'mysql.ssl_ca'"), (&own, "'mysql.ssl_cert'")] {
            for content in [None, Some("nothing"), Some("-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n")]
            {
                content.iter().for_each(|content| fs::write(&path, content).unwrap());
                let error = tls.load().unwrap_err().to_string();
                assert!(error.starts_with(&format!("option {option}: ")) && error.contains("a.pem"), "{error}");
                let _ = fs::remove_file(&path);
            }
        }
    }
}
