//! What can go wrong between a minion and a master.

use std::time::Duration;

use super::Distrust;

/// A failure of a request to a master.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No answer arrived in time.
    #[error("no answer from the master within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The connection failed.
    #[error("connection to the master failed: {0}")]
    Transport(String),
    /// The answer cannot be decrypted with our key: the master has new keys, or the peer is not our master.
    #[error("the master's answer could not be authenticated: {0}")]
    Authentication(String),
    /// The answer does not have the expected form.
    #[error("the master's answer is malformed: {0}")]
    Malformed(String),
    /// It was encrypted with the right key, which every minion has, but is not signed by the master.
    #[error("it is not signed by the master: {0}")]
    Forged(&'static str),
    /// The master failed to handle the sign-in. This is no verdict about our key.
    #[error("the master failed to handle the sign-in and asks to try again; its log has the reason")]
    TryAgain,
    /// The master does not know the algorithm the minion is configured for.
    #[error("the master refuses the minion's algorithms: {0}")]
    Algorithm(String),
    /// The master's key is not to be trusted.
    #[error(transparent)]
    Distrust(#[from] Distrust),
    /// Our key is not accepted (yet).
    #[error("the master has not accepted this minion's key")]
    NotAccepted,
    /// A cryptographic operation failed.
    #[error("failed to {doing}: {source}")]
    Crypto {
        /// What was attempted.
        doing: &'static str,
        /// Why it failed.
        source: crypto::RsaError,
    },
}

impl From<crypto::OpenError> for Error {
    fn from(error: crypto::OpenError) -> Self {
        match error {
            crypto::OpenError::Authentication => Error::Authentication(error.to_string()),
            other => Error::Malformed(other.to_string()),
        }
    }
}

impl From<transport::Error> for Error {
    fn from(error: transport::Error) -> Self {
        match error {
            transport::Error::Timeout(time) => Error::Timeout(time),
            other => Error::Transport(other.to_string()),
        }
    }
}

impl Error {
    pub(super) fn crypto(doing: &'static str) -> impl FnOnce(crypto::RsaError) -> Error {
        move |source| Error::Crypto { doing, source }
    }
}
