//! Schemas.

use exec::{Context, Result, function};
use value::{Map, Value};

use super::server::{Server, identifier};

fn list(ctx: &Context, server: &Server) -> Result<Map> {
    // A left join, so that a schema whose owner is gone still shows.
    let query = "SELECT pg_namespace.nspname as \"name\",pg_namespace.nspacl as \"acl\", pg_roles.rolname as \"owner\" \
                 FROM pg_namespace LEFT JOIN pg_roles ON pg_roles.oid = pg_namespace.nspowner ";
    let rows = server.query(ctx, query)?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let part = |key: &str| (key.to_owned(), row.get(key).cloned().unwrap_or_default());
            Some((row.get_str("name")?, [part("owner"), part("acl")].into_iter().collect::<Map>()))
        })
        .collect())
}

/// Returns the schemas of a database by name: owner and privileges.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.schema_list dbname
#[function]
fn schema_list(
    ctx: &Context,
    dbname: String,
    user: Option<String>,
    db_user: Option<String>,
    db_password: Option<String>,
    db_host: Option<String>,
    db_port: Option<String>,
) -> Result<Map> {
    let server = Server {
        user: db_user,
        host: db_host,
        port: db_port,
        maintenance_db: Some(dbname),
        password: db_password,
        runas: user,
    };
    list(ctx, &server)
}

/// Returns information about a schema.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.schema_get dbname name
#[function]
fn schema_get(
    ctx: &Context,
    dbname: String,
    name: String,
    user: Option<String>,
    db_user: Option<String>,
    db_password: Option<String>,
    db_host: Option<String>,
    db_port: Option<String>,
) -> Result<Value> {
    let server = Server {
        user: db_user,
        host: db_host,
        port: db_port,
        maintenance_db: Some(dbname),
        password: db_password,
        runas: user,
    };
    Ok(list(ctx, &server)?.get(&name).cloned().unwrap_or_default())
}

/// Returns whether a schema exists.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.schema_exists dbname schemaname
#[function]
fn schema_exists(
    ctx: &Context,
    dbname: String,
    name: String,
    user: Option<String>,
    db_user: Option<String>,
    db_password: Option<String>,
    db_host: Option<String>,
    db_port: Option<String>,
) -> Result<bool> {
    let server = Server {
        user: db_user,
        host: db_host,
        port: db_port,
        maintenance_db: Some(dbname),
        password: db_password,
        runas: user,
    };
    Ok(list(ctx, &server)?.contains_key(&name))
}

/// Makes a schema, and returns whether it was made. An existing one is not changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.schema_create dbname name owner='owner'
#[function]
fn schema_create(
    ctx: &Context,
    dbname: String,
    name: String,
    owner: Option<String>,
    user: Option<String>,
    db_user: Option<String>,
    db_password: Option<String>,
    db_host: Option<String>,
    db_port: Option<String>,
) -> Result<bool> {
    let server = Server {
        user: db_user,
        host: db_host,
        port: db_port,
        maintenance_db: Some(dbname),
        password: db_password,
        runas: user,
    };
    if list(ctx, &server)?.contains_key(&name) {
        // False means that nothing was made, not that it failed; the states look first.
        tracing::info!("the schema '{name}' already exists");
        return Ok(false);
    }
    let owner = owner.map(|owner| format!(" AUTHORIZATION {}", identifier(&owner))).unwrap_or_default();
    server.run(ctx, &format!("CREATE SCHEMA {}{owner}", identifier(&name)))
}

/// Removes a schema. Returns whether it was removed: False if it did not exist.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.schema_remove dbname schemaname
#[function]
fn schema_remove(
    ctx: &Context,
    dbname: String,
    name: String,
    user: Option<String>,
    db_user: Option<String>,
    db_password: Option<String>,
    db_host: Option<String>,
    db_port: Option<String>,
) -> Result<bool> {
    let server = Server {
        user: db_user,
        host: db_host,
        port: db_port,
        maintenance_db: Some(dbname),
        password: db_password,
        runas: user,
    };
    if !list(ctx, &server)?.contains_key(&name) {
        tracing::info!("there is no schema '{name}'");
        return Ok(false);
    }
    // Without CASCADE, so the server refuses to drop a schema that still has tables; hence the second look.
    server.run(ctx, &format!("DROP SCHEMA {}", identifier(&name)))?;
    Ok(!list(ctx, &server)?.contains_key(&name))
}
