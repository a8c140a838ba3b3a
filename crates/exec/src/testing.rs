//! A context in which tests run functions without a minion.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use value::{Map, Value};

use crate::{Agent, Context, Error, Job, Limits, MasterStatus, Module, Refresh, Registry, Result, RunningJob};

/// An agent that answers requests with prepared values and records the requests.
#[derive(Default)]
pub struct FakeAgent {
    /// The functions that exist.
    pub registry: Registry,
    /// The state functions that exist.
    pub states: Registry,
    /// Answers to requests, first come first served; none left is an error.
    pub answers: Mutex<std::collections::VecDeque<Value>>,
    /// Requests and broadcasts, in order.
    pub asked: Mutex<Vec<Map>>,
    /// The jobs that run.
    pub jobs: Mutex<Vec<RunningJob>>,
    /// Signals that were sent to jobs.
    pub signals: Mutex<Vec<(String, i32)>>,
    /// The masters.
    pub masters: Vec<MasterStatus>,
    /// The data that was reloaded, in order.
    pub refreshed: Mutex<Vec<Refresh>>,
    /// Set if the minion was asked to stop; true if it should restart.
    pub stopped: Mutex<Option<bool>>,
}

impl FakeAgent {
    fn answer(&self, load: Map) -> Result<Value> {
        self.asked.lock().unwrap().push(load);
        self.answers.lock().unwrap().pop_front().ok_or_else(|| Error::execution("no master in this test"))
    }
}

impl Agent for FakeAgent {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn states(&self) -> &Registry {
        &self.states
    }

    fn request<'a>(&'a self, load: Map, _timeout: Option<Duration>) -> BoxFuture<'a, Result<Value>> {
        Box::pin(async move { self.answer(load) })
    }

    fn request_raw<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<Value>> {
        Box::pin(async move { self.answer(load) })
    }

    fn broadcast<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<bool>> {
        self.asked.lock().unwrap().push(load);
        Box::pin(async { Ok(true) })
    }

    fn fire_local<'a>(&'a self, tag: &'a str, data: Map) -> BoxFuture<'a, Result<bool>> {
        let mut load = value::map! { "local" => tag };
        load.update(data);
        self.asked.lock().unwrap().push(load);
        Box::pin(async { Ok(true) })
    }

    fn ask_minion<'a>(
        &'a self,
        tag: &'a str,
        data: Map,
        _answer: &'a str,
        _patience: Duration,
    ) -> BoxFuture<'a, Result<Option<Map>>> {
        let mut load = value::map! { "local" => tag };
        load.update(data);
        self.asked.lock().unwrap().push(load);
        let answer = self.answers.lock().unwrap().pop_front().and_then(Value::into_map);
        Box::pin(async move { Ok(answer) })
    }

    fn running(&self) -> Vec<RunningJob> {
        self.jobs.lock().unwrap().clone()
    }

    fn signal_job(&self, jid: &str, signal: i32) -> bool {
        self.signals.lock().unwrap().push((jid.to_owned(), signal));
        self.jobs.lock().unwrap().iter().any(|job| job.jid() == jid)
    }

    fn refresh<'a>(&'a self, what: Refresh) -> BoxFuture<'a, Result<bool>> {
        self.refreshed.lock().unwrap().push(what);
        Box::pin(async { Ok(true) })
    }

    fn masters(&self) -> Vec<MasterStatus> {
        self.masters.clone()
    }

    fn compile_pillar<'a>(&'a self, request: Map) -> BoxFuture<'a, Result<Map>> {
        Box::pin(async move { self.answer(request).map(|answer| answer.into_map().unwrap_or_default()) })
    }

    fn ping_master<'a>(&'a self, master: &'a str, _timeout: Duration) -> BoxFuture<'a, bool> {
        let known = self.masters.iter().any(|status| status.host == master);
        Box::pin(async move { known })
    }

    fn stop_minion(&self, restart: bool) {
        *self.stopped.lock().unwrap() = Some(restart);
    }
}

/// Returns a context with these modules, options, grains and pillar.
pub fn context(modules: &[&'static Module], opts: Map, grains: Map, pillar: Map) -> (Context, Arc<FakeAgent>) {
    with_states(modules, &[], opts, grains, pillar)
}

/// Like [`context`], with state modules. The options limit both kinds.
pub fn with_states(
    modules: &[&'static Module],
    states: &[&'static Module],
    opts: Map,
    grains: Map,
    pillar: Map,
) -> (Context, Arc<FakeAgent>) {
    let registry = Registry::limited(modules, &grains, Limits::of_modules(&opts), &Map::new());
    let states = Registry::limited(states, &grains, Limits::of_states(&opts), &Map::new());
    let agent = Arc::new(FakeAgent { registry, states, ..FakeAgent::default() });
    let context = Context {
        opts: Arc::new(opts),
        grains: Arc::new(grains),
        pillar: Arc::new(pillar),
        job: Arc::new(Job::default()),
        agent: agent.clone(),
        memo: Arc::default(),
        state: None,
    };
    (context, agent)
}
