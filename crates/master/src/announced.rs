//! Remembers which returns were announced without being stored, and which jobs of other masters were announced.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use wire::MinionId;

/// The largest number of announcements that are remembered.
const REMEMBERED: usize = 8192;

/// The latest announced returns that are not on disk, and jobs of other masters.
#[derive(Debug, Default)]
pub struct Announced {
    hasher: RandomState,
    latest: Mutex<(VecDeque<u64>, HashSet<u64>)>,
}

impl Announced {
    /// Returns whether a return was announced.
    pub fn contains(&self, jid: &str, id: &MinionId) -> bool {
        // A hash needs 8 bytes, and a collision only hides one announcement.
        let hash = self.hasher.hash_one((jid, id.as_str()));
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).1.contains(&hash)
    }

    /// Notes the announcement of a return. Returns whether it is the first.
    pub fn note(&self, jid: &str, id: &MinionId) -> bool {
        self.is_first(self.hasher.hash_one((jid, id.as_str())))
    }

    /// Notes the announcement of a job of another master. Returns whether it is the first: the job comes by the link and as a record,
    /// at the same time, and neither is in the job cache when the other one looks.
    pub fn note_job(&self, jid: &str) -> bool {
        self.is_first(self.hasher.hash_one(jid))
    }

    fn is_first(&self, hash: u64) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (order, known) = &mut *latest;
        if !known.insert(hash) {
            return false;
        }
        order.push_back(hash);
        if order.len() > REMEMBERED
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_announced_once_whether_its_returns_are_or_not() {
        let (announced, web1) = (Announced::default(), MinionId::new("web1").unwrap());
        assert!(announced.note("1", &web1) && announced.note_job("1"));
        assert!(!announced.note_job("1") && !announced.note("1", &web1));
        assert!(announced.note_job("2") && !announced.contains("2", &web1));
        (0..REMEMBERED).for_each(|jid| assert!(announced.note_job(&format!("x{jid}"))));
        assert!(announced.note_job("1"), "what was long ago is forgotten");
    }
}
