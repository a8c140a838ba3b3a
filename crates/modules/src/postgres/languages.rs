//! Languages that functions are written in.

use exec::{Context, Result, function};
use value::Map;

use super::server::Server;

fn list(ctx: &Context, server: &Server) -> Result<Map> {
    let rows = server.query(ctx, "SELECT lanname AS \"Name\" FROM pg_language")?;
    Ok(rows.iter().filter_map(|row| row.get_str("Name")).map(|name| (name, name)).collect())
}

/// Returns the languages of a database.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.language_list dbname
#[function]
fn language_list(
    ctx: &Context,
    maintenance_db: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Map> {
    let server = Server { user, host, port, maintenance_db: Some(maintenance_db), password, runas };
    list(ctx, &server)
}

/// Returns whether a database has a language.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.language_exists plpgsql dbname
#[function]
fn language_exists(
    ctx: &Context,
    name: String,
    maintenance_db: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db: Some(maintenance_db), password, runas };
    Ok(list(ctx, &server)?.contains_key(&name))
}

/// Adds a language to a database, and returns whether it was added.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.language_create plpgsql dbname
#[function]
fn language_create(
    ctx: &Context,
    name: String,
    maintenance_db: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db: Some(maintenance_db), password, runas };
    if list(ctx, &server)?.contains_key(&name) {
        tracing::info!("the language {name} already exists");
        return Ok(false);
    }
    // A language's name is not quoted in Salt, so that `plpgsql` in any case works.
    server.run(ctx, &format!("CREATE LANGUAGE {name}"))
}

/// Removes a language from a database, and returns whether it was removed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.language_remove plpgsql dbname
#[function]
fn language_remove(
    ctx: &Context,
    name: String,
    maintenance_db: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db: Some(maintenance_db), password, runas };
    if !list(ctx, &server)?.contains_key(&name) {
        tracing::info!("there is no language {name}");
        return Ok(false);
    }
    server.run(ctx, &format!("DROP LANGUAGE {name}"))
}
