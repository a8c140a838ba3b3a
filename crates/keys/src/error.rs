//! Errors of keys.

use std::io;
use std::path::{Path, PathBuf};

use crypto::{MemberKeyError, RsaError};

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
        /// The system's error.
        source: io::Error,
    },
    /// A key file cannot be parsed.
    #[error("Unable to read key: {}; file may be corrupt or passphrase may be incorrect", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: RsaError,
    },
    /// A link to a key leads nowhere. A new key would not be that of the minions.
    #[error(
        "{} is a link to {}, which is missing: copy that file as well, or delete the link to make a new key",
        link.display(), target.display()
    )]
    BrokenLink {
        /// The link.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A key cannot be created or encoded.
    #[error("cannot make key {}", path.display())]
    Make {
        /// The intended file.
        path: PathBuf,
        /// The cause.
        source: RsaError,
    },
    /// A signature cannot be created.
    #[error("cannot sign {}", path.display())]
    Sign {
        /// The file whose content was to be signed.
        path: PathBuf,
        /// The cause.
        source: RsaError,
    },
    /// There is no precomputed signature although the configuration wants it used.
    #[error(
        "Signing the master.pub key with a signature is enabled but no signature file found at the defined location {}: \
         it may be named differently, or has to be created with 'salt-key --gen-signature'", path.display()
    )]
    NoSignature {
        /// Its expected path.
        path: PathBuf,
    },
    /// An option has an unknown value.
    #[error("option {name} cannot be {value:?}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The passphrase of a key is an `sdb://` reference.
    #[error("the passphrase of {} is a reference to sdb, which is not supported", path.display())]
    Sdb {
        /// The private key.
        path: PathBuf,
    },
    /// The file of the member key does not contain one.
    #[error("cannot use member key {}", path.display())]
    MemberKey {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: MemberKeyError,
    },
    /// A member key cannot be created.
    #[error("cannot make member key {}", path.display())]
    MakeMemberKey {
        /// The intended file.
        path: PathBuf,
        /// The cause.
        source: MemberKeyError,
    },
    /// The file of the member key, or its directory, is not as this master would have made it.
    #[error("cannot use member key {}: {reason}", path.display())]
    UnusableMemberKey {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A name is not a valid file name.
    #[error("{0:?} is not a valid key name")]
    Name(String),
}

impl KeyError {
    /// Returns a closure for `map_err`.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| KeyError::Io { action, path: path.to_owned(), source }
    }
}
