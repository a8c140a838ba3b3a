//! States on the master: an orchestration is a run of states like any other, with the master's own files and pillar and with
//! `saltutil.cmd`, `saltutil.runner` and `saltutil.wheel` that reach its minions and itself.

mod agent;
mod functions;

use std::sync::Arc;

use exec::{Call, Context, Error, Result};
use value::{Map, Value, map};

use crate::RunnerContext;
use crate::own_pillar::own_pillar;
use crate::run::new_jid;
use crate::success::check_result;
use agent::MasterMinion;

/// Returns the runner a function was called by.
fn owner(ctx: &Context) -> Result<RunnerContext> {
    agent::owner(ctx).ok_or_else(|| Error::execution("this function belongs to an orchestration of the master"))
}

/// Makes the context in which states and functions of the master run.
async fn context(runner: &RunnerContext, orchestration_jid: &str) -> Result<Context> {
    let mut opts = runner.config.raw.clone();
    // Files are read from the master's own roots, and templates see that they are rendered by a master.
    opts.update(map! {
        "id" => runner.config.id.clone(), "file_client" => "local", "__role" => "master",
        "cachedir" => runner.config.paths.cachedir.to_string_lossy(), "__orchestration_jid__" => orchestration_jid,
    });
    let gathered = opts.clone();
    // Collecting grains runs programs and reads the disk.
    let grains = tokio::task::spawn_blocking(move || grains::collect(&gathered)).await;
    let grains = grains.map_err(|error| Error::Other(error.to_string()))?;
    let agent = MasterMinion::shared(runner.clone(), &grains);
    let load = map! { "jid" => orchestration_jid, "user" => runner.job.user.clone() };
    Ok(Context {
        opts: Arc::new(opts),
        grains: Arc::new(grains),
        pillar: Arc::new(Map::new()),
        job: Arc::new(exec::Job::new(load)),
        agent,
        memo: Arc::default(),
        state: None,
    })
}

/// Calls a function of `state` on the master. Orchestrations may run at the same time.
async fn call(runner: &RunnerContext, fun: &str, jid: Option<String>, kwargs: Map) -> Result<Value> {
    check_pillar(kwargs.get("pillar"))?;
    // The jid of the runner is the one operators know: they pause and end the orchestration by it.
    let given = jid.or_else(|| Some(runner.job.jid.clone())).filter(|jid| !jid.is_empty());
    let jid = match given {
        Some(jid) => jid,
        None => new_jid(runner).await,
    };
    let ctx = context(runner, &jid).await?;
    let mut all = map! { "__pub_jid" => jid.clone() };
    // A single state would take additional arguments as its own.
    if fun != "state.single" {
        all.update(map! { "concurrent" => true, "orchestration_jid" => jid });
    }
    all.update(kwargs);
    // Nulls mean "not given". Only `pillarenv` counts for Salt even when it is null.
    all.retain(|key, value| !value.is_null() || key.as_str() == Some("pillarenv"));
    ctx.call_apart(fun, Call { args: Vec::new(), kwargs: all }).await
}

/// Refuses a pillar that is not a map.
pub(crate) fn check_pillar(pillar: Option<&Value>) -> Result<()> {
    match pillar {
        None | Some(Value::Null | Value::Map(_)) => Ok(()),
        Some(_) => Err(Error::invocation("Pillar data must be formatted as a dictionary")),
    }
}

/// Applies SLS files on the master.
///
/// # Errors
/// When the pillar is not a map, or another state run refuses this one.
pub(crate) async fn sls(runner: &RunnerContext, mods: Value, jid: Option<String>, mut kwargs: Map) -> Result<Map> {
    kwargs.insert("mods", mods);
    let running = call(runner, "state.sls", jid, kwargs).await?;
    let data = map! { runner.config.id.as_str() => running };
    // The runner has succeeded, whatever the states did; the exit code shows the result of the states.
    let code = i64::from(!check_result(&Value::from(data.clone())));
    Ok(map! { "data" => data, "outputter" => "highstate", "retcode" => code })
}

/// Calls another function of `state` on the master. Returns its result under the master's id.
///
/// # Errors
/// As [`sls`].
pub(crate) async fn other(runner: &RunnerContext, fun: &str, kwargs: Map) -> Result<Map> {
    let running = call(runner, fun, None, kwargs).await?;
    Ok(map! { runner.config.id.as_str() => running })
}

/// Calls any function of a minion on the master, with the master's pillar or none.
///
/// # Errors
/// As the function, and when the pillar cannot be made.
pub(crate) async fn function(runner: &RunnerContext, fun: &str, call: Call, with_pillar: bool) -> Result<Value> {
    let jid = new_jid(runner).await;
    let mut ctx = context(runner, &jid).await?;
    if with_pillar {
        ctx.pillar = Arc::new(own_pillar(runner, None, None).await?);
    }
    if let Err(missing) = ctx.agent.registry().find_permitted(fun) {
        // Salt answers with this sentence as the result; it is not a failure.
        return Ok(missing.0.into());
    }
    let fun = fun.to_owned();
    ctx.apart(move |ctx| ctx.call_permitted(&fun, call)).await
}
