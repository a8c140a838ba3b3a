//! The cost of a dead or silent master for commands through another one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::cluster::{Cluster, MINIONS, Role};
use crate::lab::Way;

/// Times of many commands through the second master, and of a minion's start.
pub struct Latency {
    /// The state of the first master.
    pub what: &'static str,
    /// The median.
    pub median: Duration,
    /// The 99th percentile.
    pub slow: Duration,
    /// From the start of a minion until it answers the second master.
    pub start: Duration,
}

/// Runs `count` commands each with all masters well, with the first one silent, and with it dead.
pub fn run(cluster: &mut Cluster, count: usize) -> Result<Vec<Latency>> {
    cluster.make_room()?;
    // The first commands warm the caches of everything.
    sample(cluster, count / 10 + 1)?;
    let mut all = vec![measure(cluster, "all well", count)?];
    let first = cluster.masters[0].host.clone();
    cluster.lab.set(&first, Way::CUT, Way::CUT);
    all.push(measure(cluster, "one silent", count)?);
    cluster.masters[0].kill()?;
    // The host is reachable again, so that connections to the dead master are refused at once: dead and silent are
    // different cases.
    cluster.lab.set(&first, Way::default(), Way::default());
    all.push(measure(cluster, "one dead", count)?);
    Ok(all)
}

fn measure(cluster: &mut Cluster, what: &'static str, count: usize) -> Result<Latency> {
    let mut times = sample(cluster, count)?;
    times.sort();
    let (median, slow) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let mut starts = (0..15).map(|_| restart(cluster)).collect::<Result<Vec<_>>>()?;
    starts.sort();
    Ok(Latency { what, median, slow, start: starts[starts.len() / 2] })
}

fn sample(cluster: &Cluster, count: usize) -> Result<Vec<Duration>> {
    let one = |_| {
        let begun = Instant::now();
        let answering = cluster.answering(1, 5)?;
        ensure!(answering == MINIONS, "only {answering} minions answered");
        Ok(begun.elapsed())
    };
    (0..count).map(one).collect()
}

/// Restarts the last minion and waits until it answers.
fn restart(cluster: &mut Cluster) -> Result<Duration> {
    cluster.minions[MINIONS - 1].kill()?;
    let begun = Instant::now();
    cluster.launch(Role::Minion, MINIONS - 1)?;
    while cluster.answering(1, 1)? < MINIONS {
        ensure!(begun.elapsed() < Duration::from_secs(120), "a minion does not come back");
    }
    Ok(begun.elapsed())
}
