//! The candidate: takes a lease with the votes of a majority, and renews it.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::rngs::StdRng;

use super::voter::Voter;
use super::{Ballot, LeaseAction, LeaseTimes, Refusal, Vote, VoteMessage, Voters};
use crate::Node;

/// What all candidates of a member share.
pub(super) struct Context<'a> {
    pub me: Node,
    pub voters: &'a Voters,
    pub voter: &'a mut Voter,
    pub times: LeaseTimes,
    pub random: &'a mut StdRng,
    pub acts: &'a mut Vec<LeaseAction>,
}

/// This member's attempts to take one lease, and its hold on it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    lease: Box<str>,
    /// Returns whether it is to be taken and renewed.
    pub wanted: bool,
    attempt: Option<Attempt>,
    hold: Option<Hold>,
    try_at: Option<u64>,
}

/// One ballot on its way through the voters.
#[derive(Clone, Debug)]
struct Attempt {
    ballot: Ballot,
    step: Step,
    /// When the present step began, before its first message was sent.
    since: u64,
    /// Who agreed, and for how long.
    agreed: BTreeMap<Node, u64>,
    refused: BTreeSet<Node>,
    repeat_at: u64,
    give_up_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Prepare,
    Accept,
}

/// A lease that is held.
#[derive(Clone, Copy, Debug)]
struct Hold {
    fence: Ballot,
    until: u64,
}

impl Candidate {
    pub(super) fn new(lease: Box<str>, now: u64) -> Candidate {
        Candidate { lease, wanted: true, attempt: None, hold: None, try_at: Some(now) }
    }

    /// Returns the fence and the end of the hold.
    pub(super) fn held(&self, now: u64) -> Option<(Ballot, u64)> {
        self.hold.filter(|hold| now < hold.until).map(|hold| (hold.fence, hold.until))
    }

    /// Returns whether nothing would be lost by forgetting this candidate.
    pub(super) fn is_idle(&self) -> bool {
        !self.wanted && self.attempt.is_none() && self.hold.is_none()
    }

    /// Returns when [`Candidate::tick`] has something to do.
    pub(super) fn next_tick(&self) -> Option<u64> {
        let attempt = self.attempt.as_ref().map(|attempt| attempt.repeat_at.min(attempt.give_up_at));
        let next = attempt.or(self.try_at.filter(|_| self.wanted));
        [next, self.hold.map(|hold| hold.until)].into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, cx: &mut Context<'_>, now: u64) {
        if self.hold.is_some_and(|hold| now >= hold.until) {
            self.lose(cx);
        }
        match &mut self.attempt {
            Some(attempt) if now >= attempt.give_up_at => self.fail(cx, now),
            Some(attempt) if now >= attempt.repeat_at => {
                attempt.repeat_at = now + cx.times.repeat();
                self.ask(cx, now);
            }
            Some(_) => {}
            None if self.wanted && self.try_at.is_some_and(|at| now >= at) => self.begin(cx, now),
            None => {}
        }
    }

    /// Tries again soon: the lease may have become free. The short wait keeps candidates apart.
    pub(super) fn try_soon(&mut self, cx: &mut Context<'_>, now: u64) {
        if self.wanted && self.attempt.is_none() && self.hold.is_none() {
            self.try_at = Some(now + cx.random.random_range(0..=300));
        }
    }

    /// Begins again under other voters. A lease that is held stays held until its time is up, unless this member may hold none any
    /// more.
    pub(super) fn voters_changed(&mut self, cx: &mut Context<'_>, now: u64) {
        self.attempt = None;
        if self.hold.is_some() && !cx.voters.may_hold(cx.me) {
            self.lose(cx);
        }
        if self.wanted {
            self.try_at = Some(now + cx.random.random_range(0..=300));
        }
    }

    /// Gives the lease back, or stops trying to take it.
    pub(super) fn release(&mut self, cx: &mut Context<'_>) {
        self.wanted = false;
        self.try_at = None;
        let attempted = self.attempt.take().map(|attempt| attempt.ballot);
        let held = self.hold.is_some();
        if held {
            self.lose(cx);
        }
        if held || attempted.is_some() {
            // Above all ballots of this member so far, so that it ends each grant to it.
            let ballot = Ballot { round: cx.voter.next_round(), node: cx.me };
            self.give_back(cx, ballot);
        }
    }

    fn begin(&mut self, cx: &mut Context<'_>, now: u64) {
        self.try_at = None;
        if !cx.voters.may_hold(cx.me) {
            return;
        }
        // The own voter knows of most grants, so that members that wait for the lease send nothing.
        if let Some(left) = cx.voter.granted_to_other(&self.lease, cx.me, now) {
            self.try_at = Some(now + left + cx.random.random_range(0..=600));
            return;
        }
        let ballot = Ballot { round: cx.voter.next_round(), node: cx.me };
        self.attempt = Some(Attempt {
            ballot,
            step: Step::Prepare,
            since: now,
            agreed: BTreeMap::new(),
            refused: BTreeSet::new(),
            repeat_at: now + cx.times.repeat(),
            give_up_at: now + cx.times.attempt(),
        });
        self.ask(cx, now);
    }

    /// Sends the present step to all who have not answered it, the own voter last.
    fn ask(&mut self, cx: &mut Context<'_>, now: u64) {
        let Some(attempt) = &self.attempt else { return };
        let (ballot, time) = (attempt.ballot, cx.times.lease);
        let vote = match attempt.step {
            Step::Prepare => Vote::Prepare(ballot),
            Step::Accept => Vote::Accept(ballot, time),
        };
        let waiting = |node: &Node| !attempt.agreed.contains_key(node) && !attempt.refused.contains(node);
        let to: Vec<Node> = cx.voters.nodes().filter(waiting).collect();
        let me = cx.me;
        for node in to.iter().filter(|node| **node != me) {
            send(cx, *node, &self.lease, vote);
        }
        if to.contains(&cx.me) {
            let answer = match vote {
                Vote::Accept(..) => cx.voter.accept(&self.lease, ballot, time, now),
                _ => cx.voter.prepare(&self.lease, ballot, now),
            };
            if let Some(answer) = answer {
                self.hear(cx, cx.me, answer, now);
            }
        }
    }

    /// Takes the answer of a voter. Answers to other attempts are passed over.
    pub(super) fn hear(&mut self, cx: &mut Context<'_>, from: Node, answer: Vote, now: u64) {
        let Some(attempt) = &mut self.attempt else { return };
        match answer {
            Vote::Promise(ballot) if ballot == attempt.ballot && attempt.step == Step::Prepare => {
                attempt.agreed.insert(from, 0);
            }
            Vote::Accepted(ballot, time) if ballot == attempt.ballot && attempt.step == Step::Accept => {
                attempt.agreed.insert(from, time);
            }
            Vote::Refused(ballot, refusal) if ballot == attempt.ballot => {
                if let Refusal::Outdated(round) = refusal {
                    cx.voter.note(round, now);
                }
                attempt.agreed.remove(&from);
                attempt.refused.insert(from);
            }
            _ => return,
        }
        if attempt.agreed.len() >= cx.voters.majority() {
            self.agreed(cx, now);
        } else if cx.voters.len() - attempt.refused.len() < cx.voters.majority() {
            self.fail(cx, now);
        }
    }

    /// Goes on with the agreement of a majority.
    fn agreed(&mut self, cx: &mut Context<'_>, now: u64) {
        let Some(attempt) = &mut self.attempt else { return };
        if attempt.step == Step::Prepare {
            attempt.step = Step::Accept;
            attempt.since = now;
            attempt.agreed.clear();
            attempt.refused.clear();
            attempt.repeat_at = now + cx.times.repeat();
            return self.ask(cx, now);
        }
        let shortest = attempt.agreed.values().copied().min().unwrap_or(0);
        let until = attempt.since + LeaseTimes::usable(shortest);
        let (ballot, since) = (attempt.ballot, attempt.since);
        if until <= now {
            return self.fail(cx, now);
        }
        self.attempt = None;
        self.try_at = Some(since + shortest / 3);
        match &mut self.hold {
            Some(hold) => hold.until = hold.until.max(until),
            None => {
                self.hold = Some(Hold { fence: ballot, until });
                cx.acts.push(LeaseAction::Taken { lease: self.lease.clone(), fence: ballot });
            }
        }
    }

    fn fail(&mut self, cx: &mut Context<'_>, now: u64) {
        let Some(attempt) = self.attempt.take() else { return };
        self.try_at = Some(now + cx.random.random_range(700..=1_300));
        // Grants of a minority would keep the others waiting. While the lease is held they are needed.
        if attempt.step == Step::Accept && self.hold.is_none() {
            self.give_back(cx, attempt.ballot);
        }
    }

    fn give_back(&mut self, cx: &mut Context<'_>, ballot: Ballot) {
        cx.voter.release(&self.lease, ballot);
        let others: Vec<Node> = cx.voters.nodes().filter(|node| *node != cx.me).collect();
        others.into_iter().for_each(|node| send(cx, node, &self.lease, Vote::Release(ballot)));
    }

    fn lose(&mut self, cx: &mut Context<'_>) {
        self.hold = None;
        cx.acts.push(LeaseAction::Lost { lease: self.lease.clone() });
    }
}

/// Queues a message to another voter.
pub(super) fn send(cx: &mut Context<'_>, to: Node, lease: &str, vote: Vote) {
    let message = VoteMessage { lease: lease.into(), voters: cx.voters.digest(), vote };
    cx.acts.push(LeaseAction::Send { to, message });
}
