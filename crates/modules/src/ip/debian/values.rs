//! Values of options: which are valid, and in which form they are written.

use std::net::Ipv4Addr;

use value::Value;

use crate::ip::options::{is_address, is_mac, whole};

/// The methods of each address family, IPv4 first.
const PROTOCOLS: [&[&str]; 2] = [
    &["bootp", "dhcp", "static", "manual", "loopback", "ppp"],
    &["auto", "loopback", "static", "manual", "dhcp", "v4tunnel", "6to4"],
];

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// IPv4.
    Inet,
    /// IPv6.
    Inet6,
}

impl Family {
    /// Both families, in the order of the tables.
    pub const ALL: [Family; 2] = [Family::Inet, Family::Inet6];

    /// The word in the file.
    pub fn name(self) -> &'static str {
        match self {
            Family::Inet => "inet",
            Family::Inet6 => "inet6",
        }
    }
}

/// The type of an option's value.
enum Kind {
    Anything,
    Whole,
    Fraction,
    Address,
    Tunnel,
    Netmask,
    Mac,
    Words,
    OneOf(&'static [&'static str]),
    Below(i64),
}

const MODES: &[&str] = &["gre", "GRE", "ipip", "IPIP", "802.3ad"];

/// Returns the kind of value an option takes; `None` when the family has no such option.
fn kind(option: &str, family: Family) -> Option<Kind> {
    let six = family == Family::Inet6;
    Some(match option {
        "proto" => Kind::OneOf(PROTOCOLS[usize::from(six)]),
        "address" | "broadcast" | "gateway" => Kind::Address,
        "netmask" => Kind::Netmask,
        // Salt does not check these; `test` is an argument of the state that gets into the table.
        "addresses" | "slaves" | "vlan-raw-device" | "test" | "enable_ipv4" | "enable_ipv6" => Kind::Anything,
        "hwaddress" => Kind::Mac,
        "mtu" | "ttl" => Kind::Whole,
        "mode" => Kind::OneOf(MODES),
        "dns-nameservers" | "dns-search" => Kind::Words,
        "scope" if six => Kind::OneOf(&["global", "site", "link", "host"]),
        "scope" => Kind::OneOf(&["global", "link", "host"]),
        // Tunnels go from one address of four bytes to another.
        "endpoint" | "local" => Kind::Tunnel,
        "pointopoint" | "server" | "dstaddr" if !six => Kind::Address,
        "metric" | "leasehours" | "leasetime" | "unit" if !six => Kind::Whole,
        "hostname" | "vendor" | "client" | "bootfile" | "provider" | "options" | "network" if !six => Kind::Anything,
        "hwaddr" if !six => Kind::Mac,
        "privext" | "accept_ra" if six => Kind::Below(3),
        "dhcp" | "autoconf" if six => Kind::Below(2),
        "media" if six => Kind::Anything,
        "preferred-lifetime" | "dad-attempts" if six => Kind::Whole,
        "dad-interval" if six => Kind::Fraction,
        "wpa-ap-scan" => Kind::Below(3),
        "wireless-essid" | "wireless-mode" | "wpa-conf" | "wpa-driver" | "wpa-group" | "wpa-key-mgmt"
        | "wpa-pairwise" | "wpa-psk" | "wpa-proto" | "wpa-roam" | "wpa-ssid" => Kind::Anything,
        _ => return None,
    })
}

/// Returns whether interfaces of any family have an option.
pub fn is_known(option: &str) -> bool {
    Family::ALL.into_iter().any(|family| kind(option, family).is_some())
}

/// The value of an option in the form it is written, and whether it is valid.
pub fn read(option: &str, value: &Value, family: Family) -> (bool, Value) {
    let Some(kind) = kind(option, family) else { return (false, value.clone()) };
    let number = || whole(value).map_or_else(|| (false, value.clone()), |number| (true, Value::Int(number)));
    match kind {
        Kind::Anything => (true, value.clone()),
        Kind::Whole => number(),
        Kind::Fraction => match value.to_string().trim().parse::<f64>() {
            Ok(number) => (true, Value::Float(number)),
            Err(_) => (false, value.clone()),
        },
        Kind::Address => {
            let six = family == Family::Inet6;
            (value.as_str().is_some_and(|text| is_address(text, six)), value.clone())
        }
        Kind::Tunnel => (value.as_str().is_some_and(|text| is_address(text, false)), value.clone()),
        Kind::Netmask => netmask(value, number(), family),
        Kind::Mac => (value.as_str().is_some_and(is_mac), value.clone()),
        Kind::Words => words(value),
        Kind::OneOf(known) => {
            // The words are compared as text, so a number of YAML matches as well.
            let text = value.to_string();
            (known.contains(&text.as_str()), text.into())
        }
        Kind::Below(limit) => match whole(value) {
            Some(number) => ((0..limit).contains(&number), Value::Int(number)),
            None => (false, value.clone()),
        },
    }
}

fn netmask(given: &Value, number: (bool, Value), family: Family) -> (bool, Value) {
    let width = if family == Family::Inet6 { 128 } else { 32 };
    let (is_number, value) = number;
    let fits = is_number && value.as_i64().is_some_and(|number| (0..=width).contains(&number));
    let dotted = || family == Family::Inet && given.as_str().is_some_and(is_netmask);
    (fits || dotted(), value)
}

fn is_netmask(text: &str) -> bool {
    let Ok(mask) = text.parse::<Ipv4Addr>() else { return false };
    let bits = u32::from(mask);
    // Python's `ipaddress` also takes a host mask such as 0.0.0.255.
    [bits, !bits].into_iter().any(|bits| bits.leading_ones() == bits.count_ones())
}

fn words(value: &Value) -> (bool, Value) {
    let words = match value {
        Value::Str(text) => text.split_whitespace().collect(),
        other => other.clone(),
    };
    // Salt calls an empty list invalid, and the option is left out.
    let any = match &words {
        Value::List(words) => !words.is_empty(),
        Value::Map(words) => !words.is_empty(),
        _ => false,
    };
    (any, words)
}
