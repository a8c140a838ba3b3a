//! What was accepted and what was in trouble when: the book the invariants are checked against.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::{BEAT, Cluster, Mode};
use crate::operator::Job;

/// The book of one storm.
#[derive(Default)]
pub struct Ledger {
    /// What masters accepted.
    pub jobs: Vec<Job>,
    /// What was found wrong, in words.
    pub wrongs: Vec<String>,
    /// When a host, or the way between two, was in trouble; trouble that lasts has no end yet.
    troubles: BTreeMap<String, Vec<(Duration, Option<Duration>)>>,
    /// When programs of a host ended before their time.
    deaths: BTreeMap<String, Vec<Duration>>,
    /// Commands that were begun, and returns that arrived.
    pub begun: usize,
    /// Returns that could be read where the job was published.
    pub returned: usize,
    /// Commands that a live minion never began, though not in calm weather.
    pub missed: usize,
}

/// After trouble has passed a minion has this long to be back at its masters.
pub const RECOVERY: Duration = Duration::from_secs(40);

/// A minion that follows one master at a time has this long to find one that is there.
pub const CHANGE: Duration = Duration::from_secs(120);

/// In calm weather a short job has returned after this long.
pub const BOUND: Duration = Duration::from_secs(20);

/// Directions of connections between a master and a minion: a subscription, a watch, and eight requests at a time.
const MOST_DIRECTIONS: usize = 20;

/// The name of the way between two hosts.
pub fn way(one: &str, other: &str) -> String {
    let (first, second) = if one < other { (one, other) } else { (other, one) };
    format!("{first}-{second}")
}

/// The name of the disk of a host.
pub fn disk(host: &str) -> String {
    format!("the disk of {host}")
}

/// The name of the clock of a host.
pub fn clock(host: &str) -> String {
    format!("the clock of {host}")
}

impl Ledger {
    /// Trouble begins.
    pub fn trouble(&mut self, what: &str, now: Duration) {
        self.troubles.entry(what.to_owned()).or_default().push((now, None));
    }

    /// Trouble is over.
    pub fn relief(&mut self, what: &str, now: Duration) {
        let open = self.troubles.get_mut(what).and_then(|all| all.iter_mut().find(|trouble| trouble.1.is_none()));
        if let Some(trouble) = open {
            trouble.1 = Some(now);
        }
    }

    /// The program of a host ended before its time.
    pub fn death(&mut self, host: &str, now: Duration) {
        self.deaths.entry(host.to_owned()).or_default().push(now);
    }

    /// Says whether nothing was wrong with two hosts and the way between them.
    pub fn calm(&self, one: &str, other: &str, from: Duration, to: Duration) -> bool {
        let all = [one.to_owned(), other.to_owned(), disk(one), disk(other), way(one, other)];
        all.iter().all(|what| self.is_well(what, from, to))
    }

    fn is_well(&self, what: &str, from: Duration, to: Duration) -> bool {
        let troubles = self.troubles.get(what).map(Vec::as_slice).unwrap_or_default();
        troubles.iter().all(|(began, over)| *began > to || over.is_some_and(|over| over < from))
    }

    fn died(&self, host: &str, from: Duration, to: Duration) -> bool {
        self.deaths.get(host).is_some_and(|deaths| deaths.iter().any(|at| (from..=to).contains(at)))
    }

    /// Looks at jobs that all masters published at once, for minions that follow one master at a time: whoever had a master
    /// in calm weather has begun one of them.
    pub fn check_round(&mut self, cluster: &Cluster, jobs: &[Job]) {
        let Some(first) = jobs.first() else { return };
        let (from, to) = (first.accepted.saturating_sub(CHANGE), first.accepted + BOUND);
        for minion in cluster.minions() {
            let has_master = cluster.masters().iter().any(|master| self.calm(master, &minion, from, to));
            let begun = jobs.iter().filter(|job| !cluster.ear.begun(&job.jid, &minion).is_empty()).count();
            if has_master && jobs.len() == cluster.plan.masters && begun == 0 {
                self.wrongs.push(format!("{minion} began none of the jobs {} and so on", first.jid));
            }
        }
    }

    /// Says whether a return may be lost: a minion that is killed in the midst of a job has nothing to return, and one whose
    /// disk is full has it in memory only.
    fn may_lose(&self, minion: &str, begun: Duration, done: Option<Duration>) -> bool {
        match done {
            None => self.died(minion, begun, Duration::MAX),
            Some(done) => self.died(minion, done, Duration::MAX) && !self.is_well(&disk(minion), done, done),
        }
    }

    /// Looks at a job some time after it was accepted: where the weather was calm it has returned.
    pub fn check_calm(&mut self, cluster: &Cluster, job: &Job) {
        let from = job.accepted.saturating_sub(RECOVERY);
        for minion in &job.targets {
            if !self.calm(&job.master, minion, from, job.accepted + BOUND) {
                continue;
            }
            if cluster.ear.begun(&job.jid, minion).is_empty() {
                self.wrongs.push(format!("{minion} did not begin job {} of {} in calm weather", job.jid, job.master));
            } else if !is_returned(cluster, job, minion) {
                self.wrongs.push(format!("{minion} did not return job {} of {} in calm weather", job.jid, job.master));
            }
        }
    }

    /// Says whether a minion was well connected for long enough while a job was still to be delivered.
    fn had_a_chance(&self, job: &Job, minion: &str) -> bool {
        // What a minion had confirmed when it died is not sent again: it might have begun. Over a slow way job, receipt and
        // answer need half a second each.
        let (moment, journeys) = (Duration::from_secs(1), Duration::from_secs(3));
        if self.died(minion, job.accepted.saturating_sub(moment), job.accepted + journeys) {
            return false;
        }
        let end = job.accepted + job.valid;
        // A master that starts with a wrong clock cannot know for how much longer a job counts.
        if self.died(&job.master, job.accepted, end) && !self.is_well(&clock(&job.master), job.accepted, end) {
            return false;
        }
        let mut from = job.accepted.saturating_sub(RECOVERY);
        while from + RECOVERY + BOUND <= end {
            if self.calm(&job.master, minion, from, from + RECOVERY + BOUND) {
                return true;
            }
            from += Duration::from_secs(1);
        }
        false
    }

    /// When all is well again nothing waits anywhere.
    fn check_queues(&mut self, cluster: &Cluster) {
        for minion in cluster.minions() {
            let waiting = cluster.waiting_returns(&minion);
            if !waiting.is_empty() {
                self.wrongs.push(format!("returns still wait at {minion}: {waiting:?}"));
            }
        }
        for master in cluster.masters() {
            let held = cluster.held_jobs(&master);
            if !held.is_empty() {
                self.wrongs.push(format!("jobs are still held at {master}: {held:?}"));
            }
        }
        let directions = cluster.sim.directions();
        if directions.len() > cluster.plan.masters * cluster.plan.minions * MOST_DIRECTIONS {
            self.wrongs.push(format!("{} directions of connections are left: {directions:?}", directions.len()));
        }
    }

    /// Looks at the scheduled jobs of all minions: each ran once when it was due, and its return can be read at a master.
    fn check_schedules(&mut self, cluster: &Cluster) {
        let second = Duration::from_secs(1);
        for minion in cluster.minions() {
            let ran = cluster.ear.scheduled(&minion);
            for (jid, at) in &ran {
                let done = cluster.ear.done(jid, &minion);
                if !is_readable(cluster, jid, &minion) && !self.may_lose(&minion, *at, done) {
                    self.wrongs.push(format!("the return of {minion} for the scheduled job {jid} came to no master"));
                }
            }
            for pair in ran.windows(2) {
                let (from, to) = (pair[0].1, pair[1].1);
                // A minion that starts runs its jobs at once, and counts from there.
                if self.died(&minion, from, to) || cluster.ear.started(&minion, from, to) {
                    continue;
                }
                if to - from < BEAT - second {
                    self.wrongs.push(format!("{minion} ran its scheduled job twice within {:?}", to - from));
                }
                if to - from > BEAT + second && self.is_well(&minion, from, to) {
                    self.wrongs.push(format!("{minion} ran no scheduled job for {:?}", to - from));
                }
            }
            let now = cluster.sim.elapsed();
            let since = now.saturating_sub(BEAT + CHANGE);
            if ran.last().is_none_or(|(_, at)| *at < since)
                && self.is_well(&minion, since, now)
                && !self.died(&minion, since, now)
            {
                self.wrongs.push(format!("{minion} has stopped to run its scheduled job: {ran:?}"));
            }
        }
    }

    /// Looks at all jobs when the storm is over and everything has healed.
    pub fn check_end(&mut self, cluster: &Cluster) {
        for (jid, minion) in cluster.ear.begun_twice() {
            self.wrongs.push(format!("{minion} began job {jid} more than once"));
        }
        for ((jid, minion), times) in cluster.ear.told_twice() {
            self.wrongs.push(format!("the return of {minion} for job {jid} was told of as new by {times:?}"));
        }
        self.check_queues(cluster);
        self.check_schedules(cluster);
        for job in &self.jobs {
            for minion in &job.targets {
                let begun = cluster.ear.begun(&job.jid, minion);
                let returned = is_returned(cluster, job, minion);
                self.begun += begun.len();
                self.returned += usize::from(returned);
                match begun.first() {
                    None if returned => self.wrongs.push(format!("{minion} returned job {} without it", job.jid)),
                    None => {
                        self.missed += 1;
                        if cluster.plan.mode == Mode::Hot && self.had_a_chance(job, minion) {
                            let words = format!("{minion} was there in time but never began job {}", job.jid);
                            self.wrongs.push(words);
                        }
                    }
                    Some(at) if !returned && !self.may_lose(minion, *at, cluster.ear.done(&job.jid, minion)) => {
                        let words = format!("the return of {minion} for job {} never came to {}", job.jid, job.master);
                        self.wrongs.push(words);
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// Says whether the return of a minion for a job that nobody published can be read anywhere.
fn is_readable(cluster: &Cluster, jid: &str, minion: &str) -> bool {
    let Ok(id) = wire::MinionId::new(minion) else { return false };
    cluster.masters().iter().any(|master| matches!(cluster.jobs(master).return_of(jid, &id), Ok(Some(_))))
}

/// Says whether the return of a minion can be read where the job was published.
pub fn is_returned(cluster: &Cluster, job: &Job, minion: &str) -> bool {
    let Ok(id) = wire::MinionId::new(minion) else { return false };
    matches!(cluster.jobs(&job.master).return_of(&job.jid, &id), Ok(Some(_)))
}
