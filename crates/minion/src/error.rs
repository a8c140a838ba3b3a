//! Errors that keep a minion from starting or working.

/// A failure of the minion as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has an invalid value.
    #[error("option '{option}' cannot be {value:?}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
    },
    /// A feature of Salt that Saltern does not have.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// TLS could not be set up.
    #[error("option 'ssl': {0}")]
    Tls(String),
    /// The key pair cannot be read or created.
    #[error("failed to {doing} {path}: {reason}")]
    Key {
        /// What was attempted.
        doing: &'static str,
        /// The file.
        path: String,
        /// Why it failed.
        reason: String,
    },
    /// A directory cannot be created.
    #[error("failed to create {path}: {reason}")]
    Directory {
        /// The directory.
        path: String,
        /// Why it failed.
        reason: std::io::Error,
    },
    /// The local event bus cannot be opened.
    #[error("failed to open the event bus: {0}")]
    Bus(String),
    /// The id is not usable.
    #[error("option 'id': {0}")]
    Id(String),
    /// The grains cannot be collected.
    #[error("failed to collect the grains: {0}")]
    Grains(String),
    /// The pillar of this machine cannot be compiled.
    #[error("failed to compile the pillar: {0}")]
    Pillar(String),
    /// The function of `master_type: func` names no master.
    #[error("{0}")]
    MasterFunction(String),
    /// The ports of the local event bus conflict.
    #[error("{0}")]
    Ports(String),
    /// No master answered.
    #[error("{0}")]
    NoMaster(String),
}
