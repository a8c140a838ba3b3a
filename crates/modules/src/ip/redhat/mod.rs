//! `ip` on Red Hat's family: a file for each interface, and for its routes, in `/etc/sysconfig/network-scripts`.

mod bond;
mod ethtool;
mod interface;
mod script;
mod system;

use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value};

use super::options::{invalid, is_address};
use super::{check_name, is_test, place, write};

/// Registers the functions of `ip`.
pub static MODULE: Module = Module::new(
    "ip",
    "Functions that look at the files of the network and write them.",
    &[
        &system::APPLY_NETWORK_SETTINGS,
        &BUILD_INTERFACE,
        &system::BUILD_NETWORK_SETTINGS,
        &BUILD_ROUTES,
        &DOWN,
        &GET_INTERFACE,
        &system::GET_NETWORK_SETTINGS,
        &GET_ROUTES,
        &UP,
    ],
)
.only_if(|grains| {
    // Salt leaves Amazon Linux 1 out as well.
    let is_old_amazon = || grains.get_str("os") == Some("Amazon") && major_release(grains) < 2;
    if grains.get_str("os_family") != Some("RedHat") || is_old_amazon() {
        return Err("The rh_ip execution module cannot be loaded: this module is only available on RHEL/Fedora based \
                    distributions."
            .into());
    }
    Ok(())
})
.provided_by("rh_ip");

const SCRIPTS: &str = "/etc/sysconfig/network-scripts";

/// The kinds of interfaces, as they are listed in messages.
const KINDS: &[&str] =
    &["eth", "bond", "team", "alias", "clone", "ipsec", "dialup", "bridge", "slave", "teamport", "vlan", "ipip", "ib"];
/// Kinds for which there is no file.
const WITHOUT_FILE: &[&str] = &["clone", "ipsec", "dialup"];
/// Kinds of interfaces that are not switched on their own.
const UNSWITCHED: &[&str] = &["slave", "teamport"];

fn major_release(grains: &Map) -> i64 {
    grains.get("osmajorrelease").and_then(Value::as_i64).unwrap_or(0)
}

/// Returns whether this release reads files of this format.
fn reads_scripts(grains: &Map) -> bool {
    let release = grains.get("osrelease").map(Value::to_string).unwrap_or_default();
    match grains.get_str("os") {
        Some("Fedora" | "Amazon") => true,
        // From release 10 on the format of these files is gone.
        _ => release.starts_with(['7', '8', '9']),
    }
}

/// The lines of a text without their ends, and without the first empty one.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // Salt removes one empty line, which its template leaves at the top.
    if let Some(empty) = lines.iter().position(String::is_empty) {
        lines.remove(empty);
    }
    lines
}

/// The lines of a file; none when there is no file.
fn read_lines(path: &Path) -> Vec<String> {
    lines(&std::fs::read_to_string(path).unwrap_or_default())
}

/// Checks a value for a file that the shell reads.
fn check_value(interface: &str, option: &str, value: &str, ends: &[char]) -> Result<()> {
    // The shell reads the file as root: a quote or a line break would begin a command.
    if value.contains(|c: char| c == '\n' || c == '\0' || ends.contains(&c)) {
        return Err(invalid(interface, option, &["text without quotes and line breaks"]));
    }
    Ok(())
}

fn installed(ctx: &Context, package: &str) -> Result<()> {
    // Asked first, so that no package manager runs for nothing, and without a network.
    if !ctx.call("pkg.version", vec![package.into()])?.truthy() {
        ctx.call("pkg.install", vec![package.into()])?;
    }
    Ok(())
}

/// Sets up an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.build_interface eth0 eth <settings>
#[function]
fn build_interface(ctx: &Context, iface: String, iface_type: String, enabled: bool, settings: KwArgs) -> Result<Value> {
    check_name(&iface)?;
    let mut settings = settings.given();
    let kind = iface_type.to_lowercase();
    if !KINDS.contains(&kind.as_str()) {
        return Err(invalid(&iface, &kind, KINDS));
    }
    if WITHOUT_FILE.contains(&kind.as_str()) {
        return Err(Error::execution(format!("not supported: interfaces of the type {kind}")));
    }
    if !reads_scripts(&ctx.grains) {
        let release = ctx.grains.get("osrelease").cloned().unwrap_or_default();
        return Err(Error::execution(format!("not supported: interfaces of release {release}")));
    }
    interface::complete(&mut settings, &kind)?;
    let test = is_test(&settings);
    let link = address_of_card(ctx, &iface, &kind, &settings)?;
    let wanted = interface::DesiredInterface { name: &iface, kind: &kind, enabled, link, grains: &ctx.grains };
    let text = script::of_interface(&iface, &wanted.options(&settings)?)?;
    if test {
        return Ok(lines(&text).into());
    }
    match kind.as_str() {
        "bridge" => {
            installed(ctx, "bridge-utils")?;
            filter_bridges(ctx, interface::bypasses_firewall(&iface, &settings)?)?;
        }
        "team" => installed(ctx, "teamd")?,
        _ => {}
    }
    let path = place(ctx, &format!("{SCRIPTS}/ifcfg-{iface}"));
    write(&path, &text, 0o644)?;
    Ok(read_lines(&path).into())
}

/// Returns the MAC address of the card, if the file is to name it.
fn address_of_card(ctx: &Context, iface: &str, kind: &str, settings: &Map) -> Result<Option<Value>> {
    let wanted = match settings.get("hwaddr") {
        None => true,
        Some(address) => address.as_str() == Some("auto"),
    };
    if !wanted || kind == "slave" || interface::WITHOUT_CARD.contains(&kind) {
        return Ok(None);
    }
    let interfaces = ctx.call("network.interfaces", Vec::new())?;
    Ok(interfaces.get(iface).and_then(|link| link.get("hwaddr")).cloned())
}

/// Makes traffic over bridges pass the firewall, or bypass it.
fn filter_bridges(ctx: &Context, bypass: bool) -> Result<()> {
    for table in ["ip6tables", "iptables", "arptables"] {
        let name = format!("net.bridge.bridge-nf-call-{table}");
        let call = Call { args: vec![name.as_str().into(), i64::from(!bypass).into()], kwargs: Map::new() };
        match ctx.call_with("sysctl.persist", call) {
            Ok(_) => {}
            // The keys exist only once the module br_netfilter is loaded.
            Err(Error::Execution(_)) => tracing::warn!("Failed to set sysctl: {name}"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the configuration of an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.get_interface eth0
#[function]
fn get_interface(ctx: &Context, iface: String) -> Result<Vec<String>> {
    check_name(&iface)?;
    Ok(read_lines(&place(ctx, &format!("{SCRIPTS}/ifcfg-{iface}"))))
}

/// Writes the routes of an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.build_routes eth0 <settings>
#[function]
fn build_routes(ctx: &Context, iface: String, settings: KwArgs) -> Result<Vec<String>> {
    check_name(&iface)?;
    let settings = settings.given();
    let wrong = |option: &str, expected: &str| {
        let text = format!("Invalid option -- Route interface: {iface}, Option: {option}, Expected: [{expected}]");
        Error::execution(text)
    };
    let named = settings.iter().find(|(name, _)| name.to_string().eq_ignore_ascii_case("routes"));
    let routes = named.and_then(|(_, routes)| routes.as_list()).ok_or_else(|| wrong("routes", "List of routes"))?;
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for route in routes {
        let route = route.as_map().ok_or_else(|| wrong("routes", "List of routes"))?;
        let address = route.get("ipaddr").ok_or_else(|| wrong("ipaddr", "address"))?.to_string();
        for (name, value) in route {
            check_value(&iface, &name.to_string(), &value.to_string(), &['"'])?;
        }
        // IPv6 routes have a separate file. Everything else, `default` included, goes to the other.
        if is_address(&address, true) { six.push(route) } else { four.push(route) }
    }
    let release = ctx.grains.get("osrelease").map(Value::to_string).unwrap_or_default();
    // Up to release 5 the file has numbered settings.
    let in_words = !release.starts_with(['0', '1', '2', '3', '4', '5']);
    let texts = [four, six].map(|routes| script::of_routes(&iface, &routes, in_words));
    let names = ["route", "route6"].map(|name| place(ctx, &format!("{SCRIPTS}/{name}-{iface}")));
    if !is_test(&settings) {
        for (path, text) in names.iter().zip(&texts) {
            write(path, text, 0o644)?;
        }
    }
    Ok(texts.iter().flat_map(|text| lines(text)).collect())
}

/// Returns the routes of an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.get_routes eth0
#[function]
fn get_routes(ctx: &Context, iface: String) -> Result<Vec<String>> {
    check_name(&iface)?;
    let of = |name: &str| read_lines(&place(ctx, &format!("{SCRIPTS}/{name}-{iface}")));
    Ok([of("route"), of("route6")].concat())
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
