//! The environment of templates and external pillars: functions, options, grains.

use std::sync::Arc;

use exec::{Agent, Context, Error, Job, MasterStatus, Refresh, Registry, Result, RunningJob};
use futures_util::future::BoxFuture;
use value::{Map, Value};

/// The program that embeds a compiler, and provides its execution functions.
pub trait World: Send + Sync {
    /// Returns the context in which templates and external pillars of one minion run.
    fn context(&self, opts: Arc<Map>, grains: Arc<Map>, pillar: Arc<Map>) -> Context;
}

/// A closure that returns an agent is a world with the functions of that agent.
impl<T: Fn(&Map) -> Arc<dyn Agent> + Send + Sync> World for T {
    fn context(&self, opts: Arc<Map>, grains: Arc<Map>, pillar: Arc<Map>) -> Context {
        let agent = self(&grains);
        Context { opts, grains, pillar, job: Arc::new(Job::default()), agent, memo: Arc::default(), state: None }
    }
}

/// Returns a world whose functions are the execution functions of a catalogue that work with the minion's grains, within the
/// limits of the options.
pub fn world(catalogue: exec::Catalogue, opts: &Map) -> Arc<dyn World> {
    let limits = exec::Limits::of_modules(opts);
    Arc::new(move |grains: &Map| -> Arc<dyn Agent> {
        Arc::new(Bare::new(Registry::limited(catalogue.modules, grains, limits.clone(), &Map::new())))
    })
}

/// Returns an agent without functions.
pub(crate) fn bare(_grains: &Map) -> Arc<dyn Agent> {
    Arc::new(Bare::default())
}

/// An agent with functions, but without a master: requests fail.
#[derive(Default)]
pub struct Bare {
    registry: Registry,
    states: Registry,
}

impl Bare {
    /// Returns an agent with these functions.
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
