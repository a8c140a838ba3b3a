//! What strangers may cost: how many are served at once, who is refused for a while, and how often the log names one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use wire::Network;

/// Strangers that are served at once.
const MOST: usize = 32;

/// Strangers from one network that are served at once, so that one host cannot keep out all others.
const MOST_OF_NETWORK: usize = 8;

/// Wrong proofs after which a network is refused.
const WRONG_PROOFS: u32 = 5;

/// For how long it is refused.
pub const REFUSED: Duration = Duration::from_secs(60);

/// How often the log names an address and a reason.
const LOG_EVERY: Duration = Duration::from_secs(3600);

/// Addresses that are remembered.
const ADDRESSES: usize = 1_000;

/// Attempts of a network that may fail within [`WINDOW`]: each costs a TLS handshake.
const FAILURES: u32 = 50;

/// The time over which failures are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// The bounds of strangers. The time goes in.
#[derive(Default)]
pub struct Guard {
    served: HashMap<Network, usize>,
    wrong: HashMap<Network, (u32, Instant)>,
    failed: HashMap<Network, (u32, Instant)>,
    /// Where members are dialled or have proven themselves: strangers elsewhere cannot take their places.
    reserved: HashMap<Network, Instant>,
    logged: HashMap<(String, &'static str), Instant>,
}

impl Guard {
    /// Returns whether a stranger from this network is served; then [`Guard::leave`] must follow.
    pub fn enter(&mut self, network: Network, now: Instant) -> bool {
        if self.is_refused(network, now) {
            return false;
        }
        let strangers = self.served.iter().filter(|(network, _)| !self.reserved.contains_key(network));
        if !self.reserved.contains_key(&network) && strangers.map(|(_, count)| count).sum::<usize>() >= MOST {
            return false;
        }
        let served = self.served.entry(network).or_default();
        let free = *served < MOST_OF_NETWORK;
        *served += usize::from(free);
        free
    }

    /// Notes that a stranger is gone, or is none any more.
    pub fn leave(&mut self, network: Network) {
        if let Some(served) = self.served.get_mut(&network) {
            *served -= 1;
            if *served == 0 {
                self.served.remove(&network);
            }
        }
    }

    /// Returns whether a network has failed too often.
    fn is_refused(&self, network: Network, now: Instant) -> bool {
        let wrong =
            self.wrong.get(&network).is_some_and(|(count, last)| *count >= WRONG_PROOFS && now - *last < REFUSED);
        let failed =
            self.failed.get(&network).is_some_and(|(count, first)| *count >= FAILURES && now - *first < WINDOW);
        wrong || failed
    }

    /// Notes a wrong proof.
    pub fn wrong_proof(&mut self, network: Network, now: Instant) {
        self.wrong.retain(|_, (_, last)| now - *last < REFUSED);
        make_room(&mut self.wrong, |(_, last)| *last);
        let (count, last) = self.wrong.entry(network).or_insert((0, now));
        (*count, *last) = (*count + 1, now);
    }

    /// Notes an attempt that gave no link.
    pub fn failed(&mut self, network: Network, now: Instant) {
        self.failed.retain(|_, (_, first)| now - *first < WINDOW);
        make_room(&mut self.failed, |(_, first)| *first);
        self.failed.entry(network).or_insert((0, now)).0 += 1;
    }

    /// Keeps places for a network where a member is looked for or has proven itself.
    pub fn reserve(&mut self, network: Network, now: Instant) {
        if !self.reserved.contains_key(&network) {
            make_room(&mut self.reserved, |last| *last);
        }
        self.reserved.insert(network, now);
    }

    /// Returns whether the log names this address with this reason now.
    pub fn may_log(&mut self, address: &str, reason: &'static str, now: Instant) -> bool {
        let key = (address.to_owned(), reason);
        if self.logged.get(&key).is_some_and(|last| now - *last < LOG_EVERY) {
            return false;
        }
        make_room(&mut self.logged, |last| *last);
        self.logged.insert(key, now);
        true
    }
}

/// Forgets the oldest entry of a full table.
fn make_room<K: Clone + Eq + std::hash::Hash, V>(table: &mut HashMap<K, V>, when: impl Fn(&V) -> Instant) {
    if table.len() >= ADDRESSES
        && let Some(oldest) = table.iter().min_by_key(|(_, value)| when(value)).map(|(key, _)| key.clone())
    {
        table.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn address(last: u8) -> Network {
        IpAddr::from([10, 0, 0, last]).into()
    }

    #[test]
    fn strangers_are_bounded_all_together_and_for_each_address() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        for _ in 0..MOST_OF_NETWORK {
            assert!(guard.enter(address(1), now));
        }
        assert!(!guard.enter(address(1), now));
        guard.leave(address(1));
        assert!(guard.enter(address(1), now));
        let others = (2..100).filter(|last| guard.enter(address(*last), now)).count();
        assert_eq!(others, MOST - MOST_OF_NETWORK);
    }

    #[test]
    fn strangers_cannot_take_the_places_of_members() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        guard.reserve(address(1), now);
        let strangers = (2..100).filter(|last| guard.enter(address(*last), now)).count();
        assert_eq!(strangers, MOST);
        assert!(guard.enter(address(1), now));
        guard.leave(address(1));
    }

    #[test]
    fn a_host_has_one_ipv6_network_and_all_its_addresses_count_together() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        let at = |number: u64| Network::from(IpAddr::from((0x2001_0db8_u128 << 96 | u128::from(number)).to_be_bytes()));
        assert_eq!((0..100).filter(|number| guard.enter(at(*number), now)).count(), MOST_OF_NETWORK);
    }

    #[test]
    fn handshakes_that_lead_to_nothing_are_bounded_in_time() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        let attempts = |guard: &mut Guard, at| {
            let attempt = |_: &u32| {
                let served = guard.enter(address(1), at);
                if served {
                    guard.leave(address(1));
                    guard.failed(address(1), at);
                }
                served
            };
            (0..1_000).filter(attempt).count()
        };
        assert_eq!(attempts(&mut guard, now), FAILURES as usize);
        assert_eq!(attempts(&mut guard, now + WINDOW / 2), 0);
        assert!(guard.enter(address(2), now));
        assert_eq!(attempts(&mut guard, now + WINDOW), FAILURES as usize);
    }

    #[test]
    fn five_wrong_proofs_close_the_door_for_a_minute() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        (0..4).for_each(|_| guard.wrong_proof(address(1), now));
        assert!(guard.enter(address(1), now));
        guard.wrong_proof(address(1), now);
        assert!(!guard.enter(address(1), now + Duration::from_secs(59)));
        assert!(guard.enter(address(2), now));
        assert!(guard.enter(address(1), now + Duration::from_secs(60)));
    }

    #[test]
    fn the_log_names_an_address_once_an_hour_for_each_reason() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert!(guard.may_log("10.0.0.1", "salt", now));
        assert!(!guard.may_log("10.0.0.1", "salt", now + Duration::from_secs(3599)));
        assert!(guard.may_log("10.0.0.1", "secret", now));
        assert!(guard.may_log("10.0.0.1", "salt", now + Duration::from_secs(3600)));
    }

    #[test]
    fn tables_are_bounded() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        for number in 0..3_000u32 {
            let address = Network::from(IpAddr::from(number.to_be_bytes()));
            guard.wrong_proof(address, now);
            guard.failed(address, now);
            guard.reserve(address, now);
            guard.may_log(&address.to_string(), "salt", now);
        }
        assert!(guard.wrong.len() <= ADDRESSES && guard.logged.len() <= ADDRESSES);
        assert!(guard.failed.len() <= ADDRESSES && guard.reserved.len() <= ADDRESSES);
    }
}
