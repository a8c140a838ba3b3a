//! Which minions are connected, and what they can do beyond Salt.
//!
//! A subscriber does not prove who it is, and neither does a sign-in, because names and public keys are not secret.
//! Only an encrypted request authenticates a minion. It names the minion's abilities, and shows its address; a
//! subscriber that claims the minion's name counts if it connects from the same address ([`ProvenAddresses`]). Minions
//! that use libzmq do not name themselves. Those behind one address cannot be distinguished, so all of them count as
//! connected as long as any nameless connection from there exists, as with Salt, or until another master hears from one of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use transport::{Departures, ProvenAddresses, SubscriberStatus};
use wire::MinionId;
use wire::loads::{Abilities, Ability, Sender};

/// A minion that is certainly not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Its id.
    pub id: String,
    /// The minimum time for which it has been disconnected.
    pub gone: Duration,
    /// True if it was connected at some time since the master started.
    pub seen: bool,
    /// How much longer it may take to reconnect and fetch missed jobs.
    pub wait: Duration,
}

/// A Saltern minion that restarts, or whose connection broke, reconnects within this time.
const BACK: Duration = Duration::from_secs(5);

/// After a restart of the master, minions reconnect within this time.
const ALL_BACK: Duration = Duration::from_secs(30);

/// What is known about minions from their encrypted requests.
#[derive(Debug, Default)]
pub struct Presence {
    addresses: Arc<ProvenAddresses>,
    abilities: Mutex<HashMap<MinionId, Abilities>>,
}

impl Presence {
    /// Creates an empty record. `addresses` is shared with the publisher, which verifies claims with it.
    pub fn new(addresses: Arc<ProvenAddresses>) -> Self {
        Presence { addresses, abilities: Mutex::default() }
    }

    /// Returns the address from which a minion last authenticated itself.
    pub fn address(&self, minion: &MinionId) -> Option<IpAddr> {
        self.addresses.get(minion)
    }

    /// Notes what an encrypted request of a minion says about its sender.
    pub fn note_sender(&self, minion: &MinionId, sender: &Sender) {
        let mut known = self.abilities();
        let was_ours = known.contains_key(minion);
        match sender {
            Sender::Minion(abilities) if known.get(minion) == Some(abilities) => {}
            Sender::Minion(abilities) => drop(known.insert(minion.clone(), abilities.clone())),
            Sender::Stock => drop(known.remove(minion)),
            // The minion beside it is another program.
            Sender::Caller => {}
        }
        // Which of the nameless connections may be its own follows from this.
        if known.contains_key(minion) != was_ours {
            self.addresses.notify();
        }
    }

    /// Waits until other minions may be connected than at the last call. For one task only.
    pub async fn changed(&self) {
        self.addresses.changed().await;
    }

    fn abilities(&self) -> MutexGuard<'_, HashMap<MinionId, Abilities>> {
        // Each change is a single insert or remove, so the content is whole after any panic.
        self.abilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a minion can do something beyond Salt.
    pub fn can(&self, minion: &MinionId, ability: Ability) -> bool {
        self.abilities().get(minion).is_some_and(|abilities| abilities.can(ability))
    }

    /// Returns the minions that can do something beyond Salt.
    pub fn all_that_can(&self, ability: Ability) -> HashSet<MinionId> {
        let known = self.abilities();
        known.iter().filter(|(_, abilities)| abilities.can(ability)).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the Saltern minions for which `wanted` is true.
    pub fn ours(&self, wanted: impl Fn(&MinionId) -> bool) -> HashSet<MinionId> {
        let known = self.abilities();
        known.keys().filter(|id| wanted(id)).cloned().collect()
    }

    /// Returns how many of these minions are Salt minions.
    pub fn count_stock(&self, minions: &[MinionId]) -> usize {
        let known = self.abilities();
        minions.iter().filter(|minion| !known.contains_key(*minion)).count()
    }

    /// Returns whether a minion states its id on every connection, as Saltern minions do. A nameless connection is then
    /// never one of its own.
    fn says_its_name(&self, minion: &MinionId) -> bool {
        self.abilities().contains_key(minion)
    }

    /// Returns the minions of a list that are certainly not connected. A minion that could be behind a nameless
    /// connection is left out. Unproven claims have no effect.
    pub fn absent<'a>(
        &self,
        ids: impl Iterator<Item = &'a str>,
        subscribers: &[SubscriberStatus],
        left: &Departures,
        now: Instant,
    ) -> Vec<Absent> {
        let (heard, ours) = (self.addresses.all(), self.ours(|_| true));
        let (named, nameless) = split(subscribers);
        // A stock minion whose address has changed listens before it is heard from there.
        let addresses: HashSet<IpAddr> = heard.values().copied().collect();
        let stranger_listens = !nameless.is_subset(&addresses);
        let absent = |id: &str| {
            if named.contains_key(id) {
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

    /// Forgets a minion whose key was removed.
    pub fn forget(&self, minion: &MinionId) {
        self.abilities().remove(minion);
        self.addresses.forget(minion);
    }

    /// Forgets where Salt minions were heard from that have just moved to another master, if fewer nameless connections come from
    /// there than Salt minions that were heard from there: what is connected there are others behind the same address.
    pub fn moved_away<'a>(&self, moved: impl Iterator<Item = &'a MinionId>, subscribers: &[SubscriberStatus]) {
        let heard = self.addresses.all();
        let (mut connections, mut minions) = (HashMap::<IpAddr, usize>::new(), HashMap::<IpAddr, usize>::new());
        for subscriber in subscribers.iter().filter(|it| it.minion.is_none() && it.claimed.is_none()) {
            *connections.entry(subscriber.peer.ip().to_canonical()).or_default() += 1;
        }
        for (_, from) in heard.iter().filter(|(id, _)| !self.says_its_name(id)) {
            *minions.entry(*from).or_default() += 1;
        }
        for id in moved.filter(|id| !self.says_its_name(id)) {
            let Some(from) = heard.get(id) else { continue };
            let behind = minions.entry(*from).or_default();
            if *behind > connections.get(from).copied().unwrap_or_default() {
                *behind -= 1;
                self.addresses.forget(id);
            }
        }
    }

    /// Returns the connected minions, sorted by id.
    pub fn connected(&self, subscribers: &[SubscriberStatus]) -> Vec<MinionId> {
        let (named, nameless) = split(subscribers);
        let mut present: BTreeSet<MinionId> = named.values().map(|id| (*id).clone()).collect();
        if !nameless.is_empty() {
            let named_or_ours = |id: &MinionId| named.contains_key(id.as_str()) || self.says_its_name(id);
            let known = self.addresses.all().into_iter();
            present.extend(known.filter(|(id, from)| nameless.contains(from) && !named_or_ours(id)).map(|(id, _)| id));
        }
        present.into_iter().collect()
    }
}

/// Returns the minions with a connection that names them, and the addresses of the nameless connections.
fn split(subscribers: &[SubscriberStatus]) -> (HashMap<&str, &MinionId>, HashSet<IpAddr>) {
    let named = subscribers.iter().filter_map(|subscriber| subscriber.minion.as_ref());
    let nameless = subscribers.iter().filter(|subscriber| subscriber.minion.is_none() && subscriber.claimed.is_none());
    (named.map(|id| (id.as_str(), id)).collect(), nameless.map(|it| it.peer.ip().to_canonical()).collect())
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

    /// Returns the status of a subscriber as the publisher reports it.
    fn subscriber(presence: &Presence, claimed: Option<&str>, from: IpAddr) -> SubscriberStatus {
        SubscriberStatus {
            number: 1,
            minion: claimed.and_then(|name| presence.addresses.confirm(name, from)),
            claimed: claimed.map(str::to_owned),
            peer: (from, 4505).into(),
            since: std::time::UNIX_EPOCH,
            queued: 0,
            dropped: 0,
        }
    }

    /// `ours` and `stock` disconnected three seconds ago; the master has been running for a minute.
    fn known() -> (Presence, Departures, Instant) {
        let (presence, since) = (Presence::default(), Instant::now());
        let now = since + Duration::from_secs(60);
        let left = now - Duration::from_secs(3);
        presence.addresses.note(&id("ours"), from(1));
        presence.addresses.note(&id("stock"), from(2));
        presence.note_sender(&id("ours"), &Sender::Minion(Abilities::default()));
        let departures =
            Departures { since, names: [("ours".to_owned(), left)].into(), addresses: [(from(2), left)].into() };
        (presence, departures, now)
    }

    type Claim = (Option<&'static str>, u8);

    fn subscribers(presence: &Presence, claims: &[Claim]) -> Vec<SubscriberStatus> {
        claims.iter().map(|(name, last)| subscriber(presence, *name, from(*last))).collect()
    }

    fn absent(claims: &[Claim]) -> Vec<(String, u64, bool, u64)> {
        let (presence, departures, now) = known();
        let subscribers = subscribers(&presence, claims);
        let found = presence.absent(["ours", "stock", "never"].into_iter(), &subscribers, &departures, now);
        found.into_iter().map(|it| (it.id, it.gone.as_secs(), it.seen, it.wait.as_secs())).collect()
    }

    #[test]
    fn who_left_is_away_and_may_come_back_for_a_moment() {
        let expected = [("ours", 3, true, 2), ("stock", 3, true, 0), ("never", 60, false, 0)];
        assert_eq!(absent(&[]), expected.map(|(id, gone, seen, wait)| (id.to_owned(), gone, seen, wait)));
    }

    #[test]
    fn who_could_be_behind_a_connection_is_not_called_away() {
        let ids = |claims: &[Claim]| absent(claims).into_iter().map(|(id, ..)| id).collect::<Vec<String>>();
        assert_eq!(ids(&[(Some("ours"), 1)]), ["stock", "never"]);
        // Nameless connections are of stock minions, which may have another address than before.
        assert_eq!(ids(&[(None, 2)]), ["ours"]);
        assert_eq!(ids(&[(None, 9)]), ["ours"]);
        assert_eq!(ids(&[(None, 1)]), ["ours", "stock"]);
    }

    #[test]
    fn a_claim_from_elsewhere_changes_nothing() {
        let claims = ["ours", "stock", "never", "nobody"].map(|name| (Some(name), 9));
        assert_eq!(absent(&claims), absent(&[]));
        let (presence, ..) = known();
        let connected = |claims: &[Claim]| {
            let found = presence.connected(&subscribers(&presence, claims));
            found.into_iter().map(|id| id.to_string()).collect::<Vec<String>>()
        };
        assert_eq!(connected(&claims), [""; 0]);
        let honest = [(Some("ours"), 1), (None, 2)];
        assert_eq!(connected(&honest), ["ours", "stock"]);
        assert_eq!(connected(&[&honest[..], &claims].concat()), ["ours", "stock"]);
        assert_eq!(connected(&[(None, 1)]), [""; 0], "a minion of Saltern names itself");
    }

    #[test]
    fn a_stock_minion_that_moved_is_not_taken_for_others_behind_its_address() {
        let (presence, ..) = known();
        presence.addresses.note(&id("beside"), from(2));
        let connected = |claims: &[Claim]| {
            let found = presence.connected(&subscribers(&presence, claims));
            found.into_iter().map(|id| id.to_string()).collect::<Vec<String>>()
        };
        let (both, one): ([Claim; 2], [Claim; 1]) = ([(None, 2), (None, 2)], [(None, 2)]);
        let moved = |claims: &[Claim]| presence.moved_away([id("stock")].iter(), &subscribers(&presence, claims));
        moved(&both);
        assert_eq!(connected(&both), ["beside", "stock"], "it is connected to both masters");
        assert_eq!(connected(&one), ["beside", "stock"]);
        moved(&one);
        assert_eq!(connected(&one), ["beside"]);
        presence.addresses.note(&id("stock"), from(2));
        assert_eq!(connected(&one), ["beside", "stock"], "it was heard from again");
    }

    #[test]
    fn abilities_are_those_of_the_last_request_of_the_minion() {
        let (presence, minion) = (Presence::default(), id("web1"));
        let all = Sender::Minion(Abilities::all("", ""));
        let mut can = |sender: &Sender| {
            presence.note_sender(&minion, sender);
            presence.can(&minion, Ability::Goodbye)
        };
        let senders = [&Sender::Stock, &all, &Sender::Caller, &Sender::Stock, &Sender::Caller];
        assert_eq!(senders.map(&mut can), [false, true, true, false, false]);
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
