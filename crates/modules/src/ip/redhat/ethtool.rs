//! Options of cards.

use exec::Result;
use value::{Map, Value};

use crate::ip::options::{invalid, switched};

const SPEEDS: &[&str] = &["10", "100", "1000", "10000"];

/// The speeds a card may offer, as bits.
const ADVERTISED: &[&str] = &[
    "0x001",
    "0x002",
    "0x004",
    "0x008",
    "0x010",
    "0x020",
    "0x20000",
    "0x8000",
    "0x1000",
    "0x40000",
    "0x80000",
    "0x200000",
    "0x400000",
    "0x800000",
    "0x1000000",
    "0x2000000",
    "0x4000000",
];

/// The options of a card as the program `ethtool` takes them; an empty text for none.
///
/// # Errors
/// One has a value it cannot have.
pub fn options(settings: &Map, interface: &str, grains: &Map) -> Result<String> {
    let mut words = Vec::new();
    for name in
        ["autoneg", "duplex", "speed", "advertise", "channels", "rx", "tx", "sg", "tso", "ufo", "gso", "gro", "lro"]
    {
        let Some(value) = settings.get(name) else { continue };
        let text = value.to_string();
        let text = match name {
            "duplex" if !["full", "half"].contains(&text.as_str()) => {
                return Err(invalid(interface, name, &["full", "half"]));
            }
            "speed" if !SPEEDS.contains(&text.as_str()) => return Err(invalid(interface, &text, SPEEDS)),
            "advertise" if !ADVERTISED.contains(&text.as_str()) => return Err(invalid(interface, name, ADVERTISED)),
            "duplex" | "speed" | "advertise" => text,
            "channels" => {
                let channels = channels(value, interface, grains)?;
                if !channels.is_empty() {
                    // Channels are a separate command to ethtool, in the midst of the other options, as in Salt.
                    words.push(format!("-L {interface} {channels}"));
                }
                continue;
            }
            _ => if switched(interface, name, value)? { "on" } else { "off" }.to_owned(),
        };
        words.push(format!("{name} {text}"));
    }
    Ok(words.join(" "))
}

/// The number of channels of each kind a card has: at most one for each processor.
fn channels(value: &Value, interface: &str, grains: &Map) -> Result<String> {
    let processors = grains.get("num_cpus").and_then(Value::as_i64).unwrap_or(1).max(1);
    let mut words = Vec::new();
    for kind in ["rx", "tx", "other", "combined"] {
        let Some(count) = value.get(kind) else { continue };
        if !count.as_i64().is_some_and(|count| (1..=processors).contains(&count)) {
            // The message lists what would be valid.
            let known: Vec<String> = (1..=processors).map(|count| count.to_string()).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(invalid(interface, &count.to_string(), &known));
        }
        words.push(format!("{kind} {count}"));
    }
    Ok(words.join(" "))
}
