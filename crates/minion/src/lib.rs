//! The agent: one link per master, running jobs, returning results.
//!
//! [`run`] is the daemon; [`call()`] is what `salt-call` does. The links of a minion share the functions, the grains,
//! the running jobs and the recent job ids, and nothing else: whatever happens to one master affects only its link.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod agent;
mod beacons;
mod bus;
#[allow(clippy::disallowed_methods, reason = "`salt-call` is never simulated")]
mod call;
mod ctime;
mod error;
mod extra_data;
mod file_servers;
mod follow;
mod identity;
mod jobs;
mod local_pillar;
mod machine;
mod master_status;
mod masters;
mod missed;
mod periodic;
mod ping;
mod refresh;
mod report;
mod requests;
mod returning;
mod returns;
mod running;
mod schedule;
mod startup;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use config::MasterType;
use rt::Rt;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use wire::loads::{Abilities, Sender};

pub use bus::endpoints;
pub use call::{Answer, Request, call};
pub use error::Error;

use beacons::Beacons;
use follow::Plan;
use jobs::Jobs;
use machine::Machine;
use masters::Masters;
use returns::Returns;
use schedule::Timetable;

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

/// The time without any master after which this is logged.
const LONELY: Duration = Duration::from_secs(60);

/// Returns a report on the minion's work.
pub type Report = Arc<dyn Fn() -> String + Send + Sync>;

/// Runs the minion until it is stopped. `ready` is called when it follows its masters.
///
/// # Errors
/// When it cannot start: an unusable id, key pair, option or socket. Unreachable masters are not an error.
pub async fn run(
    config: config::Minion,
    catalogue: exec::Catalogue,
    rt: Rt,
    stop: CancellationToken,
    ready: impl FnOnce(Report),
) -> Result<Ended, Error> {
    info!("Setting up \"{}\" the Salt Minion", config.id);
    info!("Starting up the Salt Minion");
    info!("Minion is starting as user '{}'", config.user);
    let config = Arc::new(config);
    for warning in missing_plug_ins(&config) {
        warn!("{warning}");
    }
    make_directories(&config)?;
    // Before anything is sent: a thousand minions that start after a power cut must not arrive in one second.
    wait_a_random_moment(&config, &rt, &stop).await;
    let (opts, inside) = (config.raw.clone(), rt.clone());
    let collecting = rt.blocking(move || machine::facts(&inside, &opts));
    let id = identity::id(&config)?;
    let identity = Some(identity::load(&rt, &config, id.clone()).await?);
    let grains = collecting.await.map_err(|error| Error::Grains(error.to_string()))?;
    let machine = Machine::new(catalogue, rt, config, id, identity, grains);
    let (masters, plan) = find_masters(&machine).await?;
    let returns = Arc::new(Returns::new(&machine.config));
    let jobs = Jobs::new(masters.clone(), returns.clone());
    let beacons = Arc::new(Beacons::new(masters.clone()));
    let schedule = Arc::new(Timetable::new(masters.clone(), returns.clone(), beacons.clone()));
    // Open before any master can send a job: functions fire events.
    let sockets = requests::open(requests::Parts {
        masters: masters.clone(),
        schedule: schedule.clone(),
        beacons: beacons.clone(),
    })
    .await?;
    // After the sockets: a second minion of these directories fails there, and must not replace the files of the first.
    jobs.remember();
    if let Err(reason) = machine.running.tidy() {
        warn!("notes of jobs that ended long ago stay: {reason}");
    }
    returns::start(&returns, &masters);
    follow_masters(&jobs, plan);
    periodic::start(&masters);
    schedule::start(&schedule);
    startup::start(&masters, &schedule);
    beacons::start(&beacons);
    machine.rt.spawn(complain_when_lonely(masters.clone()));
    let told = Arc::downgrade(&masters);
    ready(Arc::new(move || {
        told.upgrade().map_or_else(|| "The minion has stopped.\n".to_owned(), |masters| report::of(&masters))
    }));
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = machine.stop.cancelled() => {}
    }
    farewell(&machine).await;
    sockets.close().await;
    Ok(if machine.restart.load(Ordering::Relaxed) { Ended::Restart } else { Ended::Stopped })
}

/// Returns the masters that the options list, not yet connected, and how they are followed.
async fn find_masters(machine: &Arc<Machine>) -> Result<(Arc<Masters>, Plan), Error> {
    let config = &machine.config;
    let now = machine.rt.now();
    let named = call::named_masters(machine).await?;
    follow::warn_of_misunderstandings(config, named.len());
    let plan = follow::plan(config, named.len(), &machine.rt);
    let mut settings = masters::links(config, named, &machine.grains())?;
    // One nonce for the life of this process: masters tell a restart from a reconnection by it.
    let abilities = Abilities::all("", machine.rt.nonce());
    for settings in &mut settings {
        settings.channel.sender = Sender::Minion(abilities.clone());
    }
    let links = masters::new_links(config, settings, now);
    Ok((Arc::new(Masters::new(machine.clone(), links)), plan))
}

/// Starts to follow the masters, all or one of them.
fn follow_masters(jobs: &Arc<Jobs>, plan: Plan) {
    let (machine, links) = (&jobs.machine, &jobs.masters.links);
    if links.is_empty() {
        warn!("Master is set to disable, skipping connection");
        return;
    }
    match plan {
        Plan::All => {
            for link in links {
                machine.rt.spawn(follow::follow(jobs.clone(), link.clone(), machine.stop.clone()));
            }
        }
        Plan::One(rules, order) => {
            let list: Vec<String> = links.iter().map(|link| link.address()).collect();
            info!("Got list of available master addresses: {}", list.join(", "));
            if machine.config.links.master_type == MasterType::Distributed
                && let Some(first) = order.first()
            {
                info!("Distributed to the master at '{}'.", links[first.0].settings.address.host);
            }
            machine.rt.spawn(follow::follow_one(jobs.clone(), rules, order, machine.stop.clone()));
        }
    }
}

/// Ends running jobs, and waits for a short time until returns are sent.
async fn farewell(machine: &Machine) {
    info!("Shutting down the Salt Minion");
    machine.running.end_all();
    machine.tasks.close();
    if tokio::time::timeout(FAREWELL, machine.tasks.wait()).await.is_err() {
        warn!("{} jobs or returns were not finished", machine.tasks.len());
    }
    // Last: links must live as long as returns may be on their way.
    machine.stop.cancel();
}

async fn complain_when_lonely(masters: Arc<Masters>) {
    tokio::time::sleep(LONELY).await;
    if !masters.links.is_empty() && !masters.links.iter().any(|link| link.is_live()) {
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

/// Returns a warning for each plug-in that the configuration names and Saltern does not have. The minion runs without
/// them.
fn missing_plug_ins(config: &config::Minion) -> Vec<String> {
    let named = returners::names(config.raw.get("return"));
    let missing = named.iter().filter(|name| !returners::exists(name));
    let returners = missing
        .map(|name| format!("option 'return': the returner '{name}' is not supported; returns go to the masters only"));
    let renderer = render::unsupported(config.raw.get_str("renderer").unwrap_or_default())
        .map(|why| format!("option 'renderer': {why}; every state file without a first line of its own (#!) fails"));
    returners.chain(renderer).collect()
}

#[cfg(test)]
mod tests {
    use value::{Map, list, map};

    use super::*;

    #[test]
    fn plug_ins_that_are_missing_are_named_at_the_start() {
        let warnings = |mut options: Map| {
            options.insert("id", "web1");
            missing_plug_ins(&config::Minion::from_options(options).unwrap())
        };
        let missing = |name: &str| {
            format!("option 'return': the returner '{name}' is not supported; returns go to the masters only")
        };
        assert_eq!(warnings(map! { "return" => "pigeon" }), [missing("pigeon")]);
        assert_eq!(
            warnings(map! { "return" => list!["redis", "mysql", "pigeon"] }),
            [missing("mysql"), missing("pigeon")]
        );
        let python = warnings(map! { "renderer" => "py" });
        assert_eq!(python.len(), 1, "{python:?}");
        assert!(python[0].starts_with("option 'renderer': ") && python[0].contains("py"), "{python:?}");
        assert_eq!(warnings(map! { "return" => "redis", "renderer" => "jinja|yaml" }), Vec::<String>::new());
        assert_eq!(warnings(map! {}), Vec::<String>::new());
    }
}
