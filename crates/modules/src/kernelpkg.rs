//! `kernelpkg` — the packages of the kernel on Debian's family.

use exec::{Call, Context, Error, Module, Result, function};
use regex::Regex;
use value::{Map, Value, map};

use crate::pkg_resource::compare_loosely;

/// Registers the functions of `kernelpkg`.
pub static MODULE: Module = Module::new(
    "kernelpkg",
    "Functions that look at packages of the kernel, install newer ones and remove old ones.",
    &[
        &ACTIVE,
        &CLEANUP,
        &LATEST_AVAILABLE,
        &LATEST_INSTALLED,
        &LIST_INSTALLED,
        &NEEDS_REBOOT,
        &REMOVE,
        &UPGRADE,
        &UPGRADE_AVAILABLE,
    ],
)
.only_if(|grains| match grains.get_str("os_family") {
    Some("Debian" | "Kali" | "Cumulus") => Ok(()),
    _ => Err("Module kernelpkg_linux_apt: no APT based system detected".into()),
});

const PREFIX: &str = "linux-image";

fn running(ctx: &Context) -> Result<String> {
    let release = ctx.grains.get("kernelrelease").cloned().unwrap_or_default();
    Ok(ctx.call("pkg.normalize_name", vec![release])?.to_string())
}

/// Returns the flavour of the running kernel, such as `amd64`: what follows the last dash.
fn kind(ctx: &Context) -> Result<String> {
    let running = running(ctx)?;
    let form = Regex::new(r"^[\w.+\-~]+-([^-]+)$").expect("the pattern is constant");
    let found = form.captures(&running).map(|found| found[1].to_owned());
    found.ok_or_else(|| Error::execution(format!("the kernel {running} does not tell of which kind it is")))
}

fn installed(ctx: &Context) -> Result<Vec<String>> {
    let kind = kind(ctx)?;
    let form = format!(r"^{PREFIX}-([\d.-]+-{})$", regex::escape(&kind));
    let form = Regex::new(&form).map_err(|error| Error::execution(format!("kernels of the kind {kind}: {error}")))?;
    let call = Call { args: vec![], kwargs: map! { "versions_as_list" => true } };
    let packages = ctx.call_with("pkg.list_pkgs", call)?.into_map().unwrap_or_default();
    let release = |name: &Value| form.captures(name.as_str()?).map(|found| found[1].to_owned());
    let mut found: Vec<String> = packages.keys().filter_map(release).collect();
    // As versions: by letters 5.10 would come before 5.9.
    found.sort_by(|a, b| compare_loosely(a, b, false).cmp(&0));
    Ok(found)
}

fn newest_installed(ctx: &Context) -> Result<Option<String>> {
    Ok(installed(ctx)?.pop())
}

fn newest_available(ctx: &Context) -> Result<Option<String>> {
    let kind = kind(ctx)?;
    let version = ctx.call("pkg.latest_version", vec![format!("{PREFIX}-{kind}").into()])?.to_string();
    // apt reports nothing when the newest version is installed already.
    if version.is_empty() {
        return newest_installed(ctx);
    }
    // The metapackage has the version 5.4.0.42.46, the release is called 5.4.0-42.
    let form = Regex::new(r"^(\d+\.\d+\.\d+)\.(\d+)").expect("the pattern is constant");
    let parts = form.captures(&version);
    let parts =
        parts.ok_or_else(|| Error::execution(format!("version {version} of {PREFIX}-{kind} names no release")))?;
    Ok(Some(format!("{}-{}-{kind}", &parts[1], &parts[2])))
}

fn some(release: Option<String>) -> Result<String> {
    release.ok_or_else(|| Error::execution("no package of a kernel is installed"))
}

/// Returns the release of the running kernel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.active
#[function]
fn active(ctx: &Context) -> Result<String> {
    running(ctx)
}

/// Returns the releases of the installed kernels, the newest last.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.list_installed
#[function]
fn list_installed(ctx: &Context) -> Result<Value> {
    Ok(installed(ctx)?.into())
}

/// Returns the release of the newest available kernel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.latest_available
#[function]
fn latest_available(ctx: &Context) -> Result<Value> {
    Ok(newest_available(ctx)?.into())
}

/// Returns the release of the newest kernel that is installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.latest_installed
#[function]
fn latest_installed(ctx: &Context) -> Result<Value> {
    Ok(newest_installed(ctx)?.into())
}

/// Returns whether a newer kernel than the running one is installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.needs_reboot
#[function]
fn needs_reboot(ctx: &Context) -> Result<bool> {
    let running = running(ctx)?;
    Ok(compare_loosely(&running, &some(newest_installed(ctx)?)?, false) < 0)
}

/// Returns whether a newer kernel than the installed ones is available.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.upgrade_available
#[function]
fn upgrade_available(ctx: &Context) -> Result<bool> {
    let available = some(newest_available(ctx)?)?;
    Ok(compare_loosely(&available, &some(newest_installed(ctx)?)?, false) > 0)
}

/// Installs the newest kernel. With ``reboot=True`` the machine restarts where that is needed, ``at_time`` (see
/// system.reboot).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.upgrade
///     salt '*' kernelpkg.upgrade reboot=True at_time=1
#[function]
fn upgrade(ctx: &Context, #[default(false)] reboot: bool, at_time: Option<Value>) -> Result<Map> {
    let newest = some(newest_available(ctx)?)?;
    let call = Call { args: vec![], kwargs: map! { "name" => format!("{PREFIX}-{newest}") } };
    let upgrades = ctx.call_with("pkg.install", call)?;
    let running = running(ctx)?;
    // Read again, since the installation above may have changed it.
    let installed = some(newest_installed(ctx)?)?;
    let required = compare_loosely(&running, &installed, false) < 0;
    // Without a newer kernel a reboot would only cost time.
    if reboot && required {
        tracing::warn!("restarting the machine because of a newer kernel");
        let call = Call { args: vec![], kwargs: map! { "at_time" => at_time } };
        ctx.call_with("system.reboot", call)?;
    }
    Ok(map! {
        "upgrades" => upgrades,
        "active" => running,
        "latest_installed" => installed,
        "reboot_requested" => reboot,
        "reboot_required" => required,
    })
}

fn purge(ctx: &Context, release: &str) -> Result<String> {
    let package = format!("{PREFIX}-{release}");
    ctx.call("pkg.purge", vec![package.as_str().into()])?;
    Ok(package)
}

/// Removes a kernel that is not running; ``release`` is one of list_installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.remove 4.4.0-70-generic
#[function]
fn remove(ctx: &Context, release: String) -> Result<Map> {
    if !installed(ctx)?.contains(&release) {
        return Err(Error::execution(format!("Kernel release '{release}' is not installed")));
    }
    // The machine could not load a module any more, nor start again.
    if release == running(ctx)? {
        return Err(Error::execution("Active kernel cannot be removed"));
    }
    Ok(map! { "removed" => vec![purge(ctx, &release)?] })
}

/// Removes all kernels except the running one and, unless ``keep_latest=False``, the newest.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kernelpkg.cleanup
#[function]
fn cleanup(ctx: &Context, #[default(true)] keep_latest: bool) -> Result<Map> {
    let running = running(ctx)?;
    let all = installed(ctx)?;
    // The newest may not be running yet: removing it would undo an upgrade.
    let newest = all.last().cloned().filter(|_| keep_latest);
    let mut removed = Vec::new();
    for release in all.iter().filter(|release| **release != running && Some(*release) != newest.as_ref()) {
        removed.push(purge(ctx, release)?);
    }
    Ok(map! { "removed" => removed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::KwArgs;
    use value::list;

    /// Returns what a machine with three kernels has.
    #[function]
    fn list_pkgs(kwargs: KwArgs) -> Result<Map> {
        assert_eq!(kwargs.given().get("versions_as_list"), Some(&true.into()));
        // One of another flavour, a metapackage and debug symbols are not kernels of the running kind.
        let names = ["6.1.0-10-amd64", "6.1.0-9-amd64", "6.1.0-28-amd64", "6.1.0-28-cloud-amd64", "amd64"];
        let mut found: Map =
            names.iter().map(|name| (Value::from(format!("linux-image-{name}")), list!["1"])).collect();
        found.insert("linux-image-6.1.0-9-amd64-dbg", list!["1"]);
        Ok(found)
    }

    /// Returns the name.
    #[function]
    fn normalize_name(name: String) -> Result<String> {
        Ok(name)
    }

    /// Returns the version of the newest package.
    #[function]
    fn latest_version(ctx: &Context, name: String) -> Result<Value> {
        assert_eq!(name, "linux-image-amd64");
        Ok(ctx.opts.get("newest").cloned().unwrap_or_default())
    }

    /// Removes.
    #[function]
    fn purge_fake(name: String) -> Result<Value> {
        Ok(name.into())
    }

    static PURGE: exec::Function = exec::Function { name: "purge", ..PURGE_FAKE };
    static PKG: Module = Module::new("pkg", "", &[&LATEST_VERSION, &LIST_PKGS, &NORMALIZE_NAME, &PURGE]);

    fn answer(newest: &str, running: &str, fun: &str, args: Value) -> String {
        let grains = map! { "kernelrelease" => running, "os_family" => "Debian" };
        let (ctx, _) = exec::testing::context(&[&MODULE, &PKG], map! { "newest" => newest }, grains, map! {});
        match ctx.call(&format!("kernelpkg.{fun}"), args.into_list().unwrap()) {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn kernels_are_told_in_the_order_of_their_releases() {
        let answer = |fun: &'static str, args: Value| answer("6.1.0.31", "6.1.0-10-amd64", fun, args);
        // As versions, 9 comes before 10; as texts it would not.
        assert_eq!(answer("list_installed", list![]), "['6.1.0-9-amd64', '6.1.0-10-amd64', '6.1.0-28-amd64']");
        assert_eq!(answer("active", list![]), "6.1.0-10-amd64");
        assert_eq!(answer("latest_installed", list![]), "6.1.0-28-amd64");
        assert_eq!(answer("latest_available", list![]), "6.1.0-31-amd64");
        assert_eq!(answer("needs_reboot", list![]), "True");
        assert_eq!(answer("upgrade_available", list![]), "True");
    }

    #[test]
    fn neither_the_running_nor_the_newest_kernel_is_cleaned_up() {
        let answer = |fun: &'static str, args: Value| answer("", "6.1.0-10-amd64", fun, args);
        assert_eq!(answer("cleanup", list![]), "{'removed': ['linux-image-6.1.0-9-amd64']}");
        let both = "{'removed': ['linux-image-6.1.0-9-amd64', 'linux-image-6.1.0-28-amd64']}";
        assert_eq!(answer("cleanup", list![false]), both);
        assert_eq!(answer("remove", list!["1"]), "Kernel release '1' is not installed");
        assert_eq!(answer("remove", list!["6.1.0-10-amd64"]), "Active kernel cannot be removed");
        assert_eq!(answer("latest_available", list![]), "6.1.0-28-amd64");
        assert_eq!(answer("upgrade_available", list![]), "False");
    }

    #[test]
    fn a_kernel_of_no_kind_is_named() {
        let said = answer("", "6.18.5", "needs_reboot", list![]);
        assert_eq!(said, "the kernel 6.18.5 does not tell of which kind it is");
    }
}
