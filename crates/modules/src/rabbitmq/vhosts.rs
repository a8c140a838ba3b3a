//! Virtual hosts.

use exec::{Context, Result, function};
use value::Map;

use super::answer;
use super::tool::control;

fn vhosts(ctx: &Context, runas: &Option<String>) -> Result<Vec<String>> {
    Ok(answer::all_words(&control(ctx, ["list_vhosts", "-q"], runas)?.output()?))
}

/// Returns the virtual hosts.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_vhosts
#[function]
fn list_vhosts(ctx: &Context, runas: Option<String>) -> Result<Vec<String>> {
    vhosts(ctx, &runas)
}

/// Returns whether there is a virtual host of this name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.vhost_exists rabbit_host
#[function]
fn vhost_exists(ctx: &Context, name: String, runas: Option<String>) -> Result<bool> {
    Ok(vhosts(ctx, &runas)?.contains(&name))
}

/// Adds a virtual host, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.add_vhost '<vhost_name>'
#[function]
fn add_vhost(ctx: &Context, vhost: String, runas: Option<String>) -> Result<Map> {
    control(ctx, ["add_vhost", &vhost], &runas)?.under("Added")
}

/// Deletes a virtual host, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.delete_vhost '<vhost_name>'
#[function]
fn delete_vhost(ctx: &Context, vhost: String, runas: Option<String>) -> Result<Map> {
    control(ctx, ["delete_vhost", &vhost], &runas)?.under("Deleted")
}
