//! Errors of repositories.

use std::path::{Path, PathBuf};

use crate::Role;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A repository that could not be configured, fetched or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options are invalid; the reason is in Salt's words.
    #[error("Failed to load {role}: {reason}")]
    Config {
        /// The role of the remote.
        role: Role,
        /// The reason.
        reason: String,
    },
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
    /// The program `git` failed. Its message is free of passwords.
    #[error("git {command} failed: {message}")]
    Git {
        /// The subcommand.
        command: &'static str,
        /// The message.
        message: String,
    },
    /// The program `git` timed out and was killed.
    #[error("git {command} took longer than {seconds} seconds and was killed")]
    Timeout {
        /// The subcommand.
        command: &'static str,
        /// The timeout.
        seconds: u64,
    },
    /// A required object is missing or malformed.
    #[error("repository {} is damaged: {reason}", path.display())]
    Damaged {
        /// The repository.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The cache on disk could not be used.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }

    /// Returns the error with its causes.
    pub fn chain(&self) -> String {
        value::error::chain(self)
    }
}
