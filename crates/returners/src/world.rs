//! The program that a returner runs in.

use std::sync::Arc;

use config::Lookup;
use exec::{Context, Job, Registry};
use rt::Rt;
use value::{Map, Value};

/// The options of the program, and where options may be set.
#[derive(Clone)]
pub struct World {
    /// Clock and network.
    pub rt: Rt,
    ctx: Context,
}

impl World {
    /// Returns the world of a minion: options may be in its files, in grains and in the pillar.
    pub fn new(rt: Rt, opts: Arc<Map>, grains: Arc<Map>, pillar: Arc<Map>) -> Self {
        let ctx = Context {
            opts,
            grains,
            pillar,
            job: Arc::new(Job::default()),
            // An agent without a master: templates of a returner must not run functions.
            agent: Arc::new(pillar::Bare::new(Registry::default())),
            memo: Arc::default(),
            state: None,
        };
        World { rt, ctx }
    }

    /// Returns the world of a master: options are in its files.
    pub fn of_master(rt: Rt, opts: Map) -> Self {
        World::new(rt, Arc::new(opts), Arc::default(), Arc::default())
    }

    /// Returns the options of the program.
    pub fn opts(&self) -> &Map {
        &self.ctx.opts
    }

    /// Returns the id of the minion or master.
    pub fn id(&self) -> &str {
        self.ctx.id()
    }

    /// Returns the context of templates, which have no functions, as in Salt.
    pub(crate) fn context(&self) -> &Context {
        &self.ctx
    }

    /// Returns an option as `config.option` finds it: in the files, the grains, the pillar, the master's options, the built-in
    /// defaults.
    pub fn option(&self, name: &str) -> Option<Value> {
        let (opts, grains, pillar) = (Some(&*self.ctx.opts), Some(&*self.ctx.grains), Some(&*self.ctx.pillar));
        let master = self.ctx.pillar.get("master").and_then(Value::as_map);
        // Option names have no levels here.
        Lookup { opts, grains, pillar, master }.get(name, "\0")
    }

    /// Returns how long jobs are kept in seconds; 0 means for ever.
    pub fn keep_jobs_seconds(&self) -> u64 {
        let kept = self.opts().get("keep_jobs_seconds").and_then(Value::as_i64);
        // The default is one day.
        kept.map_or(86400, |seconds| u64::try_from(seconds).unwrap_or(0))
    }
}
