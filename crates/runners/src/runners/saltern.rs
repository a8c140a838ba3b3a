//! `saltern` — what only a master of Saltern can be asked: jobs that wait for minions that are away, the masters that it shares
//! with, who may do what, and how it is.

use std::sync::Arc;
use std::time::Duration;

use client::{LocalClient, settings};
use exec::{Call, Error, KwArgs, Result, VarArgs, function};
use futures_util::future::BoxFuture;
use targeting::TargetType;
use targeting::acl::Form;
use value::{Map, Value, map};

use crate::context::failed;
use crate::minions::Minions;
use crate::{Guard, Kind, Module, Request, RunnerContext, access, new_jid, run};
use value::error::chain;

/// The functions of the runner `saltern`.
pub static MODULE: Module = Module::new(
    "saltern",
    "Jobs that wait for minions that are away, the masters that share with this one, who may do what, and how the master is.",
    &[
        &ACCEPT,
        &ACCESS,
        &CONFLICTS,
        &DECISIONS,
        &DRIFT,
        &DROP,
        &FORGET_VOTERS,
        &HELD,
        &JOB,
        &KEYS,
        &LEASES,
        &MASTERS,
        &ONCE,
        &REMOVE,
        &SETTLE,
        &STATUS,
        &UNDO,
        &WAITING,
        &WHO,
    ],
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
    let states = states(ctx, &jid).await?;
    if states.is_empty() {
        tracing::warn!("{}", super::jobs::no_such_job(&jid));
    }
    Ok(states)
}

/// Ends a held job: minions that reconnect do not get it any more, whatever master of the set they come to. Returns whether this master
/// held it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.drop 20130916125524463507
#[function]
async fn drop(ctx: &RunnerContext, jid: String) -> Result<bool> {
    let dropped = client(ctx).drop_held(&jid).await.map_err(refused)?;
    if !dropped.away.is_empty() {
        tracing::warn!("the job {jid} may still be delivered by masters that are away: {}", dropped.away.join(", "));
    }
    Ok(dropped.was_held)
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
/// `state` is `here` for this master, `linked` or `away`, `since` since when, and `reason` why it is away. `compared` is when the
/// copies of both were last equal, `rtt_ms` how long an answer takes, `clock_ms` by how much its clock is ahead, `fingerprint` the
/// SHA-256 of its member key. Of two masters with one name the later one is shown with its node behind the name.
///
/// `others` are no members: masters that are refused or wait to be accepted, and addresses in `cluster_peers` where nobody answers.
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

/// Returns the keys about which masters decided differently without knowing of each other: the decisions, and below `settle` the
/// commands that settle it on all masters. The safer decision is obeyed until then.
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
///     Only those of the master with this name or node.
/// about
///     Only those about this minion or master.
/// since
///     Only those from this time on: `90s`, `10m`, `1h`, `2d` and `1w` ago, a local date such as `2026-11-26` or
///     `2026-11-26 03:10:22`, or seconds since 1970.
/// key
///     Another name for `about`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.decisions by=m2 since=1h
///     salt-run saltern.decisions about=web1
#[function]
async fn decisions(
    ctx: &RunnerContext,
    by: Option<String>,
    about: Option<String>,
    since: Option<Value>,
    key: Option<String>,
) -> Result<Value> {
    let about = about.or(key);
    sharing(ctx, map! { "what" => "decisions", "by" => by, "about" => about, "since" => since }).await
}

/// Decides about the key of a minion over all that masters decided before, on all masters. This settles conflicts that `salt-key`
/// cannot, because there is no key file.
///
/// id
///     The minion.
/// state
///     `accepted`, `rejected` or `deleted`.
/// fingerprint
///     Which key, if masters know several of this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.settle web1 accepted
#[function]
async fn settle(ctx: &RunnerContext, id: String, state: String, fingerprint: Option<String>) -> Result<Value> {
    let asked = map! { "what" => "settle", "name" => id, "state" => state, "fingerprint" => fingerprint };
    decided(ctx, asked).await
}

/// Shows what becomes of the keys if the decisions of a master do not count, and with `yes=True` decides so on all masters.
///
/// Where other masters have decided as well, that counts then. Where not, the key waits to be accepted or rejected: what was decided
/// before is not known any more. Decisions about masters are listed and stay as they are.
///
/// by
///     The name or the node of the master.
/// since
///     From when on, as with `saltern.decisions`.
/// about
///     Only the key of this minion.
/// yes
///     Do it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.undo by=m2 since=2h
///     salt-run saltern.undo by=m2 since=2h yes=True
#[function]
async fn undo(
    ctx: &RunnerContext,
    by: String,
    since: Value,
    about: Option<String>,
    yes: Option<Value>,
) -> Result<Value> {
    decided(ctx, map! { "what" => "undo", "by" => by, "since" => since, "about" => about, "yes" => yes }).await
}

/// Returns in what other masters of the set differ from this one: files, pillar, repositories, access control, options. Nothing is
/// repaired.
///
/// kind
///     `files`, `pillar`, `git`, `acl`, `config`, `schedule`, `reactor`, `extmods`, `master_key` or `version`: shows which paths or
///     options differ, up to 1,000 of them, and on which master. Contents and values are not shown.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.drift
///     salt-run saltern.drift pillar
#[function]
async fn drift(ctx: &RunnerContext, kind: Option<String>) -> Result<Value> {
    sharing(ctx, map! { "what" => "drift", "kind" => kind }).await
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
/// name
///     Its name, or its fingerprint.
/// fingerprint
///     The fingerprint of its member key, if several wait with one name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.accept m2
///     salt-run saltern.accept m2 fingerprint=5b:0f:…
#[function]
async fn accept(ctx: &RunnerContext, name: Option<String>, fingerprint: Option<String>) -> Result<Value> {
    decided(ctx, map! { "what" => "accept", "name" => name, "fingerprint" => fingerprint }).await
}

/// Returns what a user may do: the entries that mean the user, and with ``fun`` whether a call is granted, by which entry, or why
/// not. Below ``warnings`` is what is odd about the entries, such as a name that means more functions than one.
///
/// It reads the configuration, and asks no backend: the groups of a user, and what a web server sends, are unknown.
///
/// user
///     The name; without it, the answer has only the warnings.
/// eauth
///     One backend of ``external_auth``, or ``publisher_acl``. All of them by default.
/// groups
///     The groups of the user.
/// fun
///     The function.
/// tgt
///     The target of the job, and ``tgt_type`` its type.
/// arg
///     The arguments.
/// client
///     ``local`` for a job of minions, ``runner`` or ``wheel``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.access
///     salt-run saltern.access user=fred
///     salt-run saltern.access user=fred groups=ops fun=pkg.install tgt='web*'
///     salt-run saltern.access user=fred eauth=pam client=runner fun=jobs.active
#[function]
#[expect(clippy::too_many_arguments, reason = "they are those of the command line")]
async fn access(
    ctx: &RunnerContext,
    user: Option<String>,
    eauth: Option<String>,
    groups: Option<Value>,
    fun: Option<String>,
    #[default("*")] tgt: Value,
    #[default("glob")] tgt_type: String,
    arg: Option<Value>,
    #[default("local")] client: String,
) -> Result<Map> {
    let form = match client.as_str() {
        "local" => None,
        "runner" => Some(Form::Runner),
        "wheel" => Some(Form::Wheel),
        other => return Err(Error::invocation(format!("client is {other:?}, and must be local, runner or wheel"))),
    };
    let kind = TargetType::from_name(&tgt_type).map_err(|error| Error::invocation(error.to_string()))?;
    let arguments = access::arguments(arg);
    let call = fun.map(|function| access::Call { form, function, arguments, target: (tgt, kind) });
    let user = user.map(|name| access::User { name, groups: access::names(groups) });
    let question = access::Question { user, eauth, call };
    ctx.blocking(move |ctx| {
        let known = access::FunctionNames::of(ctx);
        let minions = Minions::new(ctx)?;
        access::report(&ctx.config.access, &question, &known, &minions.checker())
    })
    .await
}

/// Removes a master from the set for good, and shows which keys count because it accepted them.
///
/// Its member key never counts again. With a new member key and the secret of the set it comes back, so change `cluster_secret` on
/// the masters that are left, or the master key if that is what proves that masters belong together.
///
/// name
///     Its name, or its node if several masters have that name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.remove m2
#[function]
async fn remove(ctx: &RunnerContext, name: String) -> Result<Value> {
    decided(ctx, map! { "what" => "remove", "name" => name }).await
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

/// Returns the masters that a minion is connected to. It takes the id of one minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.who web1
#[function]
async fn who(ctx: &RunnerContext, minion: String) -> Result<Value> {
    let masters = sharing(ctx, map! { "what" => "who", "minion" => minion.as_str() }).await?;
    shown_who(&minion, masters)
}

/// Returns what `saltern.who` shows. An empty list would not tell a misspelt id from a minion that is away.
fn shown_who(minion: &str, masters: Value) -> Result<Value> {
    if masters.as_list().is_none_or(|masters| !masters.is_empty()) {
        return Ok(masters);
    }
    Err(Error::Other(match minion.contains(['*', '?', '[', ',']) {
        true => format!("saltern.who takes the id of one minion, and {minion:?} is none"),
        false => format!("no minion {minion:?} is connected to this master or to one that it is linked with"),
    }))
}

/// Returns what the masters of the set do once together, such as entries of the option `schedule`: whether this master does it, and
/// which master began it last.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.leases
#[function]
async fn leases(ctx: &RunnerContext) -> Result<Value> {
    sharing(ctx, map! { "what" => "leases" }).await
}

/// Forgets the list of voters after a majority of them has been lost for good. Without ``yes=True`` it only shows the list.
///
/// The remaining masters start again: two take leases by name, three or more agree on a new list. Run it on one of them, after you
/// have removed the lost masters with ``saltern.remove``. If a removed master is only cut off and still runs, both sides run the
/// schedule.
///
/// yes
///     Do it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.forget_voters
///     salt-run saltern.forget_voters yes=True
#[function]
async fn forget_voters(ctx: &RunnerContext, yes: Option<Value>) -> Result<Value> {
    decided(ctx, map! { "what" => "forget_voters", "yes" => yes }).await
}

/// How often a run that the set does once says that it goes on.
const GOES_ON: Duration = Duration::from_secs(5);

/// Runs a runner, such as an orchestration, on one master of the set: cron may start it on each of them at the same time. Returns
/// what the runner returns; on the other masters `runs` is false, and `reason` says which master runs it.
///
/// With `cluster_once: off`, and on a master without a set, it runs on each.
///
/// name
///     What the masters know it by.
/// fun
///     The runner, with its arguments after it.
/// within
///     For how many seconds after its begin other masters do not begin it: less than the time between two runs, and more than
///     clocks and cron differ. 60 to 86400; 60 by default.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run saltern.once backup state.orchestrate orch.backup
///     salt-run saltern.once report jobs.list_jobs within=3600
#[function]
async fn once(ctx: &RunnerContext, name: String, fun: String, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut kwargs = kwargs.given();
    let within = kwargs.remove("within");
    // Before it is claimed: other masters would take it for done.
    let found = Kind::Runner.enabled(&fun, &ctx.config.raw).and_then(|()| ctx.tables.find(Kind::Runner, &fun));
    let hint = || Kind::Runner.python_hint(&fun, &ctx.config.raw);
    found.map_err(|missing| Error::Other(format!("{missing}{}", hint())))?;
    let (jid, user) = (new_jid(ctx).await, ctx.job.user.clone());
    let request = Request::new(Kind::Runner, fun, Call { args: args.0, kwargs }, jid, user);
    if ctx.config.cluster.is_none() {
        return Ok(finished(ctx, Box::pin(run(ctx, request)).await));
    }
    let asked = sharing(ctx, map! { "what" => "begin_once", "name" => name.as_str(), "within" => within }).await?;
    let Some(fence) = asked.get("fence").filter(|_| asked.get("runs") == Some(&true.into())) else {
        return Ok(asked);
    };
    let lease = Arc::new(Lease { ctx: ctx.clone(), name, fence: fence.clone() });
    let guarded = ctx.clone().with_guard(lease.clone());
    let mut running = Box::pin(run(&guarded, request));
    let outcome = loop {
        match tokio::time::timeout(GOES_ON, &mut running).await {
            Ok(outcome) => break outcome,
            // A run that publishes nothing more may end its other steps.
            Err(_) => {
                if let Some(reason) = lease.lost().await {
                    tracing::warn!("{reason}");
                }
            }
        }
    };
    if let Err(error) = sharing(ctx, lease.question("end_once")).await {
        // It has run all the same, and the master notices that it says nothing more.
        tracing::warn!("the master does not hear that {} has ended: {}", lease.name, chain(&error));
    }
    Ok(finished(ctx, outcome))
}

fn finished(ctx: &RunnerContext, outcome: crate::Outcome) -> Value {
    if !outcome.success {
        ctx.set_retcode(1);
    }
    outcome.ret
}

/// The lease under which a program runs something, as the master knows it.
struct Lease {
    ctx: RunnerContext,
    name: String,
    fence: Value,
}

impl Lease {
    fn question(&self, what: &str) -> Map {
        map! { "what" => what, "name" => self.name.as_str(), "fence" => self.fence.clone() }
    }
}

impl Guard for Lease {
    fn lost(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            client(&self.ctx).sharing(self.question("go_on_once")).await.err().map(|error| chain(&error))
        })
    }
}

/// Returns the minions that are connected to any master of the set, as the running master knows them.
///
/// The list is empty without a set, in the master itself, whose own list has them, and if the master does not answer.
pub(crate) async fn connected_anywhere(ctx: &RunnerContext) -> Vec<String> {
    if ctx.connected.is_some() || ctx.config.cluster.is_none() {
        return Vec::new();
    }
    let connected = client(ctx).sharing(map! { "what" => "connected" }).await.unwrap_or_else(|error| {
        tracing::warn!("minions of other masters are not known: {}", chain(&error));
        Value::Null
    });
    let ids = connected.as_list().unwrap_or_default();
    ids.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn sharing(ctx: &RunnerContext, arguments: Map) -> Result<Value> {
    client(ctx).sharing(arguments).await.map_err(refused)
}

/// Sends a request that decides something, in the name of the user who called the runner: it runs as the user of the master.
async fn decided(ctx: &RunnerContext, mut asked: Map) -> Result<Value> {
    asked.insert("for", ctx.job.user.as_str());
    sharing(ctx, asked).await
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

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn who_says_that_a_minion_is_nowhere() {
        assert_eq!(shown_who("web1", list!["m1"]).unwrap(), list!["m1"]);
        let refused = |minion: &str| shown_who(minion, list![]).unwrap_err().to_string();
        assert!(refused("nobody").contains("no minion \"nobody\" is connected to this master or"));
        assert!(refused("web*").contains("takes the id of one minion"));
    }
}
