//! Connections to the server, and statements that are repeated over another one when theirs was closed.

use std::sync::{Mutex, PoisonError};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, DriverError, Error, FromRowError, IoError, Opts, Params, Pool, Row, ServerError};

use super::table;
use crate::banks::{Failure, Outcome};

/// The number of times that a statement is repeated.
const REPEATS: usize = 2;

/// What a server says when it closes a connection: `ER_SERVER_SHUTDOWN`, MariaDB's `ER_CONNECTION_KILLED`, and MySQL's
/// `ER_CLIENT_INTERACTION_TIMEOUT`.
const CLOSING: [u16; 3] = [1053, 1927, 4031];

/// `ER_LOCK_DEADLOCK`. In a Galera cluster, masters that write the same row through different servers get it, too.
const DEADLOCK: u16 = 1213;

/// The length to which a server's reason is cut, in characters.
const LONGEST_REASON: usize = 600;

/// The connections to one server.
pub(super) struct Connections {
    opts: Opts,
    fresh: bool,
    /// Created by the first request: it needs the runtime of the requests.
    pool: Mutex<Option<Pool>>,
}

/// What a statement did.
pub(super) struct Done {
    pub(super) rows: Vec<Row>,
    pub(super) changed: u64,
}

impl Connections {
    pub(super) fn new(opts: Opts, fresh: bool) -> Self {
        Connections { opts, fresh, pool: Mutex::default() }
    }

    /// Runs a statement on a table. All statements can be repeated. So one whose connection was closed runs over another one,
    /// and one for which the table or a column is missing runs after that was created.
    pub(super) async fn run(&self, table: &str, statement: &str, values: impl Into<Params>) -> Outcome<Done> {
        let values = values.into();
        for _ in 0..REPEATS {
            let mut connection = self.connection().await?;
            let error = match execute(&mut connection, statement, values.clone()).await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            match &error {
                Error::Server(ServerError { code: DEADLOCK, .. }) => {}
                Error::Server(ServerError { code, .. }) if CLOSING.contains(code) => self.reconnect(),
                Error::Server(ServerError { code, .. }) => {
                    if !table::add_missing(&mut connection, *code, table).await.map_err(failed)? {
                        return Err(failed(error));
                    }
                }
                // The other connections are as old as this one, and probably closed, too.
                _ => self.reconnect(),
            }
        }
        execute(&mut self.connection().await?, statement, values).await.map_err(failed)
    }

    async fn connection(&self) -> Outcome<Conn> {
        match self.fresh {
            true => Conn::new(self.opts.clone()).await,
            false => self.pool().get_conn().await,
        }
        .map_err(failed)
    }

    fn pool(&self) -> Pool {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.get_or_insert_with(|| Pool::new(self.opts.clone())).clone()
    }

    /// Lets the next statement open another connection.
    pub(super) fn reconnect(&self) {
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

async fn execute(connection: &mut Conn, statement: &str, values: Params) -> Result<Done, Error> {
    let rows = connection.exec(statement, values).await?;
    Ok(Done { rows, changed: connection.affected_rows() })
}

/// Returns the reason for a failure, without the library's words around it.
fn failed(error: Error) -> Failure {
    let reason = match error {
        Error::Server(ServerError { code, message, .. }) => format!("error {code}: {message}"),
        Error::Io(IoError::Io(error)) => error.to_string(),
        Error::Io(IoError::Tls(error)) => error.to_string(),
        Error::Driver(DriverError::NoClientSslFlagFromServer) => "the server has no TLS".to_owned(),
        Error::Driver(error) => error.to_string(),
        error => error.to_string(),
    };
    Failure::new(reason.chars().take(LONGEST_REASON).collect::<String>())
}

/// The failure of a row that does not have the types of the columns. It does not show the row.
pub(super) fn unlike(table: &str) -> impl FnOnce(FromRowError) -> Failure {
    let reason = format!("the columns of the table '{table}' are not of the types that Salt gives them");
    move |_| Failure::new(reason)
}
