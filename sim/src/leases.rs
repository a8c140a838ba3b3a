//! What the set does once: whether two masters ever held one lease, and whether what was done was begun again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::ledger::{Ledger, RECOVERY};
use crate::listen::Said;
use crate::weather::NIGHTLY_WITHIN;

/// Within this time of calm programs run what they run once: their interval, and what they wait for a lease.
const NIGHTLY_AFTER: Duration = Duration::from_secs(240 + 30);

/// Something that a master said of leases and claims, read.
#[derive(Debug, PartialEq, Eq)]
enum Report<'a> {
    /// It holds a lease by votes, until this time.
    ByVotes { lease: &'a str, fence: u64, left: Duration },
    /// It holds a lease because of its name.
    ByRank { lease: &'a str },
    /// It does not hold a lease any more.
    Lost { lease: &'a str },
    /// It begins what is claimed.
    Begins(&'a str),
    /// It has done what it claimed.
    Done(&'a str),
}

/// What a master holds.
#[derive(Clone, Copy, Debug)]
struct Hold {
    since: Duration,
    /// `None`: by rank.
    until: Option<Duration>,
}

impl<'a> Report<'a> {
    fn read(text: &'a str) -> Option<Report<'a>> {
        if let Some(lease) = text.strip_prefix("does not hold the lease ") {
            return Some(Report::Lost { lease });
        }
        if let Some(rest) = text.strip_prefix("holds the lease ") {
            if let Some((lease, _)) = rest.split_once(" by rank") {
                return Some(Report::ByRank { lease });
            }
            let (lease, rest) = rest.split_once(" by votes, with the fence ")?;
            let (fence, rest) = rest.split_once(", for ")?;
            let left = Duration::from_millis(rest.strip_suffix(" ms")?.parse().ok()?);
            return Some(Report::ByVotes { lease, fence: fence.parse().ok()?, left });
        }
        if let Some(rest) = text.strip_prefix("begins ") {
            return rest.split_once(", which ").map(|(claim, _)| Report::Begins(claim));
        }
        let rest = text.strip_prefix("has done ")?;
        rest.split_once(", which ").map(|(claim, _)| Report::Done(claim))
    }
}

/// Returns what was wrong, in words.
pub fn wrongs(cluster: &Cluster, ledger: &Ledger) -> Vec<String> {
    let said = cluster.ear.leases();
    let mut wrongs = two_holders(ledger, &said);
    wrongs.extend(begun_again(ledger, &said));
    let runs = named_runs(&said);
    wrongs.extend(ran_twice(ledger, &runs));
    wrongs.extend(not_run(ledger, &cluster.members(), &runs, cluster.sim.elapsed()));
    wrongs
}

/// Returns when a master last claimed something or had done what it claimed.
pub fn last_claim(cluster: &Cluster) -> Option<Duration> {
    let said = cluster.ear.leases();
    let is_claim = |one: &&Said| matches!(Report::read(&one.text), Some(Report::Begins(_) | Report::Done(_)));
    said.iter().rev().find(is_claim).map(|last| last.at)
}

/// Holds by lease and master.
type Holds<'a> = BTreeMap<(&'a str, &'a str), Hold>;

fn two_holders(ledger: &Ledger, said: &[Said]) -> Vec<String> {
    let (mut wrongs, mut holds, mut fences) = (Vec::new(), Holds::new(), BTreeMap::new());
    for one in said {
        let (host, at) = (one.host.as_str(), one.at);
        let (lease, until) = match Report::read(&one.text) {
            Some(Report::ByVotes { lease, fence, left }) => {
                let (before, last) = *fences.get(lease).unwrap_or(&(0, ""));
                if fence < before || fence == before && last != host {
                    wrongs.push(format!("{at:?}: {host} holds {lease} with a fence that is not above that of {last}"));
                }
                fences.insert(lease, (fence, host));
                (lease, Some(at + left))
            }
            Some(Report::ByRank { lease }) => (lease, None),
            Some(Report::Lost { lease }) => {
                if let Some(hold) = holds.remove(&(lease, host)) {
                    wrongs.extend(calm_together(ledger, &holds, (lease, host), hold, at));
                }
                continue;
            }
            _ => continue,
        };
        let by_votes = |hold: &Hold| hold.until.is_some_and(|until| until > at);
        let others = holds.iter().filter(|((held, other), _)| *held == lease && *other != host);
        if let Some(((_, other), _)) = until.and(others.clone().find(|(_, hold)| by_votes(hold))) {
            wrongs.push(format!("{at:?}: {host} holds the lease {lease} by votes, and so does {other}"));
        }
        let since = match holds.get(&(lease, host)) {
            // A hold by votes that has ended was followed by another one.
            Some(hold) if hold.until.is_none_or(|until| until >= at) && !ledger.died(host, hold.since, at) => {
                hold.since
            }
            _ => at,
        };
        holds.insert((lease, host), Hold { since, until });
    }
    let end = said.last().map_or(Duration::ZERO, |last| last.at);
    for ((lease, host), hold) in &holds {
        wrongs.extend(calm_together(ledger, &holds, (lease, host), *hold, end));
    }
    wrongs
}

/// Returns the masters that hold a lease by rank beside a master, although both have been calm for long enough to know.
fn calm_together(
    ledger: &Ledger,
    holds: &Holds,
    (lease, host): (&str, &str),
    hold: Hold,
    end: Duration,
) -> Vec<String> {
    let end = hold.until.map_or(end, |until| until.min(end));
    let others = holds.iter().filter(|((held, other), _)| *held == lease && *other != host);
    let beside = others.filter(|((_, other), held)| {
        let from = hold.since.max(held.since) + RECOVERY;
        let to = held.until.map_or(end, |until| until.min(end));
        let alive = !ledger.died(host, hold.since, to) && !ledger.died(other, held.since, to);
        let is_calm = |at: Duration| ledger.calm(host, other, at.saturating_sub(RECOVERY), at);
        alive && seconds(from, to).any(is_calm)
    });
    beside
        .map(|((_, other), _)| format!("{end:?}: {host} and {other} both hold the lease {lease} in calm weather"))
        .collect()
}

fn seconds(from: Duration, to: Duration) -> impl Iterator<Item = Duration> {
    let count = to.checked_sub(from).map_or(0, |time| time.as_secs() + 1);
    (0..count).map(move |second| from + Duration::from_secs(second))
}

/// A run of what programs on all masters run once.
struct Run<'a> {
    host: &'a str,
    at: Duration,
}

/// Returns the runs of the one that storms start, in their order.
fn named_runs(said: &[Said]) -> Vec<Run<'_>> {
    let is_named = |claim: &str| claim.starts_with("run\\nightly/");
    let begins =
        said.iter().filter(|one| matches!(Report::read(&one.text), Some(Report::Begins(claim)) if is_named(claim)));
    begins.map(|one| Run { host: &one.host, at: one.at }).collect()
}

/// Returns the runs that began in the period of one on another master, although that one could be known.
fn ran_twice(ledger: &Ledger, runs: &[Run<'_>]) -> Vec<String> {
    // Members allow for a tenth: clocks differ. Each counts from when it had the claim, which takes a moment to arrive.
    let period = Duration::from_secs(NIGHTLY_WITHIN as u64) / 10 * 9 - Duration::from_secs(1);
    let mut wrongs = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        let earlier = runs[..place].iter().filter(|other| other.host != run.host && other.at + period > run.at);
        let mut known = earlier.filter(|other| {
            let were_calm = ledger.calm(other.host, run.host, other.at.saturating_sub(RECOVERY), run.at);
            (were_calm || ledger.were_linked(other.host, run.host, other.at, run.at))
                && !ledger.lost_since(run.host, other.at, run.at)
        });
        if let Some(other) = known.next() {
            wrongs.push(format!(
                "{:?}: {} runs what {} ran at {:?}, which the set does once",
                run.at, run.host, other.host, other.at
            ));
        }
    }
    wrongs
}

/// Returns when no master ran for a whole period what programs run once, although all was calm.
fn not_run(ledger: &Ledger, members: &[String], runs: &[Run<'_>], end: Duration) -> Vec<String> {
    let is_calm = |from: Duration, to: Duration| {
        members.iter().enumerate().all(|(place, one)| {
            let others = members[..place].iter();
            let mut paths = others.map(|other| ledger.calm(one, other, from, to));
            paths.all(|calm| calm) && !ledger.died(one, from, to) && ledger.is_clock_right(one, from, to)
        })
    };
    let ends = runs.iter().map(|run| run.at).chain([end]);
    let gaps = [Duration::ZERO].into_iter().chain(runs.iter().map(|run| run.at)).zip(ends);
    let starved = gaps.filter_map(|(from, to)| {
        let last = to.checked_sub(NIGHTLY_AFTER)?;
        seconds(from, last).find(|at| is_calm(at.saturating_sub(RECOVERY), *at + NIGHTLY_AFTER))
    });
    starved.map(|at| format!("from {at:?} on nobody ran for {NIGHTLY_AFTER:?} what the set does once")).collect()
}

/// Returns what was begun although the master could know that it had begun before.
fn begun_again(ledger: &Ledger, said: &[Said]) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut known: BTreeMap<&str, Vec<(&str, Duration)>> = BTreeMap::new();
    for one in said {
        let (claim, begins) = match Report::read(&one.text) {
            Some(Report::Begins(claim)) => (claim, true),
            Some(Report::Done(claim)) => (claim, false),
            _ => continue,
        };
        let (host, at) = (one.host.as_str(), one.at);
        let earlier = known.entry(claim).or_default();
        let knew = |(other, before): &&(&str, Duration)| match *other == host {
            true => !ledger.lost_since(host, *before, at) && ledger.could_write(host, *before),
            false => ledger.were_linked(other, host, *before, at),
        };
        if begins && let Some((other, before)) = earlier.iter().find(knew) {
            wrongs.push(format!("{at:?}: {host} begins {claim}, which {other} began or had done at {before:?}"));
        }
        earlier.push((host, at));
    }
    wrongs
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn said(all: &[(u64, &str, &str)]) -> Vec<Said> {
        let one = |(seconds, host, text): &(u64, &str, &str)| Said {
            host: (*host).to_owned(),
            at: at(*seconds),
            text: (*text).to_owned(),
        };
        all.iter().map(one).collect()
    }

    const VOTES: &str = "holds the lease a by votes, with the fence 7, for 5400 ms";
    const LATER: &str = "holds the lease a by votes, with the fence 8, for 5400 ms";
    const RANK: &str = "holds the lease a by rank, with the fence 7";
    const LOST: &str = "does not hold the lease a";

    #[test]
    fn two_holders_by_votes_are_found_whatever_the_weather() {
        let mut ledger = Ledger::default();
        ledger.trouble("m1", at(0));
        let found = |all: &[(u64, &str, &str)]| two_holders(&ledger, &said(all)).len();
        assert_eq!(found(&[(100, "m1", VOTES), (105, "m2", LATER)]), 1);
        assert_eq!(found(&[(100, "m1", VOTES), (106, "m2", LATER)]), 0);
        assert_eq!(found(&[(100, "m1", VOTES), (102, "m1", LOST), (103, "m2", LATER)]), 0);
        assert_eq!(found(&[(100, "m1", LATER), (110, "m2", VOTES)]), 1, "the fence of a later holder is higher");
        assert_eq!(found(&[(100, "m1", RANK), (300, "m2", RANK)]), 0);
    }

    #[test]
    fn two_holders_by_rank_are_found_in_calm_weather() {
        let two = said(&[(100, "m1", RANK), (120, "m2", RANK), (300, "m2", LOST)]);
        assert_eq!(two_holders(&Ledger::default(), &two).len(), 1);
        let mut cut = Ledger::default();
        cut.trouble("m1-m2", at(90));
        cut.relief("m1-m2", at(280));
        assert_eq!(two_holders(&cut, &two), Vec::<String>::new());
        let mut dead = Ledger::default();
        dead.death("m1", at(119));
        assert_eq!(two_holders(&dead, &two), Vec::<String>::new());
    }

    const NIGHTLY: &str = "begins run\\nightly/1600000000, which no other master may begin";

    #[test]
    fn what_programs_run_once_is_not_run_again_by_who_can_know() {
        let found = |ledger: &Ledger, all: &[(u64, &str, &str)]| ran_twice(ledger, &named_runs(&said(all))).len();
        let twice = [(100, "m1", NIGHTLY), (101, "m2", NIGHTLY)];
        assert_eq!(found(&Ledger::default(), &twice), 1);
        assert_eq!(found(&Ledger::default(), &[(100, "m1", NIGHTLY), (280, "m2", NIGHTLY)]), 0, "another period");
        assert_eq!(found(&Ledger::default(), &[(100, "m1", NIGHTLY), (101, "m1", NIGHTLY)]), 0, "its own matter");
        let mut cut = Ledger::default();
        cut.trouble("m1-m2", at(100));
        assert_eq!(found(&cut, &twice), 0);
    }

    #[test]
    fn a_period_of_calm_in_which_nobody_runs_is_found() {
        let members = ["m1".to_owned(), "m2".to_owned()];
        let found = |ledger: &Ledger, all: &[(u64, &str, &str)], end| {
            not_run(ledger, &members, &named_runs(&said(all)), at(end)).len()
        };
        let runs = [(240, "m1", NIGHTLY), (480, "m2", NIGHTLY)];
        assert_eq!(found(&Ledger::default(), &runs, 740), 0);
        assert_eq!(found(&Ledger::default(), &runs, 751), 1, "at the end");
        assert_eq!(found(&Ledger::default(), &runs[1..], 740), 1, "before the first");
        let mut dead = Ledger::default();
        dead.death("m1", at(700));
        assert_eq!(found(&dead, &runs, 751), 0);
    }

    #[test]
    fn what_was_begun_is_begun_again_only_by_who_cannot_know() {
        let (begins, done) =
            ("begins a/60, which no other master may begin", "has done a/60, which no master may begin again");
        let all = said(&[(100, "m1", begins), (101, "m1", done), (120, "m2", begins)]);
        assert_eq!(begun_again(&Ledger::default(), &all).len(), 1);
        let mut cut = Ledger::default();
        cut.trouble("m1-m2", at(99));
        assert_eq!(begun_again(&cut, &all), Vec::<String>::new());
        let again = said(&[(100, "m1", begins), (101, "m1", done), (120, "m1", begins)]);
        assert_eq!(begun_again(&cut, &again).len(), 1, "it knows what it did itself");
    }
}
