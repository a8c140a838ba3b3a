//! The leases of a set: which members vote, what they have agreed on, and who holds what.

use bytes::Bytes;

use super::list::{Roll, SavedVoters};
use super::roster::{LEAST, Roster};
use super::{Ballot, LeaseAction, LeaseTimes, Leases, Mode, OncePolicy, VoteMessage, Voters};
use crate::Node;
use crate::fields::Malformed;

/// Its holder changes the list of voters. No duty has this name: it would be one of two parts.
const VOTERS: &str = "saltern/voters";

/// What a member does about the leases of its set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetAction {
    /// A message goes to another member, in the lane `Talk`.
    Send {
        /// The member.
        to: Node,
        /// What [`SetLeases::receive`] takes there.
        packed: Bytes,
    },
    /// What this member knows and has promised of the voters is to be written down before what follows. If that fails, nothing of
    /// it may be sent, and [`SetLeases::not_saved`] is to be called.
    Save(Bytes),
    /// Another list of voters counts from now on.
    NewVoters,
    /// This member holds the lease from now on.
    Taken {
        /// The lease.
        lease: Box<str>,
        /// Higher than the fences of earlier holders.
        fence: Ballot,
    },
    /// This member no longer holds the lease.
    Lost {
        /// The lease.
        lease: Box<str>,
    },
}

/// How a member starts.
#[derive(Clone, Debug)]
pub struct LeaseStart {
    /// The member.
    pub me: Node,
    /// The option `cluster_once`.
    pub policy: OncePolicy,
    /// The option `cluster_lease_time`, in milliseconds.
    pub lease_time: u64,
    /// What [`SetAction::Save`] had written down. A file that came back from a backup counts as lost: it may be older than what this
    /// member has promised since.
    pub saved: Option<SavedVoters>,
    /// The options name other members, none of which this one has met: its disk is new, and they may hold leases.
    pub is_newcomer: bool,
    /// See [`Leases::new`].
    pub round: u64,
    /// See [`Leases::new`].
    pub seed: u64,
}

/// The leases of a member in a set whose members come and go.
#[derive(Clone, Debug)]
pub struct SetLeases {
    policy: OncePolicy,
    roster: Roster,
    leases: Leases,
    /// The longest lease that may have been granted under the list that is written down.
    lease_time: u64,
    saved: SavedVoters,
    /// The set has refused this member, which takes no lease.
    outside: bool,
}

impl SetLeases {
    /// Creates the leases of a member that starts at `now`.
    pub fn new(start: LeaseStart, now: u64) -> SetLeases {
        let LeaseStart { me, policy, lease_time, saved, is_newcomer, round, seed } = start;
        let votes = matches!(policy, OncePolicy::Auto | OncePolicy::Majority);
        let earlier = saved.as_ref().map_or(0, |saved| saved.lease_time);
        let times = LeaseTimes::new(lease_time).after(earlier);
        let lease_time = lease_time.max(earlier);
        let roster = Roster::new(me, votes, times, saved, now);
        let first = if policy == OncePolicy::Auto { OncePolicy::Available } else { policy };
        let mut leases = Leases::new(me, first, times, round, seed, now);
        if is_newcomer {
            leases.wait_for_others(now);
        }
        // What is in the file is not written again, and neither is that there is nothing.
        let saved = roster.saved(if earlier == 0 { lease_time } else { earlier });
        SetLeases { policy, roster, leases, lease_time, saved, outside: false }
    }

    /// Takes note whether the set has refused this member. It takes no lease by rank then: others may hold each of them, although none
    /// is linked.
    pub fn set_outside(&mut self, outside: bool, now: u64) -> Vec<SetAction> {
        if self.outside == outside {
            return Vec::new();
        }
        self.outside = outside;
        self.follow(Vec::new(), now)
    }

    /// Takes the members that may vote.
    pub fn set_eligible(&mut self, eligible: Voters, now: u64) -> Vec<SetAction> {
        self.roster.set_eligible(eligible, now);
        self.follow(Vec::new(), now)
    }

    /// Takes note that a member is linked, or away.
    pub fn link(&mut self, node: Node, up: bool, now: u64) -> Vec<SetAction> {
        self.roster.link(node, up, now);
        let actions = self.leases.link(node, up, now);
        self.follow(actions, now)
    }

    /// Takes a message of another member that may vote.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn receive(&mut self, from: Node, packed: &Bytes, now: u64) -> Result<Vec<SetAction>, Malformed> {
        let actions = match VoteMessage::unpack(packed)? {
            Some(message) => self.leases.receive(from, &message, now),
            None => {
                // Or of a later version.
                if let Some(roll) = Roll::unpack(packed)? {
                    self.roster.receive(from, roll, now);
                }
                Vec::new()
            }
        };
        Ok(self.follow(actions, now))
    }

    /// Tries to take the lease and to keep it, until it is released.
    pub fn want(&mut self, lease: &str, now: u64) -> Vec<SetAction> {
        let actions = self.leases.want(lease, now);
        self.follow(actions, now)
    }

    /// Gives the lease back, or stops trying to take it.
    pub fn release(&mut self, lease: &str, now: u64) -> Vec<SetAction> {
        let actions = self.leases.release(lease);
        self.follow(actions, now)
    }

    /// Returns the fence if a run that needs this lease may begin. See [`Leases::begin`].
    pub fn begin(&mut self, lease: &str, now: u64) -> Option<Ballot> {
        self.leases.begin(lease, now)
    }

    /// Takes note that a run has ended.
    pub fn finish(&mut self, lease: &str, now: u64) -> Vec<SetAction> {
        let actions = self.leases.finish(lease, now);
        self.follow(actions, now)
    }

    /// Returns the fence if this member holds the lease. A run that began with another fence must stop.
    pub fn held(&self, lease: &str, now: u64) -> Option<Ballot> {
        self.leases.held(lease, now)
    }

    /// Returns the fence and the end of the hold, if this member holds the lease. Leases that are taken by rank have no end.
    pub fn hold(&self, lease: &str, now: u64) -> Option<(Ballot, Option<u64>)> {
        self.leases.hold(lease, now)
    }

    /// Returns who holds the lease and for how many more milliseconds, as far as this member knows. Leases that are taken by rank
    /// have no end.
    pub fn holder(&self, lease: &str, now: u64) -> Option<(Node, Option<u64>)> {
        self.leases.holder(lease, now)
    }

    /// Does what time requires.
    pub fn tick(&mut self, now: u64) -> Vec<SetAction> {
        let actions = self.leases.tick(now);
        self.follow(actions, now)
    }

    /// Returns when [`SetLeases::tick`] is due.
    pub fn next_tick(&self) -> u64 {
        self.leases.next_tick().map_or(self.roster.next_tick(), |at| at.min(self.roster.next_tick()))
    }

    /// Forgets the list of voters, whose majority is gone for good: the set begins with another one. Two parts of a set that are
    /// only cut off from each other would then each have a holder.
    pub fn forget_voters(&mut self, now: u64) -> Vec<SetAction> {
        self.roster.give_up(now);
        self.follow(Vec::new(), now)
    }

    /// Takes note that [`SetAction::Save`] could not be carried out. It is asked for again before anything else is sent.
    pub fn not_saved(&mut self) {
        self.roster.set_unsaved(true);
    }

    /// Returns whether this member has lost what it knew of the voters, and does not vote before enough others have told it.
    pub fn has_lost_voters(&self) -> bool {
        self.roster.is_lost()
    }

    /// Returns how leases are taken at the moment.
    pub fn mode(&self) -> Mode {
        self.leases.mode()
    }

    /// Returns the voters of the agreed list; none if there is no such list.
    pub fn voters(&self) -> Voters {
        self.roster.voters()
    }

    /// Returns the members that may vote.
    pub fn eligible(&self) -> &Voters {
        self.roster.eligible()
    }

    /// Returns how many voters are linked and know the list, with this member.
    pub fn linked_voters(&self) -> usize {
        self.roster.linked()
    }

    /// Returns whether enough members are linked for the set to take leases by rank before it has a list.
    pub fn sees_most(&self) -> bool {
        self.roster.sees_most()
    }

    /// Returns the members that may vote and do not: they are away, or their option `cluster_once` says so.
    pub fn not_voting(&self) -> Vec<Node> {
        self.roster.missing()
    }

    /// Renews the list if it is time for that, has leases follow it, and says what is to be done.
    fn follow(&mut self, mut actions: Vec<LeaseAction>, now: u64) -> Vec<SetAction> {
        self.roster.consider(self.leases.held(VOTERS, now).is_some(), now);
        let (policy, voters) = self.by();
        actions.extend(self.leases.set_voters_by(policy, voters, now));
        actions.extend(match self.roster.wants_to_propose() {
            true => self.leases.want(VOTERS, now),
            false => self.leases.release(VOTERS),
        });
        let mut all = Vec::new();
        let known = self.roster.saved(self.lease_time);
        if self.saved != known || self.roster.is_unsaved() {
            all.push(SetAction::Save(known.pack()));
            if known.list.nodes != self.saved.list.nodes {
                all.push(SetAction::NewVoters);
            }
            self.saved = known;
            self.roster.set_unsaved(false);
        }
        if let Some((nodes, roll)) = self.roster.say(now) {
            let packed = roll.pack();
            all.extend(nodes.into_iter().map(|to| SetAction::Send { to, packed: packed.clone() }));
        }
        all.extend(actions.into_iter().filter_map(|action| match action {
            LeaseAction::Send { to, message } => Some(SetAction::Send { to, packed: message.pack() }),
            LeaseAction::Taken { lease, .. } | LeaseAction::Lost { lease } if &*lease == VOTERS => None,
            LeaseAction::Taken { lease, fence } => Some(SetAction::Taken { lease, fence }),
            LeaseAction::Lost { lease } => Some(SetAction::Lost { lease }),
        }));
        all
    }

    /// Returns how leases are to be taken, and who votes or has a rank.
    fn by(&self) -> (OncePolicy, Voters) {
        let roster = &self.roster;
        let has_list = !roster.list().nodes.is_empty();
        match self.policy {
            OncePolicy::Available | OncePolicy::Auto if self.outside => (OncePolicy::Majority, Voters::default()),
            OncePolicy::Available | OncePolicy::Off => (self.policy, roster.eligible().clone()),
            OncePolicy::Auto if !has_list && self.may_rank() => (OncePolicy::Available, roster.eligible().clone()),
            OncePolicy::Auto | OncePolicy::Majority if has_list && !roster.is_lost() => {
                (OncePolicy::Majority, roster.voters())
            }
            OncePolicy::Auto | OncePolicy::Majority => (OncePolicy::Majority, Voters::default()),
        }
    }

    /// Returns whether this member takes leases by rank while it knows no list. The others may have one that it has lost, or may
    /// have chosen one that it has accepted.
    fn may_rank(&self) -> bool {
        !self.roster.is_choosing() && (self.roster.eligible().len() < LEAST || self.roster.sees_most())
    }
}

#[cfg(test)]
mod tests;
