//! Returns that a master has missed while it was down.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use interop::{Salt, Sandbox, until};
use swarm::Behaviour;

use super::load;
use super::pair::{Pair, block_on, client};
use super::{Line, seconds};

/// 100,000 returns.
const MINIONS: usize = 1_000;
const JOBS: usize = 100;

/// The time limit, and the goal.
const LIMIT: Duration = Duration::from_secs(120);
const GOAL: Duration = Duration::from_secs(10);

/// Measures the time from the start of the second master until it has the last return.
pub fn measure(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Line>> {
    let mut pair = Pair::start(sandbox, ours, true, true)?;
    pair.two.daemon()?.terminate(LIMIT)?;
    let keys = load::keys()?;
    let options = load::options(&pair.one, MINIONS, Behaviour::default());
    let jids = block_on(async {
        let swarm = load::start(options, &keys).await?;
        let mut client = client(&pair.one)?;
        let mut jids = Vec::new();
        for _ in 0..JOBS {
            jids.push(load::job(&swarm, &mut client, MINIONS, "test.ping").await?);
        }
        Ok(jids)
    })?;
    let begun = Instant::now();
    pair.two.launch(sandbox)?;
    pair.two.wait_ready()?;
    let count = |jid: &str| {
        let found = pair.two.runner(&["jobs.lookup_jid", jid]).unwrap_or_default();
        found.as_object().map_or(0, |returns| returns.len())
    };
    // The newest come first.
    until("the oldest job", LIMIT, || count(&jids[0]) == MINIONS)?;
    let took = begun.elapsed();
    let all: usize = jids.iter().map(|jid| count(jid)).sum();
    ensure!(all == MINIONS * JOBS, "the second master has {all} returns");
    pair.stop()?;
    let what = "100,000 missed returns: start until the last one is there";
    Ok(vec![Line { what, alone: None, sharing: seconds(took), goal: "10 s", reached: took <= GOAL }])
}
