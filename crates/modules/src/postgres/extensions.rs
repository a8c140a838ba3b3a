//! Extensions.

use exec::{Context, Result, function};
use value::{Map, Value};

use super::server::{Server, identifier};
use crate::pkg_resource::compare_loosely;

// Salt's names, which `postgres_extension.present` uses, too.
const MISSING: &str = "EXTENSION NOT INSTALLED";
const INSTALLED: &str = "EXTENSION INSTALLED";
const OLD: &str = "EXTENSION TO UPGRADE";
const ELSEWHERE: &str = "EXTENSION TO MOVE";

/// The rows that have both keys, by the first one.
fn listed(rows: Vec<Map>, name: &str, version: &str) -> Map {
    // A row without the column is a message of psql and no extension.
    let rows = rows.into_iter().filter(|row| row.contains_key(version));
    rows.filter_map(|row| Some((row.get_str(name)?.to_owned(), row))).collect()
}

fn available(ctx: &Context, server: &Server) -> Result<Map> {
    let rows = server.query(ctx, "select * from pg_available_extensions();")?;
    Ok(listed(rows, "name", "default_version"))
}

fn installed(ctx: &Context, server: &Server) -> Result<Map> {
    let query =
        "select a.*, b.nspname as schema_name from pg_extension a,  pg_namespace b where a.extnamespace = b.oid;";
    Ok(listed(server.query(ctx, query)?, "extname", "extversion"))
}

/// Compares an installed extension with the wanted one, in Salt's words.
fn metadata(
    ctx: &Context,
    server: &Server,
    name: &str,
    version: Option<&str>,
    schema: Option<&str>,
) -> Result<Vec<&'static str>> {
    let known = installed(ctx, server)?;
    let Some(known) = known.get(name).and_then(Value::as_map) else { return Ok(vec![MISSING]) };
    let mut found = vec![INSTALLED];
    let has = known.get_str("extversion").unwrap_or_default();
    // A version that is newer than wanted is left alone, as in Salt.
    if version.is_some_and(|wanted| compare_loosely(has, wanted, false) < 0) {
        found.push(OLD);
    }
    let movable = known.get_str("extrelocatable") == Some("t");
    if movable && schema.is_some_and(|wanted| known.get_str("schema_name") != Some(wanted)) {
        found.push(ELSEWHERE);
    }
    Ok(found)
}

/// Returns the available extensions, by name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.available_extensions
#[function]
fn available_extensions(
    ctx: &Context,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Map> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    available(ctx, &server)
}

/// Returns the installed extensions, by name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.installed_extensions
#[function]
fn installed_extensions(
    ctx: &Context,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Map> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    installed(ctx, &server)
}

/// Returns information about an available extension.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.get_available_extension plpgsql
#[function]
fn get_available_extension(
    ctx: &Context,
    name: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Value> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    Ok(available(ctx, &server)?.get(&name).cloned().unwrap_or_default())
}

/// Returns information about an installed extension.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.get_installed_extension plpgsql
#[function]
fn get_installed_extension(
    ctx: &Context,
    name: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Value> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    Ok(installed(ctx, &server)?.get(&name).cloned().unwrap_or_default())
}

/// Returns whether an extension is available; case is ignored.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.is_available_extension plpgsql
#[function]
fn is_available_extension(
    ctx: &Context,
    name: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let name = name.to_lowercase();
    Ok(available(ctx, &server)?.text_keys().any(|known| known.to_lowercase() == name))
}

/// Returns whether an extension is installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.is_installed_extension plpgsql
#[function]
fn is_installed_extension(
    ctx: &Context,
    name: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    Ok(installed(ctx, &server)?.contains_key(&name))
}

/// Returns the message that an extension is installed, old, or in another schema.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.create_metadata adminpack
#[function]
fn create_metadata(
    ctx: &Context,
    name: String,
    ext_version: Option<String>,
    schema: Option<String>,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Vec<&'static str>> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    metadata(ctx, &server, &name, ext_version.as_deref(), schema.as_deref())
}

/// Removes an extension, by default with its dependents, and returns whether it is gone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.drop_extension 'adminpack'
#[function]
fn drop_extension(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] if_exists: Value,
    #[default(Value::Null)] restrict: Value,
    #[default(Value::Null)] cascade: Value,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let on = |flag: Value, usual: bool| if flag.is_null() { usual } else { flag.truthy() };
    let mut words = vec!["DROP EXTENSION"];
    words.extend(on(if_exists, false).then_some("IF EXISTS"));
    let quoted = identifier(&name);
    // Without quotes PostgreSQL folds a name to lower case. Names such as `uuid-ossp` need them.
    words.push(if name.contains(|c: char| c != '_' && !c.is_ascii_alphanumeric()) { &quoted } else { &name });
    words.extend(on(cascade, true).then_some("CASCADE"));
    words.extend(on(restrict, false).then_some("RESTRICT"));
    words.push(";");
    if installed(ctx, &server)?.contains_key(&name) {
        server.run(ctx, &words.join(" "))?;
    }
    Ok(!installed(ctx, &server)?.contains_key(&name))
}

/// Installs an extension, or changes its version or schema; returns whether it is in the wanted state now.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.create_extension 'adminpack'
#[function]
fn create_extension(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] if_not_exists: Value,
    schema: Option<String>,
    ext_version: Option<String>,
    from_version: Option<String>,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let (version, place) = (ext_version.as_deref(), schema.as_deref());
    let before = metadata(ctx, &server, &name, version, place)?;
    let can = available(ctx, &server)?.text_keys().any(|known| known.eq_ignore_ascii_case(&name));
    let query = match before.contains(&MISSING) {
        true => {
            let unless = if if_not_exists.is_null() || if_not_exists.truthy() { "IF NOT EXISTS " } else { "" };
            creation(&name, unless, place, version, from_version.as_deref())
        }
        false => change(&name, &before, place, version),
    };
    // Without the files of the extension the statement would fail. The result then says that nothing was done.
    if can && !query.is_empty() {
        server.run(ctx, &query)?;
    }
    Ok(metadata(ctx, &server, &name, version, place)? == [INSTALLED])
}

fn creation(name: &str, unless: &str, schema: Option<&str>, version: Option<&str>, from: Option<&str>) -> String {
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let with = [
        given(schema).map(|schema| format!("SCHEMA {}", identifier(&schema))),
        given(version).map(|version| format!("VERSION {version}")),
        given(from).map(|from| format!("FROM {from}")),
    ];
    let with: Vec<String> = with.into_iter().flatten().collect();
    let with = if with.is_empty() { String::new() } else { format!("WITH {} ", with.join(" ")) };
    format!("CREATE EXTENSION {unless}{} {with};", identifier(name))
}

fn change(name: &str, before: &[&str], schema: Option<&str>, version: Option<&str>) -> String {
    let schema = schema.filter(|_| before.contains(&ELSEWHERE));
    let version = version.filter(|_| before.contains(&OLD));
    let name = identifier(name);
    let queries = [
        schema.map(|schema| format!("ALTER EXTENSION {name} SET SCHEMA {};", identifier(schema))),
        version.map(|version| format!("ALTER EXTENSION {name} UPDATE TO {version};")),
    ];
    queries.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
