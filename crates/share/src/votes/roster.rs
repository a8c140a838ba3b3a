//! Which list of voters counts, and how the next one is chosen: it is agreed on, whatever each member knows of the set at the moment.
//!
//! Members hear at different times who joined and who was removed. If each took the list from what it knows, two of them could
//! have majorities with no voter in common. So a list has a number, and the voters of each list choose the next one as in Paxos: a
//! member proposes a list after a majority has promised to take no part in earlier attempts, with the latest proposal that one of
//! them has accepted if there is any. A list that a majority has accepted is chosen, and no other list ever has its number.
//!
//! Nothing is asked and answered: each member says all that it has promised and accepted, again and again.

use std::collections::{BTreeMap, BTreeSet};

use super::ballot::MAX_ROUND;
use super::list::{Memory, NextList, Roll, SavedVoters, VoterList};
use super::voters::VotersError;
use super::{Ballot, LeaseTimes, Voters};
use crate::Node;

/// With fewer voters there is no list: a majority of two stops at the first failure.
pub(super) const LEAST: usize = 3;

/// How often a member repeats what it knows while something is to change, and else: messages may be lost.
const REPEAT: u64 = 1_000;
const REPEAT_SETTLED: u64 = 30_000;

/// How far rounds may be ahead. Each attempt takes one, and a member that went to the last one would leave none to the others.
const MOST_AHEAD: u64 = 1 << 32;

/// What a member knows of the list of voters.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    me: Node,
    votes: bool,
    times: LeaseTimes,
    started: u64,
    list: VoterList,
    /// Since when this list is known.
    since: u64,
    next: NextList,
    memory: Memory,
    /// Nothing was written down. This member is new, or has lost its file.
    blank: bool,
    /// The disk has refused what this member has promised or heard: it must not act on it.
    unsaved: bool,
    /// The members that may vote.
    eligible: Voters,
    /// What linked members said last, and since when they know their list.
    peers: BTreeMap<Node, Option<(Roll, u64)>>,
    say_at: u64,
}

impl Roster {
    pub(super) fn new(me: Node, votes: bool, times: LeaseTimes, saved: Option<SavedVoters>, now: u64) -> Roster {
        let blank = saved.is_none();
        let SavedVoters { list, next, memory, .. } = saved.unwrap_or_default();
        let (eligible, peers) = (Voters::default(), BTreeMap::new());
        let (unsaved, started, since, say_at) = (false, now, now, now);
        Roster { me, votes, times, started, list, since, next, memory, blank, unsaved, eligible, peers, say_at }
    }

    pub(super) fn list(&self) -> &VoterList {
        &self.list
    }

    /// Returns what is to be written down.
    pub(super) fn saved(&self, lease_time: u64) -> SavedVoters {
        SavedVoters { list: self.list.clone(), next: self.next.clone(), memory: self.memory, lease_time }
    }

    pub(super) fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// Takes note of whether the disk keeps what is to be kept.
    pub(super) fn set_unsaved(&mut self, unsaved: bool) {
        self.unsaved = unsaved;
    }

    pub(super) fn eligible(&self) -> &Voters {
        &self.eligible
    }

    pub(super) fn set_eligible(&mut self, eligible: Voters, now: u64) {
        if eligible != self.eligible {
            self.eligible = eligible;
            self.say_at = now;
        }
    }

    pub(super) fn link(&mut self, node: Node, up: bool, now: u64) {
        match up {
            true => {
                self.peers.insert(node, None);
                self.say_at = now;
            }
            false => drop(self.peers.remove(&node)),
        }
    }

    /// Takes what another member says. Of two lists that differ the later one counts.
    pub(super) fn receive(&mut self, from: Node, roll: Roll, now: u64) {
        let Some(said) = self.peers.get_mut(&from) else { return };
        if said.is_none() {
            // What was told it when it was linked may have come before it knew of this member.
            self.say_at = now;
        }
        let since = said.as_ref().filter(|(before, _)| before.list == roll.list).map_or(now, |(_, since)| *since);
        *said = Some((roll.clone(), since));
        if roll.list.follows(&self.list) {
            self.hear_of(roll.list.clone(), now);
        } else if self.list.follows(&roll.list) {
            self.say_at = now;
        }
        if roll.votes && roll.list == self.list {
            self.join(&roll.next, now);
        }
    }

    /// Takes a list that others have chosen.
    fn hear_of(&mut self, list: VoterList, now: u64) {
        self.memory = match self.memory {
            Memory::Whole if !self.blank => Memory::Whole,
            Memory::Recovered => Memory::Whole,
            // Before this file was lost, this member may have known a later list.
            _ if list.nodes.contains(&self.me) => Memory::Lost,
            _ => Memory::Whole,
        };
        self.take(list, now);
    }

    fn take(&mut self, list: VoterList, now: u64) {
        (self.list, self.next, self.blank) = (list, NextList::default(), false);
        (self.since, self.say_at) = (now, now);
    }

    /// Promises and accepts what another member has.
    fn join(&mut self, next: &NextList, now: u64) {
        if !self.chooses() {
            return;
        }
        let most = self.next.promised.round.saturating_add(MOST_AHEAD);
        let before = self.next.clone();
        let newer = |ballot: Ballot| before.accepted.as_ref().is_none_or(|(own, _)| *own < ballot);
        if let Some((ballot, nodes)) = &next.accepted
            && *ballot >= before.promised
            && ballot.round < most
            && newer(*ballot)
        {
            self.next = NextList { promised: *ballot, accepted: Some((*ballot, nodes.clone())) };
        }
        if next.promised > self.next.promised && next.promised.round < most {
            self.next.promised = next.promised;
        }
        if self.next != before {
            (self.say_at, self.blank) = (now, false);
        }
    }

    /// Returns whether this member takes part in the choice of the next list.
    fn chooses(&self) -> bool {
        let among = if self.list.nodes.is_empty() { self.eligible.contains(self.me) } else { self.is_voter(self.me) };
        self.votes && self.memory == Memory::Whole && !self.unsaved && among
    }

    fn is_voter(&self, node: Node) -> bool {
        self.list.nodes.contains(&node)
    }

    /// Does what the present state allows. `holds`: this member has the lease for proposing lists.
    pub(super) fn consider(&mut self, holds: bool, now: u64) {
        self.recover(now);
        if !self.chooses() {
            return;
        }
        if self.may_propose(holds, now) {
            self.propose(now);
        }
        if let Some((ballot, nodes)) = self.next.accepted.clone()
            && self.agree(|next| next.accepted.as_ref().is_some_and(|(accepted, _)| *accepted == ballot))
        {
            let (epoch, number) = (self.list.epoch, (self.list.number + 1).min(MAX_ROUND - 1));
            self.take(VoterList { epoch, number, nodes }, now);
        }
    }

    /// Lets a member that has lost its file vote again, once a majority of the other voters has told it their list: no later list can
    /// have a majority then.
    fn recover(&mut self, now: u64) {
        let others = self.list.nodes.iter().filter(|node| **node != self.me && self.knows(**node)).count();
        let enough = others >= self.voters().majority();
        if self.memory == Memory::Lost && enough && now >= self.started + self.times.silence() {
            self.memory = Memory::Recovered;
            self.say_at = now;
        }
    }

    /// Returns whether the next list is to be chosen: members come or go, or a choice has begun.
    fn has_next(&self) -> bool {
        let has_begun = |node: Node| self.next_of(node).is_some_and(|next| next.accepted.is_some());
        self.next_nodes().is_some() || self.choosers().into_iter().any(has_begun)
    }

    /// Returns whether this member needs the lease for proposing lists. Who takes no part in the choice must not keep it from others.
    pub(super) fn wants_to_propose(&self) -> bool {
        !self.list.nodes.is_empty() && self.chooses() && self.has_next()
    }

    /// Returns whether this member has accepted a list that may have been chosen.
    pub(super) fn is_choosing(&self) -> bool {
        self.next.accepted.is_some()
    }

    fn may_propose(&self, holds: bool, now: u64) -> bool {
        if !self.has_next() {
            return false;
        }
        match self.list.nodes.is_empty() {
            true => self.eligible.nodes().next() == Some(self.me) && self.agree(|_| true),
            false => holds && self.check(now).is_ok(),
        }
    }

    fn propose(&mut self, now: u64) {
        if self.next.promised.node != self.me {
            let round = self.next.promised.round + 1;
            self.next.promised = Ballot { round, node: self.me };
            (self.say_at, self.blank) = (now, false);
        }
        let ballot = self.next.promised;
        let is_proposed = self.next.accepted.as_ref().is_some_and(|(accepted, _)| *accepted == ballot);
        if is_proposed || !self.agree(|next| next.promised == ballot) {
            return;
        }
        let known = self.choosers().into_iter().filter_map(|node| self.next_of(node)?.accepted.as_ref());
        let latest = known.max_by_key(|(accepted, _)| *accepted).map(|(_, nodes)| nodes.clone());
        if let Some(nodes) = latest.or_else(|| self.next_nodes()) {
            self.next.accepted = Some((ballot, nodes));
            self.say_at = now;
        }
    }

    /// Returns whether enough members that know this list have promised or accepted so: more than half of its voters. Without a
    /// list all that may vote are needed, since they may know different ones of each other.
    fn agree(&self, what: impl Fn(&NextList) -> bool) -> bool {
        let choosers = self.choosers();
        let agreeing = choosers.iter().filter(|node| self.next_of(**node).is_some_and(&what)).count();
        match self.list.nodes.is_empty() {
            true => !choosers.is_empty() && agreeing == choosers.len(),
            false => agreeing >= self.voters().majority(),
        }
    }

    fn choosers(&self) -> Vec<Node> {
        if self.list.nodes.is_empty() {
            self.eligible.nodes().collect()
        } else {
            self.list.nodes.iter().copied().collect()
        }
    }

    /// Returns what a member said about the next list, if it knows the present one and, without a list, the same members.
    fn next_of(&self, node: Node) -> Option<&NextList> {
        if node == self.me {
            return Some(&self.next);
        }
        let roll = self.said(node).filter(|roll| roll.votes && roll.list == self.list)?;
        let same = !self.list.nodes.is_empty() || roll.eligible == self.eligible.digest();
        same.then_some(&roll.next)
    }

    /// Returns the voters after these, one step towards the members that may vote; `None` if nothing is to change or can.
    fn next_nodes(&self) -> Option<BTreeSet<Node>> {
        let present = &self.list.nodes;
        if !self.votes {
            return None;
        }
        if present.is_empty() {
            return (self.eligible.len() >= LEAST).then(|| self.eligible.nodes().collect());
        }
        if self.eligible.len() < LEAST {
            return Some(BTreeSet::new());
        }
        // First one more: the others must do without less.
        let comes = self.eligible.nodes().find(|node| !present.contains(node) && self.may_come(*node));
        if let Some(comes) = comes {
            return Some(present.iter().copied().chain([comes]).collect());
        }
        let goes = present.iter().find(|node| !self.eligible.contains(**node)).filter(|_| present.len() > LEAST);
        match goes {
            Some(goes) => Some(present.iter().copied().filter(|node| node != goes).collect()),
            // After another list of the same voters those who abstain have nothing to fear any more.
            None => present.iter().any(|node| self.abstains(*node)).then(|| present.clone()),
        }
    }

    fn abstains(&self, node: Node) -> bool {
        self.said(node).is_some_and(|roll| roll.votes && roll.abstains && roll.list == self.list)
    }

    /// A voter that is away, or does not vote, would only make majorities harder.
    fn may_come(&self, node: Node) -> bool {
        node == self.me || self.said(node).is_some_and(|roll| roll.votes)
    }

    fn check(&self, now: u64) -> Result<(), VotersError> {
        let others = self.peers.iter().filter(|(node, _)| self.knows(**node));
        let known = others.filter_map(|(node, said)| Some((*node, now.saturating_sub(said.as_ref()?.1))));
        let agreeing = known.chain([(self.me, now.saturating_sub(self.since))]).collect();
        self.voters().check_majority(&agreeing, self.times)
    }

    fn said(&self, node: Node) -> Option<&Roll> {
        self.peers.get(&node)?.as_ref().map(|(roll, _)| roll)
    }

    /// Returns whether a member is linked, votes and knows the same list.
    fn knows(&self, node: Node) -> bool {
        match node == self.me {
            true => self.memory != Memory::Lost,
            false => self.said(node).is_some_and(|roll| roll.votes && roll.list == self.list),
        }
    }

    /// Returns the voters of the list.
    pub(super) fn voters(&self) -> Voters {
        self.eligible.listed(&self.list.nodes)
    }

    /// Returns how many voters are linked and know the list, with this member.
    pub(super) fn linked(&self) -> usize {
        self.list.nodes.iter().filter(|node| self.knows(**node)).count()
    }

    /// Returns whether this member does not vote, since it does not know whether its list is the latest one.
    pub(super) fn is_lost(&self) -> bool {
        self.memory == Memory::Lost
    }

    /// Returns whether more than half of the members that may vote are linked, with this one.
    pub(super) fn sees_most(&self) -> bool {
        let is_linked = |node: &Node| *node == self.me || self.peers.contains_key(node);
        self.eligible.nodes().filter(is_linked).count() >= self.eligible.majority()
    }

    /// Returns the members that may vote but keep the set from having a list.
    pub(super) fn missing(&self) -> Vec<Node> {
        let is_missing = |node: &Node| *node != self.me && self.said(*node).is_none_or(|roll| !roll.votes);
        self.eligible.nodes().filter(is_missing).collect()
    }

    /// Begins again without a list, because the majority of the present one is gone for good.
    pub(super) fn give_up(&mut self, now: u64) {
        let round = (self.list.epoch.round + 1).min(MAX_ROUND - 1);
        let epoch = Ballot { round, node: self.me };
        self.memory = Memory::Whole;
        self.take(VoterList { epoch, number: self.list.number, nodes: BTreeSet::new() }, now);
    }

    /// Returns what is to be said now, and to whom.
    pub(super) fn say(&mut self, now: u64) -> Option<(Vec<Node>, Roll)> {
        if now < self.say_at {
            return None;
        }
        let settled = self.memory != Memory::Lost
            && !self.is_choosing()
            && match self.list.nodes.is_empty() {
                true => self.eligible.len() < LEAST,
                false => self.list.nodes.iter().copied().eq(self.eligible.nodes()),
            };
        self.say_at = now + if settled { REPEAT_SETTLED } else { REPEAT };
        let votes = self.votes && self.memory != Memory::Lost;
        let (list, next) = (self.list.clone(), self.next.clone());
        let abstains = self.memory != Memory::Whole;
        let roll = Roll { list, next, eligible: self.eligible.digest(), votes, abstains };
        Some((self.peers.keys().copied().collect(), roll))
    }

    pub(super) fn next_tick(&self) -> u64 {
        self.say_at
    }
}
