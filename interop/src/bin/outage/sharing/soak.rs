//! Many jobs from random masters of a set, while one master after the other is killed, stopped or cut off, or restarted with
//! another version.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use interop::Salt;
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::beats::{self, Leases};
use crate::cluster::{Cluster, Job, MASTERS, MINIONS, Role};
use crate::lab::Way;

/// Between two jobs.
const PACE: Duration = Duration::from_millis(150);
/// The time limit for everything to arrive at the end.
const SETTLE: Duration = Duration::from_secs(180);
/// Every how many jobs there is a highstate, and every how many one that is held while a minion is dead.
const HIGHSTATES: usize = 200;
const HELD: usize = 150;
/// For how many jobs a minion is dead after one was held for it.
const DEAD: usize = 20;

/// The result.
pub struct Soak {
    /// Jobs that a master accepted.
    pub accepted: usize,
    /// The number of faults during the run.
    pub faults: usize,
    /// The number of restarts with another version.
    pub upgrades: usize,
    /// Jobs that did not run on a minion.
    pub not_run: usize,
    /// Jobs that ran twice on a minion.
    pub twice: usize,
    /// Returns that cannot be read on some master.
    pub unreadable: usize,
    /// What the schedule shows of the lease.
    pub leases: Leases,
    /// The time until everything was on all masters.
    pub agree: Option<Duration>,
}

impl Soak {
    /// Returns whether nothing was lost and nothing happened twice.
    pub fn is_clean(&self) -> bool {
        self.not_run + self.twice + self.unreadable + self.leases.doubled == 0 && self.agree.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Kill,
    Stop,
    Cut,
    CutPeers,
}

impl Trouble {
    /// Returns whether programs on the master work.
    fn works(self) -> bool {
        matches!(self, Trouble::Cut | Trouble::CutPeers)
    }
}

/// The state of a run.
struct Storm<'a, 'lab> {
    cluster: &'a mut Cluster<'lab>,
    random: StdRng,
    jobs: Vec<(usize, Job)>,
    faults: usize,
    current: Option<(usize, Trouble)>,
    next: Instant,
    /// The minion that is dead, and the number of the job at which it is started again.
    dead: Option<(usize, usize)>,
}

/// Publishes `count` jobs. Each writes a line on every minion, so that a second run shows. With an earlier version the masters are
/// restarted one after the other with `new`, in place of faults.
pub fn run(
    cluster: &mut Cluster,
    count: usize,
    seed: u64,
    previous: Option<&Salt>,
    new: &Salt,
    root: &Path,
) -> Result<Soak> {
    cluster.make_room()?;
    write_states(cluster)?;
    let since = beats::now();
    let next = Instant::now() + Duration::from_secs(2);
    let random = StdRng::seed_from_u64(seed);
    let mut storm = Storm { cluster, random, jobs: Vec::new(), faults: 0, current: None, next, dead: None };
    let mut upgrades = 0;
    for number in 0..count {
        match previous {
            // Thrice: to the new version, back to the earlier one, and to the new one for good.
            Some(previous) if number * (3 * MASTERS + 1) / count > upgrades => {
                let salt = if upgrades / MASTERS == 1 { previous } else { new };
                storm.cluster.masters[upgrades % MASTERS].salt = salt.clone();
                storm.cluster.restart(upgrades % MASTERS)?;
                upgrades += 1;
            }
            Some(_) => {}
            None => storm.weather()?,
        }
        storm.publish(number)?;
        std::thread::sleep(PACE);
    }
    storm.calm()?;
    let Storm { jobs, faults, .. } = storm;
    let mut soak = judge(cluster, &jobs)?;
    soak.faults = faults;
    soak.upgrades = upgrades;
    soak.leases = beats::judge(root, since);
    Ok(soak)
}

impl Storm<'_, '_> {
    fn weather(&mut self) -> Result<()> {
        if Instant::now() < self.next {
            return Ok(());
        }
        let pause = match self.current.take() {
            Some((at, trouble)) => {
                end(self.cluster, at, trouble)?;
                1500..4000
            }
            None => {
                let all = [Trouble::Kill, Trouble::Stop, Trouble::Cut, Trouble::CutPeers];
                let (at, trouble) = (self.random.random_range(0..MASTERS), all[self.random.random_range(0..all.len())]);
                begin(self.cluster, at, trouble)?;
                self.faults += 1;
                self.current = Some((at, trouble));
                500..7000
            }
        };
        self.next = Instant::now() + Duration::from_millis(self.random.random_range(pause));
        Ok(())
    }

    fn publish(&mut self, number: usize) -> Result<()> {
        if let Some((minion, until)) = self.dead
            && number >= until
        {
            self.cluster.launch(Role::Minion, minion)?;
            self.dead = None;
        }
        let at = self.random.random_range(0..MASTERS);
        if self.current.is_some_and(|(bad, trouble)| bad == at && !trouble.works()) {
            // `salt` at a dead or stopped master would only wait for its timeout.
            return Ok(());
        }
        let line = format!("echo {number} >> $LAB_ROOT/runs");
        let job = match number {
            _ if is_highstate(number) => {
                let pillar = format!("pillar={{\"number\": {number}}}");
                self.cluster.send(at, &["state.apply", &pillar])?
            }
            _ if number % HELD == HELD - 1 && self.dead.is_none() => {
                let minion = self.random.random_range(0..MINIONS);
                self.cluster.minions[minion].kill()?;
                self.dead = Some((minion, number + DEAD));
                self.cluster.send(at, &["--hold", "10m", "cmd.run", &line])?
            }
            // What is published while a minion is dead is valid for as long as one that is held.
            _ if self.dead.is_some() => self.cluster.send(at, &["--hold", "10m", "cmd.run", &line])?,
            _ => self.cluster.send(at, &["cmd.run", &line])?,
        };
        self.jobs.extend(job.map(|job| (number, job)));
        Ok(())
    }

    /// Ends all troubles, and waits until all answer.
    fn calm(&mut self) -> Result<()> {
        if let Some((at, trouble)) = self.current.take() {
            end(self.cluster, at, trouble)?;
        }
        if let Some((minion, _)) = self.dead.take() {
            self.cluster.launch(Role::Minion, minion)?;
        }
        let all = |at| self.cluster.all_answer(at, SETTLE).map(drop);
        (0..MASTERS).try_for_each(all).context("after the storm")
    }
}

fn is_highstate(number: usize) -> bool {
    number % HIGHSTATES == HIGHSTATES - 1
}

/// Writes a highstate that notes its number as the other jobs do.
fn write_states(cluster: &Cluster) -> Result<()> {
    for node in &cluster.masters {
        let states = node.root.join("srv/salt");
        std::fs::write(states.join("top.sls"), "base:\n  '*':\n    - note\n")?;
        let note = "note:\n  cmd.run:\n    - name: echo {{ pillar['number'] }} >> $LAB_ROOT/runs\n";
        std::fs::write(states.join("note.sls"), note)?;
    }
    Ok(())
}

fn begin(cluster: &mut Cluster, at: usize, trouble: Trouble) -> Result<()> {
    match trouble {
        Trouble::Kill => cluster.masters[at].kill(),
        Trouble::Stop => cluster.masters[at].signal(Signal::SIGSTOP),
        Trouble::Cut => set(cluster, at, Way::CUT),
        Trouble::CutPeers => set_peers(cluster, at, Way::CUT),
    }
}

fn end(cluster: &mut Cluster, at: usize, trouble: Trouble) -> Result<()> {
    match trouble {
        Trouble::Kill => cluster.launch(Role::Master, at),
        Trouble::Stop => cluster.masters[at].signal(Signal::SIGCONT),
        Trouble::Cut => set(cluster, at, Way::default()),
        Trouble::CutPeers => set_peers(cluster, at, Way::default()),
    }
}

fn set(cluster: &Cluster, at: usize, way: Way) -> Result<()> {
    cluster.lab.set(&cluster.masters[at].host, way, way);
    Ok(())
}

fn set_peers(cluster: &Cluster, at: usize, way: Way) -> Result<()> {
    let host = &cluster.masters[at].host;
    for other in cluster.masters.iter().filter(|other| other.host.name != host.name) {
        cluster.lab.set_between(host, &other.host, way);
        cluster.lab.set_between(&other.host, host, way);
    }
    Ok(())
}

fn judge(cluster: &Cluster, jobs: &[(usize, Job)]) -> Result<Soak> {
    let begun = Instant::now();
    let mut read = HashSet::new();
    loop {
        let (not_run, twice) = count(cluster, jobs)?;
        let unreadable = unreadable(cluster, jobs, &mut read)?;
        let agree = (not_run + unreadable == 0).then(|| begun.elapsed());
        if agree.is_some() || begun.elapsed() > SETTLE {
            let (accepted, leases) = (jobs.len(), Leases::default());
            return Ok(Soak { accepted, faults: 0, upgrades: 0, not_run, twice, unreadable, leases, agree });
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn count(cluster: &Cluster, jobs: &[(usize, Job)]) -> Result<(usize, usize)> {
    let (mut not_run, mut twice) = (0, 0);
    for runs in cluster.runs()? {
        twice += runs.values().filter(|times| **times > 1).count();
        // A highstate whose file server dies fails, and its return says so.
        let wanted = jobs.iter().filter(|(number, _)| !is_highstate(*number));
        not_run += wanted.filter(|(number, _)| !runs.contains_key(number)).count();
    }
    Ok((not_run, twice))
}

/// Counts the returns that some master does not have. `read` are the jobs and masters of which all were there.
fn unreadable(cluster: &Cluster, jobs: &[(usize, Job)], read: &mut HashSet<(usize, usize)>) -> Result<usize> {
    let mut missing = 0;
    for (number, job) in jobs {
        for at in (0..MASTERS).filter(|at| !read.contains(&(*number, *at))).collect::<Vec<_>>() {
            match MINIONS.saturating_sub(cluster.returns_at(at, &job.jid)?) {
                0 => drop(read.insert((*number, at))),
                some => missing += some,
            }
        }
    }
    Ok(missing)
}
