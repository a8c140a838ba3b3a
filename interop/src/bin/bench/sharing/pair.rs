//! Two masters, which share or do not.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use client::LocalClient;
use interop::{Master, Salt, Sandbox, measure, until};
use serde_json::json;

/// The time limit for two masters to meet.
const MEET: Duration = Duration::from_secs(60);

/// The port for links.
pub const POOL_PORT: u16 = 4520;

/// Two masters with one key pair.
pub struct Pair {
    pub one: Master,
    pub two: Master,
    shares: bool,
}

impl Pair {
    /// Writes the folders of both.
    pub fn prepare(sandbox: &Sandbox, ours: &Salt, shares: bool, auto_accept: bool) -> Result<Pair> {
        let pair = Master::make_key_pair(ours, sandbox)?;
        let word = if shares { "sharing" } else { "alone" };
        let build = |name: &str| {
            let built = Master::build(ours, &format!("{word}-{name}")).key_pair(&pair).option("id", name);
            let built =
                built.option("auto_accept", auto_accept).option("worker_threads", 5).option("loop_interval", 60);
            built.option("log_level_logfile", "warning")
        };
        let shared = |built: interop::MasterBuilder| match shares {
            true => built.option("cluster_id", "bench").option("cluster_secret", "5b0f9a2c7e41d836a1f0c9b2e87d4365"),
            false => built,
        };
        let one = shared(build("m1")).prepare(sandbox)?;
        let mut two = shared(build("m2"));
        if shares {
            two = two.option("cluster_peers", json!([format!("{}:{POOL_PORT}", one.address())]));
        }
        Ok(Pair { one, two: two.prepare(sandbox)?, shares })
    }

    /// Starts both, and waits until they are linked.
    pub fn start(sandbox: &Sandbox, ours: &Salt, shares: bool, auto_accept: bool) -> Result<Pair> {
        let mut pair = Pair::prepare(sandbox, ours, shares, auto_accept)?;
        for master in [&mut pair.one, &mut pair.two] {
            master.launch(sandbox)?;
            master.wait_ready()?;
        }
        pair.wait_linked()?;
        Ok(pair)
    }

    /// Waits until they are linked, if they share.
    pub fn wait_linked(&self) -> Result<()> {
        if !self.shares {
            return Ok(());
        }
        until("the masters to be linked", MEET, || {
            let shown = self.one.runner(&["saltern.masters"]).unwrap_or_default();
            shown["masters"]["m2"]["state"] == json!("linked")
        })
    }

    /// Ends both.
    pub fn stop(mut self) -> Result<()> {
        for master in [&mut self.one, &mut self.two] {
            master.daemon()?.terminate(MEET)?;
        }
        Ok(())
    }
}

/// Returns a client of a master in this process.
pub fn client(master: &Master) -> Result<LocalClient> {
    Ok(LocalClient::new(rt::Rt::real(), settings(master)?))
}

/// Returns the event bus of a master.
pub fn listen(master: &Master) -> Result<event::Remote> {
    Ok(event::Remote::new(rt::Rt::real(), settings(master)?.bus))
}

fn settings(master: &Master) -> Result<client::Settings> {
    let source = config::Source { path: master.conf().join("master") };
    Ok(client::settings::from_config(&config::Master::load(&source, &config::LoadOptions::default())?))
}

/// Runs something with the runtime of clients and swarms.
pub fn block_on<T>(what: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start tokio")?;
    let done = runtime.block_on(what);
    runtime.shutdown_background();
    done
}

/// Returns the processor time of a master until now.
pub fn processor(master: &mut Master) -> Result<Duration> {
    let mut ticks = 0;
    for pid in measure::tree(master.daemon()?.pid()) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which may contain spaces: the state is the first field, user and system time the 12th and 13th.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace()).into_iter().flatten();
        ticks += fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    }
    // Linux tells a hundred ticks a second to programs, whatever it uses itself.
    Ok(Duration::from_millis(ticks * 10))
}
