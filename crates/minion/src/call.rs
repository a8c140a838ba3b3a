//! What `salt-call` does: runs one function as the minion would run it, with one master or none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use config::{MasterAddress, MasterType};
use exec::{
    Agent, Catalogue, Context, Error as FunctionError, Job, MasterRole, MasterState, MasterStatus, Refresh, Registry,
    RunningJob,
};
use files::FileServer;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rt::Rt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use value::{Map, Value, map};
use wire::Jid;

use crate::jobs::{self, Outcome, Publication};
use crate::masters::{self, Link, Plan};
use crate::world::{LAST_PARTS, Parts, World, tell_progress};
use crate::{Error, identity, knowledge, returning};

/// A call.
#[derive(Clone, Debug)]
pub struct Request {
    /// The function.
    pub fun: String,
    /// Its arguments, keyword arguments in a marked map at the end, as a publication has them.
    pub arg: Vec<Value>,
    /// The arguments as they were typed.
    pub words: Vec<String>,
    /// Sends the result to the master (`--no-return-event` is the opposite).
    pub return_event: bool,
    /// What is attached to the job (`--set-metadata`).
    pub metadata: Option<Value>,
    /// Collects grains (`--skip-grains` is the opposite).
    pub grains: bool,
    /// Ends the function, and with it the commands it started.
    pub stop: CancellationToken,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The value, or the text of the failure.
    pub value: Value,
    /// The return code.
    pub retcode: i64,
    /// The outputter it asks for.
    pub out: Option<String>,
    /// The id of the minion.
    pub id: String,
    /// The id of the job.
    pub jid: String,
}

/// Runs a function. With `file_client: local` no master is involved.
///
/// # Errors
/// When the minion's keys or options are unusable, or no master answers.
pub async fn call(config: config::Minion, catalogue: Catalogue, rt: Rt, request: Request) -> Result<Answer, Error> {
    let config = Arc::new(config);
    let mut opts = config.raw.clone();
    opts.insert("skip_grains", !request.grains);
    let collecting = tokio::task::spawn_blocking(move || grains::collect(&opts));
    // At the same time: the running minion answers while grains are collected.
    let (told, grains) = tokio::join!(knowledge::ask(&rt, &config), collecting);
    let grains = grains.map_err(|error| Error::Grains(error.to_string()))?;
    let id = identity::id(&config)?;
    let disabled = config.links.master_type == MasterType::Disable;
    let alone = disabled || (config.is_local() && !config.links.use_master_when_local);
    // A call without a master creates no key pair: images are built with such calls, and all their hosts would share
    // it.
    let identity = if alone { None } else { Some(identity::load(&rt, &config, id.clone()).await?) };
    let mut parts = Parts { catalogue, rt, config, id, identity, grains, links: Vec::new(), told };
    if alone {
        let world = Arc::new(World::new(parts));
        return run_local(world, request).await;
    }
    let settings = masters::links(&parts.config, named_masters(&parts).await?, &parts.grains)?;
    parts.links = crate::new_links(&parts.config, settings, parts.rt.now());
    let world = Arc::new(World::new(copy(&parts)));
    let link = first_master(&world).await?;
    note_roles(&world, &link);
    // The other links are dropped, so that events and mine data go to the chosen master only.
    parts.told = Some(world.statuses(None));
    parts.links = vec![link.clone()];
    let world = Arc::new(World::new(parts));
    run_with_master(world, link, request).await
}

fn copy(parts: &Parts) -> Parts {
    Parts {
        catalogue: parts.catalogue,
        rt: parts.rt.clone(),
        config: parts.config.clone(),
        id: parts.id.clone(),
        identity: parts.identity.clone(),
        grains: parts.grains.clone(),
        links: parts.links.clone(),
        told: parts.told.clone(),
    }
}

/// Returns the masters that the options name, by themselves or through a function.
pub(crate) async fn named_masters(parts: &Parts) -> Result<Vec<MasterAddress>, Error> {
    if parts.config.links.master_type != MasterType::Func {
        return Ok(parts.config.masters.clone());
    }
    let world = Arc::new(World::new(copy(parts)));
    let ctx = Context {
        memo: Arc::default(),
        state: None,
        opts: Arc::new(world.config.raw.clone()),
        grains: world.grains(),
        pillar: Arc::default(),
        job: Arc::new(Job::new(Map::new())),
        agent: Arc::new(LocalAgent::new(world.clone())),
    };
    masters::named(&world.config, &ctx).await
}

/// Once a master has accepted us, those before it in the order have this long to do so as well.
const HEAD_START: Duration = Duration::from_millis(250);

/// Tries all masters at once. Takes the first, in their order, of those that accept us soon, so that a dead one costs
/// nothing.
async fn first_master(world: &Arc<World>) -> Result<Arc<Link>, Error> {
    let order = order(world);
    let mut tries: FuturesUnordered<_> = order
        .iter()
        .enumerate()
        .map(|(at, link)| async move { (at, link.clone(), masters::sign_in_once(world, link).await) })
        .collect();
    let mut failures: Vec<(usize, String)> = Vec::new();
    let mut open: BTreeSet<usize> = (0..order.len()).collect();
    let mut best: Option<(usize, Arc<Link>)> = None;
    let mut enough = std::pin::pin!(OptionFuture::from(None));
    loop {
        let earlier_open = |at: usize| open.first().is_some_and(|first| *first < at);
        // Nobody before it can still succeed.
        if let Some((_, link)) = best.take_if(|(at, _)| !earlier_open(*at)) {
            return Ok(link);
        }
        let (at, link, outcome) = tokio::select! {
            next = tries.next() => match next {
                Some(next) => next,
                None => break,
            },
            Some(()) = &mut enough => break,
        };
        open.remove(&at);
        match outcome {
            Ok(()) if best.as_ref().is_none_or(|(other, _)| at < *other) => {
                if best.replace((at, link)).is_none() {
                    // The clock starts with the first success, not with each.
                    enough.set(OptionFuture::from(Some(tokio::time::sleep(HEAD_START))));
                }
            }
            Ok(()) => {}
            Err(why) => {
                info!(master = %link.settings.address, "{why}");
                link.set_state(MasterState::Backoff, None, world.rt.now());
                failures.push((at, format!("master {}: {why}", link.settings.address)));
            }
        }
    }
    best.map(|(_, link)| link).ok_or_else(|| Error::NoMaster(all_failures(failures)))
}

/// Describes why no master could be used: each that was tried, in the order of the list.
fn all_failures(mut failures: Vec<(usize, String)>) -> String {
    failures.sort();
    match failures.as_slice() {
        [] => "no master is configured".to_owned(),
        [(_, only)] => only.clone(),
        several => {
            let lines = several.iter().map(|(_, why)| format!("\n  {why}")).collect::<String>();
            format!("No master could be reached or all masters denied the minion's connection attempt.{lines}")
        }
    }
}

/// If only one master is followed at a time, that is the chosen one.
fn note_roles(world: &World, chosen: &Arc<Link>) {
    if let Plan::One(..) = masters::plan(&world.config, world.links.len(), &world.rt) {
        for link in &world.links {
            link.set_role(if Arc::ptr_eq(link, chosen) { MasterRole::Active } else { MasterRole::Standby });
        }
    }
}

/// Returns the masters in the order in which a call wants them: first those that the running minion follows, then as
/// listed, or as the options shuffle or distribute the list.
fn order(world: &World) -> Vec<Arc<Link>> {
    let links = &world.config.links;
    let mut order: Vec<Arc<Link>> = match masters::plan(&world.config, world.links.len(), &world.rt) {
        Plan::One(_, places) => places.into_iter().map(|place| world.links[place.0].clone()).collect(),
        Plan::All => world.links.clone(),
    };
    if links.master_type == MasterType::Hot && (links.random_master || links.master_shuffle) {
        masters::shuffle(&mut order, false, |bound| world.rt.below(bound));
    }
    if let Some(told) = &world.told {
        let is_live = |link: &Arc<Link>| {
            told.iter().any(|status| status.address == link.address() && status.state == MasterState::Live)
        };
        order.sort_by_key(|link| !is_live(link));
    }
    order
}

async fn run_with_master(world: Arc<World>, link: Arc<Link>, request: Request) -> Result<Answer, Error> {
    let channel = link.channel().ok_or_else(|| Error::NoMaster("the connection is gone".to_owned()))?;
    let pillar = world.ask_pillar(&link, &channel, Map::new()).await.map_err(Error::NoMaster)?;
    link.set_pillar(pillar);
    let job = publication(&world, &request);
    let (progress, parts) = mpsc::unbounded_channel();
    let ctx = world.context(&link, Job::with_progress(told(&job), progress));
    let telling = world.spawn(tell_progress(world.clone(), link.clone(), job.jid().to_owned(), parts));
    let note = note(&world, &ctx);
    let outcome = run(&world.rt, &ctx, &job, &request.stop).await;
    ctx.job.end_progress();
    drop((ctx, note));
    // Parts of the result reach the master before the whole.
    if tokio::time::timeout(LAST_PARTS, telling).await.is_err() {
        debug!("job {} may still have parts to tell; its return goes first", job.jid());
    }
    store(&world, Some(&link), &request, &job, &outcome).await;
    if request.return_event && world.config.login.pub_ret {
        let mut load = jobs::return_load(world.id.as_str(), &job, vec![outcome.clone()], false);
        // The master draws a job id of its own and notes for whom it was: the job was never published.
        load.insert("jid", "req");
        load.insert("fun_args", request.words.clone());
        info!("Returning information for job: {}", job.jid());
        world.tell(&link, load).await;
    }
    // What the function sent without waiting (events, mine data) leaves before the program ends.
    world.tasks.close();
    world.tasks.wait().await;
    Ok(answer(&world, &job, outcome))
}

async fn run_local(world: Arc<World>, request: Request) -> Result<Answer, Error> {
    let pillar = local_pillar(&world, Map::new()).map_err(Error::Pillar)?;
    let job = publication(&world, &request);
    let ctx = Context {
        memo: Arc::default(),
        state: None,
        opts: Arc::new(world.config.raw.clone()),
        grains: world.grains(),
        pillar: Arc::new(pillar),
        job: Arc::new(Job::new(told(&job))),
        agent: Arc::new(LocalAgent::new(world.clone())),
    };
    let note = note(&world, &ctx);
    let outcome = run(&world.rt, &ctx, &job, &request.stop).await;
    drop(note);
    store(&world, None, &request, &job, &outcome).await;
    Ok(answer(&world, &job, outcome))
}

fn publication(world: &World, request: &Request) -> Publication {
    let jid = Jid::at(world.rt.now());
    let mut load = map! {
        "fun" => request.fun.as_str(),
        "pid" => std::process::id(),
        "jid" => jid.as_str(),
        "tgt" => "salt-call",
        "arg" => request.arg.clone(),
    };
    if let Some(metadata) = &request.metadata {
        load.insert("metadata", metadata.clone());
    }
    Publication::new(load).expect("all fields are there")
}

async fn run(rt: &Rt, ctx: &Context, job: &Publication, stop: &CancellationToken) -> Outcome {
    let mut running = std::pin::pin!(jobs::run(rt, ctx, job));
    let outcomes = tokio::select! {
        outcomes = &mut running => outcomes,
        () = stop.cancelled() => {
            // The function gets the chance to stop its commands; its result is waited for.
            ctx.job.cancel.cancel();
            running.await
        }
    };
    outcomes.into_iter().next().unwrap_or_else(|| Outcome::failed("nothing to run"))
}

/// Passes the result to the returners of the command line and of the option `return`, with the fields in Salt's
/// order.
async fn store(world: &World, link: Option<&Arc<Link>>, request: &Request, job: &Publication, outcome: &Outcome) {
    let names = returners::names(world.config.raw.get("return"));
    if names.is_empty() {
        return;
    }
    let mut ret = map! {
        "jid" => job.jid(), "return" => outcome.value.clone(), "retcode" => outcome.retcode,
    };
    if let Some(out) = &outcome.out {
        ret.insert("out", out.as_str());
    }
    ret.update(map! {
        "id" => world.id.as_str(), "fun" => request.fun.as_str(), "fun_args" => request.words.clone(),
    });
    if let Some(metadata) = &request.metadata {
        ret.insert("metadata", metadata.clone());
    }
    ret.insert("success", true);
    returning::give(world, link, &names, &ret).await;
}

/// Leaves a note for the minion on this host, and for other calls, as long as this one runs.
fn note(world: &World, ctx: &Context) -> Option<store::proc_dir::Running> {
    let jid = ctx.job.jid().to_owned();
    match world.proc_dir.enter(&jid, std::process::id(), &ctx.job.load) {
        Ok(note) => Some(note),
        Err(reason) => {
            let place = world.config.paths.cachedir.join("proc").join(jid);
            eprintln!(
                "Cannot write to process directory. Do you have permissions to write to {} ? ({reason})",
                place.display()
            );
            None
        }
    }
}

/// Returns the job as a function sees it: a call tells it everything but its arguments.
fn told(job: &Publication) -> Map {
    let mut load = job.load().clone();
    load.remove("arg");
    load
}

fn answer(world: &World, job: &Publication, outcome: Outcome) -> Answer {
    let Outcome { value, retcode, out } = outcome;
    Answer { value, retcode, out, id: world.id.to_string(), jid: job.jid().to_string() }
}

pub(crate) fn local_pillar(world: &World, extra: Map) -> Result<Map, String> {
    crate::local_pillar::compile(world.catalogue, &world.config, &world.grains(), &extra)
}

/// The machine without a master: its own `file_roots` are the file server.
pub(crate) struct LocalAgent {
    world: Arc<World>,
    files: Option<Arc<FileServer>>,
}

impl LocalAgent {
    /// The machine of this minion.
    pub(crate) fn new(world: Arc<World>) -> Self {
        let files = FileServer::new(&world.config.files, &world.config.raw, &world.config.paths.cachedir);
        let files = files.inspect_err(|error| warn!("files cannot be served: {error}")).ok().map(Arc::new);
        LocalAgent { world, files }
    }

    async fn ask(&self, load: Map) -> exec::Result<Value> {
        let no_master = || FunctionError::execution("there is no master to ask (--local)");
        let files = self.files.clone().ok_or_else(no_master)?;
        files.fetch_due();
        files.request(&load).map_err(|error| FunctionError::execution(error.to_string()))?.ok_or_else(no_master)
    }
}

impl Agent for LocalAgent {
    fn registry(&self) -> &Registry {
        &self.world.registry
    }

    fn states(&self) -> &Registry {
        &self.world.states
    }

    fn request<'a>(&'a self, load: Map, _timeout: Option<Duration>) -> BoxFuture<'a, exec::Result<Value>> {
        Box::pin(self.ask(load))
    }

    fn request_raw<'a>(&'a self, load: Map) -> BoxFuture<'a, exec::Result<Value>> {
        Box::pin(self.ask(load))
    }

    fn returners(&self) -> Vec<&'static str> {
        returners::all_names()
    }

    fn broadcast<'a>(&'a self, _load: Map) -> BoxFuture<'a, exec::Result<bool>> {
        Box::pin(async { Ok(false) })
    }

    fn fire_local<'a>(&'a self, tag: &'a str, data: Map) -> BoxFuture<'a, exec::Result<bool>> {
        Box::pin(crate::bus::fire(&self.world, tag, data))
    }

    fn ask_minion<'a>(
        &'a self,
        tag: &'a str,
        data: Map,
        answer: &'a str,
        patience: Duration,
    ) -> BoxFuture<'a, exec::Result<Option<Map>>> {
        Box::pin(crate::bus::ask(&self.world, tag, data, answer, patience))
    }

    fn running(&self) -> Vec<RunningJob> {
        self.world.running_jobs()
    }

    fn signal_job(&self, jid: &str, signal: i32) -> bool {
        self.world.signal_job(jid, signal)
    }

    fn refresh<'a>(&'a self, what: Refresh) -> BoxFuture<'a, exec::Result<bool>> {
        Box::pin(crate::bus::refresh(&self.world, what))
    }

    fn refresh_within<'a>(&'a self, what: Refresh, patience: Duration) -> BoxFuture<'a, exec::Result<Option<bool>>> {
        Box::pin(crate::bus::refresh_within(&self.world, what, patience))
    }

    fn masters(&self) -> Vec<MasterStatus> {
        self.world.statuses(None)
    }

    fn compile_pillar<'a>(&'a self, request: Map) -> BoxFuture<'a, exec::Result<Map>> {
        Box::pin(async move { local_pillar(&self.world, request).map_err(FunctionError::Execution) })
    }

    fn ping_master<'a>(&'a self, master: &'a str, timeout: Duration) -> BoxFuture<'a, bool> {
        Box::pin(crate::ping::ping(&self.world.rt, &self.world.config, master, timeout))
    }

    fn stop_minion(&self, _restart: bool) {
        self.world.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_master_that_was_tried_is_named_in_order() {
        let one = (0, "master a:4506: at 127.0.0.1:4506: no answer".to_owned());
        let two = (1, "master b:4506: its name cannot be resolved".to_owned());
        assert_eq!(all_failures(vec![one.clone()]), one.1);
        let text = all_failures(vec![two.clone(), one.clone()]);
        assert!(text.starts_with("No master could be reached"), "{text}");
        let lines: Vec<&str> = text.lines().skip(1).map(str::trim).collect();
        assert_eq!(lines, [one.1.as_str(), two.1.as_str()]);
    }
}
