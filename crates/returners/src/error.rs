//! Errors of returners.

/// Why a return was not stored. The messages never contain passwords.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such returner.
    #[error("'{name}.returner' is not available.{hint}")]
    Unknown {
        /// Its name.
        name: String,
        /// A sentence about a Python file of that name, if there is one.
        hint: String,
    },
    /// An option has an invalid value.
    #[error("{0}")]
    Option(String),
    /// The server does not answer, or refuses the login.
    #[error("{server} is not reachable: {reason}")]
    Unreachable {
        /// The server, with its address.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The return could not be stored.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// A failure with its text.
    pub fn failed(reason: impl std::fmt::Display) -> Self {
        Error::Failed(reason.to_string())
    }

    /// An invalid option.
    pub fn option(reason: impl std::fmt::Display) -> Self {
        Error::Option(reason.to_string())
    }
}
