//! Services, and hiding addresses.

use exec::{Context, Result, function};

use super::{known, lasting, masquerades, run, words, zoned};

/// Adds a port to a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_service_port zone 80/tcp
#[function]
async fn add_service_port(ctx: &Context, service: String, port: String) -> Result<String> {
    known(ctx, &service).await?;
    run(ctx, &format!("--permanent --service={service} --add-port={port}")).await
}

/// Takes a port from a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_service_port zone 80/tcp
#[function]
async fn remove_service_port(ctx: &Context, service: String, port: String) -> Result<String> {
    known(ctx, &service).await?;
    run(ctx, &format!("--permanent --service={service} --remove-port={port}")).await
}

/// Adds a protocol to a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_service_protocol zone ssh
#[function]
async fn add_service_protocol(ctx: &Context, service: String, protocol: String) -> Result<String> {
    run(ctx, &format!("--permanent --service={service} --add-protocol={protocol}")).await
}

/// Takes a protocol from a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_service_protocol zone ssh
#[function]
async fn remove_service_protocol(ctx: &Context, service: String, protocol: String) -> Result<String> {
    run(ctx, &format!("--permanent --service={service} --remove-protocol={protocol}")).await
}

/// Returns the ports of a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_service_ports ssh
#[function]
async fn get_service_ports(ctx: &Context, service: String) -> Result<Vec<String>> {
    words(ctx, &format!("--permanent --service={service} --get-ports")).await
}

/// Returns the protocols of a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_service_protocols ssh
#[function]
async fn get_service_protocols(ctx: &Context, service: String) -> Result<Vec<String>> {
    words(ctx, &format!("--permanent --service={service} --get-protocols")).await
}

/// Returns the services a zone lets in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.list_services my_zone
#[function]
async fn list_services(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting(&zoned(zone, "--list-services"), permanent)).await
}

/// Lets a service in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_service ssh my_zone
#[function]
async fn add_service(
    ctx: &Context,
    service: String,
    zone: Option<String>,
    #[default(true)] permanent: bool,
) -> Result<String> {
    run(ctx, &lasting(&zoned(zone, &format!("--add-service={service}")), permanent)).await
}

/// Hides the addresses behind a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_masquerade dmz
#[function]
async fn add_masquerade(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<String> {
    run(ctx, &lasting(&zoned(zone, "--add-masquerade"), permanent)).await
}

/// Lets a service in no longer.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_service ssh my_zone
#[function]
async fn remove_service(
    ctx: &Context,
    service: String,
    zone: Option<String>,
    #[default(true)] permanent: bool,
) -> Result<String> {
    run(ctx, &lasting(&zoned(zone, &format!("--remove-service={service}")), permanent)).await
}

/// Hides the addresses behind a zone no longer.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_masquerade dmz
#[function]
async fn remove_masquerade(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<String> {
    run(ctx, &lasting(&zoned(zone, "--remove-masquerade"), permanent)).await
}

/// Says whether addresses behind a zone are hidden.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_masquerade dmz
#[function]
async fn get_masquerade(ctx: &Context, zone: Option<String>, #[default(true)] permanent: bool) -> Result<bool> {
    masquerades(ctx, zone, permanent).await
}
