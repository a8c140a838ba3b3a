//! `network_info` — bytes and packets that interfaces have sent and received.

use value::{Map, Value, map};

use crate::config::{flat, list};
use crate::{Found, Kind, looking};

pub const KIND: Kind =
    Kind { name: "network_info", validate: |config, _| validate(config), watch: |config| looking(config, look) };

/// The counters and their columns in `/proc/net/dev`, in Salt's order.
const COUNTERS: [(&str, usize); 8] = [
    ("bytes_sent", 8),
    ("bytes_recv", 0),
    ("packets_sent", 9),
    ("packets_recv", 1),
    ("errin", 2),
    ("errout", 10),
    ("dropin", 3),
    ("dropout", 11),
];

fn validate(config: &Value) -> Result<(), String> {
    let config = list(config, "network_info")?;
    let Some(interfaces) = config.get("interfaces").and_then(Value::as_map) else { return Ok(()) };
    for settings in interfaces.values() {
        let settings =
            settings.as_map().ok_or("Configuration for network_info beacon must be a list of dictionaries.")?;
        let known = |key: &str| key == "type" || COUNTERS.iter().any(|(name, _)| *name == key);
        if !settings.text_keys().any(known) {
            // One known item is enough for Salt; others are ignored.
            return Err("Invalid configuration item in Beacon configuration.".to_owned());
        }
    }
    Ok(())
}

fn look(config: &Value, (): &mut ()) -> Found {
    let text = std::fs::read_to_string("/proc/net/dev").map_err(|error| format!("/proc/net/dev: {error}"))?;
    Ok(judge(&flat(config), &text))
}

fn counters(text: &str, interface: &str) -> Option<Map> {
    let line = text.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name.trim() == interface).then_some(rest)
    })?;
    let numbers: Vec<i64> = line.split_whitespace().map_while(|number| number.parse().ok()).collect();
    COUNTERS.iter().map(|(name, column)| Some((*name, *numbers.get(*column)?))).collect()
}

fn judge(config: &Map, text: &str) -> Vec<Map> {
    let Some(interfaces) = config.get("interfaces").and_then(Value::as_map) else { return Vec::new() };
    let mut found = Vec::new();
    for (name, settings) in interfaces.iter() {
        let name = name.to_string();
        // A missing interface is not an error: it may appear later.
        let Some(now) = counters(text, &name) else { continue };
        let greater = settings.get("type").and_then(Value::as_str) == Some("greater");
        let bound = |counter: &str| match settings.get(counter)? {
            Value::Str(text) => text.parse().ok(),
            other => other.as_i64(),
        };
        let passes = COUNTERS.iter().any(|(counter, _)| {
            let (now, bound) = (now.get(counter).and_then(Value::as_i64), bound(counter));
            // Everything but `greater` means equal, as in Salt.
            bound.is_some() && if greater { now > bound } else { now == bound }
        });
        if passes {
            found.push(map! { "interface" => name, "network_info" => now });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn counters_are_compared() {
        let text = "Inter-|\n face |bytes\n    lo: 1000 10 0 0 0 0 0 0 2000 20 1 2 0 0 0 0\n";
        let events =
            |settings: Map| judge(&map! { "interfaces" => map! { "lo" => settings, "none" => map! {} } }, text);
        assert_eq!(events(map! { "type" => "greater", "bytes_sent" => 2000 }), []);
        let found = events(map! { "type" => "greater", "bytes_sent" => 1999 });
        assert_eq!(found[0].get("network_info").and_then(|info| info.get("dropout")), Some(&2.into()));
        assert_eq!(events(map! { "type" => "equal", "errout" => "1" }).len(), 1);
        assert!(validate(&list![map! { "interfaces" => map! { "lo" => map! { "x" => 1 } } }]).is_err());
    }
}
