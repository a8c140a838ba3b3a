//! What can go wrong with repositories.

use std::path::{Path, PathBuf};

use crate::Role;

/// The result of anything here.
pub type Result<T> = std::result::Result<T, Error>;

/// A repository that could not be configured, fetched or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options make no sense; the reason is in Salt's words.
    #[error("Failed to load {role}: {reason}")]
    Config {
        /// Whose options.
        role: Role,
        /// What is wrong.
        reason: String,
    },
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
    /// The program `git` said no. Its words are free of passwords.
    #[error("git {command} failed: {said}")]
    Git {
        /// What it should have done.
        command: &'static str,
        /// What it said.
        said: String,
    },
    /// The program `git` took too long and was ended.
    #[error("git {command} took longer than {seconds} seconds and was ended")]
    Timeout {
        /// What it should have done.
        command: &'static str,
        /// How long it had.
        seconds: u64,
    },
    /// An object that must be there is not, or makes no sense.
    #[error("repository {} is damaged: {reason}", path.display())]
    Damaged {
        /// The repository.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A cache on the disk could not be used.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }

    /// Returns the error with all its causes.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}
