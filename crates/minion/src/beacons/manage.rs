//! Requests about the beacons over the minion's bus, from `beacons.*` and from other programs.

use tracing::{error, warn};
use value::{Map, Value, map};

use super::{Beacons, kind_of};

/// Handles an event `manage_beacons`, and fires the event with which Salt answers.
pub fn manage(beacons: &Beacons, data: &Map) {
    let name = data.get("name").map(Value::to_string).unwrap_or_default();
    let given = || data.get("beacon_data").cloned().unwrap_or_default();
    let func = data.get_str("func").unwrap_or_default();
    let in_pillar = beacons.pillar().contains_key(&name);
    let known = beacons.options().contains_key(&name);
    let (tag, complete, comment) = match func {
        "list" => return list(beacons, data),
        "list_available" => {
            let names: Vec<Value> = beacons::KINDS.iter().map(|kind| kind.name.into()).collect();
            return answer(beacons, "beacons_list_available_complete", map! { "complete" => true, "beacons" => names });
        }
        "validate_beacon" => return validate(beacons, &name, &given()),
        "enable" | "disable" => {
            // `enabled` is a key among the names of beacons, as in Salt's options.
            beacons.change(|options| drop(options.insert("enabled", func == "enable")));
            let tag = format!("beacons_{func}d_complete");
            return answer(beacons, &tag, map! { "complete" => true, "beacons" => beacons.options() });
        }
        "reset" => {
            beacons.change(Map::clear);
            ("beacon_reset_complete", true, "Beacons have been reset".to_owned())
        }
        // The pillar belongs to the master: a change here would be undone at the next refresh.
        "add" if in_pillar => {
            let comment = format!("Cannot update beacon item {name}, because it is configured in pillar.");
            ("beacon_add_complete", false, comment)
        }
        "add" => {
            beacons.change(|options| drop(options.insert(name.as_str(), given())));
            let comment = if known { "Updating settings for beacon item" } else { "Added new beacon item" };
            ("beacon_add_complete", true, format!("{comment}: {name}"))
        }
        "modify" if in_pillar => ("beacon_modify_complete", false, cannot("modify", &name)),
        "modify" => {
            beacons.change(|options| drop(options.insert(name.as_str(), given())));
            ("beacon_modify_complete", true, format!("Updating settings for beacon item: {name}"))
        }
        "delete" if in_pillar => ("beacon_delete_complete", false, cannot("delete", &name)),
        "delete" => {
            beacons.change(|options| drop(options.remove(&name)));
            let comment =
                if known { format!("Deleting beacon item: {name}") } else { format!("Beacon item {name} not found.") };
            ("beacon_delete_complete", true, comment)
        }
        "enable_beacon" if in_pillar => ("beacon_enabled_complete", false, cannot("enable", &name)),
        "disable_beacon" if in_pillar => ("beacon_disabled_complete", false, cannot("disable", &name)),
        "enable_beacon" => {
            beacons.change(|options| enable(options, &name, true));
            ("beacon_enabled_complete", true, format!("Enabling beacon item {name}"))
        }
        "disable_beacon" => {
            beacons.change(|options| enable(options, &name, false));
            ("beacon_disabled_complete", true, format!("Disabling beacon item {name}"))
        }
        other => return error!("Function \"{other}\" is unavailable in salt.utils.beacons"),
    };
    answer(beacons, tag, map! { "complete" => complete, "comment" => comment, "beacons" => beacons.options() });
}

fn cannot(verb: &str, name: &str) -> String {
    format!("Cannot {verb} beacon item {name}, it is configured in pillar.")
}

fn answer(beacons: &Beacons, what: &str, data: Map) {
    if let Err(reason) = beacons.machine().bus.fire(format!("/salt/minion/minion_{what}"), data) {
        warn!("an event was not fired: {reason}");
    }
}

fn list(beacons: &Beacons, data: &Map) {
    let wants = |name: &str| data.get(name).is_none_or(|wanted| wanted.is_null() || wanted.truthy());
    let mut listed = if wants("include_pillar") { beacons.pillar() } else { Map::new() };
    if wants("include_opts") {
        listed.update(beacons.options());
    }
    answer(beacons, "beacons_list_complete", map! { "complete" => true, "beacons" => listed });
}

fn validate(beacons: &Beacons, name: &str, config: &Value) {
    let checked = kind_of(name, config).and_then(|kind| (kind.validate)(config, &beacons.context()));
    let comment = checked.clone().err().unwrap_or_else(|| "Valid beacon configuration".to_owned());
    let data = map! { "complete" => true, "vcomment" => comment, "valid" => checked.is_ok() };
    answer(beacons, "beacon_validation_complete", data);
}

/// Sets whether a beacon runs, in its configuration.
pub fn enable(options: &mut Map, name: &str, enabled: bool) {
    match options.get_mut(name) {
        Some(Value::Map(config)) => drop(config.insert("enabled", enabled)),
        Some(Value::List(config)) => {
            let there = config.iter_mut().filter_map(Value::as_map_mut).find(|item| item.contains_key("enabled"));
            match there {
                Some(item) => drop(item.insert("enabled", enabled)),
                None => config.push(map! { "enabled" => enabled }.into()),
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn a_beacon_is_switched_in_its_list() {
        let mut options = map! { "ps" => list![map! { "interval" => 5 }] };
        enable(&mut options, "ps", false);
        enable(&mut options, "ps", true);
        enable(&mut options, "none", true);
        assert_eq!(options, map! { "ps" => list![map! { "interval" => 5 }, map! { "enabled" => true }] });
    }
}
