//! Interfaces: read from the files, made from arguments, and written.

use std::path::Path;

use exec::{Error, Result};
use value::{Map, Value};

use super::hardware;
use super::values::{self, Family};

/// An interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adapter {
    /// Comes up at boot.
    pub enabled: bool,
    /// Comes up when it is plugged in.
    pub hotplug: bool,
    /// Its options by address family; `None` for a family without a stanza.
    pub data: [Option<Map>; 2],
    /// Included files, if this is the entry `source`.
    pub sources: Vec<String>,
}

/// Interfaces by their names, in the order of the file.
pub type Adapters = Vec<(String, Adapter)>;

/// Returns the interface of this name, and creates it if there is none.
pub fn entry<'a>(adapters: &'a mut Adapters, name: &str) -> &'a mut Adapter {
    let place = adapters.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        adapters.push((name.to_owned(), Adapter::default()));
        adapters.len() - 1
    });
    &mut adapters[place].1
}

const COMMANDS: [&str; 6] = ["up", "down", "pre-up", "post-up", "pre-down", "post-down"];

// === reading ===

/// Reads files of interfaces, one after the other.
///
/// # Errors
/// A file cannot be read, or a line in it has not the form it must have.
pub fn read(files: &[std::path::PathBuf]) -> Result<Adapters> {
    let mut adapters = Adapters::new();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| Error::io("read", file, &error))?;
        read_file(&mut adapters, &text, file)?;
    }
    // Only with a stanza is it an interface.
    adapters.retain(|(name, adapter)| {
        let whole = name == "source" || adapter.data.iter().any(Option::is_some);
        if !whole {
            tracing::error!("Interface file malformed for interface: {name}.");
        }
        whole
    });
    Ok(adapters)
}

fn read_file(adapters: &mut Adapters, text: &str, file: &Path) -> Result<()> {
    // Files do not continue each other: an indented line at the start of a file belongs to nothing.
    let mut current: Option<(String, Family)> = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first().filter(|word| !word.starts_with('#')) else { continue };
        // Only the start of the line counts, as in Salt; the words of a stanza are indented.
        if line.starts_with("iface") {
            current = Some(stanza(adapters, &words)?);
        } else if line.starts_with(char::is_whitespace) {
            // The rest of the line is one value, with its inner spaces.
            let value = line.trim().get(first.len()..).unwrap_or_default().trim();
            let Some((name, family)) = &current else { continue };
            if value.is_empty() {
                let path = file.display();
                return Err(Error::execution(format!("Interface file malformed: {first} has no value in {path}.")));
            }
            let data = entry(adapters, name).data[*family as usize].get_or_insert_with(Map::new);
            detail(data, first, value, *family);
        } else if line.starts_with("auto") {
            words[1..].iter().for_each(|name| entry(adapters, name).enabled = true);
        } else if line.starts_with("allow-hotplug") {
            words[1..].iter().for_each(|name| entry(adapters, name).hotplug = true);
        } else if line.starts_with("source") {
            entry(adapters, "source").sources.extend(words.get(1).map(|path| (*path).to_owned()));
        }
    }
    Ok(())
}

fn stanza(adapters: &mut Adapters, words: &[&str]) -> Result<(String, Family)> {
    let malformed = || {
        let words: Value = words.iter().copied().collect();
        Error::execution(format!("Interface file malformed: {words}."))
    };
    // Salt refuses a stanza of another length, which `inherits` would have.
    let &[_, name, family, proto] = words else { return Err(malformed()) };
    let family = Family::ALL.into_iter().find(|known| known.name() == family).ok_or_else(malformed)?;
    let data = entry(adapters, name).data[family as usize].get_or_insert_with(Map::new);
    data.insert("addrfam", family.name());
    data.insert("proto", proto);
    Ok((name.to_owned(), family))
}

fn push(data: &mut Map, key: &str, value: Value) {
    if let Value::List(items) = data.entry_or_insert_with(key, || Value::List(Vec::new())) {
        items.push(value);
    }
}

fn below(data: &mut Map, key: &str, word: &str, value: &str) {
    if let Value::Map(inside) = data.entry_or_insert_with(key, || Map::new().into()) {
        inside.insert(word, value);
    }
}

/// Reads a line of a stanza.
fn detail(data: &mut Map, word: &str, value: &str, family: Family) {
    let part = |prefix: &str| word.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(['_', '-']));
    if values::is_known(word) {
        let (_, value) = values::read(word, &value.into(), family);
        match word {
            // A stanza may have several addresses; the first keeps its place.
            "address" if data.contains_key("address") => push(data, "addresses", value),
            _ => drop(data.insert(word.replace('-', "_"), value)),
        }
    // After the table of options: a word can be in both, and Salt asks this table first.
    } else if hardware::is_ethtool(word) {
        below(data, "ethtool", word, value);
    } else if let Some(option) = part("bond") {
        below(data, "bonding", option, value);
    } else if let Some(option) = part("bridge") {
        below(data, "bridging", option, value);
    } else if COMMANDS.contains(&word) {
        push(data, &format!("{}_cmds", word.replace('-', "_")), value.into());
    }
}

// === making ===

/// Arguments whose names differ from those in the file.
const RENAMED: &[(&str, &str)] = &[
    ("dns", "dns-nameservers"),
    ("search", "dns-search"),
    ("hwaddr", "hwaddress"),
    ("ipaddr", "address"),
    ("ipaddrs", "addresses"),
    ("addr", "address"),
    ("addrs", "addresses"),
];

/// Arguments that belong to IPv4.
const OF_INET: &[&str] = &["ipaddr", "address", "ipaddresses", "addresses", "gateway", "proto"];

/// Builds an interface from arguments. `carrier` is for bonds: see `hardware::bond`.
///
/// # Errors
/// An option has a value it cannot have.
pub fn made(options: &Map, kind: &str, enabled: bool, name: &str, carrier: bool) -> Result<Adapter> {
    let mut options = options.clone();
    let set = |option: &str| options.get(option).is_some_and(Value::truthy);
    let mut adapter = Adapter { enabled, hotplug: set("hotplug"), ..Adapter::default() };
    let mut data = [Map::new(), Map::new()];
    for family in Family::ALL {
        let data = &mut data[family as usize];
        hardware_of(data, &options, kind, name, carrier)?;
        // Both families get a stanza, since such an interface may need one without an address.
        if matches!(kind, "bridge" | "bond" | "slave" | "vlan") {
            data.insert("addrfam", family.name());
        }
    }
    if kind == "slave" {
        // The address is the bond's, so the slave must not request one.
        options.insert("proto", "manual");
    }
    // `mode` is the kind of bonding here, but also an option of tunnels.
    options.remove("mode");
    for (option, value) in &options {
        take_option(&mut data, &option.to_string(), value);
    }
    for command in COMMANDS {
        let key = format!("{}_cmds", command.replace('-', "_"));
        if let Some(commands) = options.get(&key) {
            data.iter_mut().for_each(|data| drop(data.insert(key.as_str(), commands.clone())));
        }
    }
    for (family, switch) in Family::ALL.into_iter().zip(["enable_ipv4", "enable_ipv6"]) {
        let data = std::mem::take(&mut data[family as usize]);
        // Only a real False: Salt compares with `is False`.
        let off = options.get(switch) == Some(&Value::Bool(false));
        if !off && data.get_str("addrfam") == Some(family.name()) {
            adapter.data[family as usize] = Some(data);
        }
    }
    Ok(adapter)
}

fn hardware_of(data: &mut Map, options: &Map, kind: &str, name: &str, carrier: bool) -> Result<()> {
    if kind != "bridge" {
        let card = hardware::ethtool(options, name)?;
        if !card.is_empty() {
            data.insert("ethtool", card);
        }
    }
    match kind {
        "bridge" => drop(data.insert("bridging", hardware::bridge(options, name)?)),
        "bond" => {
            let mut bond = hardware::bond(options, name, carrier)?;
            bond.insert("slaves", options.get("slaves").cloned().unwrap_or_default());
            data.insert("bonding", bond);
        }
        "slave" => drop(data.insert("master", options.get("master").cloned().unwrap_or_default())),
        "vlan" => drop(data.insert("vlan_raw_device", raw_device(name))),
        _ => {}
    }
    Ok(())
}

/// Returns the device of a VLAN: the name without the numbers behind dots.
fn raw_device(name: &str) -> String {
    let mut parts = name.split('.');
    let mut raw = parts.next().unwrap_or_default().to_owned();
    // Salt removes each dot with digits, anywhere in the name.
    parts.for_each(|part| raw.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit())));
    raw
}

fn take_option(data: &mut [Map; 2], option: &str, value: &Value) {
    let (mut only, mut option) = (None, option);
    // `ipv6addr` is the option `addr` of one family; without the prefix it goes to both.
    for (family, prefix) in Family::ALL.into_iter().zip(["ipv4", "ipv6"]) {
        if let Some(rest) = option.strip_prefix(prefix) {
            (only, option) = (Some(family), rest);
            break;
        }
    }
    // These would be ambiguous: Salt takes them for IPv4 without a prefix.
    if only.is_none() && OF_INET.contains(&option) {
        only = Some(Family::Inet);
    }
    if let Some(family) = only {
        data[family as usize].insert("addrfam", family.name());
    }
    let word = RENAMED.iter().find(|(name, _)| *name == option).map_or(option, |(_, word)| word);
    let key = word.replace('-', "_");
    for family in Family::ALL {
        let (valid, value) = values::read(word, value, family);
        let data = &mut data[family as usize];
        // A value of the one family wins over a value for both, whatever order they come in.
        if valid && (only == Some(family) || (only.is_none() && !data.contains_key(&key))) {
            data.insert(key.as_str(), value);
        }
    }
}

// === writing ===

/// The options of a stanza in the order they are written, with the words in the file where those differ.
const WRITTEN: &[(&str, &str)] = &[
    ("autoconf", ""),
    ("privext", ""),
    ("dhcp", ""),
    ("hwaddress", ""),
    ("hwaddr", "hwaddress"),
    ("vlan_raw_device", ""),
    ("address", ""),
    ("addresses", "address"),
    ("netmask", ""),
    ("metric", ""),
    ("gateway", ""),
    ("pointopoint", ""),
    ("scope", ""),
    ("hostname", ""),
    ("media", ""),
    ("leasehours", ""),
    ("leasetime", ""),
    ("vendor", ""),
    ("client", ""),
    ("bootfile", ""),
    ("server", ""),
    ("mode", ""),
    ("endpoint", ""),
    ("dstaddr", ""),
    ("local", ""),
    ("ttl", ""),
    ("mtu", ""),
    ("provider", ""),
    ("unit", ""),
    ("options", ""),
    ("master", "bond-master"),
    ("dns_nameservers", ""),
    ("wireless_mode", ""),
    ("wpa_ap_scan", ""),
    ("wpa_conf", ""),
    ("wpa_driver", ""),
    ("wpa_group", ""),
    ("wpa_key_mgmt", ""),
    ("wpa_pairwise", ""),
    ("wpa_proto", ""),
    ("wpa_psk", ""),
    ("wpa_roam", ""),
    ("wpa_ssid", ""),
    ("accept_ra", "accept_ra"),
    ("up_cmds", "up"),
    ("down_cmds", "down"),
    ("pre_up_cmds", "pre-up"),
    ("post_up_cmds", "post-up"),
    ("pre_down_cmds", "pre-down"),
    ("post_down_cmds", "post-down"),
];

/// The text of an interface.
pub fn written(name: &str, adapter: &Adapter) -> String {
    let mut text: String = adapter.sources.iter().map(|source| format!("\nsource {source}\n")).collect();
    if adapter.enabled {
        text += &format!("auto {name}\n");
    }
    if adapter.hotplug {
        text += &format!("allow-hotplug {name}\n");
    }
    for data in adapter.data.iter().flatten() {
        // Without a protocol ifupdown could not read the stanza.
        if let (Some(family), Some(proto)) = (data.get_str("addrfam"), data.get("proto")) {
            text += &format!("iface {name} {family} {proto}\n");
            write_options(&mut text, data);
        }
    }
    text
}

fn joined(words: &[Value]) -> String {
    words.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
}

fn write_options(text: &mut String, data: &Map) {
    for (key, word) in WRITTEN {
        let word = if word.is_empty() { key.replace('_', "-") } else { (*word).to_owned() };
        match data.get(key).filter(|value| value.truthy()) {
            None => {}
            // resolvconf wants all servers on one line; of other options each item gets a line.
            Some(Value::List(words)) if *key == "dns_nameservers" => {
                *text += &format!("    {word} {}\n", joined(words))
            }
            Some(Value::List(items)) => items.iter().for_each(|item| *text += &format!("    {word} {item}\n")),
            Some(value) => *text += &format!("    {word} {value}\n"),
        }
    }
    for (key, prefix) in [("ethtool", ""), ("bonding", "bond-"), ("bridging", "bridge_")] {
        let Some(Value::Map(inside)) = data.get(key) else { continue };
        let mut options: Vec<_> = inside.iter().map(|(option, value)| (option.to_string(), value)).collect();
        // Salt sorts these options so that the file stays the same between runs.
        options.sort_by(|a, b| a.0.cmp(&b.0));
        for (option, value) in options {
            // Salt writes no numbers here.
            match value {
                Value::Str(value) => *text += &format!("    {prefix}{option} {value}\n"),
                Value::List(words) => *text += &format!("    {prefix}{option} {}\n", joined(words)),
                _ => {}
            }
        }
    }
}

/// Splits the text into lines with line feeds. Salt has an empty line at the end.
pub fn lines(text: &str) -> Value {
    text.split('\n').map(|line| format!("{line}\n")).collect()
}

/// Builds the entry for an included file.
///
/// # Errors
/// The file is not named.
pub fn source(options: &Map) -> Result<Adapter> {
    let missing = || Error::execution("source is a required setting for interfaces of the type source");
    let source = options.get("source").ok_or_else(missing)?.to_string();
    Ok(Adapter { sources: vec![source], ..Adapter::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn what_is_read_is_written_again() {
        let text = "auto lo\niface lo inet loopback\nauto br0\niface br0 inet static\n    address 10.0.0.1\n    address \
                    10.0.0.2\n    netmask 24\n    dns-nameservers 1.1.1.1 8.8.8.8\n    up ip link\n    up echo a b\n    \
                    bridge_ports eth0 eth1\n    bridge_stp on\niface br0 inet6 auto\n    accept_ra 2\n";
        let mut adapters = Adapters::new();
        read_file(&mut adapters, text, Path::new("x")).unwrap();
        let again: String = adapters.iter().map(|(name, adapter)| written(name, adapter)).collect();
        assert_eq!(again, text);
        assert_eq!(adapters[0].1.data[0], Some(map! { "addrfam" => "inet", "proto" => "loopback" }));
    }

    #[test]
    fn broken_lines_are_told() {
        for text in ["iface eth0 inet\n", "iface eth0 ipx static\n", "iface eth0 inet static\n    address\n"] {
            assert!(read_file(&mut Adapters::new(), text, Path::new("x")).is_err(), "{text}");
        }
    }
}
