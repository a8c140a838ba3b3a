//! Addresses and networks, parsed as Python's `ipaddress` does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use value::{Map, Value};

use crate::Error;

/// An address or a network to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subnet {
    Address(IpAddr),
    Network { base: IpAddr, prefix: u32 },
}

impl Subnet {
    /// Parses `10.0.0.7`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `2001:db8::/32`. A network must not have host bits.
    pub fn new(target: &str) -> Result<Self, Error> {
        Self::read(target).ok_or_else(|| Error::Ipcidr { target: target.to_owned() })
    }

    fn read(target: &str) -> Option<Self> {
        if let Ok(address) = target.parse() {
            return Some(Subnet::Address(address));
        }
        let (base, mask) = target.split_once('/')?;
        let base: IpAddr = base.parse().ok()?;
        let prefix = read_mask(mask, base)?;
        let network = Subnet::Network { base, prefix };
        // `ipaddress.ip_network` refuses `10.0.0.1/8` in its strict mode, which Salt uses.
        (bits(base) & !mask_bits(base, prefix) == 0).then_some(network)
    }

    /// Returns whether one of the addresses in the grains `ipv4` or `ipv6` matches.
    pub fn matches(&self, grains: &Map) -> bool {
        let grain = if self.is_v4() { "ipv4" } else { "ipv6" };
        match (self, grains.get(grain)) {
            (_, None) => false,
            (Subnet::Address(wanted), Some(Value::List(found))) => {
                let wanted = python_text(*wanted);
                found.iter().any(|item| item.as_str() == Some(&wanted))
            }
            // Python's `in` on a grain that is text looks for a part of it.
            (Subnet::Address(wanted), Some(Value::Str(found))) => found.contains(&python_text(*wanted)),
            (Subnet::Network { .. }, Some(Value::List(found))) => found.iter().any(|item| self.contains(item)),
            (Subnet::Network { .. }, Some(found)) => self.contains(found),
            _ => false,
        }
    }

    fn is_v4(&self) -> bool {
        let (Subnet::Address(address) | Subnet::Network { base: address, .. }) = self;
        address.is_ipv4()
    }

    /// An item that is not an address is in no network, and does not affect the others.
    fn contains(&self, item: &Value) -> bool {
        let Subnet::Network { base, prefix } = self else { return false };
        // Link-local addresses carry the interface, `fe80::1%eth0`.
        let address = item.as_str().map(|text| text.split('%').next().unwrap_or(text));
        let Some(address) = address.and_then(|text| text.parse::<IpAddr>().ok()) else { return false };
        address.is_ipv4() == base.is_ipv4() && bits(address) & mask_bits(*base, *prefix) == bits(*base)
    }
}

/// Parses a prefix length, or for IPv4 a net mask or a host mask.
fn read_mask(mask: &str, base: IpAddr) -> Option<u32> {
    let width = if base.is_ipv4() { 32 } else { 128 };
    if !mask.is_empty() && mask.bytes().all(|byte| byte.is_ascii_digit()) {
        return mask.parse().ok().filter(|prefix| *prefix <= width);
    }
    let mask = u32::from(mask.parse::<Ipv4Addr>().ok().filter(|_| base.is_ipv4())?);
    // A net mask has its ones on the left, a host mask on the right. Python takes both.
    if mask.leading_ones() + mask.trailing_zeros() == 32 {
        return Some(mask.leading_ones());
    }
    (mask.leading_zeros() + mask.trailing_ones() == 32).then_some(mask.leading_zeros())
}

/// Returns the address in the upper bits, so that both families share the arithmetic.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

fn mask_bits(base: IpAddr, prefix: u32) -> u128 {
    // Shifting by the full width would overflow, and `/0` means no bits at all.
    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
    if base.is_ipv4() { mask & (u128::from(u32::MAX) << 96) } else { mask }
}

/// Python writes an IPv6 address that contains an IPv4 one as plain groups.
fn python_text(address: IpAddr) -> String {
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            let [.., high, low] = v6.segments();
            format!("::ffff:{high:x}:{low:x}")
        }
        IpAddr::V6(v6) if v6.to_string().contains('.') => compatible_text(v6),
        other => other.to_string(),
    }
}

fn compatible_text(address: Ipv6Addr) -> String {
    let [.., high, low] = address.segments();
    if high == 0 { format!("::{low:x}") } else { format!("::{high:x}:{low:x}") }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn an_invalid_item_does_not_hide_an_address() {
        let grains = map! { "ipv4" => vec!["junk", "10.1.2.3"], "ipv6" => vec!["fe80::1%eth0"] };
        assert!(Subnet::new("10.0.0.0/8").unwrap().matches(&grains));
        assert!(Subnet::new("fe80::/10").unwrap().matches(&grains));
        assert!(!Subnet::new("11.0.0.0/8").unwrap().matches(&grains));
        assert!(Subnet::new("0.0.0.0/0").unwrap().matches(&grains));
        assert!(Subnet::new("::/0").unwrap().matches(&grains));
    }
}
