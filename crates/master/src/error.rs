//! Why a master does not start.

use std::io;
use std::path::PathBuf;

/// A failure of the master as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has an invalid value.
    #[error("option '{name}' cannot be {value:?}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A feature of Salt that Saltern does not have.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// The address to listen on does not exist.
    #[error("option 'interface' names no address of this host: {interface}")]
    Interface {
        /// The option's value.
        interface: String,
        /// Why not.
        source: io::Error,
    },
    /// The master cannot listen on a port.
    #[error("Unable to bind to {address} for {purpose} (option '{option}')")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What it is for.
        purpose: &'static str,
        /// The option the port is from.
        option: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// TLS could not be set up.
    #[error("option 'ssl'")]
    Tls(#[source] transport::Error),
    /// The master cannot share with others.
    #[error("this master cannot share with others: {0}")]
    NotSharing(String),
    /// Nobody could log in as the options say.
    #[error(transparent)]
    Logins(#[from] auth::Error),
    /// A key cannot be read or made.
    #[error(transparent)]
    Key(#[from] keys::KeyError),
    /// A file or directory cannot be made.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The minion data cache cannot work with the options.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// The file server cannot work with the options.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// The repositories of pillar cannot be used with the options.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// Pillar cannot be made with the options.
    #[error(transparent)]
    Pillar(#[from] pillar::Error),
    /// The event bus cannot be opened.
    #[error(transparent)]
    Bus(#[from] event::ServeError),
    /// A socket's file that local programs look for cannot be made.
    #[error("failed to create {}", path.display())]
    Socket {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn option(name: &'static str, value: impl ToString) -> Self {
        Error::Option { name, value: value.to_string() }
    }
}
