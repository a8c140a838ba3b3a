//! Advisories, and services that still run what was replaced.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use exec::{Context, Error, KwArgs, Result, function};
use regex::Regex;
use value::{Map, Value, map};

use super::Manager;
use crate::packages::common;
use crate::util::is_true;

static LINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^([i|\s])? ?([^\s]+) +([^\s]+) +([^\s]+)").expect("the pattern is fixed"));

/// Returns the advisories, with the packages of each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_patches
#[function]
fn list_patches(ctx: &Context, #[default(false)] refresh: Value, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    if is_true(&refresh) {
        super::available::refresh(ctx, &Map::new(), true)?;
    }
    patches(ctx, false)
}

/// Returns the advisories that are installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_installed_patches
#[function]
fn list_installed_patches(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    patches(ctx, true)
}

pub(super) fn patches(ctx: &Context, installed_only: bool) -> Result<Map> {
    let words = [Manager::of(ctx)?.name(), "--quiet", "updateinfo", "list", "all"];
    let mut found = parsed(&common::output(ctx, &words, false)?);
    found.retain(|_, patch| !installed_only || patch.get("installed") == Some(&Value::Bool(true)));
    Ok(found)
}

fn parsed(text: &str) -> Map {
    let mut found = Map::new();
    for line in text.split('\n') {
        let Some(parts) = LINE.captures(line) else {
            if !line.is_empty() {
                tracing::warn!("a line of the list of advisories is left out: {line}");
            }
            continue;
        };
        let installed = parts.get(1).is_some_and(|mark| mark.as_str() == "i");
        let entry = found
            .entry_or_insert_with(&parts[2], || map! { "installed" => true, "summary" => Vec::<String>::new() }.into());
        let Value::Map(entry) = entry else { continue };
        // An advisory has a line for every package and counts as installed only if every line does.
        if !installed {
            entry.insert("installed", false);
        }
        if let Some(Value::List(packages)) = entry.get_mut("summary") {
            packages.push(parts[4].into());
        }
    }
    found
}

/// Returns services that still run files that were replaced.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.services_need_restart
#[function]
fn services_need_restart(ctx: &Context, kwargs: KwArgs) -> Result<Vec<String>> {
    let _ = kwargs;
    let manager = Manager::of(ctx)?;
    if !manager.is_dnf() {
        return Err(Error::execution("dnf or dnf5 is required to list outdated services."));
    }
    if !Path::new("/run/systemd/system").exists() {
        return Err(Error::execution("systemd is required to list outdated services."));
    }
    let text = common::output(ctx, &[manager.name(), "--quiet", "needs-restarting"], false)?;
    let pids = text.lines().filter_map(|line| line.split_once(':')?.0.trim().parse::<u32>().ok());
    let services: BTreeSet<String> = pids.filter_map(service_of).collect();
    Ok(services.into_iter().collect())
}

/// The service a process belongs to, by its control group.
fn service_of(pid: u32) -> Option<String> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    service_in(&groups)
}

fn service_in(groups: &str) -> Option<String> {
    // The deepest unit that is a service. Processes of users and sessions are in scopes.
    let units = groups.lines().flat_map(|line| line.rsplit('/')).find_map(|part| part.strip_suffix(".service"));
    units.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_of_a_process_is_found() {
        assert_eq!(service_in("0::/system.slice/sshd.service\n").as_deref(), Some("sshd"));
        assert_eq!(service_in("0::/user.slice/user-0.slice/session-1.scope\n"), None);
    }
}
