//! Plug-ins, through `rabbitmq-plugins`.

use exec::{Context, Result, function};
use value::Map;

use super::answer;
use super::tool::{ToolOutput, run, words};
use crate::util;

/// The program. Packages that do not put it where programs are found have it below the folder of the version.
fn program(ctx: &Context) -> Result<String> {
    if let Some(path) = util::program(ctx, "rabbitmq-plugins") {
        return Ok(path);
    }
    // Old packages keep the tool beside the server only.
    let version = ctx.call("pkg.version", vec!["rabbitmq-server".into()])?.to_string();
    let version = version.split('-').next().unwrap_or_default();
    Ok(format!("/usr/lib/rabbitmq/lib/rabbitmq_server-{version}/sbin/rabbitmq-plugins"))
}

fn plugins<'a>(
    ctx: &Context,
    command: impl IntoIterator<Item = &'a str>,
    runas: &Option<String>,
) -> Result<ToolOutput> {
    let command = words(command);
    run(ctx, program(ctx)?, command, runas, Map::new())
}

fn enabled(ctx: &Context, runas: &Option<String>) -> Result<Vec<String>> {
    Ok(answer::all_words(&plugins(ctx, ["list", "-m", "-e"], runas)?.output()?))
}

/// Returns the names of all available plug-ins, enabled or not.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_available_plugins
#[function]
fn list_available_plugins(ctx: &Context, runas: Option<String>) -> Result<Vec<String>> {
    Ok(answer::all_words(&plugins(ctx, ["list", "-m"], &runas)?.output()?))
}

/// Returns the names of the plug-ins that are enabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_enabled_plugins
#[function]
fn list_enabled_plugins(ctx: &Context, runas: Option<String>) -> Result<Vec<String>> {
    enabled(ctx, &runas)
}

/// Returns whether a plug-in is enabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.plugin_is_enabled rabbitmq_plugin_name
#[function]
fn plugin_is_enabled(ctx: &Context, name: String, runas: Option<String>) -> Result<bool> {
    Ok(enabled(ctx, &runas)?.contains(&name))
}

/// Enables a plug-in, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.enable_plugin foo
#[function]
fn enable_plugin(ctx: &Context, name: String, runas: Option<String>) -> Result<Map> {
    plugins(ctx, ["enable", &name], &runas)?.under("Enabled")
}

/// Disables a plug-in, and returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.disable_plugin foo
#[function]
fn disable_plugin(ctx: &Context, name: String, runas: Option<String>) -> Result<Map> {
    plugins(ctx, ["disable", &name], &runas)?.under("Disabled")
}
