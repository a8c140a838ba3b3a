//! Services, and hiding addresses.

use exec::{Context, Result, function};

use super::{lasting, masquerades, require_service, run, words, zoned};

/// Adds a port to a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_service_port zone 80/tcp
#[function]
fn add_service_port(ctx: &Context, service: String, port: String) -> Result<String> {
    // firewall-cmd would answer with a code alone; Salt has words for it.
    require_service(ctx, &service)?;
    run(ctx, &format!("--permanent --service={service} --add-port={port}"))
}

/// Removes a port from a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_service_port zone 80/tcp
#[function]
fn remove_service_port(ctx: &Context, service: String, port: String) -> Result<String> {
    require_service(ctx, &service)?;
    run(ctx, &format!("--permanent --service={service} --remove-port={port}"))
}

/// Adds a protocol to a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_service_protocol zone ssh
#[function]
fn add_service_protocol(ctx: &Context, service: String, protocol: String) -> Result<String> {
    run(ctx, &format!("--permanent --service={service} --add-protocol={protocol}"))
}

/// Removes a protocol from a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_service_protocol zone ssh
#[function]
fn remove_service_protocol(ctx: &Context, service: String, protocol: String) -> Result<String> {
    run(ctx, &format!("--permanent --service={service} --remove-protocol={protocol}"))
}

/// Returns the ports of a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_service_ports ssh
#[function]
fn get_service_ports(ctx: &Context, service: String) -> Result<Vec<String>> {
    words(ctx, &format!("--permanent --service={service} --get-ports"))
}

/// Returns the protocols of a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_service_protocols ssh
#[function]
fn get_service_protocols(ctx: &Context, service: String) -> Result<Vec<String>> {
    words(ctx, &format!("--permanent --service={service} --get-protocols"))
}

/// Returns the services that a zone allows.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.list_services my_zone
#[function]
fn list_services(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting(&zoned(zone, "--list-services"), permanent))
}

/// Allows a service in a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_service ssh my_zone
#[function]
fn add_service(
    ctx: &Context,
    service: String,
    zone: Option<String>,
    #[default(true)] permanent: bool,
) -> Result<String> {
    run(ctx, &lasting(&zoned(zone, &format!("--add-service={service}")), permanent))
}

/// Enables masquerading in a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_masquerade dmz
#[function]
fn add_masquerade(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<String> {
    run(ctx, &lasting(&zoned(zone, "--add-masquerade"), permanent))
}

/// Removes a service from a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_service ssh my_zone
#[function]
fn remove_service(
    ctx: &Context,
    service: String,
    zone: Option<String>,
    #[default(true)] permanent: bool,
) -> Result<String> {
    run(ctx, &lasting(&zoned(zone, &format!("--remove-service={service}")), permanent))
}

/// Disables masquerading in a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_masquerade dmz
#[function]
fn remove_masquerade(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<String> {
    run(ctx, &lasting(&zoned(zone, "--remove-masquerade"), permanent))
}

/// Returns whether masquerading is enabled in a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_masquerade dmz
#[function]
fn get_masquerade(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<bool> {
    masquerades(ctx, zone, permanent)
}
