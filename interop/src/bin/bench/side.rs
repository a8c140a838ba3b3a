//! One side: three masters, a minion of all three, and the measured samples.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Sandbox, measure, until};
use serde_json::json;

use crate::local;

const MASTERS: usize = 3;
const READY: &str = "Minion is ready to receive requests!";
const STOP: Duration = Duration::from_secs(60);

/// The measured values: milliseconds, MiB, or MiB per second.
#[derive(Default)]
pub struct Samples {
    pub ping: Vec<f64>,
    pub master_start: Vec<f64>,
    pub minion_start: Vec<f64>,
    pub master_memory: Vec<f64>,
    pub minion_memory: Vec<f64>,
    pub python: Vec<f64>,
    pub rust: Vec<f64>,
    pub fetch: Vec<f64>,
    pub master_stop: Vec<f64>,
    pub minion_stop: Vec<f64>,
}

/// Three masters and their minion.
pub struct Side {
    name: String,
    id: String,
    masters: Vec<Master>,
    minion: Minion,
    pub samples: Samples,
}

impl Side {
    /// Writes the folders; keys are made and accepted by a first start that is not measured.
    pub fn new(sandbox: &Sandbox, salt: &Salt, short: &str) -> Result<Self> {
        let pair = Master::make_key_pair(salt, sandbox)?;
        let master = |number: usize| {
            // As installed, except for the addresses and `auto_accept`.
            let built = Master::build(salt, &format!("{short}-m{number}")).key_pair(&pair).option("auto_accept", true);
            built.option("worker_threads", 5).option("loop_interval", 60).prepare(sandbox)
        };
        let masters = (1..=MASTERS).map(master).collect::<Result<Vec<_>>>()?;
        let id = format!("{short}-minion");
        let minion = Minion::build(salt, &id).masters(&masters).prepare(sandbox)?;
        let mut side = Self { name: salt.name().to_owned(), id, masters, minion, samples: Samples::default() };
        side.start(sandbox)?;
        side.stop()?;
        side.samples = Samples::default();
        Ok(side)
    }

    /// Name of the installation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts the masters and the minion, and notes how long each takes to be ready.
    pub fn start(&mut self, sandbox: &Sandbox) -> Result<()> {
        for master in &mut self.masters {
            let begin = Instant::now();
            master.launch(sandbox)?;
            master.wait_ready()?;
            self.samples.master_start.push(milliseconds(begin.elapsed()));
        }
        // The lines of the last turn would count as readiness of this one.
        let _ = fs::remove_file(self.minion.root().join("minion.log"));
        let begin = Instant::now();
        self.minion.launch(sandbox)?;
        let minion = &self.minion;
        // One line per master.
        until("the minion to be ready for all masters", Duration::from_secs(120), || {
            minion.log().matches(READY).count() >= MASTERS
        })?;
        self.samples.minion_start.push(milliseconds(begin.elapsed()));
        self.masters.iter().try_for_each(|master| master.wait_answering(&[&self.id]))
    }

    /// Lets everything rest and notes the memory of a master's and the minion's process tree.
    pub fn rest(&mut self, time: Duration) -> Result<()> {
        std::thread::sleep(time);
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        self.samples.master_memory.push(mebibytes(measure::pss(self.masters[0].daemon()?.pid())?));
        self.samples.minion_memory.push(mebibytes(measure::pss(self.minion.daemon()?.pid())?));
        Ok(())
    }

    /// Ends the minion and the masters, and notes how long each takes.
    pub fn stop(&mut self) -> Result<()> {
        self.samples.minion_stop.push(milliseconds(self.minion.daemon()?.terminate(STOP)?));
        for master in &mut self.masters {
            self.samples.master_stop.push(milliseconds(master.daemon()?.terminate(STOP)?));
        }
        Ok(())
    }

    /// Runs `salt '*' test.ping` once.
    pub fn ping(&mut self) -> Result<()> {
        let output = self.masters[0].program("salt").args(["*", "test.ping"]).run()?.ok()?;
        ensure!(output.stdout.contains(&self.id), "no answer in {output}");
        self.samples.ping.push(milliseconds(output.took));
        Ok(())
    }

    /// Measures jobs inside a Python process that uses LocalClient.
    pub fn in_process_python(&mut self, real: &Salt, jobs: usize) -> Result<()> {
        let output = self.masters[0].python(real, "publish.py", &[&self.id, &jobs.to_string()])?.ok()?;
        let seconds: Vec<f64> = serde_json::from_value(output.json()?).context("expected a list of seconds")?;
        self.samples.python = seconds.into_iter().map(|seconds| seconds * 1000.0).collect();
        Ok(())
    }

    /// Measures jobs inside this process with our client.
    pub fn in_process_rust(&mut self, jobs: usize) -> Result<()> {
        let took = local::jobs(&self.masters[0].conf().join("master"), &self.id, jobs)?;
        self.samples.rust = took.into_iter().map(milliseconds).collect();
        Ok(())
    }

    /// The side's own client in process: ours in Rust, theirs in Python.
    pub fn in_process(&self) -> &Vec<f64> {
        if self.samples.rust.is_empty() { &self.samples.python } else { &self.samples.rust }
    }

    /// Fetches a file of `size` random bytes with `cp.get_file`.
    pub fn fetch(&mut self, size: usize, number: usize) -> Result<()> {
        let master = &self.masters[0];
        // A new name each time, so that no cache of either side helps.
        let name = format!("big-{number}.bin");
        let mut bytes = vec![0; size];
        rand::fill(bytes.as_mut_slice());
        master.serve(&name, &bytes)?;
        let target = self.minion.root().join(&name);
        let target = target.to_str().context("a path of text")?;
        let args =
            [self.id.as_str(), "cp.get_file", &format!("salt://{name}"), target, "-t", "300", "--out=json", "--static"];
        let output = master.program("salt").limit(Duration::from_secs(300)).args(args).run()?.ok()?;
        ensure!(output.json()?[&self.id] == json!(target), "{output}");
        ensure!(fs::read(target)? == bytes, "other bytes arrived");
        self.samples.fetch.push(size as f64 / f64::from(1 << 20) / output.took.as_secs_f64());
        fs::remove_file(target).context("failed to remove the fetched file")
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
