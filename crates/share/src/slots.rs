//! Slots: the last two digits of a member's job ids, so that no two members make the same id.

use std::collections::{BTreeMap, BTreeSet};

use crate::Node;

/// The highest slot. 99 is kept for job ids that are made from a claim.
pub const MAX_SLOT: u8 = 98;

/// Returns the lowest slot that nobody has, if there is one.
pub fn lowest_free_slot(taken: impl IntoIterator<Item = u8>) -> Option<u8> {
    let taken: BTreeSet<u8> = taken.into_iter().collect();
    (0..=MAX_SLOT).find(|slot| !taken.contains(slot))
}

/// Returns the slots after two members that were accepted at the same time have got different ones: the lower node keeps the
/// slot, the higher one takes the lowest free slot. A member without free slot is left out.
///
/// The members that move are the same for all who know the same slots.
pub fn distinct_slots(slots: &BTreeMap<Node, u8>) -> BTreeMap<Node, u8> {
    // All slots that anybody has are taken from the start, so that who moves never takes one whose owner comes later in the order.
    let mut taken: BTreeSet<u8> = slots.values().copied().collect();
    let mut kept = BTreeSet::new();
    let mut distinct = BTreeMap::new();
    for (node, slot) in slots {
        let mine =
            if *slot <= MAX_SLOT && kept.insert(*slot) { Some(*slot) } else { lowest_free_slot(taken.iter().copied()) };
        if let Some(slot) = mine {
            taken.insert(slot);
            distinct.insert(*node, slot);
        }
    }
    distinct
}

/// The source of moments for a member's job ids: their last two digits are its slot, and they grow in steps of 100
/// microseconds, so that a member makes 10,000 a second.
#[derive(Clone, Debug)]
pub struct JobTimes {
    slot: u8,
    last_step: u64,
}

impl JobTimes {
    /// Creates the source. `last` is the moment of the member's newest job id, in microseconds since 1970.
    pub fn new(slot: u8, last: u64) -> JobTimes {
        JobTimes { slot: slot.min(MAX_SLOT), last_step: last / 100 }
    }

    /// Returns the moment for the next job id at `now`, in microseconds since 1970.
    ///
    /// If the clock goes back, or more ids are needed than there are steps, ids run ahead of the clock.
    pub fn next(&mut self, now: u64) -> u64 {
        // Job ids must grow: the job cache sorts by them, and minions drop an id that they have seen.
        self.last_step = (now / 100).max(self.last_step + 1);
        self.last_step * 100 + u64::from(self.slot)
    }

    /// Takes another slot. Ids continue to grow.
    pub fn set_slot(&mut self, slot: u8) {
        self.slot = slot.min(MAX_SLOT);
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn the_lowest_free_slot_is_taken_and_99_never() {
        assert_eq!(lowest_free_slot([]), Some(0));
        assert_eq!(lowest_free_slot([1, 0, 3]), Some(2));
        assert_eq!(lowest_free_slot(0..=97), Some(98));
        assert_eq!(lowest_free_slot(0..=98), None);
    }

    #[test]
    fn of_two_members_with_one_slot_the_higher_moves() {
        let slots = |slots: &[u8]| slots.iter().zip(1..).map(|(slot, node)| (Node([node; 8]), *slot)).collect();
        let distinct: Vec<u8> = distinct_slots(&slots(&[1, 1, 0, 2, 1])).into_values().collect();
        assert_eq!(distinct, [1, 3, 0, 2, 4], "nobody loses a slot to a member that moves");
    }

    #[test]
    fn slots_are_made_distinct_and_stay() {
        let mut random = StdRng::seed_from_u64(5);
        for _ in 0..500 {
            let count = random.random_range(0..=99);
            let slots: BTreeMap<Node, u8> =
                (0..count).map(|_| (Node(random.random()), random.random_range(0..100))).collect();
            let found = distinct_slots(&slots);
            let different: BTreeSet<u8> = found.values().copied().collect();
            assert_eq!((different.len(), found.len()), (slots.len(), slots.len()));
            assert!(different.iter().all(|slot| *slot <= MAX_SLOT));
            assert_eq!(distinct_slots(&found), found);
        }
    }

    #[test]
    fn moments_grow_end_in_the_slot_and_are_ten_thousand_a_second() {
        let mut times = JobTimes::new(7, 0);
        let first = times.next(1_700_000_000_123_456);
        assert_eq!(first, 1_700_000_000_123_407);
        assert_eq!(times.next(1_700_000_000_123_499), first + 100);
        assert_eq!(times.next(5), first + 200, "the clock went back");
        let many: Vec<u64> = (0..10_000).map(|_| times.next(1_700_000_000_123_456)).collect();
        assert!(many.windows(2).all(|pair| pair[0] < pair[1]) && many.iter().all(|moment| moment % 100 == 7));
        assert!(many[9_999] - first <= 1_001_000);
        let mut restarted = JobTimes::new(7, many[9_999]);
        assert!(restarted.next(0) > many[9_999]);
    }
}
