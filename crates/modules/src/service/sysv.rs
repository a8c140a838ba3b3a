//! `service` on Debian and its relatives without systemd: scripts in `/etc/init.d`, links in `/etc/rc?.d`.

use std::collections::BTreeSet;

use exec::{Context, KwArgs, Module, Result, function};

use super::{booted_with_systemd, checked, names_in, runlevel, succeeds};

/// The module.
pub static MODULE: Module = Module::new(
    "service",
    "Functions that look at services with scripts in /etc/init.d and change them.",
    &[
        &AVAILABLE,
        &DISABLE,
        &DISABLED,
        &ENABLE,
        &ENABLED,
        &FORCE_RELOAD,
        &GET_ALL,
        &GET_DISABLED,
        &GET_ENABLED,
        &MISSING,
        &RELOAD,
        &RESTART,
        &START,
        &STATUS,
        &STOP,
    ],
)
.only_if(|grains| match grains.get_str("os") {
    Some("Debian" | "Raspbian" | "Devuan" | "NILinuxRT") if !booted_with_systemd() => Ok(()),
    _ => Err("The debian_service module could not be loaded: unsupported OS family and/or systemd running.".into()),
})
.provided_by("debian_service");

/// The services that start in the current runlevel, or before any.
fn starting(ctx: &Context) -> Result<BTreeSet<String>> {
    let level = runlevel(ctx, "runlevel", "2")?;
    let mut found = BTreeSet::new();
    // rcS.d holds what starts before every runlevel.
    for level in level.chars().chain(['S']) {
        let links = names_in(ctx, &format!("/etc/rc{level}.d"))?;
        found.extend(links.iter().filter_map(|link| started(link)));
    }
    Ok(found)
}

/// The service a link such as `S01apache2` starts.
fn started(link: &str) -> Option<String> {
    let name = link.strip_prefix('S')?.trim_start_matches(|c: char| c.is_ascii_digit());
    (!name.is_empty()).then(|| name.to_owned())
}

fn all(ctx: &Context) -> Result<BTreeSet<String>> {
    let mut found: BTreeSet<String> = names_in(ctx, "/etc/init.d")?.into_iter().collect();
    found.retain(|name| name != "README" && !name.starts_with('.'));
    found.extend(starting(ctx)?);
    Ok(found)
}

/// Returns the services that start in the current runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_enabled
#[function]
fn get_enabled(ctx: &Context) -> Result<Vec<String>> {
    Ok(starting(ctx)?.into_iter().collect())
}

/// Returns the services that do not start in the current runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_disabled
#[function]
fn get_disabled(ctx: &Context) -> Result<Vec<String>> {
    Ok(all(ctx)?.difference(&starting(ctx)?).cloned().collect())
}

/// Returns all services.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_all
#[function]
fn get_all(ctx: &Context) -> Result<Vec<String>> {
    Ok(all(ctx)?.into_iter().collect())
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
    Ok(all(ctx)?.contains(&name))
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
    Ok(!all(ctx)?.contains(&name))
}

fn script(ctx: &Context, name: &str, command: &str) -> Result<bool> {
    succeeds(ctx, &["service", checked(name)?, command])
}

super::scripts::run_scripts!();

/// Reloads the configuration of a service, by a restart if needed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.force_reload <service name>
#[function]
fn force_reload(ctx: &Context, name: String) -> Result<bool> {
    script(ctx, &name, "force-reload")
}

/// Enables a service at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.enable <service name>
#[function]
fn enable(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let _ = kwargs;
    // insserv works out the order from the script's header, which update-rc.d then uses.
    let name = checked(&name)?;
    Ok(succeeds(ctx, &["insserv", name])? && succeeds(ctx, &["update-rc.d", name, "enable"])?)
}

/// Disables a service at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.disable <service name>
#[function]
fn disable(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let _ = kwargs;
    succeeds(ctx, &["update-rc.d", checked(&name)?, "disable"])
}

/// Returns whether a service starts in the current runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.enabled <service name>
#[function]
fn enabled(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let _ = kwargs;
    Ok(starting(ctx)?.contains(&name))
}

/// Returns whether there is a service that does not start in the current runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.disabled <service name>
#[function]
fn disabled(ctx: &Context, name: String) -> Result<bool> {
    Ok(all(ctx)?.contains(&name) && !starting(ctx)?.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_tell_their_service() {
        assert_eq!(started("S01apache2").as_deref(), Some("apache2"));
        assert_eq!(started("K01ssh"), None);
        assert_eq!(started("S01"), None);
    }
}
