//! Records which jobs were accepted and what was in trouble at which time, and checks the invariants against that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cluster::{BEAT, Cluster, Mode};
use crate::leases;
use crate::listen::Reports;
use crate::operator::Job;
use crate::shared;

/// The record of one storm.
#[derive(Default)]
pub struct Ledger {
    /// The jobs that masters accepted.
    pub jobs: Vec<Job>,
    /// Violated invariants, in words.
    pub wrongs: Vec<String>,
    /// The times at which a host, or the path between two, was in trouble. Ongoing trouble has no end yet.
    troubles: BTreeMap<String, Vec<(Duration, Option<Duration>)>>,
    /// The times at which the program of a host was killed or stopped.
    deaths: BTreeMap<String, Vec<Duration>>,
    /// The times at which the directory of a master was copied.
    backups: BTreeMap<String, Duration>,
    /// The masters whose directory was copied while its keys were wiped.
    wiped_copies: BTreeSet<String>,
    /// The times from and until which a master lost what was on its disk.
    losses: BTreeMap<String, Vec<(Duration, Duration)>>,
    /// When the key files of each master were wiped.
    wipes: BTreeMap<String, Vec<Duration>>,
    /// When an operator had the lost keys of a master written again.
    restores: BTreeMap<String, Vec<Duration>>,
    /// When a master was removed from the set, and when it joined again.
    removals: BTreeMap<String, Vec<(Duration, Option<Duration>)>>,
    /// The number of commands that minions began.
    pub begun: usize,
    /// Returns that could be read where the job was published.
    pub returned: usize,
    /// Commands that were never begun, which is allowed only in trouble.
    pub missed: usize,
}

/// The time a minion has after trouble to be back at its masters.
pub const RECOVERY: Duration = Duration::from_secs(40);

/// The time a minion in failover mode has to find a reachable master.
pub const CHANGE: Duration = Duration::from_secs(120);

/// The time after which a short job must have returned if nothing was in trouble.
pub const BOUND: Duration = Duration::from_secs(20);

/// Key files that vanish within this time count together: many at once are a loss and no decisions. It is five seconds, and one more
/// in which a file may come back.
pub const LOSS_WINDOW: Duration = Duration::from_millis(6_500);

/// The time in which masters that are linked tell each other what is new.
pub const LINKED: Duration = Duration::from_secs(5);

/// Directions of connections between a master and a minion: a subscription, a watch, and eight requests at a time.
const MOST_DIRECTIONS: usize = 20;

/// Directions of connections between two masters of a set: two lanes, dialled from both sides.
const MOST_LINK_DIRECTIONS: usize = 4;

/// Returns how long a minion may take after trouble until it has found a master.
fn recovery(cluster: &Cluster) -> Duration {
    match (cluster.plan.sharing, cluster.plan.mode) {
        (true, Mode::Failover) => CHANGE,
        _ => RECOVERY,
    }
}

/// Returns the name of the path between two hosts, in either order.
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

/// Returns what must be well for two hosts to work with each other.
fn between(one: &str, other: &str) -> [String; 5] {
    [one.to_owned(), other.to_owned(), disk(one), disk(other), way(one, other)]
}

impl Ledger {
    /// Trouble begins.
    pub fn trouble(&mut self, what: &str, now: Duration) {
        self.troubles.entry(what.to_owned()).or_default().push((now, None));
    }

    /// Trouble ends.
    pub fn relief(&mut self, what: &str, now: Duration) {
        // Faults may overlap, so this ends just one of them. Which one does not matter: the host is well only when all
        // have ended.
        let open = self.troubles.get_mut(what).and_then(|all| all.iter_mut().find(|trouble| trouble.1.is_none()));
        if let Some(trouble) = open {
            trouble.1 = Some(now);
        }
    }

    /// The program of a host was killed or stopped.
    pub fn death(&mut self, host: &str, now: Duration) {
        self.deaths.entry(host.to_owned()).or_default().push(now);
    }

    /// The directory of a master was copied.
    pub fn back_up(&mut self, master: &str, now: Duration) {
        self.backups.insert(master.to_owned(), now);
        let last = |times: &BTreeMap<String, Vec<Duration>>| times.get(master).and_then(|times| times.last()).copied();
        if last(&self.wipes) > last(&self.restores) {
            self.wiped_copies.insert(master.to_owned());
        }
    }

    /// Returns whether there is a copy of the directory of a master.
    pub fn has_backup(&self, master: &str) -> bool {
        self.backups.contains_key(master)
    }

    /// Returns whether the copy of the directory of a master has no keys.
    pub fn is_copy_wiped(&self, master: &str) -> bool {
        self.wiped_copies.contains(master)
    }

    /// A master lost its disk, or what was written there since the directory was copied.
    pub fn lose_disk(&mut self, master: &str, now: Duration) {
        let since = self.backups.remove(master).unwrap_or_default();
        self.losses.entry(master.to_owned()).or_default().push((since, now));
    }

    /// The accepted keys of a master were wiped.
    pub fn wipe_keys(&mut self, master: &str, now: Duration) {
        self.wipes.entry(master.to_owned()).or_default().push(now);
    }

    /// The lost keys of a master were written again.
    pub fn restore_keys(&mut self, master: &str, now: Duration) {
        self.restores.entry(master.to_owned()).or_default().push(now);
    }

    /// Returns whether a master, which reported lost keys at these times, tells others nothing of a file that is deleted at a time.
    pub fn is_silent(&self, master: &str, lost: &[Duration], at: Duration) -> bool {
        let restores = self.restores.get(master).map(Vec::as_slice).unwrap_or_default();
        lost.iter().any(|lost| *lost <= at + LOSS_WINDOW && !restores.iter().any(|now| (*lost..=at).contains(now)))
    }

    /// Returns whether a file that vanished at a time counts among those that were wiped shortly after, as the master cannot tell
    /// them apart.
    pub fn counts_as_wiped(&self, master: &str, at: Duration) -> bool {
        let wipes = self.wipes.get(master).map(Vec::as_slice).unwrap_or_default();
        wipes.iter().any(|now| (at..=at + LOSS_WINDOW).contains(now))
    }

    /// Returns when a master lost something that it had on its disk at a time.
    fn lost_at(&self, master: &str, had: Duration) -> Option<Duration> {
        let losses = self.losses.get(master).map(Vec::as_slice).unwrap_or_default();
        losses.iter().find(|(since, now)| *since <= had && had <= *now).map(|(_, now)| *now)
    }

    /// Notes that an operator removes a master from the set.
    pub fn remove(&mut self, master: &str, now: Duration) {
        self.removals.entry(master.to_owned()).or_default().push((now, None));
    }

    /// Notes that a removed master has started with a new member key.
    pub fn join_again(&mut self, master: &str, now: Duration) {
        if let Some((_, joined)) = self.removals.get_mut(master).and_then(|removals| removals.last_mut()) {
            *joined = Some(now);
        }
    }

    /// Returns whether a master was removed when it told others of a key file that vanished at a time: that counts nowhere.
    pub fn decided_removed(&self, master: &str, at: Duration) -> bool {
        let during = |(removed, joined): &(Duration, Option<Duration>)| {
            *removed <= at + LOSS_WINDOW && joined.is_none_or(|joined| at <= joined)
        };
        self.removals.get(master).is_some_and(|removals| removals.iter().any(during))
    }

    /// Returns whether a master was removed after a time: it has what the others know, and may have forgotten what only it knew.
    pub fn was_removed_since(&self, master: &str, at: Duration) -> bool {
        self.removals.get(master).is_some_and(|removals| removals.iter().any(|(removed, _)| *removed >= at))
    }

    /// Returns whether a master lost its disk, or a part of what is on it, within a time.
    pub fn lost_since(&self, master: &str, from: Duration, to: Duration) -> bool {
        let losses = self.losses.get(master).map(Vec::as_slice).unwrap_or_default();
        losses.iter().any(|(_, now)| (from..=to).contains(now))
    }

    /// Returns whether a master could write at a time.
    pub fn could_write(&self, master: &str, at: Duration) -> bool {
        self.is_well(&disk(master), at, at)
    }

    /// Returns whether a return may be lost with the disk of a master that had it before any other.
    fn may_lose_with_disk(&self, cluster: &Cluster, done: Duration) -> bool {
        cluster.masters().iter().any(|master| {
            let others = || cluster.masters().into_iter().filter(|other| other != master);
            let lost = self.lost_at(master, done);
            lost.is_some_and(|lost| !others().any(|other| self.were_linked(master, &other, done, lost)))
        })
    }

    /// Returns whether two hosts were calm together for long enough, within a time, for one to tell the other what it has.
    pub fn were_linked(&self, one: &str, other: &str, from: Duration, to: Duration) -> bool {
        let between = between(one, other);
        let mut at = from;
        while at + LINKED <= to {
            if between.iter().all(|what| self.is_well(what, at.saturating_sub(RECOVERY), at + LINKED)) {
                return true;
            }
            at += Duration::from_secs(1);
        }
        false
    }

    /// Returns whether two hosts, their disks and the path between them were without trouble during a time.
    pub fn calm(&self, one: &str, other: &str, from: Duration, to: Duration) -> bool {
        between(one, other).iter().all(|what| self.is_well(what, from, to))
    }

    /// Returns whether the clock of a host was right during a time.
    pub fn is_clock_right(&self, host: &str, from: Duration, to: Duration) -> bool {
        self.is_well(&clock(host), from, to)
    }

    /// Returns whether a master and its disk are without trouble now.
    pub fn works(&self, master: &str, now: Duration) -> bool {
        self.is_well(master, now, now) && self.is_well(&disk(master), now, now)
    }

    /// Returns whether a master could reach a minion during a time: of its own, or through any member of its set.
    fn reachable(&self, cluster: &Cluster, master: &str, minion: &str, from: Duration, to: Duration) -> bool {
        if !cluster.plan.sharing {
            return self.calm(master, minion, from, to);
        }
        let masters = cluster.masters();
        let hosts: Vec<&str> = masters.iter().map(String::as_str).chain([minion]).collect();
        let mut pairs =
            hosts.iter().enumerate().flat_map(|(place, one)| hosts[..place].iter().map(move |other| (one, other)));
        pairs.all(|(one, other)| self.calm(one, other, from, to))
    }

    fn is_well(&self, what: &str, from: Duration, to: Duration) -> bool {
        let troubles = self.troubles.get(what).map(Vec::as_slice).unwrap_or_default();
        troubles.iter().all(|(began, over)| *began > to || over.is_some_and(|over| over < from))
    }

    /// Returns whether the program of a host was killed or stopped within a time.
    pub fn died(&self, host: &str, from: Duration, to: Duration) -> bool {
        self.deaths.get(host).is_some_and(|deaths| deaths.iter().any(|at| (from..=to).contains(at)))
    }

    /// Checks jobs that all masters published at once, for minions in failover mode: a minion with a master out of
    /// trouble must have begun one of them.
    pub fn check_round(&mut self, cluster: &Cluster, jobs: &[Job]) {
        let Some(first) = jobs.first() else { return };
        // It is unpredictable which master a minion follows, hence a job at each of them.
        let (from, to) = (first.accepted.saturating_sub(CHANGE), first.accepted + BOUND);
        for minion in cluster.minions() {
            let has_master = cluster.masters().iter().any(|master| self.calm(master, &minion, from, to));
            let begun = jobs.iter().filter(|job| !cluster.ear.begun(&job.jid, &minion).is_empty()).count();
            if has_master && jobs.len() == cluster.plan.masters && begun == 0 {
                self.wrongs.push(format!("{minion} began none of the jobs {} and so on", first.jid));
            }
        }
    }

    /// Returns whether a return may be lost: a minion that is killed during a job has nothing to return, and one with a
    /// full disk has the return in memory only.
    fn may_lose(&self, minion: &str, begun: Duration, done: Option<Duration>) -> bool {
        match done {
            None => self.died(minion, begun, Duration::MAX),
            Some(done) => self.died(minion, done, Duration::MAX) && !self.is_well(&disk(minion), done, done),
        }
    }

    fn may_lose_return(&self, cluster: &Cluster, jid: &str, minion: &str, begun: Duration) -> bool {
        let done = cluster.ear.done(jid, minion);
        self.may_lose(minion, begun, done) || done.is_some_and(|done| self.may_lose_with_disk(cluster, done))
    }

    /// Checks a job some time after it was accepted: minions that had no trouble must have returned it.
    pub fn check_calm(&mut self, cluster: &Cluster, job: &Job) {
        let from = job.accepted.saturating_sub(recovery(cluster));
        for minion in &job.targets {
            if !self.reachable(cluster, &job.master, minion, from, job.accepted + BOUND) {
                continue;
            }
            if cluster.ear.begun(&job.jid, minion).is_empty() {
                self.wrongs.push(format!("{minion} did not begin job {} of {} in calm weather", job.jid, job.master));
            } else if !is_returned(cluster, job, minion) {
                self.wrongs.push(format!("{minion} did not return job {} of {} in calm weather", job.jid, job.master));
            }
        }
    }

    /// Returns whether a minion was well connected for long enough while a job was still valid.
    fn had_a_chance(&self, cluster: &Cluster, job: &Job, minion: &str) -> bool {
        // A job that a minion had confirmed when it died is not sent again, because it might have begun. On a slow
        // path, the job, the receipt and the answer take half a second each.
        let (moment, journeys) = (Duration::from_secs(1), Duration::from_secs(3));
        if self.died(minion, job.accepted.saturating_sub(moment), job.accepted + journeys) {
            return false;
        }
        let end = job.accepted + job.valid;
        if self.lost_at(&job.master, job.accepted).is_some_and(|lost| lost <= end) {
            return false;
        }
        // A master that starts with a wrong clock cannot know how long a job remains valid.
        if self.died(&job.master, job.accepted, end) && !self.is_well(&clock(&job.master), job.accepted, end) {
            return false;
        }
        let recovery = recovery(cluster);
        let mut from = job.accepted.saturating_sub(recovery);
        // A window that slides by a second: any calm time long enough for reconnecting and running the job is a chance.
        while from + recovery + BOUND <= end {
            if self.reachable(cluster, &job.master, minion, from, from + recovery + BOUND) {
                return true;
            }
            from += Duration::from_secs(1);
        }
        false
    }

    /// Checks that nothing is left to deliver, and that no connections have leaked, after everything has healed.
    fn check_queues(&mut self, cluster: &Cluster) {
        for minion in cluster.minions() {
            let mut waiting = cluster.waiting_returns(&minion);
            // A minion with failover keeps what another master took until it follows the one that gave it the job.
            if cluster.plan.sharing && cluster.plan.mode == Mode::Failover {
                waiting.retain(|name| !shared::is_on_all(cluster, name.split('-').next().unwrap_or_default(), &minion));
            }
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
        let links = if cluster.plan.sharing { cluster.members().len().pow(2) * MOST_LINK_DIRECTIONS } else { 0 };
        if directions.len() > cluster.plan.masters * cluster.plan.minions * MOST_DIRECTIONS + links {
            self.wrongs.push(format!("{} directions of connections are left: {directions:?}", directions.len()));
        }
    }

    /// Checks the scheduled jobs of all minions: each ran once when it was due, and its return can be read at a master.
    fn check_schedules(&mut self, cluster: &Cluster) {
        let second = Duration::from_secs(1);
        for minion in cluster.minions() {
            let ran = cluster.ear.scheduled(&minion);
            for (jid, at) in &ran {
                if !is_readable(cluster, jid, &minion) && !self.may_lose_return(cluster, jid, &minion, *at) {
                    self.wrongs.push(format!("the return of {minion} for the scheduled job {jid} came to no master"));
                }
            }
            for pair in ran.windows(2) {
                let (from, to) = (pair[0].1, pair[1].1);
                // A minion runs its scheduled jobs when it starts, and counts the interval from there.
                if self.died(&minion, from, to) || cluster.ear.started(&minion, from, to) {
                    continue;
                }
                // Even during trouble: no fault is an excuse to run a job twice. A missed run is excused by trouble of
                // the minion.
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

    /// Returns whether each master that told of a return twice had lost its disk meanwhile: what is found again is new there.
    fn told_since_loss(&self, reports: &Reports) -> bool {
        reports.iter().enumerate().all(|(place, (master, at))| {
            let before = reports[..place].iter().rev().find(|(other, _)| other == master);
            before.is_none_or(|(_, before)| self.lost_at(master, *before).is_some_and(|lost| lost <= *at))
        })
    }

    /// Checks all jobs after the storm, when everything has healed.
    pub fn check_end(&mut self, cluster: &Cluster) {
        for (jid, minion) in cluster.ear.begun_twice() {
            self.wrongs.push(format!("{minion} began job {jid} more than once"));
        }
        for ((jid, minion), times) in cluster.ear.told_twice() {
            if self.told_since_loss(&times) {
                continue;
            }
            self.wrongs.push(format!("the return of {minion} for job {jid} was told of as new by {times:?}"));
        }
        self.check_queues(cluster);
        self.check_schedules(cluster);
        if cluster.plan.sharing {
            self.wrongs.extend(shared::differences(cluster, &self.jobs));
            self.wrongs.extend(leases::wrongs(cluster, self));
            self.wrongs.extend(cluster.events.wrongs(&cluster.masters(), self, cluster.sim.elapsed()));
        }
        for job in &self.jobs {
            for minion in &job.targets {
                let begun = cluster.ear.begun(&job.jid, minion);
                let returned = is_returned(cluster, job, minion);
                self.begun += begun.len();
                self.returned += usize::from(returned);
                match begun.first() {
                    // A return without a beginning belongs to another minion or job, or the log was not heard.
                    None if returned => self.wrongs.push(format!("{minion} returned job {} without it", job.jid)),
                    None => {
                        self.missed += 1;
                        // In failover mode a minion rightly misses jobs of masters it does not follow.
                        let reaches_all = cluster.plan.mode == Mode::Hot || cluster.plan.sharing;
                        if reaches_all && self.had_a_chance(cluster, job, minion) {
                            let words = format!("{minion} was there in time but never began job {}", job.jid);
                            self.wrongs.push(words);
                        }
                    }
                    Some(at) if !returned && !self.may_lose_return(cluster, &job.jid, minion, *at) => {
                        let words = format!("the return of {minion} for job {} never came to {}", job.jid, job.master);
                        self.wrongs.push(words);
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// Returns whether a minion's return for a scheduled job can be read at any master.
fn is_readable(cluster: &Cluster, jid: &str, minion: &str) -> bool {
    let Ok(id) = wire::MinionId::new(minion) else { return false };
    cluster.masters().iter().any(|master| matches!(cluster.jobs(master).return_of(jid, &id), Ok(Some(_))))
}

/// Returns whether a minion's return can be read at the master that published the job.
pub fn is_returned(cluster: &Cluster, job: &Job, minion: &str) -> bool {
    let Ok(id) = wire::MinionId::new(minion) else { return false };
    matches!(cluster.jobs(&job.master).return_of(&job.jid, &id), Ok(Some(_)))
}
