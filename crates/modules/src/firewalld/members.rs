//! Interfaces, sources and rich rules of a zone.

use exec::{Context, Result, function};

use super::{lasting, run, words};

/// Returns the interfaces of a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_interfaces zone
#[function]
fn get_interfaces(ctx: &Context, zone: String, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting(&format!("--zone={zone} --list-interfaces"), permanent))
}

/// Binds an interface to a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_interface zone eth0
#[function]
fn add_interface(ctx: &Context, zone: String, interface: String, #[default(true)] permanent: bool) -> Result<String> {
    let known = words(ctx, &lasting(&format!("--zone={zone} --list-interfaces"), permanent))?;
    if known.contains(&interface) {
        // Salt only logs this and still runs the command, whose warning is the answer.
        tracing::info!("Interface is already bound to zone.");
    }
    run(ctx, &lasting(&format!("--zone={zone} --add-interface={interface}"), permanent))
}

/// Removes an interface from a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_interface zone eth0
#[function]
fn remove_interface(
    ctx: &Context,
    zone: String,
    interface: String,
    #[default(true)] permanent: bool,
) -> Result<String> {
    let known = words(ctx, &lasting(&format!("--zone={zone} --list-interfaces"), permanent))?;
    if !known.contains(&interface) {
        tracing::info!("Interface is not bound to zone.");
    }
    run(ctx, &lasting(&format!("--zone={zone} --remove-interface={interface}"), permanent))
}

/// Returns the sources of a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_sources zone
#[function]
fn get_sources(ctx: &Context, zone: String, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    words(ctx, &lasting(&format!("--zone={zone} --list-sources"), permanent))
}

/// Binds a source to a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_source zone 192.168.1.0/24
#[function]
fn add_source(ctx: &Context, zone: String, source: String, #[default(true)] permanent: bool) -> Result<String> {
    let known = words(ctx, &lasting(&format!("--zone={zone} --list-sources"), permanent))?;
    if known.contains(&source) {
        tracing::info!("Source is already bound to zone.");
    }
    run(ctx, &lasting(&format!("--zone={zone} --add-source={source}"), permanent))
}

/// Removes a source from a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_source zone 192.168.1.0/24
#[function]
fn remove_source(ctx: &Context, zone: String, source: String, #[default(true)] permanent: bool) -> Result<String> {
    let known = words(ctx, &lasting(&format!("--zone={zone} --list-sources"), permanent))?;
    if !known.contains(&source) {
        tracing::info!("Source is not bound to zone.");
    }
    run(ctx, &lasting(&format!("--zone={zone} --remove-source={source}"), permanent))
}

/// Returns the rich rules of a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.get_rich_rules zone
#[function]
fn get_rich_rules(ctx: &Context, zone: String, #[default(true)] permanent: bool) -> Result<Vec<String>> {
    let text = run(ctx, &lasting(&format!("--zone={zone} --list-rich-rules"), permanent))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Adds a rich rule to a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.add_rich_rule zone 'rule'
#[function]
fn add_rich_rule(ctx: &Context, zone: String, rule: String, #[default(true)] permanent: bool) -> Result<String> {
    // A rich rule holds blanks and double quotes, so single quotes keep it one word.
    run(ctx, &lasting(&format!("--zone={zone} --add-rich-rule='{rule}'"), permanent))
}

/// Removes a rich rule from a zone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' firewalld.remove_rich_rule zone 'rule'
#[function]
fn remove_rich_rule(ctx: &Context, zone: String, rule: String, #[default(true)] permanent: bool) -> Result<String> {
    run(ctx, &lasting(&format!("--zone={zone} --remove-rich-rule='{rule}'"), permanent))
}
