//! `memusage`, `swapusage` — how much of the memory is in use.

use value::{Value, map};

use crate::config::{flat, list, percent, tenth};
use crate::{Found, Kind, looking};

pub const MEMUSAGE: Kind = Kind {
    name: "memusage",
    validate: |config, _| validate(config, "memusage"),
    watch: |config| looking(config, memory),
};

pub const SWAPUSAGE: Kind = Kind {
    name: "swapusage",
    validate: |config, _| validate(config, "swapusage"),
    watch: |config| looking(config, swap),
};

fn validate(config: &Value, name: &str) -> Result<(), String> {
    match list(config, name)?.get("percent").map(percent) {
        None => Err(format!("Configuration for {name} beacon requires percent.")),
        Some(None) => Err(format!("Configuration for {name} beacon: percent must be a number.")),
        Some(Some(_)) => Ok(()),
    }
}

fn memory(config: &Value, (): &mut ()) -> Found {
    let text = read()?;
    // Kernels before 3.14 do not estimate what could be freed.
    let (total, free) = (field(&text, "MemTotal")?, field(&text, "MemAvailable").or_else(|_| field(&text, "MemFree"))?);
    Ok(over_limit(config, "memusage", share(total, total - free)))
}

fn swap(config: &Value, (): &mut ()) -> Found {
    let text = read()?;
    let (total, free) = (field(&text, "SwapTotal")?, field(&text, "SwapFree")?);
    Ok(over_limit(config, "swapusage", share(total, total - free)))
}

fn over_limit(config: &Value, name: &str, usage: f64) -> Vec<value::Map> {
    // Without a bound that can be read nothing is reported.
    let bound = flat(config).get("percent").and_then(percent).unwrap_or(f64::INFINITY);
    if usage >= bound { vec![map! { name => usage }] } else { Vec::new() }
}

fn share(total: f64, used: f64) -> f64 {
    if total > 0.0 { tenth(used / total * 100.0) } else { 0.0 }
}

fn read() -> Result<String, String> {
    std::fs::read_to_string("/proc/meminfo").map_err(|error| format!("/proc/meminfo: {error}"))
}

fn field(text: &str, name: &str) -> Result<f64, String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("/proc/meminfo has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn usage_at_the_limit_is_reported() {
        let text = "MemTotal:       1000 kB\nMemAvailable:    370 kB\n";
        let usage = share(field(text, "MemTotal").unwrap(), 1000.0 - field(text, "MemAvailable").unwrap());
        let config: Value = list![map! { "percent" => "63%" }];
        assert_eq!(over_limit(&config, "memusage", usage), [map! { "memusage" => 63.0 }]);
        assert_eq!(over_limit(&config, "memusage", 62.9), []);
        assert_eq!(share(0.0, 0.0), 0.0);
        assert!(validate(&list![], "memusage").is_err() && validate(&config, "memusage").is_ok());
        assert!(memory(&list![map! { "percent" => 0 }], &mut ()).is_ok_and(|found| found.len() == 1));
    }
}
