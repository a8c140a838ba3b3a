//! The contract `exec::Agent` without a master.

use std::sync::Arc;
use std::time::Duration;

use exec::{Agent, Error, MasterStatus, Refresh, Registry, Result, RunningJob};
use files::FileServer;
use futures_util::future::BoxFuture;
use tracing::warn;
use value::{Map, Value};

use crate::machine::Machine;
use crate::masters::Masters;
use crate::{bus, local_pillar, refresh};

/// The agent of functions that run without a master. The machine's own `file_roots` are the file server.
pub struct LocalAgent {
    masters: Arc<Masters>,
    files: Option<Arc<FileServer>>,
}

impl LocalAgent {
    /// Creates the agent for this minion.
    pub fn new(masters: Arc<Masters>) -> Self {
        let config = &masters.machine.config;
        let files = FileServer::new(&config.files, &config.raw, &config.paths.cachedir);
        let files = files.inspect_err(|error| warn!("files cannot be served: {error}")).ok().map(Arc::new);
        LocalAgent { masters, files }
    }

    fn machine(&self) -> &Machine {
        &self.masters.machine
    }

    async fn ask(&self, load: Map) -> Result<Value> {
        let no_master = || Error::execution("there is no master to ask (--local)");
        let files = self.files.clone().ok_or_else(no_master)?;
        files.fetch_due();
        files.request(&load).map_err(|error| Error::execution(error.to_string()))?.ok_or_else(no_master)
    }
}

impl Agent for LocalAgent {
    fn registry(&self) -> &Registry {
        &self.machine().registry
    }

    fn states(&self) -> &Registry {
        &self.machine().states
    }

    fn request<'a>(&'a self, load: Map, _timeout: Option<Duration>) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.ask(load))
    }

    fn request_raw<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.ask(load))
    }

    fn returners(&self) -> Vec<&'static str> {
        returners::all_names()
    }

    fn broadcast<'a>(&'a self, _load: Map) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async { Ok(false) })
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
        self.masters.statuses(None)
    }

    fn compile_pillar<'a>(&'a self, request: Map) -> BoxFuture<'a, Result<Map>> {
        Box::pin(async move { local_pillar::compile(self.machine(), &request).map_err(Error::Execution) })
    }

    fn ping_master<'a>(&'a self, master: &'a str, timeout: Duration) -> BoxFuture<'a, bool> {
        Box::pin(crate::ping::ping(&self.machine().rt, &self.machine().config, master, timeout))
    }

    fn stop_minion(&self, _restart: bool) {
        self.machine().stop.cancel();
    }
}
