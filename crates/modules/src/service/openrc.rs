//! `service` on systems that OpenRC runs: Alpine, and Gentoo without systemd.

use std::collections::{BTreeMap, BTreeSet};

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value};

use super::{booted_with_systemd, checked, succeeds};
use crate::subprocess;

/// The module.
pub static MODULE: Module = Module::new(
    "service",
    "Functions that look at services of OpenRC and change them.",
    &[
        &AVAILABLE,
        &DISABLE,
        &DISABLED,
        &ENABLE,
        &ENABLED,
        &GET_ALL,
        &GET_DISABLED,
        &GET_ENABLED,
        &MISSING,
        &RELOAD,
        &RESTART,
        &START,
        &STATUS,
        &STOP,
        &ZAP,
    ],
)
.only_if(|grains| match grains.get_str("os") {
    Some("Alpine") => Ok(()),
    Some("Gentoo") if !booted_with_systemd() => Ok(()),
    _ => Err("The gentoo_service execution module cannot be loaded: only available on Gentoo/Open-RC systems.".into()),
})
.provided_by("gentoo_service");

fn all(ctx: &Context) -> Result<impl Iterator<Item = String>> {
    Ok(listed(ctx)?.into_keys())
}

/// Returns services with the runlevels they start in; those that start in none are disabled.
fn listed(ctx: &Context) -> Result<BTreeMap<String, Vec<String>>> {
    Ok(parsed(&subprocess::quiet(ctx, &["rc-update", "-v", "show"])?.stdout))
}

fn parsed(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for (name, levels) in text.lines().filter_map(|line| line.split_once('|')) {
        // Only the columns up to the second bar are runlevels.
        let levels = levels.split('|').next().unwrap_or_default();
        let mut levels: Vec<String> = levels.split_whitespace().map(str::to_owned).collect();
        levels.sort();
        found.insert(name.trim().to_owned(), levels);
    }
    found
}

/// Returns the enabled services with their runlevels.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_enabled
#[function]
fn get_enabled(ctx: &Context) -> Result<Map> {
    Ok(listed(ctx)?.into_iter().filter(|(_, levels)| !levels.is_empty()).collect())
}

/// Returns the services that start in no runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_disabled
#[function]
fn get_disabled(ctx: &Context) -> Result<Vec<String>> {
    Ok(listed(ctx)?.into_iter().filter(|(_, levels)| levels.is_empty()).map(|(name, _)| name).collect())
}

/// Returns all services with their runlevels.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_all
#[function]
fn get_all(ctx: &Context) -> Result<Map> {
    Ok(listed(ctx)?.into_iter().collect())
}

/// Returns whether there is a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.available sshd
#[function]
fn available(ctx: &Context, name: String) -> Result<bool> {
    Ok(listed(ctx)?.contains_key(&name))
}

/// Returns whether there is no such service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.missing sshd
#[function]
fn missing(ctx: &Context, name: String) -> Result<bool> {
    Ok(!listed(ctx)?.contains_key(&name))
}

/// Runs the script of a service with a command.
fn script(ctx: &Context, name: &str, command: &str) -> Result<bool> {
    succeeds(ctx, &[format!("/etc/init.d/{}", checked(name)?).as_str(), command])
}

super::scripts::run_scripts!();

/// Resets a service to the stopped state.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.zap <service name>
#[function]
fn zap(ctx: &Context, name: String) -> Result<bool> {
    script(ctx, &name, "zap")
}

/// The runlevels a call names.
fn named_runlevels(kwargs: &KwArgs) -> Option<BTreeSet<String>> {
    kwargs.0.get("runlevels").map(|levels| match levels {
        Value::List(levels) => levels.iter().map(Value::to_string).collect(),
        single => BTreeSet::from([single.to_string()]),
    })
}

fn current(ctx: &Context, name: &str) -> Result<BTreeSet<String>> {
    Ok(listed(ctx)?.remove(name).unwrap_or_default().into_iter().collect())
}

fn update(ctx: &Context, command: &str, name: &str, levels: &[&String]) -> Result<bool> {
    let mut words = vec!["rc-update", command, checked(name)?];
    words.extend(levels.iter().map(|level| level.as_str()));
    succeeds(ctx, &words)
}

/// Enables a service at boot; ``runlevels`` are those it starts in, and no others.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.enable <service name> <runlevels=single-runlevel>
///     salt '*' service.enable <service name> <runlevels=[runlevel1,runlevel2]>
#[function]
fn enable(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let Some(wanted) = named_runlevels(&kwargs) else { return update(ctx, "add", &name, &[]) };
    // Compared first, because rc-update fails on a service that is in the runlevel already.
    let current = current(ctx, &name)?;
    let surplus: Vec<&String> = current.difference(&wanted).collect();
    let missing: Vec<&String> = wanted.difference(&current).collect();
    // `runlevels` names exactly the wanted ones, so others are removed, too.
    for (command, levels) in [("delete", surplus), ("add", missing)] {
        if !levels.is_empty() && !update(ctx, command, &name, &levels)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Disables a service at boot, in all runlevels or in those of ``runlevels``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.disable <service name>
///     salt '*' service.disable <service name> <runlevels=[runlevel1,runlevel2]>
#[function]
fn disable(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let Some(wanted) = named_runlevels(&kwargs) else { return update(ctx, "delete", &name, &[]) };
    let current = current(ctx, &name)?;
    let levels: Vec<&String> = current.intersection(&wanted).collect();
    Ok(levels.is_empty() || update(ctx, "delete", &name, &levels)?)
}

/// Returns whether a service starts at boot; with ``runlevels`` whether it does in all of them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.enabled <service name>
#[function]
fn enabled(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let current = current(ctx, &name)?;
    Ok(!current.is_empty() && named_runlevels(&kwargs).is_none_or(|wanted| wanted.is_subset(&current)))
}

/// Returns whether a service starts in no runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.disabled <service name>
#[function]
fn disabled(ctx: &Context, name: String) -> Result<bool> {
    Ok(listed(ctx)?.get(&name).is_some_and(Vec::is_empty))
}
