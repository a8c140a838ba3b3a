//! The voter: grants each lease to one member at a time, from memory alone.

use std::collections::BTreeMap;

use super::ballot::MAX_ROUND;
use super::{Ballot, LeaseTimes, Refusal, Vote};
use crate::Node;

/// How far the rounds of other members may be ahead, in milliseconds: as far as their clocks may.
const MOST_AHEAD: u64 = 86_400_000;

/// Leases that a voter keeps count of. Names come from members, so their number must have an end.
const MAX_LEASES: usize = 1_000;

/// The longest name of a lease, in bytes.
pub(super) const MAX_NAME: usize = 256;

/// What a member has granted and promised to others.
///
/// That no two members hold a lease rests on this alone: a voter that has granted a lease grants it to nobody else until the
/// time is up, whatever the ballots say. It forgets grants only by a restart, and then is silent until they are all over.
/// Ballots decide who goes first when several try at once, and make fences grow.
#[derive(Clone, Debug)]
pub(super) struct Voter {
    leases: BTreeMap<Box<str>, Ledger>,
    times: LeaseTimes,
    silent_until: u64,
    /// The round with which the voter started, and when.
    first: (u64, u64),
    /// The highest round seen for any lease.
    highest: u64,
    /// The highest round promised for a lease that was forgotten since.
    forgotten: u64,
}

#[derive(Clone, Debug)]
struct Ledger {
    promised: Ballot,
    grant: Option<Grant>,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    ballot: Ballot,
    until: u64,
}

impl Voter {
    /// Creates a voter that starts at `now`, and knows that rounds up to `round` may have been used before.
    pub(super) fn new(times: LeaseTimes, round: u64, now: u64) -> Voter {
        let silent_until = now + times.silence();
        let highest = round.min(MAX_ROUND - 1);
        Voter { leases: BTreeMap::new(), times, silent_until, first: (highest, now), highest, forgotten: highest }
    }

    /// Returns the highest round that was seen.
    pub(super) fn round(&self) -> u64 {
        self.highest
    }

    /// Returns a round above all that were seen.
    pub(super) fn next_round(&mut self) -> u64 {
        self.highest = (self.highest + 1).min(MAX_ROUND - 1);
        self.highest
    }

    /// Takes note of a round that was seen somewhere. Returns whether it counts.
    ///
    /// Members start with a round that is a time, and go up by one with each attempt, which is far slower than time. Rounds
    /// that are more than a day ahead are a mistake, and would leave none to the others.
    pub(super) fn note(&mut self, round: u64, now: u64) -> bool {
        let (first, started) = self.first;
        let ahead = now.saturating_sub(started).saturating_add(MOST_AHEAD).min(MAX_ROUND >> 16) << 16;
        let counts = round <= first.saturating_add(ahead).min(MAX_ROUND - 1);
        if counts {
            self.highest = self.highest.max(round);
        }
        counts
    }

    /// Returns to whom this voter has granted the lease, and for how much longer.
    pub(super) fn granted(&self, lease: &str, now: u64) -> Option<(Node, u64)> {
        let grant = self.leases.get(lease)?.grant?;
        (grant.until > now).then(|| (grant.ballot.node, grant.until - now))
    }

    /// Returns for how long this voter's grant to somebody other than `node` still counts.
    pub(super) fn granted_to_other(&self, lease: &str, node: Node, now: u64) -> Option<u64> {
        self.granted(lease, now).filter(|(granted, _)| *granted != node).map(|(_, left)| left)
    }

    /// Answers [`Vote::Prepare`]. A voter that is silent does not answer.
    pub(super) fn prepare(&mut self, lease: &str, ballot: Ballot, now: u64) -> Option<Vote> {
        Some(match self.admit(lease, ballot, now)? {
            Err(refusal) => Vote::Refused(ballot, refusal),
            Ok(_) => Vote::Promise(ballot),
        })
    }

    /// Answers [`Vote::Accept`].
    pub(super) fn accept(&mut self, lease: &str, ballot: Ballot, time: u64, now: u64) -> Option<Vote> {
        // Not longer than this voter would be silent for.
        let time = time.min(self.times.lease);
        Some(match self.admit(lease, ballot, now)? {
            Err(refusal) => Vote::Refused(ballot, refusal),
            Ok(ledger) => {
                ledger.grant = Some(Grant { ballot, until: now + time });
                Vote::Accepted(ballot, time)
            }
        })
    }

    /// Ends the grants of a member up to its ballot. Returns whether there was one.
    pub(super) fn release(&mut self, lease: &str, ballot: Ballot) -> bool {
        let Some(ledger) = self.leases.get_mut(lease) else { return false };
        let released = ledger.grant.is_some_and(|grant| grant.ballot.node == ballot.node && grant.ballot <= ballot);
        if released {
            ledger.grant = None;
        }
        released
    }

    /// Returns the books of a lease, with the promise raised to this ballot, or why the ballot is refused.
    fn admit(&mut self, lease: &str, ballot: Ballot, now: u64) -> Option<Result<&mut Ledger, Refusal>> {
        if !self.note(ballot.round, now) || now < self.silent_until {
            return None;
        }
        if let Some(left) = self.granted_to_other(lease, ballot.node, now) {
            return Some(Err(Refusal::Held(left)));
        }
        if !self.leases.contains_key(lease) && !self.open(lease, now) {
            return Some(Err(Refusal::TooManyLeases));
        }
        let ledger = self.leases.get_mut(lease)?;
        ledger.used = now;
        if ballot < ledger.promised {
            return Some(Err(Refusal::Outdated(ledger.promised.round)));
        }
        ledger.promised = ballot;
        Some(Ok(ledger))
    }

    fn open(&mut self, lease: &str, now: u64) -> bool {
        if lease.len() > MAX_NAME {
            return false;
        }
        if self.leases.len() >= MAX_LEASES {
            self.forget(now);
        }
        if self.leases.len() >= MAX_LEASES {
            return false;
        }
        let promised = Ballot::floor(self.forgotten);
        self.leases.insert(lease.into(), Ledger { promised, grant: None, used: now });
        true
    }

    /// Forgets leases without a grant that nobody asked for lately. Their rounds are kept, so that fences still grow.
    fn forget(&mut self, now: u64) {
        let time = self.times.lease;
        let forgotten = &mut self.forgotten;
        self.leases.retain(|_, ledger| {
            let granted = ledger.grant.is_some_and(|grant| grant.until > now);
            let keep = granted || ledger.used + time > now;
            if !keep {
                *forgotten = (*forgotten).max(ledger.promised.round);
            }
            keep
        });
    }
}
