//! Runs a scheduled job and delivers its return.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use exec::{Call, Context, Job};
use schedule::Fire;
use tracing::{debug, error, info, warn};
use value::{Map, Value, map};
use wire::Jid;

use super::Timetable;
use crate::agent::own_context;
use crate::jobs::{self, Publication};
use crate::machine::Machine;
use crate::returning;

/// The return code of a failed function in Salt's scheduler.
const FAILED: i64 = 254;

/// Starts a job.
pub fn begin(table: &Arc<Timetable>, fire: Fire) {
    begin_with(table, fire, None);
}

/// Starts a function that the minion runs by itself, with a return like that of a published job. `out` is the outputter
/// for it.
pub fn begin_apart(table: &Arc<Timetable>, fire: Fire, out: &'static str) {
    begin_with(table, fire, Some(out));
}

fn begin_with(table: &Arc<Timetable>, fire: Fire, out: Option<&'static str>) {
    let machine = table.machine();
    if fire.data.get("dry_run").is_some_and(Value::truthy) {
        debug!("Job {} has 'dry_run' set to True. Not running it.", fire.name);
        return;
    }
    let jid = new_jid(machine);
    let missed = if fire.late >= Duration::from_secs(1) {
        format!(" (runtime missed by {} seconds)", fire.late.as_secs())
    } else {
        String::new()
    };
    info!("Running scheduled job: {}{missed} with jid {jid}", fire.name);
    if fire.fun.as_deref().is_none_or(|fun| machine.registry.find_permitted(fun).is_err()) {
        let fun = fire.fun.as_deref().unwrap_or("None");
        info!("Invalid function: {fun} in scheduled job {}.", fire.name);
    }
    let counted = fire.data.get("jid_include").is_none_or(Value::truthy);
    let mut load = job_load(table, &fire, &jid);
    if out.is_some() {
        load.remove("schedule");
    }
    let job = Job::new(load.clone());
    let ctx = own_context(&table.masters, job);
    // Noted before the task starts, so that nobody counts one run too few.
    let running = counted.then(|| machine.running.enter(load.clone(), machine.rt.now(), ctx.job.clone()));
    let inside = table.clone();
    machine.spawn(async move {
        let note = counted.then(|| inside.machine().running.note(jid.as_str(), &load));
        if let Some(Err(reason)) = &note {
            error!("the job {jid} could not be noted: {reason}");
        }
        let mut returned = run(inside.machine(), &ctx, &fire, load).await;
        if let Some(out) = out {
            returned.insert("out", out);
        }
        // Before the return: whoever sees it must not find the job among the running ones.
        drop((running, note, ctx));
        deliver(&inside, &fire, &jid, returned).await;
    });
}

/// Returns a job id. Many minions start their jobs at the same moment, so the time alone would not be unique at a
/// master.
fn new_jid(machine: &Machine) -> Jid {
    let now = machine.rt.now();
    let second = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    loop {
        let within = Duration::from_micros(machine.rt.below(1_000_000));
        let jid = Jid::at(SystemTime::UNIX_EPOCH + Duration::from_secs(second) + within);
        if !machine.running.list().iter().any(|job| job.jid() == jid.as_str()) {
            return jid;
        }
    }
}

/// Returns the fields of the return besides the result; functions see them as `__pub_…`.
fn job_load(table: &Timetable, fire: &Fire, jid: &Jid) -> Map {
    let mut fun_args = fire.data.get("args").and_then(Value::as_list).unwrap_or_default().to_vec();
    fun_args.extend(fire.data.get("kwargs").cloned());
    let mut load = map! {
        "id" => table.machine().id.as_str(),
        "fun" => fire.fun.clone(),
        "fun_args" => fun_args,
        "schedule" => fire.data.get("name").cloned().unwrap_or_else(|| fire.name.as_str().into()),
        "jid" => jid.as_str(),
    };
    match fire.data.get("metadata") {
        Some(Value::Map(metadata)) => drop(load.insert("metadata", stamped(table, metadata))),
        Some(_) => warn!("schedule: The metadata parameter must be specified as a dictionary.  Ignoring."),
        None => {}
    }
    load.insert("pid", table.machine().rt.process_id());
    load
}

/// Returns metadata with the time of the run.
fn stamped(table: &Timetable, metadata: &Map) -> Map {
    let (now, mut stamped) = (table.machine().rt.now(), metadata.clone());
    let utc = schedule::Zone::Utc.wall(now);
    stamped.insert("_TOS", table.zone.offset(now));
    stamped.insert("_TS", crate::ctime::ctime(now));
    // Salt's format, with the month (`%m`) where the minute should be.
    stamped.insert("_TT", utc.strftime("%Y %B %d %a %H %m").to_string());
    stamped
}

/// Runs the function and returns the load of the return.
async fn run(machine: &Machine, ctx: &Context, fire: &Fire, mut load: Map) -> Map {
    let fun = fire.fun.as_deref().unwrap_or("None");
    let args = fire.data.get("args").and_then(Value::as_list).unwrap_or_default().to_vec();
    let kwargs = fire.data.get("kwargs").and_then(Value::as_map).cloned().unwrap_or_default();
    match jobs::run_alone(&machine.rt, ctx, fun, Call { args, kwargs }).await {
        Ok(value) => {
            load.insert("return", value);
            load.insert("retcode", ctx.job.retcode());
            load.insert("success", true);
        }
        Err(reason) => {
            load.insert("return", reason);
            load.insert("success", false);
            load.insert("retcode", FAILED);
        }
    }
    load
}

/// Sends the return to one master. It waits for that master like other returns.
async fn deliver(table: &Timetable, fire: &Fire, jid: &Jid, returned: Map) {
    let machine = table.machine();
    store(table, fire, &returned).await;
    let wanted = fire.data.get("return_job");
    if wanted.is_some_and(|wanted| !wanted.truthy()) || !machine.config.login.pub_ret {
        return;
    }
    let Some(link) = table.masters.first() else { return };
    let id = machine.id.as_str();
    let mut load = map! { "cmd" => "_return", "id" => id };
    load.update(returned);
    // A master that was asked for an id would add these, so the job is listed like a published one.
    let arguments = load.get("fun_args").cloned();
    load.update(map! { "arg" => arguments, "tgt_type" => "glob", "tgt" => id });
    if wanted.and_then(Value::as_str) == Some("nocache") {
        // Nobody keeps it, so it is worth no more than an event.
        load.insert("jid", "nocache");
        link.tell(load).await;
        return;
    }
    let job = map! {
        "tgt" => machine.id.as_str(), "tgt_type" => "glob", "jid" => jid.as_str(), "fun" => fire.fun.clone().unwrap_or_default(),
        "arg" => Vec::<Value>::new(), "ret" => "",
    };
    match Publication::new(job) {
        Ok(job) => table.returns.post(&machine.rt, link, job.load(), load).await,
        Err(reason) => error!("the return of job {jid} cannot be sent: {reason}"),
    }
}

/// Passes the return of a successful function to the returners of the job and of the option.
async fn store(table: &Timetable, fire: &Fire, returned: &Map) {
    let machine = table.machine();
    let named = [fire.data.get("returner"), machine.config.raw.get("schedule_returner")];
    let names = returners::names(named.into_iter().flatten());
    if names.is_empty() || returned.get("retcode").and_then(Value::as_i64) == Some(FAILED) {
        return;
    }
    let mut ret = returned.clone();
    for (from, to) in [("return_config", "ret_config"), ("return_kwargs", "ret_kwargs")] {
        if let Some(value) = fire.data.get(from) {
            ret.insert(to, value.clone());
        }
    }
    returning::give(machine, table.masters.first(), &names, &ret).await;
}
