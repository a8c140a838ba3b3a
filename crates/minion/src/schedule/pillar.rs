//! The jobs and beacons of the pillars. Each master may have its own pillar, but there is one schedule.

use std::sync::Arc;

use exec::MasterRole;
use tracing::error;
use value::{Map, Value};

use super::Timetable;
use crate::local_pillar;
use crate::masters::{Link, Masters};

/// Takes the jobs and beacons of all pillars. If several have the same name, that of the first connected master in the
/// configured order counts. The jobs and beacons of masters that are away stay until they are back.
pub fn take(table: &Timetable) {
    let Some(pillar) = merged(&table.masters) else { return };
    table.beacons.set_pillar(pillar.get("beacons"));
    let grains = table.machine().grains();
    let today = table.moment().wall.date();
    if let Err(reason) = table.change(|schedule| schedule.set_pillar(&pillar, &grains, today)) {
        error!("the schedule of the pillar is not used: {reason}");
    }
}

/// Returns `None` while nothing should change: the followed master is away, and there is no other yet.
fn merged(masters: &Masters) -> Option<Map> {
    if masters.links.is_empty() {
        return local_pillar::compile(&masters.machine, &Map::new()).inspect_err(|error| error!("{error}")).ok();
    }
    let is_live = |link: &&Arc<Link>| link.is_live() && link.has_pillar();
    let live: Vec<Arc<Map>> = masters.links.iter().filter(is_live).map(|link| link.pillar()).collect();
    let one_at_a_time = masters.links.iter().any(|link| link.status(false).role != MasterRole::Hot);
    if one_at_a_time && live.is_empty() {
        return None;
    }
    let mut pillars = live;
    // With hot masters, the jobs of one that is away go on: its pillar is the last that is known.
    if !one_at_a_time {
        pillars
            .extend(masters.links.iter().filter(|link| !is_live(link) && link.has_pillar()).map(|link| link.pillar()));
    }
    Some(merge(&pillars))
}

/// Merges schedules and beacons: for each name, the first one counts.
fn merge(pillars: &[Arc<Map>]) -> Map {
    let mut merged = Map::new();
    for name in ["schedule", "whens", "beacons"] {
        for found in pillars.iter().filter_map(|pillar| pillar.get(name)) {
            match (merged.get_mut(name), found) {
                (None, found) => drop(merged.insert(name, found.clone())),
                (Some(Value::Map(all)), Value::Map(found)) => {
                    for (key, value) in found.iter().filter(|(key, _)| all.get_value(key).is_none()).collect::<Vec<_>>()
                    {
                        all.insert(key.clone(), value.clone());
                    }
                }
                _ => {}
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn of_jobs_with_one_name_the_first_counts() {
        let first = map! { "schedule" => map! { "a" => map! { "seconds" => 1 } } };
        let second = map! { "schedule" => map! { "a" => map! { "seconds" => 2 }, "b" => map! { "seconds" => 3 } }, "whens" => map! { "x" => "1pm" } };
        let merged = merge(&[Arc::new(first), Arc::new(second)]);
        let expected = map! {
            "schedule" => map! { "a" => map! { "seconds" => 1 }, "b" => map! { "seconds" => 3 } }, "whens" => map! { "x" => "1pm" },
        };
        assert_eq!(merged, expected);
    }
}
