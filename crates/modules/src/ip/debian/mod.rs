//! `ip` on Debian and its family: interfaces in `/etc/network/interfaces`, routes in scripts beside it.

mod adapters;
mod hardware;
mod system;
mod values;

use std::path::{Path, PathBuf};

use exec::{Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value};

use adapters::{Adapter, Adapters};

use super::{check_name, is_test, options, place, write};
use crate::util;

/// Registers the functions of `ip`.
pub static MODULE: Module = Module::new(
    "ip",
    "Functions that look at the files of the network and write them.",
    &[
        &system::APPLY_NETWORK_SETTINGS,
        &BUILD_BOND,
        &BUILD_INTERFACE,
        &system::BUILD_NETWORK_SETTINGS,
        &BUILD_ROUTES,
        &DOWN,
        &GET_BOND,
        &GET_INTERFACE,
        &system::GET_NETWORK_SETTINGS,
        &GET_ROUTES,
        &UP,
    ],
)
.only_if(|grains| {
    if grains.get_str("os_family") != Some("Debian") {
        return Err("The debian_ip module could not be loaded: unsupported OS family".into());
    }
    if util::which("netplan").is_some() && Path::new("/etc/netplan").is_dir() {
        return Err("not supported: networks that netplan keeps".into());
    }
    Ok(())
})
.provided_by("debian_ip");

const INTERFACES: &str = "/etc/network/interfaces";
const MORE_INTERFACES: &str = "/etc/network/interfaces.d";
const UP_SCRIPTS: &str = "/etc/network/if-up.d";
const DOWN_SCRIPTS: &str = "/etc/network/if-down.d";
const MODPROBE: &str = "/etc/modprobe.d";

/// Kinds of interfaces that are not switched on their own.
const UNSWITCHED: &[&str] = &["slave", "source"];

/// The kinds of interfaces, as they are listed in messages.
const KINDS: &[&str] =
    &["eth", "bond", "alias", "clone", "ipsec", "dialup", "bridge", "slave", "vlan", "pppoe", "source"];

/// The lines of a file, with their ends; none when there is no file.
fn read_lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Reads all interfaces.
fn current(ctx: &Context) -> Result<Adapters> {
    let mut files = Vec::new();
    let main = place(ctx, INTERFACES);
    if main.is_file() {
        files.push(main);
    }
    let entries = std::fs::read_dir(place(ctx, MORE_INTERFACES)).into_iter().flatten().flatten();
    let mut more: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    // Salt reads the directory in whatever order it is stored; sorted, two runs write the same file.
    more.sort();
    files.extend(more);
    adapters::read(&files)
}

/// Returns whether active-backup bonds support `use_carrier`: everywhere but on newer Ubuntus.
fn knows_carrier(ctx: &Context) -> bool {
    let release = ctx.grains.get("osrelease_info").and_then(Value::as_list).and_then(|parts| parts.first()?.as_i64());
    !(ctx.grains.get_str("os") == Some("Ubuntu") && release.is_some_and(|release| release >= 16))
}

/// Returns the options of the kernel's module for a bond.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.get_bond bond0
#[function]
fn get_bond(ctx: &Context, iface: String) -> Result<Value> {
    check_name(&iface)?;
    let path = place(ctx, &format!("{MODPROBE}/{iface}.conf"));
    // Where there is no file Salt has an empty text.
    if !path.is_file() {
        return Ok("".into());
    }
    Ok(read_lines(&path).into())
}

/// Writes the options of the kernel's module for a bond, loads it, and installs the program for bonds.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.build_bond bond0 mode=balance-alb
#[function]
fn build_bond(ctx: &Context, iface: String, settings: KwArgs) -> Result<Value> {
    check_name(&iface)?;
    let settings = settings.given();
    let bond = hardware::bond(&settings, &iface, knows_carrier(ctx))?;
    let options: String = bond.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    // The blank behind the last option is Salt's.
    let text = format!("alias {iface} bonding\noptions {iface} {options}");
    if is_test(&settings) {
        return Ok(text.split_inclusive('\n').collect());
    }
    let path = place(ctx, &format!("{MODPROBE}/{iface}.conf"));
    write(&path, &text, 0o644)?;
    // The file only counts when the module is loaded.
    ctx.call("kmod.load", vec!["bonding".into()])?;
    ctx.call("pkg.install", vec!["ifenslave".into()])?;
    Ok(read_lines(&path).into())
}

/// Returns the configuration of an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.get_interface eth0
#[function]
fn get_interface(ctx: &Context, iface: String) -> Result<Value> {
    let adapters = current(ctx)?;
    let found = adapters.iter().find(|(name, _)| *name == iface);
    Ok(found
        .map_or_else(|| Value::List(Vec::new()), |(name, adapter)| adapters::lines(&adapters::written(name, adapter))))
}

/// Sets up an interface. An address of sixteen bytes is ``ipv6addr`` or ``ipv6ipaddr``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.build_interface eth0 eth <settings>
#[function]
fn build_interface(ctx: &Context, iface: String, iface_type: String, enabled: bool, settings: KwArgs) -> Result<Value> {
    check_name(&iface)?;
    let settings = settings.given();
    let kind = iface_type.to_lowercase();
    let adapter = desired_adapter(ctx, &iface, &kind, enabled, &settings)?;
    if is_test(&settings) {
        // A source is reported only when it is written.
        let told = if kind == "source" { Adapter::default() } else { adapter };
        return Ok(adapters::lines(&adapters::written(&iface, &told)));
    }
    let package = match kind.as_str() {
        "vlan" => Some("vlan"),
        "bridge" => Some("bridge-utils"),
        _ => None,
    };
    // ifupdown knows these kinds only through the scripts of the packages, so they come before the file.
    if let Some(package) = package {
        ctx.call("pkg.install", vec![package.into()])?;
    }
    let own = adapters::written(&iface, &adapter);
    match settings.get("filename").map(Value::to_string) {
        // A separate file holds this interface alone; the common file is written as a whole.
        Some(name) if name.starts_with('/') => write(&place(ctx, &name), &own, 0o644)?,
        Some(name) => write(&place(ctx, &format!("{MORE_INTERFACES}/{name}")), &own, 0o644)?,
        None => {
            let mut all = current(ctx)?;
            // The new stanza takes the place of the old one, and all others are written from what was read.
            *adapters::entry(&mut all, &iface) = adapter;
            let text: String = all.iter().map(|(name, adapter)| adapters::written(name, adapter)).collect();
            write(&place(ctx, INTERFACES), &text, 0o644)?;
        }
    }
    Ok(adapters::lines(&own))
}

/// Builds the wanted interface from the settings.
fn desired_adapter(ctx: &Context, name: &str, kind: &str, enabled: bool, settings: &Map) -> Result<Adapter> {
    let needs = |setting: &str, what: &str| {
        let missing = || Error::execution(format!("{setting} is a required setting for {what}"));
        settings.get(setting).map(drop).ok_or_else(missing)
    };
    match kind {
        "slave" => needs("master", "slave interfaces")?,
        "bond" => needs("slaves", "bond interfaces")?,
        "bridge" => needs("ports", "bridge interfaces on Debian or Ubuntu based systems")?,
        "source" => return adapters::source(settings),
        "eth" | "vlan" => {}
        kind if KINDS.contains(&kind) => {
            return Err(Error::execution(format!("not supported: interfaces of the type {kind}")));
        }
        kind => return Err(options::invalid(name, kind, KINDS)),
    }
    adapters::made(settings, kind, enabled, name, knows_carrier(ctx))
}

/// The path of the script for routes of an interface.
fn script(ctx: &Context, folder: &str, iface: &str) -> PathBuf {
    place(ctx, &format!("{folder}/route-{}", iface.replace('.', "_")))
}

/// The script that adds routes of an interface, or deletes them.
fn route_script(verb: &str, iface: &str, routes: &[Value]) -> String {
    // ifupdown runs every script for every interface; the first line of code leaves when it is another's.
    let mut text = format!("#!/bin/sh\n# {verb}\ntest \"${{IFACE}}\" = \"{iface}\" || exit 0\n");
    for route in routes {
        let part = |name: &str, before: &str| {
            let value = route.get(name).filter(|value| value.truthy());
            value.map(|value| format!("{before}{value}")).unwrap_or_default()
        };
        if let Some(name) = route.get("name").filter(|name| name.truthy()) {
            text += &format!("# {name}\n");
        }
        let (net, gateway) = (part("ipaddr", "") + &part("netmask", "/"), part("gateway", "via "));
        text += &format!("ip route {verb} {net} {gateway} dev {iface}{}\n", part("metric", " metric "));
    }
    text
}

/// Returns the scripts for routes of an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.get_routes eth0
#[function]
fn get_routes(ctx: &Context, iface: String) -> Result<Value> {
    check_name(&iface)?;
    let mut lines = read_lines(&script(ctx, UP_SCRIPTS, &iface));
    lines.extend(read_lines(&script(ctx, DOWN_SCRIPTS, &iface)));
    Ok(if lines.is_empty() { "".into() } else { lines.into() })
}

/// Writes the scripts that add routes of an interface when it comes up, and delete them when it goes down.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.build_routes eth0 <settings>
#[function]
fn build_routes(ctx: &Context, iface: String, settings: KwArgs) -> Result<Value> {
    check_name(&iface)?;
    let settings = settings.given();
    let missing = || {
        let text = "Invalid option -- Route interface: ";
        Error::execution(format!("{text}{iface}, Option: routes, Expected: [List of routes]"))
    };
    let named = settings.iter().find(|(name, _)| name.to_string().eq_ignore_ascii_case("routes"));
    let routes = named.map(|(_, routes)| routes.as_list().unwrap_or_default().to_vec()).ok_or_else(missing)?;
    // The parts end up in a script that root runs, where a new line would start another command.
    let lines_too_many = routes.iter().filter_map(Value::as_map).flat_map(Map::values);
    if lines_too_many.map(Value::to_string).any(|value| value.contains('\n')) {
        return Err(Error::execution("A part of a route must not hold a new line"));
    }
    let (add, delete) = (route_script("add", &iface, &routes), route_script("del", &iface, &routes));
    if !is_test(&settings) {
        write(&script(ctx, UP_SCRIPTS, &iface), &add, 0o755)?;
        write(&script(ctx, DOWN_SCRIPTS, &iface), &delete, 0o755)?;
    }
    Ok((add + &delete).split_inclusive('\n').collect())
}

/// Shuts down an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.down eth0 eth
#[function]
fn down(ctx: &Context, iface: String, iface_type: String) -> Result<Value> {
    super::switched(ctx, "ifdown", &iface, &iface_type, UNSWITCHED)
}

/// Brings an interface up.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.up eth0 eth
#[function]
fn up(ctx: &Context, iface: String, iface_type: String) -> Result<Value> {
    super::switched(ctx, "ifup", &iface, &iface_type, UNSWITCHED)
}
