//! The files, from options that are in order.

use exec::Result;
use value::{Map, Value};

use super::check_value;

/// The format of a value in a line.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// In double quotes.
    Quoted,
    /// In single quotes, since it has double ones.
    Json,
    /// As it is.
    Bare,
    /// Several words in double quotes.
    Words,
    /// In double quotes, also when it is zero.
    Number,
}

use Form::{Bare, Json, Number, Quoted, Words};

/// A line: the name in the file, the option, and the form.
type Line = (&'static str, &'static str, Form);

const FIRST: &[Line] = &[
    ("NAME", "nickname", Quoted),
    ("HWADDR", "hwaddr", Quoted),
    ("MACADDR", "macaddr", Quoted),
    ("UUID", "uuid", Quoted),
    ("USERCTL", "userctl", Quoted),
    ("MASTER", "master", Quoted),
    ("SLAVE", "slave", Quoted),
    ("VLAN", "vlan", Quoted),
];

const OF_VLANS: &[Line] =
    &[("REORDER_HDR", "reorder_hdr", Quoted), ("VID", "vlan_id", Quoted), ("PHYSDEV", "phys_dev", Quoted)];

const SECOND: &[Line] = &[
    ("TYPE", "devtype", Quoted),
    ("DEVICETYPE", "devicetype", Quoted),
    ("TEAM_CONFIG", "team_config", Json),
    ("TEAM_PORT_CONFIG", "team_port_config", Json),
    ("TEAM_MASTER", "team_master", Quoted),
    ("BOOTPROTO", "proto", Quoted),
    ("ONBOOT", "onboot", Quoted),
    ("ONPARENT", "onparent", Bare),
    ("IPV4_FAILURE_FATAL", "ipv4_failure_fatal", Quoted),
    ("IPADDR", "ipaddr", Quoted),
    ("IPADDR_START", "ipaddr_start", Quoted),
    ("IPADDR_END", "ipaddr_end", Quoted),
    ("CLONENUM_START", "clonenum_start", Quoted),
    ("NETMASK", "netmask", Quoted),
    ("PREFIX", "prefix", Quoted),
];

const THIRD: &[Line] = &[("GATEWAY", "gateway", Quoted), ("ARPCHECK", "arpcheck", Quoted)];

const OF_IPV6: &[Line] = &[
    ("IPV6_AUTOCONF", "ipv6_autoconf", Quoted),
    ("DHCPV6C", "dhcpv6c", Quoted),
    ("IPV6ADDR", "ipv6addr", Quoted),
    ("IPV6_DEFAULTGW", "ipv6gateway", Quoted),
    ("IPV6ADDR_SECONDARIES", "ipv6addrs", Words),
    ("IPV6_PEERDNS", "ipv6_peerdns", Quoted),
    ("IPV6_DEFROUTE", "ipv6_defroute", Quoted),
    ("IPV6_PEERROUTES", "ipv6_peerroutes", Quoted),
];

const LAST: &[Line] = &[
    ("SRCADDR", "srcaddr", Quoted),
    ("PEERDNS", "peerdns", Quoted),
    ("PEERROUTES", "peerroutes", Quoted),
    ("DEFROUTE", "defroute", Quoted),
    ("BRIDGE", "bridge", Quoted),
    ("STP", "stp", Quoted),
    ("DELAY", "delay", Number),
    ("MTU", "mtu", Quoted),
    ("ZONE", "zone", Quoted),
    ("MY_INNER_IPADDR", "my_inner_ipaddr", Bare),
    ("MY_OUTER_IPADDR", "my_outer_ipaddr", Bare),
    ("BONDING_OPTS", "bonding", Quoted),
    ("ETHTOOL_OPTS", "ethtool", Quoted),
    ("DOMAIN", "domain", Words),
    ("NM_CONTROLLED", "nm_controlled", Quoted),
];

/// The words of a list, or of a text.
pub fn words(value: &Value) -> Vec<String> {
    match value {
        Value::List(words) => words.iter().map(Value::to_string).collect(),
        other => other.to_string().split_whitespace().map(str::to_owned).collect(),
    }
}

/// The file of an interface under construction.
struct Script<'a> {
    interface: &'a str,
    options: &'a Map,
    text: String,
}

impl Script<'_> {
    fn put(&mut self, name: &str, option: &str, value: &str, form: Form) -> Result<()> {
        let quote = match form {
            Bare => "",
            Json => "'",
            Quoted | Words | Number => "\"",
        };
        let ends: &[char] = match form {
            Bare => &['"', '\'', ' ', ';', '&', '|', '$', '`'],
            // In single quotes the shell expands nothing.
            Json => &['\''],
            Quoted | Words | Number => &['"', '$', '`'],
        };
        check_value(self.interface, option, value, ends)?;
        self.text += &format!("{name}={quote}{value}{quote}\n");
        Ok(())
    }

    fn lines(&mut self, lines: &[Line]) -> Result<()> {
        for (name, option, form) in lines {
            // 0 counts as nothing elsewhere, but a delay of 0 is a setting.
            let is_zero = |value: &Value| *form == Number && value.as_i64() == Some(0);
            let value = self.options.get(option).filter(|value| value.truthy() || is_zero(value));
            if let Some(value) = value {
                let text = if *form == Words { words(value).join(" ") } else { value.to_string() };
                self.put(name, option, &text, *form)?;
            }
        }
        Ok(())
    }

    fn has(&self, option: &str) -> bool {
        self.options.get(option).is_some_and(Value::truthy)
    }
}

/// The file of an interface.
///
/// # Errors
/// A value would end the text in which it stands.
pub fn of_interface(interface: &str, options: &Map) -> Result<String> {
    let mut script = Script { interface, options, text: String::new() };
    script.put("DEVICE", "name", interface, Quoted)?;
    script.lines(FIRST)?;
    // The lines mean something only when VLAN is set.
    if script.has("vlan") {
        script.lines(OF_VLANS)?;
    }
    script.lines(SECOND)?;
    for (number, address) in options.get("ipaddrs").map(words).unwrap_or_default().iter().enumerate() {
        let (ip, prefix) = address.split_once('/').unwrap_or((address, ""));
        script.put(&format!("IPADDR{}", number + 1), "ipaddrs", ip.trim(), Quoted)?;
        script.put(&format!("PREFIX{}", number + 1), "ipaddrs", prefix.trim(), Quoted)?;
    }
    script.lines(THIRD)?;
    // Without IPV6INIT the scripts ignore all others of the family.
    if script.has("enable_ipv6") {
        script.put("IPV6INIT", "enable_ipv6", "yes", Quoted)?;
        script.lines(OF_IPV6)?;
    }
    script.lines(LAST)?;
    for (number, server) in options.get("dns").map(words).unwrap_or_default().iter().enumerate() {
        script.put(&format!("DNS{}", number + 1), "dns", server, Quoted)?;
    }
    Ok(script.text)
}

/// Renders the file of routes: as arguments of `ip route`, or as numbered settings.
pub fn of_routes(interface: &str, routes: &[&Map], in_words: bool) -> String {
    let mut text = String::new();
    for (number, route) in routes.iter().enumerate() {
        let part = |name: &str, before: &str, after: &str| {
            let value = route.get(name).filter(|value| value.truthy());
            value.map(|value| format!("{before}{value}{after}")).unwrap_or_default()
        };
        if in_words {
            let gateway = part("gateway", " via ", "");
            // With a gateway the kernel finds the interface by itself.
            let way = if gateway.is_empty() { format!(" dev {interface}") } else { gateway };
            let address = route.get("ipaddr").map(Value::to_string).unwrap_or_default();
            let (name, netmask, metric) =
                (part("name", "# ", ""), part("netmask", "/", ""), part("metric", " metric ", ""));
            text += &format!("{name}\n{address}{netmask}{way}{metric}\n");
        } else {
            text += &part("name", "# ", "\n");
            text += &part("ipaddr", &format!("ADDRESS{number}=\""), "\"\n");
            text += &part("netmask", &format!("NETMASK{number}=\""), "\"\n");
            text += &part("gateway", &format!("GATEWAY{number}=\""), "\"\n");
            text.push('\n');
        }
    }
    text
}
