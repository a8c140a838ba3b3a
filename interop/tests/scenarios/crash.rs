//! `kill -9` of a master during a thousand returns: every acknowledged return is on disk after the restart.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Daemon, Master, Salt, missing, scenario, until};
use serde_json::{Value, json};

const RETURNS: usize = 1000;
/// The number of acknowledged returns at which the master is killed.
const SURE: usize = 400;

#[test]
fn acknowledged_returns_survive_kill_9_in_one_file() {
    // Each look-up is a separate program, so only every ninth and the last one are checked.
    acknowledged_survive("embedded", |master, _, sure| {
        sure.iter().rev().step_by(9).try_for_each(|jid| looked_up(master, jid))
    });
}

#[test]
fn acknowledged_returns_survive_kill_9_in_salts_layout() {
    acknowledged_survive("local_cache", |master, real, sure| {
        let stored = master.python(real, "read_jobs.py", &["fake"])?.ok()?.json()?;
        let lost: Vec<_> =
            sure.iter().filter(|jid| stored[jid.as_str()] != json!(format!("return of {jid}"))).collect();
        ensure!(lost.is_empty(), "{} of {} acknowledged returns are lost: {lost:?}", lost.len(), sure.len());
        sure.iter().rev().take(5).try_for_each(|jid| looked_up(master, jid))
    });
}

fn acknowledged_survive(store: &str, check: impl Fn(&Master, &Salt, &[String]) -> Result<()>) {
    if missing(&["3008.5"]) {
        return;
    }
    scenario(&format!("kill -9 among returns, {store}"), |sandbox| {
        let real = Salt::real("3008.5").context("checked above")?;
        let master = Master::build(&Salt::ours()?, "m").option("auto_accept", true);
        let mut master = master.option("master_job_cache", store).start(sandbox)?;
        let program = master.python_program(&real, "returns.py", &[&RETURNS.to_string()])?;
        let mut sender = program.start(&sandbox.root().join("acknowledged.out"))?;
        until("enough returns to be acknowledged", Duration::from_secs(120), || acknowledged(&sender).len() >= SURE)
            .with_context(|| sender.printed())?;
        // The sender has several requests in flight, so some returns are stored and not acknowledged. Only the reverse
        // would be wrong.
        master.daemon()?.kill();
        sender.wait(Duration::from_secs(30))?;
        let sure = acknowledged(&sender);
        // Otherwise the test would show nothing: no return was in flight at the kill.
        ensure!(sure.len() < RETURNS, "the master was killed too late: all {RETURNS} returns were acknowledged");
        println!("  {} of {RETURNS} returns were acknowledged before the end", sure.len());

        master.launch(sandbox)?;
        master.wait_ready()?;
        check(&master, &real, &sure)
    });
}

fn acknowledged(sender: &Daemon) -> Vec<String> {
    let printed = sender.printed();
    // A line without its end may be half a job id.
    let whole = printed.rsplit_once('\n').map_or("", |(lines, _)| lines);
    whole.lines().filter(|line| line.len() == 20).map(str::to_owned).collect()
}

fn looked_up(master: &Master, jid: &str) -> Result<()> {
    let found: Value = master.runner(&["jobs.lookup_jid", jid])?;
    ensure!(found == json!({"fake": format!("return of {jid}")}), "jobs.lookup_jid {jid} gives {found}");
    Ok(())
}
