//! Calling a runner or a wheel function, and reporting it on the event bus.

use std::panic::AssertUnwindSafe;

use exec::{Call, Error, bind};
use futures_util::FutureExt;
use store::jobs::{EMBEDDED, FILES, JobReturn};
use store::proc_dir::ProcDir;
use tokio::sync::Mutex;
use value::{Map, Value, map};
use wire::MinionId;
use wire::jid::JidSource;

use crate::context::failed;
use crate::success::check_result;
use crate::{Function, Job, Kind, RunnerContext, secrets};

/// A call of a runner or wheel function.
#[derive(Clone, Debug)]
pub struct Request {
    /// Runner or wheel.
    pub kind: Kind,
    /// The function, `jobs.active`.
    pub fun: String,
    /// Its arguments.
    pub call: Call,
    /// The job id.
    pub jid: String,
    /// The user who asks.
    pub user: String,
    /// Stores the result in the job cache.
    pub store: bool,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The return value of the function, or the text of its failure.
    pub ret: Value,
    /// True if it succeeded.
    pub success: bool,
    /// 1 after a failure of the function; nothing otherwise.
    pub retcode: Option<i64>,
    /// The outputter the result wants; with `{"outputter": …, "data": …}` that one.
    pub out: Option<String>,
    /// The whole event `…/ret`: `fun`, `jid`, `user`, `fun_args`, `return`, `success`. It shows no passwords and tokens.
    pub data: Map,
}

/// Returns a new job id.
pub async fn new_jid(ctx: &RunnerContext) -> String {
    // A running master has a source of its own, which knows the ids of its jobs, its slot in a set and the time of that set.
    if let Some(master) = &ctx.connected {
        return master.new_jid();
    }
    // One source for the whole process: two calls within a microsecond must not share an id.
    static SOURCE: Mutex<Option<JidSource>> = Mutex::const_new(None);
    let mut source = SOURCE.lock().await;
    let source = source.get_or_insert_with(JidSource::new);
    let now = ctx.rt.now();
    match ctx.config.jobs.unique_jid {
        true => source.next_unique(now, std::process::id()).to_string(),
        false => source.next(now).to_string(),
    }
}

impl Request {
    /// A call whose result is stored.
    pub fn new(
        kind: Kind,
        fun: impl Into<String>,
        call: Call,
        jid: impl Into<String>,
        user: impl Into<String>,
    ) -> Self {
        Request { kind, fun: fun.into(), call, jid: jid.into(), user: user.into(), store: true }
    }
}

/// Calls a function. Fires `salt/run/<jid>/new` before and `salt/run/<jid>/ret` after it (`salt/wheel/…`). Never
/// fails: errors are the result, as with Salt. A panic of the function ends only this call.
pub async fn run(ctx: &RunnerContext, request: Request) -> Outcome {
    let ctx = ctx.for_job(Job::new(request.kind, &request.jid, &request.user));
    let Request { kind, fun, call, jid, user, store } = request;
    let mut data = map! {
        "fun" => format!("{}.{fun}", kind.word()),
        "jid" => jid.as_str(),
        "user" => user,
        "fun_args" => secrets::shown_args(&fun, &call),
    };
    // Without the note the job still runs; it is not listed among the running ones. Before the event, from which others know the
    // job id: the master lets nobody use one that is noted.
    let mut noted = data.clone();
    noted.insert("_stamp", event::stamp(ctx.rt.now()));
    let note = ProcDir::new(ctx.cachedir()).enter(&jid, std::process::id(), &noted);
    let note = note.inspect_err(|error| tracing::debug!("failed to note that the job runs: {error}")).ok();
    ctx.events.fire(&format!("{}/new", ctx.job.tag()), data.clone()).await;
    let option = secrets::option(&fun, &call);
    let (ret, out, retcode) = call_function(&ctx, &fun, call).await;
    // The proc file is removed before the event is fired: a reactor must not find the job among the running ones.
    drop(note);
    let failed = retcode.is_some();
    let success = !failed && judge(&ctx, &ret);
    data.insert("return", secrets::shown_return(&fun, option.as_deref(), &ret));
    data.insert("success", success);
    if let Some(code) = retcode {
        data.insert("retcode", code);
    }
    if store {
        // Stored before the event, because programs look the job up as soon as they see it.
        keep(&ctx, &data);
    }
    ctx.events.fire(&format!("{}/ret", ctx.job.tag()), data.clone()).await;
    ctx.sink.event("ret", &data);
    tracing::info!("Runner completed: {jid}");
    Outcome { ret, success, retcode, out, data }
}

fn judge(ctx: &RunnerContext, ret: &Value) -> bool {
    // Results of states come wrapped in `data`; they are judged state by state. Others succeed unless the function
    // reports a failure.
    match ret.get("data") {
        Some(data) => check_result(data),
        None => ctx.retcode() == 0,
    }
}

/// Returns the result, the outputter it wants, and 1 after a failure.
async fn call_function(ctx: &RunnerContext, fun: &str, call: Call) -> (Value, Option<String>, Option<i64>) {
    let kind = ctx.job.kind.word();
    let found = ctx.job.kind.enabled(fun, &ctx.config.raw).and_then(|()| ctx.tables.find(ctx.job.kind, fun));
    let function = match found {
        Ok(function) => function,
        Err(error) => {
            return failure(
                kind,
                fun,
                &Error::NotAvailable(format!("{error}{}", ctx.job.kind.python_hint(fun, &ctx.config.raw))),
            );
        }
    };
    let bound = match bind(function, call, &Map::new()) {
        Ok(bound) => bound,
        Err(Error::Arguments(text) | Error::Invocation(text)) => return misused(ctx.job.kind, &text, function),
        Err(error) => return failure(kind, fun, &error),
    };
    match AssertUnwindSafe(function.call_async(ctx, bound)).catch_unwind().await {
        Ok(Ok(value)) => {
            let out = value.get("outputter").and_then(Value::as_str).or(function.out).map(str::to_owned);
            (value, out, None)
        }
        // As in Python, where both are errors of types.
        Ok(Err(Error::Arguments(text) | Error::Invocation(text))) => misused(ctx.job.kind, &text, function),
        Ok(Err(error)) => failure(kind, fun, &error),
        Err(_panic) => {
            // The text of a panic may contain anything, and the panic hook has logged it with its place.
            failure(kind, fun, &Error::Other("the function panicked; the log of the program says where".into()))
        }
    }
}

/// Shows the usage of a function. For Salt a runner succeeds that way, without a return code, but a wheel function fails.
fn misused(kind: Kind, text: &str, function: &Function) -> (Value, Option<String>, Option<i64>) {
    let usage = format!("\nPassed invalid arguments: {text}\n\nUsage:\n{}", exec::raw_docstring(function.doc));
    (usage.into(), None, matches!(kind, Kind::Wheel).then_some(1))
}

/// Salt shows a traceback here. Its last line names the problem, so only that is shown.
fn failure(kind: &str, fun: &str, error: &Error) -> (Value, Option<String>, Option<i64>) {
    let text = match error {
        Error::Execution(text) | Error::NotAvailable(text) => format!("salt.exceptions.CommandExecutionError: {text}"),
        Error::CommandNotFound(text) => format!("salt.exceptions.CommandNotFoundError: {text}"),
        other => other.to_string(),
    };
    tracing::debug!("{kind} {fun} failed: {text}");
    (format!("Exception occurred in {kind} {fun}: {text}").into(), None, Some(1))
}

/// Stores the result in the job cache, under the master's own id.
fn keep(ctx: &RunnerContext, data: &Map) {
    let jobs = &ctx.config.jobs;
    let kept =
        jobs.job_cache && jobs.ext_job_cache.is_empty() && [FILES, EMBEDDED].contains(&jobs.master_job_cache.as_str());
    // A caller may pass any text as job id; only valid ones have a place in the job cache.
    if !kept || !wire::Jid::is_valid(&ctx.job.jid) {
        return;
    }
    if let Err(error) = store(ctx, data) {
        tracing::error!("Could not store job cache info. Job details for this run may be unavailable. ({error})");
    }
}

fn store(ctx: &RunnerContext, data: &Map) -> exec::Result<()> {
    let jobs = ctx.jobs()?;
    let (jid, id) = (&ctx.job.jid, &ctx.config.id);
    let Ok(minion_id) = MinionId::new(id.as_str()) else { return Ok(()) };
    jobs.prepare(jid, false).map_err(failed)?;
    // An existing load is the original request; it stays.
    if !jobs.has_load(jid).map_err(failed)? {
        // Salt has the return in here as well. Nothing reads it here, and lists of jobs would have to skip it.
        let load = map! {
            "id" => id.as_str(),
            "tgt" => id.as_str(),
            "jid" => jid.as_str(),
            "fun" => data.get("fun").cloned(),
            "user" => data.get("user").cloned(),
        };
        jobs.save_load(jid, &load).map_err(failed)?;
        jobs.save_minions(jid, &[], None).map_err(failed)?;
    }
    let returned = JobReturn { value: data.clone().into(), ..JobReturn::default() };
    jobs.store_return(jid, &minion_id, &returned).map_err(failed)?;
    if ctx.config.jobs.job_cache_store_endtime {
        let now = wire::Jid::at(ctx.rt.now());
        jobs.set_end_time(jid, &now.display_time()).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TABLES;

    #[test]
    fn a_wheel_function_with_wrong_arguments_fails() {
        let misused = |kind: Kind, fun: &str| misused(kind, "match is missing", TABLES.find(kind, fun).unwrap());
        let (usage, _, code) = misused(Kind::Wheel, "key.accept");
        assert!(usage.as_str().unwrap().starts_with("\nPassed invalid arguments: match is missing\n\nUsage:\n"));
        assert_eq!(code, Some(1), "a return code means that it has failed");
        assert_eq!(misused(Kind::Runner, "test.arg").2, None, "as in Salt");
    }
}
