//! Errors of the disk.

use std::path::{Path, PathBuf};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A file that could not be used.
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
    /// The file has invalid content.
    #[error("failed to read {}: {reason}", path.display())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with the content.
        reason: String,
    },
    /// A string that must not become part of a path.
    #[error("{what} {name:?} is not a valid file name")]
    BadName {
        /// The kind of string: `token`, `bank`, …
        what: &'static str,
        /// The string, shortened.
        name: String,
    },
}

impl Error {
    /// Returns a function that adds action and path to a system error.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, reason: impl ToString) -> Error {
        Error::Malformed { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn bad_name(what: &'static str, name: &str) -> Error {
        // The name may come from a stranger and end up in the log.
        Error::BadName { what, name: name.chars().take(64).collect() }
    }

    /// Returns whether the disk, or the share of it that the user may fill, is full.
    pub fn is_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Error::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// Returns whether the file, or a directory of its path, does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}
