//! The contract `exec::Agent` for the jobs of one master.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use exec::{Agent, Error, MasterStatus, Refresh, Registry, Result, RunningJob};
use futures_util::future::BoxFuture;
use value::{Map, Value};
use wire::msgpack::Decode;

use crate::file_servers::{Servers, away};
use crate::machine::Machine;
use crate::masters::{Link, Masters, ask_pillar, ping};
use crate::{bus, refresh};

/// The agent of functions in jobs of one master.
pub struct LinkAgent {
    masters: Arc<Masters>,
    link: Arc<Link>,
    servers: Servers,
}

impl LinkAgent {
    /// Creates the agent for jobs of this link.
    pub fn new(masters: Arc<Masters>, link: Arc<Link>) -> Self {
        LinkAgent { servers: Servers::of(link.clone()), masters, link }
    }

    fn machine(&self) -> &Machine {
        &self.masters.machine
    }
}

impl Agent for LinkAgent {
    fn registry(&self) -> &Registry {
        &self.machine().registry
    }

    fn states(&self) -> &Registry {
        &self.machine().states
    }

    fn request<'a>(&'a self, load: Map, timeout: Option<Duration>) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.servers.ask(&self.masters.links, load, timeout, Decode::Default))
    }

    fn request_raw<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.servers.ask(&self.masters.links, load, None, Decode::Raw))
    }

    fn broadcast<'a>(&'a self, mut load: Map) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            // The running minion has all masters, a call beside it only one.
            if self.machine().is_minion() {
                return Ok(self.masters.tell_all(&load));
            }
            match load.get_str("cmd") {
                // Heard by the running minion, which passes it on to all of its masters. Without one, the master of
                // this call gets it.
                Some("_mine") if bus::fire(self.machine(), "_minion_mine", load.clone()).await? => return Ok(true),
                // By this masters of a set know that the others have no copy. Events of Salt's calls have no prefix either.
                Some("_minion_event") => drop(load.remove("pretag")),
                _ => {}
            }
            Ok(self.masters.tell_all(&load))
        })
    }

    fn fire_local<'a>(&'a self, tag: &'a str, data: Map) -> BoxFuture<'a, Result<bool>> {
        Box::pin(bus::fire(self.machine(), tag, data))
    }

    fn ask_minion<'a>(
        &'a self,
        tag: &'a str,
        data: Map,
        answer: &'a str,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Option<Map>>> {
        Box::pin(bus::ask(self.machine(), tag, data, answer, patience))
    }

    fn running(&self) -> Vec<RunningJob> {
        self.machine().running.list_all(self.machine().rt.now())
    }

    fn signal_job(&self, jid: &str, signal: i32) -> bool {
        self.machine().running.signal(jid, signal)
    }

    fn refresh<'a>(&'a self, what: Refresh) -> BoxFuture<'a, Result<bool>> {
        Box::pin(refresh::refresh(&self.masters, what))
    }

    fn refresh_within<'a>(&'a self, what: Refresh, patience: Duration) -> BoxFuture<'a, Result<Option<bool>>> {
        Box::pin(refresh::refresh_within(&self.masters, what, patience))
    }

    fn masters(&self) -> Vec<MasterStatus> {
        self.masters.statuses(Some(&self.link))
    }

    fn returners(&self) -> Vec<&'static str> {
        returners::all_names()
    }

    fn compile_pillar<'a>(&'a self, request: Map) -> BoxFuture<'a, Result<Map>> {
        Box::pin(async move {
            let channel = self.link.channel().ok_or_else(|| away(&self.link))?;
            ask_pillar(self.machine(), &self.link, &channel, request).await.map_err(Error::Execution)
        })
    }

    fn ping_master<'a>(&'a self, master: &'a str, timeout: Duration) -> BoxFuture<'a, bool> {
        // Templates name masters by host, without the port.
        let named = |link: &&Arc<Link>| link.address() == master || link.settings.address.host == master;
        match self.masters.links.iter().find(named).cloned() {
            Some(link) => Box::pin(async move { ping(self.machine(), &link, timeout).await }),
            // A master that no link follows gets a connection for this request.
            None => Box::pin(crate::ping::ping(&self.machine().rt, &self.machine().config, master, timeout)),
        }
    }

    fn stop_minion(&self, restart: bool) {
        self.machine().restart.store(restart, Ordering::Relaxed);
        self.machine().stop.cancel();
    }
}
