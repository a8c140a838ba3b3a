//! The minion's own event bus: requests of programs on this host.

use std::sync::Arc;
use std::time::Duration;

use event::{Endpoints, Event, Filter, Remote, RemoteError, ServeOptions, Server};
use exec::{Call, Refresh};
use tracing::{debug, warn};
use value::{Map, Value, map};

use crate::world::World;
use crate::{Error, beacons, jobs, knowledge, schedule};

/// The tags of requests.
const TAGS: [&str; 14] = [
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
    "environ_setenv",
    "_salt_error",
];

/// Fired when the pillar was compiled again.
pub const PILLAR_COMPLETE: &str = "/salt/minion/minion_pillar_refresh_complete";

/// Fired, on request, when the modules were reloaded.
const MODULES_COMPLETE: &str = "/salt/minion/minion_mod_refresh_complete";

/// Opens the bus to programs on this host and handles their requests.
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
            // Programs that follow the tutorials look at the first pair; a further one that is taken is no reason to
            // stop.
            Err(error) if servers.is_empty() => return Err(Error::Bus(format!("{error}: {}", error.source))),
            Err(error) => warn!("a further pair of ports is not served: {error}: {}", error.source),
        }
    }
    let mut asked = world.bus.subscribe(Filter::prefixes(TAGS));
    let world = world.clone();
    world.rt.clone().spawn(async move {
        while let Some(event) = asked.next().await {
            // Each request in a task of its own: a refresh takes seconds, and the next request may be for a beacon.
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

/// Returns where the bus is; with `ipc_mode: tcp`, the first pair of ports.
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

/// Returns all places where the bus is served. There is only one bus, whose first pair of ports would do; but
/// programs that follow the tutorials look for the minion of each further master at a pair of its own.
fn all_endpoints(config: &config::Minion, masters: usize) -> Result<Vec<Endpoints>, Error> {
    if config.network.ipc_mode != config::IpcMode::Tcp {
        return Ok(vec![endpoints(config)]);
    }
    let pairs = config.network.bus_ports(masters).map_err(Error::Ports)?;
    Ok(pairs.into_iter().map(|pair| tcp(config, pair)).collect())
}

/// The outcome of a question to the running minion.
enum Asked {
    Answered(Map),
    Late,
    NoMinion,
}

/// Fires an event on the bus of the running minion, in this or another process, and waits for the answer.
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
    Ok(match question(world, tag, data, answer, patience).await? {
        Asked::Answered(answer) => Some(answer),
        Asked::Late | Asked::NoMinion => None,
    })
}

async fn question(world: &Arc<World>, tag: &str, data: Map, answer: &str, patience: Duration) -> exec::Result<Asked> {
    if world.is_minion() {
        // Subscribed before the question is fired.
        let mut answers = world.bus.subscribe(Filter::prefix(answer));
        world.bus.fire(tag, data).map_err(|error| exec::Error::execution(error.to_string()))?;
        let answer = answers.next_within(patience).await;
        return Ok(answer.map_or(Asked::Late, |event| Asked::Answered(event.data().clone())));
    }
    Ok(match tokio::time::timeout(patience, ask_remote(world, tag, data, answer)).await {
        Ok(Ok(answer)) => Asked::Answered(answer),
        Ok(Err(reason)) => {
            debug!("there is no minion to ask: {reason}");
            Asked::NoMinion
        }
        Err(_) => Asked::Late,
    })
}

/// Lets the running minion reload something. In this process the caller waits for it; another process is only told.
/// Returns whether it was done, or the other process was told.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn refresh(world: &Arc<World>, what: Refresh) -> exec::Result<bool> {
    if world.is_minion() {
        return Ok(world.refresh(what).await);
    }
    // The rest of this call sees the modules as they are now. For anything else the call ends too soon.
    if what == Refresh::Modules {
        world.refresh_modules();
    }
    let (tag, data) = refresh_event(what);
    fire(world, tag, data).await
}

/// The same, but waits for another process, too. Returns nothing when that takes too long.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn refresh_within(world: &Arc<World>, what: Refresh, patience: Duration) -> exec::Result<Option<bool>> {
    let (tag, mut data) = refresh_event(what);
    let answer = match what {
        Refresh::Pillar { .. } | Refresh::Grains => PILLAR_COMPLETE,
        Refresh::Modules => MODULES_COMPLETE,
        Refresh::Beacons | Refresh::Matchers => return refresh(world, what).await.map(Some),
    };
    if what == Refresh::Modules {
        data.insert("notify", true);
        world.refresh_modules();
    }
    Ok(match question(world, tag, data, answer, patience).await? {
        Asked::Answered(answer) => Some(answer.get("complete").is_some_and(Value::truthy)),
        Asked::Late => None,
        Asked::NoMinion => Some(false),
    })
}

/// How long the bus of the running minion may take to accept an event.
const FIRE_PATIENCE: Duration = Duration::from_secs(5);

/// Fires an event on the bus of the running minion, in this or another process. Returns whether there is one.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn fire(world: &Arc<World>, tag: &str, data: Map) -> exec::Result<bool> {
    // On our own bus as well: a function may be waiting for the event in this process.
    world.bus.fire(tag, data.clone()).map_err(|error| exec::Error::execution(error.to_string()))?;
    if world.is_minion() {
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

/// Returns the event that tells a minion what to reload. As in Salt, grains are collected together with the pillar.
fn refresh_event(what: Refresh) -> (&'static str, Map) {
    match what {
        Refresh::Pillar { clean } => ("pillar_refresh", map! { "clean_cache" => clean }),
        Refresh::Grains => ("pillar_refresh", map! { "clean_cache" => false, "force_refresh" => true }),
        Refresh::Modules => ("module_refresh", Map::new()),
        Refresh::Beacons => ("beacons_refresh", Map::new()),
        Refresh::Matchers => ("matchers_refresh", Map::new()),
    }
}

/// Returns the meaning of an event of [`refresh_event`], whoever fired it.
fn refresh_wanted(tag: &str, data: &Map) -> Option<Refresh> {
    Some(match tag {
        "pillar_refresh" if is_set(data, "force_refresh") && !is_set(data, "clean_cache") => Refresh::Grains,
        "pillar_refresh" => Refresh::Pillar { clean: is_set(data, "clean_cache") },
        "grains_refresh" => Refresh::Grains,
        "module_refresh" => Refresh::Modules,
        "beacons_refresh" => Refresh::Beacons,
        "matchers_refresh" => Refresh::Matchers,
        _ => return None,
    })
}

async fn obey(world: &Arc<World>, event: &Event) {
    let data = event.data();
    match event.tag() {
        "fire_master" => drop(world.tell_all(&fire_master(world, data))),
        "__schedule_return" | "_minion_mine" => drop(world.tell_all(data)),
        "manage_schedule" => schedule::manage(world, data),
        "manage_beacons" => beacons::manage(world, data),
        "__beacons_return" => drop(world.tell_all(&beacons_found(world, data))),
        "_salt_error" => drop(world.tell_all(&world.event_load("_salt_error", Value::Map(data.clone())))),
        "environ_setenv" => set_environment(world, data).await,
        knowledge::ASK => tell_masters(world, data),
        other => match refresh_wanted(other, data) {
            Some(what) => {
                let came = world.refresh(what).await;
                if what == Refresh::Modules && is_set(data, "notify") {
                    say(world, MODULES_COMPLETE, came);
                }
            }
            None => debug!("the event {other} is none of ours"),
        },
    }
}

fn is_set(data: &Map, name: &str) -> bool {
    data.get(name).is_some_and(Value::truthy)
}

/// Tells programs on this host that something is done.
pub fn say(world: &World, tag: &str, complete: bool) {
    if let Err(reason) = world.bus.fire(tag, map! { "complete" => complete }) {
        debug!("an event was not fired: {reason}");
    }
}

/// Sets the variables that `environ.setenv update_minion=True` of `salt-call` has set for itself.
async fn set_environment(world: &Arc<World>, data: &Map) {
    let mut kwargs = data.clone();
    // Only the function's own arguments: anybody who may write to the bus can fire this event.
    kwargs.retain(|name, _| matches!(name.as_str(), Some("environ" | "false_unsets" | "clear_all" | "permanent")));
    let ctx = schedule::context(world);
    if let Err(reason) = jobs::run_alone(&world.rt, &ctx, "environ.setenv", Call { args: Vec::new(), kwargs }).await {
        warn!("the environment was not changed: {reason}");
    }
}

/// Answers a program on this host with what is known of the masters.
fn tell_masters(world: &World, question: &Map) {
    let Some((tag, data)) = knowledge::answer(question, &world.statuses(None)) else { return };
    if let Err(reason) = world.bus.fire(tag, data) {
        debug!("an event was not fired: {reason}");
    }
}

/// Returns the request that tells the masters what beacons have found.
fn beacons_found(world: &World, data: &Map) -> Map {
    let events = data.get("beacons").cloned().unwrap_or_default();
    map! { "id" => world.id.as_str(), "cmd" => "_minion_event", "pretag" => Value::Null, "events" => events }
}

/// Returns the request to the masters for a `fire_master` event: one event, or a batch.
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
    use crate::identity;
    use crate::world::Parts;
    use rt::Rt;

    const LONG: Duration = Duration::from_secs(3600);

    fn world(dir: &std::path::Path) -> Arc<World> {
        let path = dir.to_str().unwrap();
        let options = map! {
            "id" => "m", "master_type" => "disable", "cachedir" => path, "sock_dir" => path, "pki_dir" => path,
            "conf_file" => format!("{path}/minion"), "enable_fqdns_grains" => false, "enable_gpu_grains" => false,
        };
        let config = Arc::new(config::Minion::from_options(options).unwrap());
        let id = identity::id(&config).unwrap();
        let (grains, links) = (Map::new(), Vec::new());
        Arc::new(World::new(Parts {
            catalogue: exec::Catalogue::default(),
            rt: Rt::real(),
            config,
            id,
            identity: None,
            grains,
            links,
            told: None,
        }))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_tells_the_minion_beside_it_and_waits_for_it_only_if_asked_to() {
        let dir = tempfile::tempdir().unwrap();
        let call = world(dir.path());
        let pillar = Refresh::Pillar { clean: true };
        assert!(!refresh(&call, pillar).await.unwrap());
        for what in [pillar, Refresh::Grains, Refresh::Modules, Refresh::Beacons] {
            assert_eq!(refresh_within(&call, what, LONG).await.unwrap(), Some(false), "there is no minion");
        }
        let minion = world(dir.path());
        let sockets = open(&minion).await.unwrap();
        schedule::start(&minion);
        let mut heard = minion.bus.subscribe(Filter::all());
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
        minion.stop.cancel();
        sockets.close().await;
    }

    #[test]
    fn an_event_tells_what_is_to_be_loaded_anew() {
        use Refresh::{Beacons, Grains, Matchers, Modules, Pillar};
        for what in [Grains, Modules, Beacons, Matchers, Pillar { clean: true }, Pillar { clean: false }] {
            let (tag, data) = refresh_event(what);
            assert_eq!(refresh_wanted(tag, &data), Some(what));
            assert!(TAGS.contains(&tag), "{tag}");
        }
        assert_eq!(refresh_wanted("pillar_refresh", &Map::new()), Some(Pillar { clean: false }));
        assert_eq!(refresh_wanted("grains_refresh", &Map::new()), Some(Grains));
        assert_eq!(refresh_wanted("other", &Map::new()), None);
    }
}
