//! The agent: one link per master, running jobs, returning results.
//!
//! [`run`] is the daemon; [`call()`] is what `salt-call` does. The links of a minion share the functions, the grains,
//! the running jobs and the recent job ids, and nothing else: whatever happens to one master concerns only its link.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod agent;
mod beacons;
mod bus;
#[allow(clippy::disallowed_methods, reason = "`salt-call` is never simulated")]
mod call;
mod ctime;
mod error;
mod extra_data;
mod identity;
mod jobs;
mod knowledge;
mod local_pillar;
mod masters;
mod missed;
mod periodic;
mod ping;
mod report;
mod returning;
mod returns;
mod schedule;
mod stand_in;
mod startup;
mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use config::{MasterAddress, MasterType};
use rt::Rt;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use value::{Map, Value};
use wire::loads::{Abilities, Sender};

pub use bus::endpoints;
pub use call::{Answer, Request, call};
pub use error::Error;

use masters::{Link, LinkSettings, Plan};
use world::{Parts, World};

/// How a minion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was stopped.
    Stopped,
    /// A job asked for a restart.
    Restart,
}

/// How long jobs and returns may take when the minion stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// After this long without any master, the log reports it.
const LONELY: Duration = Duration::from_secs(60);

/// Describes the minion's work whenever an operator asks for it.
pub type Report = Arc<dyn Fn() -> String + Send + Sync>;

/// Runs the minion until it is stopped. `ready` is called when it follows its masters.
///
/// # Errors
/// When it cannot start: an unusable id, key pair, option or socket. Unreachable masters are no error.
pub async fn run(
    config: config::Minion,
    catalogue: exec::Catalogue,
    rt: Rt,
    stop: CancellationToken,
    ready: impl FnOnce(Report),
) -> Result<Ended, Error> {
    info!("Setting up the Salt Minion \"{}\"", config.id);
    info!("The Salt Minion is starting up");
    info!("Minion is starting as user '{}'", config.user);
    let config = Arc::new(config);
    warn_of_plug_ins(&config);
    make_directories(&config)?;
    // Before anything is sent: a thousand minions that start after a power cut must not arrive in one second.
    wait_a_random_moment(&config, &rt, &stop).await;
    let (opts, machine) = (config.raw.clone(), rt.clone());
    let collecting = rt.blocking(move || world::facts(&machine, &opts));
    let id = identity::id(&config)?;
    let identity = Some(identity::load(&rt, &config, id.clone()).await?);
    let grains = collecting.await.map_err(|error| Error::Grains(error.to_string()))?;
    let now = rt.now();
    let parts = Parts { catalogue, rt, config, id, identity, grains, links: Vec::new(), told: None };
    let named = call::named_masters(&parts).await?;
    let Parts { rt, config, id, identity, grains, .. } = parts;
    masters::warn_of_misunderstandings(&config, named.len());
    let plan = masters::plan(&config, named.len(), &rt);
    let mut settings = masters::links(&config, named, &grains)?;
    // One nonce for the life of this process: masters tell a restart from a reconnection by it.
    let abilities = Abilities::all("", rt.nonce());
    for settings in &mut settings {
        settings.channel.sender = Sender::Minion(abilities.clone());
    }
    let links = new_links(&config, settings, now);
    let world = Arc::new(World::new(Parts { catalogue, rt, config, id, identity, grains, links, told: None }));
    world.remember_jobs();
    if let Err(reason) = world.proc_dir.tidy() {
        warn!("notes of jobs that ended long ago stay: {reason}");
    }
    // Open before any master can send a job: functions fire events.
    let sockets = bus::open(&world).await?;
    returns::start(&world);
    follow_masters(&world, plan);
    periodic::start(&world);
    schedule::start(&world);
    startup::start(&world);
    beacons::start(&world);
    world.rt.spawn(complain_when_lonely(world.clone()));
    let told = Arc::downgrade(&world);
    ready(Arc::new(move || {
        told.upgrade().map_or_else(|| "The minion has stopped.\n".to_owned(), |world| report::of(&world))
    }));
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = world.stop.cancelled() => {}
    }
    farewell(&world).await;
    sockets.close().await;
    Ok(if world.restart.load(Ordering::Relaxed) { Ended::Restart } else { Ended::Stopped })
}

/// Starts to follow the masters, all or one of them.
fn follow_masters(world: &Arc<World>, plan: Plan) {
    if world.links.is_empty() {
        warn!("Master is set to disable, skipping connection");
        return;
    }
    match plan {
        Plan::All => {
            for link in &world.links {
                world.rt.spawn(masters::follow(world.clone(), link.clone(), world.stop.clone()));
            }
        }
        Plan::One(rules, order) => {
            let list: Vec<String> = world.links.iter().map(|link| link.address()).collect();
            info!("Got list of available master addresses: {}", list.join(", "));
            if world.config.links.master_type == MasterType::Distributed
                && let Some(first) = order.first()
            {
                info!("Distributed to the master at '{}'.", world.links[first.0].settings.address.host);
            }
            world.rt.spawn(masters::follow_one(world.clone(), rules, order, world.stop.clone()));
        }
    }
}

/// Ends running jobs, and gives returns a moment to be sent.
async fn farewell(world: &World) {
    info!("The Salt Minion is shutting down");
    world.running.end_all();
    world.tasks.close();
    if tokio::time::timeout(FAREWELL, world.tasks.wait()).await.is_err() {
        warn!("{} jobs or returns were not finished", world.tasks.len());
    }
    // Last: links must live as long as returns may be on their way.
    world.stop.cancel();
}

async fn complain_when_lonely(world: Arc<World>) {
    tokio::time::sleep(LONELY).await;
    if !world.links.is_empty() && !world.links.iter().any(|link| link.is_live()) {
        error!("Minion unable to successfully connect to a Salt Master.");
    }
}

async fn wait_a_random_moment(config: &config::Minion, rt: &Rt, stop: &CancellationToken) {
    let wait = rt.between(Duration::ZERO, config.login.random_startup_delay);
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = tokio::time::sleep(wait) => {}
    }
}

fn new_links(config: &config::Minion, settings: Vec<LinkSettings>, now: SystemTime) -> Vec<Arc<Link>> {
    let all: Vec<MasterAddress> = settings.iter().map(|settings| settings.address.clone()).collect();
    let link = |settings: LinkSettings| {
        let opts = link_opts(config, &settings, &all);
        Arc::new(Link::new(settings, opts, now))
    };
    settings.into_iter().map(link).collect()
}

/// Returns the options that functions see in jobs of this master: `master` is its host, `master_uri` its address.
fn link_opts(config: &config::Minion, settings: &LinkSettings, all: &[MasterAddress]) -> Map {
    let mut opts = config.raw.clone();
    opts.insert("master", settings.address.host.as_str());
    opts.insert("master_port", settings.address.port);
    opts.insert("master_uri", format!("tcp://{}", settings.address));
    let list = all.iter().map(|master| Value::from(master.host.as_str()));
    opts.insert("master_list", list.collect::<Value>());
    opts.insert("master_uri_list", all.iter().map(|master| format!("tcp://{master}")).collect::<Value>());
    opts
}

/// Creates the directories that a minion writes to, closed to others.
fn make_directories(config: &config::Minion) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let paths = &config.paths;
    let wanted = [(&paths.pki_dir, 0o700), (&paths.cachedir, 0o750), (&paths.sock_dir, 0o750)];
    for (directory, mode) in wanted {
        let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory);
        made.map_err(|reason| Error::Directory { path: directory.display().to_string(), reason })?;
    }
    // A master of the same host may have its sockets there, and let the users of `publisher_acl` through.
    let with_master = paths.sock_dir.join("master_event_pub.ipc").exists();
    for directory in [&paths.cachedir].into_iter().chain((!with_master).then_some(&paths.sock_dir)) {
        if let Err(error) = store::disk::close_to_others(directory, false) {
            warn!("{error}");
        }
    }
    Ok(())
}

/// Warns once about each Python plug-in that the configuration counts on. The minion runs without them.
fn warn_of_plug_ins(config: &config::Minion) {
    for name in returners::names(config.raw.get("return")).iter().filter(|name| !returners::exists(name)) {
        warn!("option 'return': the returner '{name}' is not supported; returns go to the masters only");
    }
    if let Some(why) = render::unsupported(config.raw.get_str("renderer").unwrap_or_default()) {
        warn!("option 'renderer': {why}; every state file without a first line of its own (#!) fails");
    }
}
