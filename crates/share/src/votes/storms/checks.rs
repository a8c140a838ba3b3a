//! What must be true during and after a storm.

use super::network::SECOND;
use crate::votes::Ballot;

/// How long nothing must be wrong before two holders are an error in the mode `available`: silence is noticed after 2 s, then
/// the two members talk about it.
const SETTLED: u64 = 5 * SECOND;

/// How long it must be calm before somebody has to hold the lease.
const CERTAIN: u64 = 30 * SECOND;

pub struct Checks {
    seed: u64,
    last_fence: Option<(usize, Ballot)>,
    calm_since: Option<u64>,
    counted: u64,
    until: u64,
    available: bool,
    pub held: u64,
    pub taken: usize,
}

impl Checks {
    pub fn new(seed: u64) -> Checks {
        let (counted, until, held, taken) = (0, 0, 0, 0);
        Checks { seed, last_fence: None, calm_since: None, counted, until, available: false, held, taken }
    }

    pub fn taken(&mut self, member: usize, fence: Ballot) {
        self.taken += 1;
        self.last_fence = Some((member, fence)).inspect(|_| {
            let (seed, last) = (self.seed, self.last_fence);
            // In the mode `available` fences of two members have no order.
            let grows = self.available || last.is_none_or(|(_, last)| fence > last);
            assert!(grows, "seed {seed}: the fence {fence:?} of {member} follows {last:?}");
        });
    }

    pub fn majority(&mut self, now: u64, holders: &[(usize, u64)]) {
        assert!(holders.len() <= 1, "seed {} at {now}: {holders:?} hold the lease", self.seed);
    }

    pub fn available(&mut self, now: u64, calm: bool, holders: &[(usize, u64)]) {
        self.available = true;
        self.calm_since = if calm { self.calm_since.or(Some(now)) } else { None };
        let calm_for = self.calm_since.map_or(0, |since| now - since);
        let seed = self.seed;
        assert!(
            holders.len() <= 1 || calm_for < SETTLED,
            "seed {seed} at {now}: {holders:?} hold the lease while linked"
        );
        assert!(!holders.is_empty() || calm_for < CERTAIN, "seed {seed} at {now}: nobody holds the lease");
    }

    /// Adds up the time for which somebody holds the lease.
    pub fn count(&mut self, now: u64, end: u64, holders: &[(usize, u64)]) {
        let to = now.min(self.until).min(end);
        self.held += to.saturating_sub(self.counted);
        self.counted = now;
        self.until = holders.iter().map(|(_, until)| *until).max().unwrap_or(0);
    }

    pub fn end(&self, holders: &[(usize, u64)]) {
        assert_eq!(holders.len(), 1, "seed {}: when calm, one member holds the lease", self.seed);
    }
}
