//! `firewalld` — the zones of the firewall daemon.

mod members;
mod ports;
mod services;
mod zones;

use exec::{Context, Error, Module, Result};
use value::{Map, Value, list, map};

use crate::util;

/// Registers the functions of `firewalld`.
pub static MODULE: Module = Module::new(
    "firewalld",
    "Functions that look at the zones of the firewall daemon and change them.",
    &[
        &members::ADD_INTERFACE,
        &services::ADD_MASQUERADE,
        &ports::ADD_PORT,
        &ports::ADD_PORT_FWD,
        &members::ADD_RICH_RULE,
        &services::ADD_SERVICE,
        &services::ADD_SERVICE_PORT,
        &services::ADD_SERVICE_PROTOCOL,
        &members::ADD_SOURCE,
        &ports::ALLOW_ICMP,
        &ports::BLOCK_ICMP,
        &zones::DEFAULT_ZONE,
        &zones::DELETE_SERVICE,
        &zones::DELETE_ZONE,
        &zones::GET_ICMP_TYPES,
        &members::GET_INTERFACES,
        &services::GET_MASQUERADE,
        &members::GET_RICH_RULES,
        &services::GET_SERVICE_PORTS,
        &services::GET_SERVICE_PROTOCOLS,
        &zones::GET_SERVICES,
        &members::GET_SOURCES,
        &zones::GET_ZONES,
        &zones::LIST_ALL,
        &ports::LIST_ICMP_BLOCK,
        &ports::LIST_PORT_FWD,
        &ports::LIST_PORTS,
        &services::LIST_SERVICES,
        &zones::LIST_ZONES,
        &zones::MAKE_PERMANENT,
        &zones::NEW_SERVICE,
        &zones::NEW_ZONE,
        &zones::RELOAD_RULES,
        &members::REMOVE_INTERFACE,
        &services::REMOVE_MASQUERADE,
        &ports::REMOVE_PORT,
        &ports::REMOVE_PORT_FWD,
        &members::REMOVE_RICH_RULE,
        &services::REMOVE_SERVICE,
        &services::REMOVE_SERVICE_PORT,
        &services::REMOVE_SERVICE_PROTOCOL,
        &members::REMOVE_SOURCE,
        &zones::SET_DEFAULT_ZONE,
        &zones::VERSION,
    ],
)
.only_if(|_| match util::which("firewall-cmd") {
    Some(_) => Ok(()),
    None => Err("The firewalld execution module cannot be loaded: the firewall-cmd binary is not in the path.".into()),
});

/// Runs `firewall-cmd` and returns what it printed.
fn run(ctx: &Context, line: &str) -> Result<String> {
    let program = util::program(ctx, "firewall-cmd").ok_or_else(|| Error::CommandNotFound("firewall-cmd".into()))?;
    let said = ctx.call("cmd.run_all", vec![format!("{program} {line}").into()])?;
    let text = |name: &str| said.get(name).map(Value::to_string).unwrap_or_default();
    if said.get("retcode").is_some_and(Value::truthy) {
        // firewall-cmd prints some of its complaints to stdout.
        let complaint = Some(text("stderr")).filter(|text| !text.is_empty()).unwrap_or_else(|| text("stdout"));
        return Err(Error::execution(format!("firewall-cmd failed: {complaint}")));
    }
    Ok(text("stdout"))
}

fn words(ctx: &Context, line: &str) -> Result<Vec<String>> {
    Ok(run(ctx, line)?.split_whitespace().map(str::to_owned).collect())
}

/// Adds the option for the permanent settings.
fn lasting(line: &str, permanent: bool) -> String {
    if permanent { format!("{line} --permanent") } else { line.to_owned() }
}

/// Adds a zone; without one the command is about the default zone.
fn zoned(zone: Option<String>, line: &str) -> String {
    match zone.filter(|zone| !zone.is_empty()) {
        Some(zone) => format!("--zone={zone} {line}"),
        None => line.to_owned(),
    }
}

/// Creates or deletes something, and reloads the settings if wanted.
fn managed(ctx: &Context, line: &str, restart: bool) -> Result<String> {
    let said = run(ctx, line)?;
    // New zones and services exist in the permanent settings only, until they are loaded.
    if restart && said == "success" { run(ctx, "--reload") } else { Ok(said) }
}

/// Refuses services that do not exist.
fn require_service(ctx: &Context, service: &str) -> Result<()> {
    let services = words(ctx, "--get-services --permanent")?;
    let known = services.iter().any(|known| known == service);
    if known { Ok(()) } else { Err(Error::execution("The service does not exist.")) }
}

/// Reads the settings of zones: a name at the start of a line, then indented settings, whose additional values are
/// indented with a tab.
fn zones(text: &str) -> Map {
    let mut found = Map::new();
    let (mut zone, mut setting) = (String::new(), String::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        // A zone is the only line without an indent.
        if line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            zone = line.trim_end().to_owned();
            continue;
        }
        let entry = found.entry_or_insert_with(zone.as_str(), || Map::new().into());
        let Some(settings) = entry.as_map_mut() else { continue };
        // Rich rules are on separate lines below the setting.
        if line.starts_with('\t') {
            if let Some(Value::List(values)) = settings.get_mut(&setting) {
                values.push(line.trim().into());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            setting = name.trim().to_owned();
            settings.insert(setting.as_str(), list![value.trim()]);
        }
    }
    found
}

fn all_of(ctx: &Context, zone: Option<String>, permanent: bool) -> Result<Map> {
    Ok(zones(&run(ctx, &lasting(&zoned(zone, "--list-all"), permanent))?))
}

fn masquerades(ctx: &Context, zone: Option<String>, permanent: bool) -> Result<bool> {
    let zones = all_of(ctx, zone, permanent)?;
    let off = |zone: &Value| zone.get("masquerade").and_then(Value::as_list).is_some_and(|list| *list == ["no".into()]);
    // With several zones one without masquerading is enough for False, as in Salt.
    Ok(!zones.values().any(off))
}

/// Reads a line such as "port=80:proto=tcp:toport=443:toaddr=10.0.0.2".
fn forwarded(line: &str) -> Result<Value> {
    // The last part may hold an IPv6 address with colons.
    let parts: Vec<&str> = line.splitn(4, ':').filter_map(|part| Some(part.split_once('=')?.1)).collect();
    let [source, protocol, target, address] = parts[..] else {
        return Err(Error::execution(format!("firewall-cmd shows a forwarded port as '{line}'")));
    };
    let entry = map! {
        "Source port" => source, "Protocol" => protocol, "Destination port" => target, "Destination address" => address,
    };
    Ok(entry.into())
}
