//! The mode `majority`: leases by votes, after PaxosLease. It needs no disk and no clock of day.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::candidate::{Candidate, Context, send};
use super::voter::Voter;
use super::{Ballot, LeaseAction, LeaseTimes, Refusal, Vote, VoteMessage, Voters};
use crate::Node;

/// A member that votes, and takes leases for itself.
#[derive(Clone, Debug)]
pub(super) struct Majority {
    me: Node,
    voters: Voters,
    times: LeaseTimes,
    voter: Voter,
    candidates: BTreeMap<Box<str>, Candidate>,
    random: StdRng,
}

impl Majority {
    /// Creates a member that starts at `now`. `round`: see [`Leases::new`](super::Leases::new).
    pub(super) fn new(me: Node, voters: Voters, times: LeaseTimes, round: u64, seed: u64, now: u64) -> Majority {
        let voter = Voter::new(times, round, now);
        Majority { me, voters, times, voter, candidates: BTreeMap::new(), random: StdRng::seed_from_u64(seed) }
    }

    #[cfg(test)]
    pub(super) fn with_seed(self, seed: u64) -> Majority {
        Majority { random: StdRng::seed_from_u64(seed), ..self }
    }

    pub(super) fn set_voters(&mut self, voters: Voters, now: u64) -> Vec<LeaseAction> {
        let may_hold = self.voters.may_hold(self.me);
        if self.voters.digest() != voters.digest() || may_hold != voters.may_hold(self.me) {
            self.voters = voters;
            return self.each(|candidate, cx| candidate.voters_changed(cx, now));
        }
        // Names and roles of others may have changed.
        self.voters = voters;
        Vec::new()
    }

    pub(super) fn want(&mut self, lease: &str, now: u64) -> Vec<LeaseAction> {
        let candidate = self.candidates.entry(lease.into()).or_insert_with(|| Candidate::new(lease.into(), now));
        if candidate.wanted {
            return self.tick(now);
        }
        *candidate = Candidate::new(lease.into(), now);
        self.tick(now)
    }

    pub(super) fn release(&mut self, lease: &str) -> Vec<LeaseAction> {
        self.one(lease, |candidate, cx| candidate.release(cx))
    }

    pub(super) fn held(&self, lease: &str, now: u64) -> Option<(Ballot, u64)> {
        self.candidates.get(lease)?.held(now)
    }

    /// Returns who holds the lease, and for how much longer: of another member, as far as this voter has granted it.
    pub(super) fn holder(&self, lease: &str, now: u64) -> Option<(Node, u64)> {
        let own = self.held(lease, now).map(|(_, until)| (self.me, until - now));
        own.or_else(|| self.voter.granted(lease, now).filter(|(node, _)| *node != self.me))
    }

    /// Returns the highest round that was seen.
    pub(super) fn round(&self) -> u64 {
        self.voter.round()
    }

    pub(super) fn next_tick(&self) -> Option<u64> {
        self.candidates.values().filter_map(Candidate::next_tick).min()
    }

    pub(super) fn tick(&mut self, now: u64) -> Vec<LeaseAction> {
        let acts = self.each(|candidate, cx| candidate.tick(cx, now));
        self.candidates.retain(|_, candidate| !candidate.is_idle());
        acts
    }

    pub(super) fn receive(&mut self, from: Node, message: &VoteMessage, now: u64) -> Vec<LeaseAction> {
        let lease = &*message.lease;
        match message.vote {
            // Nobody may speak for another member: its grants would be ended, or its place taken.
            Vote::Prepare(ballot) | Vote::Accept(ballot, _) | Vote::Release(ballot) if ballot.node != from => {
                Vec::new()
            }
            Vote::Release(ballot) => {
                if !self.voter.release(lease, ballot) {
                    return Vec::new();
                }
                self.one(lease, |candidate, cx| candidate.try_soon(cx, now))
            }
            Vote::Prepare(ballot) | Vote::Accept(ballot, _) => {
                let known = message.voters == self.voters.digest() && self.voters.contains(from);
                let answer = match message.vote {
                    _ if !known => Some(Vote::Refused(ballot, Refusal::OtherVoters)),
                    Vote::Accept(_, time) => self.voter.accept(lease, ballot, time, now),
                    _ => self.voter.prepare(lease, ballot, now),
                };
                let mut acts = Vec::new();
                if let Some(answer) = answer {
                    send(&mut self.context(&mut acts).1, from, lease, answer);
                }
                acts
            }
            Vote::Promise(ballot) | Vote::Accepted(ballot, _) | Vote::Refused(ballot, _) => {
                if ballot.node != self.me || message.voters != self.voters.digest() && !is_refusal(message.vote) {
                    return Vec::new();
                }
                if !self.voters.contains(from) {
                    return Vec::new();
                }
                self.one(lease, |candidate, cx| candidate.hear(cx, from, message.vote, now))
            }
            Vote::Who | Vote::Holding | Vote::Free | Vote::Mine => Vec::new(),
        }
    }

    fn context<'a>(
        &'a mut self,
        acts: &'a mut Vec<LeaseAction>,
    ) -> (&'a mut BTreeMap<Box<str>, Candidate>, Context<'a>) {
        let Majority { me, voters, times, voter, candidates, random } = self;
        (candidates, Context { me: *me, voters, voter, times: *times, random, acts })
    }

    fn each(&mut self, mut act: impl FnMut(&mut Candidate, &mut Context<'_>)) -> Vec<LeaseAction> {
        let mut acts = Vec::new();
        let (candidates, mut cx) = self.context(&mut acts);
        candidates.values_mut().for_each(|candidate| act(candidate, &mut cx));
        acts
    }

    fn one(&mut self, lease: &str, act: impl FnOnce(&mut Candidate, &mut Context<'_>)) -> Vec<LeaseAction> {
        let mut acts = Vec::new();
        let (candidates, mut cx) = self.context(&mut acts);
        if let Some(candidate) = candidates.get_mut(lease) {
            act(candidate, &mut cx);
        }
        acts
    }
}

fn is_refusal(vote: Vote) -> bool {
    matches!(vote, Vote::Refused(..))
}
