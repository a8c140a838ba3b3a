//! `service` on systems that systemd started.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use exec::{Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value};

use super::booted_with_systemd;
use crate::file::paths;
use crate::subprocess::{self, Outcome};
use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "service",
    "Functions that look at services and control them through systemd.",
    &[
        &AVAILABLE,
        &DISABLE,
        &DISABLED,
        &ENABLE,
        &ENABLED,
        &EXECS,
        &FIRSTBOOT,
        &FORCE_RELOAD,
        &GET_ALL,
        &GET_DISABLED,
        &GET_ENABLED,
        &GET_RUNNING,
        &GET_STATIC,
        &MASK,
        &MASKED,
        &MISSING,
        &OFFLINE,
        &RELOAD,
        &RESTART,
        &SHOW,
        &START,
        &STATUS,
        &STOP,
        &SYSTEMCTL_RELOAD,
        &UNMASK,
    ],
)
.only_if(installed)
.provided_by("systemd_service");

/// Checks whether systemd is there; it need not run, as in the building of images.
fn installed(_grains: &Map) -> std::result::Result<(), String> {
    let reason = "The systemd execution module failed to load: only available on Linux systems which have been booted \
                  with systemd.";
    // Images are built in chroots where systemd is installed but does not run. Units can be enabled
    // there.
    if booted_with_systemd() || stopped().is_some() { Ok(()) } else { Err(reason.into()) }
}

/// The path of `systemctl` on a machine that systemd does not run.
fn stopped() -> Option<String> {
    if booted_with_systemd() { None } else { util::which("systemctl").map(|path| path.to_string_lossy().into_owned()) }
}

/// Kinds of units; a service is named without its kind.
const KINDS: [&str; 9] = ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer"];

/// The folders for units of packages.
const SYSTEM_PLACES: [&str; 2] = ["/lib/systemd/system", "/usr/lib/systemd/system"];

/// The folder for units of the administrator.
const LOCAL_PLACE: &str = "/etc/systemd/system";

/// The folder for scripts of System V.
const SCRIPTS: &str = "/etc/init.d";

/// Returns the whole name of a unit.
fn unit(name: &str) -> String {
    // A name may contain dots itself, so only a known kind at its end counts.
    let known = KINDS.iter().any(|kind| name.strip_suffix(kind).is_some_and(|rest| rest.ends_with('.')));
    if known { name.to_owned() } else { format!("{name}.service") }
}

/// Returns the name a unit is listed under. Returns None for kinds that are not listed.
fn listed(full: &str) -> Option<String> {
    let (name, kind) = full.rsplit_once('.')?;
    KINDS.contains(&kind).then(|| if kind == "service" { name.to_owned() } else { full.to_owned() })
}

/// Lays a path below another root.
fn below(root: Option<&str>, path: &str) -> String {
    root.map_or_else(|| path.to_owned(), |root| format!("{}{path}", root.trim_end_matches('/')))
}

/// A call of `systemctl`.
#[derive(Default)]
struct Call<'a> {
    root: Option<&'a str>,
    /// True if jobs are only queued.
    no_block: bool,
    /// True if it runs in a separate scope, so that stopping the minion does not end it too.
    scope: bool,
}

impl Call<'_> {
    fn run(&self, ctx: &Context, action: &[&str], name: Option<&str>) -> Result<Outcome> {
        let mut words = Vec::new();
        // Without a separate scope, systemctl would be killed together with the minion it restarts.
        let scope = util::config_get(ctx, "systemd.scope").is_none_or(|on| on.truthy());
        if self.scope && scope && util::which("systemd-run").is_some() {
            words.extend(["systemd-run", "--scope"]);
        }
        words.push("systemctl");
        words.extend(self.no_block.then_some("--no-block"));
        words.extend(self.root.into_iter().flat_map(|root| ["--root", root]));
        words.extend(action);
        let name = name.map(unit);
        words.extend(name.as_deref());
        if action.first() == Some(&"status") {
            // Without lines of the journal, which could contain the words searched for below.
            words.extend(["-n", "0"]);
        }
        subprocess::quiet(ctx, &words)
    }
}

fn systemctl(ctx: &Context, action: &[&str], name: Option<&str>) -> Result<Outcome> {
    Call::default().run(ctx, action, name)
}

/// The outcome of `systemctl status`.
struct UnitStatus {
    exists: bool,
    changed: bool,
}

fn unit_status(ctx: &Context, name: &str) -> Result<UnitStatus> {
    let said = systemctl(ctx, &["status"], Some(name))?;
    let text = format!("{}{}", said.stdout, said.stderr).to_lowercase();
    let version = ctx.grains.get("systemd").and_then(|systemd| systemd.get("version")?.as_str()?.parse::<i64>().ok());
    let exists = match version {
        // Before 231 the return code meant nothing.
        Some(old) if old < 231 => !text.contains("could not be found") && !text.contains("loaded: not-found"),
        // 0 is active, 3 is inactive, 4 means that there is no such unit.
        _ => said.retcode.is_some_and(|code| (0..4).contains(&code)),
    };
    Ok(UnitStatus { exists, changed: text.contains("'systemctl daemon-reload'") })
}

/// Makes systemd reload changed units, and returns whether the unit exists.
fn refreshed(ctx: &Context, name: &str) -> Result<bool> {
    let status = unit_status(ctx, name)?;
    // A unit file that `file.managed` has just written is unknown to systemd until a reload.
    let untracked = !status.exists && Path::new(LOCAL_PLACE).join(unit(name)).exists();
    if !status.changed && !untracked {
        return Ok(status.exists);
    }
    // Reloaded without being asked: states change unit files and then start the service.
    systemctl_reload(ctx)?;
    Ok(unit_status(ctx, name)?.exists)
}

/// Returns whether systemd knows a unit; it can only be queried while it runs.
fn unit_exists(ctx: &Context, name: &str) -> Result<bool> {
    match stopped() {
        None => refreshed(ctx, name),
        Some(_) => {
            Err(Error::execution(format!("Cannot run in offline mode. Failed to get information on unit '{name}'")))
        }
    }
}

/// All units with files, as they are listed.
fn unit_names(root: Option<&str>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for place in SYSTEM_PLACES.into_iter().chain([LOCAL_PLACE]) {
        let place = below(root, place);
        // Since the merge of /usr, /lib is a link, and every unit would be found twice.
        if Path::new(&place).is_symlink() {
            continue;
        }
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        names.extend(entries.filter_map(|entry| listed(&entry.file_name().to_string_lossy())));
    }
    names
}

/// Scripts of the older init system without a unit.
fn scripts(root: Option<&str>, units: &BTreeSet<String>) -> BTreeSet<String> {
    let entries = std::fs::read_dir(below(root, SCRIPTS)).into_iter().flatten().flatten();
    let runnable = entries.filter(|entry| util::is_executable(&entry.path()));
    runnable
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        // A script with a unit of the same name is only a leftover.
        .filter(|name| !units.contains(name))
        .collect()
}

fn is_script(root: Option<&str>, name: &str) -> bool {
    scripts(root, &unit_names(root)).contains(name)
}

/// Returns whether a script starts in the multi-user runlevels.
fn script_enabled(root: Option<&str>, name: &str) -> bool {
    // 0, 1 and 6 are halt, single user and reboot.
    [2, 3, 4, 5].iter().any(|level| {
        let links = paths::glob(&below(root, &format!("/etc/rc{level}.d/S*{name}")));
        links.iter().any(|link| {
            let file = link.rsplit('/').next().unwrap_or_default();
            let number = file.strip_prefix('S').and_then(|rest| rest.strip_suffix(name));
            // The glob also finds longer names that end alike.
            number.is_some_and(|number| number.len() <= 2 && number.chars().all(|c| c.is_ascii_digit()))
        })
    })
}

/// Drops the lines that only name the scope a command ran in.
fn without_scope(text: &str) -> String {
    // systemd-run announces its scope on stderr, where errors are expected.
    let lines: Vec<&str> = text.lines().filter(|line| !line.ends_with(".scope")).collect();
    lines.join("\n").trim().to_owned()
}

/// The unit of the minion itself; stopping it must not be waited for.
fn is_minion(name: &str) -> bool {
    // Waiting for the stop of the very process that waits would never end.
    ["salt-minion.service", "saltern-minion.service"].contains(&unit(name).as_str())
}

/// Starts, restarts or reloads a unit.
struct Control<'a> {
    name: &'a str,
    no_block: bool,
    unmask: bool,
    unmask_runtime: bool,
}

impl Control<'_> {
    fn run(&self, ctx: &Context, action: &str) -> Result<bool> {
        // Before masks are checked: an outdated unit may still be masked.
        refreshed(ctx, self.name)?;
        for (wanted, runtime) in [(self.unmask, false), (self.unmask_runtime, true)] {
            if wanted {
                set_unmasked(ctx, self.name, runtime, None)?;
            }
        }
        let call = Call { no_block: self.no_block, scope: true, root: None };
        succeed(call.run(ctx, &[action], Some(self.name))?)
    }
}

fn succeed(said: Outcome) -> Result<bool> {
    if said.retcode == Some(0) { Ok(true) } else { Err(Error::execution(without_scope(&said.stderr))) }
}

/// Returns whether there is a service of a name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.available sshd
#[function]
fn available(ctx: &Context, name: String) -> Result<bool> {
    unit_exists(ctx, &name)
}

/// Disables a service at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.disable <service name>
#[function]
fn disable(
    ctx: &Context,
    name: String,
    #[default(false)] no_block: bool,
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<bool> {
    let _ = kwargs;
    refreshed(ctx, &name)?;
    if is_script(root.as_deref(), &name) {
        // systemctl would only hand the script over to update-rc.d.
        return Ok(subprocess::quiet(ctx, &["update-rc.d", "-f", &name, "remove"])?.retcode == Some(0));
    }
    let call = Call { root: root.as_deref(), no_block, scope: true };
    Ok(call.run(ctx, &["disable"], Some(&name))?.retcode == Some(0))
}

/// Returns whether a service does not start at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.disabled <service name>
#[function]
fn disabled(ctx: &Context, name: String, root: Option<String>) -> Result<bool> {
    Ok(!is_enabled(ctx, &name, root.as_deref())?)
}

/// Enables a service at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.enable <service name>
#[function]
fn enable(
    ctx: &Context,
    name: String,
    #[default(false)] no_block: bool,
    #[default(false)] unmask: bool,
    #[default(false)] unmask_runtime: bool,
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<bool> {
    let _ = kwargs;
    refreshed(ctx, &name)?;
    for (wanted, runtime) in [(unmask, false), (unmask_runtime, true)] {
        if wanted {
            set_unmasked(ctx, &name, runtime, root.as_deref())?;
        }
    }
    if is_script(root.as_deref(), &name) {
        // 99 starts it last, after everything that it may need.
        return Ok(subprocess::quiet(ctx, &["update-rc.d", "-f", &name, "defaults", "99"])?.retcode == Some(0));
    }
    let call = Call { root: root.as_deref(), no_block, scope: true };
    succeed(call.run(ctx, &["enable"], Some(&name))?)
}

/// Returns whether a service starts at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.enabled <service name>
#[function]
fn enabled(ctx: &Context, name: String, root: Option<String>, kwargs: KwArgs) -> Result<bool> {
    let _ = kwargs;
    is_enabled(ctx, &name, root.as_deref())
}

fn is_enabled(ctx: &Context, name: &str, root: Option<&str>) -> Result<bool> {
    let call = Call { root, ..Call::default() };
    let said = call.run(ctx, &["is-enabled"], Some(name))?;
    // `is-enabled` exits with 0 for an alias whether or not the unit behind it is enabled.
    let alias = said.stdout.trim() == "alias";
    if said.retcode == Some(0) && !alias {
        return Ok(true);
    }
    if alias {
        let real = call.run(ctx, &["show", "-P", "Id"], Some(name))?.stdout;
        return Ok(call.run(ctx, &["is-enabled"], Some(real.trim()))?.retcode == Some(0));
    }
    // For an instance of a template older systemds always answer no. Its link shows the truth.
    if name.contains('@') {
        let pattern = format!("{LOCAL_PLACE}/*/{name}");
        return Ok(paths::glob(&pattern).iter().any(|path| Path::new(path).is_symlink()));
    }
    Ok(is_script(root, name) && script_enabled(root, name))
}

/// Returns the programs of services.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.execs
#[function]
fn execs(ctx: &Context, root: Option<String>) -> Result<Map> {
    let mut found = Map::new();
    for name in all(root.as_deref()) {
        let shown = properties(ctx, &name, root.as_deref())?;
        // Targets and sockets run nothing.
        if let Some(path) = shown.get("ExecStart").and_then(|start| start.get("path")) {
            found.insert(name, path.clone());
        }
    }
    Ok(found)
}

/// Reloads the configuration of a service, or restarts it if it cannot reload.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.force_reload <service name>
#[function]
fn force_reload(
    ctx: &Context,
    name: String,
    #[default(true)] no_block: bool,
    #[default(false)] unmask: bool,
    #[default(false)] unmask_runtime: bool,
) -> Result<bool> {
    Control { name: &name, no_block, unmask, unmask_runtime }.run(ctx, "force-reload")
}

fn all(root: Option<&str>) -> BTreeSet<String> {
    let mut names = unit_names(root);
    let scripts = scripts(root, &names);
    names.extend(scripts);
    names
}

/// Returns all services and other units that have files.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_all
#[function]
fn get_all(ctx: &Context, root: Option<String>) -> Result<Value> {
    Ok(ctx.blocking(move || all(root.as_deref()).into_iter().collect()))
}

/// The units in a state, by `systemctl list-unit-files`.
fn in_state(ctx: &Context, state: &str, root: Option<&str>) -> Result<BTreeSet<String>> {
    let call = Call { root, ..Call::default() };
    let said = call.run(ctx, &["--full", "--no-legend", "--no-pager", "list-unit-files"], None)?;
    Ok(units_in_state(&said.stdout, state))
}

fn units_in_state(text: &str, state: &str) -> BTreeSet<String> {
    // A line that is cut short is left out.
    let pairs = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    pairs.filter(|(_, found)| *found == state).filter_map(|(name, _)| listed(name)).collect()
}

/// Returns the services that do not start at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_disabled
#[function]
fn get_disabled(ctx: &Context, root: Option<String>) -> Result<Value> {
    let mut names = in_state(ctx, "disabled", root.as_deref())?;
    let scripts = scripts(root.as_deref(), &unit_names(root.as_deref()));
    names.extend(scripts.into_iter().filter(|name| !script_enabled(root.as_deref(), name)));
    Ok(names.into_iter().collect())
}

/// Returns the services that start at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_enabled
#[function]
fn get_enabled(ctx: &Context, root: Option<String>) -> Result<Value> {
    let mut names = in_state(ctx, "enabled", root.as_deref())?;
    let scripts = scripts(root.as_deref(), &unit_names(root.as_deref()));
    names.extend(scripts.into_iter().filter(|name| script_enabled(root.as_deref(), name)));
    Ok(names.into_iter().collect())
}

/// Returns the services that run.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_running
#[function]
fn get_running(ctx: &Context) -> Result<Value> {
    let said = systemctl(ctx, &["--full", "--no-legend", "--no-pager"], None)?;
    Ok(running(&said.stdout).into_iter().collect())
}

/// Reads lines such as "ssh.service loaded active running OpenBSD Secure Shell server".
fn running(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| {
        // Units in trouble are marked with a dot.
        let words: Vec<&str> = line.trim_start_matches(['●', '*', ' ']).split_whitespace().collect();
        (words.get(3) == Some(&"running")).then(|| words[0])
    });
    names.filter_map(listed).collect()
}

/// Returns the units that cannot be enabled by themselves (static units).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.get_static
#[function]
fn get_static(ctx: &Context, root: Option<String>) -> Result<Value> {
    Ok(in_state(ctx, "static", root.as_deref())?.into_iter().collect())
}

/// Masks a service, so that it cannot be started; with ``runtime`` until the next reboot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.mask foo
#[function]
fn mask(ctx: &Context, name: String, #[default(false)] runtime: bool, root: Option<String>) -> Result<bool> {
    refreshed(ctx, &name)?;
    let action: &[&str] = if runtime { &["mask", "--runtime"] } else { &["mask"] };
    let call = Call { root: root.as_deref(), scope: true, no_block: false };
    let said = call.run(ctx, action, Some(&name))?;
    if said.retcode != Some(0) {
        return Err(Error::execution(format!("Failed to mask service '{name}': {}", without_scope(&said.stderr))));
    }
    Ok(true)
}

fn is_masked(name: &str, runtime: bool, root: Option<&str>) -> bool {
    let place = below(root, if runtime { "/run/systemd/system" } else { LOCAL_PLACE });
    // That is what a mask is. systemctl is not asked, so this also works below a root and while
    // systemd does not run.
    std::fs::read_link(Path::new(&place).join(unit(name))).is_ok_and(|target| target == Path::new("/dev/null"))
}

/// Returns whether a service is masked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.masked foo
#[function]
fn masked(ctx: &Context, name: String, #[default(false)] runtime: bool, root: Option<String>) -> Result<bool> {
    refreshed(ctx, &name)?;
    Ok(is_masked(&name, runtime, root.as_deref()))
}

/// Returns whether there is no service of a name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.missing sshd
#[function]
fn missing(ctx: &Context, name: String) -> Result<bool> {
    Ok(!unit_exists(ctx, &name)?)
}

/// Returns whether systemd is installed but does not run, as in the building of images: the path of `systemctl` then,
/// None without one, and False while systemd runs.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.offline
#[function]
fn offline() -> Result<Value> {
    Ok(if booted_with_systemd() { false.into() } else { stopped().into() })
}

/// Reloads the configuration of a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.reload <service name>
#[function]
fn reload(
    ctx: &Context,
    name: String,
    #[default(false)] no_block: bool,
    #[default(false)] unmask: bool,
    #[default(false)] unmask_runtime: bool,
) -> Result<bool> {
    Control { name: &name, no_block, unmask, unmask_runtime }.run(ctx, "reload")
}

/// Restarts a service. The minion's own is not waited for.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.restart <service name>
#[function]
fn restart(
    ctx: &Context,
    name: String,
    no_block: Option<bool>,
    #[default(false)] unmask: bool,
    #[default(false)] unmask_runtime: bool,
) -> Result<bool> {
    let no_block = no_block.unwrap_or_else(|| is_minion(&name));
    Control { name: &name, no_block, unmask, unmask_runtime }.run(ctx, "restart")
}

fn properties(ctx: &Context, name: &str, root: Option<&str>) -> Result<Map> {
    let call = Call { root, ..Call::default() };
    Ok(parse_properties(&call.run(ctx, &["show"], Some(name))?.stdout))
}

/// Reads `Name=value` lines; a value in braces holds pairs, some are lists of words.
fn parse_properties(text: &str) -> Map {
    let mut shown = Map::new();
    for (name, value) in text.lines().map(|line| line.split_once('=').unwrap_or((line, ""))) {
        let value = if value.starts_with('{') {
            let inside = value.replace(['{', '}'], "");
            let pairs = inside.split(" ; ").map(|pair| {
                // Only the part before a second equals sign is kept, as in Salt.
                let mut parts = pair.split('=');
                (parts.next().unwrap_or_default().trim().to_owned(), parts.next().unwrap_or_default().trim().to_owned())
            });
            Value::Map(pairs.collect())
        } else if ["Before", "After", "Wants"].contains(&name) {
            // Salt splits these three into lists and leaves all other values as text.
            value.split_whitespace().collect()
        } else {
            Value::from(value)
        };
        shown.insert(name, value);
    }
    shown
}

/// Answers the questions of a system's first boot, here or below ``root``: locale, keymap, time zone, host name,
/// machine id.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.firstboot keymap=jp locale=en_US.UTF-8
#[function]
fn firstboot(
    ctx: &Context,
    locale: Option<String>,
    locale_message: Option<String>,
    keymap: Option<String>,
    timezone: Option<String>,
    hostname: Option<String>,
    machine_id: Option<String>,
    root: Option<String>,
) -> Result<bool> {
    let given = [
        ("--locale", locale),
        ("--locale-message", locale_message),
        ("--keymap", keymap),
        ("--timezone", timezone),
        ("--hostname", hostname),
        ("--machine-id", machine_id),
        ("--root", root),
    ];
    let given: Vec<(&str, String)> =
        given.into_iter().filter_map(|(flag, value)| Some((flag, value.filter(|value| !value.is_empty())?))).collect();
    let mut words = vec!["systemd-firstboot"];
    words.extend(given.iter().flat_map(|(flag, value)| [*flag, value.as_str()]));
    let said = subprocess::quiet(ctx, &words)?;
    match said.retcode {
        Some(0) => Ok(true),
        _ => Err(Error::execution(format!("systemd-firstboot error: {}", said.stderr))),
    }
}

/// Returns all properties of a unit.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.show <service name>
#[function]
fn show(ctx: &Context, name: String, root: Option<String>) -> Result<Map> {
    properties(ctx, &name, root.as_deref())
}

/// Starts a service.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.start <service name>
#[function]
fn start(
    ctx: &Context,
    name: String,
    #[default(false)] no_block: bool,
    #[default(false)] unmask: bool,
    #[default(false)] unmask_runtime: bool,
) -> Result<bool> {
    Control { name: &name, no_block, unmask, unmask_runtime }.run(ctx, "start")
}

/// Returns whether a service runs; for a shell pattern, whether each that matches does.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.status <service name>
#[function]
fn status(ctx: &Context, name: String, sig: Option<String>) -> Result<Value> {
    // systemd is more reliable than any list of processes.
    let _ = sig;
    let pattern = name.contains(['*', '?']) || (name.contains('[') && name.contains(']'));
    let names: BTreeSet<String> = if pattern {
        all(None).into_iter().filter(|service| targeting::fnmatch(service, &name)).collect()
    } else {
        BTreeSet::from([name.clone()])
    };
    let mut active = BTreeMap::new();
    for service in names {
        refreshed(ctx, &service)?;
        let said = systemctl(ctx, &["is-active"], Some(&service))?;
        active.insert(service, said.retcode == Some(0));
    }
    if pattern {
        return Ok(Value::Map(active.into_iter().collect()));
    }
    Ok(Value::Bool(active.values().all(|active| *active)))
}

/// Stops a service. The minion's own is not waited for.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.stop <service name>
#[function]
fn stop(ctx: &Context, name: String, no_block: Option<bool>) -> Result<bool> {
    refreshed(ctx, &name)?;
    let call = Call { no_block: no_block.unwrap_or_else(|| is_minion(&name)), scope: true, root: None };
    Ok(call.run(ctx, &["stop"], Some(&name))?.retcode == Some(0))
}

/// Makes systemd reload all units.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.systemctl_reload
#[function]
fn systemctl_reload(ctx: &Context) -> Result<bool> {
    let said = systemctl(ctx, &["--system", "daemon-reload"], None)?;
    if said.retcode != Some(0) {
        let text = format!("{}{}", said.stdout, said.stderr);
        return Err(Error::execution(format!("Problem performing systemctl daemon-reload: {}", text.trim_end())));
    }
    Ok(true)
}

/// Unmasks a service, so that it can be started again.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' service.unmask foo
#[function]
fn unmask(ctx: &Context, name: String, #[default(false)] runtime: bool, root: Option<String>) -> Result<bool> {
    refreshed(ctx, &name)?;
    set_unmasked(ctx, &name, runtime, root.as_deref())
}

fn set_unmasked(ctx: &Context, name: &str, runtime: bool, root: Option<&str>) -> Result<bool> {
    // unmask would succeed anyway, but the call can be spared.
    if !is_masked(name, runtime, root) {
        return Ok(true);
    }
    let action: &[&str] = if runtime { &["unmask", "--runtime"] } else { &["unmask"] };
    let said = Call { root, scope: true, no_block: false }.run(ctx, action, Some(name))?;
    if said.retcode == Some(0) { Ok(true) } else { Err(Error::execution(format!("Failed to unmask service '{name}'"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn units_have_kinds() {
        assert_eq!(unit("ssh"), "ssh.service");
        assert_eq!(unit("ssh.socket"), "ssh.socket");
        assert_eq!(unit("a.b"), "a.b.service");
        assert_eq!(listed("ssh.service").as_deref(), Some("ssh"));
        assert_eq!(listed("ssh.socket").as_deref(), Some("ssh.socket"));
        assert_eq!(listed("x.slice"), None);
        assert!(is_minion("salt-minion") && !is_minion("salt-master"));
    }

    #[test]
    fn lists_of_systemctl_are_read() {
        let text = "ssh.service      enabled  enabled\ncron.service disabled enabled\nx.slice enabled -\n\nodd\n";
        assert_eq!(units_in_state(text, "enabled"), BTreeSet::from(["ssh".to_owned()]));
        let text = "  ssh.service loaded active running OpenBSD\n● bad.service loaded failed failed Bad\n\
                    dbus.socket loaded active running D-Bus\n";
        assert_eq!(running(text), BTreeSet::from(["dbus.socket".to_owned(), "ssh".to_owned()]));
    }

    #[test]
    fn properties_hold_words_and_pairs() {
        let text = "Id=ssh.service\nAfter=a.target b.target\n\
                    ExecStart={ path=/usr/sbin/sshd ; argv[]=/usr/sbin/sshd -D ; ignore_errors=no }\nEnv=A=1\n";
        let shown = parse_properties(text);
        assert_eq!(shown.get("After"), Some(&list!["a.target", "b.target"]));
        assert_eq!(shown.get("Env"), Some(&"A=1".into()));
        let start = map! { "path" => "/usr/sbin/sshd", "argv[]" => "/usr/sbin/sshd -D", "ignore_errors" => "no" };
        assert_eq!(shown.get("ExecStart"), Some(&start.into()));
    }

    #[test]
    fn units_and_scripts_below_a_root_are_found() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str();
        for path in ["lib/systemd/system/ssh.service", "etc/init.d/ssh", "etc/init.d/old", "etc/rc3.d/S01old"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(all(root), BTreeSet::from(["old".to_owned(), "ssh".to_owned()]));
        assert!(is_script(root, "old") && !is_script(root, "ssh"));
        assert!(script_enabled(root, "old") && !script_enabled(root, "ld"));
        assert!(!is_masked("ssh", false, root));
    }

    #[test]
    fn scope_lines_are_dropped() {
        assert_eq!(without_scope("Running scope as unit: run-1.scope\nJob failed\n"), "Job failed");
    }
}
