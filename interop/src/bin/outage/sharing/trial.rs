//! One fault of a healthy set: what is decided and published meanwhile, and what becomes of it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::beats::{self, Leases};
use super::fault::Fault;
use crate::cluster::{Cluster, Job, MASTERS, MINIONS, time_until};

/// The length of a fault. Jobs stay valid for half a minute, so none of them may be lost.
const FAULT: Duration = Duration::from_secs(20);
/// The time limit for all members to agree again.
const AGREE: Duration = Duration::from_secs(120);
/// Between jobs that are published during a fault.
const PAUSE: Duration = Duration::from_secs(2);
/// Until what was published before the fault is on all members.
const SPREAD: Duration = Duration::from_secs(2);
/// Until a lease that was held by the first member is held by another one.
const TAKEOVER: f64 = 15.0;

/// The result of a fault.
pub struct Outcome {
    /// The time until another member saw that the first one is away.
    pub noticed: Option<Duration>,
    /// The time until all minions had answered another master.
    pub other: Option<Duration>,
    /// The time from the end of the fault until all members had the same keys, jobs and returns, and were linked.
    pub agree: Option<Duration>,
    /// Jobs that a master accepted.
    pub jobs: usize,
    /// Decisions about keys.
    pub decisions: usize,
    /// Those that do not count on all members in the end.
    pub keys_lost: usize,
    /// Returns that some member does not have in the end.
    pub returns_lost: usize,
    /// Jobs that a minion ran twice, or not.
    pub not_once: usize,
    /// What the schedule shows of the lease.
    pub leases: Leases,
}

impl Outcome {
    /// Returns what was lost or happened twice.
    pub fn lost(&self) -> usize {
        self.keys_lost + self.returns_lost + self.not_once + self.leases.doubled
    }

    /// Returns whether the lease was taken over in time, or taken again after a fault in which nobody could hold it.
    pub fn has_lease(&self, fault: Fault) -> bool {
        self.leases.gap <= TAKEOVER + if fault.stops_leases() { FAULT.as_secs_f64() } else { 0.0 }
    }
}

/// What was published and decided, and what is to be found of it.
#[derive(Default)]
struct Done {
    jobs: Vec<(usize, Job)>,
    /// The next number of a job.
    next: usize,
    /// Keys, and where all members should have them: `None` is nowhere.
    decided: Vec<(&'static str, Option<&'static str>)>,
}

impl Done {
    fn send(&mut self, cluster: &Cluster, at: usize) -> Result<()> {
        let number = self.next;
        self.next += 1;
        self.jobs.extend(cluster.send_numbered(at, number)?.map(|job| (number, job)));
        Ok(())
    }

    fn decide(&mut self, cluster: &Cluster, at: usize, what: &str, id: &'static str) -> Result<()> {
        cluster.decide(at, what, id)?;
        let bank = match what {
            "-a" => Some("minions"),
            "-r" => Some("minions_rejected"),
            _ => None,
        };
        self.decided.retain(|(known, _)| *known != id);
        self.decided.push((id, bank));
        Ok(())
    }
}

/// Causes a fault, and measures.
pub fn run(cluster: &mut Cluster, fault: Fault, root: &std::path::Path) -> Result<Outcome> {
    let mut done = Done::default();
    cluster.put_applicants(&["x01", "x02", "x03", "x04", "x05", "x06", "x07", "x08", "x09"])?;
    for id in ["x01", "x02", "x03", "x09"] {
        done.decide(cluster, 0, "-a", id)?;
        cluster.await_bank(id, Some("minions"))?;
    }
    if fault == Fault::Backup {
        cluster.back_up(0)?;
        cluster.await_links(AGREE)?;
    }
    for at in 0..cluster.shape.serving() {
        done.send(cluster, at)?;
    }
    std::thread::sleep(SPREAD);
    // Its returns arrive during the fault.
    let slow = cluster.send(cluster.shape.serving() - 1, &["cmd.run", "sleep 3; echo 9999 >> $LAB_ROOT/runs"])?;
    done.jobs.extend(slow.map(|job| (9999, job)));
    std::thread::sleep(Duration::from_millis(500));
    let (begun, since) = (Instant::now(), beats::now());
    fault.begin(cluster).with_context(|| format!("{} could not be brought about", fault.name()))?;
    let (noticed, other) = watch(cluster, fault, &mut done, begun)?;
    if let Some(rest) = FAULT.checked_sub(begun.elapsed()) {
        std::thread::sleep(rest);
    }
    fault.end(cluster)?;
    let ended = Instant::now();
    if fault == Fault::Rotation {
        done.decided.retain(|(id, _)| *id != "x09");
        done.decided.push(("x09", None));
    }
    if fault == Fault::Clock {
        // The others publish no job of the future: only the minions of the first member run it.
        let tomorrow = jid_of_tomorrow()?;
        done.jobs.retain(|(_, job)| job.jid < tomorrow);
        // Once the clock is right, all minions are reached again.
        done.send(cluster, 0)?;
    }
    let agree = await_agreement(cluster, &done, ended)?;
    let answered = (0..cluster.shape.serving()).all(|at| cluster.all_answer(at, AGREE).is_ok());
    Ok(Outcome {
        noticed,
        other,
        agree: agree.filter(|_| answered),
        jobs: done.jobs.len(),
        decisions: done.decided.len(),
        keys_lost: lost_keys(cluster, &done),
        returns_lost: lost_returns(cluster, &done)?,
        not_once: not_once(cluster, &done)?,
        leases: beats::judge(root, since),
    })
}

/// Returns what ids of jobs of tomorrow begin with.
fn jid_of_tomorrow() -> Result<String> {
    let output = std::process::Command::new("date")
        .args(["-d", "tomorrow", "+%Y%m%d"])
        .output()
        .context("failed to start date")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Publishes on all members that work, and decides about keys, while another thread looks for what the others see.
fn watch(
    cluster: &Cluster,
    fault: Fault,
    done: &mut Done,
    begun: Instant,
) -> Result<(Option<Duration>, Option<Duration>)> {
    std::thread::scope(|scope| {
        let looking = fault.is_seen() && cluster.masters[0].salt.is_ours();
        let noticing = scope.spawn(move || {
            looking.then(|| time_until(FAULT, || cluster.sees_away(1, 0).unwrap_or_default())).flatten()
        });
        let other = scope.spawn(|| {
            fault.leaves_minions().then(|| cluster.all_answer(1, FAULT).ok().map(|_| begun.elapsed())).flatten()
        });
        let mut decisions = decisions(fault).into_iter();
        while begun.elapsed() + PAUSE < FAULT {
            for at in (0..cluster.shape.serving()).filter(|at| works(fault, *at)) {
                done.send(cluster, at)?;
            }
            if let Some((at, what, id)) = decisions.next() {
                done.decide(cluster, at, what, id)?;
            }
            std::thread::sleep(PAUSE);
        }
        let panicked = |_| anyhow::anyhow!("a thread has panicked");
        Ok((noticing.join().map_err(panicked)?, other.join().map_err(panicked)?))
    })
}

fn works(fault: Fault, at: usize) -> bool {
    if at == 0 { fault.first_works() } else { fault.others_work() }
}

/// The decisions that are made during a fault: on which master, which, and about whom.
fn decisions(fault: Fault) -> Vec<(usize, &'static str, &'static str)> {
    let mut all = vec![(1, "-a", "x04"), (1, "-d", "x01"), (1, "-r", "x02")];
    if fault.first_works() {
        all.extend([(0, "-a", "x05"), (0, "-r", "x06"), (0, "-d", "x03")]);
    }
    all.retain(|(at, _, _)| works(fault, *at));
    all
}

/// Waits until all members are linked, and have the same keys and all returns. Returns the time since the end of the fault.
fn await_agreement(cluster: &Cluster, done: &Done, ended: Instant) -> Result<Option<Duration>> {
    let ours = cluster.masters[0].salt.is_ours();
    // All at once: each question is a program that starts.
    let read = std::thread::scope(|scope| {
        let serving = 0..cluster.shape.serving();
        let reading: Vec<_> = serving.map(|at| scope.spawn(move || await_returns(cluster, done, at, ended))).collect();
        let whole = !ours || time_until(AGREE, || is_whole(cluster)).is_some();
        reading.into_iter().try_fold(whole, |all, one| {
            one.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))?.map(|read| all && read)
        })
    })?;
    Ok(read.then(|| ended.elapsed()))
}

/// Waits until a member has all returns; false if it takes too long.
fn await_returns(cluster: &Cluster, done: &Done, at: usize, ended: Instant) -> Result<bool> {
    for (_, job) in &done.jobs {
        while cluster.returns_at(at, &job.jid)? < MINIONS {
            if ended.elapsed() > AGREE {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(true)
}

/// Returns whether all members are linked and have the same keys.
fn is_whole(cluster: &Cluster) -> bool {
    cluster.same_keys() && (0..MASTERS).all(|at| cluster.is_linked(at).unwrap_or_default())
}

fn lost_keys(cluster: &Cluster, done: &Done) -> usize {
    let missing =
        |(id, bank): &&(&'static str, Option<&'static str>)| (0..MASTERS).any(|at| cluster.bank(at, id) != *bank);
    let lost: Vec<_> = done.decided.iter().filter(missing).collect();
    for (id, bank) in &lost {
        let found: Vec<_> = (0..MASTERS).map(|at| cluster.bank(at, id)).collect();
        eprintln!("{id} should be in {bank:?} and is in {found:?}");
    }
    lost.len()
}

/// Counts the returns that a member does not have.
fn lost_returns(cluster: &Cluster, done: &Done) -> Result<usize> {
    let mut lost = 0;
    for (_, job) in &done.jobs {
        for at in 0..cluster.shape.serving() {
            lost += MINIONS.saturating_sub(cluster.returns_at(at, &job.jid)?);
        }
    }
    Ok(lost)
}

fn not_once(cluster: &Cluster, done: &Done) -> Result<usize> {
    let runs = cluster.runs()?;
    let wrong = |runs: &&std::collections::HashMap<usize, usize>| {
        let missing = done.jobs.iter().filter(|(number, _)| !runs.contains_key(number)).count();
        missing + runs.values().filter(|times| **times > 1).count()
    };
    Ok(runs.iter().map(|runs| wrong(&runs)).sum())
}
