//! The first copy of a master with an empty disk.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use interop::{Salt, Sandbox, until};
use swarm::Behaviour;

use super::load;
use super::pair::{Pair, block_on};
use super::{Line, seconds};

/// 10,000 minions, which come in turn.
const MINIONS: usize = 1_000;
const TURNS: usize = 10;

/// The time limit, and the goal.
const LIMIT: Duration = Duration::from_secs(120);
const GOAL: Duration = Duration::from_secs(10);

/// Measures the time from the start of the second master until it has all keys and grains.
pub fn measure(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Line>> {
    let mut pair = Pair::prepare(sandbox, ours, true, true)?;
    pair.one.launch(sandbox)?;
    pair.one.wait_ready()?;
    let keys = load::keys()?;
    for turn in 0..TURNS {
        let behaviour = Behaviour { grains: true, pillar: true, ..Behaviour::default() };
        let mut options = load::options(&pair.one, MINIONS, behaviour);
        options.first = turn * MINIONS + 1;
        block_on(async { load::start(options, &keys).await.map(drop) })?;
    }
    let count = |folder: std::path::PathBuf| fs::read_dir(folder).map_or(0, |entries| entries.count());
    let begun = Instant::now();
    pair.two.launch(sandbox)?;
    let all = MINIONS * TURNS;
    until("all keys", LIMIT, || count(pair.two.pki().join("minions")) >= all)?;
    let keys = begun.elapsed();
    // The layout of 3008: `grains/<id>.p`.
    let cached = pair.two.cache().join("grains");
    until("all grains", LIMIT, || count(cached.clone()) >= all).context("keys are there")?;
    let grains = begun.elapsed();
    pair.stop()?;
    let line = |what, took| Line { what, alone: None, sharing: seconds(took), goal: "10 s", reached: took <= GOAL };
    Ok(vec![line("10,000 keys to an empty disk, from its start", keys), line("the same with their grains", grains)])
}
