//! `service` on Red Hat's family before systemd: scripts in `/etc/init.d`, kept by `chkconfig`.

use std::os::unix::fs::PermissionsExt;

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value};

use super::{at, booted_with_systemd, checked, names_in, runlevel, succeeds};
use crate::subprocess;

/// The module.
pub static MODULE: Module = Module::new(
    "service",
    "Functions that look at services with scripts in /etc/init.d and change them, with chkconfig.",
    &[
        &AVAILABLE,
        &DELETE,
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
    ],
)
.only_if(old_red_hat)
.provided_by("rh_service");

/// Systems with chkconfig, and the release since which they have systemd.
const SYSTEMS: [(&str, i64); 14] = [
    ("XenServer", 7),
    ("XCP-ng", 7),
    ("RedHat", 7),
    ("CentOS", 7),
    ("ScientificLinux", 7),
    ("CloudLinux", 7),
    ("OEL", 7),
    ("Fedora", 15),
    ("SUSE", 12),
    ("Amazon", i64::MAX),
    ("ALT", i64::MAX),
    // The two blanks are in Salt's list as well: it is matched against grains of old versions.
    ("SUSE  Enterprise Server", i64::MAX),
    ("McAfee  OS Server", i64::MAX),
    ("VirtuozzoLinux", i64::MAX),
];

fn old_red_hat(grains: &Map) -> std::result::Result<(), String> {
    if booted_with_systemd() {
        return Err("The rh_service execution module failed to load: this system was booted with systemd.".into());
    }
    let os = grains.get_str("os").unwrap_or_default();
    let Some((_, since)) = SYSTEMS.iter().find(|(name, _)| *name == os) else {
        return Err(format!("Cannot load rh_service module: it does not know the system '{os}'"));
    };
    let release = grains.get("osrelease_info").and_then(Value::as_list).and_then(<[Value]>::first);
    match release.and_then(Value::as_i64).unwrap_or(0) < *since {
        true => Ok(()),
        false => Err(format!("{os} >= {since} uses systemd, will not load rh_service as virtual 'service'")),
    }
}

/// Returns whether the argument `limit` selects Upstart's services.
fn is_upstart(limit: &str) -> bool {
    limit.eq_ignore_ascii_case("upstart")
}

fn has_script(ctx: &Context, name: &str) -> bool {
    let mode = std::fs::metadata(at(ctx, &format!("/etc/init.d/{name}"))).map(|meta| meta.permissions().mode());
    // The owner's bit only, as in Salt. Root could execute the script with any of the three.
    mode.is_ok_and(|mode| mode & 0o100 != 0)
}

fn is_known(ctx: &Context, name: &str) -> Result<bool> {
    succeeds(ctx, &["/sbin/chkconfig", "--list", checked(name)?])
}

fn all(ctx: &Context) -> Result<Vec<String>> {
    let text = subprocess::quiet(ctx, &["chkconfig", "--list"])?.stdout;
    let mut found: Vec<String> = listed(&text).into_iter().filter(|name| has_script(ctx, name)).collect();
    found.sort();
    Ok(found)
}

/// The services in lines such as `sshd  0:off 1:off 2:on …`.
fn listed(text: &str) -> Vec<String> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        // Services of xinetd are listed below in another form and are not scripts.
        .filter(|words| words.get(1).is_some_and(|word| word.starts_with("0:")))
        .map(|words| words[0].to_owned())
        .collect()
}

/// Returns whether chkconfig's answer says that a service starts in a runlevel.
fn is_on(text: &str, name: &str, level: &str) -> bool {
    text.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // xinetd's services have no runlevels but a plain `on`.
        match line.contains(&format!("{level}:on")) {
            true => words.first() == Some(&name),
            false => words == [name, "on"],
        }
    })
}

fn starts(ctx: &Context, name: &str, level: Option<&str>) -> Result<bool> {
    let said = subprocess::quiet(ctx, &["/sbin/chkconfig", "--list", checked(name)?])?;
    let level = match level {
        Some(level) => level.to_owned(),
        None => runlevel(ctx, "/sbin/runlevel", "3")?,
    };
    if said.retcode == Some(0) && is_on(&said.stdout, name, &level) {
        return Ok(true);
    }
    // A service that chkconfig does not manage may still have its links.
    let links = names_in(ctx, &format!("/etc/rc.d/rc{level}.d"))?;
    let is_own = |link: &String| link.starts_with('S') && link.get(3..) == Some(name);
    Ok(links.iter().any(is_own))
}

fn by_start(ctx: &Context, limit: &str, wanted: bool) -> Result<Vec<String>> {
    // There is no Upstart here any more, so its jobs are unknown.
    if is_upstart(limit) {
        return Ok(Vec::new());
    }
    let level = runlevel(ctx, "/sbin/runlevel", "3")?;
    let mut found = Vec::new();
    for name in all(ctx)? {
        if starts(ctx, &name, Some(&level))? == wanted {
            found.push(name);
        }
    }
    Ok(found)
}

/// Returns the services that start in the current runlevel; ``limit`` is ``sysvinit`` or ``upstart``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_enabled
#[function]
fn get_enabled(ctx: &Context, #[default("")] limit: String) -> Result<Vec<String>> {
    by_start(ctx, &limit, true)
}

/// Returns the services that do not start in the current runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_disabled
#[function]
fn get_disabled(ctx: &Context, #[default("")] limit: String) -> Result<Vec<String>> {
    by_start(ctx, &limit, false)
}

/// Returns all services.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_all
#[function]
fn get_all(ctx: &Context, #[default("")] limit: String) -> Result<Vec<String>> {
    if is_upstart(&limit) { Ok(Vec::new()) } else { all(ctx) }
}

/// Returns whether there is a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.available sshd
#[function]
fn available(ctx: &Context, name: String, #[default("")] limit: String) -> Result<bool> {
    match limit.as_str() {
        "upstart" => Ok(false),
        "sysvinit" => Ok(has_script(ctx, &name)),
        _ => Ok(has_script(ctx, &name) || is_known(ctx, &name)?),
    }
}

/// Returns whether there is no such service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.missing sshd
#[function]
fn missing(ctx: &Context, name: String, #[default("")] limit: String) -> Result<bool> {
    Ok(limit == "upstart" || !has_script(ctx, &name))
}

fn script(ctx: &Context, name: &str, command: &str) -> Result<bool> {
    succeeds(ctx, &["/sbin/service", checked(name)?, command])
}

super::scripts::run_scripts!();

/// Runs chkconfig for a service, which is added to it if necessary.
fn chkconfig(ctx: &Context, name: &str, command: &str) -> Result<bool> {
    // chkconfig refuses to switch a service that was not added to it.
    if !is_known(ctx, name)? && !succeeds(ctx, &["/sbin/chkconfig", "--add", name])? {
        return Ok(false);
    }
    succeeds(ctx, &["/sbin/chkconfig", name, command])
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
    chkconfig(ctx, &name, "on")
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
    chkconfig(ctx, &name, "off")
}

/// Removes a service from chkconfig.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.delete <service name>
#[function]
fn delete(ctx: &Context, name: String, kwargs: KwArgs) -> Result<bool> {
    let _ = kwargs;
    Ok(is_known(ctx, &name)? && succeeds(ctx, &["/sbin/chkconfig", "--del", &name])?)
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
    starts(ctx, &name, None)
}

/// Returns whether a service does not start in the current runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.disabled <service name>
#[function]
fn disabled(ctx: &Context, name: String) -> Result<bool> {
    Ok(!starts(ctx, &name, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_chkconfig_says_is_read() {
        let text = "sshd           \t0:off\t1:off\t2:on\t3:on\t4:on\t5:on\t6:off\nrsync          \ton\n";
        assert_eq!(listed(text), ["sshd"]);
        assert!(is_on(text, "sshd", "3") && !is_on(text, "sshd", "1") && is_on(text, "rsync", "3"));
    }
}
