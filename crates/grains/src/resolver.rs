//! The resolver's settings: `dns`.

use std::net::{IpAddr, Ipv4Addr};

use value::{Map, Value, map};

use crate::Machine;

/// Returns the settings of resolv.conf; of systemd-resolved's, if the usual one names only its stub.
pub fn dns(machine: &Machine) -> Map {
    let resolved = "/run/systemd/resolve/resolv.conf";
    let path = if machine.exists(resolved) { resolved } else { "/etc/resolv.conf" };
    machine.read(path).map_or_else(Map::new, |text| map! { "dns" => parse(&text, path) })
}

#[derive(Default)]
struct Settings {
    nameservers: Vec<IpAddr>,
    sortlist: Vec<String>,
    domain: String,
    search: Vec<String>,
    options: Vec<String>,
}

/// Parses the format of resolv.conf(5).
pub fn parse(text: &str, path: &str) -> Map {
    let mut settings = Settings::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(directive) = words.next() else { continue };
        // A comment may follow on the same line, after a blank.
        let args: Vec<&str> = words.take_while(|word| !word.starts_with(['#', ';'])).collect();
        // An empty `search` clears the list; Salt fails on other directives without an argument and skips them.
        if !args.is_empty() || directive.eq_ignore_ascii_case("search") {
            settings.take(&directive.to_lowercase(), &args, path);
        }
    }
    settings.into_map()
}

impl Settings {
    fn take(&mut self, directive: &str, args: &[&str], path: &str) {
        match directive {
            // A scope such as `%eth0` is not part of the address.
            "nameserver" => match args[0].split('%').next().unwrap_or_default().parse() {
                Ok(ip) => add(&mut self.nameservers, ip),
                Err(_) => tracing::error!("{path}: '{}' does not appear to be an IPv4 or IPv6 address", args[0]),
            },
            "domain" => self.domain = args[0].to_owned(),
            "search" => self.search = args.iter().map(|arg| (*arg).to_owned()).collect(),
            "sortlist" => args.iter().filter_map(|arg| sort_network(arg)).for_each(|net| add(&mut self.sortlist, net)),
            // Salt takes the first option of a line only.
            "options" => add(&mut self.options, args[0].to_owned()),
            _ => {}
        }
    }

    fn into_map(self) -> Map {
        let of_kind =
            |v6| -> Value { self.nameservers.iter().filter(|ip| ip.is_ipv6() == v6).map(IpAddr::to_string).collect() };
        map! {
            "nameservers" => self.nameservers.iter().map(IpAddr::to_string).collect::<Vec<_>>(),
            "ip4_nameservers" => of_kind(false),
            "ip6_nameservers" => of_kind(true),
            "sortlist" => self.sortlist,
            "domain" => self.domain,
            "search" => self.search,
            "options" => self.options,
        }
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// Returns address and netmask of a pair; without a netmask, that of the address's class.
fn sort_network(text: &str) -> Option<String> {
    let (ip, mask) = match text.split_once('/') {
        Some((ip, mask)) => (ip.parse::<Ipv4Addr>().ok()?, netmask(mask)?),
        None => {
            let ip: Ipv4Addr = text.parse().ok()?;
            (ip, natural_netmask(ip))
        }
    };
    Some(format!("{}/{mask}", Ipv4Addr::from(u32::from(ip) & u32::from(mask))))
}

fn netmask(text: &str) -> Option<Ipv4Addr> {
    let by_length = text.parse::<u32>().ok().filter(|bits| *bits <= 32);
    let bits = by_length.map(|bits| Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0)));
    bits.or_else(|| text.parse().ok())
}

fn natural_netmask(ip: Ipv4Addr) -> Ipv4Addr {
    // From before CIDR: a `sortlist` entry without a mask means the network of its class.
    match ip.octets()[0] {
        0..=127 => Ipv4Addr::new(255, 0, 0, 0),
        128..=191 => Ipv4Addr::new(255, 255, 0, 0),
        _ => Ipv4Addr::new(255, 255, 255, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn all_directives_are_read() {
        let text = "# comment\nnameserver 10.0.0.1 ; first\nnameserver fe80::1%eth0\nnameserver 10.0.0.1\n\
                    nameserver nonsense\ndomain example.org\nsearch a.example b.example # both\n\
                    sortlist 192.0.2.0/255.255.255.0 10.1.2.3\noptions ndots:2\noptions rotate\nnameserver\n";
        let expected = map! {
            "nameservers" => list!["10.0.0.1", "fe80::1"],
            "ip4_nameservers" => list!["10.0.0.1"],
            "ip6_nameservers" => list!["fe80::1"],
            "sortlist" => list!["192.0.2.0/255.255.255.0", "10.0.0.0/255.0.0.0"],
            "domain" => "example.org",
            "search" => list!["a.example", "b.example"],
            "options" => list!["ndots:2", "rotate"],
        };
        assert_eq!(parse(text, "resolv.conf"), expected);
    }
}
