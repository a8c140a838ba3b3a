//! Addresses and networks as Python's `ipaddress` reads and prints them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An address of either version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Version 4.
    V4(Ipv4Addr),
    /// Version 6, with the scope that follows `%`.
    V6(Ipv6Addr, Option<String>),
}

/// An address with the length of its network's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The address; for a network the first one.
    pub address: Address,
    /// Bits of the network.
    pub prefix: u32,
    /// True if the prefix is printed.
    shown: bool,
}

// Python's own lists, which differ from those of Rust's standard library.
const PRIVATE4: [(u32, u32); 14] = [
    (0x0000_0000, 8),
    (0x0a00_0000, 8),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc000_0000, 29),
    (0xc000_00aa, 31),
    (0xc000_0200, 24),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
    (0xc633_6400, 24),
    (0xcb00_7100, 24),
    (0xf000_0000, 4),
    (0xffff_ffff, 32),
];

const PRIVATE6: [(u128, u32); 9] = [
    (1, 128),
    (0, 128),
    (0xffff << 32, 96),
    (0x0100 << 112, 64),
    (0x2001 << 112, 23),
    (0x2001_0db8 << 96, 32),
    (0x2001_0010 << 96, 28),
    (0xfc00 << 112, 7),
    (0xfe80 << 112, 10),
];

const RESERVED6: [(u128, u32); 15] = [
    (0, 8),
    (0x0100 << 112, 8),
    (0x0200 << 112, 7),
    (0x0400 << 112, 6),
    (0x0800 << 112, 5),
    (0x1000 << 112, 4),
    (0x4000 << 112, 3),
    (0x6000 << 112, 3),
    (0x8000 << 112, 3),
    (0xa000 << 112, 3),
    (0xc000 << 112, 3),
    (0xe000 << 112, 4),
    (0xf000 << 112, 5),
    (0xf800 << 112, 6),
    (0xfe00 << 112, 9),
];

fn in4(address: &Ipv4Addr, (network, bits): (u32, u32)) -> bool {
    (u32::from(*address) ^ network).checked_shr(32 - bits).unwrap_or(0) == 0
}

fn in6(address: &Ipv6Addr, (network, bits): (u128, u32)) -> bool {
    (u128::from(*address) ^ network).checked_shr(128 - bits).unwrap_or(0) == 0
}

impl Address {
    /// An address by its number.
    pub fn of_number(number: i64) -> Option<Address> {
        let number = u64::try_from(number).ok()?;
        Some(match u32::try_from(number) {
            Ok(four) => Address::V4(four.into()),
            Err(_) => Address::V6(u128::from(number).into(), None),
        })
    }

    /// An address by its bytes.
    pub fn of_bytes(bytes: &[u8]) -> Option<Address> {
        match bytes.len() {
            4 => Some(Address::V4(<[u8; 4]>::try_from(bytes).ok()?.into())),
            16 => Some(Address::V6(<[u8; 16]>::try_from(bytes).ok()?.into(), None)),
            _ => None,
        }
    }

    /// 4 or 6.
    pub fn version(&self) -> u8 {
        if matches!(self, Address::V4(_)) { 4 } else { 6 }
    }

    /// 32 or 128.
    pub fn bits(&self) -> u32 {
        if matches!(self, Address::V4(_)) { 32 } else { 128 }
    }

    fn number(&self) -> u128 {
        match self {
            Address::V4(four) => u32::from(*four).into(),
            Address::V6(six, _) => (*six).into(),
        }
    }

    /// Another address of the same version.
    pub fn with(&self, number: u128) -> Address {
        match self {
            Address::V4(_) => Address::V4((number as u32).into()),
            Address::V6(..) => Address::V6(number.into(), None),
        }
    }

    /// `is_private` of Python 3.11.
    pub fn is_private(&self) -> bool {
        match self {
            Address::V4(four) => PRIVATE4.iter().any(|network| in4(four, *network)),
            Address::V6(six, _) => match six.to_ipv4_mapped() {
                Some(four) => Address::V4(four).is_private(),
                None => PRIVATE6.iter().any(|network| in6(six, *network)),
            },
        }
    }

    /// `is_link_local`.
    pub fn is_link_local(&self) -> bool {
        match self {
            Address::V4(four) => four.is_link_local(),
            Address::V6(six, _) => in6(six, (0xfe80 << 112, 10)),
        }
    }

    /// `is_loopback`.
    pub fn is_loopback(&self) -> bool {
        match self {
            Address::V4(four) => four.is_loopback(),
            Address::V6(six, _) => six.is_loopback(),
        }
    }

    /// `is_multicast`.
    pub fn is_multicast(&self) -> bool {
        match self {
            Address::V4(four) => four.is_multicast(),
            Address::V6(six, _) => six.is_multicast(),
        }
    }

    /// `is_reserved`.
    pub fn is_reserved(&self) -> bool {
        match self {
            Address::V4(four) => in4(four, (0xf000_0000, 4)),
            Address::V6(six, _) => RESERVED6.iter().any(|network| in6(six, *network)),
        }
    }

    /// `is_site_local`; there is none in version 4.
    pub fn is_site_local(&self) -> bool {
        matches!(self, Address::V6(six, _) if in6(six, (0xfec0 << 112, 10)))
    }

    /// `is_unspecified`.
    pub fn is_unspecified(&self) -> bool {
        self.number() == 0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::V4(four) => four.fmt(f),
            Address::V6(six, scope) => {
                match six.to_ipv4_mapped() {
                    // Python prints all parts as hexadecimal numbers.
                    Some(_) => {
                        let [.., a, b] = six.segments();
                        write!(f, "::ffff:{a:x}:{b:x}")?;
                    }
                    None => six.fmt(f)?,
                }
                scope.as_ref().map_or(Ok(()), |scope| write!(f, "%{scope}"))
            }
        }
    }
}

impl Interface {
    /// An address without a given network.
    pub fn plain(address: Address) -> Interface {
        Interface { prefix: address.bits(), address, shown: false }
    }

    fn mask(&self) -> u128 {
        let bits = self.address.bits();
        let all = if bits == 32 { u128::from(u32::MAX) } else { u128::MAX };
        all & !(u128::MAX.checked_shr(128 - (bits - self.prefix)).unwrap_or(0))
    }

    /// Returns whether an address belongs to the network.
    pub fn contains(&self, address: &Address) -> bool {
        let same = address.version() == self.address.version();
        same && address.number() & self.mask() == self.address.number() & self.mask()
    }

    /// The first and the last address that hosts may have.
    pub fn hosts(&self) -> (u128, u128) {
        let bits = self.address.bits();
        let first = self.address.number() & self.mask();
        let span = u128::MAX.checked_shr(128 - (bits - self.prefix)).unwrap_or(0);
        match bits - self.prefix {
            // A single address, or a link of two (RFC 3021, RFC 6164), has no network and broadcast addresses to leave
            // out.
            0 => (first, first),
            1 => (first, first + 1),
            _ if bits == 32 => (first + 1, first + span - 1),
            // Version 6 has no broadcast address.
            _ => (first + 1, first + span),
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        if self.shown { write!(f, "/{}", self.prefix) } else { Ok(()) }
    }
}

/// Reads an address.
///
/// # Errors
/// The text of Python's error.
pub fn address(text: &str) -> Result<Address, String> {
    // Both parsers refuse leading zeros, which other programs read as octal.
    if let Ok(four) = text.parse() {
        return Ok(Address::V4(four));
    }
    let (six, scope) = match text.split_once('%') {
        Some((six, scope)) => (six, Some(scope.to_owned()).filter(|scope| !scope.is_empty() && !scope.contains('%'))),
        None => (text, None),
    };
    match six.parse() {
        Ok(six) if scope.is_some() || !text.contains('%') => Ok(Address::V6(six, scope)),
        _ => {
            let shown = value::python::repr_str(text);
            Err(format!("{shown} does not appear to be an IPv4 or IPv6 address"))
        }
    }
}

/// Reads an address with a prefix, a mask, or neither.
///
/// # Errors
/// The text of Python's error.
pub fn interface(text: &str) -> Result<Interface, String> {
    let bad = || {
        let shown = value::python::repr_str(text);
        format!("{shown} does not appear to be an IPv4 or IPv6 interface")
    };
    let (host, behind) = match text.split_once('/') {
        Some((host, behind)) => (host, Some(behind)),
        None => (text, None),
    };
    let address = address(host).map_err(|_| bad())?;
    let bits = address.bits();
    let prefix = match behind {
        None => bits,
        Some(behind) => prefix(behind, &address).filter(|prefix| *prefix <= bits).ok_or_else(bad)?,
    };
    Ok(Interface { address, prefix, shown: true })
}

fn prefix(text: &str, address: &Address) -> Option<u32> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let mask = match address {
        Address::V4(_) => u32::from(text.parse::<Ipv4Addr>().ok()?),
        Address::V6(..) => return None,
    };
    // A mask of the network, or else one of the hosts.
    [mask, !mask].into_iter().find(|mask| mask.leading_ones() + mask.trailing_zeros() == 32).map(u32::leading_ones)
}

/// Reads a network; `strict` refuses an address of a host.
///
/// # Errors
/// The text of Python's error.
pub fn network(text: &str, strict: bool) -> Result<Interface, String> {
    let found = interface(text).map_err(|_| {
        let shown = value::python::repr_str(text);
        format!("{shown} does not appear to be an IPv4 or IPv6 network")
    })?;
    let first = found.address.number() & found.mask();
    if strict && first != found.address.number() {
        return Err(format!("{found} has host bits set"));
    }
    Ok(Interface { address: found.address.with(first), ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_know_their_hosts() {
        let hosts = |text: &str| {
            let network = network(text, false).unwrap();
            let (first, last) = network.hosts();
            (network.address.with(first).to_string(), network.address.with(last).to_string())
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(hosts("192.168.1.7/24"), pair("192.168.1.1", "192.168.1.254"));
        assert_eq!(hosts("10.0.0.0/31"), pair("10.0.0.0", "10.0.0.1"));
        assert_eq!(hosts("10.0.0.9"), pair("10.0.0.9", "10.0.0.9"));
        assert_eq!(hosts("2001:db8::/126"), pair("2001:db8::1", "2001:db8::3"));
        assert_eq!(hosts("0.0.0.0/0"), pair("0.0.0.1", "255.255.255.254"));
        assert_eq!(hosts("::/0").1, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    }

    #[test]
    fn masks_and_scopes_are_read_and_printed() {
        assert_eq!(interface("10.0.0.1/255.255.255.0").unwrap().to_string(), "10.0.0.1/24");
        assert_eq!(interface("10.0.0.1/0.0.0.255").unwrap().to_string(), "10.0.0.1/24");
        assert_eq!(address("FE80::1%eth0").unwrap().to_string(), "fe80::1%eth0");
        assert_eq!(address("::ffff:1.2.3.4").unwrap().to_string(), "::ffff:102:304");
        for text in ["10.0.0", "10.0.0.01", "1::2::3", "fe80::1%", "x"] {
            assert!(address(text).is_err(), "{text}");
        }
        assert!(interface("10.0.0.1/33").is_err() && interface("::1/ffff::").is_err());
        assert_eq!(network("10.0.0.1/24", true).unwrap_err(), "10.0.0.1/24 has host bits set");
    }

    #[test]
    fn addresses_know_what_they_are_for() {
        let is = |text: &str, test: fn(&Address) -> bool| test(&address(text).unwrap());
        assert!(is("10.1.2.3", Address::is_private) && is("fd00::1", Address::is_private));
        assert!(!is("8.8.8.8", Address::is_private) && !is("2606:4700::1", Address::is_private));
        assert!(is("ff02::1", Address::is_multicast) && is("fec0::1", Address::is_site_local));
        assert!(is("240.0.0.1", Address::is_reserved) && is("::", Address::is_unspecified));
        assert!(is("fe80::1", Address::is_link_local) && is("127.9.9.9", Address::is_loopback));
    }
}
