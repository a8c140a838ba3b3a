//! `saltern` — what only a master of Saltern can be asked: jobs that wait for minions that are away, and how it is.

use client::{LocalClient, settings};
use exec::{Error, Result, function};
use value::{Map, Value, map};

use crate::context::failed;
use crate::{Module, RunnerContext};
use value::error::chain;

/// The functions of the runner `saltern`.
pub static MODULE: Module = Module::new(
    "saltern",
    "Jobs that wait for minions that are away, and how the master is.",
    &[&DROP, &HELD, &JOB, &STATUS],
);

/// Returns the jobs that are held for disconnected minions: the function and the target, the seconds left, and the
/// state of each minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.held
#[function]
async fn held(ctx: &RunnerContext) -> Result<Map> {
    let held = client(ctx).held().await.map_err(refused)?;
    let by_jid = held.into_iter().filter_map(Value::into_map).filter_map(|mut job| Some((job.remove("jid")?, job)));
    Ok(by_jid.collect())
}

/// Returns the state of a job on each of its minions: `sent`, `received`, `started`, `returned` or `unreachable`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.job 20130916125524463507
#[function]
async fn job(ctx: &RunnerContext, jid: String) -> Result<Map> {
    states(ctx, &jid).await
}

/// Ends a held job: minions that reconnect do not get it any more. Returns whether there was one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.drop 20130916125524463507
#[function]
async fn drop(ctx: &RunnerContext, jid: String) -> Result<bool> {
    client(ctx).drop_held(&jid).await.map_err(refused)
}

/// Returns the activity of the master since its start and its current state: connected minions, sign-ins, requests by
/// command with their mean time in milliseconds, jobs and returns by function, publications that wait, memory,
/// processor time and files.
///
/// The option `metrics` serves the same for Prometheus.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.status
#[function]
async fn status(ctx: &RunnerContext) -> Result<Map> {
    client(ctx).status().await.map_err(refused)
}

fn client(ctx: &RunnerContext) -> LocalClient {
    LocalClient::new(ctx.rt.clone(), settings::from_config(&ctx.config))
}

fn refused(error: client::Error) -> Error {
    Error::Other(format!("SaltClientError: {}", chain(&error)))
}

/// Returns the state of a job for each of its minions. The master remembers the latest jobs. For older ones, and on a
/// master of Salt, the job cache shows who has returned, and the others are `unknown`.
pub(crate) async fn states(ctx: &RunnerContext, jid: &str) -> Result<Map> {
    let remembered = match client(ctx).progress(jid).await {
        Ok(progress) => progress.map(|progress| progress.states).unwrap_or_default(),
        // Not an error: a master of Salt does not know the request, and the job cache still helps.
        Err(error) => {
            tracing::warn!("the master does not say how far job {jid} is: {}", chain(&error));
            Map::new()
        }
    };
    let jid = jid.to_owned();
    ctx.blocking(move |ctx| {
        let cache = ctx.jobs()?;
        let mut states: Map =
            cache.minions(&jid).map_err(failed)?.into_iter().map(|id| (id, Value::from("unknown"))).collect();
        states.update(remembered);
        // A stored return is newer than what the master remembered when it was asked.
        for (id, _) in cache.returns(&jid).map_err(failed)? {
            states.insert(id, "returned");
        }
        Ok(states)
    })
    .await
}

/// Returns the same, with the returns.
pub(crate) async fn states_and_returns(ctx: &RunnerContext, jid: &str) -> Result<Map> {
    let states = states(ctx, jid).await?;
    let jid = jid.to_owned();
    ctx.blocking(move |ctx| {
        let returns = ctx.jobs()?.returns(&jid).map_err(failed)?;
        let described = states.into_iter().map(|(id, state)| {
            let mut shown = map! { "state" => state };
            if let Some((_, returned)) = returns.iter().find(|(known, _)| Some(known.as_str()) == id.as_str()) {
                shown.update(returned.to_map());
            }
            (id, Value::from(shown))
        });
        Ok(described.collect())
    })
    .await
}
