//! The settings of the whole machine: its name, and whether there is a network.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value};

use super::{major_release, read_lines};
use crate::ip::options::{SWITCH, switch};
use crate::ip::{apply_hostname, is_test, place, waits_for_reboot, write};

const FILE: &str = "/etc/sysconfig/network";

/// The settings the file has, in its order: the name as an option.
const SETTINGS: [&str; 9] = [
    "networking",
    "networking_ipv6",
    "hostname",
    "gateway",
    "gatewaydev",
    "nisdomain",
    "networkdelay",
    "devtimeout",
    "nozeroconf",
];

fn invalid(setting: &str, expected: &[&str]) -> Error {
    let expected = expected.join("|");
    Error::execution(format!("Invalid network setting -- Setting: {setting}, Expected: [{expected}]"))
}

/// The quotes around a text.
fn quotes(text: &str) -> &str {
    let first = text.get(..1).unwrap_or_default();
    if matches!(first, "'" | "\"") && text.len() > 1 && text.ends_with(first) { first } else { "" }
}

fn without_quotes(text: &str) -> &str {
    if quotes(text).is_empty() { text } else { &text[1..text.len() - 1] }
}

/// The settings that are in the file, with their quotes.
fn current(ctx: &Context) -> Map {
    let mut found = Map::new();
    for line in read_lines(&place(ctx, FILE)) {
        let line = line.trim();
        if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', '!'])) {
            found.insert(name.trim_end().to_lowercase(), value.trim_end());
        }
    }
    found
}

/// A switch, in quotes.
fn switched(setting: &str, value: &Value, quote: &str) -> Result<String> {
    let plain = value.as_str().map_or_else(|| value.clone(), |text| without_quotes(text).into());
    let set = switch(&plain).ok_or_else(|| invalid(setting, SWITCH))?;
    Ok(format!("{quote}{}{quote}", if set { "yes" } else { "no" }))
}

/// Returns the settings that the file shall hold.
fn desired_settings(options: &Map, current: &Map) -> Result<Map> {
    let options: Map = options.iter().map(|(name, value)| (name.to_string().to_lowercase(), value.clone())).collect();
    // Salt's default is to write what was named and to drop the rest.
    let keeps = options.get("retain_settings").is_some_and(Value::truthy);
    let mut result = if keeps { current.clone() } else { Map::new() };
    let (networking, quote) = match options.get("enabled") {
        Some(enabled) => (enabled.clone(), ""),
        // The style of the quotes is taken over from the file.
        None => {
            let known = current.get("networking").ok_or_else(|| invalid("networking", SWITCH))?;
            (known.clone(), quotes(known.as_str().unwrap_or_default()))
        }
    };
    let hostname =
        options.get("hostname").or_else(|| current.get("hostname")).map(Value::to_string).unwrap_or_default();
    if hostname.is_empty() {
        return Err(invalid("hostname", &["server1.example.com"]));
    }
    for (name, value) in &options {
        let (name, value) = (name.to_string(), value.to_string());
        // The shell reads the file, and expands variables even in double quotes.
        if value.contains(['\n', '\0', '$', '`']) {
            return Err(invalid(&name, &["text without line breaks"]));
        }
        result.insert(name, format!("{quote}{}{quote}", without_quotes(&value)));
    }
    // `no` is text and would count as true when the file is written.
    if options.get("enable_ipv6").and_then(switch) == Some(false) {
        result.remove("enable_ipv6");
    }
    result.insert("networking", switched("networking", &networking, quote)?);
    result.insert("hostname", format!("{quote}{}{quote}", without_quotes(&hostname)));
    if let Some(value) = options.get("nozeroconf") {
        result.insert("nozeroconf", switched("nozeroconf", value, quote)?);
    }
    Ok(result)
}

fn written(settings: &Map) -> String {
    let given = |name: &str| settings.get(name).filter(|value| value.truthy());
    let lines = SETTINGS.iter().filter_map(|name| Some(format!("{}={}\n", name.to_uppercase(), given(name)?)));
    let mut text: String = lines.collect();
    if given("enable_ipv6").is_some() {
        text += "IPV6INIT=\"yes\"\n";
    }
    if let Some(gateway) = given("ipv6gateway") {
        text += &format!("IPV6_DEFAULTGW=\"{gateway}\"\n");
    }
    text
}

/// Returns the settings of the machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.get_network_settings
#[function]
pub fn get_network_settings(ctx: &Context) -> Result<Vec<String>> {
    Ok(read_lines(&place(ctx, FILE)))
}

/// Writes the settings of the machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.build_network_settings <settings>
#[function]
pub fn build_network_settings(ctx: &Context, settings: KwArgs) -> Result<Vec<String>> {
    let options = settings.given();
    let text = written(&desired_settings(&options, &current(ctx))?);
    if !is_test(&options) {
        write(&place(ctx, FILE), &text, 0o644)?;
    }
    Ok(super::lines(&text))
}

/// Applies the settings: sets the host name with ``apply_hostname``, and restarts the network unless ``require_reboot``
/// is set.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ip.apply_network_settings
#[function]
pub fn apply_network_settings(ctx: &Context, settings: KwArgs) -> Result<bool> {
    let options = settings.given();
    let named = apply_hostname(ctx, &options)?;
    if waits_for_reboot(&options) {
        return Ok(named);
    }
    // From release 8 on the service `network` is not part of the system.
    let service = if major_release(&ctx.grains) >= 8 { "NetworkManager" } else { "network" };
    let restarted = ctx.call("service.restart", vec![service.into()])?.truthy();
    Ok(named && restarted)
}
