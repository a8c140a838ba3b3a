//! `saltern swarm`: many minions in one process, with a Saltern and a real master.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Daemon, Master, Program, Salt, Sandbox, Transport, missing, scenario, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const MINIONS: u64 = 50;

/// Size of the file that each minion fetches, in bytes.
const FILE: usize = 100_000;

/// The time limit for anything on a busy machine.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_swarm_at_our_master_over_zeromq() {
    scenario("a swarm at our master over zeromq", |sandbox| all(sandbox, &Salt::ours()?, Transport::Zeromq));
}

#[test]
fn a_swarm_at_our_master_over_tcp() {
    scenario("a swarm at our master over tcp", |sandbox| all(sandbox, &Salt::ours()?, Transport::Tcp));
}

#[test]
fn a_swarm_at_the_real_master_over_zeromq() {
    real(Transport::Zeromq);
}

#[test]
fn a_swarm_at_the_real_master_over_tcp() {
    real(Transport::Tcp);
}

fn real(transport: Transport) {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("a swarm at the real master", |sandbox| {
        all(sandbox, &Salt::real("3008.5").context("checked above")?, transport)
    });
}

fn all(sandbox: &Sandbox, salt: &Salt, transport: Transport) -> Result<()> {
    let mut master = Master::build(salt, "m").transport(transport).start(sandbox)?;
    master.serve("app.bin", &vec![7; FILE])?;
    let mut checks = Checks::new();
    checks.check("a calm swarm signs in, answers, and counts it", || calm(sandbox, &mut master));
    checks.check("a swarm publishes jobs and times them from there", || publishing(sandbox, &mut master));
    checks.check("a rough swarm survives itself", || rough(sandbox, &mut master));
    checks.finish()
}

/// A running swarm, and its output files.
struct Swarm {
    daemon: Daemon,
    lines: PathBuf,
    report: PathBuf,
}

impl Swarm {
    /// Starts a swarm whose keys the master has already accepted.
    fn start(sandbox: &Sandbox, master: &mut Master, name: &str, args: &[&str]) -> Result<Self> {
        let (lines, report) =
            (sandbox.root().join(format!("{name}.lines")), sandbox.root().join(format!("{name}.json")));
        let watched = master.daemon()?.pid().to_string();
        let (address, minions) = (master.address().to_string(), MINIONS.to_string());
        let program = Program::new(sandbox, &Salt::saltern()?).args(["swarm", "--master", &address, "-n", &minions]);
        let program = program.args(["--key-count", "20", "--transport", master.transport().name(), "--lines"]);
        let program = program.args(["--prefix", name, "--watch-pid", &watched]).args(args);
        // A real master stops answering over tcp if dozens of minions start at once.
        let slowly = master.transport() == Transport::Tcp && !master.salt().is_ours();
        let program = program.args(if slowly { &["--ramp", "5"][..] } else { &[] });
        let program = program.arg_dir("--keys", &keys(sandbox)).arg_dir("--place-keys", &master.pki());
        Ok(Swarm { daemon: program.arg_dir("--report", &report).start(&lines)?, lines, report })
    }

    /// Returns the latest line it printed.
    fn latest(&self) -> Value {
        let text = fs::read_to_string(&self.lines).unwrap_or_default();
        let line = text.lines().rfind(|line| line.starts_with('{'));
        line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }

    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let waited = until(&format!("the swarm: {what}"), LONG, || holds(&self.latest()));
        waited.with_context(|| format!("the swarm said: {}", self.daemon.printed()))
    }

    /// Ends it and reads its report.
    fn end(mut self) -> Result<Value> {
        self.daemon.signal(Signal::SIGTERM)?;
        let code = self.daemon.wait(LONG)?;
        ensure!(code == 0, "the swarm ended with {code}: {}", self.daemon.printed());
        read(&self.report)
    }
}

/// Returns the directory of keys, which all swarms of a sandbox share.
fn keys(sandbox: &Sandbox) -> PathBuf {
    sandbox.root().join("swarm-keys")
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Returns the entry of a report for a kind of request.
fn request<'a>(report: &'a Value, kind: &str) -> Result<&'a Value> {
    let all = report["requests"].as_array().context("no requests")?;
    all.iter().find(|request| request["request"] == kind).with_context(|| format!("no {kind} in {report}"))
}

fn calm(sandbox: &Sandbox, master: &mut Master) -> Result<()> {
    let swarm = Swarm::start(sandbox, master, "calm-", &["--grains", "--files", "app.bin", "--return-delay", "1..50"])?;
    swarm.until("all are ready", |line| line["ready"] == MINIONS)?;
    let pings = master.command(&["calm-*", "test.ping"])?;
    ensure!(pings.len() == MINIONS as usize && pings.values().all(|said| *said == true), "{pings:?}");
    let group = master.command(&["-G", "swarm_group:3", "grains.item", "swarm_group"])?;
    ensure!(group.len() == 5 && group.values().all(|said| said["swarm_group"] == 3), "{group:?}");
    let state = master.salt_run(&["calm-00007", "state.apply"])?.ok()?;
    // The default return size gives twenty invented states, which Salt's outputter must be able to print.
    ensure!(state.stdout.contains("Succeeded: 20"), "{state}");
    ensure!(master.ask("calm-00009", &["test.echo", "grüße"])? == json!("grüße"), "another echo");
    let report = swarm.end()?;
    let counts = &report["counts"];
    ensure!(counts["signed_in"] == MINIONS && counts["connected"] == MINIONS, "{counts}");
    // A real master answers some requests with an error while its workers start.
    ensure!(counts["errors"] == 0 || !master.salt().is_ours(), "{}", report["errors"]);
    ensure!(report["sign_in"]["all_after_seconds"].as_f64().is_some_and(|time| time > 0.0), "{report}");
    ensure!(request(&report, "pillar")?["took"]["count"] == MINIONS, "{report}");
    ensure!(request(&report, "file_chunk")?["bytes"] == MINIONS * FILE as u64, "{report}");
    let ping = &report["jobs"][0];
    ensure!(ping["fun"] == "test.ping" && ping["meant"] == MINIONS, "{ping}");
    let times = &ping["since_first"];
    ensure!(times["count"] == MINIONS && times["p50"].as_f64() <= times["p99"].as_f64(), "{ping}");
    let watched = &report["watched"]["peak"];
    for what in ["processes", "rss_bytes", "files", "threads"] {
        ensure!(watched[what].as_u64().is_some_and(|count| count > 0), "{what} in {watched}");
    }
    Ok(())
}

fn publishing(sandbox: &Sandbox, master: &mut Master) -> Result<()> {
    let conf = master.conf().display().to_string();
    let args = ["--publish", "state.highstate", "--publish-every", "0.5", "-c", &conf, "--return-size", "5000"];
    let swarm = Swarm::start(sandbox, master, "own-", &args)?;
    swarm.until("all return two jobs", |line| line["returns"].as_u64() >= Some(2 * MINIONS))?;
    let report = swarm.end()?;
    let job = &report["jobs"][0];
    let [heard, published] = ["since_first", "since_published"].map(|since| &job[since]);
    ensure!(job["fun"] == "state.highstate" && published["count"] == MINIONS, "{job}");
    // Counted from the publication, all times are longer than from the first receipt.
    ensure!(published["least"].as_f64() > heard["least"].as_f64(), "{job}");
    ensure!(published["most"].as_f64() > published["p50"].as_f64(), "{job}");
    Ok(())
}

/// Tests minions that sign in again, leave and return, lose messages, and are slow.
fn rough(sandbox: &Sandbox, master: &mut Master) -> Result<()> {
    let args =
        ["--reauth", "2", "--churn", "5", "--away", "100..500", "--loss", "20", "--slow", "10", "--slow-by", "300"];
    let swarm = Swarm::start(sandbox, master, "rough-", &args)?;
    swarm.until("all have signed in", |line| line["signed_in"] == MINIONS)?;
    // In each round some minions are away or lose the job. What counts is that returns keep coming.
    let jobs = std::cell::Cell::new(0);
    swarm.until("returns come and minions sign in again", |line| {
        jobs.set(jobs.get() + u32::from(master.send(&["rough-*", "test.ping"]).is_ok()));
        jobs.get() >= 5 && line["returns"].as_u64() > Some(2 * MINIONS) && line["sign_ins"].as_u64() > Some(2 * MINIONS)
    })?;
    let report = swarm.end()?;
    let errors = report["errors"].as_array().context("no errors")?;
    let of = |request: &str| {
        let lost = |error: &&Value| error["request"] == request && error["kind"] == "lost_on_purpose";
        errors.iter().find(lost).map_or(0, |error| error["count"].as_u64().unwrap_or(0))
    };
    ensure!(of("publication") > 0 && of("return") > 0, "{errors:?}");
    // Lost messages and timeouts are the purpose of this swarm. These failures would be mistakes of master or minion.
    let wrong = ["malformed", "algorithm", "distrust", "crypto", "rejected", "pending"];
    let wrong: Vec<&Value> = errors.iter().filter(|error| wrong.iter().any(|kind| error["kind"] == *kind)).collect();
    ensure!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}
