//! Errors of files.

use std::path::{Path, PathBuf};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a request to a file server.
pub type RemoteError = Box<dyn std::error::Error + Send + Sync>;

/// A file that could not be served, downloaded or stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system call failed.
    #[error("failed to {action} {}", path.display())]
    Io {
        /// The attempted action: `read`, `write`, …
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server did not answer.
    #[error("failed to ask the file server for {what}")]
    Remote {
        /// The requested file or list.
        what: String,
        /// The cause.
        source: RemoteError,
    },
    /// The server's answer is malformed.
    #[error("malformed answer of the file server about {what}: {reason}")]
    Answer {
        /// The requested file or list.
        what: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A path that would lead out of its directory.
    #[error("refused path {0:?}: it would lead out of its directory")]
    UnsafePath(String),
    /// A URL of another kind than the file server's.
    #[error("Unsupported path: {0}")]
    NotSalt(String),
    /// A local path in a URL has to be absolute.
    #[error("Path '{0}' is not absolute")]
    NotAbsolute(String),
    /// Salt supports this, and Saltern does not.
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
    /// The cache on disk could not be used.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }
}
