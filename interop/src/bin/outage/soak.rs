//! Many jobs from random masters, while a random master is killed, stopped or cut off every few seconds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use crate::cluster::{Cluster, Job, MASTERS, MINIONS, Role};
use crate::lab::Way;

/// Between two jobs.
const PACE: Duration = Duration::from_millis(150);
/// The time limit for everything to arrive at the end.
const SETTLE: Duration = Duration::from_secs(120);

/// The result.
pub struct Soak {
    /// Jobs that a master accepted.
    pub accepted: usize,
    /// The number of faults during the run.
    pub faults: usize,
    /// Jobs that did not run on a minion.
    pub not_run: usize,
    /// Jobs that ran twice on a minion.
    pub twice: usize,
    /// Returns that cannot be read at the master that published.
    pub unreadable: usize,
}

impl Soak {
    /// Returns whether no job or return was lost and no job ran twice.
    pub fn is_clean(&self) -> bool {
        self.not_run + self.twice + self.unreadable == 0
    }
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Kill,
    Stop,
    Cut,
}

/// Publishes `count` jobs. Each writes a line on every minion, so that a second run shows.
pub fn run(cluster: &mut Cluster, count: usize) -> Result<Soak> {
    let mut jobs: Vec<(usize, Job)> = Vec::new();
    let (mut faults, mut current) = (0, None);
    let mut next = Instant::now() + Duration::from_secs(2);
    for number in 0..count {
        if Instant::now() >= next {
            match current.take() {
                Some((at, trouble)) => {
                    end(cluster, at, trouble)?;
                    next = Instant::now() + some(1500, 4000);
                }
                None => {
                    let (at, trouble) = pick();
                    begin(cluster, at, trouble)?;
                    faults += 1;
                    current = Some((at, trouble));
                    next = Instant::now() + some(500, 7000);
                }
            }
        }
        let at = rand::random::<u32>() as usize % MASTERS;
        if current.is_some_and(|(bad, trouble)| bad == at && !matches!(trouble, Trouble::Cut)) {
            // `salt` at a dead or stopped master would only wait for its timeout.
            continue;
        }
        let line = format!("echo {number} >> $LAB_ROOT/runs");
        jobs.extend(cluster.send(at, &["cmd.run", &line])?.map(|job| (number, job)));
        std::thread::sleep(PACE);
    }
    if let Some((at, trouble)) = current {
        end(cluster, at, trouble)?;
    }
    (0..MASTERS).try_for_each(|at| cluster.all_answer(at, SETTLE).map(drop)).context("after the storm")?;
    judge(cluster, &jobs, faults)
}

fn some(least: u64, most: u64) -> Duration {
    Duration::from_millis(least + rand::random::<u64>() % (most - least))
}

fn pick() -> (usize, Trouble) {
    let troubles = [Trouble::Kill, Trouble::Stop, Trouble::Cut];
    (rand::random::<u32>() as usize % MASTERS, troubles[rand::random::<u32>() as usize % troubles.len()])
}

fn begin(cluster: &mut Cluster, at: usize, trouble: Trouble) -> Result<()> {
    match trouble {
        Trouble::Kill => cluster.masters[at].kill(),
        Trouble::Stop => cluster.masters[at].signal(Signal::SIGSTOP),
        Trouble::Cut => {
            let host = cluster.masters[at].host.clone();
            cluster.lab.set(&host, Way::CUT, Way::CUT);
            Ok(())
        }
    }
}

fn end(cluster: &mut Cluster, at: usize, trouble: Trouble) -> Result<()> {
    match trouble {
        Trouble::Kill => cluster.launch(Role::Master, at),
        Trouble::Stop => cluster.masters[at].signal(Signal::SIGCONT),
        Trouble::Cut => {
            let host = cluster.masters[at].host.clone();
            cluster.lab.set(&host, Way::default(), Way::default());
            Ok(())
        }
    }
}

fn judge(cluster: &Cluster, jobs: &[(usize, Job)], faults: usize) -> Result<Soak> {
    let begun = Instant::now();
    loop {
        let mut soak = count(cluster, jobs, faults)?;
        // Reading all returns takes a program per job, so it is done only once everything has run.
        if soak.not_run + soak.twice == 0 {
            soak.unreadable = unreadable(cluster, jobs)?;
        }
        if soak.is_clean() || begun.elapsed() > SETTLE {
            soak.unreadable = unreadable(cluster, jobs)?;
            return Ok(soak);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn count(cluster: &Cluster, jobs: &[(usize, Job)], faults: usize) -> Result<Soak> {
    let mut soak = Soak { accepted: jobs.len(), faults, not_run: 0, twice: 0, unreadable: 0 };
    for at in 0..MINIONS {
        let mut runs: HashMap<usize, usize> = HashMap::new();
        for line in cluster.minions[at].runs().lines() {
            *runs.entry(line.trim().parse().context("a strange line")?).or_default() += 1;
        }
        soak.twice += runs.values().filter(|times| **times > 1).count();
        soak.not_run += jobs.iter().filter(|(number, _)| !runs.contains_key(number)).count();
    }
    Ok(soak)
}

fn unreadable(cluster: &Cluster, jobs: &[(usize, Job)]) -> Result<usize> {
    let mut missing = 0;
    for (_, job) in jobs {
        missing += MINIONS.saturating_sub(cluster.returns(job)?);
    }
    Ok(missing)
}
