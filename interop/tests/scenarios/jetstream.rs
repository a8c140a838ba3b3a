//! Two masters of Saltern whose leases JetStream grants: what the set does once is done by one of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{
    Daemon, Master, MasterBuilder, Minion, Program, Salt, Sandbox, nats_server_or_skip, scenario, until, until_some,
};
use serde_json::{Value, json};

use crate::sharing::{member, wait_linked};

/// How long things may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The port of the servers.
const PORT: u16 = 4222;

/// The name of the entry of the schedule.
const BEAT: &str = "beat";

struct Server<'a> {
    sandbox: &'a Sandbox,
    program: PathBuf,
    address: String,
    daemon: Option<Daemon>,
}

impl<'a> Server<'a> {
    fn start(sandbox: &'a Sandbox, program: &Path) -> Result<Server<'a>> {
        let address = sandbox.address(&[PORT]).to_string();
        let mut server = Server { sandbox, program: program.to_owned(), address, daemon: None };
        server.begin()?;
        Ok(server)
    }

    fn begin(&mut self) -> Result<()> {
        let store = self.sandbox.root().join("jetstream");
        let (port, store) = (PORT.to_string(), store.display().to_string());
        let program = Program::new(self.sandbox, &self.program);
        let program = program.args(["-a", &self.address, "-p", &port, "-js", "-sd", &store]);
        self.daemon = Some(program.start(&self.sandbox.root().join("nats-server.out"))?);
        Ok(())
    }

    fn url(&self) -> String {
        format!("nats://{}:{PORT}", self.address)
    }
}

/// A master that notes each run of its schedule, with its name, in one file.
fn beating(ours: &Salt, name: &str, pair: &Path, server: &Server, runs: &Path) -> MasterBuilder {
    let line = format!("echo {name} >> {}", runs.display());
    let beat = json!({ "function": "salt.cmd", "args": ["cmd.shell", line], "seconds": 2 });
    member(ours, name, pair).option("cluster_bus", server.url()).option("schedule", json!({ BEAT: beat }))
}

/// Returns the names in the file of runs, without repetitions beside each other.
fn turns(runs: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(runs).unwrap_or_default();
    let mut turns: Vec<String> = text.lines().map(str::to_owned).collect();
    turns.dedup();
    turns
}

fn count(runs: &Path, name: &str) -> usize {
    let text = std::fs::read_to_string(runs).unwrap_or_default();
    text.lines().filter(|line| *line == name).count()
}

fn lease(master: &Master) -> Option<Value> {
    let shown = master.runner(&["saltern.leases"]).ok()?;
    (shown["mode"] == json!("jetstream")).then(|| shown["duties"][BEAT].clone())
}

fn once(master: &Master) -> String {
    master.runner(&["saltern.masters"]).map(|shown| shown["once"].to_string()).unwrap_or_default()
}

#[test]
fn a_schedule_runs_on_the_master_to_which_jetstream_grants_it() {
    let Some(program) = nats_server_or_skip() else { return };
    scenario("a schedule runs on the master to which JetStream grants it", |sandbox| {
        let ours = Salt::ours()?;
        let mut server = Server::start(sandbox, &program)?;
        let (pair, runs) = (Master::make_key_pair(&ours, sandbox)?, sandbox.root().join("runs"));
        let build = |name: &str| beating(&ours, name, &pair, &server, &runs);
        let one = build("m1").start(sandbox)?;
        let two = build("m2").start(sandbox)?;
        wait_linked(&one, "m2")?;
        wait_linked(&two, "m1")?;
        let mut masters = [one, two];

        until("the schedule to run", PATIENCE, || count(&runs, "m1") + count(&runs, "m2") >= 3)?;
        let first = turns(&runs);
        ensure!(first.len() == 1, "both run it: {first:?}");
        let holder = usize::from(first[0] == "m2");
        let (name, other) = if holder == 0 { ("m1", "m2") } else { ("m2", "m1") };
        let said = once(&masters[0]);
        ensure!(said.contains("JetStream"), "saltern.masters says {said}");
        until_some("the other master to know the holder", PATIENCE, || {
            let [held, known] = [holder, 1 - holder].map(|place| lease(&masters[place]).unwrap_or_default());
            let is_known = held["held"] == json!(true) && known["held"] == json!(false);
            (is_known && known["holder"].as_str()?.starts_with(name)).then_some(())
        })?;

        // The holder dies without a word.
        masters[holder].daemon()?.kill();
        until("the other master to run it", PATIENCE, || count(&runs, other) >= 2)?;
        ensure!(turns(&runs) == [name, other], "{:?}", turns(&runs));

        // Nobody runs anything while the server is gone, and operators see why.
        server.daemon.as_mut().context("it runs")?.kill();
        until("the lease to be lost", PATIENCE, || {
            lease(&masters[1 - holder]).is_some_and(|lease| lease["held"] == json!(false))
        })?;
        until("operators to see it", PATIENCE, || once(&masters[1 - holder]).contains("no quorum"))?;
        let before = count(&runs, other);
        masters[holder].launch(sandbox)?;
        masters[holder].wait_ready()?;
        until("the new one to say so, too", PATIENCE, || once(&masters[holder]).contains("no quorum"))?;
        ensure!(count(&runs, other) == before, "it runs without a lease");
        let all = count(&runs, "m1") + count(&runs, "m2");
        server.begin()?;
        until("it to run again", PATIENCE, || count(&runs, "m1") + count(&runs, "m2") > all + 1)?;

        // Who stops gives the lease back.
        let seen = turns(&runs);
        let last = usize::from(seen.last().is_some_and(|last| last == "m2"));
        masters[last].daemon()?.terminate(PATIENCE)?;
        until("the other one to run it", PATIENCE, || turns(&runs).len() > seen.len())?;
        Ok(())
    });
}

/// Returns how often a master has said that a decision about a key is kept.
fn kept(master: &Master, id: &str) -> usize {
    let (log, key) = (master.log(), format!("keys {id}"));
    log.lines().filter(|line| line.contains("JetStream keeps what was decided about") && line.contains(&key)).count()
}

#[test]
fn an_empty_master_that_meets_nobody_reads_accepted_keys_from_jetstream() {
    let Some(program) = nats_server_or_skip() else { return };
    scenario("an empty master that meets nobody reads accepted keys from JetStream", |sandbox| {
        let ours = Salt::ours()?;
        let server = Server::start(sandbox, &program)?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let build = |name: &str| {
            let master = member(&ours, name, &pair).option("cluster_bus", server.url());
            master.option("log_level_logfile", "debug")
        };
        let mut one = build("m1").start(sandbox)?;
        let ids = ["web1", "web2", "web3"];
        let start = |id: &str| Minion::build(&ours, id).master(&one).start(sandbox);
        let mut minions = vec![start(ids[0])?, start(ids[1])?];
        one.accept(&ids[..2])?;
        // Later: accepting takes all keys that are pending.
        minions.push(start(ids[2])?);
        one.wait_answering(&ids[..2])?;
        one.program("salt-key").args(["-r", "web2", "--include-accepted", "-y"]).run()?.ok()?;
        until("the rejection to be decided", PATIENCE, || {
            one.runner(&["saltern.decisions", "about=web2"]).is_ok_and(|shown| shown.to_string().contains("rejected"))
        })?;
        until("the third key to be kept", PATIENCE, || kept(&one, "web3") > 0)?;
        // What is decided later is not kept earlier.
        let before = kept(&one, "web3");
        one.accept(&ids[2..])?;
        until("its acceptance to be kept", PATIENCE, || kept(&one, "web3") > before)?;
        let accepted = std::fs::read(one.pki().join("minions/web1"))?;
        one.daemon()?.terminate(PATIENCE)?;

        let two = build("m2").start(sandbox)?;
        let path = two.pki().join("minions/web1");
        until("the accepted key to be there", PATIENCE, || path.exists())?;
        ensure!(std::fs::read(&path)? == accepted, "it is another key");
        until("the rejected key to be there", PATIENCE, || two.pki().join("minions_rejected/web2").exists())?;
        let masters = two.runner(&["saltern.masters"])?;
        ensure!(masters["masters"]["m1"]["state"] == json!("away"), "{masters}");

        // Who had made the decisions is back, and the two are one set.
        one.launch(sandbox)?;
        one.wait_ready()?;
        wait_linked(&one, "m2")?;
        two.program("salt-key").args(["-d", "web1", "-y"]).run()?.ok()?;
        until("the deletion to count on both", PATIENCE, || !one.pki().join("minions/web1").exists())?;
        Ok(())
    });
}
