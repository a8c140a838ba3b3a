//! How many logins wait, and how many failures an address and a user may have.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use wire::Network;

/// The largest number of logins that wait, and how many of them may be of one address.
const PLACES: usize = 256;
const PLACES_OF_ONE: usize = 32;

/// Failures are counted for this time, and who has too many is refused for as long.
const MINUTE: Duration = Duration::from_secs(60);

/// The most failures of an address and of a user in a minute.
const OF_ADDRESS: usize = 10;
const OF_USER: usize = 20;

/// The largest number of addresses and of users that are remembered.
const SUBJECTS: usize = 4096;

/// From how many addresses a user may have logged in before.
const KNOWN_OF_USER: usize = 16;

/// The line of logins.
#[derive(Default)]
pub struct Places(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    all: usize,
    by_address: HashMap<Network, usize>,
}

/// A place in the line. Free again when dropped.
pub struct Place {
    places: Arc<Places>,
    address: Network,
}

impl Places {
    /// Takes a place. Returns `None` if there is none left.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let (is_here, address) = (address.is_loopback(), Network::from(address));
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.by_address.get(&address).copied().unwrap_or_default();
        // A few hosts elsewhere must not keep out those who are on this one.
        let most = if is_here { PLACES } else { PLACES - PLACES_OF_ONE };
        if taken.all >= most || own >= PLACES_OF_ONE {
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, own + 1);
        Some(Place { places: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        let left = taken.by_address.get(&self.address).map_or(0, |own| own.saturating_sub(1));
        match left {
            0 => drop(taken.by_address.remove(&self.address)),
            left => drop(taken.by_address.insert(self.address, left)),
        }
    }
}

/// The failures of the last minute.
///
/// Where a user has logged in before, the failures are counted apart: a stranger who guesses a password elsewhere must
/// not lock out its owner.
#[derive(Default)]
pub struct Limits {
    addresses: HashMap<Network, Failures>,
    users: HashMap<String, Failures>,
    /// The addresses where a user has logged in, the last one at the end, with the failures there.
    known: HashMap<String, Vec<(Network, Failures)>>,
}

/// When the minute began, and the failures since then.
#[derive(Clone, Copy)]
struct Failures {
    since: Instant,
    count: usize,
}

impl Failures {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= MINUTE
    }

    fn add(&mut self, most: usize, now: Instant) {
        if self.is_over(now) {
            *self = Failures { since: now, count: 0 };
        }
        self.count += 1;
        if self.count == most {
            // The refusals last a minute from here.
            self.since = now;
        }
    }
}

impl Limits {
    /// Returns why a login is refused without a look at its password.
    pub fn refuses(&self, address: IpAddr, user: &str, now: Instant) -> Option<&'static str> {
        let over = |failures: Option<&Failures>, most| {
            failures.is_some_and(|failures| failures.count >= most && !failures.is_over(now))
        };
        if !address.is_loopback() && over(self.addresses.get(&Network::from(address)), OF_ADDRESS) {
            return Some("too many failures of this address, try again in a minute");
        }
        let here = self.known.get(user).and_then(|known| find(known, Network::from(address)));
        over(here.or(self.users.get(user)), OF_USER).then_some("too many failures of this user, try again in a minute")
    }

    /// Remembers that a user has logged in from an address.
    pub fn note_success(&mut self, address: IpAddr, user: &str, now: Instant) {
        let is_full = self.known.len() >= SUBJECTS && !self.known.contains_key(user);
        if is_full {
            return;
        }
        let (known, address) = (self.known.entry(user.to_owned()).or_default(), Network::from(address));
        let failures = find(known, address).copied().unwrap_or(Failures { since: now, count: 0 });
        known.retain(|(other, _)| *other != address);
        if known.len() >= KNOWN_OF_USER {
            known.remove(0);
        }
        known.push((address, failures));
    }

    /// Counts a failure.
    pub fn note_failure(&mut self, address: IpAddr, user: &str, now: Instant) {
        // All users of this host, and of an API on it, have the same address.
        if !address.is_loopback() {
            note(&mut self.addresses, Network::from(address), OF_ADDRESS, now);
        }
        let known = self.known.get_mut(user).and_then(|known| find_mut(known, Network::from(address)));
        match known {
            Some(failures) => failures.add(OF_USER, now),
            None => note(&mut self.users, user.to_owned(), OF_USER, now),
        }
    }
}

fn find(known: &[(Network, Failures)], address: Network) -> Option<&Failures> {
    known.iter().find(|(other, _)| *other == address).map(|(_, failures)| failures)
}

fn find_mut(known: &mut [(Network, Failures)], address: Network) -> Option<&mut Failures> {
    known.iter_mut().find(|(other, _)| *other == address).map(|(_, failures)| failures)
}

fn note<K: Eq + Hash>(subjects: &mut HashMap<K, Failures>, subject: K, most: usize, now: Instant) {
    if subjects.len() >= SUBJECTS && !subjects.contains_key(&subject) {
        subjects.retain(|_, failures| !failures.is_over(now));
        // Who comes from thousands of addresses is not stopped by a count for each.
        if subjects.len() >= SUBJECTS {
            return;
        }
    }
    subjects.entry(subject).or_insert(Failures { since: now, count: 0 }).add(most, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn the_line_is_bounded_for_each_address_and_for_all() {
        let places = Arc::new(Places::default());
        let mut own: Vec<_> = (0..PLACES_OF_ONE).map(|_| places.take(address(1)).unwrap()).collect();
        assert!(places.take(address(1)).is_none());
        assert!(places.take(address(2)).is_some(), "others are not concerned");
        own.pop();
        assert!(places.take(address(1)).is_some());
        let others: Vec<_> = (2..=255).filter_map(|last| places.take(address(last))).collect();
        assert_eq!(own.len() + others.len(), PLACES - PLACES_OF_ONE);
        let here: Vec<_> = (0..=PLACES_OF_ONE).filter_map(|_| places.take([127, 0, 0, 1].into())).collect();
        assert_eq!(here.len(), PLACES_OF_ONE, "they keep out nobody on this host");
        drop((own, others, here));
        assert!(places.0.lock().unwrap().by_address.is_empty());
    }

    #[test]
    fn failures_are_counted_by_address_and_by_user() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        for _ in 0..OF_ADDRESS {
            assert_eq!(limits.refuses(address(1), "fred", now), None);
            limits.note_failure(address(1), "fred", now);
        }
        assert!(limits.refuses(address(1), "ann", now).is_some());
        assert_eq!(limits.refuses(address(2), "fred", now), None);
        for _ in 0..OF_USER - OF_ADDRESS {
            limits.note_failure(address(2), "fred", now);
        }
        assert!(limits.refuses(address(3), "fred", now).is_some());
        assert_eq!(limits.refuses(address(3), "fred", now + MINUTE), None);
        let here: IpAddr = [127, 0, 0, 1].into();
        for number in 0..3 * OF_USER {
            limits.note_failure(here, &format!("user{number}"), now);
        }
        assert_eq!(limits.refuses(here, "ann", now), None, "a local user locks nobody else out");
    }

    #[test]
    fn who_guesses_elsewhere_locks_nobody_out_where_they_have_logged_in_before() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        limits.note_success(address(1), "fred", now);
        for last in 2..=9 {
            (0..OF_ADDRESS).for_each(|_| limits.note_failure(address(last), "fred", now));
        }
        assert!(limits.refuses(address(10), "fred", now).is_some());
        assert_eq!(limits.refuses(address(1), "fred", now), None);
        // There as well, nobody may guess for ever, and another login changes nothing about that.
        let here: IpAddr = [127, 0, 0, 1].into();
        limits.note_success(here, "fred", now);
        (0..OF_USER).for_each(|_| limits.note_failure(here, "fred", now));
        limits.note_success(here, "fred", now);
        assert!(limits.refuses(here, "fred", now).is_some());
        assert_eq!(limits.refuses(here, "fred", now + MINUTE), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        for last in 0..=255 {
            limits.note_success(address(last), "fred", now);
        }
        let known: Vec<_> = limits.known["fred"].iter().map(|(known, _)| *known).collect();
        assert_eq!(known, (240..=255).map(|last| Network::from(address(last))).collect::<Vec<_>>());
        for number in 0..2 * SUBJECTS {
            limits.note_success(address(1), &number.to_string(), now);
        }
        assert_eq!(limits.known.len(), SUBJECTS);
        for number in 0..2 * SUBJECTS {
            limits.note_failure(address(1), &number.to_string(), now);
        }
        assert!(limits.users.len() <= SUBJECTS);
    }
}
