//! What can go wrong with files.

use std::path::{Path, PathBuf};

use crate::RemoteError;

/// The result of anything here.
pub type Result<T> = std::result::Result<T, Error>;

/// A file that could not be served, fetched or kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("failed to {action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The server did not answer.
    #[error("failed to ask the file server for {what}")]
    Remote {
        /// What was asked for.
        what: String,
        /// Why it failed.
        source: RemoteError,
    },
    /// The server answered, but not with what was asked for.
    #[error("the file server's answer about {what} makes no sense: {reason}")]
    Answer {
        /// What was asked for.
        what: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A path that would lead out of where it belongs.
    #[error("refused path {0:?}: it would lead out of its directory")]
    UnsafePath(String),
    /// A URL that is not one of the file server's.
    #[error("Unsupported path: {0}")]
    NotSalt(String),
    /// A local path in a URL has to be absolute.
    #[error("Path '{0}' is not absolute")]
    NotAbsolute(String),
    /// Something Salt can and this program cannot.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// An expression in `file_ignore_regex` is invalid.
    #[error("invalid file_ignore_regex")]
    Ignore(#[from] targeting::Error),
    /// The hash in `hash_type` is unknown.
    #[error("invalid hash_type")]
    HashType(#[from] crypto::UnknownHashType),
    /// A repository could not be configured or read.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A cache on the disk could not be used.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }
}
