//! Remembers which returns were announced without being stored.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use wire::MinionId;

/// The largest number of announcements that are remembered.
const REMEMBERED: usize = 8192;

/// The latest announced returns that are not on disk.
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

    /// Notes an announcement. Returns whether it is the first.
    pub fn note(&self, jid: &str, id: &MinionId) -> bool {
        let hash = self.hasher.hash_one((jid, id.as_str()));
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
