//! `saltern` — what only a master of Saltern can be asked: jobs that wait for minions that are away, the masters that it shares
//! with, and how it is.

use client::{LocalClient, settings};
use exec::{Error, Result, function};
use value::{Map, Value, map};

use crate::context::failed;
use crate::{Module, RunnerContext};
use value::error::chain;

/// The functions of the runner `saltern`.
pub static MODULE: Module = Module::new(
    "saltern",
    "Jobs that wait for minions that are away, the masters that share with this one, and how the master is.",
    &[&ACCEPT, &CONFLICTS, &DECISIONS, &DROP, &HELD, &JOB, &KEYS, &MASTERS, &REMOVE, &STATUS, &WAITING],
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

/// Returns the masters of the set, how each is linked with this one, and what they have in common.
///
/// `state` is `here` for this master, `linked` or `away`. `since` and `compared` are seconds since 1970: since when it is linked or
/// away, and when the copies of both were last equal. `rtt_ms` is how long an answer takes, `clock_ms` by how much its clock is
/// ahead.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.masters
#[function]
async fn masters(ctx: &RunnerContext) -> Result<Value> {
    sharing(ctx, map! { "what" => "masters" }).await
}

/// Returns the keys about which masters decided differently without knowing of each other. The safer decision is obeyed until
/// somebody decides again, on any of the masters.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.conflicts
#[function]
async fn conflicts(ctx: &RunnerContext) -> Result<Value> {
    sharing(ctx, map! { "what" => "conflicts" }).await
}

/// Returns the decisions about keys and masters that count now, the latest last.
///
/// by
///     Only those of the master with this name.
/// key
///     Only those about this minion.
/// since
///     Only those from this time on, in seconds since 1970.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.decisions by=m2
#[function]
async fn decisions(ctx: &RunnerContext, by: Option<String>, key: Option<String>, since: Option<f64>) -> Result<Value> {
    sharing(ctx, map! { "what" => "decisions", "by" => by, "about" => key, "since" => since }).await
}

/// Returns the masters that want to link with this one and could not prove that they belong to the set, with the fingerprint of
/// the member key of each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.waiting
#[function]
async fn waiting(ctx: &RunnerContext) -> Result<Value> {
    sharing(ctx, map! { "what" => "waiting" }).await
}

/// Makes a waiting master a member of the set. On the other master, accept this one as well.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.accept m2
#[function]
async fn accept(ctx: &RunnerContext, name: String) -> Result<Value> {
    sharing(ctx, map! { "what" => "accept", "name" => name }).await
}

/// Removes a master from the set for good. To come back it needs a new member key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.remove m2
#[function]
async fn remove(ctx: &RunnerContext, name: String) -> Result<Value> {
    sharing(ctx, map! { "what" => "remove", "name" => name }).await
}

/// Says what the loss of many key files means, which other masters were not told: `restore` writes the files again, `adopt` deletes
/// the keys everywhere. Returns how many keys.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.keys restore
#[function]
async fn keys(ctx: &RunnerContext, action: String) -> Result<Value> {
    match action.as_str() {
        "restore" => sharing(ctx, map! { "what" => "restore_keys" }).await,
        "adopt" => sharing(ctx, map! { "what" => "adopt_keys" }).await,
        other => Err(Error::Other(format!("saltern.keys does not know {other:?}: restore or adopt"))),
    }
}

async fn sharing(ctx: &RunnerContext, arguments: Map) -> Result<Value> {
    client(ctx).sharing(arguments).await.map_err(refused)
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
