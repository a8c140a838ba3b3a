//! The minion's own event bus: what programs on this host ask of the minion through it.

use std::sync::Arc;

use event::{Endpoints, Event, Filter, ServeOptions, Server};
use exec::Refresh;
use tracing::debug;
use value::{Map, Value, map};

use crate::Error;
use crate::world::World;

/// The tags the minion obeys.
const TAGS: [&str; 9] = [
    "fire_master",
    "__schedule_return",
    "_minion_mine",
    "pillar_refresh",
    "grains_refresh",
    "module_refresh",
    "beacons_refresh",
    "matchers_refresh",
    "_salt_error",
];

/// Opens the bus to programs on this host and obeys what they ask.
///
/// # Errors
/// When the sockets cannot be opened.
pub async fn open(world: &Arc<World>) -> Result<Server, Error> {
    let endpoints = endpoints(&world.config);
    let options =
        ServeOptions { write_buffer: world.config.network.ipc_write_buffer as usize, ..ServeOptions::default() };
    let served = event::serve(&world.bus, &endpoints, options).await;
    let server = served.map_err(|error| Error::Bus(format!("{error}: {}", error.source)))?;
    let mut asked = world.bus.subscribe(Filter::prefixes(TAGS));
    let world = world.clone();
    tokio::spawn(async move {
        while let Some(event) = asked.next().await {
            let world = world.clone();
            let inside = world.clone();
            world.tasks.spawn(async move { obey(&inside, &event).await });
        }
    });
    Ok(server)
}

/// Where the sockets are.
pub fn endpoints(config: &config::Minion) -> Endpoints {
    let number = |name: &str, default: u16| {
        let first = config.raw.get(name).and_then(|value| value.as_list().map_or(Some(value), |list| list.first()));
        first.and_then(Value::as_i64).and_then(|port| u16::try_from(port).ok()).unwrap_or(default)
    };
    if config.network.ipc_mode == config::IpcMode::Tcp {
        let ipv6 = config.network.ipv6 == Some(true);
        return Endpoints::tcp(number("tcp_pub_port", 4510), number("tcp_pull_port", 4511), ipv6);
    }
    let id = config.raw.get_str("hash_id").unwrap_or(&config.id);
    let kind = config.trust.hash_type.parse().unwrap_or_default();
    Endpoints::minion(&config.paths.sock_dir, &crypto::socket_hash(id, kind))
}

async fn obey(world: &Arc<World>, event: &Event) {
    let data = event.data();
    let refresh = |what: Refresh| async move {
        let came = world.refresh(what).await;
        if what == Refresh::Pillar && data.get("notify").is_some_and(Value::truthy) {
            let tag = "/salt/minion/minion_pillar_refresh_complete";
            if let Err(reason) = world.bus.fire(tag, map! { "complete" => came }) {
                debug!("an event was not fired: {reason}");
            }
        }
    };
    match event.tag() {
        "fire_master" => drop(world.tell_all(&fire_master(world, data))),
        "__schedule_return" | "_minion_mine" => drop(world.tell_all(data)),
        "_salt_error" => drop(world.tell_all(&world.event_load("_salt_error", Value::Map(data.clone())))),
        "pillar_refresh" => refresh(Refresh::Pillar).await,
        "grains_refresh" => refresh(Refresh::Grains).await,
        "module_refresh" => refresh(Refresh::Modules).await,
        "beacons_refresh" => refresh(Refresh::Beacons).await,
        "matchers_refresh" => refresh(Refresh::Matchers).await,
        other => debug!("the event {other} is none of ours"),
    }
}

/// The request to the masters that a `fire_master` event stands for: one event, or a batch.
fn fire_master(world: &World, data: &Map) -> Map {
    let mut load = map! { "id" => world.identity.id.as_str(), "cmd" => "_minion_event" };
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
