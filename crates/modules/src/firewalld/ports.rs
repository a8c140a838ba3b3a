//! Ports, forwarded ports and ICMP packets of a zone.

use exec::{Context, Result, function};
use value::Value;

use super::{forwarded, lasting, masquerades, run, words};

/// Opens a port.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_port internal 443/tcp
#[function]
fn add_port(
    ctx: &Context,
    zone: String,
    port: String,
    #[default(true)] permanent: bool,
    #[default(false)] force_masquerade: bool,
) -> Result<String> {
    if force_masquerade && !masquerades(ctx, Some(zone.clone()), true)? {
        run(ctx, &format!("--zone={zone} --add-masquerade --permanent"))?;
    }
    run(ctx, &lasting(&format!("--zone={zone} --add-port={port}"), permanent))
}

/// Closes a port.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_port internal 443/tcp
#[function]
fn remove_port(ctx: &Context, zone: String, port: String, #[default(true)] permanent: bool) -> Result<String> {
    run(ctx, &lasting(&format!("--zone={zone} --remove-port={port}"), permanent))
}

/// Returns the open ports of a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.list_ports internal
#[function]
fn list_ports(ctx: &Context, zone: String, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting(&format!("--zone={zone} --list-ports"), permanent))
}

/// Forwards a port, to another machine when an address is given.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_port_fwd public 80 443 tcp
#[function]
fn add_port_fwd(
    ctx: &Context,
    zone: String,
    src: Value,
    dest: Value,
    #[default("tcp")] proto: String,
    #[default("")] dstaddr: String,
    #[default(true)] permanent: bool,
    #[default(false)] force_masquerade: bool,
) -> Result<String> {
    // A forwarded packet comes back only when its source is rewritten.
    if force_masquerade && !masquerades(ctx, Some(zone.clone()), true)? {
        run(ctx, &format!("--zone={zone} --add-masquerade --permanent"))?;
    }
    let line = format!("--zone={zone} --add-forward-port=port={src}:proto={proto}:toport={dest}:toaddr={dstaddr}");
    run(ctx, &lasting(&line, permanent))
}

/// Removes the forwarding of a port.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_port_fwd public 80 443 tcp
#[function]
fn remove_port_fwd(
    ctx: &Context,
    zone: String,
    src: Value,
    dest: Value,
    #[default("tcp")] proto: String,
    #[default("")] dstaddr: String,
    #[default(true)] permanent: bool,
) -> Result<String> {
    let line = format!("--zone={zone} --remove-forward-port=port={src}:proto={proto}:toport={dest}:toaddr={dstaddr}");
    run(ctx, &lasting(&line, permanent))
}

/// Returns the forwarded ports of a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.list_port_fwd public
#[function]
fn list_port_fwd(ctx: &Context, zone: String, #[default(true)] permanent: bool) -> Result<Vec<Value>> {
    let text = run(ctx, &lasting(&format!("--zone={zone} --list-forward-ports"), permanent))?;
    text.lines().map(forwarded).collect()
}

/// Returns the blocked kinds of ICMP packets of a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.list_icmp_block zone
#[function]
fn list_icmp_block(ctx: &Context, zone: String, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting(&format!("--zone={zone} --list-icmp-blocks"), permanent))
}

/// Blocks a kind of ICMP packets.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.block_icmp zone echo-reply
#[function]
fn block_icmp(ctx: &Context, zone: String, icmp: String, #[default(true)] permanent: bool) -> Result<Value> {
    // Salt answers False for an unknown type and keeps the job a success.
    if !words(ctx, &lasting("--get-icmptypes", permanent))?.contains(&icmp) {
        tracing::error!("Invalid ICMP type");
        return Ok(false.into());
    }
    if words(ctx, &lasting(&format!("--zone={zone} --list-icmp-blocks"), permanent))?.contains(&icmp) {
        tracing::info!("ICMP block already exists");
        return Ok("success".into());
    }
    run(ctx, &lasting(&format!("--zone={zone} --add-icmp-block={icmp}"), permanent)).map(Value::from)
}

/// Allows a kind of ICMP packets that was blocked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.allow_icmp zone echo-reply
#[function]
fn allow_icmp(ctx: &Context, zone: String, icmp: String, #[default(true)] permanent: bool) -> Result<Value> {
    if !words(ctx, &lasting("--get-icmptypes", permanent))?.contains(&icmp) {
        tracing::error!("Invalid ICMP type");
        return Ok(false.into());
    }
    if !words(ctx, &lasting(&format!("--zone={zone} --list-icmp-blocks"), permanent))?.contains(&icmp) {
        tracing::info!("ICMP Type is already permitted");
        return Ok("success".into());
    }
    run(ctx, &lasting(&format!("--zone={zone} --remove-icmp-block={icmp}"), permanent)).map(Value::from)
}
