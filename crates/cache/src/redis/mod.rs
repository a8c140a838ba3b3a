//! Salt's driver `redis`, in the layout of 3008 or that of 3006 and 3007.

mod connection;
mod since_3008;
mod until_3007;

use std::path::PathBuf;
use std::sync::Arc;

use store::Layout;

use crate::Banks;
use connection::Connection;

/// The server, the credentials and the prefixes of its keys. The separator is part of each prefix.
#[derive(Clone, PartialEq)]
pub struct Server {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its Unix socket, which wins over host and port.
    pub socket: Option<PathBuf>,
    /// The number of the database.
    pub db: i64,
    /// The password.
    pub password: Option<String>,
    /// 3008: the key of all banks. Before: the prefix of the banks below a bank.
    pub banks: String,
    /// 3008: the prefix of the values of a bank. Before: the prefix of a value.
    pub keys: String,
    /// The prefix of times.
    pub timestamps: String,
    /// Before 3008: the prefix of the names of a bank's keys.
    pub bank_keys: String,
    /// The layout.
    pub layout: Layout,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        f.debug_struct("Server").field("address", &self.address()).field("db", &self.db).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns the address as it is shown.
    pub fn address(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns the driver for the layout. Nothing is connected yet.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn banks(self) -> Result<Arc<dyn Banks>, crate::banks::Failure> {
        let connection = Connection::new(&self)?;
        Ok(match self.layout {
            Layout::Since3008 => Arc::new(since_3008::Redis::new(connection, self)),
            Layout::Until3007 => Arc::new(until_3007::Redis::new(connection, self)),
        })
    }
}
