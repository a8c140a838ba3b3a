//! The machine, and everything that does not belong to one master: functions, grains, running jobs and event bus.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use channel::client::MinionIdentity;
use event::Bus;
use exec::{Catalogue, Registry};
use rt::Rt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error};
use value::{Map, Value, map};
use wire::MinionId;
use wire::loads::{MinionEvent, Nullable};

use crate::running::Running;

/// The state that all parts of the minion share.
pub struct Machine {
    /// Clock, randomness, network.
    pub rt: Rt,
    /// The options.
    pub config: Arc<config::Minion>,
    /// The id of the minion.
    pub id: MinionId,
    /// Its id and key pair; `None` in a call without masters.
    pub identity: Option<Arc<MinionIdentity>>,
    /// All functions of the program.
    pub catalogue: Catalogue,
    /// The functions that work here.
    pub registry: Registry,
    /// The state functions.
    pub states: Registry,
    /// The jobs that run.
    pub running: Arc<Running>,
    /// The minion's own event bus.
    pub bus: Bus,
    /// Cancelled to stop the minion.
    pub stop: CancellationToken,
    /// True if the minion should restart after it has ended.
    pub restart: AtomicBool,
    /// Unfinished jobs and returns, for which the minion waits for a short time when it stops.
    pub tasks: TaskTracker,
    serves: AtomicBool,
    grains: RwLock<Arc<Map>>,
}

impl Machine {
    /// Creates a machine on which nothing runs yet.
    pub fn new(
        catalogue: Catalogue,
        rt: Rt,
        config: Arc<config::Minion>,
        id: MinionId,
        identity: Option<Arc<MinionIdentity>>,
        grains: Map,
    ) -> Arc<Self> {
        let registry = catalogue.registry(&grains, &config.raw, &config.jobs.providers);
        let states = catalogue.state_registry(&grains, &config.raw);
        Arc::new(Machine {
            running: Arc::new(Running::new(&config.paths.cachedir)),
            bus: Bus::new(rt.clone(), config.network.max_event_size),
            stop: CancellationToken::new(),
            restart: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            serves: AtomicBool::new(false),
            grains: RwLock::new(Arc::new(grains)),
            catalogue,
            rt,
            config,
            id,
            identity,
            registry,
            states,
        })
    }

    /// Returns whether this process is the minion, which serves the bus, and not a `salt-call`.
    pub fn is_minion(&self) -> bool {
        self.serves.load(Ordering::Relaxed)
    }

    /// Notes that this process serves the bus of the minion.
    pub fn set_minion(&self) {
        self.serves.store(true, Ordering::Relaxed);
    }

    /// Starts a task for which the minion waits when it stops.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.tasks.spawn(self.rt.task(task))
    }

    /// Returns the grains.
    pub fn grains(&self) -> Arc<Map> {
        self.grains.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Collects the grains again, without the cache of the option `grains_cache`.
    pub async fn renew_grains(&self) {
        self.gather_grains(grains::refresh).await;
    }

    /// Collects the grains again.
    pub async fn collect_grains(&self) {
        self.gather_grains(grains::collect).await;
    }

    async fn gather_grains(&self, gather: fn(&Map) -> Map) {
        let (opts, rt) = (self.config.raw.clone(), self.rt.clone());
        match self.rt.blocking(move || if rt.is_simulated() { facts(&rt, &opts) } else { gather(&opts) }).await {
            Ok(grains) => *self.grains.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grains),
            Err(reason) => error!("the grains could not be refreshed: {reason}"),
        }
    }

    /// Checks again which modules work here.
    pub fn refresh_modules(&self) {
        let grains = self.grains();
        self.registry.refresh(&grains);
        self.states.refresh(&grains);
    }

    /// Fires an event for programs on this host that something is done.
    pub fn say(&self, tag: &str, complete: bool) {
        if let Err(reason) = self.bus.fire(tag, map! { "complete" => complete }) {
            debug!("an event was not fired: {reason}");
        }
    }

    /// Returns the request that fires an event on a master's bus.
    pub fn event_load(&self, tag: &str, data: Value) -> Map {
        let event = MinionEvent {
            id: self.id.clone(),
            pretag: Some(Nullable(None)),
            data,
            tag: tag.to_owned(),
            grains: None,
            extra: Map::new(),
        };
        event.into_map()
    }
}

/// Collects the grains. A simulated machine has only those of its options.
pub fn facts(rt: &Rt, opts: &Map) -> Map {
    match rt.is_simulated() {
        true => opts.get("grains").and_then(Value::as_map).cloned().unwrap_or_default(),
        false => grains::collect(opts),
    }
}
