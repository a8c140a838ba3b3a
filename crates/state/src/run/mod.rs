//! Runs low chunks, each after its dependencies.

mod bind;
mod call;
mod checks;
mod chunk;
mod listen;
mod parallel;
mod pause;
mod report;
mod requisites;
mod result;
mod retry;
mod slots;
mod stamp;
mod unify;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use exec::{Context, Memo};
use indexmap::IndexMap;
use value::{Map, Value};

use crate::low::{self, Chunks, Settings};

pub use pause::{Pauses, pauses_path};
pub use result::{failure_handlers, is_success};

/// The services of the minion that a run needs beside its context.
pub trait World: Send + Sync {
    /// Returns how many seconds local time is ahead of UTC now.
    fn utc_offset(&self) -> i64;

    /// Refreshes the grains.
    fn grains(&self, ctx: &Context) -> Option<Map>;

    /// Refreshes the pillar.
    fn pillar(&self, ctx: &Context) -> Option<Map>;
}

/// Options of a run.
#[derive(Clone, Default)]
pub struct How {
    /// The jid, if the run can be paused and fires progress events.
    pub jid: Option<String>,
    /// True if no state function is called (`mock=True`).
    pub mocked: bool,
    /// The jid of the orchestration that this run belongs to.
    pub orchestration_jid: Option<Value>,
}

/// A run of states. The context's options contain the effective `test`.
pub struct Run {
    ctx: Context,
    /// The same options with `test: True`, for test runs.
    trial_opts: Option<Arc<Map>>,
    world: Arc<dyn World>,
    how: How,
    chunks: Chunks,
    /// The chunks of the run as state functions see them.
    lows: Arc<Vec<Arc<Map>>>,
    /// The results of the states, by tag.
    running: Map,
    /// The tags of states that made changes, visible to state functions.
    changed: Arc<Mutex<HashSet<String>>>,
    /// The results of test runs, by tag.
    trials: HashMap<String, Map>,
    number: i64,
    tasks: IndexMap<String, parallel::Task>,
    done: parallel::Done,
    initialized: HashSet<String>,
}

/// The continuation of the run after a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// The next chunk runs.
    On,
    /// The chunk waits for parallel chunks.
    Pending,
    /// The run ends: a state failed with `failhard`.
    Stop,
}

impl Run {
    /// Creates a run without results.
    pub fn new(mut ctx: Context, world: Arc<dyn World>, how: How) -> Self {
        // Data that functions cached in an earlier run, such as the list of packages, may be outdated.
        ctx.memo = Arc::new(Memo::default());
        Run {
            ctx,
            trial_opts: None,
            world,
            how,
            chunks: Chunks::default(),
            lows: Arc::default(),
            running: Map::new(),
            changed: Arc::default(),
            trials: HashMap::new(),
            number: 0,
            tasks: IndexMap::new(),
            done: parallel::Done::default(),
            initialized: HashSet::new(),
        }
    }

    /// Compiles high data and runs its chunks, then listeners and beacons.
    ///
    /// # Errors
    /// The errors of the high data. Nothing has run then.
    pub fn high(&mut self, high: Map) -> Result<Map, Vec<String>> {
        let agent = self.ctx.agent.clone();
        let mut settings = Settings::new(&self.ctx.opts, &self.ctx.grains, agent.states());
        settings.orchestration_jid = self.how.orchestration_jid.clone();
        let chunks = low::compile(high, &settings)?;
        let result = self.chunks(chunks);
        if let Some(jid) = &self.how.jid {
            // Otherwise the directory would collect a file for each job that was ever paused.
            Pauses::new(self.ctx.cachedir(), jid).forget();
        }
        Ok(result)
    }

    /// Runs chunks, then listeners and beacons.
    pub fn chunks(&mut self, chunks: Chunks) -> Map {
        self.take_up(chunks);
        let order = self.chunks.order.clone();
        self.in_order(&order);
        self.listeners();
        self.beacons();
        let (mut result, running) = (std::mem::take(&mut self.chunks.disabled), std::mem::take(&mut self.running));
        if result.is_empty() {
            return running;
        }
        result.update(running);
        result
    }

    /// Runs the chunks of one id and their dependencies, and nothing else.
    pub fn only(&mut self, chunks: Chunks, id: &str) -> Map {
        self.take_up(chunks);
        let of_id = |index: &usize| self.chunks.graph.chunk(*index).get_str("__id__") == Some(id);
        let mut wanted: Vec<usize> = self.chunks.order.iter().copied().filter(of_id).collect();
        let mut seen: HashSet<usize> = wanted.iter().copied().collect();
        let mut next = 0;
        while let Some(index) = wanted.get(next).copied() {
            next += 1;
            let more = self.chunks.graph.dependencies(index).into_iter().map(|(_, other)| other);
            wanted.extend(more.filter(|other| seen.insert(*other)));
        }
        let order: Vec<usize> = self.chunks.order.iter().copied().filter(|index| seen.contains(index)).collect();
        self.in_order(&order);
        std::mem::take(&mut self.running)
    }

    /// Runs a single chunk without requisites.
    pub fn low(&mut self, low: Map) -> Map {
        let mut low = low;
        self.initialize(&low);
        let ret = self.call(&mut low);
        let tag = crate::tag::of(&low);
        self.running.insert(tag.clone(), ret);
        self.join_all();
        self.running.remove(&tag).and_then(Value::into_map).unwrap_or_default()
    }

    /// Returns the errors of a single chunk.
    pub fn verify(&self, low: &mut Map) -> Vec<String> {
        bind::verify(low, self.ctx.agent.states())
    }

    /// Records whether a state made changes, for state functions to see.
    fn show(&self, tag: &str) {
        let changes = self.running.get(tag).and_then(|ret| ret.get("changes"));
        if changes.is_some_and(Value::truthy) {
            self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(tag.to_owned());
        }
    }

    fn take_up(&mut self, chunks: Chunks) {
        self.lows = Arc::new(chunks.order.iter().map(|index| chunks.graph.shared(*index)).collect());
        // The results of disabled chunks have taken the first numbers.
        self.number += chunks.disabled.len() as i64;
        self.chunks = chunks;
    }

    /// Returns the context for a call of a state function.
    fn state_context(&mut self, low: Map, trial: bool) -> Context {
        let mut ctx = self.ctx.clone();
        if trial && !ctx.is_test() {
            let opts = self.trial_opts.get_or_insert_with(|| {
                let mut opts = (*ctx.opts).clone();
                opts.insert("test", true);
                Arc::new(opts)
            });
            ctx.opts = opts.clone();
        }
        let chunks = self.lows.clone();
        ctx.state = Some(Arc::new(exec::StateCall { low, chunks, changed: self.changed.clone() }));
        ctx
    }
}
