//! What strangers may cost: how many are served at once, who is refused for a while, and how often the log names one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Strangers that are served at once.
const MOST: usize = 32;

/// Strangers from one address that are served at once, so that one address cannot keep out all others.
const MOST_OF_ADDRESS: usize = 8;

/// Wrong proofs after which an address is refused.
const WRONG_PROOFS: u32 = 5;

/// For how long it is refused.
const REFUSED: Duration = Duration::from_secs(60);

/// How often the log names an address and a reason.
const LOG_EVERY: Duration = Duration::from_secs(3600);

/// Addresses that are remembered.
const ADDRESSES: usize = 1_000;

/// The bounds of strangers. The time goes in.
#[derive(Default)]
pub(crate) struct Guard {
    served: HashMap<IpAddr, usize>,
    wrong: HashMap<IpAddr, (u32, Instant)>,
    logged: HashMap<(String, &'static str), Instant>,
}

impl Guard {
    /// Returns whether a stranger from this address is served; then [`Guard::leave`] must follow.
    pub fn enter(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.is_refused(address, now) || self.served.values().sum::<usize>() >= MOST {
            return false;
        }
        let served = self.served.entry(address).or_default();
        let free = *served < MOST_OF_ADDRESS;
        *served += usize::from(free);
        free
    }

    /// Notes that a stranger is gone, or is none any more.
    pub fn leave(&mut self, address: IpAddr) {
        if let Some(served) = self.served.get_mut(&address) {
            *served -= 1;
            if *served == 0 {
                self.served.remove(&address);
            }
        }
    }

    /// Returns whether an address has failed too often.
    pub fn is_refused(&self, address: IpAddr, now: Instant) -> bool {
        self.wrong.get(&address).is_some_and(|(count, last)| *count >= WRONG_PROOFS && now - *last < REFUSED)
    }

    /// Notes a wrong proof.
    pub fn wrong_proof(&mut self, address: IpAddr, now: Instant) {
        self.wrong.retain(|_, (_, last)| now - *last < REFUSED);
        make_room(&mut self.wrong, |(_, last)| *last);
        let (count, last) = self.wrong.entry(address).or_insert((0, now));
        (*count, *last) = (*count + 1, now);
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
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn strangers_are_bounded_all_together_and_for_each_address() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        for _ in 0..MOST_OF_ADDRESS {
            assert!(guard.enter(address(1), now));
        }
        assert!(!guard.enter(address(1), now));
        guard.leave(address(1));
        assert!(guard.enter(address(1), now));
        let others = (2..100).filter(|last| guard.enter(address(*last), now)).count();
        assert_eq!(others, MOST - MOST_OF_ADDRESS);
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
            let address = IpAddr::from(number.to_be_bytes());
            guard.wrong_proof(address, now);
            guard.may_log(&address.to_string(), "salt", now);
        }
        assert!(guard.wrong.len() <= ADDRESSES && guard.logged.len() <= ADDRESSES);
    }
}
