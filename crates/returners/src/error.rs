//! What can go wrong in a returner.

/// Why a return was not stored. The texts hold no passwords.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such returner.
    #[error("'{name}.returner' is not available.{hint}")]
    Unknown {
        /// Its name.
        name: String,
        /// A sentence about a file in Python of that name, if there is one.
        hint: String,
    },
    /// An option has a value that cannot be used.
    #[error("{0}")]
    Option(String),
    /// The server does not answer, or does not let us in.
    #[error("{server} is not reachable: {reason}")]
    Unreachable {
        /// The server, with its address.
        server: String,
        /// Why.
        reason: String,
    },
    /// The return could not be stored.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// A failure in words.
    pub fn failed(reason: impl std::fmt::Display) -> Self {
        Error::Failed(reason.to_string())
    }

    /// An option that cannot be used.
    pub fn option(reason: impl std::fmt::Display) -> Self {
        Error::Option(reason.to_string())
    }
}
