//! Implements `salt-call`: runs one function as the minion would run it, with one master or without.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use config::{MasterAddress, MasterType};
use exec::{Catalogue, Context, Job, MasterRole, MasterState, MasterStatus};
use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rt::Rt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};
use value::{Map, Value, map};
use wire::Jid;

use crate::agent::{context, local_context};
use crate::follow::{self, Plan, plan};
use crate::jobs::{self, LAST_PARTS, Outcome, Publication, tell_progress};
use crate::machine::Machine;
use crate::masters::{self, Link, Masters, ask_pillar};
use crate::{Error, identity, local_pillar, master_status, returning};

/// A call.
#[derive(Clone, Debug)]
pub struct Request {
    /// The function.
    pub fun: String,
    /// Its arguments as in a publication: keyword arguments are in a marked map at the end.
    pub arg: Vec<Value>,
    /// The arguments as they were typed.
    pub words: Vec<String>,
    /// Sends the result to the master (`--no-return-event` is the opposite).
    pub return_event: bool,
    /// Metadata that is attached to the job (`--set-metadata`).
    pub metadata: Option<Value>,
    /// Collects grains (`--skip-grains` is the opposite).
    pub grains: bool,
    /// Ends the function and the commands that it started.
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
    let (told, grains) = tokio::join!(master_status::ask(&rt, &config), collecting);
    let grains = grains.map_err(|error| Error::Grains(error.to_string()))?;
    let id = identity::id(&config)?;
    let disabled = config.links.master_type == MasterType::Disable;
    let alone = disabled || (config.is_local() && !config.links.use_master_when_local);
    // A call without a master creates no key pair: images are built with such calls, and all their hosts would share
    // it.
    let identity = if alone { None } else { Some(identity::load(&rt, &config, id.clone()).await?) };
    let machine = Machine::new(catalogue, rt, config, id, identity, grains);
    if alone || is_for_minion(&request.fun, told.as_deref()) {
        let masters = Masters::beside_minion(machine, Vec::new(), told);
        return run_local(Arc::new(masters), request).await;
    }
    let named = named_masters(&machine).await?;
    let settings = masters::links(&machine.config, named, &machine.grains())?;
    let links = masters::new_links(&machine.config, settings, machine.rt.now());
    let link = first_master(&machine, masters_in_order(&machine, &links, told.as_deref())).await?;
    note_roles(&machine, &links, &link);
    let known = Masters::beside_minion(machine.clone(), links, told).statuses(None);
    // The other links are dropped, so that events and mine data go to the chosen master only.
    let chosen = Masters::beside_minion(machine, vec![link.clone()], Some(known));
    run_with_master(Arc::new(chosen), link, request).await
}

/// Returns whether the running minion has already answered what is asked. No master is needed then: the state of the masters
/// matters most when none can be reached.
fn is_for_minion(fun: &str, told: Option<&[MasterStatus]>) -> bool {
    fun == "saltern.masters" && told.is_some()
}

/// Returns the masters that the options list, directly or through a function.
pub(crate) async fn named_masters(machine: &Arc<Machine>) -> Result<Vec<MasterAddress>, Error> {
    if machine.config.links.master_type != MasterType::Func {
        return Ok(machine.config.masters.clone());
    }
    let nobody = Arc::new(Masters::new(machine.clone(), Vec::new()));
    let ctx = local_context(&nobody, Map::new(), Job::new(Map::new()));
    masters::named(&machine.config, &ctx).await
}

/// How long the call waits for masters that come earlier in the order, once a later one has accepted it.
const HEAD_START: Duration = Duration::from_millis(250);

/// Tries all masters at once. Returns the first, in their order, of those that accept the call soon, so that a dead
/// master causes no delay.
async fn first_master(machine: &Machine, order: Vec<Arc<Link>>) -> Result<Arc<Link>, Error> {
    let mut tries: FuturesUnordered<_> = order
        .iter()
        .enumerate()
        .map(|(at, link)| async move { (at, link.clone(), masters::sign_in_once(machine, link).await) })
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
                link.set_state(MasterState::Backoff, None, machine.rt.now());
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

/// Sets the roles of the masters: if only one is followed at a time, the chosen one is active.
fn note_roles(machine: &Machine, links: &[Arc<Link>], chosen: &Arc<Link>) {
    if let Plan::One(..) = plan(&machine.config, links.len(), &machine.rt) {
        for link in links {
            link.set_role(if Arc::ptr_eq(link, chosen) { MasterRole::Active } else { MasterRole::Standby });
        }
    }
}

/// Returns the masters in the order in which a call tries them: first those that the running minion follows, then the
/// others as listed, or as the options shuffle or distribute the list. `told` is the report of the running minion.
fn masters_in_order(machine: &Machine, links: &[Arc<Link>], told: Option<&[MasterStatus]>) -> Vec<Arc<Link>> {
    let mut order: Vec<Arc<Link>> = match plan(&machine.config, links.len(), &machine.rt) {
        Plan::One(_, places) => places.into_iter().map(|place| links[place.0].clone()).collect(),
        Plan::All => links.to_vec(),
    };
    let options = &machine.config.links;
    if options.master_type == MasterType::Hot && (options.random_master || options.master_shuffle) {
        follow::shuffle(&mut order, false, |bound| machine.rt.below(bound));
    }
    if let Some(told) = told {
        let is_live = |link: &Arc<Link>| {
            told.iter().any(|status| status.address == link.address() && status.state == MasterState::Live)
        };
        order.sort_by_key(|link| !is_live(link));
    }
    order
}

async fn run_with_master(masters: Arc<Masters>, link: Arc<Link>, request: Request) -> Result<Answer, Error> {
    let machine = &masters.machine;
    let channel = link.channel().ok_or_else(|| Error::NoMaster("the connection is gone".to_owned()))?;
    let pillar = ask_pillar(machine, &link, &channel, Map::new()).await.map_err(Error::NoMaster)?;
    link.set_pillar(pillar);
    let job = publication(machine, &request);
    let (progress, parts) = mpsc::unbounded_channel();
    let ctx = context(&masters, &link, Job::with_progress(job_load(&job), progress));
    let telling = machine.spawn(tell_progress(machine.clone(), link.clone(), job.jid().to_owned(), parts));
    let note = note(machine, &ctx);
    let outcome = run(&machine.rt, &ctx, &job, &request.stop).await;
    ctx.job.end_progress();
    drop((ctx, note));
    // Parts of the result reach the master before the whole.
    if tokio::time::timeout(LAST_PARTS, telling).await.is_err() {
        debug!("job {} may still have parts to tell; its return goes first", job.jid());
    }
    store(machine, Some(&link), &request, &job, &outcome).await;
    if request.return_event && machine.config.login.pub_ret {
        let mut load = jobs::return_load(machine.id.as_str(), &job, vec![outcome.clone()], false);
        // The master draws a job id of its own and notes for whom it was: the job was never published.
        load.insert("jid", "req");
        load.insert("fun_args", request.words.clone());
        info!("Returning information for job: {}", job.jid());
        link.tell(load).await;
    }
    // What the function sent without waiting (events, mine data) leaves before the program ends.
    machine.tasks.close();
    machine.tasks.wait().await;
    Ok(answer(machine, &job, outcome))
}

async fn run_local(masters: Arc<Masters>, request: Request) -> Result<Answer, Error> {
    let machine = &masters.machine;
    let pillar = local_pillar::compile(machine, &Map::new()).map_err(Error::Pillar)?;
    let job = publication(machine, &request);
    let ctx = local_context(&masters, pillar, Job::new(job_load(&job)));
    let note = note(machine, &ctx);
    let outcome = run(&machine.rt, &ctx, &job, &request.stop).await;
    drop(note);
    store(machine, None, &request, &job, &outcome).await;
    Ok(answer(machine, &job, outcome))
}

fn publication(machine: &Machine, request: &Request) -> Publication {
    let jid = Jid::at(machine.rt.now());
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
async fn store(machine: &Machine, link: Option<&Arc<Link>>, request: &Request, job: &Publication, outcome: &Outcome) {
    let names = returners::names(machine.config.raw.get("return"));
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
        "id" => machine.id.as_str(), "fun" => request.fun.as_str(), "fun_args" => request.words.clone(),
    });
    if let Some(metadata) = &request.metadata {
        ret.insert("metadata", metadata.clone());
    }
    ret.insert("success", true);
    returning::give(machine, link, &names, &ret).await;
}

/// Leaves a note on disk for the minion on this host and for other calls, as long as this call runs.
fn note(machine: &Machine, ctx: &Context) -> Option<store::proc_dir::Running> {
    let jid = ctx.job.jid().to_owned();
    match machine.running.note(&jid, &ctx.job.load) {
        Ok(note) => Some(note),
        Err(reason) => {
            let place = machine.config.paths.cachedir.join("proc").join(jid);
            eprintln!(
                "Cannot write to process directory. Do you have permissions to write to {} ? ({reason})",
                place.display()
            );
            None
        }
    }
}

/// Returns the job as functions see it: all fields except the arguments.
fn job_load(job: &Publication) -> Map {
    let mut load = job.load().clone();
    load.remove("arg");
    load
}

fn answer(machine: &Machine, job: &Publication, outcome: Outcome) -> Answer {
    let Outcome { value, retcode, out } = outcome;
    Answer { value, retcode, out, id: machine.id.to_string(), jid: job.jid().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_masters_needs_no_master_while_a_minion_runs() {
        assert!(is_for_minion("saltern.masters", Some(&[])));
        assert!(!is_for_minion("saltern.masters", None));
        assert!(!is_for_minion("test.ping", Some(&[])));
    }

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
