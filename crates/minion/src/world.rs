//! The parts that all links of a minion share: functions, grains, running jobs.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use channel::client::{MasterChannel, MinionIdentity};
use event::Bus;
use exec::{Catalogue, Context, Job, MasterStatus, Registry, RunningJob};
use rt::Rt;
use store::proc_dir::ProcDir;
use targeting::{Compiled, Facts, TargetType};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};
use value::{Map, Value, map};
use wire::MinionId;
use wire::loads::{MinionEvent, Nullable, PillarRequest};
use wire::topic::Topic;

use crate::agent::LinkAgent;
use crate::beacons::Settings;
use crate::jobs::{self, Outlet, Publication, RecentJids, Returned, Running, Seen, Twins};
use crate::masters::Link;
use crate::missed::{self, Receipts, Terms};
use crate::returning;
use crate::returns::Returns;
use crate::schedule::Timetable;

/// The minion, apart from its links.
pub struct World {
    /// Clock, randomness, network.
    pub rt: Rt,
    /// The options.
    pub config: Arc<config::Minion>,
    /// Its id.
    pub id: MinionId,
    /// What it proves to masters; `None` in a call that needs none.
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
    /// Ends everything.
    pub stop: CancellationToken,
    /// Set if the minion is to start again after it has ended.
    pub restart: std::sync::atomic::AtomicBool,
    /// The links, in the configured order.
    pub links: Vec<Arc<Link>>,
    /// The status of its masters that the running minion reported, in a call beside it.
    pub told: Option<Vec<MasterStatus>>,
    /// Jobs and returns in progress; stopping waits for them for a moment.
    pub tasks: TaskTracker,
    /// The returns that masters have not yet acknowledged.
    pub returns: Returns,
    /// Notes of running jobs on the disk.
    pub proc_dir: ProcDir,
    recent: RecentJids,
    twins: Twins,
    /// Reports of held jobs to masters.
    pub receipts: Receipts,
    /// The scheduled jobs.
    pub schedule: Timetable,
    /// The beacons.
    pub beacons: Settings,
    grains: RwLock<Arc<Map>>,
    room: Option<Arc<Semaphore>>,
}

/// How long the return of a job waits for events about parts of its result.
pub(crate) const LAST_PARTS: Duration = Duration::from_secs(2);

/// The parts of a [`World`].
pub struct Parts {
    /// All functions of the program.
    pub catalogue: Catalogue,
    /// Clock, randomness, network.
    pub rt: Rt,
    /// The options.
    pub config: Arc<config::Minion>,
    /// Its id.
    pub id: MinionId,
    /// What it proves to masters; `None` in a call that needs none.
    pub identity: Option<Arc<MinionIdentity>>,
    /// The grains.
    pub grains: Map,
    /// The links.
    pub links: Vec<Arc<Link>>,
    /// The status of its masters that the running minion reported, in a call beside it.
    pub told: Option<Vec<MasterStatus>>,
}

impl World {
    /// Creates a minion that does nothing yet.
    pub fn new(parts: Parts) -> Self {
        let Parts { catalogue, rt, config, id, identity, grains, links, told } = parts;
        let registry = catalogue.registry(&grains, &config.raw, &config.jobs.providers);
        let states = catalogue.state_registry(&grains, &config.raw);
        let most = usize::try_from(config.jobs.process_count_max).ok().filter(|most| *most > 0);
        World {
            bus: Bus::new(rt.clone(), config.network.max_event_size),
            running: Arc::default(),
            stop: CancellationToken::new(),
            restart: std::sync::atomic::AtomicBool::new(false),
            tasks: TaskTracker::new(),
            returns: Returns::new(&config),
            proc_dir: ProcDir::new(&config.paths.cachedir),
            recent: RecentJids::new(config.jobs.minion_jid_queue_hwm),
            twins: Twins::default(),
            receipts: Receipts::default(),
            schedule: Timetable::new(&config, &rt),
            beacons: Settings::new(&config),
            grains: RwLock::new(Arc::new(grains)),
            room: most.map(|most| Arc::new(Semaphore::new(most))),
            catalogue,
            rt,
            config,
            id,
            identity,
            registry,
            states,
            links,
            told,
        }
    }

    /// Starts a task that stopping waits for.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.tasks.spawn(self.rt.task(task))
    }

    /// Returns the grains.
    pub fn grains(&self) -> Arc<Map> {
        self.grains.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Collects the grains again, past the cache of the option `grains_cache`.
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

    /// Returns the topics that a filtering master sends us.
    pub fn topics(&self) -> Vec<Bytes> {
        vec![Topic::Broadcast.to_bytes(), crypto::filter_topic(&self.id).to_bytes()]
    }

    /// Returns the context for functions in a job of this master.
    pub fn context(self: &Arc<Self>, link: &Arc<Link>, job: Job) -> Context {
        Context {
            opts: link.opts(),
            grains: self.grains(),
            pillar: link.pillar(),
            job: Arc::new(job),
            agent: Arc::new(LinkAgent::new(self.clone(), link.clone())),
            memo: Arc::default(),
            state: None,
        }
    }

    /// Requests the pillar from a master.
    ///
    /// # Errors
    /// A text that says why there is none.
    pub async fn ask_pillar(&self, link: &Link, channel: &MasterChannel, extra: Map) -> Result<Map, String> {
        let opts = link.opts();
        let option = |name: &str| opts.get(name).cloned().unwrap_or_default();
        let request = PillarRequest {
            id: self.id.clone(),
            grains: (*self.grains()).clone(),
            saltenv: Some(option("saltenv")),
            pillarenv: Some(option("pillarenv")),
            pillar_override: Some(Value::Null),
            extra_minion_data: Some(crate::extra_data::for_ext_pillars(&opts)?.into()),
            ver: Some("2".into()),
            ext: None,
            clean_cache: None,
            extra: Map::new(),
        };
        let mut load = request.into_map();
        load.update(extra);
        let answer = channel.request_pillar(load, None).await.map_err(|error| error.to_string())?;
        answer.into_map().ok_or_else(|| "Got a bad pillar from master".to_owned())
    }

    /// Returns the running jobs of this machine: here, and in programs beside this one.
    pub fn running_jobs(&self) -> Vec<RunningJob> {
        let mut running = self.running.list();
        let others = self.proc_dir.of_others().unwrap_or_else(|reason| {
            warn!("what runs beside this process is not known: {reason}");
            Vec::new()
        });
        let now = self.rt.now();
        running.extend(others.into_iter().map(|load| RunningJob { load, since: now }));
        running
    }

    /// Sends a signal to a job, here or in a program beside this one. Returns whether there is such a job.
    pub fn signal_job(&self, jid: &str, signal: i32) -> bool {
        if self.running.signal(jid, signal) {
            return true;
        }
        let others = self.proc_dir.of_others().unwrap_or_default();
        others.iter().any(|note| note.get_str("jid") == Some(jid) && jobs::signal_process(note, signal))
    }

    /// Stores the ids of jobs on disk, so that none runs again after a restart.
    pub fn remember_jobs(&self) {
        let path = self.config.paths.cachedir.join("saltern/jids");
        if let Err(reason) = self.recent.open(&path, self.rt.now()) {
            error!("a job may run again after a restart: {reason}");
        }
    }

    /// Returns the latest job ids that masters may offer again.
    pub fn known_jids(&self, most: usize) -> Vec<String> {
        self.recent.young(most, self.rt.now())
    }

    /// Starts the job of a publication, if it is for us and new.
    pub fn start_job(self: &Arc<Self>, link: &Arc<Link>, mut load: Map) {
        let terms = Terms::take(&mut load);
        self.start_job_on(link, load, terms);
    }

    /// Does the same with conditions. Returns whether the job was for us and new.
    pub fn start_job_on(self: &Arc<Self>, link: &Arc<Link>, load: Map, terms: Terms) -> bool {
        let job = match Publication::new(load) {
            Ok(job) => job,
            Err(reason) => {
                warn!(master = %link.settings.address, "a publication is ignored: {reason}");
                return false;
            }
        };
        // A master that does not filter sends everything to everyone.
        if !self.is_meant(link, &job) {
            return false;
        }
        let outlet = match self.arrive(link, &job, &terms) {
            Seen::Another(outlet) => outlet,
            Seen::Copy => return false,
            Seen::Twin(returned) => {
                self.share(link, job, returned);
                return true;
            }
        };
        let user = job.load().get_str("user").unwrap_or_default();
        info!("User {user} Executing command {} with jid {}", shown_fun(&job), job.jid());
        let (world, link) = (self.clone(), link.clone());
        // Noted before the task starts, so that the link cannot seem idle in between.
        let unfinished = link.begin_job();
        self.spawn(async move {
            if !terms.receipt || world.receipts.confirm(&world, &link, job.jid()).await {
                world.run_job(link, job, terms, outlet).await;
            } else {
                info!("The job {} is not wanted any more and is not begun", job.jid());
            }
            drop(unfinished);
        });
        true
    }

    /// Returns whether a job is to run: it must differ from all before.
    fn arrive(&self, link: &Link, job: &Publication, terms: &Terms) -> Seen {
        let master = link.address();
        if self.recent.note(job.jid(), terms.left(), self.rt.now(), !terms.asked) {
            return Seen::Another(self.twins.first(job, &master, Instant::now()));
        }
        // The answer to our own request is no publication of another master.
        if terms.asked { Seen::Copy } else { self.twins.again(job, &master, Instant::now()) }
    }

    /// Gives a master the return of a job that another master published under the same id.
    fn share(self: &Arc<Self>, link: &Arc<Link>, job: Publication, mut returned: Returned) {
        info!("The job {} came from two masters; it runs once and both get its return", job.jid());
        let (world, link) = (self.clone(), link.clone());
        let unfinished = link.begin_job();
        self.spawn(async move {
            let load = returned.wait_for(Option::is_some).await.ok().and_then(|load| load.clone());
            match load {
                Some(load) if world.config.login.pub_ret => {
                    world.returns.post(&world.rt, &link, &job, load.as_ref().clone()).await;
                }
                _ => debug!("the job {} has no return to share", job.jid()),
            }
            drop(unfinished);
        });
    }

    /// Keeps the return of a job for a moment, for other masters that published it.
    fn offer(&self, outlet: Outlet, load: &Map) {
        if self.links.len() < 2 {
            return;
        }
        outlet.send_replace(Some(Arc::new(load.clone())));
        self.rt.spawn(async move {
            tokio::time::sleep(jobs::APART).await;
            drop(outlet);
        });
    }

    fn is_meant(&self, link: &Link, job: &Publication) -> bool {
        let Ok(kind) = TargetType::from_name(job.tgt_type()) else {
            debug!("a publication with the unknown target type {:?} is ignored", job.tgt_type());
            return false;
        };
        let opts = link.opts();
        let nodegroups = opts.get("nodegroups").and_then(Value::as_map);
        let context = targeting::Context { delimiter: job.delimiter(), nodegroups };
        match Compiled::new(job.tgt(), kind, &context) {
            Ok(target) => {
                let (grains, pillar) = (self.grains(), link.pillar());
                target.matches(&Facts { id: self.id.as_str(), grains: &grains, pillar: &pillar })
            }
            Err(reason) => {
                debug!("a publication with an unreadable target is ignored: {reason}");
                false
            }
        }
    }

    async fn run_job(self: Arc<Self>, link: Arc<Link>, job: Publication, terms: Terms, outlet: Outlet) {
        // With process_count_max further jobs wait here, first come first served.
        let room = match &self.room {
            Some(room) => room.clone().acquire_owned().await.ok(),
            None => None,
        };
        // It may have waited for a place above until nobody wants it.
        if terms.is_over() {
            warn!("The time of job {} is over and it is not begun", job.jid());
            return;
        }
        if terms.receipt {
            self.receipts.begun(&self, &link, job.jid());
        }
        let (progress, parts) = mpsc::unbounded_channel();
        let ctx = self.context(&link, Job::with_progress(job.as_functions_see_it(), progress));
        let _running = self.running.enter(self.shown(&job), self.rt.now(), ctx.job.clone());
        let _note = self.proc_dir.enter(job.jid(), std::process::id(), job.load());
        if let Err(reason) = &_note {
            error!("the job {} could not be noted: {reason}", job.jid());
        }
        info!(jid = job.jid(), "Starting a new job {} with PID {}", job.jid(), std::process::id());
        // Progress is reported beside the job, which must not wait for masters.
        let telling = self.spawn(tell_progress(self.clone(), link.clone(), job.jid().to_owned(), parts));
        if job.load().get("start_event").is_some_and(Value::truthy) {
            self.fire_start_of_job(&link, &job).await;
        }
        let outcomes = jobs::run(&self.rt, &ctx, &job).await;
        ctx.job.end_progress();
        // Before the return: whoever sees it must not find the job among the running ones.
        drop((ctx, _note, _running, room));
        if tokio::time::timeout(LAST_PARTS, telling).await.is_err() {
            debug!("job {} may still have parts to tell; its return goes first", job.jid());
        }
        let load = jobs::return_load(self.id.as_str(), &job, outcomes, self.config.jobs.multifunc_ordered);
        self.cache_job(&load);
        self.offer(outlet, &load);
        if self.config.login.pub_ret {
            self.returns.post(&self.rt, &link, &job, load.clone()).await;
        }
        let named = [job.load().get("ret"), self.config.raw.get("return")];
        let ret = returners::returned(&load, job.load());
        returning::give(&self, Some(&link), &returners::names(named.into_iter().flatten()), &ret).await;
    }

    fn shown(&self, job: &Publication) -> Map {
        let mut shown = map! { "pid" => std::process::id() };
        shown.update(job.load().clone());
        shown
    }

    async fn fire_start_of_job(self: &Arc<Self>, link: &Arc<Link>, job: &Publication) {
        let mut data = map! { "id" => self.id.as_str() };
        for field in ["jid", "fun", "tgt", "tgt_type", "user"] {
            data.insert(field, job.load().get(field).cloned());
        }
        for field in ["master_id", "metadata"] {
            if let Some(value) = job.load().get(field) {
                data.insert(field, value.clone());
            }
        }
        let tag = format!("salt/job/{}/start/{}", job.jid(), self.id);
        self.tell(link, self.event_load(&tag, data.into())).await;
    }

    /// With `cache_jobs`, stores a copy of each return on this machine.
    fn cache_job(&self, load: &Map) {
        if !self.config.jobs.cache_jobs {
            return;
        }
        let jid = load.get_str("jid").unwrap_or_default();
        // The id is a master's text and must not leave the directory.
        let dir = self.config.paths.cachedir.join("minion_jobs").join(jid.replace('/', "_"));
        let written = store::disk::make_directory(&dir).and_then(|()| {
            let path = dir.join("return.p");
            store::disk::write_value(&path, &Value::Map(load.clone()), store::disk::Writing::PRIVATE)
        });
        if let Err(reason) = written {
            error!("the return of job {jid} was not kept: {reason}");
        }
    }

    /// Returns the request that fires an event at a master.
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

    /// Sends a request to one master and forgets the answer. Returns whether there was one.
    pub async fn tell(&self, link: &Link, load: Map) -> bool {
        let Some(channel) = link.channel() else { return false };
        let timeout = Some(Duration::from_secs(60));
        match channel.request(load, timeout, wire::msgpack::Decode::Default).await {
            Ok(_) => true,
            Err(reason) => {
                warn!(master = %link.settings.address, "unable to send to the master: {reason}");
                false
            }
        }
    }

    /// Sends a request to every connected master, independently. Returns whether any is connected.
    pub fn tell_all(self: &Arc<Self>, load: &Map) -> bool {
        let live: Vec<_> = self.links.iter().filter(|link| link.channel().is_some()).cloned().collect();
        for link in &live {
            let (world, link, load) = (self.clone(), link.clone(), load.clone());
            self.spawn(async move { world.tell(&link, load).await });
        }
        !live.is_empty()
    }

    /// Reports a lost link on the minion's bus.
    pub fn disconnected(&self, link: &Link) {
        let data = map! { "master" => link.settings.address.host.as_str() };
        if let Err(reason) = self.bus.fire("__master_disconnected", data) {
            warn!("an event was not fired: {reason}");
        }
    }

    /// Returns the status of all masters; `asking` is the one whose job asks.
    pub fn statuses(&self, asking: Option<&Link>) -> Vec<MasterStatus> {
        let asks = |address: &str| asking.is_some_and(|link| link.address() == address);
        match &self.told {
            Some(told) => {
                let status = |told: &MasterStatus| MasterStatus { asking: asks(&told.address), ..told.clone() };
                told.iter().map(status).collect()
            }
            None => self.links.iter().map(|link| self.status(link, asks(&link.address()))).collect(),
        }
    }

    fn status(&self, link: &Link, asking: bool) -> MasterStatus {
        MasterStatus { returns_waiting: self.returns.waiting(&link.address()), ..link.status(asking) }
    }

    /// Reports a new connection on the minion's bus, and the first one of a link to its master.
    pub async fn connected(self: &Arc<Self>, link: &Arc<Link>) {
        let data = map! { "master" => link.settings.address.host.as_str() };
        if let Err(reason) = self.bus.fire("__master_connected", data) {
            warn!("an event was not fired: {reason}");
        }
        self.rt.spawn(missed::ask(self.clone(), link.clone()));
        let again = link.note_started();
        if again && link.settings.transport != transport::Kind::Tcp {
            return;
        }
        let (world, link) = (self.clone(), link.clone());
        self.spawn(async move { world.fire_start(&link).await });
    }

    async fn fire_start(&self, link: &Link) {
        let id = self.id.as_str();
        let text = format!("Minion {id} started at {}", crate::ctime::ctime(self.rt.now()));
        let wanted = &self.config.login.start_event_grains;
        let grains = self.grains();
        let mut tags = vec![format!("salt/minion/{id}/start")];
        if self.config.login.enable_legacy_startup_events {
            tags.insert(0, "minion_start".to_owned());
        }
        for tag in tags {
            let mut load = self.event_load(&tag, text.as_str().into());
            if !wanted.is_empty() {
                let sent = wanted.iter().filter_map(|name| Some((name.as_str(), grains.get(name)?.clone())));
                load.insert("grains", sent.collect::<Map>());
            }
            self.tell(link, load).await;
        }
    }
}

/// Collects the grains. A simulated machine has only those of its options.
pub fn facts(rt: &Rt, opts: &Map) -> Map {
    match rt.is_simulated() {
        true => opts.get("grains").and_then(Value::as_map).cloned().unwrap_or_default(),
        false => grains::collect(opts),
    }
}

fn shown_fun(job: &Publication) -> String {
    job.load().get("fun").map(Value::to_string).unwrap_or_default()
}

/// Turns the parts of a result into events, in order, until the job ends.
pub(crate) async fn tell_progress(
    world: Arc<World>,
    link: Arc<Link>,
    jid: String,
    mut parts: mpsc::UnboundedReceiver<Value>,
) {
    let mut number = 0;
    while let Some(part) = parts.recv().await {
        let (number, data) = match state_number(&part) {
            Some(run) => (run, part),
            None => {
                number += 1;
                (number - 1, map! { "return" => part }.into())
            }
        };
        let tag = format!("salt/job/{jid}/prog/{}/{number}", world.id);
        world.tell(&link, world.event_load(&tag, data)).await;
    }
}

/// Returns the number of a state in its run, if this part is the result of one: `ret` and, as `len`, how many there are.
fn state_number(part: &Value) -> Option<i64> {
    part.get("len")?;
    part.get("ret")?.get("__run_num__")?.as_i64()
}
