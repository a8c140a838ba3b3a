//! Salt's driver `mysql`: a row for each value, in a table of MySQL or MariaDB.
//!
//! The table has the columns `bank`, `etcd_key`, `data` and `last_update`; the first two are its primary key. It is created when
//! it is missing, as Salt does.

mod connections;
mod queries;
mod rows;
mod table;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;

use mysql_async::{Opts, OptsBuilder, PoolConstraints, PoolOpts};

use crate::{Banks, Result};
use connections::Connections;
pub use tls::{Identity, Tls};

/// The connections that are open at once at most.
const CONNECTIONS: usize = 8;

/// The time after which an unused connection is closed.
const UNUSED: std::time::Duration = std::time::Duration::from_secs(60);

/// The longest packet that is sent or accepted. The longest value of a table is as long.
const LONGEST_PACKET: usize = 16 << 20;

/// What each connection sets: times without the ambiguous hour in autumn; values and names that are too long are refused, not
/// cut, whatever the server prefers; and each statement is a transaction.
const SETUP: &str = "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1";

/// The server, the credentials and the table.
#[derive(Clone, PartialEq)]
pub struct Server {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its Unix socket, which wins over host and port.
    pub socket: Option<PathBuf>,
    /// The user.
    pub user: String,
    /// The password.
    pub password: Option<String>,
    /// The database, which must exist.
    pub database: String,
    /// The table: letters, digits, `_` and `$`.
    pub table: String,
    /// TLS, which a Unix socket does not need.
    pub tls: Option<Tls>,
    /// Each request has a connection of its own.
    pub fresh: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        f.debug_struct("Server").field("address", &self.address()).field("table", &self.table).finish_non_exhaustive()
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

    /// Returns the driver. Nothing is connected yet.
    ///
    /// # Errors
    /// If a file with certificates cannot be used.
    pub fn banks(self) -> Result<Arc<dyn Banks>> {
        let connections = Connections::new(self.opts()?, self.fresh);
        Ok(Arc::new(MySql { table: self.table, connections }))
    }

    fn opts(&self) -> Result<Opts> {
        // A connection has no state that a reset would have to clear, and a reset forgets prepared statements.
        let pool = PoolOpts::new().with_reset_connection(false).with_inactive_connection_ttl(UNUSED);
        let pool = pool.with_constraints(PoolConstraints::new(0, CONNECTIONS).unwrap_or_default());
        let tls = self.tls.as_ref().filter(|_| self.socket.is_none()).map(Tls::load).transpose()?;
        let opts = OptsBuilder::default()
            .ip_or_hostname(self.host.as_str())
            .tcp_port(self.port)
            .socket(self.socket.as_ref().map(|path| path.display().to_string()))
            // Otherwise it would ask a server on this host for its socket and connect there.
            .prefer_socket(self.socket.is_some())
            .user(Some(self.user.as_str()))
            .pass(self.password.as_deref())
            .db_name(Some(self.database.as_str()))
            .ssl_opts(tls)
            .pool_opts(pool)
            .max_allowed_packet(Some(LONGEST_PACKET))
            .setup(vec![SETUP]);
        Ok(opts.into())
    }
}

struct MySql {
    table: String,
    connections: Connections,
}
