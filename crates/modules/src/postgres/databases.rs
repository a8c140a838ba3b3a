//! Databases.

use exec::{Context, Error, Result, function};
use value::Map;

use super::server::{Server, by_name, identifier, literal, quoted};

/// Returns the databases of a server by name: owner, encoding, collation, privileges and tablespace.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.db_list
#[function]
fn db_list(
    ctx: &Context,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Map> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let query = "SELECT datname as \"Name\", pga.rolname as \"Owner\", pg_encoding_to_char(encoding) as \"Encoding\", datcollate \
                 as \"Collate\", datctype as \"Ctype\", datacl as \"Access privileges\", spcname as \"Tablespace\" FROM \
                 pg_database pgd, pg_roles pga, pg_tablespace pgts WHERE pga.oid = pgd.datdba AND pgts.oid = \
                 pgd.dattablespace";
    Ok(by_name(server.query(ctx, query)?, "Name"))
}

/// Returns whether a database exists.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.db_exists 'dbname'
#[function]
fn db_exists(
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
    let all = db_list(ctx, server.user, server.host, server.port, server.maintenance_db, server.password, server.runas);
    Ok(all?.contains_key(&name))
}

/// Makes a database, and returns whether it was made.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.db_create 'dbname' template=template_postgis
#[function]
fn db_create(
    ctx: &Context,
    name: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    tablespace: Option<String>,
    encoding: Option<String>,
    lc_collate: Option<String>,
    lc_ctype: Option<String>,
    owner: Option<String>,
    template: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let options = [
        ("TABLESPACE", tablespace.map(|name| quoted(&name, '"')).transpose()?),
        ("OWNER", owner.map(|name| quoted(&name, '"')).transpose()?),
        // Salt does not quote the template.
        ("TEMPLATE", template),
        ("ENCODING", encoding.map(|name| quoted(&name, '\'')).transpose()?),
        ("LC_COLLATE", lc_collate.map(|name| quoted(&name, '\'')).transpose()?),
        ("LC_CTYPE", lc_ctype.map(|name| quoted(&name, '\'')).transpose()?),
    ];
    let options: Vec<String> =
        options.into_iter().filter_map(|(word, value)| Some(format!(" {word} = {}", value?))).collect();
    let with = if options.is_empty() { "" } else { " WITH" };
    server.run(ctx, &format!("CREATE DATABASE {}{with}{}", identifier(&name), options.concat()))
}

/// Changes the owner or tablespace of a database; with ``owner_recurse`` the owner of all objects in it, too.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.db_alter dbname owner=otheruser
#[function]
fn db_alter(
    ctx: &Context,
    name: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    tablespace: Option<String>,
    owner: Option<String>,
    #[default(false)] owner_recurse: bool,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let name = identifier(&name);
    let mut well = true;
    if let Some(owner) = owner.filter(|owner| !owner.is_empty()) {
        // Everything in the database changes hands in one transaction, and the tablespace is left
        // alone, as in Salt.
        if owner_recurse {
            let dbname = name.trim_matches('"').to_owned();
            return Ok(super::owner::give(ctx, &server, &dbname, &owner)?.get("retcode") == Some(&0.into()));
        }
        well = server.run(ctx, &format!("ALTER DATABASE {name} OWNER TO {}", identifier(&owner)))?;
    }
    if let Some(tablespace) = tablespace.filter(|tablespace| !tablespace.is_empty()) {
        let query = format!("ALTER DATABASE {name} SET TABLESPACE {}", identifier(&tablespace));
        well = server.run(ctx, &query)? && well;
    }
    Ok(well)
}

/// Removes a database, after its connections were closed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.db_remove 'dbname'
#[function]
fn db_remove(
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
    let queries = [
        // A database with open connections cannot be dropped. So new connections are refused, existing ones are
        // terminated, and then it is dropped.
        format!("REVOKE CONNECT ON DATABASE {} FROM public;", identifier(&name)),
        format!(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {} AND pid <> pg_backend_pid();",
            literal(&name)
        ),
        format!("DROP DATABASE {};", identifier(&name)),
    ];
    for query in queries {
        let said = server.psql(ctx, &["-c", &query])?;
        if said.get("retcode") != Some(&0.into()) {
            return Err(Error::Other(format!("Failed: ret={said:?}")));
        }
    }
    Ok(true)
}
