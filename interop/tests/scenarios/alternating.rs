//! Two hot masters that command the same minions in turn, with long and short jobs and a schedule in parallel.
//!
//! In Salt 0.17 a master got no more returns once another one had run a highstate, and its log filled with "job id … is
//! not present in the local cache". This test compresses hours of that into a few minutes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Sandbox, missing, scenario, until};
use serde_json::{Value, json};

const ROUNDS: usize = 60;
const OURS: &str = "ours";
const THEIRS: &str = "theirs";

#[test]
fn masters_take_turns_for_hours_and_each_gets_its_returns() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("masters in turn", |sandbox| {
        let (ours, real) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let masters = masters(sandbox, &ours)?;
        let _own = Minion::build(&ours, OURS).masters(&masters).start(sandbox)?;
        // Only the stock minion has the schedule: its returns go to both masters and must not be taken for those of
        // jobs.
        let schedule = json!({"beat": {"function": "test.echo", "args": ["beat"], "seconds": 1}});
        let scheduled = Minion::build(&real, THEIRS).option("schedule", schedule).option("mine_enabled", false);
        let _stock = scheduled.masters(&masters).start(sandbox)?;
        masters.iter().try_for_each(|master| master.wait_answering(&[OURS, THEIRS]))?;
        for round in 0..ROUNDS {
            let (first, second) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
            take_turns(&masters[first], &masters[second], round)?;
        }
        masters.iter().try_for_each(scheduled_returns)?;
        masters.iter().try_for_each(no_complaint)
    });
}

fn masters(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Master>> {
    let pair = Master::make_key_pair(ours, sandbox)?;
    let build = |name: &str| Master::build(ours, name).key_pair(&pair).option("auto_accept", true).start(sandbox);
    ["m1", "m2"].iter().map(|name| build(name)).collect()
}

/// One master starts a long job and the other one sends jobs during it. Both get their own returns and can read them
/// later.
fn take_turns(long: &Master, short: &Master, round: usize) -> Result<()> {
    let command = format!("sleep 0.2; echo long {round}");
    let jid = long.send(&["-L", &format!("{OURS},{THEIRS}"), "cmd.run", &command, "python_shell=True"])?;
    let answer = short.ask(OURS, &["test.echo", &format!("short {round}")])?;
    ensure!(answer == json!(format!("short {round}")), "round {round}: the short job gave {answer}");
    let wanted = [(OURS, round), (THEIRS, round)].map(|(id, round)| (id, json!(format!("long {round}"))));
    let mut found = Value::Null;
    let whole = until(&format!("the returns of round {round}"), Duration::from_secs(30), || {
        found = long.runner(&["jobs.lookup_jid", &jid]).unwrap_or_default();
        wanted.iter().all(|(id, value)| found.get(id) == Some(value))
    });
    whole.with_context(|| format!("{} has {found}", long.name()))?;
    // A return belongs to its publisher only: a minion that sent it to every master would make foreign jobs appear
    // everywhere.
    let strange = short.runner(&["jobs.lookup_jid", &jid])?;
    ensure!(strange == json!({}), "{} has returns of a job that {} published: {strange}", short.name(), long.name());
    Ok(())
}

/// Each master has the returns of scheduled jobs.
fn scheduled_returns(master: &Master) -> Result<()> {
    let jobs = master.runner(&["jobs.list_jobs", "search_function=test.echo", "search_target=theirs"])?;
    let count = jobs.as_object().map_or(0, serde_json::Map::len);
    ensure!(count >= 5, "{} has {count} scheduled runs: {jobs}", master.name());
    Ok(())
}

fn no_complaint(master: &Master) -> Result<()> {
    let log = master.log();
    let complaint = log.lines().find(|line| line.contains("not present in") || line.contains("Traceback"));
    ensure!(complaint.is_none(), "{} complains: {complaint:?}", master.name());
    Ok(())
}
