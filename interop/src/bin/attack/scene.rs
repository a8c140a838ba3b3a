//! The master under attack, its honest minion, and the accepted one whose key the attacker has.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Sandbox, measure, until};
use rustix::process::{getpriority_process, setpriority_process};
use serde_json::json;

use crate::honest::Pings;
use crate::stranger::Stranger;

/// The minion that must not be harmed.
pub const VICTIM: &str = "victim";
/// The accepted minion whose key the attacker has.
pub const MALLORY: &str = "mallory";
/// The local user `publisher_acl` lets do little.
pub const LISTED: &str = "nobody";

/// The number of bytes of memory that a flood may leave behind.
const GROWTH: u64 = 16 << 20;
/// The limit that 99 of 100 pings of an honest minion must stay below during a flood.
const P99: Duration = Duration::from_millis(20);
/// The same for programs that are not optimised, whose floods only show that no honest peer is shut out.
const P99_UNOPTIMISED: Duration = Duration::from_millis(400);

/// For how long pings without an attack are measured.
const CALM: Duration = Duration::from_secs(3);

/// Everything an attack may use.
pub struct Scene<'a> {
    pub sandbox: &'a Sandbox,
    pub master: Master,
    pub victim: Minion,
    pub mallory: Minion,
    pub ours: Salt,
}

impl<'a> Scene<'a> {
    /// Starts master and minions.
    pub fn start(sandbox: &'a Sandbox) -> Result<Self> {
        let ours = Salt::ours()?;
        let master = Master::build(&ours, "m")
            .option("publisher_acl", json!({LISTED: ["test.*"]}))
            .option("peer", json!({MALLORY: ["test.ping"]}))
            .option("ext_pillar", json!([{"cmd_yaml": "echo 'asked_for: %s'"}]))
            .option("request_server_ttl", 30)
            // With each round of maintenance the allocator gives back what is free.
            .option("loop_interval", 5)
            .start(sandbox)?;
        let victim = Minion::build(&ours, VICTIM).master(&master).start(sandbox)?;
        let mallory = Minion::build(&ours, MALLORY).master(&master).start(sandbox)?;
        master.accept(&[VICTIM, MALLORY])?;
        master.wait_answering(&[VICTIM, MALLORY])?;
        Ok(Scene { sandbox, master, victim, mallory, ours })
    }

    /// The attacker with the key of the accepted minion.
    pub fn insider(&self) -> Result<Stranger> {
        Stranger::with_key_of(self.master.address(), &self.mallory)
    }

    /// A stranger whose key is not accepted.
    pub fn stranger(&self, id: &str) -> Result<Stranger> {
        Stranger::new(self.master.address(), id)
    }

    /// A path the attack tries to bring into being.
    pub fn trophy(&self, name: &str) -> PathBuf {
        self.sandbox.root().join(format!("trophy-{name}"))
    }

    /// The text the listed user proves themself with.
    pub fn key_of_listed(&self) -> Result<String> {
        let path = self.master.cache().join(format!(".{LISTED}_key"));
        std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
    }

    /// Fails when the honest minion does not answer.
    pub fn healthy(&mut self) -> Result<()> {
        ensure!(self.master.daemon()?.alive(), "the master ended: {}", self.master.printed());
        ensure!(self.victim.daemon()?.alive(), "the minion ended");
        ensure!(self.master.ask(VICTIM, &["test.ping"])? == json!(true), "the honest minion does not answer");
        Ok(())
    }

    /// Runs a flood while an honest minion is pinged; reports memory and pings, and fails when they exceed the limits.
    pub fn flood(&mut self, flood: impl FnOnce(&Self) -> Result<String>) -> Result<String> {
        self.healthy()?;
        let pid = self.master.daemon()?.pid();
        let before = measure::rss(pid)?;
        let pings = Pings::begin(&self.master.conf().join("master"), VICTIM);
        let told = yielding(|| flood(self));
        let measured = pings.end();
        let told = told?;
        let times = measured?;
        ensure!(self.master.daemon()?.alive(), "the master ended: {}", self.master.printed());
        // The memory of a message is given back shortly after its connection ends.
        let grown = || measure::rss(pid).map_or(u64::MAX, |now| now.saturating_sub(before));
        let settled = until("the master's memory to be given back", Duration::from_secs(10), || grown() < GROWTH);
        let told = format!("{told}; memory +{:.1} MiB, {times}", grown() as f64 / f64::from(1 << 20));
        ensure!(settled.is_ok(), "{told}: more than {} MiB", GROWTH >> 20);
        let limit = if optimised()? { P99 } else { P99_UNOPTIMISED };
        ensure!(times.p99 < limit, "{told}: slower than {limit:?}");
        Ok(told)
    }

    /// Pings the honest minion while nothing is attacked: what this machine makes of pings anyway.
    pub fn calm(&mut self) -> Result<String> {
        self.healthy()?;
        let pings = Pings::begin(&self.master.conf().join("master"), VICTIM);
        std::thread::sleep(CALM);
        Ok(pings.end()?.to_string())
    }
}

/// Runs an attack with the lowest priority. Attackers have processors of their own: here they must not take those of the master
/// and of the honest minion, or the pings would show how many processors this machine has.
fn yielding<T>(attack: impl FnOnce() -> Result<T>) -> Result<T> {
    const LOWEST: i32 = 19;
    let usual = getpriority_process(None).context("failed to read the priority")?;
    // On Linux this is about the calling thread, and about those that it starts.
    setpriority_process(None, LOWEST).context("failed to lower the priority")?;
    let told = attack();
    setpriority_process(None, usual).context("failed to raise the priority again")?;
    told
}

/// Returns whether the program under test is an optimised build.
fn optimised() -> Result<bool> {
    Ok(!Salt::saltern()?.components().any(|part| part.as_os_str() == "debug"))
}
