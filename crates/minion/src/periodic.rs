//! What a minion does at intervals: sending its mine, pinging its masters, looking for changed grains.

use std::sync::Arc;
use std::time::Duration;

use exec::{Call, Job};
use tracing::{debug, error};
use value::{Map, Value, map};

use crate::world::World;

const MINUTE: Duration = Duration::from_secs(60);

/// Starts what the options ask for.
pub fn start(world: &Arc<World>) {
    let config = &world.config;
    if config.jobs.mine_enabled && config.jobs.mine_interval > 0 {
        world.rt.spawn(send_mine(world.clone(), MINUTE * config.jobs.mine_interval as u32));
    }
    if config.login.ping_interval > 0 {
        world.rt.spawn(ping_masters(world.clone(), MINUTE * config.login.ping_interval as u32));
    }
    if config.grains.grains_refresh_every > 0 {
        world.rt.spawn(watch_grains(world.clone(), MINUTE * config.grains.grains_refresh_every as u32));
    }
}

/// Sends the mine to all masters, for the first time when one is connected.
async fn send_mine(world: Arc<World>, every: Duration) {
    loop {
        let Some(first) = world.links.first().cloned() else { return };
        futures_util::future::select_all(world.links.iter().map(|link| Box::pin(link.live()))).await;
        let link = world.links.iter().find(|link| link.is_live()).unwrap_or(&first).clone();
        let ctx = world.context(&link, Job::new(Map::new()));
        let inside = world.clone();
        let sending = world.rt.blocking(move || inside.registry.call(&ctx, "mine.update", Call::default()));
        match sending.await {
            Ok(Ok(_)) => {}
            Ok(Err(reason)) => debug!("the mine was not sent: {reason}"),
            Err(panic) => error!("the mine was not sent: {panic}"),
        }
        tokio::time::sleep(every).await;
    }
}

async fn ping_masters(world: Arc<World>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        world.tell_all(&world.event_load("minion_ping", Value::from("ping")));
    }
}

/// Fires a refresh of the pillar when the grains have changed, so that masters compile it with the new ones.
async fn watch_grains(world: Arc<World>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let before = world.grains();
        world.renew_grains().await;
        if *before != *world.grains()
            && let Err(reason) = world.bus.fire("pillar_refresh", map! {})
        {
            error!("changed grains were not told: {reason}");
        }
    }
}
