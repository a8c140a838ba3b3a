//! Options of cards, bridges and bonds.

use exec::{Error, Result};
use value::{Map, Value, map};

use crate::ip::options::{invalid, is_mac, switched, whole};

/// Options of network cards: the argument, and the word in the file.
const ETHTOOL: &[(&str, &str)] = &[
    ("speed", "link-speed"),
    ("duplex", "link-duplex"),
    ("autoneg", "ethernet-autoneg"),
    ("rx", "offload-rx"),
    ("tx", "offload-tx"),
    ("sg", "offload-sg"),
    ("tso", "offload-tso"),
    ("ufo", "offload-ufo"),
    ("gso", "offload-gso"),
    ("gro", "offload-gro"),
    ("lro", "offload-lro"),
];

/// Additional options of network cards that a file may have.
const ETHTOOL_IN_FILES: &[&str] = &[
    "ethernet-port",
    "ethernet-wol",
    "driver-message-level",
    "ethernet-pause-rx",
    "ethernet-pause-tx",
    "ethernet-pause-autoneg",
    "hardware-irq-coalesce-adaptive-rx",
    "hardware-irq-coalesce-adaptive-tx",
    "hardware-irq-coalesce-rx-usecs",
    "hardware-irq-coalesce-rx-frames",
    "hardware-dma-ring-rx",
    "hardware-dma-ring-rx-mini",
    "hardware-dma-ring-rx-jumbo",
    "hardware-dma-ring-tx",
];

/// Returns whether a word in a file is an option of a card.
pub fn is_ethtool(word: &str) -> bool {
    ETHTOOL_IN_FILES.contains(&word) || ETHTOOL.iter().any(|(_, known)| *known == word)
}

/// The options of a card, as the file names them.
///
/// # Errors
/// One has a value it cannot have.
pub fn ethtool(options: &Map, interface: &str) -> Result<Map> {
    let mut found = Map::new();
    for (name, word) in ETHTOOL {
        let Some(value) = options.get(name) else { continue };
        let value = match *name {
            "duplex" if matches!(value.as_str(), Some("full" | "half")) => value.clone(),
            "duplex" => return Err(invalid(interface, name, &["full", "half"])),
            "speed" => {
                let known = ["10", "100", "1000", "10000"];
                let text = value.to_string();
                if !known.contains(&text.as_str()) {
                    // Salt names the value in place of the option here.
                    return Err(invalid(interface, &text, &known));
                }
                value.clone()
            }
            _ => if switched(interface, name, value)? { "on" } else { "off" }.into(),
        };
        found.insert(*word, value);
    }
    Ok(found)
}

/// The options of a bridge.
///
/// # Errors
/// One has a value it cannot have.
pub fn bridge(options: &Map, interface: &str) -> Result<Map> {
    let mut found = Map::new();
    for (name, value) in options {
        let name = name.to_string();
        let wrong = |expected: &str| Err(invalid(interface, &name, &[expected]));
        let value = match name.as_str() {
            "ports" => match value {
                Value::List(ports) => ports.iter().map(Value::to_string).collect::<Vec<_>>().join(" ").into(),
                other => other.clone(),
            },
            "ageing" | "fd" | "gcint" | "hello" | "maxage" => match value.to_string().trim().parse::<f64>() {
                Ok(_) => value.clone(),
                Err(_) => return wrong("float"),
            },
            // Numbers as text are refused, unlike those above: Salt checks the type.
            "bridgeprio" | "maxwait" => match value {
                Value::Int(_) | Value::Bool(_) => value.clone(),
                _ => return wrong("integer"),
            },
            // Salt's pattern requires two digits in each part, so shorter forms do not match.
            "hw" if value.as_str().is_some_and(|text| text.len() == 17 && is_mac(text)) => value.clone(),
            "hw" => return wrong("valid MAC address"),
            "pathcost" | "portprio" => {
                let text = value.to_string();
                match text.split_whitespace().collect::<Vec<_>>()[..] {
                    [port, cost] if cost.parse::<i64>().is_ok() => format!("{port} {cost}").into(),
                    _ => return wrong("interface integer"),
                }
            }
            "stp" => if switched(interface, "stp", value)? { "on" } else { "off" }.into(),
            "waitport" => match waitport(value) {
                Some(value) => value,
                None => return wrong("integer [interfaces]"),
            },
            _ => continue,
        };
        found.insert(name, value);
    }
    Ok(found)
}

fn waitport(value: &Value) -> Option<Value> {
    if matches!(value, Value::Int(_)) {
        return Some(value.clone());
    }
    let text = value.as_str()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let (seconds, ports) = words.split_first()?;
    // The ports must be named when the value is text.
    let fits = seconds.bytes().all(|byte| byte.is_ascii_digit()) && !ports.is_empty();
    fits.then(|| format!("{seconds} {}", ports.join(" ")).into())
}

// The defaults are those of Salt, which writes them into the file even where the kernel has the same.
/// The defaults of the options of bonds.
const BOND_DEFAULTS: &[(&str, &str)] = &[
    ("ad_select", "0"),
    ("miimon", "100"),
    ("arp_interval", "250"),
    ("downdelay", "200"),
    ("lacp_rate", "0"),
    ("updelay", "0"),
    ("use_carrier", "on"),
];

/// The bonding modes by number: the word, and the options that belong to it, in their order.
const BOND_MODES: [(&str, &[&str]); 7] = [
    ("balance-rr", &["arp_ip_target", "arp_interval"]),
    ("active-backup", &["miimon", "downdelay", "updelay", "primary", "use_carrier"]),
    ("balance-xor", &["arp_ip_target", "arp_interval", "hashing-algorithm"]),
    ("broadcast", &["miimon", "downdelay", "updelay", "use_carrier"]),
    ("802.3ad", &["miimon", "downdelay", "updelay", "lacp_rate", "ad_select", "use_carrier", "hashing-algorithm"]),
    ("balance-tlb", &["miimon", "downdelay", "updelay", "use_carrier", "primary"]),
    ("balance-alb", &["miimon", "downdelay", "updelay", "use_carrier", "primary"]),
];

/// Returns the options of a bond. `carrier` returns whether active-backup bonds support `use_carrier` on this system.
///
/// # Errors
/// One has a value it cannot have, or is missing.
pub fn bond(options: &Map, interface: &str, carrier: bool) -> Result<Map> {
    let missing = || Error::execution("mode is a required setting for bond interfaces");
    let mode = options.get("mode").ok_or_else(missing)?;
    let word = mode.as_str().unwrap_or_default();
    let known = BOND_MODES.iter();
    let found = known.clone().position(|(name, _)| *name == word);
    // The number may be given in place of the word, but as text.
    let Some(number) = found.or_else(|| (0..BOND_MODES.len()).find(|number| number.to_string() == word)) else {
        let numbers = ["0", "1", "2", "3", "4", "5", "6"];
        let words: Vec<&str> = numbers.into_iter().chain(known.map(|(name, _)| *name)).collect();
        return Err(invalid(interface, "mode", &words));
    };
    let mut bond = map! { "mode" => number.to_string() };
    for option in BOND_MODES[number].1 {
        // Salt leaves the option out on Ubuntu from 16.04 on.
        if *option == "use_carrier" && number == 1 && !carrier {
            continue;
        }
        let default = || BOND_DEFAULTS.iter().find(|(name, _)| name == option).map(|(_, value)| Value::from(*value));
        let value = match options.get(option) {
            Some(value) => bond_option(interface, option, value)?,
            // There is no sensible default for an address.
            None if *option == "arp_ip_target" => return Err(invalid(interface, option, &[TARGETS])),
            None => match default() {
                Some(value) => value,
                None => continue,
            },
        };
        // The state's option has another name than the driver's.
        bond.insert(if *option == "hashing-algorithm" { "xmit_hash_policy" } else { option }, value);
    }
    Ok(bond)
}

const TARGETS: &str = "list of ips (up to 16)";

fn bond_option(interface: &str, option: &str, value: &Value) -> Result<Value> {
    match option {
        "arp_ip_target" => match value.as_list() {
            Some(targets) if (1..=16).contains(&targets.len()) => {
                Ok(targets.iter().map(Value::to_string).collect::<Vec<_>>().join(",").into())
            }
            _ => Err(invalid(interface, option, &[TARGETS])),
        },
        "primary" => Ok(value.clone()),
        "use_carrier" => Ok(if switched(interface, option, value)? { "1" } else { "0" }.into()),
        "hashing-algorithm" => {
            let known = ["layer2", "layer2+3", "layer3+4"];
            let fits = value.as_str().is_some_and(|word| known.contains(&word));
            if fits { Ok(value.clone()) } else { Err(invalid(interface, option, &known)) }
        }
        "lacp_rate" => match value.as_str() {
            Some("fast") => Ok("1".into()),
            Some("slow") => Ok("0".into()),
            _ if whole(value).is_some() => Ok(value.clone()),
            _ => Err(invalid(interface, option, &["fast", "1", "slow", "0"])),
        },
        _ if whole(value).is_some() => Ok(value.clone()),
        _ => Err(invalid(interface, option, &["integer"])),
    }
}
