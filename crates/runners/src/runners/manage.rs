//! `manage` — which minions are up, which are down, and with what version.

use std::time::Duration;

use client::{Alive, LocalClient, settings};
use exec::{Error, KwArgs, Result, VarArgs, function};
use keys::{Bank, Selection};
use value::{Map, Value, map};

use crate::context::failed;
use crate::local::Ask;
use crate::refusal::refuse;
use crate::runners::saltern::connected_anywhere;
use crate::{Module, RunnerContext, connected, key_changes};
use value::error::chain;

/// The functions of the runner `manage`.
pub static MODULE: Module = Module::new(
    "manage",
    "Which minions are up, which are down, and with what version.",
    &[
        &ALIVED,
        &ALLOWED,
        &BOOTSTRAP,
        &BOOTSTRAP_PSEXEC,
        &DOWN,
        &JOINED,
        &KEY_REGEN,
        &LIST_NOT_STATE,
        &LIST_STATE,
        &NOT_ALIVED,
        &NOT_ALLOWED,
        &NOT_JOINED,
        &NOT_PRESENT,
        &NOT_REAPED,
        &PRESENT,
        &REAPED,
        &SAFE_ACCEPT,
        &STATUS,
        &UP,
        &VERSIONS,
    ],
);

/// The largest number of minions that are pinged by name. A job that names thousands is sent to each of them with all
/// names.
const LONGEST_LIST: usize = 100;

/// The minions to ask, and the timeouts.
struct Ping {
    target: Value,
    target_type: String,
    timeout: Option<f64>,
    gather_job_timeout: Option<f64>,
}

impl Ping {
    /// Returns which minions are up and which are down. Only those whose state the master does not know are pinged.
    async fn run(mut self, ctx: &RunnerContext) -> Result<(Vec<String>, Vec<String>)> {
        let known = self.status_without_ping(ctx).await?;
        let all_known = known.as_ref().is_some_and(|known| known.unknown.is_empty());
        let Alive { mut up, mut down, unknown } = known.unwrap_or_default();
        if !all_known {
            // Above the limit the original target is pinged, including minions that are already known.
            if (1..=LONGEST_LIST).contains(&unknown.len()) {
                (self.target, self.target_type) = (unknown.into(), "list".into());
            }
            let (answered, silent) = self.ask(ctx).await?;
            up.extend(answered);
            down.extend(silent);
        }
        up.sort();
        up.dedup();
        down.sort();
        down.dedup();
        // Known as down, but it answered in the meantime: the answer counts.
        down.retain(|id| up.binary_search(id).is_err());
        Ok((up, down))
    }

    /// Returns what the master knows without pinging minions, or nothing if the target matches no minion.
    async fn status_without_ping(&self, ctx: &RunnerContext) -> Result<Option<Alive>> {
        let mut client = LocalClient::new(ctx.rt.clone(), settings::from_config(&ctx.config));
        let known = client.alive(&self.target, &self.target_type).await;
        let known = known.map_err(|error| Error::Other(format!("SaltClientError: {}", chain(&error))))?;
        Ok(known.filter(|known| *known != Alive::default()))
    }

    /// Returns who answered a ping and who did not.
    async fn ask(self, ctx: &RunnerContext) -> Result<(Vec<String>, Vec<String>)> {
        let mut ask = Ask::new(ctx, self.target, &self.target_type, "test.ping");
        let seconds =
            // Zero means the default, as in Salt; the upper bound keeps the conversion from panicking.
            |given: Option<f64>| given.filter(|time| *time > 0.0).map(|time| Duration::from_secs_f64(time.min(1e9)));
        ask.timeout = seconds(self.timeout).unwrap_or(ask.timeout);
        ask.gather = seconds(self.gather_job_timeout).unwrap_or(ask.gather);
        let answers = ask.run_or_fail(ctx).await?;
        Ok((answers.returned.into_iter().map(|answer| answer.id).collect(), answers.silent))
    }
}

/// Returns which minions are `up` and which are `down`. Those whose state the master does not know are pinged.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run manage.status
///     salt-run manage.status tgt="webservers" tgt_type="nodegroup"
///     salt-run manage.status timeout=5 gather_job_timeout=10
#[function]
async fn status(
    ctx: &RunnerContext,
    #[default(true)] output: bool,
    #[default("*")] tgt: Value,
    #[default("glob")] tgt_type: String,
    timeout: Option<f64>,
    gather_job_timeout: Option<f64>,
) -> Result<Map> {
    let _no_longer_used = output;
    let (up, down) = Ping { target: tgt, target_type: tgt_type, timeout, gather_job_timeout }.run(ctx).await?;
    Ok(map! { "up" => up, "down" => down })
}

/// Returns which minions are up. Those whose state the master does not know are pinged.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run manage.up
///     salt-run manage.up tgt="webservers" tgt_type="nodegroup"
#[function]
async fn up(
    ctx: &RunnerContext,
    #[default("*")] tgt: Value,
    #[default("glob")] tgt_type: String,
    timeout: Option<f64>,
    gather_job_timeout: Option<f64>,
) -> Result<Vec<String>> {
    Ok(Ping { target: tgt, target_type: tgt_type, timeout, gather_job_timeout }.run(ctx).await?.0)
}

/// Returns which minions are down. Those whose state the master does not know are pinged. With `removekeys` the keys of
/// the minions that are down are deleted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run manage.down
///     salt-run manage.down removekeys=True
#[function]
async fn down(
    ctx: &RunnerContext,
    #[default(false)] removekeys: bool,
    #[default("*")] tgt: Value,
    #[default("glob")] tgt_type: String,
    timeout: Option<f64>,
    gather_job_timeout: Option<f64>,
) -> Result<Vec<String>> {
    let (_, down) = Ping { target: tgt, target_type: tgt_type, timeout, gather_job_timeout }.run(ctx).await?;
    if removekeys && !down.is_empty() {
        key_changes::may_decide(ctx)?;
        let ids = Value::from(down.clone());
        let effects = ctx.blocking(move |ctx| {
            let (manager, effects) = key_changes::manager(ctx)?;
            manager.delete(Selection::Match(&ids), false).map_err(failed)?;
            Ok(effects)
        });
        effects.await?.send().await;
    }
    Ok(down)
}

async fn present_ones(ctx: &RunnerContext, subset: Vec<String>, show_ip: bool) -> Result<Value> {
    let mut anywhere = connected_anywhere(ctx).await;
    anywhere.retain(|id| subset.is_empty() || subset.contains(id));
    // Reads the disk and, in `salt-run`, the system's tables of connections.
    let mut found = ctx.blocking(move |ctx| connected(ctx, Some(&subset))).await?;
    // The address of a minion of another master is not known here.
    found.extend(anywhere.into_iter().map(|id| (id, None)));
    // Of the same minion the one with an address is first.
    found.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    found.dedup_by(|one, other| one.0 == other.0);
    Ok(match show_ip {
        true => found.into_iter().map(|(id, ip)| (id, ip.map(|ip| ip.to_string()))).collect::<Map>().into(),
        false => found.into_iter().map(|(id, _)| id).collect(),
    })
}

async fn absent_ones(ctx: &RunnerContext, subset: Vec<String>) -> Result<Value> {
    let anywhere = connected_anywhere(ctx).await;
    ctx.blocking(move |ctx| {
        let connected = connected(ctx, None)?;
        let accepted = ctx.keys().ids(Bank::Accepted).map_err(failed)?;
        let away = accepted.iter().map(|id| id.as_str()).filter(|id| {
            let is_there = connected.iter().any(|(there, _)| there == id) || anywhere.iter().any(|there| there == id);
            !is_there && (subset.is_empty() || subset.iter().any(|one| one == id))
        });
        Ok(away.collect())
    })
    .await
}

macro_rules! present {
    ($($(#[$doc:meta])* $name:ident),*) => { $(
        $(#[$doc])*
        #[function]
        async fn $name(ctx: &RunnerContext, subset: Option<Value>, #[default(false)] show_ip: bool) -> Result<Value> {
            present_ones(ctx, ids(subset), show_ip).await
        }
    )* };
}

macro_rules! absent {
    ($($(#[$doc:meta])* $name:ident),*) => { $(
        $(#[$doc])*
        #[function]
        async fn $name(ctx: &RunnerContext, subset: Option<Value>, #[default(false)] show_ip: bool) -> Result<Value> {
            // An address is that of a connected minion.
            let _ = show_ip;
            absent_ones(ctx, ids(subset)).await
        }
    )* };
}

fn ids(subset: Option<Value>) -> Vec<String> {
    subset.map(|subset| crate::texts::split_input(&subset)).unwrap_or_default()
}

present! {
    /// Returns the minions that are connected, without sending them anything; with `show_ip` where each comes from.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.list_state
    list_state,
    /// Returns the minions that are connected, without sending them anything; with `show_ip` where each comes from.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.present
    present,
    /// Returns the minions that are connected, without sending them anything; with `show_ip` where each comes from.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.joined
    joined,
    /// Returns the minions that are connected, without sending them anything; with `show_ip` where each comes from.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.allowed
    allowed,
    /// Returns the minions that are connected, without sending them anything; with `show_ip` where each comes from.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.alived
    alived,
    /// Returns the minions that are connected, without sending them anything; with `show_ip` where each comes from.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.reaped
    reaped
}

absent! {
    /// Returns the accepted minions that are not connected, without sending them anything.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.list_not_state
    list_not_state,
    /// Returns the accepted minions that are not connected, without sending them anything.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.not_present
    not_present,
    /// Returns the accepted minions that are not connected, without sending them anything.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.not_joined
    not_joined,
    /// Returns the accepted minions that are not connected, without sending them anything.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.not_allowed
    not_allowed,
    /// Returns the accepted minions that are not connected, without sending them anything.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.not_alived
    not_alived,
    /// Returns the accepted minions that are not connected, without sending them anything.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run manage.not_reaped
    not_reaped
}

/// Compares the versions of all minions with the master's.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run manage.versions
#[function]
async fn versions(ctx: &RunnerContext) -> Result<Map> {
    let Some(answers) = Ask::new(ctx, "*", "glob", "test.version").run_or_print(ctx).await else {
        return Ok(Map::new());
    };
    // A list of pairs, because Salt shows the groups in the order in which they first appear.
    let mut found: Vec<(&str, Vec<(String, Value)>)> = Vec::new();
    let mut add = |label, id: String, version: Value| match found.iter_mut().find(|(known, _)| *known == label) {
        Some((_, ids)) => ids.push((id, version)),
        None => found.push((label, vec![(id, version)])),
    };
    // The master's own version, as its minions would report it.
    let master = format!("{}+saltern.{}", exec::SALT_LINE, exec::VERSION);
    for answer in answers.returned {
        // A minion that failed to report its version is shown as offline, as in Salt.
        let good = answer.data.get("retcode").and_then(Value::as_i64).unwrap_or(0) == 0;
        match answer.data.get_str("return").filter(|_| good) {
            Some(version) => add(label(version, &master), answer.id, version.into()),
            None => add(OFFLINE, answer.id, false.into()),
        }
    }
    answers.silent.into_iter().for_each(|id| add(OFFLINE, id, false.into()));
    let mut versions = Map::new();
    for (label, mut ids) in found {
        ids.sort_by(|a, b| a.0.cmp(&b.0));
        versions.insert(label, ids.into_iter().collect::<Map>());
    }
    versions.insert("Master", master);
    Ok(versions)
}

const OFFLINE: &str = "Minion offline";

/// Compares the numbers at the start of two versions.
fn label(minion: &str, master: &str) -> &'static str {
    match numbers(minion).cmp(&numbers(master)) {
        std::cmp::Ordering::Less => "Minion requires update",
        std::cmp::Ordering::Equal => "Up to date",
        std::cmp::Ordering::Greater => "Minion newer than master",
    }
}

fn numbers(version: &str) -> Vec<u64> {
    // `3008.5+saltern.0.1.0` is compared as 3008.5: what follows the plus sign is not Salt's.
    let end = version.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(version.len());
    version[..end].split('.').filter_map(|part| part.parse().ok()).collect()
}

/// Regenerates all keys. Not supported: it destroys every key of an installation at once.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run manage.key_regen
#[function]
async fn key_regen(_ctx: &RunnerContext) -> Result<Value> {
    refuse("manage.key_regen; delete keys with salt-key -D, and the minions' own keys on the minions")
}

/// Accepts keys after comparing their fingerprints over salt-ssh. Not supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run manage.safe_accept my_minion
#[function]
async fn safe_accept(_ctx: &RunnerContext, target: Value, #[default("glob")] tgt_type: String) -> Result<Value> {
    let _ = (target, tgt_type);
    refuse("manage.safe_accept (salt-ssh); compare fingerprints with salt-key -f, and accept with salt-key -a")
}

/// Installs minions over ssh. Not supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run manage.bootstrap hosts='host1,host2'
#[function]
async fn bootstrap(_ctx: &RunnerContext, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = (args, kwargs);
    refuse("manage.bootstrap (installing minions over ssh)")
}

/// Installs minions on Windows. Not supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run manage.bootstrap_psexec hosts='host1,host2'
#[function]
async fn bootstrap_psexec(_ctx: &RunnerContext, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = (args, kwargs);
    refuse("manage.bootstrap_psexec (installing minions on Windows)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        // As numbers, not as text: 3008.10 is newer than 3008.5.
        let master = "3008.5+saltern.0.1.0";
        assert_eq!(label("3008.5", master), "Up to date");
        assert_eq!(label("3008.5+saltern.0.2.0", master), "Up to date");
        assert_eq!(label("3008.10", master), "Minion newer than master");
        assert_eq!(label("3006.30", master), "Minion requires update");
    }
}
