//! The master in the role of a minion.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exec::{Agent, Context, Error, Limits, MasterStatus, Refresh, Registry, Result, RunningJob};
use futures_util::future::BoxFuture;
use value::{Map, Value};

use crate::RunnerContext;
use crate::own_pillar::own_pillar;

/// The master in the role of a minion: all modules and states, the master's files and pillar, no master above it.
pub(super) struct MasterMinion {
    runner: RunnerContext,
    registry: Registry,
    states: Registry,
}

/// The runners of all running orchestrations, by the address of their agent: a function sees its agent only as `dyn
/// Agent`, which does not lead back to the runner.
static OWNERS: Mutex<BTreeMap<usize, RunnerContext>> = Mutex::new(BTreeMap::new());

/// Returns the runner a function of an orchestration belongs to.
pub(super) fn owner(ctx: &Context) -> Option<RunnerContext> {
    let place = Arc::as_ptr(&ctx.agent).cast::<()>() as usize;
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned()
}

impl MasterMinion {
    /// With the modules that work on a machine with these grains.
    pub fn shared(runner: RunnerContext, grains: &Map) -> Arc<Self> {
        let own: [&'static exec::Module; 1] = [&super::functions::MODULE];
        let functions: Vec<&'static exec::Module> = own.iter().chain(runner.catalogue.modules).copied().collect();
        let opts = &runner.config.raw;
        let agent = Arc::new(MasterMinion {
            runner: runner.clone(),
            registry: Registry::limited(&functions, grains, Limits::of_modules(opts), &Map::new()),
            states: Registry::limited(runner.catalogue.states, grains, Limits::of_states(opts), &Map::new()),
        });
        // The entry lives exactly as long as the agent (see `Drop`), so no address is used twice.
        OWNERS.lock().unwrap_or_else(PoisonError::into_inner).insert(agent.place(), runner);
        agent
    }

    fn place(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>() as usize
    }
}

impl Drop for MasterMinion {
    fn drop(&mut self) {
        OWNERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.place());
    }
}

fn nobody<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T>> {
    Box::pin(async { Err(Error::execution("the master has no master to ask")) })
}

impl Agent for MasterMinion {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn states(&self) -> &Registry {
        &self.states
    }

    fn request<'a>(&'a self, _load: Map, _timeout: Option<Duration>) -> BoxFuture<'a, Result<Value>> {
        nobody()
    }

    fn request_raw<'a>(&'a self, _load: Map) -> BoxFuture<'a, Result<Value>> {
        nobody()
    }

    fn broadcast<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let tag = load.get_str("tag").unwrap_or_default().to_owned();
            let data = load.get("data").and_then(Value::as_map).cloned().unwrap_or_default();
            self.runner.events.fire(&tag, data).await;
            Ok(true)
        })
    }

    fn fire_local<'a>(&'a self, tag: &'a str, data: Map) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            self.runner.events.fire(tag, data).await;
            Ok(true)
        })
    }

    fn running(&self) -> Vec<RunningJob> {
        // An orchestration's functions do not run as jobs of a minion: there is none to list or to signal.
        Vec::new()
    }

    fn signal_job(&self, _jid: &str, _signal: i32) -> bool {
        false
    }

    fn refresh<'a>(&'a self, _what: Refresh) -> BoxFuture<'a, Result<bool>> {
        // Nothing is kept that could become stale: grains and pillar are collected for each call.
        Box::pin(async { Ok(true) })
    }

    fn masters(&self) -> Vec<MasterStatus> {
        Vec::new()
    }

    fn compile_pillar<'a>(&'a self, request: Map) -> BoxFuture<'a, Result<Map>> {
        Box::pin(async move {
            let text = |key: &str| request.get(key).filter(|env| env.truthy()).map(Value::to_string);
            let (saltenv, pillarenv) = (text("saltenv"), text("pillarenv"));
            own_pillar(&self.runner, saltenv, pillarenv).await
        })
    }

    fn ping_master<'a>(&'a self, _master: &'a str, _timeout: Duration) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }

    fn stop_minion(&self, _restart: bool) {}
}
