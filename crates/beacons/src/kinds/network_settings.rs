//! `network_settings` — changes of the settings of interfaces.

use std::collections::BTreeMap;
use std::path::Path;

use exec::Context;
use fancy_regex::Regex;
use futures_util::future::BoxFuture;
use value::{Map, Value, map};

use crate::config::{flat, is_on, list};
use crate::{Found, Kind, Watcher};

pub const KIND: Kind = Kind {
    name: "network_settings",
    validate: |config, _| validate(config),
    watch: |config| Box::new(Settings { config: flat(config), last: None }),
};

/// The supported attributes, with their files below `/sys/class/net/<interface>`, and those without a file.
const FILES: [(&str, &str); 13] = [
    ("address", "address"),
    ("broadcast", "broadcast"),
    ("carrier", "carrier"),
    ("carrier_changes", "carrier_changes"),
    ("flags", "flags"),
    ("group", "netdev_group"),
    ("ifi_type", "type"),
    ("index", "ifindex"),
    ("linkmode", "link_mode"),
    ("mtu", "mtu"),
    ("operstate", "operstate"),
    ("txqlen", "tx_queue_len"),
    ("family", ""),
];
const OTHERS: [&str; 5] = ["ifname", "ipaddr", "num_rx_queues", "num_tx_queues", "promiscuity"];

/// Attributes that only Salt's library provides.
const REFUSED: [&str; 6] = ["ipdb_scope", "neighbours", "ipdb_priority", "kind", "qdisc", "ports"];

/// The promiscuous flag of an interface.
const PROMISCUOUS: i64 = 0x100;

fn validate(config: &Value) -> Result<(), String> {
    let config = list(config, "network_settings")?;
    let interfaces = match config.get("interfaces") {
        None => return Ok(()),
        Some(Value::Map(interfaces)) => interfaces,
        Some(_) => return Err("interfaces section for network_settings beacon must be a dictionary.".to_owned()),
    };
    for attributes in interfaces.values() {
        let Some(attributes) = attributes.as_map() else {
            return Err("Interface attributes for network_settings beacon must be a dictionary.".to_owned());
        };
        for name in attributes.text_keys() {
            // Refused, not ignored: an operator would wait for events that never occur.
            if REFUSED.contains(&name) {
                return Err(format!("not supported: the attribute {name} of the network_settings beacon"));
            }
            if !FILES.iter().any(|(known, _)| *known == name) && !OTHERS.contains(&name) {
                return Err("Invalid attributes in beacon configuration.".to_owned());
            }
        }
    }
    Ok(())
}

type Interfaces = BTreeMap<String, Map>;

struct Settings {
    config: Map,
    last: Option<Interfaces>,
}

impl Watcher for Settings {
    fn look<'a>(&'a mut self, _: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let now = all(Path::new("/sys/class/net"));
            Ok(self.judge(now))
        })
    }
}

fn all(root: &Path) -> Interfaces {
    let Ok(entries) = std::fs::read_dir(root) else { return Interfaces::new() };
    let addresses = addresses();
    let facts = |name: String| {
        let mut facts = of_interface(&root.join(&name), &name);
        facts.insert("ipaddr", addresses.get(&name).cloned().unwrap_or_default());
        (name, facts)
    };
    entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| facts(entry.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn of_interface(directory: &Path, name: &str) -> Map {
    // The facts that Salt's library returns for every interface.
    let mut facts = map! { "ifname" => name, "family" => 0 };
    for (attribute, file) in FILES.iter().filter(|(_, file)| !file.is_empty()) {
        // Some files cannot be read while an interface is down.
        if let Ok(text) = std::fs::read_to_string(directory.join(file)) {
            facts.insert(*attribute, typed(attribute, text.trim()));
        }
    }
    let queues = |prefix: &str| -> i64 {
        let entries = std::fs::read_dir(directory.join("queues"));
        entries.map_or(0, |entries| {
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).count() as i64
        })
    };
    facts.insert("num_rx_queues", queues("rx-"));
    facts.insert("num_tx_queues", queues("tx-"));
    let flags = facts.get("flags").and_then(Value::as_i64).unwrap_or(0);
    facts.insert("promiscuity", i64::from(flags & PROMISCUOUS != 0));
    facts
}

fn typed(attribute: &str, text: &str) -> Value {
    match attribute {
        // netlink has this name in upper case, sysfs in lower case.
        "operstate" => text.to_uppercase().into(),
        "flags" => i64::from_str_radix(text.trim_start_matches("0x"), 16).map_or_else(|_| text.into(), Value::from),
        _ => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
    }
}

/// Returns the addresses of each interface, with their prefixes.
fn addresses() -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for entry in nix::ifaddrs::getifaddrs().into_iter().flatten() {
        let Some(address) = &entry.address else { continue };
        let ip = address
            .as_sockaddr_in()
            .map(|address| address.ip().to_string())
            .or_else(|| address.as_sockaddr_in6().map(|address| address.ip().to_string()));
        let ones = |mask: &nix::sys::socket::SockaddrStorage| {
            let v4 = mask.as_sockaddr_in().map(|mask| u32::from(mask.ip()).count_ones());
            v4.or_else(|| mask.as_sockaddr_in6().map(|mask| u128::from(mask.ip()).count_ones()))
        };
        let prefix = entry.netmask.as_ref().and_then(ones);
        if let (Some(ip), Some(prefix)) = (ip, prefix) {
            all.entry(entry.interface_name).or_default().push(format!("{ip}/{prefix}").into());
        }
    }
    // The kernel's order may change, which is not an event.
    all.values_mut().for_each(|list| list.sort_by_key(Value::to_string));
    all
}

impl Settings {
    fn judge(&mut self, now: Interfaces) -> Vec<Map> {
        // The first look compares with itself.
        let before = self.last.replace(now.clone()).unwrap_or_else(|| now.clone());
        let Some(wanted) = self.config.get("interfaces").and_then(Value::as_map) else { return Vec::new() };
        let mut changes: Vec<(String, Map)> = Vec::new();
        for (pattern, attributes) in wanted.iter() {
            let (pattern, attributes) = (pattern.to_string(), attributes.as_map().cloned().unwrap_or_default());
            // An exact name is not read as an expression: `eth1` would match `eth10` as well.
            let exact = now.contains_key(&pattern);
            let regex = Regex::new(&pattern).ok();
            let fits = |name: &str| {
                if exact {
                    name == pattern
                } else {
                    regex.as_ref().is_some_and(|regex| regex.is_match(name).unwrap_or(false))
                }
            };
            for (name, facts) in now.iter().filter(|(name, _)| fits(name)) {
                // A new interface has no settings that could have changed.
                let Some(old) = before.get(name) else { continue };
                let changed = changed(old, facts, &attributes);
                if !changed.is_empty() {
                    changes.push((name.clone(), changed));
                }
            }
        }
        if changes.is_empty() {
            return Vec::new();
        }
        if is_on(&self.config, "coalesce") {
            let changes: Map = changes.into_iter().map(|(name, change)| (name, Value::Map(change))).collect();
            return vec![map! { "tag" => "result", "changes" => changes }];
        }
        let event = |(name, change): (String, Map)| map! { "tag" => name.as_str(), "interface" => name.as_str(), "change" => change };
        changes.into_iter().map(event).collect()
    }
}

/// Returns the configured attributes that have changed; those with `onvalue` only if they have that value now.
fn changed(old: &Map, new: &Map, wanted: &Map) -> Map {
    let told = |(name, settings): (&Value, &Value)| {
        let value = new.get_value(name)?;
        let on = settings.get("onvalue").filter(|value| value.truthy());
        // `onvalue` with a value that counts as false is as good as none, in Salt too.
        let is_told = old.get_value(name) != Some(value) && on.is_none_or(|on| value::python::equal(on, value));
        is_told.then(|| (name.to_string(), value.clone()))
    };
    wanted.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn changes_are_reported_per_interface_or_together() {
        let known = |mtu: i64, promiscuity: i64| -> Interfaces {
            [("eth0".to_owned(), map! { "mtu" => mtu, "promiscuity" => promiscuity })].into()
        };
        let config =
            map! { "interfaces" => map! { "eth*" => map! { "mtu" => (), "promiscuity" => map! { "onvalue" => 1 } } } };
        let mut settings = Settings { config, last: None };
        assert!(settings.judge(known(1500, 0)).is_empty());
        assert_eq!(
            settings.judge(known(9000, 0)),
            [map! { "tag" => "eth0", "interface" => "eth0", "change" => map! { "mtu" => 9000 } }]
        );
        assert_eq!(settings.judge(known(9000, 1)).len(), 1);
        assert!(settings.judge(known(9000, 0)).is_empty());
        settings.config.insert("coalesce", true);
        assert_eq!(
            settings.judge(known(1500, 0)),
            [map! { "tag" => "result", "changes" => map! { "eth0" => map! { "mtu" => 1500 } } }]
        );
    }

    #[test]
    fn this_machine_has_interfaces() {
        let all = all(Path::new("/sys/class/net"));
        assert!(all.values().all(|facts| facts.contains_key("ipaddr")));
        assert!(validate(&list![map! { "interfaces" => map! { "lo" => map! { "qdisc" => () } } }]).is_err());
        assert!(validate(&list![map! { "interfaces" => map! { "lo" => map! { "mtu" => () } } }]).is_ok());
    }
}
