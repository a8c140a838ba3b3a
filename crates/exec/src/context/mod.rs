//! The context in which a function runs: options, grains, pillar, job and agent.

mod agent;

pub use agent::{Agent, MasterRole, MasterState, MasterStatus, Refresh, RunningJob, Scope};

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use value::{Map, Value};

use crate::{Cancel, Memo};

/// The context of one function call. Cheap to clone; clones belong to the same job.
#[derive(Clone)]
pub struct Context {
    /// The options of the connection the job came over, under Salt's names.
    pub opts: Arc<Map>,
    /// The facts about this machine.
    pub grains: Arc<Map>,
    /// The pillar, compiled by the master of the job.
    pub pillar: Arc<Map>,
    /// The job.
    pub job: Arc<Job>,
    /// The program that runs the function.
    pub agent: Arc<dyn Agent>,
    /// Data that the functions of this job, or of this run of states, share.
    pub memo: Arc<Memo>,
    /// The state that the function is called for, if any.
    pub state: Option<Arc<StateCall>>,
}

/// The data of a state function beside its arguments.
#[derive(Clone, Debug, Default)]
pub struct StateCall {
    /// The low chunk that is applied (Salt's `__low__`): `state`, `fun`, `name`, `__id__`, `__sls__`, `__env__` and the arguments.
    pub low: Map,
    /// All low chunks of the run, in their order (Salt's `__lowstate__`).
    pub chunks: Arc<Vec<Arc<Map>>>,
    /// The tags of states that ran so far and changed something (the part of Salt's `__running__` that state functions
    /// use).
    pub changed: Arc<Mutex<HashSet<String>>>,
}

impl StateCall {
    /// Returns the tag of a low chunk: the key of its result.
    pub fn tag(low: &Map) -> String {
        let part = |key: &str| low.get(key).map(Value::to_string).unwrap_or_default();
        format!("{}_|-{}_|-{}_|-{}", part("state"), part("__id__"), part("name"), part("fun"))
    }
}

/// The job a function runs for.
#[derive(Debug, Default)]
pub struct Job {
    /// The publication's fields (`jid`, `fun`, `tgt`, `user`, …), empty for a call from `salt-call --local`.
    pub load: Map,
    /// The signal that the job was killed.
    pub cancel: Cancel,
    retcode: AtomicI64,
    children: Mutex<Vec<i32>>,
    progress: Mutex<Option<Progress>>,
}

/// The channel for parts of a result that a function sends while it runs.
pub type Progress = tokio::sync::mpsc::UnboundedSender<Value>;

impl Job {
    /// Returns a job with the fields of a publication.
    pub fn new(load: Map) -> Self {
        Job { load, ..Job::default() }
    }

    /// Like [`Job::new`], with a channel for progress events.
    pub fn with_progress(load: Map, progress: Progress) -> Self {
        Job { load, progress: Mutex::new(Some(progress)), ..Job::default() }
    }

    /// Closes the channel for progress events, even if an abandoned thread or a macro of a template still holds the
    /// job.
    pub fn end_progress(&self) {
        self.progress.lock().expect("no one panics holding this").take();
    }

    /// Returns the job's id; empty when there is none.
    pub fn jid(&self) -> &str {
        self.load.get_str("jid").unwrap_or_default()
    }

    /// Returns the return code the functions have set.
    pub fn retcode(&self) -> i64 {
        self.retcode.load(Ordering::Relaxed)
    }

    /// Returns the processes that run for this job.
    pub fn children(&self) -> Vec<i32> {
        self.children.lock().expect("no one panics holding this").clone()
    }

    /// Returns the fields under the names functions with `**kwargs` see (`__pub_jid`, …).
    pub fn published(&self) -> Map {
        self.load
            .iter()
            .filter_map(|(key, value)| key.as_str().map(|key| (format!("__pub_{key}"), value.clone())))
            .collect()
    }
}

impl Context {
    /// Sets the return code of the job (Salt's `__context__['retcode']`).
    pub fn set_retcode(&self, code: i64) {
        // The code guards no other data, so no ordering is needed.
        self.job.retcode.store(code, Ordering::Relaxed);
    }

    /// Registers a child process (the leader of a process group) for as long as the guard lives, so that killing the
    /// job kills it.
    pub fn child(&self, pid: i32) -> ChildGuard {
        self.job.children.lock().expect("no one panics holding this").push(pid);
        ChildGuard { job: self.job.clone(), pid }
    }

    /// Sends a part of the result while the function continues; it becomes a `salt/job/<jid>/prog/…` event.
    pub fn progress(&self, part: Value) {
        if let Some(road) = &*self.job.progress.lock().expect("no one panics holding this") {
            // A job whose minion is stopping has no recipient.
            let _ = road.send(part);
        }
    }

    /// Returns whether states only report what they would do (`test: True`). The engine sets it for each state.
    pub fn is_test(&self) -> bool {
        self.opt("test").is_some_and(Value::truthy)
    }

    /// Returns an option.
    pub fn opt(&self, name: &str) -> Option<&Value> {
        self.opts.get(name).filter(|value| !value.is_null())
    }

    /// Returns the options as Salt's `__opts__` has them: with the grains and the pillar among them.
    pub fn opts_with_data(&self) -> Map {
        let mut opts = (*self.opts).clone();
        opts.insert("grains", (*self.grains).clone());
        opts.insert("pillar", (*self.pillar).clone());
        opts
    }

    /// Returns an option that is text.
    pub fn opt_str(&self, name: &str) -> Option<&str> {
        self.opt(name).and_then(Value::as_str)
    }

    /// Returns the id of this minion.
    pub fn id(&self) -> &str {
        self.opt_str("id").unwrap_or_default()
    }

    /// Returns the directory for caches.
    pub fn cachedir(&self) -> &str {
        self.opt_str("cachedir").unwrap_or("/var/cache/salt/minion")
    }

    /// Returns whether files and pillar come from this machine instead of a master (`file_client: local`).
    pub fn is_local(&self) -> bool {
        self.opt_str("file_client") == Some("local")
    }
}

/// Unregisters a child process when dropped.
pub struct ChildGuard {
    job: Arc<Job>,
    pid: i32,
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.job.children.lock().expect("no one panics holding this").retain(|pid| *pid != self.pid);
    }
}
