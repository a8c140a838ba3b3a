//! Which minions are connected.
//!
//! A connection that listens says little about itself: minions on libzmq not even a name. What proves a minion is a
//! request it sealed, and the address that came from; its listening connection comes from the same address. A
//! connection that names its minion counts for that one alone; several nameless minions behind one address cannot be
//! told apart, and all count as connected while any of their connections is there, as with Salt.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use transport::SubscriberStatus;
use wire::MinionId;
use wire::loads::{Abilities, Ability};

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
