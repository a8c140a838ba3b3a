//! How often an address may do something: wrong logins, webhooks without a login.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;
use wire::Network;

/// The largest number of networks that are counted.
const MOST: usize = 10_000;

/// What each network may still do.
pub struct Limit {
    /// How much a network may do at once.
    burst: f64,
    /// How much it may do each second after that.
    rate: f64,
    spent: HashMap<Network, (f64, Instant)>,
}

impl Limit {
    /// Allows `burst` at once, and as much again after this time.
    pub fn new(burst: u32, again: Duration) -> Self {
        let burst = f64::from(burst);
        Limit { burst, rate: burst / again.as_secs_f64(), spent: HashMap::new() }
    }

    /// Counts an attempt. Returns false if it is one too many.
    pub fn take(&mut self, address: IpAddr, now: Instant) -> bool {
        let (network, rate) = (Network::from(address.to_canonical()), self.rate);
        if !self.spent.contains_key(&network) && self.spent.len() >= MOST {
            self.forget(now);
        }
        let (spent, since) = self.spent.entry(network).or_insert((0.0, now));
        *spent = left(*spent, *since, now, rate);
        *since = now;
        let allowed = *spent + 1.0 <= self.burst;
        if allowed {
            *spent += 1.0;
        }
        allowed
    }

    /// Takes an attempt back that does not count.
    pub fn give_back(&mut self, address: IpAddr) {
        if let Some((spent, _)) = self.spent.get_mut(&Network::from(address.to_canonical())) {
            *spent = (*spent - 1.0).max(0.0);
        }
    }

    /// Makes room: for those that count as new already, else for any. Who has many networks is not held up by counting.
    fn forget(&mut self, now: Instant) {
        let rate = self.rate;
        self.spent.retain(|_, (spent, since)| left(*spent, *since, now, rate) > 0.0);
        if self.spent.len() >= MOST
            && let Some(any) = self.spent.keys().next().copied()
        {
            self.spent.remove(&any);
        }
    }
}

fn left(spent: f64, since: Instant, now: Instant, rate: f64) -> f64 {
    (spent - now.saturating_duration_since(since).as_secs_f64() * rate).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from(number).into()
    }

    #[test]
    fn an_address_waits_after_too_many_attempts() {
        let (mut limit, start) = (Limit::new(10, Duration::from_secs(60)), Instant::now());
        assert!((0..10).all(|_| limit.take(address(1), start)));
        assert!(!limit.take(address(1), start));
        assert!(limit.take(address(2), start), "others are not held up");
        let later = start + Duration::from_secs(7);
        assert!(limit.take(address(1), later) && !limit.take(address(1), later));
        limit.give_back(address(1));
        assert!(limit.take(address(1), later), "a success does not count");
        let mapped = "::ffff:0.0.0.1".parse().unwrap();
        assert!(!limit.take(mapped, later), "the same address in another form");
    }

    #[test]
    fn the_memory_of_many_addresses_is_bounded() {
        let (mut limit, start) = (Limit::new(2, Duration::from_secs(60)), Instant::now());
        for number in 0..MOST as u32 + 5 {
            assert!(limit.take(address(number), start));
        }
        assert_eq!(limit.spent.len(), MOST);
        assert!(limit.take(address(u32::MAX), start + Duration::from_secs(60)));
        assert_eq!(limit.spent.len(), 1);
    }
}
