//! The addresses of a minion's masters.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use value::Value;

/// The address of a master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MasterAddress {
    /// The name or address; an IPv6 address without brackets.
    pub host: String,
    /// The request port.
    pub port: u16,
}

impl MasterAddress {
    /// Returns the host as an address, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// Formats `host:port`, an IPv6 address in brackets.
impl fmt::Display for MasterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The way a minion uses its list of masters (`master_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MasterType {
    /// All at once.
    #[default]
    Hot,
    /// One at a time, in order.
    Failover,
    /// One at a time, beginning with one that the id chooses.
    Distributed,
    /// A function returns them.
    Func,
    /// None.
    Disable,
}

impl FromStr for MasterType {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "str" => Ok(MasterType::Hot),
            "failover" => Ok(MasterType::Failover),
            "distributed" => Ok(MasterType::Distributed),
            "func" => Ok(MasterType::Func),
            "disable" => Ok(MasterType::Disable),
            other => Err(format!("Invalid keyword '{other}' for variable 'master_type'")),
        }
    }
}

impl fmt::Display for MasterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MasterType::Hot => "str",
            MasterType::Failover => "failover",
            MasterType::Distributed => "distributed",
            MasterType::Func => "func",
            MasterType::Disable => "disable",
        })
    }
}

/// The format of the option `master`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UriFormat {
    /// `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address.
    #[default]
    Default,
    /// Only IP addresses.
    IpOnly,
}

/// Parses the option `master`: a string or a list of strings. A comma does not separate anything.
///
/// A port in an entry applies only to that entry. The error names the entry and completes "must be …".
pub fn parse_masters(master: &Value, format: UriFormat, port: u16) -> Result<Vec<MasterAddress>, String> {
    let entries = match master {
        Value::List(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    entries
        .iter()
        .map(|entry| match entry {
            Value::Str(text) => parse_master(text, format, port),
            // YAML reads an unquoted `10.1` as a number. The error then names the text and not its type.
            Value::Int(_) | Value::Float(_) => parse_master(&entry.to_string(), format, port),
            other => Err(format!("the name or address of a master, not {other:?}")),
        })
        .collect()
}

/// Parses the address of one master.
pub fn parse_master(text: &str, format: UriFormat, default_port: u16) -> Result<MasterAddress, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the name or address of a master, not an empty text".into());
    }
    // No port: with `ip_only` the colons belong to the address, as in Salt.
    if format == UriFormat::IpOnly {
        let ip: IpAddr =
            text.parse().map_err(|_| format!("an IP address (master_uri_format is ip_only), not '{text}'"))?;
        return Ok(MasterAddress { host: ip.to_string(), port: default_port });
    }
    let (host, port) = split_port(text)?;
    let host = normal_host(host)?;
    let port = port.map_or(Ok(default_port), |port| {
        // Port 0 would let the system choose, which makes no sense for a peer.
        let valid = port.trim().parse().ok().filter(|&number| number != 0);
        valid.ok_or_else(|| format!("an address with a port from 1 to 65535, not '{text}'"))
    })?;
    Ok(MasterAddress { host, port })
}

fn split_port(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        // From the right, so that a stray bracket ends up in the host and is refused there.
        let Some((host, after)) = rest.rsplit_once(']') else {
            return Err(format!("an address with its bracket closed, not '{text}'"));
        };
        let v6 = host.parse::<Ipv6Addr>();
        return match (v6, after.strip_prefix(':'), after) {
            (Err(_), _, _) => Err(format!("an IPv6 address in its brackets, not '{text}'")),
            (_, Some(port), _) => Ok((host, Some(port))),
            (_, None, "") => Ok((host, None)),
            _ => Err(format!("a port after a colon, not '{text}'")),
        };
    }
    match text.split_once(':') {
        // More than one colon: a bare IPv6 address, which cannot have a port.
        Some((host, port)) if !port.contains(':') => Ok((host, Some(port))),
        _ => Ok((text, None)),
    }
}

/// Addresses are shortened; names may contain letters, digits, dots, dashes and underscores.
fn normal_host(host: &str) -> Result<String, String> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        // One spelling per address, so that the same master is not listed twice.
        return Ok(ip.to_string());
    }
    // A scope id belongs to a link-local address.
    if let Some((address, scope)) = host.split_once('%')
        && let (Ok(ip), true) = (address.parse::<Ipv6Addr>(), scope.chars().all(|c| c.is_ascii_alphanumeric()))
    {
        return Ok(format!("{ip}%{scope}"));
    }
    if host.contains([' ', ',']) {
        return Err(format!(
            "the name or address of one master; for several, write a list: [salt1, salt2], not '{host}'"
        ));
    }
    let fine = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    match !host.is_empty() && host.chars().all(fine) {
        true => Ok(host.to_owned()),
        false => Err(format!("the name or address of a master, not '{host}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn read(text: &str) -> Result<(String, u16), String> {
        parse_master(text, UriFormat::Default, 4506).map(|address| (address.host, address.port))
    }

    #[test]
    fn every_form_of_an_address_is_parsed() {
        for (text, host, port) in [
            ("salt", "salt", 4506),
            ("salt.example.com:4510", "salt.example.com", 4510),
            ("10.0.0.1", "10.0.0.1", 4506),
            ("10.0.0.1:1234", "10.0.0.1", 1234),
            ("[::1]", "::1", 4506),
            ("[2001:db8:0:0::1]:4510", "2001:db8::1", 4510),
            ("2001:DB8::1", "2001:db8::1", 4506),
            ("fe80::1%eth0", "fe80::1%eth0", 4506),
            ("my_master", "my_master", 4506),
        ] {
            assert_eq!(read(text), Ok((host.to_owned(), port)), "{text}");
        }
        for wrong in ["", "a b", "a,b", "a:b", "a:0", "a:70000", "[::1", "[::1]x", "[a]:1", "a/b", "1::2::3"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_addresses_with_ip_only() {
        assert!(parse_master("salt", UriFormat::IpOnly, 1).is_err());
        assert!(parse_master("10.0.0.1:4506", UriFormat::IpOnly, 1).is_err());
        assert_eq!(parse_master("::1", UriFormat::IpOnly, 1).unwrap().to_string(), "[::1]:1");
    }

    #[test]
    fn a_list_keeps_its_order() {
        let all = parse_masters(&list!["a", "b:1", "[::1]"], UriFormat::Default, 4506).unwrap();
        assert_eq!(all.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:4506", "b:1", "[::1]:4506"]);
        assert!(parse_masters(&list![Value::Null], UriFormat::Default, 4506).is_err());
    }
}
