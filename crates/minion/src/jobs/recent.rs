//! The job ids seen lately: one job that arrives through two masters runs once.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

/// The last job ids, up to `minion_jid_queue_hwm` of them.
#[derive(Debug)]
pub struct RecentJids {
    most: usize,
    seen: Mutex<(VecDeque<String>, HashSet<String>)>,
}

impl RecentJids {
    /// Remembers up to `most` ids; with 0 nothing is remembered and every job runs.
    pub fn new(most: usize) -> Self {
        RecentJids { most, seen: Mutex::default() }
    }

    /// Notes an id. Says whether it is new, so that its job should run.
    pub fn note(&self, jid: &str) -> bool {
        let mut seen = self.seen.lock().expect("noting does not panic");
        let (order, known) = &mut *seen;
        if !known.insert(jid.to_owned()) {
            return false;
        }
        order.push_back(jid.to_owned());
        while order.len() > self.most {
            if let Some(oldest) = order.pop_front() {
                known.remove(&oldest);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jid_is_new_once_until_it_is_forgotten() {
        let recent = RecentJids::new(2);
        assert!(recent.note("1"));
        assert!(!recent.note("1"));
        assert!(recent.note("2"));
        assert!(recent.note("3"));
        assert!(recent.note("1"), "two newer ones have pushed it out");
    }
}
