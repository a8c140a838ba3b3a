//! Beacons: events about changes on this machine. They belong to the minion and not to a link: each beacon is checked
//! once, not once for each master, and each connected master gets its event once.
//!
//! The kinds of beacons are in the crate `beacons`. This module runs them ([`start`]) and handles requests over the
//! bus ([`manage()`]).

mod manage;
mod watch;

pub use manage::manage;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use exec::{Context, Job};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};
use value::{Map, Value};

use crate::agent::own_context;
use crate::machine::Machine;
use crate::masters::Masters;

/// All beacons, those of the options and those of the pillar.
pub struct Beacons {
    masters: Arc<Masters>,
    options: Mutex<Map>,
    pillar: Mutex<Map>,
    changed: Notify,
}

impl Beacons {
    /// Reads the beacons of the options.
    pub fn new(masters: Arc<Masters>) -> Self {
        let options = by_name(masters.machine.config.raw.get("beacons"));
        Beacons { masters, options: Mutex::new(options), pillar: Mutex::default(), changed: Notify::new() }
    }

    /// Sets the beacons of the pillar.
    pub fn set_pillar(&self, pillar: Option<&Value>) {
        let pillar = by_name(pillar);
        let mut known = self.pillar.lock().unwrap_or_else(PoisonError::into_inner);
        // A refreshed pillar is mostly the same; restarting a beacon would forget what it has seen.
        if *known != pillar {
            *known = pillar;
            self.changed.notify_one();
        }
    }

    fn machine(&self) -> &Machine {
        &self.masters.machine
    }

    /// Returns the context in which beacons run.
    fn context(&self) -> Context {
        own_context(&self.masters, Job::new(Map::new()))
    }

    fn options(&self) -> Map {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pillar(&self) -> Map {
        self.pillar.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the options and wakes the task that runs the beacons.
    fn change(&self, change: impl FnOnce(&mut Map)) {
        change(&mut self.options.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    /// Returns all beacons; those of the options replace those of the pillar.
    fn all(&self) -> Map {
        let mut all = self.pillar();
        all.update(self.options());
        all
    }
}

/// Returns beacons by name, from a map or a list of maps.
fn by_name(value: Option<&Value>) -> Map {
    match value {
        Some(Value::Map(map)) => map.clone(),
        Some(Value::List(list)) => {
            let mut all = Map::new();
            list.iter().filter_map(Value::as_map).for_each(|map| all.update(map.clone()));
            all
        }
        Some(other) if other.truthy() => {
            error!("Beacons must be of type dict.");
            Map::new()
        }
        _ => Map::new(),
    }
}

/// Starts the beacons.
pub fn start(beacons: &Arc<Beacons>) {
    beacons.machine().rt.spawn(keep(beacons.clone()));
}

/// A running beacon.
struct Running {
    config: Value,
    stop: CancellationToken,
}

/// Runs the configured beacons, and restarts those that were changed.
async fn keep(beacons: Arc<Beacons>) {
    let at_once = beacons.machine().config.raw.get("beacons_before_connect").is_some_and(Value::truthy);
    tokio::select! {
        biased;
        () = beacons.machine().stop.cancelled() => return,
        () = beacons.masters.first_live(at_once) => {}
    }
    let mut running: BTreeMap<String, Running> = BTreeMap::new();
    loop {
        let enabled = enabled_beacons(&beacons.all());
        // A changed beacon is stopped before the new one starts: both would report the same event.
        running.retain(|name, beacon| {
            let same = enabled.get(name) == Some(&beacon.config);
            if !same {
                debug!("Closing beacon {name}");
                beacon.stop.cancel();
            }
            same
        });
        for (name, config) in enabled {
            if running.contains_key(&name) {
                continue;
            }
            let stop = beacons.machine().stop.child_token();
            begin(&beacons, &name, &config, &stop);
            running.insert(name, Running { config, stop });
        }
        tokio::select! {
            biased;
            () = beacons.machine().stop.cancelled() => return,
            () = beacons.changed.notified() => {}
        }
    }
}

/// Returns the beacons that are enabled.
fn enabled_beacons(all: &Map) -> BTreeMap<String, Value> {
    if all.get("enabled").is_some_and(|enabled| !enabled.truthy()) {
        return BTreeMap::new();
    }
    let named = all.iter().map(|(name, config)| (name.to_string(), config.clone()));
    let enabled = |config: &Value| beacons::option(config, "enabled").is_none_or(|enabled| enabled.truthy());
    named.filter(|(name, config)| name != "enabled" && enabled(config)).collect()
}

/// Returns the kind of beacon that a configuration is for.
fn kind_of(name: &str, config: &Value) -> Result<&'static beacons::Kind, String> {
    // Several beacons of one kind need names of their own; `beacon_module` then names the kind.
    let module = beacons::option(config, "beacon_module").filter(Value::truthy);
    beacons::find(&module.map_or_else(|| name.to_owned(), |module| module.to_string()))
}

fn begin(beacons: &Arc<Beacons>, name: &str, config: &Value, stop: &CancellationToken) {
    let kind = match kind_of(name, config) {
        Ok(kind) => kind,
        Err(reason) => return warn!("Unable to process beacon {name}: {reason}"),
    };
    if let Err(comment) = (kind.validate)(config, &beacons.context()) {
        return error!("Beacon {name} configuration invalid, not running.\n{comment}");
    }
    beacons.machine().rt.spawn(watch::watch(beacons.clone(), kind, name.to_owned(), config.clone(), stop.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn those_that_are_disabled_do_not_run() {
        let all =
            by_name(Some(&list![map! { "load" => list![] }, map! { "ps" => list![map! { "enabled" => false }] }]));
        assert_eq!(enabled_beacons(&all).keys().collect::<Vec<_>>(), ["load"]);
        let mut off = all;
        off.insert("enabled", false);
        assert!(enabled_beacons(&off).is_empty());
    }

    #[test]
    fn a_beacon_may_have_another_name_than_its_kind() {
        // So that one kind can run several times.
        assert_eq!(kind_of("x", &list![map! { "beacon_module" => "ps" }]).map(|kind| kind.name), Ok("ps"));
        assert_eq!(kind_of("ps", &list![]).map(|kind| kind.name), Ok("ps"));
        assert_eq!(
            kind_of("watchdog", &list![]).map(|kind| kind.name),
            Err("not supported: the beacon watchdog".to_owned())
        );
    }
}
