//! `load` — the load averages.

use value::{Map, Value};

use crate::config::{flat, is_on, list};
use crate::{Found, Kind, looking};

pub const KIND: Kind =
    Kind { name: "load", validate: |config, _| validate(config), watch: |config| looking(config, look) };

const TIMES: [&str; 3] = ["1m", "5m", "15m"];

fn validate(config: &Value) -> Result<(), String> {
    let config = list(config, "load")?;
    for name in ["emitatstartup", "onchangeonly"] {
        if config.get(name).is_some_and(|value| value.as_bool().is_none()) {
            return Err(format!("Configuration for load beacon option {name} must be a boolean."));
        }
    }
    let averages = config.get("averages").ok_or("Averages configuration is required for load beacon.")?;
    if !TIMES.iter().any(|time| averages.get(time).is_some()) {
        return Err("Averages configuration for load beacon must contain 1m, 5m or 15m items.".to_owned());
    }
    for bounds in TIMES.iter().filter_map(|time| averages.get(time)) {
        match bounds.as_list().map(<[Value]>::len) {
            None => {
                return Err(
                    "Averages configuration for load beacon: 1m, 5m and 15m items must be a list of two items."
                        .to_owned(),
                );
            }
            Some(2) => {}
            Some(_) => {
                return Err(
                    "Configuration for load beacon: 1m, 5m and 15m items must be a list of two items.".to_owned()
                );
            }
        }
    }
    Ok(())
}

fn look(config: &Value, last: &mut Option<[f64; 3]>) -> Found {
    let text = std::fs::read_to_string("/proc/loadavg").map_err(|error| format!("/proc/loadavg: {error}"))?;
    let numbers: Vec<f64> = text.split(' ').take(3).filter_map(|number| number.parse().ok()).collect();
    let now: [f64; 3] = numbers.try_into().map_err(|_| "/proc/loadavg is not understood".to_owned())?;
    Ok(judge(&flat(config), now, last))
}

fn judge(config: &Map, now: [f64; 3], last: &mut Option<[f64; 3]>) -> Vec<Map> {
    let on_change = is_on(config, "onchangeonly");
    let before = last.replace(now);
    // The first look has nothing to compare with.
    if on_change && before.is_none() && config.get("emitatstartup").is_some_and(|emit| !emit.truthy()) {
        return Vec::new();
    }
    let before = before.unwrap_or(now);
    let passes = |place: usize| {
        let bounds =
            config.get("averages").and_then(|averages| averages.get(TIMES[place])?.as_list().map(<[Value]>::to_vec));
        let bound = |which: usize| bounds.as_ref().and_then(|bounds| bounds.get(which)?.as_f64());
        let (Some(low), Some(high)) = (bound(0), bound(1)) else { return false };
        let (now, before) = (now[place], before[place]);
        // Strictly on the other side before: a load that was at the bound does not count as a change.
        if on_change { (now > high && before < high) || (now < low && before > low) } else { now < low || now > high }
    };
    let data = || TIMES.iter().zip(now).map(|(time, load)| (*time, Value::from(load))).collect::<Map>();
    if (0..3).any(passes) { vec![data()] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn a_load_out_of_bounds_is_reported_always_or_on_change() {
        let config = map! { "averages" => map! { "1m" => list![0.5, 2.0] } };
        let mut last = None;
        assert_eq!(judge(&config, [1.0, 9.0, 9.0], &mut last), []);
        assert_eq!(judge(&config, [2.5, 0.0, 0.0], &mut last), [map! { "1m" => 2.5, "5m" => 0.0, "15m" => 0.0 }]);
        assert_eq!(judge(&config, [2.5, 0.0, 0.0], &mut last).len(), 1);
        let mut config = config;
        config.insert("onchangeonly", true);
        assert_eq!(judge(&config, [2.5, 0.0, 0.0], &mut last).len(), 0);
        assert_eq!(judge(&config, [0.1, 0.0, 0.0], &mut last).len(), 1);
    }

    #[test]
    fn an_invalid_configuration_is_refused() {
        let wrong = |config: Value| validate(&config).unwrap_err();
        assert_eq!(wrong(map! {}.into()), "Configuration for load beacon must be a list.");
        assert_eq!(wrong(list![]), "Averages configuration is required for load beacon.");
        assert!(
            wrong(list![map! { "averages" => map! { "1m" => list![1] } }]).contains("must be a list of two items.")
        );
    }
}
