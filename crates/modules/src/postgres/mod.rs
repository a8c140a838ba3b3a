//! `postgres` — databases, roles, schemas and privileges of a PostgreSQL server, through the program `psql`.

mod csv;
mod databases;
mod datadir;
mod extensions;
mod languages;
mod objects;
mod owner;
mod password;
mod privileges;
mod roles;
mod schemas;
mod server;
mod tablespaces;
mod users;

use exec::{Call, Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "postgres",
    "Functions that look at a PostgreSQL server and change it.",
    &[
        &extensions::AVAILABLE_EXTENSIONS,
        &extensions::CREATE_EXTENSION,
        &extensions::CREATE_METADATA,
        &datadir::DATADIR_EXISTS,
        &datadir::DATADIR_INIT,
        &databases::DB_ALTER,
        &databases::DB_CREATE,
        &databases::DB_EXISTS,
        &databases::DB_LIST,
        &databases::DB_REMOVE,
        &extensions::DROP_EXTENSION,
        &extensions::GET_AVAILABLE_EXTENSION,
        &extensions::GET_INSTALLED_EXTENSION,
        &users::GROUP_CREATE,
        &users::GROUP_REMOVE,
        &users::GROUP_UPDATE,
        &privileges::HAS_PRIVILEGES,
        &extensions::INSTALLED_EXTENSIONS,
        &extensions::IS_AVAILABLE_EXTENSION,
        &extensions::IS_INSTALLED_EXTENSION,
        &languages::LANGUAGE_CREATE,
        &languages::LANGUAGE_EXISTS,
        &languages::LANGUAGE_LIST,
        &languages::LANGUAGE_REMOVE,
        &owner::OWNER_TO,
        &privileges::PRIVILEGES_GRANT,
        &privileges::PRIVILEGES_LIST,
        &privileges::PRIVILEGES_REVOKE,
        &PSQL_QUERY,
        &users::ROLE_GET,
        &schemas::SCHEMA_CREATE,
        &schemas::SCHEMA_EXISTS,
        &schemas::SCHEMA_GET,
        &schemas::SCHEMA_LIST,
        &schemas::SCHEMA_REMOVE,
        &tablespaces::TABLESPACE_ALTER,
        &tablespaces::TABLESPACE_CREATE,
        &tablespaces::TABLESPACE_EXISTS,
        &tablespaces::TABLESPACE_LIST,
        &tablespaces::TABLESPACE_REMOVE,
        &users::USER_CREATE,
        &users::USER_EXISTS,
        &users::USER_LIST,
        &users::USER_REMOVE,
        &users::USER_UPDATE,
        &VERSION,
    ],
)
.only_if(|_| util::which("psql").map(drop).ok_or_else(|| "psql was not found".into()));

/// Returns the version of the server; None if it does not answer.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.version
#[function]
fn version(
    ctx: &Context,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Option<String>> {
    let version = server::Server { user, host, port, maintenance_db, password, runas }.version(ctx)?;
    Ok(Some(version).filter(|version| !version.is_empty()))
}

/// Runs a query that answers with rows, and returns them: the texts of the columns by their names; none when the query fails.
/// With ``write`` the query may change something.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.psql_query 'select * from pg_stat_activity'
#[function]
fn psql_query(
    ctx: &Context,
    query: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
    #[default(false)] write: bool,
) -> Result<Vec<Map>> {
    let server = server::Server { user, host, port, maintenance_db, password, runas };
    if write { server.write(ctx, &query) } else { server.query(ctx, &query) }
}

/// Returns a password as the server keeps it (md5 by default; `encrypted` is a method or a flag).
///
/// # Errors
/// For a method that the server does not know.
pub fn kept_password(role: &str, password: &str, encrypted: &Value) -> Result<String> {
    password::kept(role, password, password::Method::of(encrypted)?)
}

/// Returns whether a password is the one the server keeps.
///
/// # Errors
/// For a method that the server does not know.
pub fn is_password(role: &str, password: &str, kept: &str, encrypted: &Value) -> Result<bool> {
    password::fits(role, password, kept, password::Method::of(encrypted)?)
}

/// An option of the minion, or of its pillar; an empty one counts as none.
fn option(ctx: &Context, name: &str) -> Option<String> {
    util::config_get(ctx, name).filter(Value::truthy).map(|value| value.to_string())
}

/// Finds a program of PostgreSQL, first in the directory of the option `postgres.bins_dir`.
fn program(ctx: &Context, name: &str) -> Option<String> {
    let there = option(ctx, "postgres.bins_dir").map(|folder| format!("{}/{name}", folder.trim_end_matches('/')));
    there
        // Debian keeps the tools of every version in a separate folder, out of the PATH.
        .and_then(|path| util::which(&path))
        .map(|path| path.to_string_lossy().into_owned())
        .or_else(|| util::program(ctx, name))
}

/// The user that PostgreSQL runs as.
fn system_user(ctx: &Context) -> String {
    let open = ctx.grains.get_str("os_family").is_some_and(|family| family.contains("OpenBSD"));
    // The user that owns the server and may connect without a password.
    if open { "_postgresql" } else { "postgres" }.to_owned()
}

/// A file with a secret, which is for one user alone. It goes when it is dropped.
fn secret_file(ctx: &Context, text: &str, user: Option<&str>) -> Result<tempfile::TempPath> {
    use std::io::Write;
    let failed = |error: std::io::Error| Error::execution(format!("failed to write a file for a password: {error}"));
    // Temporary files are readable by their owner only. The owner changes after the secret is
    // inside.
    let mut file = tempfile::Builder::new().prefix("salt-").tempfile().map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let file = file.into_temp_path();
    ctx.call("file.chown", vec![file.to_string_lossy().into_owned().into(), user.into(), "".into()])?;
    Ok(file)
}

/// Removes a file with a secret now.
fn remove_secret(ctx: &Context, file: tempfile::TempPath) -> Result<()> {
    let removed = ctx.call("file.remove", vec![file.to_string_lossy().into_owned().into()])?;
    if !removed.truthy() {
        tracing::warn!("a file for a password was not removed: {}", file.display());
    }
    Ok(())
}

/// Runs a command with `cmd.run_all` and a clean environment.
fn run(ctx: &Context, command: Value, more: Map) -> Result<Map> {
    let timeout = util::config_get(ctx, "postgres.timeout").unwrap_or(0.into());
    // A clean environment: variables of the minion such as `PGHOST` must not lead elsewhere.
    let mut kwargs = map! { "python_shell" => false, "clean_env" => true, "timeout" => timeout };
    kwargs.update(more);
    let said = ctx.call_with("cmd.run_all", Call { args: vec![command], kwargs })?;
    Ok(said.into_map().unwrap_or_default())
}

/// Returns whether a command succeeded.
fn succeeded(said: &Map) -> bool {
    said.get("retcode").and_then(Value::as_i64) == Some(0)
}
