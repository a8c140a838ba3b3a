//! Periodic tasks of a minion: sends its mine, pings its masters, checks for changed grains.

use std::sync::Arc;
use std::time::Duration;

use exec::{Call, Job};
use futures_util::FutureExt as _;
use tracing::{debug, error};
use value::{Map, Value, map};

use crate::agent::context;
use crate::machine::Machine;
use crate::masters::Masters;

const MINUTE: Duration = Duration::from_secs(60);

/// Starts the tasks that the options configure.
pub fn start(masters: &Arc<Masters>) {
    let machine = &masters.machine;
    let config = &machine.config;
    if config.jobs.mine_enabled && config.jobs.mine_interval > 0 {
        machine.rt.spawn(send_mine(masters.clone(), MINUTE * config.jobs.mine_interval as u32));
    }
    if config.login.ping_interval > 0 {
        machine.rt.spawn(ping_masters(masters.clone(), MINUTE * config.login.ping_interval as u32));
    }
    if config.grains.grains_refresh_every > 0 {
        machine.rt.spawn(watch_grains(machine.clone(), MINUTE * config.grains.grains_refresh_every as u32));
    }
}

/// Sends the mine to all masters: when one is connected, from time to time, and to masters that accept the key later.
async fn send_mine(masters: Arc<Masters>, every: Duration) {
    loop {
        masters.first_live(false).await;
        // What is sent now reaches a master that has accepted the key until now.
        let _known = masters.accepted.notified().now_or_never();
        let Some(link) = masters.first() else { return };
        let ctx = context(&masters, link, Job::new(Map::new()));
        let inside = masters.machine.clone();
        let sending = masters.machine.rt.blocking(move || inside.registry.call(&ctx, "mine.update", Call::default()));
        match sending.await {
            Ok(Ok(_)) => {}
            Ok(Err(reason)) => debug!("the mine was not sent: {reason}"),
            Err(panic) => error!("the mine was not sent: {panic}"),
        }
        // Ends early when there is somebody to send it to.
        let _accepted = tokio::time::timeout(every, masters.accepted.notified()).await;
    }
}

async fn ping_masters(masters: Arc<Masters>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        masters.tell_all(&masters.machine.event_load("minion_ping", Value::from("ping")));
    }
}

/// Fires a refresh of the pillar when the grains have changed, so that masters compile it with the new ones.
async fn watch_grains(machine: Arc<Machine>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let before = machine.grains();
        machine.renew_grains().await;
        if *before != *machine.grains()
            && let Err(reason) = machine.bus.fire("pillar_refresh", map! {})
        {
            error!("changed grains were not told: {reason}");
        }
    }
}
