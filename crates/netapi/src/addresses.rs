//! Clients in options: an address, or a block of addresses such as `10.0.0.0/8`.

use std::net::IpAddr;

/// Returns whether a client at an address is meant. As in Salt, addresses are compared as texts; Salt has no blocks.
pub fn means(known: &str, address: &str) -> bool {
    known == address || block(known).is_some_and(|block| address.parse().is_ok_and(|address| block.contains(address)))
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    network: IpAddr,
    bits: u32,
}

/// Reads a block; `None` for another text.
pub fn block(text: &str) -> Option<Block> {
    let (network, bits) = text.split_once('/')?;
    // Neither a sign nor spaces.
    let bits = Some(bits).filter(|bits| bits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
    let network: IpAddr = network.parse().ok()?;
    (bits <= width(network)).then_some(Block { network, bits })
}

impl Block {
    fn contains(self, address: IpAddr) -> bool {
        // An address of IPv4 that came through a socket of IPv6 is one of IPv4.
        let address = address.to_canonical();
        let own = width(self.network);
        own == width(address) && differing(self.network, address).leading_zeros() >= self.bits + (u128::BITS - own)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { u32::BITS } else { u128::BITS }
}

/// Returns the bits in which two addresses of a kind differ.
fn differing(a: IpAddr, b: IpAddr) -> u128 {
    let [a, b] = [a, b].map(|address| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    });
    a ^ b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_means_its_addresses() {
        for (known, address, expected) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.10", false),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.77/24", "10.0.0.1", true),
            ("10.0.0.1/32", "10.0.0.1", true),
            ("10.0.0.1/32", "10.0.0.0", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("0.0.0.0/0", "::ffff:192.0.2.1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "::1", true),
            ("::1/128", "::1", true),
            ("10.0.0.0/33", "10.0.0.1", false),
            ("10.0.0.0/+8", "10.0.0.1", false),
            ("10.0.0.0/", "10.0.0.1", false),
            ("10.0.0/8", "10.0.0.1", false),
            ("10.0.0.0/8", "fred", false),
        ] {
            assert_eq!(means(known, address), expected, "{known} {address}");
        }
    }
}
