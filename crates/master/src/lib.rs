//! The server: requests of minions and local users, jobs, runners, wheel.
//!
//! [`run`] is the daemon. [`Stores`] has the files and works without a running master, [`Shared`] is a running one.
//! [`requests`] dispatches requests to their handlers, a file per subject; [`jobs`] publishes jobs and stores their
//! returns.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod announced;
mod awaiting;
mod bounds;
mod channel_keys;
mod credentials;
mod error;
mod exporter;
mod fetching;
mod fleet_memory;
mod goodbye;
mod introductions;
mod job_ids;
mod jobs;
mod listen;
mod logins;
mod maintenance;
mod metrics;
#[cfg(test)]
mod minion_ids;
mod named_functions;
mod open_jobs;
mod other_masters;
mod outgoing;
mod overview;
mod plugins;
mod pool;
mod presence;
mod renewal;
mod requests;
mod returner_queue;
mod schedule;
mod senders;
mod set_clock;
mod set_requests;
mod sharing;
mod start;
mod state;
mod stores;
mod users;
mod watch;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use rt::Rt;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use error::Error;
pub use presence::Presence;
pub use state::Shared;
pub use stores::Stores;
pub use users::{LocalKeys, Users};

pub(crate) use value::error::chain;

/// How long unfinished requests may take when the master stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// The input of [`run`].
pub struct Start {
    /// Its settings.
    pub config: config::Master,
    /// The keys of local users, if they were created before the process became the master's user.
    pub keys: Option<LocalKeys>,
    /// The process that starts helpers for PAM, if one was started before the process became the master's user.
    pub keeper: Option<auth::pam::Keeper>,
    /// The functions that pillar files and runners may call.
    pub catalogue: exec::Catalogue,
}

/// Returns a report on the master's work.
pub type Report = Arc<dyn Fn() -> String + Send + Sync>;

/// Runs the master until told to stop. Calls `ready` when everything is open.
///
/// # Errors
/// If it cannot start, because an option, a key, a port or a socket cannot be used. Later failures affect only single
/// requests.
pub async fn run(from: Start, rt: Rt, stop: CancellationToken, ready: impl FnOnce(Report)) -> Result<(), Error> {
    info!("Setting up the Salt Master");
    info!("Starting up the Salt Master");
    info!("salt-master is starting as user '{}'", from.config.user);
    if !sharing::room::wait(&from.config, &rt, &stop).await {
        return Ok(());
    }
    let master = start::start(from, rt.clone()).await?;
    let dispatcher = requests::Dispatcher::new(master.shared.clone());
    // Requests are answered until the minions know that the master stops.
    let said_goodbye = CancellationToken::new();
    // Weak: a report must not keep the dispatcher alive after the requests have ended.
    let asked = Arc::downgrade(&dispatcher);
    let requests = rt.spawn(dispatcher.attend(master.requests, said_goodbye.clone()));
    let care = rt.spawn(maintenance::run(master.shared.clone(), master.sessions, stop.clone()));
    let accepted = master.shared.stores.keys.clone();
    // Nothing waits for it: reading thousands of keys takes a while.
    rt.behind_others(move || maintenance::report_corrupt_keys(&accepted));
    let fetching = fetching::start(&master.shared, &stop);
    let jobs = master.drained.map(|drained| rt.spawn(jobs::expiry::run(master.shared.clone(), drained, stop.clone())));
    let shared = master.shared.clone();
    // A token of its own: returns still arrive between the stop and the last write.
    let settling = CancellationToken::new();
    let settled = rt.spawn(jobs::write_behind::run(shared.stores.clone(), settling.clone()));
    let overview = rt.spawn(overview::follow(shared.clone(), stop.clone()));
    let config = shared.stores.config.clone();
    let storing = master.returner_task.map(|task| rt.spawn(task.run(config.jobs.loop_interval, stop.clone())));
    let kept_events = (!config.events.event_return.is_empty())
        .then(|| rt.spawn(returner_queue::keep_events(shared.bus.clone(), config, rt.clone(), stop.clone())));
    exporter::serve::open(&shared, stop.clone()).await?;
    let sharing = sharing::start(&shared, master.before_sharing, master.left_over).await?;
    if let Some(sharing) = &sharing {
        // Set once: a master starts once.
        let _ = shared.sharing.set(sharing.handle());
        let _ = shared.others.set(sharing.others());
    }
    // After the others are known, who may have run what is due.
    let scheduled = rt.spawn(schedule::run(shared.clone(), stop.clone()));
    let introductions = master.introductions.map(|queue| rt.spawn(introductions::attend(master.shared, queue)));
    ready(Arc::new(move || {
        asked.upgrade().map_or_else(|| "The master has stopped.\n".to_owned(), |dispatcher| dispatcher.report())
    }));
    stop.cancelled().await;
    debug!("stopping");
    if !fetching.is_empty() {
        // Threads that wait for a remote would hold up the end.
        git::end_all();
    }
    // First, so that the other masters know before its minions come to them.
    if let Some(sharing) = sharing {
        sharing.stop().await;
    }
    // While requests are still answered: minions send returns that are ready before they leave.
    goodbye::say(&shared).await;
    said_goodbye.cancel();
    // What was acknowledged is on disk already; the rest will be sent again.
    let _ = tokio::time::timeout(FAREWELL, requests).await;
    // These end by themselves, and store what they have.
    for last in kept_events.into_iter().chain(storing) {
        if tokio::time::timeout(FAREWELL, last).await.is_err() {
            warn!("some events or returns were not stored by returners");
        }
    }
    settling.cancel();
    if tokio::time::timeout(FAREWELL, settled).await.is_err() {
        debug!("the latest returns stay in the journal of the job cache");
    }
    // These have nothing to lose.
    care.abort();
    overview.abort();
    scheduled.abort();
    fetching.iter().for_each(tokio::task::JoinHandle::abort);
    jobs.inspect(tokio::task::JoinHandle::abort);
    introductions.inspect(tokio::task::JoinHandle::abort);
    // Late: programs on this host read the last events from it.
    master.bus.close().await;
    drop(master.placeholders);
    info!("The Salt Master is shut down");
    Ok(())
}
