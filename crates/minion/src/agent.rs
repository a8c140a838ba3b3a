//! What functions may ask of the minion: the contract `exec::Agent`, for the jobs of one link.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use exec::{Agent, Error, MasterStatus, Refresh, Registry, Result, RunningJob};
use futures_util::future::BoxFuture;
use tracing::warn;
use value::{Map, Value};
use wire::msgpack::Decode;

use crate::bus;
use crate::masters::{self, Link};
use crate::stand_in::{Servers, away};
use crate::world::World;

/// How long a caller waits for a refresh of the pillar.
const PATIENCE: Duration = Duration::from_secs(60);

/// The minion as seen by the jobs of one master.
pub struct LinkAgent {
    world: Arc<World>,
    link: Arc<Link>,
    servers: Servers,
}

impl LinkAgent {
    /// The minion for jobs of this link.
    pub fn new(world: Arc<World>, link: Arc<Link>) -> Self {
        LinkAgent { servers: Servers::of(link.clone()), world, link }
    }
}

impl Agent for LinkAgent {
    fn registry(&self) -> &Registry {
        &self.world.registry
    }

    fn states(&self) -> &Registry {
        &self.world.states
    }

    fn request<'a>(&'a self, load: Map, timeout: Option<Duration>) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.servers.ask(&self.world.links, load, timeout, Decode::Default))
    }

    fn request_raw<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.servers.ask(&self.world.links, load, None, Decode::Raw))
    }

    fn broadcast<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            // The running minion has all masters, a call beside it only one.
            if !self.world.is_minion() && load.get_str("cmd") == Some("_mine") {
                // Heard by the running minion, which passes it on to all of its masters. Without one, the master of
                // this call gets it.
                let told = bus::fire(&self.world, "_minion_mine", load.clone()).await?;
                return Ok(told || self.world.tell_all(&load));
            }
            Ok(self.world.tell_all(&load))
        })
    }

    fn fire_local<'a>(&'a self, tag: &'a str, data: Map) -> BoxFuture<'a, Result<bool>> {
        Box::pin(bus::fire(&self.world, tag, data))
    }

    fn ask_minion<'a>(
        &'a self,
        tag: &'a str,
        data: Map,
        answer: &'a str,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Option<Map>>> {
        Box::pin(bus::ask(&self.world, tag, data, answer, patience))
    }

    fn running(&self) -> Vec<RunningJob> {
        self.world.running_jobs()
    }

    fn signal_job(&self, jid: &str, signal: i32) -> bool {
        self.world.signal_job(jid, signal)
    }

    fn refresh<'a>(&'a self, what: Refresh) -> BoxFuture<'a, Result<bool>> {
        Box::pin(bus::refresh(&self.world, what))
    }

    fn refresh_within<'a>(&'a self, what: Refresh, patience: Duration) -> BoxFuture<'a, Result<Option<bool>>> {
        Box::pin(bus::refresh_within(&self.world, what, patience))
    }

    fn masters(&self) -> Vec<MasterStatus> {
        self.world.statuses(Some(&self.link))
    }

    fn returners(&self) -> Vec<&'static str> {
        returners::all_names()
    }

    fn compile_pillar<'a>(&'a self, request: Map) -> BoxFuture<'a, Result<Map>> {
        Box::pin(async move {
            let channel = self.link.channel().ok_or_else(|| away(&self.link))?;
            self.world.ask_pillar(&self.link, &channel, request).await.map_err(Error::Execution)
        })
    }

    fn ping_master<'a>(&'a self, master: &'a str, timeout: Duration) -> BoxFuture<'a, bool> {
        // Templates name masters by host, without the port.
        let named = |link: &&Arc<Link>| link.address() == master || link.settings.address.host == master;
        match self.world.links.iter().find(named).cloned() {
            Some(link) => Box::pin(async move { masters::ping(&self.world, &link, timeout).await }),
            // A master that no link follows gets a connection for this request.
            None => Box::pin(crate::ping::ping(&self.world.rt, &self.world.config, master, timeout)),
        }
    }

    fn stop_minion(&self, restart: bool) {
        self.world.restart.store(restart, Ordering::Relaxed);
        self.world.stop.cancel();
    }
}

impl World {
    /// Returns whether this is the minion, and not a call beside it.
    pub fn is_minion(&self) -> bool {
        self.schedule.is_running()
    }

    /// Reloads something on every connected link, and waits for it. Returns whether everything arrived. As in Salt,
    /// grains are collected together with pillar and modules.
    pub async fn refresh(self: &Arc<Self>, what: Refresh) -> bool {
        match what {
            Refresh::Grains => self.renew_grains().await,
            Refresh::Pillar { .. } | Refresh::Modules => self.collect_grains().await,
            // These are part of the program, and there is nothing else to reload.
            Refresh::Matchers | Refresh::Beacons => return true,
        }
        // Functions are part of the program. Which of them work here may have changed.
        self.refresh_modules();
        if what == Refresh::Modules {
            return true;
        }
        let came = self.refresh_pillars(what == Refresh::Pillar { clean: true }).await;
        bus::say(self, bus::PILLAR_COMPLETE, came);
        came
    }

    /// Checks again which modules work here.
    pub fn refresh_modules(&self) {
        let grains = self.grains();
        self.registry.refresh(&grains);
        self.states.refresh(&grains);
    }

    async fn refresh_pillars(&self, clean: bool) -> bool {
        let live = self.links.iter().filter(|link| link.is_live());
        // All at once: a slow master must not delay the pillar of the others.
        let came = futures_util::future::join_all(live.map(|link| link.refresh_pillar(PATIENCE, clean))).await;
        let all = came.iter().all(|came| *came);
        if !all {
            warn!("not every master has sent its pillar in time");
        }
        all
    }
}
