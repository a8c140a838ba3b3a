//! Four masters that share with 9,000 minions each, and a command from one of them to all.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interop::{Daemon, Master, Program, Salt, Sandbox, measure as memory, until};
use serde_json::{Value, json};

use super::pair::{POOL_PORT, processor};
use super::{Line, seconds};

/// The masters.
const MASTERS: usize = 4;

/// The minions of each. A process may have 20,000 files open on many systems, and a minion takes two of them at its master.
const MINIONS: usize = 9_000;

/// The open files of a master: two for each minion, and some hundreds.
const FILES: u64 = (MINIONS * 2 + 1_000) as u64;

/// Keys that the minions share in turn.
const KEYS: usize = 100;

/// The longest anything may take.
const LONGEST: Duration = Duration::from_secs(400);

/// How often each of two masters pings all.
const PINGS: usize = 3;

/// Rest before processor time is measured.
const REST: Duration = Duration::from_secs(5);

/// A fleet that has started.
struct Fleet {
    masters: Vec<Master>,
    swarms: Vec<Swarm>,
}

/// The minions of one master, in a process of their own.
struct Swarm {
    process: Daemon,
    counts: PathBuf,
}

/// Starts all, and pings all from the first and from the last master.
pub fn measure(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Line>> {
    swarm::raise_open_files(FILES).context("too few open files are allowed for 9,000 minions")?;
    // Once, so that the swarms do not each make the same keys.
    swarm::KeyPool::new(keys(sandbox), 2048).take(KEYS, |_, _| {})?;
    let mut masters = start(sandbox, ours)?;
    let began = Instant::now();
    let mut swarms = Vec::new();
    for (at, master) in masters.iter().enumerate() {
        // One after the other: swarms and masters share the processors of one machine.
        let swarm = Swarm::start(sandbox, master, at)?;
        until(&format!("the minions of m{} to be ready", at + 1), LONGEST, || swarm.ready() == MINIONS)?;
        swarms.push(swarm);
    }
    let ready = began.elapsed();
    let ready_processor = masters.iter_mut().map(processor).collect::<Result<Vec<_>>>()?;
    let mut fleet = Fleet { masters, swarms };
    fleet.wait_shared()?;
    let shared = began.elapsed();
    std::thread::sleep(REST);
    let before = fleet.processors()?;
    let mut pings = Vec::new();
    for at in [0, MASTERS - 1] {
        for _ in 0..PINGS {
            pings.push(fleet.ping(at)?);
        }
    }
    let after = fleet.processors()?;
    let ping_processor: Vec<Duration> =
        after.iter().zip(&before).map(|(after, before)| (*after - *before) / pings.len() as u32).collect();
    let memory = fleet.memory()?;
    fleet.stop()?;
    pings.sort_unstable();
    let all = MASTERS * MINIONS;
    let line = |what, sharing: String| Line { what, alone: None, sharing, goal: "-", reached: true };
    let of_each = |times: &[Duration]| times.iter().map(|time| seconds(*time)).collect::<Vec<_>>().join(", ");
    let mebibytes = |bytes: &u64| format!("{:.0}", *bytes as f64 / f64::from(1 << 20));
    Ok(vec![
        line("minions that answer a command of one master, of 4 × 9,000", format!("{all}")),
        line("until all are signed in, with grains and pillar", seconds(ready)),
        line("until the first master knows the grains of all", seconds(shared)),
        line("processor time of each master until then", of_each(&ready_processor)),
        line("salt '*' test.ping, all answers printed: median", seconds(super::quantile(&pings, 0.5))),
        line("slowest", seconds(super::quantile(&pings, 1.0))),
        line("processor time of each master for one", of_each(&ping_processor)),
        line("memory (PSS) of each master, MiB", memory.iter().map(mebibytes).collect::<Vec<_>>().join(", ")),
    ])
}

/// Starts the masters and waits until each is linked with all others.
fn start(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Master>> {
    let pair = Master::make_key_pair(ours, sandbox)?;
    let mut masters: Vec<Master> = Vec::new();
    for number in 1..=MASTERS {
        let name = format!("m{number}");
        let mut built = Master::build(ours, &name).key_pair(&pair).option("id", name.as_str());
        built = built.option("auto_accept", true).option("worker_threads", 5).option("loop_interval", 60);
        built = built.option("log_level_logfile", "warning").option("cluster_id", "fleet");
        built = built.option("cluster_secret", "5b0f9a2c7e41d836a1f0c9b2e87d4365");
        let peers: Vec<String> = masters.iter().map(|master| format!("{}:{POOL_PORT}", master.address())).collect();
        masters.push(built.option("cluster_peers", json!(peers)).prepare(sandbox)?);
    }
    for master in &mut masters {
        master.launch(sandbox)?;
        master.wait_ready()?;
    }
    for master in &masters {
        until("all masters to be linked", Duration::from_secs(60), || {
            let shown = master.runner(&["saltern.masters"]).unwrap_or_default();
            let states = shown["masters"].as_object().into_iter().flatten();
            states.filter(|(_, member)| member["state"] == json!("linked")).count() == MASTERS - 1
        })?;
    }
    Ok(masters)
}

impl Swarm {
    fn start(sandbox: &Sandbox, master: &Master, at: usize) -> Result<Swarm> {
        let counts = sandbox.root().join(format!("swarm-{at}"));
        let patience = LONGEST.as_secs().to_string();
        let arguments = [
            "swarm".to_owned(),
            format!("--master={}", master.address()),
            format!("--minions={MINIONS}"),
            format!("--prefix=m{}-", at + 1),
            format!("--seed={}", at + 1),
            // A network each: an address has ports for some 14,000 minions.
            format!("--source={}/16", Ipv4Addr::new(127, at as u8 + 1, 0, 0)),
            format!("--keys={}", keys(sandbox).display()),
            format!("--key-count={KEYS}"),
            format!("--auth-timeout={patience}"),
            format!("--request-timeout={patience}"),
            // All at once, those who wait for a processor longest would be taken for connections that never introduce themselves.
            "--ramp=100".to_owned(),
            "--grains".to_owned(),
            "--lines".to_owned(),
            "--threads=1".to_owned(),
        ];
        let process = Program::new(sandbox, &Salt::saltern()?).args(arguments).start(&counts)?;
        Ok(Swarm { process, counts })
    }

    /// Returns how many of its minions have signed in and sent their grains.
    fn ready(&self) -> usize {
        last_line(&self.counts).and_then(|line| line["ready"].as_u64()).unwrap_or_default() as usize
    }
}

/// Returns the directory of the minions' keys.
fn keys(sandbox: &Sandbox) -> PathBuf {
    sandbox.root().join("swarm-keys")
}

/// Returns the last whole line of JSON of a file.
fn last_line(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

impl Fleet {
    /// Waits until the first master knows the grains of all minions: then a target by grains reaches all.
    fn wait_shared(&self) -> Result<()> {
        until("the first master to know the grains of all", LONGEST, || {
            let limit = Duration::from_secs(60);
            let salt = self.masters[0].program("salt").limit(limit);
            let asked = salt.args(["-G", "kernel:Linux", "--preview-target", "--out=json"]).run();
            let matched = asked.ok().and_then(|output| serde_json::from_str::<Value>(&output.stdout).ok());
            matched.is_some_and(|matched| matched.as_array().is_some_and(|ids| ids.len() == MASTERS * MINIONS))
        })
    }

    /// Pings all from a master with the program that a person would type.
    fn ping(&self, at: usize) -> Result<Duration> {
        let salt = self.masters[at].program("salt").limit(LONGEST);
        let output = salt.args(["*", "test.ping", "-t", "60"]).run()?.ok()?;
        let answers = output.stdout.lines().filter(|line| line.trim() == "True").count();
        ensure!(answers == MASTERS * MINIONS, "{answers} of {} minions answered m{}", MASTERS * MINIONS, at + 1);
        Ok(output.took)
    }

    fn processors(&mut self) -> Result<Vec<Duration>> {
        self.masters.iter_mut().map(processor).collect()
    }

    fn memory(&mut self) -> Result<Vec<u64>> {
        self.masters.iter_mut().map(|master| memory::pss(master.daemon()?.pid())).collect()
    }

    fn stop(self) -> Result<()> {
        for swarm in self.swarms {
            let mut process = swarm.process;
            process.terminate(Duration::from_secs(60))?;
        }
        for mut master in self.masters {
            master.daemon()?.terminate(Duration::from_secs(60))?;
        }
        Ok(())
    }
}
