//! `salt-call` beside a running minion: the minion lists it as running, and the master stores its return.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use interop::{Master, Minion, Salt, missing, scenario, until};
use serde_json::{Value, json};

/// The release of Salt that must behave alike.
const LINE: &str = "3008.5";

#[test]
fn a_call_is_among_the_running_and_the_finished_jobs() {
    if missing(&[LINE]) {
        return;
    }
    for salt in [Salt::real(LINE), Salt::ours().ok()].into_iter().flatten() {
        scenario(&format!("salt-call beside a minion, {}", salt.name()), |sandbox| {
            let master = Master::build(&salt, "m").option("auto_accept", true).start(sandbox)?;
            let minion = Minion::build(&salt, "beside").master(&master).start(sandbox)?;
            master.wait_answering(&["beside"])?;
            let call = minion.program("salt-call").args(["test.sleep", "25"]);
            let mut call = call.start(&minion.root().join("call.out"))?;
            let of_call =
                |job: &Value| job["fun"] == "test.sleep" && job["tgt"] == "salt-call" && job["pid"].is_number();
            until("the call to be among the running jobs", Duration::from_secs(60), || {
                let running = master.ask("beside", &["saltutil.running"]).unwrap_or_default();
                running.as_array().is_some_and(|jobs| jobs.iter().any(of_call))
            })?;
            let active = master.runner(&["jobs.active"])?;
            let of_call = |job: &Value| job["Function"] == "test.sleep" && job["Running"][0]["beside"].is_number();
            ensure!(active.as_object().is_some_and(|jobs| jobs.values().any(of_call)), "jobs.active: {active}");
            ensure!(call.wait(Duration::from_secs(120))? == 0, "{}", call.printed());
            let running = master.ask("beside", &["saltutil.running"])?;
            ensure!(running == json!([]), "it is still among the running jobs: {running}");
            let jobs = master.runner(&["jobs.list_jobs", "search_function=test.sleep"])?;
            let job = jobs.as_object().and_then(|jobs| jobs.values().next()).context("the job is not listed")?;
            ensure!(job["Target"] == "beside" && job["Target-type"] == "glob", "{job}");
            ensure!(job["Arguments"] == json!(["25"]), "{job}");
            Ok(())
        });
    }
}
