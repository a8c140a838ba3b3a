//! Claims: who began which run of a duty, and whether it is done. They make the next holder of a lease skip what is done.
//!
//! A duty is the name of a schedule entry or of a reaction; its occasions are the seconds at which it is due, or the boots of a
//! minion. The claim of a duty at an occasion is a record like others; of two claims the one that is done counts, then the
//! earlier one.

use crate::record::{Claim, Content, Record};
use crate::{Key, Node, Stamp};

/// Why a member must not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// It was done.
    #[error("{0:?} has done it")]
    Done(Node),
    /// Somebody began it, and may have done a part of it.
    #[error("{0:?} began it and has not said that it is done")]
    Begun(Node),
    /// There can be no claim of this.
    #[error("the names of the duty and its occasion are empty or have more than {max} bytes", max = Key::MAX_LEN)]
    InvalidName,
}

/// Returns the key of the claim of a duty at one of its occasions.
pub fn claim_key(duty: &str, occasion: &str) -> Result<Key, ClaimError> {
    // What is before the first `/` is the duty, which comes from the configuration and may contain some.
    Key::of_parts(&duty.replace('/', "\\"), occasion).ok_or(ClaimError::InvalidName)
}

/// Returns the claim of the member of the stamp, if it may begin. The record is for all members.
///
/// `known` is the claim that counts so far. `rerun`: what was begun and is not done may be begun again.
pub fn begin_claim(key: &Key, known: Option<&Record>, begun: Stamp, rerun: bool) -> Result<Record, ClaimError> {
    match known.and_then(claim_of) {
        Some(claim) if claim.done.is_some() => return Err(ClaimError::Done(claim.node)),
        Some(claim) if !rerun => return Err(ClaimError::Begun(claim.node)),
        _ => {}
    }
    let claim = Claim { node: begun.node, begun: begun.time >> 16, done: None };
    Ok(Record::new(key.clone(), begun, Content::Claim(claim)))
}

/// Returns the record that says that the run of this claim was done at `now`, in milliseconds since 1970.
///
/// It keeps the stamp of the claim: of two that are done, the one that was begun first counts.
pub fn finish_claim(mine: &Record, now: u64) -> Record {
    let Some(claim) = claim_of(mine) else { return mine.clone() };
    let claim = Claim { done: Some(now), ..claim.clone() };
    Record::new(mine.key.clone(), mine.stamp, Content::Claim(claim))
}

/// Returns whether this claim is the one that counts. Members that all hear of one thing claim it in the same moment; each
/// waits for 300 ms, asks this, and only then begins.
pub fn claim_counts(known: Option<&Record>, mine: &Record) -> bool {
    known.is_some_and(|known| known.stamp == mine.stamp)
}

/// Returns the two members that claim the same, given the claim that counts so far and one that another member sends: two sides
/// of a partition, or a rerun.
pub fn claimed_twice(known: &Record, other: &Record) -> Option<(Node, Node)> {
    let (known, other) = (claim_of(known)?, claim_of(other)?);
    (known.node != other.node).then_some((known.node, other.node))
}

fn claim_of(record: &Record) -> Option<&Claim> {
    match &record.content {
        Content::Claim(claim) => Some(claim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn stamp(time: u64, node: u8) -> Stamp {
        Stamp { time: time << 16, node: Node([node; 8]) }
    }

    /// A copy of all claims.
    #[derive(Clone, Default)]
    struct Copy(BTreeMap<Key, Record>);

    impl Copy {
        fn add(&mut self, record: &Record) {
            let merged = self.0.get(&record.key).map_or(record.clone(), |known| known.merge(record));
            self.0.insert(record.key.clone(), merged);
        }

        fn is_done(&self, key: &Key) -> bool {
            self.0.get(key).and_then(claim_of).is_some_and(|claim| claim.done.is_some())
        }
    }

    #[test]
    fn what_is_done_is_never_begun_again_and_what_is_begun_only_with_rerun() {
        let backup = claim_key("backup", "1767225600").expect("valid");
        let first = begin_claim(&backup, None, stamp(10, 1), false).expect("nobody has begun it");
        let begun = Err(ClaimError::Begun(Node([1; 8])));
        assert_eq!(begin_claim(&backup, Some(&first), stamp(11, 2), false), begun);
        let rerun = begin_claim(&backup, Some(&first), stamp(12, 2), true).expect("a rerun may begin");
        assert_eq!(claimed_twice(&first, &rerun), Some((Node([1; 8]), Node([2; 8]))));
        assert!(claim_counts(Some(&first.merge(&rerun)), &first), "until it is done");
        let done = first.merge(&rerun).merge(&finish_claim(&rerun, 20));
        assert_eq!(claim_of(&done), Some(&Claim { node: Node([2; 8]), begun: 12, done: Some(20) }));
        assert_eq!(begin_claim(&backup, Some(&done), stamp(30, 1), true), Err(ClaimError::Done(Node([2; 8]))));
    }

    #[test]
    fn of_two_that_claim_at_once_the_earlier_counts_everywhere() {
        let start = claim_key("minion_start", "web1 4711").expect("valid");
        let higher = begin_claim(&start, None, stamp(10, 2), false).expect("free");
        let lower = begin_claim(&start, None, stamp(10, 1), false).expect("free");
        for merged in [lower.merge(&higher), higher.merge(&lower)] {
            assert!(claim_counts(Some(&merged), &lower) && !claim_counts(Some(&merged), &higher));
        }
        assert!(!claim_counts(None, &lower), "it was forgotten");
    }

    #[test]
    fn keys_of_claims_fit_their_class_and_have_bounds() {
        let key = claim_key("sls/backup", "2026/1").expect("valid");
        assert_eq!(key.parts(), Some(("sls\\backup", "2026/1")));
        assert!(key.fits(crate::Class::Claim));
        assert_eq!(claim_key(&"x".repeat(Key::MAX_LEN), "1"), Err(ClaimError::InvalidName));
    }

    /// Members begin, finish and hear of claims late and in any order.
    #[test]
    fn copies_agree_when_all_is_heard_and_no_member_begins_what_it_knows_as_done() {
        for seed in 0..200 {
            let mut random = StdRng::seed_from_u64(seed);
            let members = random.random_range(2..=5);
            let mut copies = vec![Copy::default(); members];
            let (mut said, mut running): (Vec<Record>, Vec<(usize, Record)>) = Default::default();
            for time in 0..150 {
                let member = random.random_range(0..members);
                match random.random_range(0..3) {
                    0 => {
                        let key = claim_key("backup", &random.random_range(0..8).to_string()).expect("valid");
                        let known = copies[member].0.get(&key);
                        let begun = begin_claim(&key, known, stamp(time, member as u8), random.random());
                        assert!(!copies[member].is_done(&key) || begun.is_err(), "seed {seed}: {key} was done");
                        if let Ok(claim) = begun {
                            copies[member].add(&claim);
                            said.push(claim.clone());
                            running.push((member, claim));
                        }
                    }
                    1 if !running.is_empty() => {
                        let (member, claim) = running.swap_remove(random.random_range(0..running.len()));
                        let done = finish_claim(&claim, time);
                        copies[member].add(&done);
                        assert!(copies[member].is_done(&claim.key));
                        said.push(done);
                    }
                    _ if !said.is_empty() => {
                        let heard = &said[random.random_range(0..said.len())];
                        let was_done = copies[member].is_done(&heard.key);
                        copies[member].add(heard);
                        assert!(!was_done || copies[member].is_done(&heard.key), "seed {seed}: done was forgotten");
                    }
                    _ => {}
                }
            }
            for copy in &mut copies {
                said.shuffle(&mut random);
                said.iter().for_each(|record| copy.add(record));
            }
            assert!(copies.iter().all(|copy| copy.0 == copies[0].0), "seed {seed}: copies differ");
        }
    }
}
