//! Tablespaces.

use exec::{Context, Result, function};
use value::{Map, Value};

use super::server::{Server, by_name, identifier, literal};

/// Returns the tablespaces of a server by name: owner, privileges, options and place.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.tablespace_list
#[function]
fn tablespace_list(
    ctx: &Context,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Map> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let query = "SELECT spcname as \"Name\", pga.rolname as \"Owner\", spcacl as \"ACL\", spcoptions as \"Opts\", \
                 pg_tablespace_location(pgts.oid) as \"Location\" FROM pg_tablespace pgts, pg_roles pga WHERE pga.oid = \
                 pgts.spcowner";
    // Through the public function, as in Salt.
    let call = exec::Call { args: vec![query.into()], kwargs: server.kwargs() };
    let rows = ctx.call_with("postgres.psql_query", call)?.into_list().unwrap_or_default();
    Ok(by_name(rows.into_iter().filter_map(Value::into_map).collect(), "Name"))
}

/// Returns whether a tablespace exists.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.tablespace_exists 'name'
#[function]
fn tablespace_exists(
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
    let all = tablespace_list(
        ctx,
        server.user,
        server.host,
        server.port,
        server.maintenance_db,
        server.password,
        server.runas,
    );
    Ok(all?.contains_key(&name))
}

/// Makes a tablespace in a directory, and returns whether it was made.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.tablespace_create name '/path/datadir'
#[function]
fn tablespace_create(
    ctx: &Context,
    name: String,
    location: String,
    options: Option<Map>,
    owner: Option<String>,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let owner = owner.filter(|owner| !owner.is_empty()).map(|owner| format!("OWNER {}", identifier(&owner)));
    let options: Vec<String> =
        options.unwrap_or_default().iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let with = if options.is_empty() { String::new() } else { format!("WITH ( {} )", options.join(", ")) };
    let (owner, place) = (owner.unwrap_or_default(), literal(&location));
    server.run(ctx, &format!("CREATE TABLESPACE {} {owner} LOCATION {place} {with}", identifier(&name)))
}

/// Changes the name, the owner or an option of a tablespace.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.tablespace_alter name new_owner=otheruser
#[function]
fn tablespace_alter(
    ctx: &Context,
    name: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    new_name: Option<String>,
    new_owner: Option<String>,
    set_option: Option<Map>,
    reset_option: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let name = identifier(&name);
    let mut queries = Vec::new();
    if let Some(new) = given(new_name) {
        queries.push(format!("ALTER TABLESPACE {name} RENAME TO {}", identifier(&new)));
    }
    if let Some(owner) = given(new_owner) {
        queries.push(format!("ALTER TABLESPACE {name} OWNER TO {}", identifier(&owner)));
    }
    if let Some((option, value)) = set_option.as_ref().and_then(|options| options.iter().next()) {
        queries.push(format!("ALTER TABLESPACE {name} SET ({option} = {value})"));
    }
    if let Some(option) = given(reset_option) {
        queries.push(format!("ALTER TABLESPACE {name} RESET ({option})"));
    }
    for query in queries {
        if !server.run(ctx, &query)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a tablespace, and returns whether it was removed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.tablespace_remove name
#[function]
fn tablespace_remove(
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
    server.run(ctx, &format!("DROP TABLESPACE {}", identifier(&name)))
}
