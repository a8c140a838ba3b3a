//! Users and groups, which are both roles.

use exec::{Context, Result, function};
use value::Value;

use super::roles::{Kind, Wish, create, list, remove, update};
use super::server::Server;

/// Returns the roles of a server by name, with ``return_password`` also the digests of their passwords; False if the server
/// does not answer.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.user_list
#[function]
fn user_list(
    ctx: &Context,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
    #[default(false)] return_password: bool,
) -> Result<Value> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    // As in Salt a server that does not answer is false, not an error.
    Ok(list(ctx, &server, return_password)?.map_or(false.into(), Value::from))
}

/// Returns information about a role, with ``return_password`` also the digest of its password; None if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.role_get postgres
#[function]
fn role_get(
    ctx: &Context,
    name: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
    #[default(false)] return_password: bool,
) -> Result<Value> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let all = list(ctx, &server, return_password)?;
    // Null also when the server does not answer, as in Salt.
    Ok(all.and_then(|all| all.get(&name).cloned()).unwrap_or_default())
}

/// Returns whether a role exists.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.user_exists 'username'
#[function]
fn user_exists(
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
    // A server that does not answer has no users, so `postgres_user.absent` succeeds there, as in Salt.
    Ok(list(ctx, &server, false)?.is_some_and(|all| all.contains_key(&name)))
}

/// Makes a user, and returns whether it was made. An existing one is not changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.user_create 'username' rolepassword='secret'
#[function]
fn user_create(
    ctx: &Context,
    username: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    #[default(Value::Null)] createdb: Value,
    #[default(Value::Null)] createroles: Value,
    #[default(Value::Null)] inherit: Value,
    #[default(Value::Null)] login: Value,
    #[default(Value::Null)] connlimit: Value,
    #[default(Value::Null)] encrypted: Value,
    #[default(Value::Null)] superuser: Value,
    #[default(Value::Null)] replication: Value,
    #[default(Value::Null)] rolepassword: Value,
    #[default(Value::Null)] valid_until: Value,
    #[default(Value::Null)] groups: Value,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let wish = Wish {
        createdb,
        createroles,
        inherit,
        login,
        connlimit,
        encrypted,
        superuser,
        replication,
        rolepassword,
        valid_until,
        groups,
    };
    // The kind only decides whether the role may log in when `login` is not given.
    create(ctx, &server, &username, Kind::User, &wish)
}

/// Changes a user, and returns whether it was changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.user_update 'username' rolepassword='secret'
#[function]
fn user_update(
    ctx: &Context,
    username: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    #[default(Value::Null)] createdb: Value,
    #[default(Value::Null)] createroles: Value,
    #[default(Value::Null)] encrypted: Value,
    #[default(Value::Null)] superuser: Value,
    #[default(Value::Null)] inherit: Value,
    #[default(Value::Null)] login: Value,
    #[default(Value::Null)] connlimit: Value,
    #[default(Value::Null)] replication: Value,
    #[default(Value::Null)] rolepassword: Value,
    #[default(Value::Null)] valid_until: Value,
    #[default(Value::Null)] groups: Value,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let wish = Wish {
        createdb,
        createroles,
        encrypted,
        superuser,
        inherit,
        login,
        connlimit,
        replication,
        rolepassword,
        valid_until,
        groups,
    };
    // No kind: an update leaves `login` and `inherit` alone when they are not given.
    update(ctx, &server, &username, &wish)
}

/// Removes a user. Returns whether it was removed: False if it did not exist.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.user_remove 'username'
#[function]
fn user_remove(
    ctx: &Context,
    username: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    remove(ctx, &server, &username)
}

/// Makes a group, and returns whether it was made. An existing one is not changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.group_create 'groupname' rolepassword='secret'
#[function]
fn group_create(
    ctx: &Context,
    groupname: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    #[default(Value::Null)] createdb: Value,
    #[default(Value::Null)] createroles: Value,
    #[default(Value::Null)] encrypted: Value,
    #[default(Value::Null)] login: Value,
    #[default(Value::Null)] inherit: Value,
    #[default(Value::Null)] superuser: Value,
    #[default(Value::Null)] replication: Value,
    #[default(Value::Null)] rolepassword: Value,
    #[default(Value::Null)] groups: Value,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let wish = Wish {
        createdb,
        createroles,
        encrypted,
        login,
        inherit,
        superuser,
        replication,
        rolepassword,
        groups,
        // Salt's groups take no limit of connections and no date of expiry: both matter only to a role that logs in.
        ..Wish::default()
    };
    create(ctx, &server, &groupname, Kind::Group, &wish)
}

/// Changes a group, and returns whether it was changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.group_update 'groupname' rolepassword='secret'
#[function]
fn group_update(
    ctx: &Context,
    groupname: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    #[default(Value::Null)] createdb: Value,
    #[default(Value::Null)] createroles: Value,
    #[default(Value::Null)] encrypted: Value,
    #[default(Value::Null)] inherit: Value,
    #[default(Value::Null)] login: Value,
    #[default(Value::Null)] superuser: Value,
    #[default(Value::Null)] replication: Value,
    #[default(Value::Null)] rolepassword: Value,
    #[default(Value::Null)] groups: Value,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    let wish = Wish {
        createdb,
        createroles,
        encrypted,
        inherit,
        login,
        superuser,
        replication,
        rolepassword,
        groups,
        ..Wish::default()
    };
    update(ctx, &server, &groupname, &wish)
}

/// Removes a group. Returns whether it was removed: False if it did not exist.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' postgres.group_remove 'groupname'
#[function]
fn group_remove(
    ctx: &Context,
    groupname: String,
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    maintenance_db: Option<String>,
    password: Option<String>,
    runas: Option<String>,
) -> Result<bool> {
    let server = Server { user, host, port, maintenance_db, password, runas };
    // A group is a role, so this would remove a user of that name too, as in Salt.
    remove(ctx, &server, &groupname)
}
