//! A swarm at the first master, and jobs for it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use client::{Job, LocalClient};
use interop::Master;
use swarm::{Behaviour, KeyPool, Kind, Options, PrivateKey, Swarm};
use tokio::time::timeout;

/// Keys that the minions share in turn.
const KEYS: usize = 100;

/// The time limit for anything of a swarm.
const LIMIT: Duration = Duration::from_secs(120);

/// Returns keys for swarms, which are made once on a machine.
pub fn keys() -> Result<Vec<PrivateKey>> {
    let folder = std::env::temp_dir().join("saltern-bench-sharing-keys");
    KeyPool::new(folder, 2048).take(KEYS, |_, _| {}).context("failed to make keys")
}

/// Returns the options of a swarm at a master.
pub fn options(master: &Master, minions: usize, behaviour: Behaviour) -> Options {
    let behaviour = Behaviour { kind: Kind::Saltern, auth_timeout: LIMIT, ..behaviour };
    Options { behaviour, ..Options::new(SocketAddr::from((master.address(), 4506)), minions) }
}

/// Starts a swarm, and waits until all its minions are ready.
pub async fn start(options: Options, keys: &[PrivateKey]) -> Result<Swarm> {
    let minions = options.minions as u64;
    let swarm = Swarm::start(options, keys)?;
    let ready = timeout(LIMIT, swarm.until(|counts| counts.ready == minions)).await;
    ready.with_context(|| format!("only some of {minions} minions came: {:?}", swarm.counts()))?;
    Ok(swarm)
}

/// Publishes a job to all, and returns its id when all have returned.
pub async fn job(swarm: &Swarm, client: &mut LocalClient, minions: usize, function: &str) -> Result<String> {
    let wanted = swarm.counts().returns + minions as u64;
    let everybody = Job { target: "*".into(), target_type: "glob".into(), function: function.into(), ..Job::default() };
    let Some(ticket) = client.publish(&everybody).await? else { bail!("the master knows no minion") };
    let returned = timeout(LIMIT, swarm.until(|counts| counts.returns >= wanted)).await;
    returned.with_context(|| format!("some returns are missing: {:?}", swarm.counts()))?;
    Ok(ticket.jid.to_string())
}
