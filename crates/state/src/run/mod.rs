//! The run of low chunks: one after the other, each when what it requires is done.

mod bind;
mod call;
mod checks;
mod chunk;
mod listen;
mod parallel;
mod pause;
mod requisites;
mod result;
mod retry;
mod slots;
mod stamp;
mod tell;
mod unify;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use exec::{Context, Memo};
use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use value::{Map, Value};

use crate::low::{self, Chunks, Settings};

pub use pause::{Pauses, pauses_path};
pub use result::{failure_handlers, is_success};

/// What a run needs of the world beside its context.
pub trait World: Send + Sync {
    /// Returns by how many seconds local time is ahead of UTC at the moment.
    fn utc_offset(&self) -> i64;

    /// Collects the grains anew.
    fn grains<'a>(&'a self, ctx: &'a Context) -> BoxFuture<'a, Option<Map>>;

    /// Compiles the pillar anew.
    fn pillar<'a>(&'a self, ctx: &'a Context) -> BoxFuture<'a, Option<Map>>;
}

/// How a run goes.
#[derive(Clone, Default)]
pub struct How {
    /// The job, if there is one that can be paused and told of.
    pub jid: Option<String>,
    /// Whether no state function is called at all (`mock=True`).
    pub mocked: bool,
    /// The job of the orchestration this run belongs to.
    pub orchestration_jid: Option<Value>,
}

/// A run of states. The context's options hold the effective `test`.
pub struct Run {
    ctx: Context,
    /// The same options with `test: True`, for trials.
    trial_opts: Option<Arc<Map>>,
    world: Arc<dyn World>,
    how: How,
    chunks: Chunks,
    /// What state functions see of all chunks.
    lows: Arc<Vec<Arc<Map>>>,
    /// What the states came to, by tag.
    running: Map,
    /// The tags of those that changed something, for state functions to look at.
    changed: Arc<Mutex<HashSet<String>>>,
    /// What trials came to, by tag.
    trials: HashMap<String, Map>,
    number: i64,
    tasks: IndexMap<String, parallel::Task>,
    initialized: HashSet<String>,
}

/// How the run goes on after a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// With the next one.
    On,
    /// This one waits for others that run beside it.
    Pending,
    /// Not at all: a state failed hard.
    Stop,
}

impl Run {
    /// A run with an empty memory.
    pub fn new(mut ctx: Context, world: Arc<dyn World>, how: How) -> Self {
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
            initialized: HashSet::new(),
        }
    }

    /// Makes chunks of high data and runs them, then listeners and beacons.
    ///
    /// # Errors
    /// What is wrong with the high data; nothing has run then.
    pub async fn high(&mut self, high: Map) -> Result<Map, Vec<String>> {
        let agent = self.ctx.agent.clone();
        let mut settings = Settings::new(&self.ctx.opts, &self.ctx.grains, agent.states());
        settings.orchestration_jid = self.how.orchestration_jid.clone();
        let chunks = low::compile(high, &settings)?;
        let result = self.chunks(chunks).await;
        if let Some(jid) = &self.how.jid {
            Pauses::new(self.ctx.cachedir(), jid).forget();
        }
        Ok(result)
    }

    /// Runs chunks, then listeners and beacons.
    pub async fn chunks(&mut self, chunks: Chunks) -> Map {
        self.take_up(chunks);
        let order = self.chunks.order.clone();
        self.in_order(&order).await;
        self.listeners().await;
        self.beacons().await;
        let (mut result, running) = (std::mem::take(&mut self.chunks.disabled), std::mem::take(&mut self.running));
        if result.is_empty() {
            return running;
        }
        result.update(running);
        result
    }

    /// Runs the chunks of an id and what they require, and nothing else.
    pub async fn only(&mut self, chunks: Chunks, id: &str) -> Map {
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
        self.in_order(&order).await;
        std::mem::take(&mut self.running)
    }

    /// Runs one chunk that stands alone.
    pub async fn low(&mut self, low: Map) -> Map {
        let mut low = low;
        self.initialize(&low).await;
        let ret = self.call(&mut low).await;
        let tag = crate::tag::of(&low);
        self.running.insert(tag.clone(), ret);
        self.join_all().await;
        self.running.remove(&tag).and_then(Value::into_map).unwrap_or_default()
    }

    /// Says what is wrong with a chunk that stands alone.
    pub fn verify(&self, low: &mut Map) -> Vec<String> {
        bind::verify(low, self.ctx.agent.states())
    }

    /// Lets state functions see whether a state changed something.
    fn show(&self, tag: &str) {
        let changes = self.running.get(tag).and_then(|ret| ret.get("changes"));
        if changes.is_some_and(Value::truthy) {
            self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(tag.to_owned());
        }
    }

    fn take_up(&mut self, chunks: Chunks) {
        self.lows = Arc::new(chunks.order.iter().map(|index| chunks.graph.shared(*index)).collect());
        self.number += chunks.disabled.len() as i64;
        self.chunks = chunks;
    }

    /// Returns the context a state function is called with.
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
