//! What can go wrong on the disk.

use std::path::{Path, PathBuf};

/// The result of anything here.
pub type Result<T> = std::result::Result<T, Error>;

/// A file that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("failed to {action} {}", path.display())]
    Io {
        /// What was attempted: `read`, `write`, …
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("failed to read {}: {reason}", path.display())]
    Malformed {
        /// Where.
        path: PathBuf,
        /// What is wrong with the content.
        reason: String,
    },
    /// A text that may not become part of a path.
    #[error("{what} {name:?} is not a valid file name")]
    BadName {
        /// What the text stands for: `token`, `bank`, …
        what: &'static str,
        /// The text, shortened.
        name: String,
    },
}

impl Error {
    /// Makes a function that adds action and path to an error of the system.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, reason: impl ToString) -> Error {
        Error::Malformed { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn bad_name(what: &'static str, name: &str) -> Error {
        Error::BadName { what, name: name.chars().take(64).collect() }
    }

    /// Says whether the file or a directory on the way to it does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}
