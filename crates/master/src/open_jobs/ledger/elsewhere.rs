//! What other masters of the set deliver: which of them was told about which target, and what is sent again.
//!
//! Nobody knows whether a job that was sent to another master has arrived there, until its targets return. So it is sent again
//! when the link breaks, and to the next master when a target moves. A master that has the job already passes over it, and
//! minions run no job twice.

use std::collections::BTreeSet;
use std::time::Duration;

use share::Node;

use super::{Entry, Ledger, Progress};

/// A job that has not reached some of its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// Its id.
    pub jid: String,
    /// For how much longer it may be started.
    pub left: Duration,
    /// These targets.
    pub targets: Vec<String>,
}

impl Ledger {
    /// Notes that another master is told to deliver a job to these targets.
    pub fn forwarded<'a>(&mut self, jid: &str, to: Node, ids: impl IntoIterator<Item = &'a str>) {
        let Some(entry) = self.entries.get_mut(jid) else { return };
        for id in ids {
            if let Some(place) = entry.place(id).filter(|place| entry.targets[*place].is_open()) {
                entry.advance(place, Progress::Sent, &mut self.unconfirmed);
                entry.targets[place].via = Some(to);
            }
        }
    }

    /// Notes that another master could not be told to deliver a job to these targets after all.
    pub fn not_forwarded<'a>(&mut self, jid: &str, to: Node, ids: impl IntoIterator<Item = &'a str>) {
        let Some(entry) = self.entries.get_mut(jid) else { return };
        for id in ids {
            if let Some(place) = entry.place(id) {
                take_back(entry, place, to);
            }
        }
    }

    /// Notes that another master is not linked any more: what it was told may not have arrived.
    pub fn lose_member(&mut self, member: Node) {
        for entry in self.entries.values_mut().filter(|entry| entry.publication.is_some()) {
            (0..entry.targets.len()).for_each(|place| take_back(entry, place, member));
        }
    }

    /// Returns the minions that have not confirmed some job that may still be delivered, in any order.
    pub fn awaited(&self) -> impl Iterator<Item = &str> {
        self.unconfirmed.keys().map(|id| &**id)
    }

    /// Returns the valid jobs, the oldest first, that another master must be told to deliver to targets that are connected to it,
    /// `there`. These targets count as sent to by it. `stays` returns whether a target is still connected to the master that
    /// delivers its jobs, or to this one if that is `None`.
    pub fn undelivered(
        &mut self,
        there: &BTreeSet<String>,
        to: Node,
        stays: impl Fn(&str, Option<Node>) -> bool,
        now: Duration,
    ) -> Vec<Undelivered> {
        // Minions that come again and again cost no look at all jobs.
        let there: Vec<&str> =
            there.iter().map(String::as_str).filter(|id| self.unconfirmed.contains_key(*id)).collect();
        if there.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        let valid: BTreeSet<&String> = self.ends.iter().filter(|(until, _)| *until > now).map(|(_, jid)| jid).collect();
        for jid in valid {
            let Some(entry) = self.entries.get_mut(jid).filter(|_| found.len() < self.limits.offers) else { continue };
            let mut targets = Vec::new();
            for id in &there {
                let Some(place) = entry.place(id) else { continue };
                let target = &entry.targets[place];
                let lacks = match target.progress {
                    Progress::Unreachable => true,
                    Progress::Sent => target.via != Some(to) && !stays(id, target.via),
                    _ => false,
                };
                if lacks {
                    targets.push((*id).to_owned());
                    entry.advance(place, Progress::Sent, &mut self.unconfirmed);
                    entry.targets[place].via = Some(to);
                }
            }
            if !targets.is_empty() {
                found.push(Undelivered { jid: jid.clone(), left: entry.until - now, targets });
            }
        }
        found
    }

    /// Returns those of a job's targets to which it was not sent yet; `None` if the job is not here.
    pub fn lacking(&self, jid: &str, targets: &[String]) -> Option<Vec<String>> {
        let entry = self.entries.get(jid)?;
        let lacks = |id: &&String| entry.place(id).is_none_or(|place| entry.targets[place].progress < Progress::Sent);
        Some(targets.iter().filter(lacks).cloned().collect())
    }

    /// Returns all targets of a job.
    pub fn targets(&self, jid: &str) -> Vec<String> {
        let targets = self.entries.get(jid).map(|entry| entry.targets.as_slice()).unwrap_or_default();
        targets.iter().map(|target| target.id.to_string()).collect()
    }
}

/// Takes back that a job was sent to a target by another master.
fn take_back(entry: &mut Entry, place: usize, from: Node) {
    let target = &mut entry.targets[place];
    if target.via == Some(from) {
        target.via = None;
        // What it has confirmed or returned stays.
        if target.progress == Progress::Sent {
            target.progress = Progress::Unreachable;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_jobs::ledger::tests::{NODES, at, held, job, states};

    /// Returns what a master is told for the targets that are connected to it, while targets stay where they are or all have moved.
    fn told(ledger: &mut Ledger, to: Node, there: &[&str], stay: bool, now: u64) -> Vec<(String, Vec<String>)> {
        let there = there.iter().map(|id| (*id).to_owned()).collect();
        let found = ledger.undelivered(&there, to, |_, _| stay, at(now));
        found.into_iter().map(|one| (one.jid, one.targets)).collect()
    }

    fn one(jid: &str, ids: &[&str]) -> (String, Vec<String>) {
        (jid.to_owned(), ids.iter().map(|id| (*id).to_owned()).collect())
    }

    #[test]
    fn what_reached_nobody_is_found_for_those_that_are_there_and_once() {
        let mut ledger = Ledger::default();
        ledger.enter(job("1", &["a", "b"], 30)).unwrap();
        ledger.enter(job("2", &["a"], 5)).unwrap();
        ledger.enter(job("3", &["a", "c"], 30)).unwrap();
        ledger.advance("3", "a", Progress::Sent, at(1));
        assert_eq!(told(&mut ledger, NODES[0], &["z"], true, 1), []);
        let found = told(&mut ledger, NODES[0], &["a", "c"], true, 10);
        assert_eq!(found, [one("1", &["a"]), one("3", &["c"])]);
        assert_eq!(told(&mut ledger, NODES[0], &["a", "c"], true, 11), [], "they count as sent to");
        assert_eq!(told(&mut ledger, NODES[0], &["b"], true, 30), [], "it is too late");
        ledger.expire(at(60));
        assert_eq!(ledger.awaited().count(), 0);
    }

    #[test]
    fn what_may_be_lost_with_a_link_is_sent_again_and_what_has_returned_is_not() {
        let mut ledger = Ledger::default();
        ledger.enter(job("1", &["a", "b", "c", "d"], 30)).unwrap();
        ledger.forwarded("1", NODES[0], ["a", "b"]);
        ledger.forwarded("1", NODES[1], ["c"]);
        ledger.sent_to(&["d"].into());
        ledger.advance("1", "b", Progress::Returned, at(1));
        let all = ["a", "b", "c", "d"];
        assert_eq!(told(&mut ledger, NODES[0], &all, true, 2), [], "all of it is on its way");
        ledger.lose_member(NODES[0]);
        let now = ["unreachable", "returned", "sent", "sent"];
        assert_eq!(states(&ledger, "1").into_iter().map(|(_, state)| state).collect::<Vec<_>>(), now);
        assert_eq!(told(&mut ledger, NODES[0], &all, true, 3), [one("1", &["a"])]);
        ledger.not_forwarded("1", NODES[0], ["a"]);
        assert_eq!(told(&mut ledger, NODES[1], &all, true, 3), [one("1", &["a"])], "it could not be told");
    }

    #[test]
    fn a_target_that_moves_gets_the_job_where_it_is() {
        let mut ledger = Ledger::default();
        ledger.enter(held("1", &["a", "b"], 30)).unwrap();
        ledger.forwarded("1", NODES[0], ["a"]);
        ledger.sent_to(&["b"].into());
        let both = ["a", "b"];
        assert_eq!(told(&mut ledger, NODES[1], &both, true, 1), [], "they are connected to both");
        assert_eq!(told(&mut ledger, NODES[0], &["a"], false, 1), [], "it was told");
        assert_eq!(told(&mut ledger, NODES[1], &both, false, 1), [one("1", &both)]);
        ledger.advance("1", "a", Progress::Received, at(2));
        assert_eq!(told(&mut ledger, NODES[0], &both, false, 2), [one("1", &["b"])], "the other has confirmed it");
        ledger.missed("b", &[].into(), at(3));
        ledger.lose_member(NODES[0]);
        assert_eq!(states(&ledger, "1")[1].1, "sent", "it came here for it");
    }

    #[test]
    fn a_master_that_is_told_again_knows_what_it_has() {
        let mut ledger = Ledger::default();
        let ids = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(ledger.lacking("1", &ids), None);
        ledger.enter(job("1", &["a", "b"], 30)).unwrap();
        ledger.sent_to(&["a"].into());
        assert_eq!(ledger.lacking("1", &ids), Some(vec!["b".to_owned(), "c".to_owned()]));
        assert_eq!(ledger.targets("1"), ["a", "b"]);
    }
}
