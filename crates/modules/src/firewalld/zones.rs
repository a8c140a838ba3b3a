//! Zones, and functions for all of them.

use exec::{Context, Result, function};
use value::Map;

use super::{all_of, lasting, managed, run, words, zones};

/// Returns the version of firewalld.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.version
#[function]
fn version(ctx: &Context) -> Result<String> {
    run(ctx, "--version")
}

/// Activates the permanent settings.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.reload_rules
#[function]
fn reload_rules(ctx: &Context) -> Result<String> {
    // Changes that were made only in the running firewall and not permanently are lost.
    run(ctx, "--reload")
}

/// Returns the default zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.default_zone
#[function]
fn default_zone(ctx: &Context) -> Result<String> {
    run(ctx, "--get-default-zone")
}

/// Makes the active settings permanent.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.make_permanent
#[function]
fn make_permanent(ctx: &Context) -> Result<String> {
    run(ctx, "--runtime-to-permanent")
}

/// Returns the names of all zones.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_zones
#[function]
fn get_zones(ctx: &Context, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting("--get-zones", permanent))
}

/// Returns the names of all services.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_services
#[function]
fn get_services(ctx: &Context, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting("--get-services", permanent))
}

/// Returns the names of all kinds of ICMP packets.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_icmp_types
#[function]
fn get_icmp_types(ctx: &Context, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting("--get-icmptypes", permanent))
}

/// Makes a zone; ``restart`` activates it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.new_zone my_zone
#[function]
fn new_zone(ctx: &Context, zone: String, #[default(true)] restart: bool) -> Result<String> {
    managed(ctx, &format!("--new-zone={zone} --permanent"), restart)
}

/// Deletes a zone; ``restart`` activates that.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.delete_zone my_zone
#[function]
fn delete_zone(ctx: &Context, zone: String, #[default(true)] restart: bool) -> Result<String> {
    managed(ctx, &format!("--delete-zone={zone} --permanent"), restart)
}

/// Makes a service; ``restart`` activates it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.new_service my_service
#[function]
fn new_service(ctx: &Context, name: String, #[default(true)] restart: bool) -> Result<String> {
    managed(ctx, &format!("--new-service={name} --permanent"), restart)
}

/// Deletes a service; ``restart`` activates that.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.delete_service my_service
#[function]
fn delete_service(ctx: &Context, name: String, #[default(true)] restart: bool) -> Result<String> {
    managed(ctx, &format!("--delete-service={name} --permanent"), restart)
}

/// Sets the default zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.set_default_zone damian
#[function]
fn set_default_zone(ctx: &Context, zone: String) -> Result<String> {
    run(ctx, &format!("--set-default-zone={zone}"))
}

/// Returns all zones with all their settings.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.list_zones
#[function]
fn list_zones(ctx: &Context, #[default(true)] permanent: bool) -> Result<Map> {
    Ok(zones(&run(ctx, &lasting("--list-all-zones", permanent))?))
}

/// Returns all settings of a zone, by default of the default one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.list_all my_zone
#[function]
fn list_all(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<Map> {
    all_of(ctx, zone, permanent)
}
