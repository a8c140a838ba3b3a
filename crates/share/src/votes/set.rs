//! The leases of a set: which members vote, what they have agreed on, and who holds what.

use bytes::Bytes;

use super::roster::{Roll, Roster, VoterList};
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
    /// The list of voters is to be written down before what follows.
    Save(Bytes),
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
    /// The list that [`SetAction::Save`] had written down.
    pub saved: Option<(VoterList, u64)>,
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
    saved: Option<(VoterList, u64)>,
}

impl SetLeases {
    /// Creates the leases of a member that starts at `now`.
    pub fn new(start: LeaseStart, now: u64) -> SetLeases {
        let LeaseStart { me, policy, lease_time, saved, round, seed } = start;
        let votes = matches!(policy, OncePolicy::Auto | OncePolicy::Majority);
        let (list, earlier) = saved.clone().unwrap_or_default();
        let times = LeaseTimes::new(lease_time).after(earlier);
        let roster = Roster::new(me, votes, times, list, now);
        let first = if policy == OncePolicy::Auto { OncePolicy::Available } else { policy };
        let leases = Leases::new(me, first, times, round, seed, now);
        SetLeases { policy, roster, leases, lease_time: lease_time.max(earlier), saved }
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

    /// Returns whether each voter has known a list, before which nobody holds a lease by votes.
    pub fn is_founded(&self) -> bool {
        self.roster.list().founded
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
        actions.extend(match self.roster.list().founded && self.roster.next_nodes().is_some() {
            true => self.leases.want(VOTERS, now),
            false => self.leases.release(VOTERS),
        });
        let mut all = Vec::new();
        let known = (self.roster.list().clone(), self.lease_time);
        if known.0.number > 0 && self.saved.as_ref() != Some(&known) {
            all.push(SetAction::Save(known.0.pack(known.1)));
            self.saved = Some(known);
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
        match self.policy {
            OncePolicy::Auto if self.roster.list().nodes.is_empty() => {
                (OncePolicy::Available, self.roster.eligible().clone())
            }
            OncePolicy::Auto | OncePolicy::Majority => (OncePolicy::Majority, self.roster.voters()),
            OncePolicy::Available | OncePolicy::Off => (self.policy, self.roster.eligible().clone()),
        }
    }
}

#[cfg(test)]
mod tests;
