//! The permissions of users in virtual hosts.

use exec::{Context, Result, function};
use value::Map;

use super::answer;
use super::tool::control;

/// Sets which resources of a virtual host a user may configure, write and read, as patterns of their names. Returns the
/// output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.set_permissions myvhost myuser
#[function]
fn set_permissions(
    ctx: &Context,
    vhost: String,
    user: String,
    #[default(".*")] conf: String,
    #[default(".*")] write: String,
    #[default(".*")] read: String,
    runas: Option<String>,
) -> Result<Map> {
    let command = ["set_permissions", "-p", &vhost, &user, &conf, &write, &read];
    control(ctx, command, &runas)?.under("Permissions Set")
}

/// Returns the permissions of users in a virtual host.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_permissions /myvhost
#[function]
fn list_permissions(ctx: &Context, vhost: String, runas: Option<String>) -> Result<Map> {
    // Plain columns cannot distinguish an empty pattern from a missing one, JSON can.
    let said = control(ctx, ["list_permissions", "--formatter=json", "-p", &vhost], &runas)?;
    answer::keyed(&said.stdout, "user")
}

/// Returns the permissions of a user, by virtual host.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_user_permissions user
#[function]
fn list_user_permissions(ctx: &Context, name: String, runas: Option<String>) -> Result<Map> {
    let said = control(ctx, ["list_user_permissions", &name, "--formatter=json"], &runas)?;
    answer::keyed(&said.stdout, "vhost")
}
