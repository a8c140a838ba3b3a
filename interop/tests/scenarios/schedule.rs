//! Schedules and beacons of a minion with several masters: each fires once per minion. A return goes to one master, an
//! event to all.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, Salt, Sandbox, missing, scenario, until, until_some};
use serde_json::{Value, json};

/// A Saltern minion of both masters.
const OWN: &str = "own";
/// A Salt minion of the Salt master only.
const STOCK: &str = "stock";

const PATIENCE: Duration = Duration::from_secs(60);

struct House<'a> {
    sandbox: &'a Sandbox,
    ours: Master,
    theirs: Master,
    own: Minion,
    watched: std::path::PathBuf,
}

#[test]
fn jobs_and_beacons_fire_once_per_minion() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("schedules and beacons with two masters", |sandbox| {
        let (ours, real) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let pair = Master::make_key_pair(&real, sandbox)?;
        let start = |salt: &Salt, name: &str| {
            Master::build(salt, name).option("auto_accept", true).key_pair(&pair).start(sandbox)
        };
        let (ours_master, theirs) = (start(&ours, "m0")?, start(&real, "m1")?);
        let watched = sandbox.folder("watched")?;
        let beacons = json!({"inotify": [{"files": {watched.display().to_string(): {"mask": ["create"]}}}]});
        let own = Minion::build(&ours, OWN).masters([&ours_master, &theirs]).option("schedule", jobs(sandbox.root()));
        let own = own.option("beacons", beacons).start(sandbox)?;
        ours_master.wait_answering(&[OWN])?;
        theirs.wait_answering(&[OWN])?;
        let mut house = House { sandbox, ours: ours_master, theirs, own, watched };
        let mut checks = Checks::new();
        checks.check("a job fires once each time and returns to one master", || fires_once(&house));
        checks.check("each master hears of a beacon once", || is_heard_once(&house));
        checks.check("a job that was added survives a restart", || survives(&mut house));
        checks.check("the list reads as that of the real minion", || reads_alike(&house, &real));
        checks.finish()
    });
}

fn jobs(root: &Path) -> Value {
    let line = format!("date +%s.%N >> {}", root.join("runs").display());
    json!({
        "beat": {"function": "cmd.run", "args": [line], "seconds": 2},
        // Does not run before the next New Year. It is only there to be listed.
        "later": {"function": "test.ping", "cron": "0 0 1 1 *", "splay": 5, "maxrunning": 3, "return_job": false},
    })
}

fn runs(house: &House) -> Vec<f64> {
    let text = fs::read_to_string(house.sandbox.root().join("runs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Returns the scheduled jobs of our minion that a master has stored.
fn filed(master: &Master) -> Result<Vec<String>> {
    let jobs = master.runner(&["jobs.list_jobs", "search_function=cmd.run"])?;
    let jobs = jobs.as_object().context("a map of jobs")?;
    Ok(jobs.iter().filter(|(_, job)| job["Target"] == OWN).map(|(jid, _)| jid.clone()).collect())
}

fn fires_once(house: &House) -> Result<()> {
    until("six runs", PATIENCE, || runs(house).len() >= 6)?;
    let times = runs(house);
    let apart: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // One run per master would show as pairs of runs close together.
    ensure!(apart.iter().all(|seconds| *seconds > 1.0), "runs follow each other after {apart:?} seconds");
    let filed_here =
        until_some("the returns of the runs", PATIENCE, || filed(&house.ours).ok().filter(|jids| jids.len() >= 6))?;
    let filed_there = filed(&house.theirs)?;
    ensure!(filed_there.is_empty(), "the second master has {filed_there:?} too");
    let looked_up = house.ours.runner(&["jobs.lookup_jid", &filed_here[0]])?;
    ensure!(looked_up.get(OWN).is_some(), "the return of {} reads {looked_up}", filed_here[0]);
    Ok(())
}

fn is_heard_once(house: &House) -> Result<()> {
    let masters = [&house.ours, &house.theirs];
    let watch = |master: &&Master| {
        let program = master.program("salt-run").args(["state.event", "salt/beacon/*", "count=100000", "pretty=False"]);
        program.env("PYTHONUNBUFFERED", "1").start(&master.root().join("beacons"))
    };
    let watching: Vec<_> = masters.iter().map(watch).collect::<Result<_>>()?;
    let mut number = 0;
    // Nothing shows when a watcher has subscribed, so files are created until all have received an event.
    until("each watcher to listen", PATIENCE, || {
        number += 1;
        fs::write(house.watched.join(format!("probe{number}")), "").is_ok()
            && watching.iter().all(|daemon| daemon.printed().contains("/probe"))
    })?;
    fs::write(house.watched.join("file"), "")?;
    let heard = |daemon: &interop::Daemon| daemon.printed().matches("watched/file\"").count();
    until("the event at each master", PATIENCE, || watching.iter().all(|daemon| heard(daemon) >= 1))?;
    let counts: Vec<usize> = watching.iter().map(heard).collect();
    ensure!(counts == [1, 1], "the event was heard {counts:?} times");
    let printed = watching[0].printed();
    let tag = format!("salt/beacon/{OWN}/inotify/{}", house.watched.display());
    ensure!(printed.contains(&tag) && printed.contains("IN_CREATE"), "{printed}");
    Ok(())
}

fn survives(house: &mut House) -> Result<()> {
    let added = house.ours.ask(OWN, &["schedule.add", "nightly", "function=test.ping", "hours=5"])?;
    ensure!(
        added == json!({"comment": "Added job: nightly to schedule.", "result": true, "changes": {"nightly": "added"}}),
        "{added}"
    );
    let file = house.own.conf().join("minion.d/_schedule.conf");
    let saved = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    ensure!(saved.contains("nightly:"), "{saved}");
    house.own.daemon()?.terminate(PATIENCE)?;
    house.own.launch(house.sandbox)?;
    house.ours.wait_answering(&[OWN])?;
    let listed = house.ours.ask(OWN, &["schedule.list"])?;
    let listed = listed.as_str().context("text")?;
    ensure!(listed.contains("nightly:") && listed.contains("saved: true"), "{listed}");
    let deleted = house.ours.ask(OWN, &["schedule.delete", "nightly"])?;
    ensure!(deleted["result"] == true, "{deleted}");
    Ok(())
}

fn reads_alike(house: &House, real: &Salt) -> Result<()> {
    let stock = Minion::build(real, STOCK).master(&house.theirs).option("schedule", jobs(house.sandbox.root()));
    let _stock = stock.start(house.sandbox)?;
    house.theirs.wait_answering(&[OWN, STOCK])?;
    // Saved on both, so that both lists say `saved: true`.
    for id in [OWN, STOCK] {
        house.theirs.ask(id, &["schedule.save"])?;
    }
    let list = |id: &str| house.theirs.ask(id, &["schedule.list"]);
    until("both to have run the job", PATIENCE, || {
        [OWN, STOCK]
            .iter()
            .all(|id| list(id).is_ok_and(|text| text.as_str().is_some_and(|text| text.contains("jid_include"))))
    })?;
    let (own, stock) = (list(OWN)?, list(STOCK)?);
    ensure!(
        own == stock,
        "ours:\n{}\ntheirs:\n{}",
        own.as_str().unwrap_or_default(),
        stock.as_str().unwrap_or_default()
    );
    Ok(())
}
