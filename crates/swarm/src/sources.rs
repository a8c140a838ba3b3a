//! The addresses minions come from: one address has ports for about 28,000 connections to one port of a master.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Minions that share an address. Each has up to three connections, and Linux gives out 28,232 ports by default.
const PER_ADDRESS: usize = 8000;

/// A network to take source addresses from, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    first: IpAddr,
    /// The number of addresses.
    count: u128,
}

/// A text that names no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither an address nor a network such as 127.0.0.0/8")]
pub struct SourcesError(String);

impl Sources {
    /// Returns the address of a minion; `None` if there are too few addresses.
    pub fn address(&self, minion: usize) -> Option<IpAddr> {
        let place = (minion / PER_ADDRESS) as u128;
        (place < self.count).then(|| after(self.first, place))
    }
}

impl FromStr for Sources {
    type Err = SourcesError;

    fn from_str(text: &str) -> Result<Self, SourcesError> {
        let wrong = || SourcesError(text.to_owned());
        let Some((network, length)) = text.split_once('/') else {
            return Ok(Sources { first: text.parse().map_err(|_| wrong())?, count: 1 });
        };
        let network: IpAddr = network.parse().map_err(|_| wrong())?;
        let bits: u32 = if network.is_ipv4() { 32 } else { 128 };
        let length: u32 = length.parse().ok().filter(|length| *length <= bits).ok_or_else(wrong)?;
        let free = bits - length;
        // The first address names the network and the last one is for broadcasts. Networks of two or one address have
        // neither (RFC 3021).
        let (skipped, count) = match free {
            0 => (0, 1),
            1 => (0, 2),
            128 => (1, u128::MAX),
            free => (1, (1 << free) - 2),
        };
        Ok(Sources { first: after(masked(network, free), skipped), count })
    }
}

fn after(address: IpAddr, steps: u128) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4).wrapping_add(steps as u32)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6).wrapping_add(steps)).into(),
    }
}

/// Returns the address with its last `free` bits set to zero.
fn masked(address: IpAddr, free: u32) -> IpAddr {
    match address {
        // A shift by all bits overflows, and means that none is left: a network of length 0.
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4) & u32::MAX.checked_shl(free).unwrap_or(0)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & u128::MAX.checked_shl(free).unwrap_or(0)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str, minions: &[usize]) -> Vec<Option<String>> {
        let sources: Sources = text.parse().unwrap();
        minions.iter().map(|minion| sources.address(*minion).map(|address| address.to_string())).collect()
    }

    #[test]
    fn minions_are_spread_over_a_network() {
        let some = |text: &str| Some(text.to_owned());
        let far = [0, PER_ADDRESS - 1, PER_ADDRESS, 300 * PER_ADDRESS];
        let found = addresses("127.5.0.9/8", &far);
        assert_eq!(found, [some("127.0.0.1"), some("127.0.0.1"), some("127.0.0.2"), some("127.0.1.45")]);
        assert_eq!(addresses("10.0.0.4/30", &[0, 2 * PER_ADDRESS]), [some("10.0.0.5"), None]);
        assert_eq!(addresses("10.0.0.7", &[0, PER_ADDRESS]), [some("10.0.0.7"), None]);
        assert_eq!(addresses("fd00::/64", &[PER_ADDRESS]), [some("fd00::2")]);
        assert_eq!(addresses("0.0.0.0/0", &[0]), [some("0.0.0.1")]);
    }

    #[test]
    fn an_invalid_network_is_refused() {
        for text in ["127.0.0.0/33", "here", "127.0.0.1/x", "/8", ""] {
            assert_eq!(text.parse::<Sources>(), Err(SourcesError(text.to_owned())));
        }
    }
}
