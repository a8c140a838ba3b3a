//! The privileges of roles on objects.

use exec::{Context, Result, function};
use value::Map;

use super::objects::{Object, ObjectPrivileges};
use super::server::{Server, identifier};

fn listed(ctx: &Context, server: &Server, object: &Object<'_>) -> Result<Map> {
    Ok(object.privileges(&server.query(ctx, &object.query())?))
}

fn has(ctx: &Context, server: &Server, role: &str, wanted: &ObjectPrivileges<'_>, grant: bool) -> Result<bool> {
    if let Some(query) = wanted.object.owner_query() {
        let rows = server.query(ctx, &query)?;
        // An owner can do everything, but the access list may not say so.
        if rows.first().and_then(|row| row.get_str("name")) == Some(role) {
            return Ok(true);
        }
    }
    let all = listed(ctx, server, &wanted.object)?;
    Ok(all.get(role).is_some_and(|held| wanted.holds(held, grant)))
}

/// Returns the privileges on an object by role, each with whether the role may grant it; of a group its members, each
/// with whether it may add others. ``prepend`` is the schema of tables, sequences and functions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.privileges_list table_name table maintenance_db=db_name
#[function]
fn privileges_list(
    ctx: &Context,
    name: String,
    object_type: String,
    #[default("public")] prepend: String,
    maintenance_db: Option<String>,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<Map> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let object = Object::new(&object_type, &name, &prepend)?;
    listed(ctx, &server, &object)
}

/// Returns whether a role has privileges, separated by commas, on an object; with ``grant_option`` whether it may grant
/// all of them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.has_privileges user_name table_name table SELECT,INSERT maintenance_db=db_name
#[function]
fn has_privileges(
    ctx: &Context,
    name: String,
    object_name: String,
    object_type: String,
    privileges: Option<String>,
    grant_option: Option<bool>,
    #[default("public")] prepend: String,
    maintenance_db: Option<String>,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let wanted = ObjectPrivileges::new(&object_type, &object_name, &prepend, privileges.as_deref())?;
    has(ctx, &server, &name, &wanted, grant_option.unwrap_or(false))
}

/// Grants privileges, separated by commas, on an object to a role, and returns whether it worked. Privileges that the
/// role has already are not granted again. The object ``ALL`` means all tables, sequences or functions of the schema
/// ``prepend``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.privileges_grant user_name table_name table SELECT,UPDATE maintenance_db=db_name
#[function]
fn privileges_grant(
    ctx: &Context,
    name: String,
    object_name: String,
    object_type: String,
    privileges: Option<String>,
    grant_option: Option<bool>,
    #[default("public")] prepend: String,
    maintenance_db: Option<String>,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let wanted = ObjectPrivileges::new(&object_type, &object_name, &prepend, privileges.as_deref())?;
    if has(ctx, &server, &name, &wanted, false)? {
        tracing::info!("{name} has the privileges on {object_name} already");
        return Ok(false);
    }
    let grant = grant_option.unwrap_or(false);
    server.run(ctx, &wanted.grant(&identifier(&name), grant))
}

/// Revokes privileges, separated by commas, on an object from a role, and returns whether it worked. Privileges that
/// the role does not have are not revoked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.privileges_revoke user_name table_name table SELECT,UPDATE maintenance_db=db_name
#[function]
fn privileges_revoke(
    ctx: &Context,
    name: String,
    object_name: String,
    object_type: String,
    privileges: Option<String>,
    #[default("public")] prepend: String,
    maintenance_db: Option<String>,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let wanted = ObjectPrivileges::new(&object_type, &object_name, &prepend, privileges.as_deref())?;
    if !has(ctx, &server, &name, &wanted, false)? {
        tracing::info!("{name} does not have the privileges on {object_name}");
        return Ok(false);
    }
    server.run(ctx, &wanted.revoke(&name))
}
