//! What may go wrong with keys.

use std::io;
use std::path::{Path, PathBuf};

use crypto::RsaError;

/// A failure with a key or a key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file or directory cannot be used.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A key file cannot be understood.
    #[error("Unable to read key: {}; file may be corrupt or passphrase may be incorrect", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: RsaError,
    },
    /// A key cannot be made, or not be written as text.
    #[error("cannot make key {}", path.display())]
    Make {
        /// The file it was meant for.
        path: PathBuf,
        /// Why.
        source: RsaError,
    },
    /// A signature cannot be made.
    #[error("cannot sign {}", path.display())]
    Sign {
        /// The file whose content was to be signed.
        path: PathBuf,
        /// Why.
        source: RsaError,
    },
    /// There is no precomputed signature although the configuration wants it used.
    #[error(
        "Signing the master.pub key with a signature is enabled but no signature file found at the defined location {}: \
         it may be named differently, or has to be created with 'salt-key --gen-signature'", path.display()
    )]
    NoSignature {
        /// Where it should be.
        path: PathBuf,
    },
    /// An option has a value nobody knows.
    #[error("option {name} cannot be {value:?}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The passphrase of a key is to be fetched from elsewhere.
    #[error("the passphrase of {} is a reference to sdb, which is not supported", path.display())]
    Sdb {
        /// The private key.
        path: PathBuf,
    },
    /// A name is no file name.
    #[error("{0:?} is not a valid key name")]
    Name(String),
}

impl KeyError {
    /// Makes a closure for `map_err`.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| KeyError::Io { action, path: path.to_owned(), source }
    }
}
