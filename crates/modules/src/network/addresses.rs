//! Calculating with addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exec::{Error, Result, function};
use value::{Map, Value, map};

/// A network: its first address and its length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Net {
    first: IpAddr,
    bits: u8,
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The ones of a mask, then zeros, at the low end of 128 bits.
fn mask(width: u8, bits: u8) -> u128 {
    let all = if width == 128 { u128::MAX } else { u128::from(u32::MAX) };
    // Shifting by the full width overflows in Rust, so a prefix as long as the address is a case of
    // its own.
    all & !all.checked_shr(u32::from(bits)).unwrap_or(0)
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

fn address(number: u128, width: u8) -> IpAddr {
    if width == 32 { IpAddr::V4(Ipv4Addr::from(number as u32)) } else { IpAddr::V6(Ipv6Addr::from(number)) }
}

impl Net {
    /// The network around an address.
    pub fn around(ip: IpAddr, bits: u8) -> Self {
        let bits = bits.min(width(ip));
        Net { first: address(number(ip) & mask(width(ip), bits), width(ip)), bits }
    }

    /// Reads `10.1.2.3/8`, `10.1.2.3/255.0.0.0` or an address alone; the address may be any of the network.
    pub fn loose(text: &str) -> Option<Self> {
        let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
        let ip: IpAddr = ip.parse().ok()?;
        let bits = match length {
            None => width(ip),
            Some(length) => prefix_length(length, width(ip))?,
        };
        Some(Net::around(ip, bits))
    }

    /// The same, but the address must be the first one of the network.
    pub fn strict(text: &str) -> Option<Self> {
        let net = Net::loose(text)?;
        let given: IpAddr = text.split('/').next()?.parse().ok()?;
        (net.first == given).then_some(net)
    }

    /// Returns whether the network contains an address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.first.is_ipv4() && Net::around(ip, self.bits) == *self
    }

    /// Returns whether the network is part of the loopback network.
    pub fn is_loopback(&self) -> bool {
        self.first.is_loopback() && self.last().is_loopback()
    }

    fn netmask(&self) -> IpAddr {
        address(mask(width(self.first), self.bits), width(self.first))
    }

    fn last(&self) -> IpAddr {
        let width = width(self.first);
        address(number(self.first) | (mask(width, width) & !mask(width, self.bits)), width)
    }

    /// Returns it with first address, mask, size and length.
    pub fn details(&self) -> Map {
        let free = u32::from(width(self.first) - self.bits);
        // The IPv6 Internet has 2^128 addresses, which no machine number holds.
        let count = value::BigInt::from(1) << free;
        map! {
            "address" => self.first.to_string(),
            "netmask" => self.netmask().to_string(),
            "num_addresses" => Value::from(count),
            "prefixlen" => self.bits,
        }
    }
}

/// Reads `24` or `255.255.255.0`.
fn prefix_length(text: &str, width: u8) -> Option<u8> {
    if let Ok(bits) = text.parse::<u8>() {
        return (bits <= width).then_some(bits);
    }
    let mask = u32::from(text.parse::<Ipv4Addr>().ok()?);
    // A mask with holes is not a prefix.
    let bits = mask.leading_ones();
    (width == 32 && mask.count_ones() == bits).then_some(bits as u8)
}

/// Returns whether an address is private, as Python's `is_private` does.
pub fn private(ip: IpAddr) -> bool {
    let within = |nets: &[&str]| nets.iter().filter_map(|net| Net::loose(net)).any(|net| net.contains(ip));
    match ip {
        IpAddr::V4(_) => within(&[
            "0.0.0.0/8",
            "10.0.0.0/8",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            // The list of Python's `is_private`. It differs from the RFCs: shared space
            // 100.64.0.0/10 is missing.
            "192.0.0.0/29",
            "192.0.0.170/31",
            "192.0.2.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "240.0.0.0/4",
            "255.255.255.255/32",
        ]),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => private(IpAddr::V4(v4)),
            None => within(&["::1/128", "::/128", "100::/64", "2001::/23", "2001:db8::/32", "fc00::/7", "fe80::/10"]),
        },
    }
}

fn parsed(text: &str) -> Result<IpAddr> {
    let wrong = || Error::Other(format!("'{text}' does not appear to be an IPv4 or IPv6 address"));
    text.parse().map_err(|_| wrong())
}

/// Returns the network of an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.calc_net 172.17.0.5 255.255.255.240
///     salt '*' network.calc_net 2a02:f6e:a000:80:84d8:8332:7866:4e07/64
#[function]
pub fn calc_net(ip_addr: String, netmask: Option<String>) -> Result<String> {
    let text = netmask.map_or(ip_addr.clone(), |mask| format!("{ip_addr}/{mask}"));
    let wrong = || Error::Other(format!("'{text}' does not appear to be an IPv4 or IPv6 network"));
    Ok(Net::loose(&text).ok_or_else(wrong)?.to_string())
}

/// Returns first address, mask and last address of a network.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.convert_cidr 172.31.0.0/16
#[function]
pub fn convert_cidr(cidr: String) -> Result<Map> {
    let wrong = || Error::Other(format!("'{cidr}' does not appear to be an IPv4 or IPv6 network"));
    let net = Net::loose(&cidr).ok_or_else(wrong)?;
    let (first, last) = (net.first.to_string(), net.last().to_string());
    Ok(map! { "network" => first, "netmask" => net.netmask().to_string(), "broadcast" => last })
}

/// Returns whether an address is in a network.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ip_in_subnet 172.17.0.4 172.16.0.0/12
#[function]
pub fn ip_in_subnet(ip_addr: Value, cidr: String) -> Result<bool> {
    let Some(net) = Net::strict(&cidr) else {
        tracing::error!("Invalid CIDR '{cidr}'");
        return Ok(false);
    };
    let single = [ip_addr];
    let addresses = single[0].as_list().unwrap_or(&single);
    addresses.iter().try_fold(false, |found, ip| Ok(found || net.contains(parsed(&ip.to_string())?)))
}

/// Returns an IPv4 address in hexadecimal digits.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.iphexval 10.0.0.1
#[function]
pub fn iphexval(ip: String) -> Result<String> {
    let wrong = || Error::Other(format!("'{ip}' does not appear to be an IPv4 address"));
    let ip: Ipv4Addr = ip.parse().map_err(|_| wrong())?;
    Ok(format!("{:08X}", u32::from(ip)))
}

/// Returns whether an address is a loopback address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.is_loopback 127.0.0.1
#[function]
pub fn is_loopback(ip_addr: String) -> Result<bool> {
    Ok(parsed(&ip_addr)?.is_loopback())
}

/// Returns whether an address is private.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.is_private 10.0.0.3
#[function]
pub fn is_private(ip_addr: String) -> Result<bool> {
    Ok(private(parsed(&ip_addr)?))
}

/// Returns the name for the reverse lookup of an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.reverse_ip 172.17.0.4
#[function]
pub fn reverse_ip(ip_addr: String) -> Result<String> {
    Ok(match parsed(&ip_addr)? {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits = format!("{:032x}", u128::from(ip));
            let reversed: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", reversed.join("."))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_calculated() {
        assert_eq!(Net::loose("172.17.0.5/255.255.255.240").unwrap().to_string(), "172.17.0.0/28");
        assert_eq!(Net::loose("fd00::5/64").unwrap().to_string(), "fd00::/64");
        assert_eq!(Net::loose("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        for wrong in ["10.0.0.1/33", "10.0.0.1/255.0.255.0", "x/8", "fd00::/129"] {
            assert_eq!(Net::loose(wrong), None, "{wrong}");
        }
        assert_eq!(Net::strict("10.0.0.1/8"), None);
        let net = Net::strict("10.0.0.0/8").unwrap();
        assert!(net.contains("10.255.0.1".parse().unwrap()) && !net.contains("11.0.0.0".parse().unwrap()));
        assert_eq!(net.last().to_string(), "10.255.255.255");
        let whole = Net::loose("::/0").unwrap().details();
        assert_eq!(whole.get("num_addresses").unwrap().to_string(), "340282366920938463463374607431768211456");
    }

    #[test]
    fn private_addresses_are_those_of_python() {
        for (ip, expected) in [
            ("10.0.0.3", true),
            ("8.8.8.8", false),
            ("192.0.2.1", true),
            ("100.64.0.1", false),
            ("fd00::1", true),
            ("2001:db8::1", true),
            ("2a00::1", false),
            ("::ffff:10.0.0.1", true),
        ] {
            assert_eq!(private(ip.parse().unwrap()), expected, "{ip}");
        }
    }

    #[test]
    fn addresses_are_reversed() {
        assert_eq!(reverse_ip("172.17.0.4".into()).unwrap(), "4.0.17.172.in-addr.arpa");
        assert!(reverse_ip("::1".into()).unwrap().starts_with("1.0.0.0."));
        assert_eq!(iphexval("10.0.0.1".into()).unwrap(), "0A000001");
        assert!(is_loopback("x".into()).is_err());
    }
}
