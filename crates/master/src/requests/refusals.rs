//! Logs refused requests: each complaint about an address, or about a minion with an accepted key, once a minute. The
//! log itself limits the number of lines that strangers can cause.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{debug, warn};
use wire::{MinionId, Network};

/// The time between two log lines of the same complaint about the same subject.
const QUIET: Duration = Duration::from_secs(60);

/// The largest number of subjects that are remembered. Complaints about others are repeated.
const SUBJECTS: usize = 1024;

/// The largest number of different complaints about one subject.
const COMPLAINTS: usize = 16;

/// The longest reason, in bytes.
const LONGEST: usize = 512;

/// Remembers the complaints.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<Subject, HashMap<String, Complaint>>>);

/// The subject of a complaint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Stranger(Network),
    /// A minion with an accepted key, which the sender may only claim to be. Complaints about an address must not hide
    /// those about a minion there.
    Minion(MinionId),
}

/// When it was last logged, and how often it was suppressed since then.
struct Complaint {
    last: Instant,
    left_out: u64,
}

impl Complaint {
    fn is_quiet(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < QUIET
    }
}

impl Refusals {
    /// Logs why a request from this address was refused: at once, then at most once a minute with the number of
    /// repetitions. `about` is the minion with an accepted key that the request named, if any.
    pub fn note(&self, peer: IpAddr, about: Option<&MinionId>, reason: &str) {
        // Some reasons quote what was sent.
        let reason = &*value::escape::brief(reason, LONGEST);
        let subject = about.map_or_else(|| Subject::Stranger(peer.into()), |id| Subject::Minion(id.clone()));
        match self.count(subject, reason, Instant::now()) {
            Some(0) => warn!("Bad request from {peer}: {reason}"),
            Some(more) => warn!("Bad request from {peer}: {reason} ({more} more since the last message)"),
            None => debug!("Bad request from {peer}: {reason}"),
        }
    }

    /// Returns how many were suppressed since the last message; `None` if it is too early for another one.
    fn count(&self, subject: Subject, reason: &str, now: Instant) -> Option<u64> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= SUBJECTS && !seen.contains_key(&subject) {
            seen.retain(|_, complaints| complaints.values().any(|complaint| complaint.is_quiet(now)));
            if seen.len() >= SUBJECTS {
                return Some(0);
            }
        }
        let complaints = seen.entry(subject).or_default();
        if complaints.len() >= COMPLAINTS {
            complaints.retain(|_, complaint| complaint.is_quiet(now));
        }
        let told_apart = complaints.len() < COMPLAINTS || complaints.contains_key(reason);
        let reason = if told_apart { reason } else { "many different reasons" };
        match complaints.get_mut(reason) {
            Some(complaint) if complaint.is_quiet(now) => {
                complaint.left_out += 1;
                None
            }
            Some(complaint) => Some(std::mem::replace(complaint, Complaint { last: now, left_out: 0 }).left_out),
            None => {
                complaints.insert(reason.to_owned(), Complaint { last: now, left_out: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: [u8; 4]) -> Subject {
        Subject::Stranger(IpAddr::from(address).into())
    }

    #[test]
    fn a_long_reason_is_cut_before_it_is_remembered() {
        let refusals = Refusals::default();
        refusals.note(IpAddr::from([192, 0, 2, 1]), None, &"x".repeat(1 << 20));
        let seen = refusals.0.lock().unwrap();
        assert!(seen.values().flat_map(HashMap::keys).all(|reason| reason.len() < 2 * LONGEST));
    }

    #[test]
    fn the_same_complaint_is_heard_once_a_minute() {
        let (refusals, peer, start) = (Refusals::default(), peer([192, 0, 2, 1]), Instant::now());
        let count = |reason, later| refusals.count(peer.clone(), reason, start + later);
        let now = Duration::ZERO;
        assert_eq!([count("a", now), count("a", now), count("b", now)], [Some(0), None, Some(0)]);
        assert_eq!([count("a", now), count("a", QUIET), count("a", QUIET)], [None, Some(2), None]);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_nobody_silences_another() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        for number in 0..3 * SUBJECTS {
            let peer = peer([10, 0, u8::try_from(number >> 8).unwrap(), u8::try_from(number & 0xff).unwrap()]);
            for reason in 0..2 * COMPLAINTS {
                refusals.count(peer.clone(), &reason.to_string(), now);
            }
        }
        let seen = refusals.0.lock().unwrap();
        assert!(seen.len() <= SUBJECTS && seen.values().all(|complaints| complaints.len() <= COMPLAINTS + 1));
        drop(seen);
        assert_eq!(refusals.count(peer([192, 0, 2, 1]), "a", now), Some(0));
    }

    #[test]
    fn complaints_about_an_address_hide_none_about_a_minion_there() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        for reason in 0..2 * COMPLAINTS {
            refusals.count(peer([192, 0, 2, 1]), &reason.to_string(), now);
        }
        assert_eq!(refusals.count(peer([192, 0, 2, 1]), "a replay", now), None);
        let minion = || Subject::Minion(MinionId::new("web1").unwrap());
        assert_eq!([(); 2].map(|()| refusals.count(minion(), "a replay", now)), [Some(0), None]);
    }
}
