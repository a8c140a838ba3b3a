//! What pillar files and external pillars may use beside their own text.

use std::sync::Arc;

use exec::{Agent, Context, Error, Job, MasterStatus, Refresh, Registry, Result, RunningJob};
use futures_util::future::BoxFuture;
use value::{Map, Value};

/// The program around a compiler: it knows which execution functions there are.
pub trait World: Send + Sync {
    /// Makes the context that templates and external pillars of one minion run in.
    fn context(&self, opts: Arc<Map>, grains: Arc<Map>, pillar: Arc<Map>) -> Context;
}

/// Any agent is a world: its functions are those of the pillar.
impl<T: Fn(&Map) -> Arc<dyn Agent> + Send + Sync> World for T {
    fn context(&self, opts: Arc<Map>, grains: Arc<Map>, pillar: Arc<Map>) -> Context {
        let agent = self(&grains);
        Context { opts, grains, pillar, job: Arc::new(Job::default()), agent, memo: Arc::default(), state: None }
    }
}

/// A world without functions.
pub(crate) fn bare(_grains: &Map) -> Arc<dyn Agent> {
    Arc::new(Bare::default())
}

/// An agent with functions, but without anybody to talk to.
#[derive(Default)]
pub struct Bare {
    registry: Registry,
    states: Registry,
}

impl Bare {
    /// An agent with these functions.
    pub fn new(registry: Registry) -> Self {
        Bare { registry, states: Registry::default() }
    }
}

fn nobody<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T>> {
    Box::pin(async { Err(Error::execution("there is no master to ask while pillar is compiled")) })
}

impl Agent for Bare {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn states(&self) -> &Registry {
        &self.states
    }

    fn request<'a>(&'a self, _load: Map, _timeout: Option<std::time::Duration>) -> BoxFuture<'a, Result<Value>> {
        nobody()
    }

    fn request_raw<'a>(&'a self, _load: Map) -> BoxFuture<'a, Result<Value>> {
        nobody()
    }

    fn broadcast<'a>(&'a self, _load: Map) -> BoxFuture<'a, Result<bool>> {
        nobody()
    }

    fn fire_local<'a>(&'a self, _tag: &'a str, _data: Map) -> BoxFuture<'a, Result<bool>> {
        nobody()
    }

    fn running(&self) -> Vec<RunningJob> {
        Vec::new()
    }

    fn signal_job(&self, _jid: &str, _signal: i32) -> bool {
        false
    }

    fn refresh<'a>(&'a self, _what: Refresh) -> BoxFuture<'a, Result<bool>> {
        nobody()
    }

    fn masters(&self) -> Vec<MasterStatus> {
        Vec::new()
    }

    fn compile_pillar<'a>(&'a self, _request: Map) -> BoxFuture<'a, Result<Map>> {
        nobody()
    }

    fn ping_master<'a>(&'a self, _master: &'a str, _timeout: std::time::Duration) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }

    fn stop_minion(&self, _restart: bool) {}
}
