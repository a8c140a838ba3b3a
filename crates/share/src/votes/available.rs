//! The mode `available`: the first linked member by name holds each lease. In a partition each side has a holder.

use std::collections::BTreeMap;

use super::{Ballot, LeaseAction, Vote, VoteMessage, Voters};
use crate::Node;

/// How long a member is away before the next one takes its leases.
pub(super) const PATIENCE: u64 = 10_000;

/// How often a question is repeated that was not answered: messages may be lost.
const REPEAT: u64 = 1_000;

/// A member in the mode `available`.
///
/// A member takes a lease when all members before it have been away for ten seconds, and those behind it that are linked do not
/// hold it. It gives the lease back when a member before it is linked and no run is under way.
#[derive(Clone, Debug)]
pub(super) struct Available {
    me: Node,
    voters: Voters,
    ranking: Vec<Node>,
    links: BTreeMap<Node, Link>,
    leases: BTreeMap<Box<str>, Lease>,
    round: u64,
    started: u64,
    /// Nothing is taken before.
    from: u64,
}

/// A contact with another member, or the lack of one.
#[derive(Clone, Copy, Debug)]
struct Link {
    up: bool,
    since: u64,
}

#[derive(Clone, Debug, Default)]
struct Lease {
    held: Option<Ballot>,
    runs: usize,
    /// A member before this one holds the lease too, since a partition: this one begins nothing more.
    ending: bool,
    /// What members behind this one said since they are linked.
    answers: BTreeMap<Node, Answer>,
    /// When something was last said or asked that is to be repeated.
    said: Option<u64>,
    wake: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// None came, since it was asked for the first time at this moment.
    Awaited(u64),
    Holding,
    Free,
}

impl Available {
    pub(super) fn new(me: Node, voters: Voters, round: u64, now: u64) -> Available {
        let ranking = voters.ranking();
        Available {
            me,
            voters,
            ranking,
            links: BTreeMap::new(),
            leases: BTreeMap::new(),
            round,
            started: now,
            from: now,
        }
    }

    /// Takes no lease before this moment.
    pub(super) fn taking_from(self, from: u64) -> Available {
        Available { from, ..self }
    }

    /// The same, from now on.
    pub(super) fn take_from(&mut self, from: u64) {
        self.from = from;
    }

    pub(super) fn set_voters(&mut self, voters: Voters, now: u64) -> Vec<LeaseAction> {
        self.ranking = voters.ranking();
        self.voters = voters;
        self.take_or_give_back(now)
    }

    pub(super) fn link(&mut self, node: Node, up: bool, now: u64) -> Vec<LeaseAction> {
        self.links.insert(node, Link { up, since: now });
        if up {
            for lease in self.leases.values_mut() {
                lease.answers.remove(&node);
                lease.said = None;
            }
        }
        self.take_or_give_back(now)
    }

    pub(super) fn want(&mut self, name: &str, now: u64) -> Vec<LeaseAction> {
        self.leases.entry(name.into()).or_default();
        self.take_or_give_back(now)
    }

    pub(super) fn release(&mut self, name: &str) -> Vec<LeaseAction> {
        let Some(lease) = self.leases.remove(name) else { return Vec::new() };
        let mut acts = Vec::new();
        if lease.held.is_some() {
            acts.push(LeaseAction::Lost { lease: name.into() });
            self.tell(&self.others(true), name, Vote::Free, &mut acts);
        }
        acts
    }

    /// Returns the fence, if a run of this lease may begin.
    pub(super) fn may_begin(&self, name: &str) -> Option<Ballot> {
        self.leases.get(name).filter(|lease| !lease.ending)?.held
    }

    /// Returns the fence, if runs that have begun may go on.
    pub(super) fn held(&self, name: &str) -> Option<Ballot> {
        self.leases.get(name)?.held
    }

    /// Returns who holds the lease, as far as this member knows: the first by name that is linked.
    pub(super) fn holder(&self, name: &str) -> Option<Node> {
        let first = || self.ranking.iter().copied().find(|node| self.linked(*node).up);
        if self.held(name).is_some() { Some(self.me) } else { first() }
    }

    pub(super) fn begin(&mut self, name: &str) -> Option<Ballot> {
        let fence = self.may_begin(name)?;
        self.leases.get_mut(name)?.runs += 1;
        Some(fence)
    }

    pub(super) fn finish(&mut self, name: &str, now: u64) -> Vec<LeaseAction> {
        if let Some(lease) = self.leases.get_mut(name) {
            lease.runs = lease.runs.saturating_sub(1);
        }
        self.take_or_give_back(now)
    }

    pub(super) fn tick(&mut self, now: u64) -> Vec<LeaseAction> {
        self.take_or_give_back(now)
    }

    /// Returns the round of the last ballot.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    pub(super) fn next_tick(&self) -> Option<u64> {
        self.leases.values().filter_map(|lease| lease.wake).min()
    }

    pub(super) fn receive(&mut self, from: Node, message: &VoteMessage, now: u64) -> Vec<LeaseAction> {
        let name = &*message.lease;
        let mut acts = self.take_or_give_back(now);
        if !self.ranking.contains(&from) {
            return acts;
        }
        let holds = self.held(name).is_some();
        let behind = self.behind(from);
        match message.vote {
            Vote::Who => {
                let answer = if holds { Vote::Holding } else { Vote::Free };
                acts.push(self.message(from, name, answer));
            }
            Vote::Holding if behind && holds => acts.push(self.message(from, name, Vote::Mine)),
            Vote::Holding if behind => self.note(from, name, Answer::Holding),
            Vote::Free if behind => self.note(from, name, Answer::Free),
            Vote::Mine if !behind => {
                if let Some(lease) = self.leases.get_mut(name) {
                    lease.ending = lease.held.is_some();
                }
            }
            _ => return acts,
        }
        acts.extend(self.take_or_give_back(now));
        acts
    }

    fn note(&mut self, from: Node, name: &str, answer: Answer) {
        if let Some(lease) = self.leases.get_mut(name) {
            lease.answers.insert(from, answer);
        }
    }

    fn behind(&self, node: Node) -> bool {
        let place = |node: Node| self.ranking.iter().position(|other| *other == node);
        place(node) > place(self.me)
    }

    /// Returns the other members that may hold leases, before this one or behind it.
    fn others(&self, before: bool) -> Vec<Node> {
        self.ranking.iter().copied().filter(|node| *node != self.me && self.behind(*node) != before).collect()
    }

    fn linked(&self, node: Node) -> Link {
        self.links.get(&node).copied().unwrap_or(Link { up: false, since: self.started })
    }

    /// Tells those of these members that are linked.
    fn tell(&self, to: &[Node], lease: &str, vote: Vote, acts: &mut Vec<LeaseAction>) {
        let linked = to.iter().filter(|to| self.linked(**to).up);
        acts.extend(linked.map(|to| self.message(*to, lease, vote)));
    }

    fn message(&self, to: Node, lease: &str, vote: Vote) -> LeaseAction {
        LeaseAction::Send { to, message: VoteMessage { lease: lease.into(), voters: self.voters.digest(), vote } }
    }

    /// Takes, keeps or gives back each lease, as the links and the answers require.
    fn take_or_give_back(&mut self, now: u64) -> Vec<LeaseAction> {
        let mut acts = Vec::new();
        for (name, mut lease) in std::mem::take(&mut self.leases) {
            lease.wake = None;
            if lease.held.is_some() {
                self.keep_or_give_back(&name, &mut lease, now, &mut acts);
            } else if self.ranking.contains(&self.me) {
                self.take(&name, &mut lease, now, &mut acts);
            }
            self.leases.insert(name, lease);
        }
        acts
    }

    fn keep_or_give_back(&self, name: &str, lease: &mut Lease, now: u64, acts: &mut Vec<LeaseAction>) {
        let before = self.others(true);
        let away = self.away_until(&before, now);
        if lease.ending && away == Some(now) {
            lease.ending = false;
        }
        let first_is_linked = before.iter().any(|node| self.linked(*node).up);
        if lease.runs == 0 && (first_is_linked || lease.ending) || !self.ranking.contains(&self.me) {
            lease.held = None;
            lease.ending = false;
            acts.push(LeaseAction::Lost { lease: name.into() });
            self.tell(&before, name, Vote::Free, acts);
            lease.wake = away;
        } else if lease.ending {
            lease.wake = away;
        } else if first_is_linked && repeat(lease, now) {
            self.tell(&before, name, Vote::Holding, acts);
        }
    }

    fn take(&mut self, name: &str, lease: &mut Lease, now: u64, acts: &mut Vec<LeaseAction>) {
        if now < self.from {
            lease.wake = Some(self.from);
            return;
        }
        let before = self.others(true);
        match self.away_until(&before, now) {
            Some(until) if until == now => {}
            until => {
                lease.wake = until;
                return;
            }
        }
        match self.free_at(lease, now) {
            Some(at) if at <= now => {
                self.round += 1;
                let fence = Ballot { round: self.round, node: self.me };
                lease.held = Some(fence);
                lease.said = None;
                lease.answers.clear();
                acts.push(LeaseAction::Taken { lease: name.into(), fence });
            }
            at => {
                lease.wake = at;
                if repeat(lease, now) {
                    self.tell(&self.others(false), name, Vote::Who, acts);
                }
            }
        }
    }

    /// Returns when these members will have been away for long enough: `now` if they have; never if one is linked.
    fn away_until(&self, nodes: &[Node], now: u64) -> Option<u64> {
        let until = |node: &Node| Some(self.linked(*node)).filter(|link| !link.up).map(|link| link.since + PATIENCE);
        nodes.iter().map(until).try_fold(now, |latest, until| until.map(|until| latest.max(until)))
    }

    /// Returns when no member behind this one has the lease, as far as can be known without another answer.
    fn free_at(&self, lease: &mut Lease, now: u64) -> Option<u64> {
        let mut latest = now;
        for node in self.others(false) {
            let link = self.linked(node);
            let free = match lease.answers.get(&node).copied() {
                Some(Answer::Free) => now,
                _ if !link.up => link.since + PATIENCE,
                Some(Answer::Holding) => return None,
                Some(Answer::Awaited(since)) => since + PATIENCE,
                None => {
                    lease.answers.insert(node, Answer::Awaited(now));
                    now + PATIENCE
                }
            };
            latest = latest.max(free);
        }
        Some(latest)
    }
}

/// Returns whether something is to be said again now, and sets the time of the next repetition.
fn repeat(lease: &mut Lease, now: u64) -> bool {
    let due = lease.said.is_none_or(|said| now >= said + REPEAT);
    if due {
        lease.said = Some(now);
    }
    let next = lease.said.map(|said| said + REPEAT);
    lease.wake = [lease.wake, next].into_iter().flatten().min();
    due
}
