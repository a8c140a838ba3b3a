//! Groups addresses for limits on strangers.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The addresses that one host can use: a single IPv4 address, or an IPv6 network of 64 bits.
///
/// Limits per address count by this type. A limit on single IPv6 addresses would be none: every host has 2^64 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network(IpAddr);

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Network(match address.to_canonical() {
            // The loopback address is a single one.
            IpAddr::V6(address) if !address.is_loopback() => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            other => other,
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V6(network) if !network.is_loopback() => write!(formatter, "{network}/64"),
            address => address.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(address: &str) -> Network {
        Network::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn one_host_is_one_network() {
        let same = |one: &str, other: &str| network(one) == network(other);
        assert!(same("10.0.0.1", "::ffff:10.0.0.1") && same("2001:db8::1", "2001:db8::ffff:2"));
        assert!(!same("10.0.0.1", "10.0.0.2") && !same("2001:db8::1", "2001:db8:0:1::1"));
        let shown = ["::ffff:10.0.0.1", "2001:db8::1", "::1"].map(|address| network(address).to_string());
        assert_eq!(shown, ["10.0.0.1", "2001:db8::/64", "::1"]);
    }
}
