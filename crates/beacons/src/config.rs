//! The configuration of a beacon: a list of maps, each with one or more settings.

use value::{Map, Value};

/// Settings that every beacon has.
const OPTIONS: [&str; 6] =
    ["enabled", "interval", "disable_during_state_run", "beacon_module", "run_once", "_beacon_name"];

/// Merges all settings into one map; for two of the same name the later one counts.
pub fn flat(config: &Value) -> Map {
    match config {
        Value::Map(map) => map.clone(),
        Value::List(items) => {
            let mut all = Map::new();
            for item in items.iter().filter_map(Value::as_map) {
                all.update(item.clone());
            }
            all
        }
        _ => Map::new(),
    }
}

/// Returns a setting that every beacon has (`interval`, `enabled` and so on).
pub fn option(config: &Value, name: &str) -> Option<Value> {
    flat(config).remove(name)
}

/// Returns the settings in order, without those that every beacon has.
pub fn without_options(config: &Value) -> Vec<(String, Value)> {
    let maps: Vec<&Map> = match config {
        Value::Map(map) => vec![map],
        Value::List(items) => items.iter().filter_map(Value::as_map).collect(),
        _ => Vec::new(),
    };
    let all = maps.into_iter().flat_map(|map| map.iter()).map(|(key, value)| (key.to_string(), value.clone()));
    all.filter(|(key, _)| !OPTIONS.contains(&key.as_str())).collect()
}

/// Checks that a configuration is a list, as Salt requires.
pub(crate) fn list(config: &Value, name: &str) -> Result<Map, String> {
    match config {
        Value::List(_) => Ok(flat(config)),
        _ => Err(format!("Configuration for {name} beacon must be a list.")),
    }
}

/// Parses a percentage such as `63%` or `63`.
pub(crate) fn percent(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => text.replace('%', "").trim().parse().ok(),
        other => other.as_f64(),
    }
}

/// Returns whether a setting is present and true.
pub(crate) fn is_on(map: &Map, name: &str) -> bool {
    map.get(name).is_some_and(Value::truthy)
}

/// Rounds to one decimal place, as `psutil` does for percentages.
pub(crate) fn tenth(number: f64) -> f64 {
    // Salt compares what psutil rounded, so a bound of 63 is reached by 62.96.
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn settings_are_found_in_lists_of_maps() {
        let config: Value = list![map! { "/" => "63%" }, map! { "interval" => 5 }, map! { "/home" => 50 }];
        assert_eq!(option(&config, "interval"), Some(5.into()));
        let rest = without_options(&config);
        assert_eq!(
            rest.iter().map(|(key, value)| (key.as_str(), percent(value))).collect::<Vec<_>>(),
            [("/", Some(63.0)), ("/home", Some(50.0))]
        );
        assert!(super::list(&"x".into(), "load").is_err());
    }
}
