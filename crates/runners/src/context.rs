//! The context of a runner or wheel function.

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use cache::Cache;
use config::Master;
use exec::{Catalogue, Error, Result};
use files::FileServer;
use futures_util::future::BoxFuture;
use keys::KeyStore;
use logscope::Scope;
use rt::Rt;
use store::jobs::JobCache;
use value::error::chain;
use value::{Map, Value};

use crate::events::Events;
use crate::{Kind, Tables};

/// The facilities that a running runner or wheel function has access to. Cheap to clone; clones belong to the same job.
#[derive(Clone)]
pub struct RunnerContext {
    /// The master's settings, with the flags of the command line over them.
    pub config: Arc<Master>,
    /// Clock, randomness, network.
    pub rt: Rt,
    /// The master's event bus.
    pub events: Events,
    /// The receiver of progress and printed lines.
    pub sink: Arc<dyn Sink>,
    /// The connected minions, if the master itself runs the function. `None` in `salt-run`: it reads the system's
    /// connections.
    pub connected: Option<Arc<dyn Connected>>,
    /// The runners and wheel functions, which may call each other.
    pub tables: &'static Tables,
    /// The execution and state functions that orchestrations and pillar files may call.
    pub catalogue: Catalogue,
    /// The job.
    pub job: Job,
    /// What the function needs to go on.
    guard: Option<Arc<dyn Guard>>,
    /// Opened when it is first needed; clones have the same.
    data: Arc<OnceLock<Arc<Cache>>>,
}

/// Wheel functions get the same context as runners.
pub type WheelContext = RunnerContext;

/// The job a function runs for.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The job id.
    pub jid: String,
    /// Runner or wheel.
    pub kind: Kind,
    /// The user who asked.
    pub user: String,
    retcode: Arc<AtomicI64>,
}

/// The output for a user who follows a runner. Events go to the bus as well.
pub trait Sink: Send + Sync {
    /// Takes an event of the job; the suffix is what follows the job in its tag: `progress`, `ret`…
    fn event(&self, suffix: &str, data: &Map);

    /// Prints a line.
    fn print(&self, line: &str);
}

/// Something that a function must have while it publishes jobs, such as the lease of what a set of masters does once.
pub trait Guard: Send + Sync {
    /// Returns why nothing more may be published; `None` if the function may go on.
    fn lost(&self) -> BoxFuture<'_, Option<String>>;
}

/// What a running master knows: job ids, and the minions whose link to it is up.
pub trait Connected: Send + Sync {
    /// Returns a new job id.
    fn new_jid(&self) -> String;

    /// Returns each id with the address its connection comes from.
    fn connected(&self) -> Vec<(String, Option<IpAddr>)>;
}

/// A sink for functions whose progress is not shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Sink for Silent {
    fn event(&self, _suffix: &str, _data: &Map) {}

    fn print(&self, _line: &str) {}
}

impl Job {
    /// A job of a user.
    pub fn new(kind: Kind, jid: impl Into<String>, user: impl Into<String>) -> Self {
        Job { jid: jid.into(), kind, user: user.into(), retcode: Arc::default() }
    }

    /// Returns the tag its events begin with.
    pub fn tag(&self) -> String {
        self.kind.tag(&self.jid)
    }
}

impl RunnerContext {
    /// A context without followers and without a job yet.
    pub fn new(config: Arc<Master>, rt: Rt, events: Events, tables: &'static Tables, catalogue: Catalogue) -> Self {
        let (sink, job, data) = (Arc::new(Silent), Job::default(), Arc::default());
        RunnerContext { config, rt, events, sink, connected: None, tables, catalogue, job, guard: None, data }
    }

    /// The same, with a sink.
    pub fn watched(self, sink: Arc<dyn Sink>) -> Self {
        RunnerContext { sink, ..self }
    }

    /// The same, with a live view of the connected minions.
    pub fn with_connected(self, connected: Arc<dyn Connected>) -> Self {
        RunnerContext { connected: Some(connected), ..self }
    }

    /// The same, with the minion data cache that the running master has open.
    pub fn with_data(self, data: Arc<Cache>) -> Self {
        RunnerContext { data: Arc::new(data.into()), ..self }
    }

    /// The same, for functions that publish nothing once the guard says so.
    pub fn with_guard(self, guard: Arc<dyn Guard>) -> Self {
        RunnerContext { guard: Some(guard), ..self }
    }

    /// Checks that a job may be published.
    pub(crate) async fn may_publish(&self, fun: &Value) -> std::result::Result<(), client::Error> {
        let Some(guard) = &self.guard else { return Ok(()) };
        match guard.lost().await {
            None => Ok(()),
            Some(reason) => {
                tracing::error!("{fun} is not published, and nothing after it: {reason}");
                Err(client::Error::Refused(format!("{fun} is not published: {reason}")))
            }
        }
    }

    /// The same, for a job.
    pub(crate) fn for_job(&self, job: Job) -> Self {
        RunnerContext { job, ..self.clone() }
    }

    /// Sets the return code of the job; any but 0 means that it failed.
    pub fn set_retcode(&self, code: i64) {
        self.job.retcode.store(code, Ordering::Relaxed);
    }

    /// Returns the return code the function has set.
    pub fn retcode(&self) -> i64 {
        self.job.retcode.load(Ordering::Relaxed)
    }

    /// Fires `…/progress` with the data and shows it to the followers of the runner.
    pub async fn progress(&self, mut data: Map) {
        data.insert(event::STAMP, event::stamp(self.rt.now()));
        self.events.fire(&format!("{}/progress", self.job.tag()), data.clone()).await;
        self.sink.event("progress", &data);
    }

    /// Runs blocking work (disk, computation) on a separate thread, so that other tasks continue.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RunnerContext) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let ctx = self.clone();
        let scope = Scope::current();
        let done = tokio::task::spawn_blocking(move || scope.run(|| work(&ctx))).await;
        done.map_err(|error| Error::Other(format!("the work ended early: {error}")))?
    }

    /// The directory of caches.
    pub fn cachedir(&self) -> &Path {
        &self.config.paths.cachedir
    }

    /// The job cache.
    pub fn jobs(&self) -> Result<JobCache> {
        let name = &self.config.keys.hash_type;
        let hash = name.parse().map_err(|_| Error::execution(format!("option hash_type: {name} is not known")))?;
        Ok(JobCache::beside_master(self.cachedir(), hash, &self.config.jobs.master_job_cache))
    }

    /// Grains, pillar and mine of minions, and other values by bank and key.
    pub fn data(&self) -> Result<Arc<Cache>> {
        if let Some(open) = self.data.get() {
            return Ok(open.clone());
        }
        let opened = Arc::new(Cache::of_master(&self.config).map_err(failed)?);
        // Another thread may have been faster.
        Ok(self.data.get_or_init(|| opened).clone())
    }

    /// The keys of minions.
    pub fn keys(&self) -> KeyStore {
        KeyStore::of_master(&self.config)
    }

    /// The file server.
    pub fn files(&self) -> Result<FileServer> {
        FileServer::new(&self.config.files, &self.config.raw, self.cachedir())
            .map_err(|error| Error::execution(error.to_string()))
    }
}

/// Turns an error and all its causes into an execution error.
pub(crate) fn failed(error: impl std::error::Error) -> Error {
    Error::Execution(chain(&error))
}
