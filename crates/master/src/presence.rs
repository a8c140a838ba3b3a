//! Which minions are connected.
//!
//! A connection that listens says little about itself: minions on libzmq not even a name. What proves a minion is a
//! request it sealed, and the address that came from; its listening connection comes from the same address. A
//! connection that names its minion counts for that one alone; several nameless minions behind one address cannot be
//! told apart, and all count as connected while any of their connections is there, as with Salt.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use transport::{Departures, SubscriberStatus};
use wire::MinionId;
use wire::loads::{Abilities, Ability};

/// A minion that certainly has no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Its id.
    pub id: String,
    /// For how long it has been away, at least.
    pub gone: Duration,
    /// Whether it was here since the master started.
    pub seen: bool,
    /// How long it may still take to come back and fetch what it missed.
    pub wait: Duration,
}

/// A minion of ours that restarts, or whose connection broke, is back within this time.
const BACK: Duration = Duration::from_secs(5);

/// After a restart of the master, minions come back within this time.
const ALL_BACK: Duration = Duration::from_secs(30);

/// The addresses minions were last heard from, and what they can do beyond Salt.
#[derive(Debug, Default)]
pub struct Presence(Mutex<HashMap<MinionId, IpAddr>>, Mutex<HashMap<MinionId, Abilities>>);

impl Presence {
    /// Notes that a minion proved itself from an address. Returns whether that is news.
    pub fn heard(&self, minion: &MinionId, from: IpAddr) -> bool {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match heard.get_mut(minion) {
            Some(known) if *known == from => false,
            Some(known) => {
                *known = from;
                true
            }
            None => {
                heard.insert(minion.clone(), from);
                true
            }
        }
    }

    /// Returns the address a minion was last heard from.
    pub fn address(&self, minion: &MinionId) -> Option<IpAddr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(minion).copied()
    }

    /// Notes what a minion said at its last sign-in; `None` for a stock minion.
    pub fn note_abilities(&self, minion: &MinionId, abilities: Option<Abilities>) {
        let mut known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        match abilities {
            Some(abilities) => drop(known.insert(minion.clone(), abilities)),
            None => drop(known.remove(minion)),
        }
    }

    /// Says whether a minion can do something beyond Salt.
    pub fn can(&self, minion: &MinionId, ability: Ability) -> bool {
        let known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(minion).is_some_and(|abilities| abilities.can(ability))
    }

    /// Returns the minions that can do something beyond Salt.
    pub fn all_that_can(&self, ability: Ability) -> HashSet<MinionId> {
        let known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|(_, abilities)| abilities.can(ability)).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the minions of ours of whom `wanted` is true.
    pub fn ours(&self, wanted: impl Fn(&MinionId) -> bool) -> HashSet<MinionId> {
        let known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        known.keys().filter(|id| wanted(id)).cloned().collect()
    }

    /// Says how many of these minions are of Salt.
    pub fn count_stock(&self, minions: &[MinionId]) -> usize {
        let known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        minions.iter().filter(|minion| !known.contains_key(*minion)).count()
    }

    /// Minions of ours name themselves on each connection, so none of theirs is nameless.
    fn says_its_name(&self, minion: &MinionId) -> bool {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).contains_key(minion)
    }

    /// Returns those of some minions that certainly have no connection. A minion that could be behind a connection nobody has
    /// named is left out.
    pub fn absent<'a>(
        &self,
        ids: impl Iterator<Item = &'a str>,
        subscribers: &[SubscriberStatus],
        left: &Departures,
        now: Instant,
    ) -> Vec<Absent> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ours = self.ours(|_| true);
        let (mut named, mut nameless) = (HashSet::new(), HashSet::new());
        for subscriber in subscribers {
            let name = subscriber.minion.as_ref().map(MinionId::as_str).or(subscriber.claimed.as_deref());
            match name {
                Some(name) => drop(named.insert(name)),
                None => drop(nameless.insert(subscriber.peer.ip().to_canonical())),
            }
        }
        // A stock minion whose address has changed listens before it is heard from there.
        let addresses: HashSet<IpAddr> = heard.values().copied().collect();
        let stranger_listens = !nameless.is_subset(&addresses);
        let absent = |id: &str| {
            if named.contains(id) {
                return None;
            }
            let departure = left.names.get(id);
            let (departure, back) = match (ours.contains(id), heard.get(id)) {
                // When it left is not known any more.
                (true, _) => (departure?, BACK),
                // What is published while a stock minion is away never reaches it.
                (false, Some(from)) if !stranger_listens && !nameless.contains(from) => {
                    (departure.max(left.addresses.get(from))?, Duration::ZERO)
                }
                (false, None) if nameless.is_empty() => (departure.unwrap_or(&left.since), ALL_BACK),
                (false, _) => return None,
            };
            let gone = now.saturating_duration_since(*departure);
            let seen = *departure != left.since;
            Some(Absent { id: id.to_owned(), gone, seen, wait: back.saturating_sub(gone) })
        };
        ids.filter_map(absent).collect()
    }

    /// Forgets a minion whose key is gone.
    pub fn forget(&self, minion: &MinionId) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).remove(minion);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(minion);
    }

    /// Returns the minions that have a connection, in order of their ids.
    pub fn connected(&self, subscribers: &[SubscriberStatus]) -> Vec<MinionId> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut present = BTreeSet::new();
        let mut nameless = HashSet::new();
        for subscriber in subscribers {
            let address = subscriber.peer.ip().to_canonical();
            match (&subscriber.minion, &subscriber.claimed) {
                (Some(minion), _) => drop(present.insert(minion.clone())),
                (None, Some(name)) => present.extend(
                    heard.get_key_value(name.as_str()).filter(|(_, from)| **from == address).map(|(id, _)| id.clone()),
                ),
                (None, None) => drop(nameless.insert(address)),
            }
        }
        let named: HashSet<&str> = subscribers.iter().filter_map(|subscriber| subscriber.claimed.as_deref()).collect();
        let named_or_ours = |id: &MinionId| named.contains(id.as_str()) || self.says_its_name(id);
        let rest = heard.iter().filter(|(id, from)| nameless.contains(*from) && !named_or_ours(id));
        present.extend(rest.map(|(id, _)| id.clone()));
        present.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> MinionId {
        MinionId::new(name).unwrap()
    }

    fn from(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn subscriber(claimed: Option<&str>, from: IpAddr) -> SubscriberStatus {
        SubscriberStatus {
            number: 1,
            minion: None,
            claimed: claimed.map(str::to_owned),
            peer: (from, 4505).into(),
            since: std::time::UNIX_EPOCH,
            queued: 0,
            dropped: 0,
        }
    }

    /// `ours` and `stock` were here and left three seconds ago; the master runs for a minute.
    fn known() -> (Presence, Departures, Instant) {
        let (presence, since) = (Presence::default(), Instant::now());
        let now = since + Duration::from_secs(60);
        let left = now - Duration::from_secs(3);
        presence.heard(&id("ours"), from(1));
        presence.heard(&id("stock"), from(2));
        presence.note_abilities(&id("ours"), Some(Abilities::default()));
        let departures =
            Departures { since, names: [("ours".to_owned(), left)].into(), addresses: [(from(2), left)].into() };
        (presence, departures, now)
    }

    fn absent(subscribers: &[SubscriberStatus]) -> Vec<(String, u64, bool, u64)> {
        let (presence, departures, now) = known();
        let found = presence.absent(["ours", "stock", "never"].into_iter(), subscribers, &departures, now);
        found.into_iter().map(|it| (it.id, it.gone.as_secs(), it.seen, it.wait.as_secs())).collect()
    }

    #[test]
    fn who_left_is_away_and_may_come_back_for_a_moment() {
        let expected = [("ours", 3, true, 2), ("stock", 3, true, 0), ("never", 60, false, 0)];
        assert_eq!(absent(&[]), expected.map(|(id, gone, seen, wait)| (id.to_owned(), gone, seen, wait)));
    }

    #[test]
    fn who_could_be_behind_a_connection_is_not_called_away() {
        let ids = |subscribers: &[SubscriberStatus]| {
            absent(subscribers).into_iter().map(|(id, ..)| id).collect::<Vec<String>>()
        };
        // A claim proves nothing, but it may be true.
        assert_eq!(ids(&[subscriber(Some("ours"), from(9))]), ["stock", "never"]);
        assert_eq!(ids(&[subscriber(Some("never"), from(9))]), ["ours", "stock"]);
        // Nameless connections are of stock minions, which may have another address than before.
        assert_eq!(ids(&[subscriber(None, from(2))]), ["ours"]);
        assert_eq!(ids(&[subscriber(None, from(9))]), ["ours"]);
        assert_eq!(ids(&[subscriber(None, from(1))]), ["ours", "stock"]);
    }

    #[test]
    fn who_left_at_an_unknown_time_is_waited_for() {
        let (presence, mut departures, now) = known();
        departures.names.clear();
        departures.addresses.clear();
        assert_eq!(presence.absent(["ours", "stock"].into_iter(), &[], &departures, now), []);
    }

    #[test]
    fn after_a_restart_of_the_master_minions_have_time_to_come_back() {
        let (presence, departures, _) = known();
        let now = departures.since + Duration::from_secs(10);
        let never = presence.absent(["never"].into_iter(), &[], &departures, now);
        assert_eq!(never[0].wait, Duration::from_secs(20));
    }
}
