//! What must happen once in the whole set is done by the holder of a lease. This is how members take leases.

mod available;
mod ballot;
mod candidate;
mod claims;
mod list;
mod majority;
mod message;
mod roster;
mod set;
mod voter;
mod voters;

#[cfg(test)]
mod storms;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use ballot::Ballot;
pub use claims::{ClaimError, begin_claim, claim_counts, claim_key, claimed_twice, finish_claim};
pub use list::{Memory, NextList, Roll, SavedVoters, VoterList};
pub use message::{Refusal, Vote, VoteMessage};
pub use set::{LeaseStart, SetAction, SetLeases};
pub use voters::{Voters, VotersError};

use crate::Node;
use available::Available;
use majority::Majority;

/// The option `cluster_once`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OncePolicy {
    /// A lease has one holder or none, never two.
    Majority,
    /// A lease always has a holder; in a partition each side has one.
    Available,
    /// Each member does everything by itself, as Salt's masters do.
    Off,
    /// `Majority` with three voters or more, else `Available`.
    #[default]
    Auto,
}

/// How leases are taken at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By votes of a majority.
    Majority,
    /// By rank.
    Available,
    /// Not at all: each member holds each lease.
    Off,
}

/// What follows from the lease time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    lease: u64,
    /// The longest lease that may have been granted before the start.
    earlier: u64,
}

impl LeaseTimes {
    /// Returns the times for the option `cluster_lease_time`, which must be at least a second.
    pub fn new(lease_time: u64) -> LeaseTimes {
        let lease = lease_time.clamp(1_000, 3_600_000);
        LeaseTimes { lease, earlier: lease }
    }

    /// Returns the times of a member whose option had another value before it started: what it granted then may last longer.
    pub fn after(self, earlier: u64) -> LeaseTimes {
        LeaseTimes { earlier: earlier.clamp(self.lease, 3_600_000), ..self }
    }

    /// How much of a grant its holder uses: clocks may differ by a few percent.
    fn usable(time: u64) -> u64 {
        time - time / 10
    }

    /// Returns how long a voter is silent after its start: until every lease it may have granted before has expired.
    fn silence(self) -> u64 {
        self.earlier + self.earlier / 20
    }

    /// How long an attempt may take.
    fn attempt(self) -> u64 {
        self.lease / 6
    }

    /// How often an attempt asks those who have not answered.
    fn repeat(self) -> u64 {
        self.lease / 24
    }
}

/// What a member does about leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// A message goes to another member, in the lane `Talk`.
    Send {
        /// The member.
        to: Node,
        /// The message.
        message: VoteMessage,
    },
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

/// The leases of a member, whatever the mode.
///
/// `now` is monotonic time in milliseconds from any origin; it must not go back. [`Leases::tick`] is due at
/// [`Leases::next_tick`], which may change with every call.
#[derive(Clone, Debug)]
pub struct Leases {
    me: Node,
    policy: OncePolicy,
    times: LeaseTimes,
    round: u64,
    seed: u64,
    voters: Voters,
    linked: BTreeSet<Node>,
    /// The leases that this member wants.
    wanted: BTreeSet<Box<str>>,
    taking: Taking,
}

#[derive(Clone, Debug)]
enum Taking {
    Majority(Majority),
    Available(Available),
    Off,
}

impl Leases {
    /// Creates the leases of a member that starts at `now`.
    ///
    /// `round` should be above the rounds of all earlier ballots that the member knows of, for fences that grow over restarts:
    /// the highest time of its [`HybridClock`](crate::HybridClock) is, or the present time in its form. Rounds of other members that
    /// are more than a day above it are ignored. `seed` decides the waiting times that keep candidates
    /// apart.
    pub fn new(me: Node, policy: OncePolicy, times: LeaseTimes, round: u64, seed: u64, now: u64) -> Leases {
        let (voters, linked, wanted) = (Voters::default(), BTreeSet::new(), BTreeSet::new());
        let mut leases = Leases { me, policy, times, round, seed, voters, linked, wanted, taking: Taking::Off };
        leases.taking = leases.start(now);
        leases
    }

    /// Takes no lease by rank for as long as a member waits for others that are away.
    fn wait_for_others(&mut self, now: u64) {
        if let Taking::Available(available) = &mut self.taking {
            available.take_from(now + available::PATIENCE);
        }
    }

    /// Returns how leases are taken at the moment.
    pub fn mode(&self) -> Mode {
        match self.policy {
            OncePolicy::Majority => Mode::Majority,
            OncePolicy::Available => Mode::Available,
            OncePolicy::Off => Mode::Off,
            OncePolicy::Auto if self.voters.len() >= 3 => Mode::Majority,
            OncePolicy::Auto => Mode::Available,
        }
    }

    /// Returns the voters that this member knows.
    pub fn voters(&self) -> &Voters {
        &self.voters
    }

    /// Takes the list of voters. That it may follow the present one is up to [`Voters::check_change`].
    pub fn set_voters(&mut self, voters: Voters, now: u64) -> Vec<LeaseAction> {
        self.set_voters_by(self.policy, voters, now)
    }

    /// Takes the list of voters, and how they decide. Nothing changes if both are as before.
    pub fn set_voters_by(&mut self, policy: OncePolicy, voters: Voters, now: u64) -> Vec<LeaseAction> {
        if (policy, &voters) == (self.policy, &self.voters) {
            return Vec::new();
        }
        let before = self.mode();
        self.policy = policy;
        self.voters = voters.clone();
        if self.mode() == before {
            return match &mut self.taking {
                Taking::Majority(majority) => majority.set_voters(voters, now),
                Taking::Available(available) => available.set_voters(voters, now),
                Taking::Off => Vec::new(),
            };
        }
        let held = self.wanted.iter().filter(|lease| self.held(lease, now).is_some());
        let mut acts: Vec<LeaseAction> = held.map(|lease| LeaseAction::Lost { lease: lease.clone() }).collect();
        // Ballots must not repeat.
        self.round = self.round.max(match &self.taking {
            Taking::Majority(majority) => majority.round(),
            Taking::Available(available) => available.round(),
            Taking::Off => 0,
        });
        self.taking = self.start(now);
        for lease in self.wanted.clone() {
            acts.extend(self.take(&lease, now));
        }
        acts
    }

    fn start(&self, now: u64) -> Taking {
        match self.mode() {
            Mode::Majority => {
                let (voters, seed) = (self.voters.clone(), self.seed);
                Taking::Majority(Majority::new(self.me, voters, self.times, self.round, seed, now))
            }
            Mode::Available => {
                // What a majority has granted may still be held by a member that another one does not know of any more.
                let majority = matches!(self.taking, Taking::Majority(_));
                let from = if majority { now + self.times.silence() } else { now };
                let mut available = Available::new(self.me, self.voters.clone(), self.round, now).taking_from(from);
                // Nothing is wanted yet, so nothing follows from the links.
                self.linked.iter().for_each(|node| drop(available.link(*node, true, now)));
                Taking::Available(available)
            }
            Mode::Off => Taking::Off,
        }
    }

    /// Takes note that a member is linked, or away.
    pub fn link(&mut self, node: Node, up: bool, now: u64) -> Vec<LeaseAction> {
        match up {
            true => self.linked.insert(node),
            false => self.linked.remove(&node),
        };
        match &mut self.taking {
            Taking::Available(available) => available.link(node, up, now),
            Taking::Majority(_) | Taking::Off => Vec::new(),
        }
    }

    /// Tries to take the lease and to keep it, until it is released.
    pub fn want(&mut self, lease: &str, now: u64) -> Vec<LeaseAction> {
        if !self.wanted.insert(lease.into()) {
            return Vec::new();
        }
        self.take(lease, now)
    }

    fn take(&mut self, lease: &str, now: u64) -> Vec<LeaseAction> {
        match &mut self.taking {
            Taking::Majority(majority) => majority.want(lease, now),
            Taking::Available(available) => available.want(lease, now),
            Taking::Off => vec![LeaseAction::Taken { lease: lease.into(), fence: self.own_fence() }],
        }
    }

    /// Gives the lease back, or stops trying to take it.
    pub fn release(&mut self, lease: &str) -> Vec<LeaseAction> {
        if !self.wanted.remove(lease) {
            return Vec::new();
        }
        match &mut self.taking {
            Taking::Majority(majority) => majority.release(lease),
            Taking::Available(available) => available.release(lease),
            Taking::Off => vec![LeaseAction::Lost { lease: lease.into() }],
        }
    }

    /// Returns the fence if a run that needs this lease may begin, and counts the run until [`Leases::finish`].
    pub fn begin(&mut self, lease: &str, now: u64) -> Option<Ballot> {
        match &mut self.taking {
            Taking::Available(available) => available.begin(lease),
            Taking::Majority(_) | Taking::Off => self.held(lease, now),
        }
    }

    /// Takes note that a run has ended. In the mode `available` a lease is given back between runs.
    pub fn finish(&mut self, lease: &str, now: u64) -> Vec<LeaseAction> {
        match &mut self.taking {
            Taking::Available(available) => available.finish(lease, now),
            Taking::Majority(_) | Taking::Off => Vec::new(),
        }
    }

    /// Returns the fence if this member holds the lease. A run that began with another fence must stop.
    pub fn held(&self, lease: &str, now: u64) -> Option<Ballot> {
        match &self.taking {
            Taking::Majority(majority) => majority.held(lease, now).map(|(fence, _)| fence),
            Taking::Available(available) => available.held(lease),
            Taking::Off => self.wanted.contains(lease).then(|| self.own_fence()),
        }
    }

    /// Returns the fence and the end of the hold, if this member holds the lease. Leases that are taken by rank have no end.
    pub fn hold(&self, lease: &str, now: u64) -> Option<(Ballot, Option<u64>)> {
        match &self.taking {
            Taking::Majority(majority) => majority.held(lease, now).map(|(fence, until)| (fence, Some(until))),
            Taking::Available(_) | Taking::Off => self.held(lease, now).map(|fence| (fence, None)),
        }
    }

    /// Returns who holds the lease and for how many more milliseconds, as far as this member knows.
    pub fn holder(&self, lease: &str, now: u64) -> Option<(Node, Option<u64>)> {
        match &self.taking {
            Taking::Majority(majority) => majority.holder(lease, now).map(|(node, left)| (node, Some(left))),
            Taking::Available(available) => available.holder(lease).map(|node| (node, None)),
            Taking::Off => self.wanted.contains(lease).then_some((self.me, None)),
        }
    }

    /// Returns until when runs may begin, if this member holds the lease.
    #[cfg(test)]
    fn may_begin_until(&self, lease: &str, now: u64) -> Option<u64> {
        match &self.taking {
            Taking::Majority(majority) => majority.held(lease, now).map(|(_, until)| until),
            Taking::Available(available) => available.may_begin(lease).map(|_| u64::MAX >> 16),
            Taking::Off => self.wanted.contains(lease).then_some(u64::MAX >> 16),
        }
    }

    /// Takes a message of another member.
    pub fn receive(&mut self, from: Node, message: &VoteMessage, now: u64) -> Vec<LeaseAction> {
        match &mut self.taking {
            Taking::Majority(majority) => majority.receive(from, message, now),
            Taking::Available(available) => available.receive(from, message, now),
            Taking::Off => Vec::new(),
        }
    }

    /// Does what time requires.
    pub fn tick(&mut self, now: u64) -> Vec<LeaseAction> {
        match &mut self.taking {
            Taking::Majority(majority) => majority.tick(now),
            Taking::Available(available) => available.tick(now),
            Taking::Off => Vec::new(),
        }
    }

    /// Returns when [`Leases::tick`] is due.
    pub fn next_tick(&self) -> Option<u64> {
        match &self.taking {
            Taking::Majority(majority) => majority.next_tick(),
            Taking::Available(available) => available.next_tick(),
            Taking::Off => None,
        }
    }

    fn own_fence(&self) -> Ballot {
        Ballot { round: self.round, node: self.me }
    }
}
