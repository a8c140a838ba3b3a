//! Says in the log what was refused, without letting strangers fill it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{debug, warn};

/// How long the same complaint about the same address is not repeated.
const QUIET: Duration = Duration::from_secs(60);

/// Most complaints that are remembered; beyond it strangers share one.
const REMEMBERED: usize = 4096;

/// Longest reason, in bytes.
const LONGEST: usize = 512;

/// Remembers what was complained about.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<(IpAddr, String), (Instant, u64)>>);

impl Refusals {
    /// Logs why a request of this address was refused: once, and then at most once a minute with their number.
    pub fn note(&self, peer: IpAddr, reason: &str) {
        // Some reasons quote what was sent.
        let reason = &*value::shown::brief(reason, LONGEST);
        match self.count(peer, reason, Instant::now()) {
            Some(0) => warn!("Bad request from {peer}: {reason}"),
            Some(more) => warn!("Bad request from {peer}: {reason} ({more} more since the last message)"),
            None => debug!("Bad request from {peer}: {reason}"),
        }
    }

    /// Returns how many were left out since the last message; `None` when it is too early for another.
    fn count(&self, peer: IpAddr, reason: &str, now: Instant) -> Option<u64> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED {
            seen.retain(|_, (last, _)| now.duration_since(*last) < QUIET);
        }
        let full = seen.len() >= REMEMBERED;
        let key = (peer, if full { "many different reasons".to_owned() } else { reason.to_owned() });
        let key = if full && !seen.contains_key(&key) { (IpAddr::from([0, 0, 0, 0]), String::new()) } else { key };
        match seen.get_mut(&key) {
            Some((last, left_out)) if now.duration_since(*last) < QUIET => {
                *left_out += 1;
                None
            }
            Some(entry) => Some(std::mem::replace(entry, (now, 0)).1),
            None => {
                seen.insert(key, (now, 0));
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_before_it_is_remembered() {
        let refusals = Refusals::default();
        refusals.note(IpAddr::from([192, 0, 2, 1]), &"x".repeat(1 << 20));
        assert!(refusals.0.lock().unwrap().keys().all(|(_, reason)| reason.len() < 2 * LONGEST));
    }

    #[test]
    fn the_same_complaint_is_heard_once_a_minute() {
        let (refusals, peer, start) = (Refusals::default(), IpAddr::from([192, 0, 2, 1]), Instant::now());
        let count = |reason, later| refusals.count(peer, reason, start + later);
        let now = Duration::ZERO;
        assert_eq!([count("a", now), count("a", now), count("b", now)], [Some(0), None, Some(0)]);
        assert_eq!([count("a", now), count("a", QUIET), count("a", QUIET)], [None, Some(2), None]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (refusals, peer, now) = (Refusals::default(), IpAddr::from([192, 0, 2, 1]), Instant::now());
        for number in 0..3 * REMEMBERED {
            refusals.count(peer, &number.to_string(), now);
        }
        assert!(refusals.0.lock().unwrap().len() <= REMEMBERED + 1);
    }
}
