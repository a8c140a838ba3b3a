//! Addresses as options name them.

use std::net::{IpAddr, SocketAddr};

/// Splits `host`, `host:port`, `v6` and `[v6]:port`.
pub(crate) fn split(address: &str, default: u16) -> (&str, u16) {
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    // First, since the last part of an IPv6 address looks like a port.
    if bare.parse::<IpAddr>().is_ok() {
        return (bare, default);
    }
    match address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) if address.parse::<SocketAddr>().is_ok() || !host.contains(':') => {
            (host.trim_start_matches('[').trim_end_matches(']'), port)
        }
        _ => (address, default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_or_the_default() {
        for (address, host, port) in [
            ("m2", "m2", 4520),
            ("m2:4521", "m2", 4521),
            ("10.0.0.2:7", "10.0.0.2", 7),
            ("fd00::2", "fd00::2", 4520),
            ("[fd00::2]", "fd00::2", 4520),
            ("[fd00::2]:7", "fd00::2", 7),
            ("m2:", "m2:", 4520),
        ] {
            assert_eq!(split(address, 4520), (host, port), "{address}");
        }
    }
}
