//! The list of voters that counts, and how it changes: it is agreed on, whatever each member knows of the set at the moment.
//!
//! Members hear at different times who joined and who was removed. If each took the list from what it knows, two of them could
//! have majorities with no voter in common. So a list has a number, and the next one follows only when the holder of a lease under
//! the present list proposes it, and a majority has known the present list for longer than leases last.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use value::Value;

use super::voters::VotersError;
use super::{LeaseTimes, Voters};
use crate::Node;
use crate::fields::{self, Fields, Malformed, number};

/// With fewer voters there is no list: a majority of two stops at the first failure.
const LEAST: usize = 3;

/// As many as there may be members.
const MOST: usize = 99;

/// How often a member repeats what it knows while something is to change, and else: messages may be lost.
const REPEAT: u64 = 1_000;
const REPEAT_SETTLED: u64 = 30_000;

/// The kind of message of a roll, among those of votes.
const KIND: u64 = 20;

/// A numbered list of voters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoterList {
    /// Each list has a higher number than the one before; 0 if there never was one.
    pub number: u64,
    /// The voters; empty if the set has too few of them and leases are taken by rank.
    pub nodes: BTreeSet<Node>,
    /// Every voter has known a list. Before that some may still take leases by rank.
    pub founded: bool,
}

impl VoterList {
    /// Packs the list with the longest lease that this member may have granted under it, for its file.
    pub fn pack(&self, lease_time: u64) -> Bytes {
        fields::packed(vec![
            number(self.number),
            Value::Bool(self.founded),
            Value::List(self.nodes.iter().map(|node| fields::node(*node)).collect()),
            number(lease_time),
        ])
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn unpack(packed: &Bytes) -> Result<(VoterList, u64), Malformed> {
        let mut fields = Fields::open(packed, MOST + 16, "a list of voters")?;
        Ok((VoterList::read(&mut fields)?, fields.number("a lease time")?))
    }

    fn read(fields: &mut Fields) -> Result<VoterList, Malformed> {
        let (number, founded) = (fields.number("the number of a list")?, fields.flag("whether a list is founded")?);
        let mut list = fields.list("voters", MOST)?;
        let mut nodes = BTreeSet::new();
        while list.left() > 0 {
            nodes.insert(list.node()?);
        }
        Ok(VoterList { number, nodes, founded })
    }

    fn same(&self, other: &VoterList) -> bool {
        (self.number, &self.nodes) == (other.number, &other.nodes)
    }

    /// Of two lists with one number the same one counts everywhere.
    fn follows(&self, other: &VoterList) -> bool {
        (self.number, &self.nodes) > (other.number, &other.nodes)
    }
}

/// What a member tells the others about voters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roll {
    /// The list that it knows.
    pub list: VoterList,
    /// The digest of the members that may vote, as it knows them.
    pub eligible: u64,
    /// It takes part in votes.
    pub votes: bool,
}

impl Roll {
    /// Returns the bytes for [`Message::Vote`](crate::Message::Vote).
    pub fn pack(&self) -> Bytes {
        fields::packed(vec![
            // As in other messages about votes, so that versions that do not know it pass it over.
            Value::from(""),
            Value::bytes(Bytes::copy_from_slice(&self.eligible.to_be_bytes())),
            number(KIND),
            number(0),
            fields::node(Node([0; 8])),
            number(u64::from(self.votes)),
            number(self.list.number),
            Value::Bool(self.list.founded),
            Value::List(self.list.nodes.iter().map(|node| fields::node(*node)).collect()),
        ])
    }

    /// Reads the bytes of another member; `None` if they are something else.
    ///
    /// # Errors
    /// If they are malformed.
    pub fn unpack(packed: &Bytes) -> Result<Option<Roll>, Malformed> {
        let mut fields = Fields::open(packed, MOST + 32, "a vote")?;
        fields.text("the name of a lease", super::voter::MAX_NAME)?;
        let eligible = u64::from_be_bytes(fields.array("the digest of voters")?);
        if fields.number("the kind of a vote")? != KIND {
            return Ok(None);
        }
        fields.number("a round")?;
        fields.node()?;
        let votes = fields.number("whether a member votes")? == 1;
        Ok(Some(Roll { list: VoterList::read(&mut fields)?, eligible, votes }))
    }
}

/// What a member knows of the list of voters.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    me: Node,
    votes: bool,
    times: LeaseTimes,
    list: VoterList,
    /// Since when this list is known.
    since: u64,
    /// The members that may vote.
    eligible: Voters,
    /// What linked members said last, and since when they know their list.
    peers: BTreeMap<Node, Option<(Roll, u64)>>,
    say_at: u64,
}

impl Roster {
    pub(super) fn new(me: Node, votes: bool, times: LeaseTimes, list: VoterList, now: u64) -> Roster {
        let (eligible, peers) = (Voters::default(), BTreeMap::new());
        Roster { me, votes, times, list, since: now, eligible, peers, say_at: now }
    }

    pub(super) fn list(&self) -> &VoterList {
        &self.list
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
        let since = said.as_ref().filter(|(before, _)| before.list.same(&roll.list)).map_or(now, |(_, since)| *since);
        *said = Some((roll.clone(), since));
        if roll.list.follows(&self.list) {
            self.take(roll.list, now);
        } else if self.list.follows(&roll.list) {
            self.say_at = now;
        } else if roll.list.founded && !self.list.founded {
            self.list.founded = true;
        }
    }

    fn take(&mut self, list: VoterList, now: u64) {
        self.list = list;
        (self.since, self.say_at) = (now, now);
    }

    /// Makes the next list, if it is time for it and this member may. `holds`: it has the lease for that.
    pub(super) fn consider(&mut self, holds: bool, now: u64) {
        if !self.votes {
            return;
        }
        if let Some(list) = self.first().or_else(|| self.agreed_next(holds, now)) {
            self.take(list, now);
        }
        if !self.list.founded && !self.list.nodes.is_empty() && self.list.nodes.iter().all(|node| self.knows(*node)) {
            self.list.founded = true;
            self.say_at = now;
        }
    }

    /// Returns the first list of a set. All voters must be linked and say that they know none.
    fn first(&self) -> Option<VoterList> {
        let eligible: BTreeSet<Node> = self.eligible.nodes().collect();
        if !self.list.nodes.is_empty() || eligible.len() < LEAST || eligible.first() != Some(&self.me) {
            return None;
        }
        let mut highest = self.list.number;
        for node in eligible.iter().filter(|node| **node != self.me) {
            let roll = self.said(*node)?;
            if !roll.votes || !roll.list.nodes.is_empty() || roll.eligible != self.eligible.digest() {
                return None;
            }
            highest = highest.max(roll.list.number);
        }
        Some(VoterList { number: highest + 1, nodes: eligible, founded: false })
    }

    /// Returns the voters after these, one step towards the members that may vote; `None` if nothing is to change or can.
    pub(super) fn next_nodes(&self) -> Option<BTreeSet<Node>> {
        let present = &self.list.nodes;
        if present.is_empty() || !self.votes {
            return None;
        }
        if self.eligible.len() < LEAST {
            return Some(BTreeSet::new());
        }
        // First one more: the others must do without less.
        let comes = self.eligible.nodes().find(|node| !present.contains(node) && self.may_come(*node));
        if let Some(comes) = comes {
            return Some(present.iter().copied().chain([comes]).collect());
        }
        let goes = present.iter().find(|node| !self.eligible.contains(**node)).filter(|_| present.len() > LEAST)?;
        Some(present.iter().copied().filter(|node| node != goes).collect())
    }

    /// A voter that is away, or does not vote, would only make majorities harder.
    fn may_come(&self, node: Node) -> bool {
        node == self.me || self.said(node).is_some_and(|roll| roll.votes)
    }

    fn agreed_next(&self, holds: bool, now: u64) -> Option<VoterList> {
        let next = self.next_nodes()?;
        let may = if self.list.founded { holds && self.check(now).is_ok() } else { self.is_first_of_unfounded() };
        may.then(|| VoterList { number: self.list.number + 1, nodes: next, founded: self.list.founded })
    }

    /// Under a list that not all have known nobody has held a lease. It changes when all who are left agree.
    fn is_first_of_unfounded(&self) -> bool {
        let left: Vec<Node> = self.list.nodes.iter().copied().filter(|node| self.eligible.contains(*node)).collect();
        left.first() == Some(&self.me) && left.iter().all(|node| self.knows(*node))
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

    /// Returns whether a member is linked and knows the same list.
    fn knows(&self, node: Node) -> bool {
        node == self.me || self.said(node).is_some_and(|roll| roll.votes && roll.list.same(&self.list))
    }

    /// Returns the voters of the list.
    pub(super) fn voters(&self) -> Voters {
        self.eligible.listed(&self.list.nodes, self.list.founded)
    }

    /// Returns how many voters are linked and know the list, with this member.
    pub(super) fn linked(&self) -> usize {
        self.list.nodes.iter().filter(|node| self.knows(**node)).count()
    }

    /// Returns the members that may vote but keep the set from having a list.
    pub(super) fn missing(&self) -> Vec<Node> {
        let is_missing = |node: &Node| *node != self.me && self.said(*node).is_none_or(|roll| !roll.votes);
        self.eligible.nodes().filter(is_missing).collect()
    }

    /// Forgets the list, because its majority is gone for good.
    pub(super) fn give_up(&mut self, now: u64) {
        let number = self.list.number + 1;
        self.take(VoterList { number, ..VoterList::default() }, now);
    }

    /// Returns what is to be said now, and to whom.
    pub(super) fn say(&mut self, now: u64) -> Option<(Vec<Node>, Roll)> {
        if now < self.say_at {
            return None;
        }
        let settled = match self.list.nodes.is_empty() {
            true => self.eligible.len() < LEAST,
            false => self.list.founded && self.list.nodes.iter().copied().eq(self.eligible.nodes()),
        };
        self.say_at = now + if settled { REPEAT_SETTLED } else { REPEAT };
        let roll = Roll { list: self.list.clone(), eligible: self.eligible.digest(), votes: self.votes };
        Some((self.peers.keys().copied().collect(), roll))
    }

    pub(super) fn next_tick(&self) -> u64 {
        self.say_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> Node {
        Node([number; 8])
    }

    #[test]
    fn rolls_and_files_come_back_as_they_were() {
        let list = VoterList { number: 7, nodes: [node(1), node(2)].into(), founded: true };
        assert_eq!(VoterList::unpack(&list.pack(6_000)), Ok((list.clone(), 6_000)));
        let roll = Roll { list, eligible: u64::MAX - 1, votes: true };
        let packed = roll.pack();
        assert_eq!(Roll::unpack(&packed), Ok(Some(roll)));
        assert_eq!(super::super::VoteMessage::unpack(&packed), Ok(None), "an earlier version passes it over");
        for length in 0..packed.len() {
            assert!(Roll::unpack(&packed.slice(..length)).is_err(), "{length} bytes");
        }
        let vote = super::super::VoteMessage { lease: "a".into(), voters: 1, vote: super::super::Vote::Who };
        assert_eq!(Roll::unpack(&vote.pack()), Ok(None));
        let many = VoterList { nodes: (0..100).map(node).collect(), ..VoterList::default() };
        assert!(VoterList::unpack(&many.pack(1)).is_err());
    }
}
