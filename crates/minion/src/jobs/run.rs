//! Runs the functions of a job.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use exec::{Body, Call, Context, Error, Function, Registry};
use futures_util::FutureExt;
use rt::Rt;
use tracing::{Instrument, debug, error, info, warn};
use value::{Map, Value};

use super::{FunctionCall, Outcome, Publication, arguments};

/// How long a killed function may take to stop, before its thread is abandoned.
const GRACE: Duration = Duration::from_secs(1);

/// Checks the executors of a job: those in the publication, or the minion's, or else `direct_call`, the only one that
/// exists.
///
/// # Errors
/// When they are invalid, in Salt's words: neither a name nor a list, or a name that does not exist here.
fn check_executors(job: &Map, opts: &Map) -> Result<(), Error> {
    if opts.get("sudo_user").is_some_and(Value::truthy) {
        return Err(Error::invocation("not supported: sudo_user (the executor 'sudo')"));
    }
    let chosen = [job.get("module_executors"), opts.get("module_executors")];
    let Some(chosen) = chosen.into_iter().flatten().find(|value| value.truthy()) else { return Ok(()) };
    let names = match chosen {
        Value::Str(name) => Some(vec![name.as_str()]),
        Value::List(names) => names.iter().map(Value::as_str).collect(),
        _ => None,
    };
    let names = names.ok_or_else(|| {
        Error::invocation(format!("Wrong executors specification: {chosen}. String or non-empty list expected"))
    })?;
    match names.iter().find(|name| **name != "direct_call") {
        Some(other) => Err(Error::invocation(format!("Executor '{other}' is not available"))),
        None => Ok(()),
    }
}

/// Runs the functions of a job one after the other, each on a thread that may block. Returns the result of each.
///
/// A panic of a function fails only its job. A killed job ends at once if its function waits for something; if the
/// function does not notice, its thread is abandoned.
pub async fn run(rt: &Rt, ctx: &Context, job: &Publication) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for call in job.calls().unwrap_or_default() {
        let span = tracing::info_span!("job", jid = job.jid());
        outcomes.push(run_one(rt, ctx, job, call).instrument(span).await);
    }
    outcomes
}

/// Runs a function that was not published, under the same rules.
///
/// # Errors
/// When there is no value, in words: the function does not exist, or it failed.
pub async fn run_alone(rt: &Rt, ctx: &Context, fun: &str, call: Call) -> Result<Value, String> {
    // Also for schedules and startup states: a blackout is for everything the minion does by itself.
    refuse_in_blackout(ctx, fun).map_err(|error| error.to_string())?;
    let function = ctx.agent.registry().find_permitted(fun).map_err(|why| why.0)?;
    let bound = exec::bind(function, call, &ctx.job.published());
    let result = match bound {
        Ok(bound) => on_a_thread(rt, ctx, function, bound).await,
        Err(error) => Err(error),
    };
    result.map_err(|error| {
        error!("Unhandled exception running {fun}: {error}");
        error.return_text(fun, function.doc).to_string()
    })
}

async fn run_one(rt: &Rt, ctx: &Context, job: &Publication, call: FunctionCall<'_>) -> Outcome {
    if ctx.job.cancel.is_cancelled() {
        // Killed during an earlier function of the same job.
        return failed(ctx, call.fun, "", &Error::Terminated);
    }
    let registry = ctx.agent.registry();
    if let Err(error) = check_executors(job.load(), &ctx.opts).and_then(|()| refuse_in_blackout(ctx, call.fun)) {
        return failed(ctx, call.fun, "", &error);
    }
    let function = match registry.find_permitted(call.fun) {
        Ok(function) => function,
        Err(why) => return unavailable(registry, call.fun, why.0),
    };
    let bound = exec::bind(function, arguments::split(call.arg), &ctx.job.published());
    let result = match bound {
        Ok(bound) => on_a_thread(rt, ctx, function, bound).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(value) => {
            info!(jid = job.jid(), fun = call.fun, "Job {} execution finished", job.jid());
            Outcome::returned(value, ctx.job.retcode(), function.out)
        }
        Err(error) => failed(ctx, call.fun, function.doc, &error),
    }
}

/// Runs a plain function on a thread, and an async function as a task.
async fn on_a_thread(rt: &Rt, ctx: &Context, function: &'static Function, bound: exec::Bound) -> Result<Value, Error> {
    ctx.set_retcode(0);
    let (inside, span) = (ctx.clone(), tracing::Span::current());
    let mut running = match function.body {
        // The job may have been killed while it waited for the thread.
        Body::Plain(_) => rt.blocking(move || span.in_scope(|| exec::caught(|| function.call(&inside, bound)))),
        Body::Async(call) => {
            let unless_killed = async move {
                tokio::select! {
                    biased;
                    result = call(&inside, bound) => result,
                    () = inside.job.cancel.cancelled() => Err(Error::Terminated),
                }
            };
            let caught = AssertUnwindSafe(unless_killed.instrument(span)).catch_unwind();
            rt.spawn(caught.map(|done| done.unwrap_or_else(|panic| Err(exec::of_panic(&*panic)))))
        }
    };
    let ended = tokio::select! {
        biased;
        ended = &mut running => Some(ended),
        () = ctx.job.cancel.cancelled() => tokio::time::timeout(GRACE, running).await.ok(),
    };
    match ended {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(Error::Other(error.to_string())),
        None => {
            warn!(jid = ctx.job.jid(), "the killed function does not stop; its thread is left alone");
            Err(Error::Terminated)
        }
    }
}

fn failed(ctx: &Context, fun: &str, doc: &str, error: &Error) -> Outcome {
    match error {
        // That program prints the failure itself.
        _ if ctx.opt_str("__cli") == Some("salt-call") => debug!(fun, "The function {fun} failed: {error}"),
        // The levels and first words are Salt's: monitors look for them.
        Error::Other(_) => warn!("The minion function caused an exception: {error} ({fun})"),
        Error::Execution(_) | Error::Detailed { .. } => error!("A command in '{fun}' had a problem: {error}"),
        Error::Arguments(_) => warn!("{}", error.return_text(fun, doc)),
        Error::CommandNotFound(_) => debug!("{}", error.return_text(fun, doc)),
        _ => error!("Problem executing '{fun}': {error}"),
    }
    Outcome::failed(error.return_text(fun, doc))
}

/// Returns the failure for a function that does not exist: the documentation of the functions whose names begin with
/// this text, if there are any.
fn unavailable(registry: &Registry, fun: &str, why: String) -> Outcome {
    let mut docs: Map = Map::new();
    for (module, function) in registry.functions() {
        let name = format!("{module}.{}", function.name);
        if name.starts_with(fun) {
            // As in Salt, `salt '*' test` shows the documentation of the module.
            docs.insert(name, exec::docstring(function.doc));
        }
    }
    if docs.is_empty() {
        return Outcome::failed(why);
    }
    docs.insert(fun, why);
    Outcome::failed(docs)
}

/// Refuses a function in a blackout, set in pillar or grains, unless it can end the blackout or is on the whitelist.
fn refuse_in_blackout(ctx: &Context, fun: &str) -> Result<(), Error> {
    // Who sits at the machine may work on it: in Salt the blackout is a matter of the daemon.
    if ctx.opt_str("__cli") == Some("salt-call") {
        return Ok(());
    }
    for source in [&ctx.pillar, &ctx.grains] {
        let allowed = || {
            let list = source.get("minion_blackout_whitelist").and_then(Value::as_list).unwrap_or_default();
            fun == "saltutil.refresh_pillar" || list.iter().any(|name| name.as_str() == Some(fun))
        };
        if source.get("minion_blackout").is_some_and(Value::truthy) && !allowed() {
            return Err(Error::invocation(
                "Minion in blackout mode. Set 'minion_blackout' to False in pillar or grains to resume operations. \
                 Only saltutil.refresh_pillar allowed in blackout mode.",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use exec::{Job, Module, Param, Result, testing};
    use value::{list, map};

    static WAIT: Function = entry("wait", Body::Async(|_, _| Box::pin(std::future::pending())));
    static PLAIN_WAIT: Function = entry("plain_wait", Body::Plain(|ctx, _| ctx.wait(std::future::pending())));
    static PANIC: Function = entry("panic", Body::Plain(|_, _| panic!("oh no")));
    static FINE: Function = entry(
        "fine",
        Body::Plain(|ctx, _| {
            ctx.set_retcode(3);
            Ok(Value::from("fine"))
        }),
    );
    static ONE: Function = Function {
        params: &[Param { name: "text", default: None, keyword_only: false }],
        ..entry("one", Body::Plain(|_, mut bound| bound.take::<Value>("text")))
    };
    static MODULE: Module = Module::new("t", "", &[&FINE, &ONE, &PANIC, &PLAIN_WAIT, &WAIT]);

    const fn entry(name: &'static str, body: Body) -> Function {
        Function { name, doc: "Words.", params: &[], varargs: None, kwargs: None, out: None, body }
    }

    fn job(fun: Value, arg: Value) -> Publication {
        Publication::new(map! { "tgt" => "*", "jid" => "1", "fun" => fun, "arg" => arg }).unwrap()
    }

    fn ctx(pillar: Map) -> Context {
        let (ctx, _) = testing::context(&[&MODULE], map! {}, map! {}, pillar);
        Context { job: Arc::new(Job::new(map! { "jid" => "1" })), ..ctx }
    }

    async fn text_of(fun: &str, arg: Value) -> String {
        run(&Rt::real(), &ctx(map! {}), &job(fun.into(), arg)).await[0].value.to_string()
    }

    #[tokio::test]
    async fn a_result_carries_the_return_code_of_its_function() -> Result<()> {
        let outcomes =
            run(&Rt::real(), &ctx(map! {}), &job(list!["t.fine", "t.one"], list![list![], list!["a"]])).await;
        assert_eq!(outcomes[0], Outcome { value: "fine".into(), retcode: 3, out: None });
        assert_eq!(outcomes[1], Outcome { value: "a".into(), retcode: 0, out: None });
        Ok(())
    }

    #[tokio::test]
    async fn failures_are_worded_as_salt_words_them() {
        // A panic in a function must not end the minion.
        assert_eq!(text_of("t.panic", list![]).await, "The minion function caused an exception: oh no");
        assert_eq!(text_of("no.such", list![]).await, "'no.such' is not available.");
        assert_eq!(
            text_of("t.one", list![]).await,
            "Passed invalid arguments to t.one: one() missing 1 required positional argument: 'text'\n\nWords."
        );
        assert!(text_of("t", list![]).await.contains(r"'t.fine': '\n    Words.\n    '"));
    }

    #[tokio::test]
    async fn a_killed_job_ends() {
        for fun in ["t.wait", "t.plain_wait"] {
            let ctx = ctx(map! {});
            let killer = ctx.job.clone();
            let job = job(fun.into(), list![]);
            let rt = Rt::real();
            let (outcomes, ()) = tokio::join!(run(&rt, &ctx, &job), async move { killer.cancel.cancel() });
            assert_eq!(outcomes[0].value.to_string(), format!("ERROR: the job running '{fun}' was terminated"));
        }
    }

    #[tokio::test]
    async fn a_blackout_lets_only_the_whitelist_through() {
        let ctx = ctx(map! { "minion_blackout" => true, "minion_blackout_whitelist" => list!["t.fine"] });
        assert_eq!(run(&Rt::real(), &ctx, &job("t.fine".into(), list![])).await[0].retcode, 3);
        let refused = &run(&Rt::real(), &ctx, &job("t.one".into(), list!["a"])).await[0];
        assert!(refused.value.to_string().contains("blackout"), "{refused:?}");
        let mut local = ctx;
        local.opts = Arc::new(map! { "__cli" => "salt-call" });
        let allowed = &run(&Rt::real(), &local, &job("t.one".into(), list!["a"])).await[0];
        assert_eq!(allowed.value.to_string(), "a");
    }

    #[test]
    fn executors_that_do_not_exist_are_refused() {
        let check = |job: Map| check_executors(&job, &map! {}).map_err(|error| error.to_string());
        assert_eq!(check(map! {}), Ok(()));
        assert_eq!(check(map! { "module_executors" => "direct_call" }), Ok(()));
        // Refused, because running the function directly could do it in the wrong place.
        let refused = check(map! { "module_executors" => list!["docker"] });
        assert_eq!(refused, Err("Executor 'docker' is not available".to_owned()));
    }
}
