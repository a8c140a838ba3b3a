//! The reasons why the cache cannot be used.

use crate::Place;
use crate::banks::Failure;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A cache that cannot be used, or a value that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has an invalid value.
    #[error("option '{name}': {reason}")]
    Option {
        /// The option.
        name: &'static str,
        /// The problem. Never a password.
        reason: String,
    },
    /// There is no such option.
    #[error("option '{name}': {reason}")]
    Unknown {
        /// The option.
        name: String,
        /// The problem.
        reason: &'static str,
    },
    /// A file of `localfs` cannot be used.
    #[error(transparent)]
    Disk(#[from] store::Error),
    /// The server failed or does not answer. This is in the log already.
    #[error("the cache driver {driver} has no answer from {address}")]
    NoAnswer {
        /// The driver.
        driver: &'static str,
        /// The server.
        address: String,
        /// Why, if this request asked it.
        source: Option<Failure>,
    },
    /// A value cannot be read.
    #[error("the cache driver {driver} has a value in bank {:?} under key {:?} that is not valid: {reason}", place.bank, place.key)]
    Malformed {
        /// The driver.
        driver: &'static str,
        /// Where the value is.
        place: Place,
        /// The problem.
        reason: String,
    },
    /// A name that cannot be that of a bank or key.
    #[error("{name:?} cannot be a bank or key of the cache")]
    BadName {
        /// The name, shortened.
        name: String,
    },
}

impl Error {
    pub(crate) fn option(name: &'static str, reason: impl ToString) -> Self {
        Error::Option { name, reason: reason.to_string() }
    }

    pub(crate) fn unknown(name: &str, reason: &'static str) -> Self {
        Error::Unknown { name: name.to_owned(), reason }
    }

    /// Returns whether the log names the failure already. Callers do not repeat it for each minion.
    pub fn is_logged(&self) -> bool {
        matches!(self, Error::NoAnswer { .. })
    }
}
