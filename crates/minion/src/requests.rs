//! Requests of functions and of programs on this host, which come as events over the minion's own bus.

use std::sync::Arc;

use event::{Event, Filter, ServeOptions, Server};
use exec::{Call, Job, Refresh};
use tracing::{debug, warn};
use value::{Map, Value, map};

use crate::agent::own_context;
use crate::beacons::{self, Beacons};
use crate::bus::all_endpoints;
use crate::machine::Machine;
use crate::masters::Masters;
use crate::schedule::{self, Timetable};
use crate::{Error, jobs, master_status, refresh};

/// The tags of requests.
pub(crate) const TAGS: [&str; 14] = [
    master_status::ASK,
    "fire_master",
    "__schedule_return",
    "_minion_mine",
    "manage_schedule",
    "manage_beacons",
    "__beacons_return",
    "pillar_refresh",
    "grains_refresh",
    "module_refresh",
    "beacons_refresh",
    "matchers_refresh",
    "environ_setenv",
    "_salt_error",
];

/// The parts of the minion that requests use.
#[derive(Clone)]
pub struct Parts {
    /// The masters.
    pub masters: Arc<Masters>,
    /// The scheduled jobs.
    pub schedule: Arc<Timetable>,
    /// The beacons.
    pub beacons: Arc<Beacons>,
}

/// Opens the bus to programs on this host and handles their requests.
///
/// # Errors
/// When the sockets cannot be opened.
pub async fn open(parts: Parts) -> Result<Sockets, Error> {
    let machine = parts.masters.machine.clone();
    let options =
        ServeOptions { write_buffer: machine.config.network.ipc_write_buffer as usize, ..ServeOptions::default() };
    let mut servers = Vec::new();
    for endpoints in all_endpoints(&machine.config, parts.masters.links.len())? {
        match event::serve(&machine.bus, &endpoints, options).await {
            Ok(server) => servers.push(server),
            // Programs that follow the tutorials look at the first pair; a further one that is taken is no reason to
            // stop.
            Err(error) if servers.is_empty() => return Err(Error::Bus(format!("{error}: {}", error.source))),
            Err(error) => warn!("a further pair of ports is not served: {error}: {}", error.source),
        }
    }
    let mut asked = machine.bus.subscribe(Filter::prefixes(TAGS));
    machine.set_minion();
    machine.rt.clone().spawn(async move {
        while let Some(event) = asked.next().await {
            // Each request in a task of its own: a refresh takes seconds, and the next request may be for a beacon.
            let parts = parts.clone();
            machine.spawn(async move { obey(&parts, &event).await });
        }
    });
    Ok(Sockets(servers))
}

/// The open sockets of the bus.
pub struct Sockets(Vec<Server>);

impl Sockets {
    /// Closes the sockets and returns when their files are gone.
    pub async fn close(self) {
        for server in self.0 {
            server.close().await;
        }
    }
}

async fn obey(parts: &Parts, event: &Event) {
    let masters = &parts.masters;
    let machine = &masters.machine;
    let data = event.data();
    match event.tag() {
        "fire_master" => drop(masters.tell_all(&fire_master(machine, data))),
        "__schedule_return" | "_minion_mine" => drop(masters.tell_all(data)),
        "manage_schedule" => schedule::manage(&parts.schedule, data),
        "manage_beacons" => beacons::manage(&parts.beacons, data),
        "__beacons_return" => drop(masters.tell_all(&beacons_found(machine, data))),
        "_salt_error" => drop(masters.tell_all(&machine.event_load("_salt_error", Value::Map(data.clone())))),
        "environ_setenv" => set_environment(masters, data).await,
        master_status::ASK => tell_masters(masters, data),
        other => match refresh::refresh_wanted(other, data) {
            Some(what) => {
                let came = refresh::here(masters, what).await;
                if what == Refresh::Modules && data.get("notify").is_some_and(Value::truthy) {
                    machine.say(refresh::MODULES_COMPLETE, came);
                }
            }
            None => debug!("ignored the event {other}: no request to this minion"),
        },
    }
}

/// Sets the variables that `environ.setenv update_minion=True` of `salt-call` has set for itself.
async fn set_environment(masters: &Arc<Masters>, data: &Map) {
    let mut kwargs = data.clone();
    // Only the function's own arguments: anybody who may write to the bus can fire this event.
    kwargs.retain(|name, _| matches!(name.as_str(), Some("environ" | "false_unsets" | "clear_all" | "permanent")));
    let (rt, ctx) = (&masters.machine.rt, own_context(masters, Job::new(Map::new())));
    if let Err(reason) = jobs::run_alone(rt, &ctx, "environ.setenv", Call { args: Vec::new(), kwargs }).await {
        warn!("the environment was not changed: {reason}");
    }
}

/// Answers a program on this host with the status of the masters.
fn tell_masters(masters: &Masters, question: &Map) {
    let Some((tag, data)) = master_status::answer(question, &masters.statuses(None)) else { return };
    if let Err(reason) = masters.machine.bus.fire(tag, data) {
        debug!("an event was not fired: {reason}");
    }
}

/// Returns the request that sends the findings of beacons to the masters.
fn beacons_found(machine: &Machine, data: &Map) -> Map {
    let events = data.get("beacons").cloned().unwrap_or_default();
    map! { "id" => machine.id.as_str(), "cmd" => "_minion_event", "pretag" => Value::Null, "events" => events }
}

/// Returns the request to the masters for a `fire_master` event: one event, or a batch.
fn fire_master(machine: &Machine, data: &Map) -> Map {
    let mut load = map! { "id" => machine.id.as_str(), "cmd" => "_minion_event" };
    load.insert("pretag", data.get("pretag").cloned());
    match data.get("events").filter(|events| events.truthy()) {
        Some(events) => drop(load.insert("events", events.clone())),
        None => {
            load.insert("data", data.get("data").cloned());
            load.insert("tag", data.get("tag").cloned());
        }
    }
    load
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::identity;
    use crate::refresh::{MODULES_COMPLETE, PILLAR_COMPLETE, refresh, refresh_within};
    use crate::returns::Returns;
    use exec::Refresh;
    use rt::Rt;

    const LONG: Duration = Duration::from_secs(3600);

    fn parts(dir: &std::path::Path) -> Parts {
        let path = dir.to_str().unwrap();
        let options = map! {
            "id" => "m", "master_type" => "disable", "cachedir" => path, "sock_dir" => path, "pki_dir" => path,
            "conf_file" => format!("{path}/minion"), "enable_fqdns_grains" => false, "enable_gpu_grains" => false,
        };
        let config = Arc::new(config::Minion::from_options(options).unwrap());
        let returns = Arc::new(Returns::new(&config));
        let id = identity::id(&config).unwrap();
        let machine = Machine::new(exec::Catalogue::default(), Rt::real(), config, id, None, Map::new());
        let masters = Arc::new(Masters::new(machine, Vec::new()));
        let beacons = Arc::new(Beacons::new(masters.clone()));
        let schedule = Arc::new(Timetable::new(masters.clone(), returns, beacons.clone()));
        Parts { masters, schedule, beacons }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_tells_the_minion_beside_it_and_waits_for_it_only_if_asked_to() {
        let dir = tempfile::tempdir().unwrap();
        let call = parts(dir.path()).masters;
        let pillar = Refresh::Pillar { clean: true };
        assert!(!refresh(&call, pillar).await.unwrap());
        for what in [pillar, Refresh::Grains, Refresh::Modules, Refresh::Beacons] {
            assert_eq!(refresh_within(&call, what, LONG).await.unwrap(), Some(false), "there is no minion");
        }
        let minion = parts(dir.path());
        let sockets = open(minion.clone()).await.unwrap();
        let minion = minion.masters;
        let mut heard = minion.machine.bus.subscribe(Filter::all());
        assert!(refresh(&call, Refresh::Beacons).await.unwrap());
        for what in [pillar, Refresh::Grains, Refresh::Modules] {
            assert_eq!(refresh_within(&call, what, LONG).await.unwrap(), Some(true), "{what:?}");
        }
        let mut tags = Vec::new();
        while tags.len() < 7 {
            tags.push(heard.next().await.unwrap().tag().to_owned());
        }
        // Each event comes over a connection of its own, so the order is open.
        tags.sort();
        let mut expected = [
            "beacons_refresh",
            "module_refresh",
            "pillar_refresh",
            "pillar_refresh",
            MODULES_COMPLETE,
            PILLAR_COMPLETE,
            PILLAR_COMPLETE,
        ];
        expected.sort_unstable();
        assert_eq!(tags, expected);
        // What a job of the minion asks for is told, too.
        assert!(refresh(&minion, pillar).await.unwrap());
        assert_eq!(heard.next().await.unwrap().tag(), PILLAR_COMPLETE);
        minion.machine.stop.cancel();
        sockets.close().await;
    }
}
