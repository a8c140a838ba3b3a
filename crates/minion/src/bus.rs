//! The minion's own event bus: what programs on this host ask of the minion through it.

use std::sync::Arc;
use std::time::Duration;

use event::{Endpoints, Event, Filter, Remote, RemoteError, ServeOptions, Server};
use exec::Refresh;
use tracing::{debug, warn};
use value::{Map, Value, map};

use crate::world::World;
use crate::{Error, beacons, knowledge, schedule};

/// The tags the minion obeys.
const TAGS: [&str; 13] = [
    knowledge::ASK,
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
    "_salt_error",
];

/// Opens the bus to programs on this host and obeys what they ask.
///
/// # Errors
/// When the sockets cannot be opened.
pub async fn open(world: &Arc<World>) -> Result<Sockets, Error> {
    let options =
        ServeOptions { write_buffer: world.config.network.ipc_write_buffer as usize, ..ServeOptions::default() };
    let mut servers = Vec::new();
    for endpoints in all_endpoints(&world.config, world.links.len())? {
        match event::serve(&world.bus, &endpoints, options).await {
            Ok(server) => servers.push(server),
            Err(error) if servers.is_empty() => return Err(Error::Bus(format!("{error}: {}", error.source))),
            Err(error) => warn!("a further pair of ports is not served: {error}: {}", error.source),
        }
    }
    let mut asked = world.bus.subscribe(Filter::prefixes(TAGS));
    let world = world.clone();
    world.rt.clone().spawn(async move {
        while let Some(event) = asked.next().await {
            let world = world.clone();
            let inside = world.clone();
            world.spawn(async move { obey(&inside, &event).await });
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

/// Where the bus is found; with `ipc_mode: tcp` the first pair of ports.
pub fn endpoints(config: &config::Minion) -> Endpoints {
    if config.network.ipc_mode == config::IpcMode::Tcp {
        return tcp(config, (config.network.tcp_pub_port.of(0), config.network.tcp_pull_port.of(0)));
    }
    let id = config.raw.get_str("hash_id").unwrap_or(&config.id);
    let kind = config.trust.hash_type.parse().unwrap_or_default();
    Endpoints::minion(&config.paths.sock_dir, &crypto::socket_hash(id, kind))
}

fn tcp(config: &config::Minion, (publish, pull): (u16, u16)) -> Endpoints {
    Endpoints::tcp(publish, pull, config.network.ipv6 == Some(true))
}

/// Everywhere the bus is served. There is but one, whose first pair of ports would do; but programs that follow the tutorials
/// look for the minion of each further master at a pair of its own.
fn all_endpoints(config: &config::Minion, masters: usize) -> Result<Vec<Endpoints>, Error> {
    if config.network.ipc_mode != config::IpcMode::Tcp {
        return Ok(vec![endpoints(config)]);
    }
    let pairs = config.network.bus_ports(masters).map_err(Error::Ports)?;
    Ok(pairs.into_iter().map(|pair| tcp(config, pair)).collect())
}

/// Fires an event on the bus of the running minion, which is this one or another process, and waits for the answer.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn ask(
    world: &Arc<World>,
    tag: &str,
    data: Map,
    answer: &str,
    patience: Duration,
) -> exec::Result<Option<Map>> {
    if world.schedule.is_running() {
        let mut answers = world.bus.subscribe(Filter::prefix(answer));
        world.bus.fire(tag, data).map_err(|error| exec::Error::execution(error.to_string()))?;
        return Ok(answers.next_within(patience).await.map(|event| event.data().clone()));
    }
    match tokio::time::timeout(patience, ask_remote(world, tag, data, answer)).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(reason)) => {
            debug!("there is no minion to ask: {reason}");
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}

/// How long the bus of the running minion may take for an event.
const FIRE_PATIENCE: Duration = Duration::from_secs(5);

/// Fires an event on the bus of the running minion, which is this one or another process; says whether there is one.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn fire(world: &Arc<World>, tag: &str, data: Map) -> exec::Result<bool> {
    world.bus.fire(tag, data.clone()).map_err(|error| exec::Error::execution(error.to_string()))?;
    if world.schedule.is_running() {
        return Ok(true);
    }
    let mut remote = Remote::new(world.rt.clone(), endpoints(&world.config));
    match tokio::time::timeout(FIRE_PATIENCE, remote.fire(tag, data)).await {
        Ok(Ok(())) => Ok(true),
        Ok(Err(reason)) => {
            debug!("there is no minion to hear of {tag}: {reason}");
            Ok(false)
        }
        Err(_) => Ok(false),
    }
}

async fn ask_remote(world: &World, tag: &str, data: Map, answer: &str) -> Result<Map, RemoteError> {
    let mut remote = Remote::new(world.rt.clone(), endpoints(&world.config));
    let mut answers = remote.listen(Filter::prefix(answer)).await?;
    remote.fire(tag, data).await?;
    Ok(answers.next().await?.data().clone())
}

/// The event that tells a minion what to load anew.
pub fn refresh_event(what: Refresh) -> (&'static str, Map) {
    match what {
        Refresh::Pillar { clean } => ("pillar_refresh", map! { "clean_cache" => clean }),
        Refresh::Grains => ("grains_refresh", Map::new()),
        Refresh::Modules => ("module_refresh", Map::new()),
        Refresh::Beacons => ("beacons_refresh", Map::new()),
        Refresh::Matchers => ("matchers_refresh", Map::new()),
    }
}

/// What an event of [`refresh_event`] tells, whoever fired it.
fn refresh_wanted(tag: &str, data: &Map) -> Option<Refresh> {
    Some(match tag {
        "pillar_refresh" => Refresh::Pillar { clean: data.get("clean_cache").is_some_and(Value::truthy) },
        "grains_refresh" => Refresh::Grains,
        "module_refresh" => Refresh::Modules,
        "beacons_refresh" => Refresh::Beacons,
        "matchers_refresh" => Refresh::Matchers,
        _ => return None,
    })
}

async fn obey(world: &Arc<World>, event: &Event) {
    let data = event.data();
    let refresh = |what: Refresh| async move {
        let came = world.refresh(what).await;
        if matches!(what, Refresh::Pillar { .. }) && data.get("notify").is_some_and(Value::truthy) {
            let tag = "/salt/minion/minion_pillar_refresh_complete";
            if let Err(reason) = world.bus.fire(tag, map! { "complete" => came }) {
                debug!("an event was not fired: {reason}");
            }
        }
    };
    match event.tag() {
        "fire_master" => drop(world.tell_all(&fire_master(world, data))),
        "__schedule_return" | "_minion_mine" => drop(world.tell_all(data)),
        "manage_schedule" => schedule::manage(world, data),
        "manage_beacons" => beacons::manage(world, data),
        "__beacons_return" => drop(world.tell_all(&beacons_found(world, data))),
        "_salt_error" => drop(world.tell_all(&world.event_load("_salt_error", Value::Map(data.clone())))),
        knowledge::ASK => tell_masters(world, data),
        other => match refresh_wanted(other, data) {
            Some(what) => refresh(what).await,
            None => debug!("the event {other} is none of ours"),
        },
    }
}

/// Tells a program on this host what is known of the masters.
fn tell_masters(world: &World, question: &Map) {
    let Some((tag, data)) = knowledge::answer(question, &world.statuses(None)) else { return };
    if let Err(reason) = world.bus.fire(tag, data) {
        debug!("an event was not fired: {reason}");
    }
}

/// The request to the masters that tells what beacons have found.
fn beacons_found(world: &World, data: &Map) -> Map {
    let events = data.get("beacons").cloned().unwrap_or_default();
    map! { "id" => world.id.as_str(), "cmd" => "_minion_event", "pretag" => Value::Null, "events" => events }
}

/// The request to the masters that a `fire_master` event stands for: one event, or a batch.
fn fire_master(world: &World, data: &Map) -> Map {
    let mut load = map! { "id" => world.id.as_str(), "cmd" => "_minion_event" };
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
    use super::*;

    #[test]
    fn an_event_tells_what_is_to_be_loaded_anew() {
        use Refresh::{Beacons, Grains, Matchers, Modules, Pillar};
        for what in [Grains, Modules, Beacons, Matchers, Pillar { clean: true }, Pillar { clean: false }] {
            let (tag, data) = refresh_event(what);
            assert_eq!(refresh_wanted(tag, &data), Some(what));
            assert!(TAGS.contains(&tag), "{tag}");
        }
        assert_eq!(refresh_wanted("pillar_refresh", &Map::new()), Some(Pillar { clean: false }));
        assert_eq!(refresh_wanted("other", &Map::new()), None);
    }
}
