//! Certificates: those that are trusted, and our own.

use std::fs;
use std::path::{Path, PathBuf};

use openssl::pkey::{PKey, Private};
use openssl::x509::X509;
use reqwest::{Certificate, ClientBuilder};

use crate::{Error, Result};

/// The certificates of a server that are accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Trust {
    /// Those that the system trusts.
    System,
    /// Those that the certificates in a file vouch for.
    File {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Any, for the name of any host.
    Any,
}

/// Our own certificate with its key.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The option that names the file with the certificate.
    pub option: &'static str,
    /// The file with the certificate, followed by those that lead to the authority.
    pub path: PathBuf,
    /// The option and the file of the key, if it is in another one.
    pub key: Option<(&'static str, PathBuf)>,
}

impl Trust {
    pub(super) fn apply(&self, builder: ClientBuilder) -> Result<ClientBuilder> {
        match self {
            Trust::System => Ok(builder),
            Trust::Any => Ok(builder.danger_accept_invalid_certs(true).danger_accept_invalid_hostnames(true)),
            Trust::File { option, path } => {
                let text = read(option, path)?;
                let found: Vec<String> = blocks(&text, |label| label == CERTIFICATE).collect();
                if found.is_empty() {
                    return Err(Error::option(option, format!("{} has no certificate", path.display())));
                }
                found.iter().try_fold(builder.tls_built_in_root_certs(false), |builder, block| {
                    let certificate = Certificate::from_pem(block.as_bytes());
                    let certificate =
                        certificate.map_err(|error| Error::option(option, format!("{}: {error}", path.display())))?;
                    Ok(builder.add_root_certificate(certificate))
                })
            }
        }
    }
}

impl Identity {
    pub(super) fn load(&self) -> Result<reqwest::Identity> {
        let text = read(self.option, &self.path)?;
        let certificates: String = blocks(&text, |label| label == CERTIFICATE).collect();
        let refused = |why: &str| Error::option(self.option, format!("{}: {why}", self.path.display()));
        if certificates.is_empty() {
            return Err(refused("there is no certificate in it"));
        }
        let own = X509::from_pem(certificates.as_bytes()).map_err(|error| refused(&error.to_string()))?;
        let key = self.private_key(&own)?;
        reqwest::Identity::from_pkcs8_pem(certificates.as_bytes(), &key).map_err(|error| refused(&error.to_string()))
    }

    /// Returns the key of our certificate in PKCS#8, the only form that the library takes.
    fn private_key(&self, own: &X509) -> Result<Vec<u8>> {
        let (option, path) =
            self.key.as_ref().map_or((self.option, self.path.as_path()), |(option, path)| (*option, path.as_path()));
        let refused = |why: &str| Error::option(option, format!("{}: {why}", path.display()));
        // Without the callback OpenSSL would ask for the password of a key at the terminal.
        let key: PKey<Private> = PKey::private_key_from_pem_callback(read(option, path)?.as_bytes(), |_| Ok(0))
            .map_err(|_| refused("there is no private key without a password in it"))?;
        if !own.public_key().is_ok_and(|public| public.public_eq(&key)) {
            return Err(refused("the private key in it is not that of the certificate"));
        }
        key.private_key_to_pem_pkcs8().map_err(|error| refused(&error.to_string()))
    }
}

const CERTIFICATE: &str = "CERTIFICATE";

fn read(option: &'static str, path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::option(option, format!("{}: {error}", path.display())))
}

/// Returns the blocks of a PEM file with a wanted label.
fn blocks(text: &str, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
    text.split("-----BEGIN ").skip(1).filter_map(move |block| {
        let (label, rest) = block.split_once("-----")?;
        let (content, _) = rest.split_once(&format!("-----END {label}-----"))?;
        wanted(label).then(|| format!("-----BEGIN {label}-----{content}-----END {label}-----\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_between_other_text() {
        let text = "subject=a\n-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nBB\n\
                    -----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\nCC\n-----END CERTIFICATE-----\n-----BEGIN CERTIFI";
        let found: Vec<String> = blocks(text, |label| label == CERTIFICATE).collect();
        let block = |content: &str| format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
        assert_eq!(found, [block("AA"), block("CC")]);
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_their_option() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("both.pem");
        let identity = Identity { option: "etcd.cert", path: path.clone(), key: None };
        let said = |identity: &Identity| identity.load().unwrap_err().to_string();
        assert!(said(&identity).starts_with("option 'etcd.cert': ") && said(&identity).contains("both.pem"));
        fs::write(&path, "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(said(&identity).starts_with("option 'etcd.cert': ") && said(&identity).contains("both.pem"));
        let trust = Trust::File { option: "etcd.ca_cert", path };
        assert!(trust.apply(ClientBuilder::new()).unwrap_err().to_string().contains("'etcd.ca_cert'"));
    }
}
