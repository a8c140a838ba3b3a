//! The table of the driver.

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Error, ServerError};

/// `ER_NO_SUCH_TABLE`
const NO_TABLE: u16 = 1146;

/// `ER_BAD_FIELD_ERROR`
const NO_COLUMN: u16 = 1054;

/// `ER_DUP_FIELDNAME`
const HAS_COLUMN: u16 = 1060;

/// Creates the table if a statement failed because it is missing, or the column for times, which the table of an old Salt does
/// not have. Returns whether the statement can be repeated.
pub(super) async fn add_missing(connection: &mut Conn, code: u16, table: &str) -> Result<bool, Error> {
    let statement = match code {
        NO_TABLE => create(table),
        NO_COLUMN => format!(
            "ALTER TABLE `{table}` ADD COLUMN last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE \
             CURRENT_TIMESTAMP"
        ),
        _ => return Ok(false),
    };
    tracing::info!("mysql: {statement}");
    match connection.query_drop(statement).await {
        // Another master was faster.
        Err(Error::Server(ServerError { code: HAS_COLUMN, .. })) => Ok(true),
        done => done.map(|()| true),
    }
}

/// As Salt creates it, but with names that differ in case as different names: minions are told apart by it.
fn create(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS `{table}` (bank CHAR(255), etcd_key CHAR(255), data MEDIUMBLOB, last_update TIMESTAMP \
         NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (bank, etcd_key)) CHARACTER SET \
         utf8mb4 COLLATE utf8mb4_bin"
    )
}
