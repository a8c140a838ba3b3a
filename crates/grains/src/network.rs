//! Interfaces and addresses: `ip_interfaces`, `ip4_interfaces`, `ip6_interfaces`, `hwaddr_interfaces`, `ipv4`, `ipv6`,
//! `ip_gw`, `ip4_gw`, `ip6_gw`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::net::if_::InterfaceFlags;
use value::{Map, Value, map};

use crate::Machine;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// True if it is up.
    pub up: bool,
    /// The interface below it (a VLAN's, a tunnel's), if any.
    pub parent: Option<String>,
    /// Its hardware address, if it has one.
    pub hwaddr: Option<String>,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<Address>,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The prefix length.
    pub prefix: u8,
    /// The broadcast address (IPv4).
    pub broadcast: Option<Ipv4Addr>,
    /// The label (IPv4), normally the interface's name.
    pub label: String,
    /// The scope (IPv6): `global`, `link`, `host`, `site`.
    pub scope: &'static str,
    /// True if the kernel calls it secondary: another one of the same network came first, or it is temporary.
    pub secondary: bool,
}

impl Address {
    /// Returns the netmask (IPv4).
    pub fn netmask(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0))
    }

    /// Returns the address in the form of Salt's `network.interfaces`.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        // Salt shows the type only for these, since `secondary` mixes both families.
        if self.secondary {
            map.insert("type", if self.ip.is_ipv4() { "inet" } else { "inet6" });
        }
        map.insert("address", self.ip.to_string());
        if self.ip.is_ipv4() {
            map.insert("netmask", self.netmask().to_string());
            map.insert("broadcast", self.broadcast.map(|address| address.to_string()));
            map.insert("label", self.label.as_str());
        } else {
            map.insert("prefixlen", self.prefix.to_string());
            map.insert("scope", self.scope);
        }
        map
    }
}

impl Interface {
    /// Returns the interface in the form of Salt's `network.interfaces`.
    pub fn to_map(&self) -> Map {
        let mut map = map! { "up" => self.up };
        map.extend(self.parent.as_deref().map(|parent| ("parent", parent)));
        map.extend(self.hwaddr.as_deref().map(|address| ("hwaddr", address)));
        for (key, chosen) in [
            ("inet", self.chosen(|address| !address.secondary && address.ip.is_ipv4())),
            ("inet6", self.chosen(|address| !address.secondary && address.ip.is_ipv6())),
            ("secondary", self.chosen(|address| address.secondary)),
        ] {
            if !chosen.is_empty() {
                map.insert(key, chosen.into_iter().map(Address::to_map).collect::<Vec<_>>());
            }
        }
        map
    }

    fn chosen(&self, fits: impl Fn(&Address) -> bool) -> Vec<&Address> {
        self.addresses.iter().filter(|address| fits(address)).collect()
    }

    /// Returns the addresses of a type as strings: IPv4, IPv6, then the secondary ones.
    fn texts(&self, fits: impl Fn(&Address) -> bool) -> Vec<String> {
        let mut sorted = self.chosen(fits);
        sorted.sort_by_key(|address| (address.secondary, address.ip.is_ipv6()));
        sorted.into_iter().map(|address| address.ip.to_string()).collect()
    }
}

/// Returns all interfaces of this machine, in the kernel's order.
pub fn interfaces() -> Vec<Interface> {
    let temporary = temporary_addresses(&std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default());
    let mut found: Vec<Interface> = Vec::new();
    let Ok(entries) = nix::ifaddrs::getifaddrs() else { return found };
    // getifaddrs returns a link entry for each interface first, then its addresses.
    for entry in entries {
        // Addresses of an alias ("eth0:1") have the label in place of the name.
        let name = entry.interface_name.split(':').next().unwrap_or_default();
        let storage = entry.address.as_ref();
        if storage.is_none_or(|storage| storage.as_link_addr().is_some()) {
            let hwaddr = read_sys(name, "address").filter(|text| !text.is_empty());
            found.push(Interface {
                name: name.to_owned(),
                up: entry.flags.contains(InterfaceFlags::IFF_UP),
                parent: parent(name),
                hwaddr,
                addresses: Vec::new(),
            });
        } else if let (Some(interface), Some(mut address)) =
            (found.iter_mut().find(|interface| interface.name == name), address(&entry))
        {
            address.secondary = match address.ip {
                // The flag is not in getifaddrs; for IPv4 the kernel's rule is repeated.
                IpAddr::V4(_) => interface.addresses.iter().any(|first| same_network(first, &address)),
                IpAddr::V6(ip) => temporary.contains(&ip),
            };
            interface.addresses.push(address);
        }
    }
    found
}

fn address(entry: &nix::ifaddrs::InterfaceAddress) -> Option<Address> {
    let ip = ip_of(entry.address.as_ref()?)?;
    let prefix = match ip_of(entry.netmask.as_ref()?)? {
        IpAddr::V4(mask) => u32::from(mask).count_ones(),
        IpAddr::V6(mask) => u128::from(mask).count_ones(),
    };
    let prefix = u8::try_from(prefix).ok()?;
    let broadcast = match (ip, entry.broadcast.as_ref().and_then(ip_of)) {
        (IpAddr::V4(ip), Some(IpAddr::V4(told))) if entry.flags.contains(InterfaceFlags::IFF_BROADCAST) => {
            is_broadcast(ip, prefix, told).then_some(told)
        }
        _ => None,
    };
    Some(Address { ip, prefix, broadcast, label: entry.interface_name.clone(), scope: scope(ip), secondary: false })
}

/// Returns whether the C library's broadcast address is a real one. For an address without one, the library returns 0.0.0.0,
/// the address itself or its peer.
fn is_broadcast(ip: Ipv4Addr, prefix: u8, told: Ipv4Addr) -> bool {
    let host = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    let beside = (u32::from(ip) ^ u32::from(told)) & !host == 0;
    // In a /31 or /32 there is no broadcast.
    told.is_broadcast() || (beside && told != ip && host > 1)
}

fn ip_of(storage: &nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

fn scope(ip: IpAddr) -> &'static str {
    match ip {
        IpAddr::V6(ip) if ip.is_loopback() => "host",
        IpAddr::V6(ip) if ip.is_unicast_link_local() => "link",
        IpAddr::V6(ip) if ip.segments()[0] & 0xffc0 == 0xfec0 => "site",
        IpAddr::V4(ip) if ip.is_loopback() => "host",
        _ => "global",
    }
}

/// The kernel makes an address secondary if another one of the same network exists already.
fn same_network(first: &Address, other: &Address) -> bool {
    match (first.ip, other.ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let mask = u32::from(first.netmask());
            !first.secondary && first.prefix == other.prefix && u32::from(a) & mask == u32::from(b) & mask
        }
        _ => false,
    }
}

/// Returns the addresses marked secondary or temporary (flag 0x01) in `/proc/net/if_inet6`.
fn temporary_addresses(text: &str) -> Vec<Ipv6Addr> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|fields| fields.len() == 6 && u8::from_str_radix(fields[4], 16).is_ok_and(|flags| flags & 1 == 1))
        .filter_map(|fields| u128::from_str_radix(fields[0], 16).ok().map(Ipv6Addr::from))
        .collect()
}

fn read_sys(interface: &str, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/{file}")).ok()?;
    Some(text.trim().to_owned())
}

/// Returns what `ip` prints after the `@` of a name.
fn parent(interface: &str) -> Option<String> {
    let number = |file| read_sys(interface, file)?.parse::<u32>().ok();
    let (own, link) = (number("ifindex")?, number("iflink")?);
    // An interface without a lower one points to itself.
    if own == link {
        return None;
    }
    if link == 0 {
        return Some("NONE".into());
    }
    // An interface whose other end is in another namespace is named by number.
    let name = std::fs::read_dir("/sys/class/net").ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let other_end = read_sys(&name, "iflink").is_some_and(|text| text.parse() == Ok(own));
        let here = read_sys(&name, "ifindex")?.parse() == Ok(link);
        // Numbers are unique in a namespace only: the other end of a veth pair may have the number of a local
        // interface.
        let veth_stranger = !other_end && is_veth(interface);
        (here && !veth_stranger).then_some(name)
    });
    Some(name.unwrap_or_else(|| format!("if{link}")))
}

fn is_veth(interface: &str) -> bool {
    read_sys(interface, "uevent").is_some_and(|text| text.contains("DEVTYPE=veth")) || interface.starts_with("veth")
}

/// Returns all addresses of a family, sorted by number, as Salt's `network.ip_addrs` does.
pub fn addresses(interfaces: &[Interface], loopback: bool, v6: bool) -> Vec<IpAddr> {
    let all = interfaces.iter().flat_map(|interface| &interface.addresses).map(|address| address.ip);
    let mut chosen: Vec<IpAddr> = all.filter(|ip| ip.is_ipv6() == v6 && (loopback || !ip.is_loopback())).collect();
    chosen.sort();
    chosen.dedup();
    chosen
}

/// Returns the grains of interfaces and addresses.
pub fn network(interfaces: &[Interface]) -> Map {
    let by_name = |fits: fn(&Address) -> bool| -> Map {
        interfaces.iter().map(|interface| (interface.name.as_str(), interface.texts(fits))).collect()
    };
    let hardware: Map =
        interfaces.iter().filter_map(|i| i.hwaddr.as_deref().map(|address| (i.name.as_str(), address))).collect();
    let texts = |v6| addresses(interfaces, true, v6).iter().map(IpAddr::to_string).collect::<Vec<_>>();
    map! {
        "hwaddr_interfaces" => hardware,
        "ip4_interfaces" => by_name(|address| address.ip.is_ipv4()),
        "ip6_interfaces" => by_name(|address| address.ip.is_ipv6()),
        "ipv4" => texts(false),
        "ipv6" => texts(true),
        "ip_interfaces" => by_name(|_| true),
    }
}

/// Returns the default gateways.
pub fn gateways(machine: &Machine) -> Map {
    let v4 = gateway4(&machine.read("/proc/net/route").unwrap_or_default());
    let v6 = gateway6(&machine.read("/proc/net/ipv6_route").unwrap_or_default());
    map! { "ip_gw" => v4.truthy() || v6.truthy(), "ip4_gw" => v4, "ip6_gw" => v6 }
}

/// Returns the address of the first default route, `True` for one without a gateway, `False` for none.
fn gateway4(routes: &str) -> Value {
    let lines = routes.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    // A default route has destination and netmask zero.
    let mut defaults = lines.filter(|fields| fields.len() > 7 && fields[1] == "00000000" && fields[7] == "00000000");
    let Some(fields) = defaults.next() else { return Value::Bool(false) };
    // The kernel prints the word in the machine's order.
    match u32::from_str_radix(fields[2], 16) {
        Ok(gateway) if gateway != 0 => Value::from(Ipv4Addr::from(gateway.to_ne_bytes()).to_string()),
        // A default route without a gateway leads to a point-to-point link.
        _ => Value::Bool(true),
    }
}

/// The flag of a route that only refuses; the kernel itself adds such a default route.
const REJECT: u32 = 0x0200;

fn gateway6(routes: &str) -> Value {
    let zero = "0".repeat(32);
    let lines = routes.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let flags = |fields: &[&str]| u32::from_str_radix(fields[8], 16).unwrap_or(REJECT);
    let mut defaults = lines.filter(|fields| {
        fields.len() == 10 && fields[0] == zero && fields[1] == "00" && fields[9] != "lo" && flags(fields) & REJECT == 0
    });
    let Some(fields) = defaults.next() else { return Value::Bool(false) };
    match u128::from_str_radix(fields[4], 16) {
        Ok(gateway) if gateway != 0 => Value::from(Ipv6Addr::from(gateway).to_string()),
        _ => Value::Bool(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn v4(ip: &str, prefix: u8) -> Address {
        let ip = ip.parse().unwrap();
        Address { ip, prefix, broadcast: None, label: "eth0".into(), scope: scope(ip), secondary: false }
    }

    #[test]
    fn an_address_without_a_broadcast_has_none() {
        let check = |ip: [u8; 4], prefix, told: [u8; 4]| is_broadcast(ip.into(), prefix, told.into());
        assert!(check([192, 0, 2, 5], 24, [192, 0, 2, 255]));
        assert!(check([192, 0, 2, 5], 28, [192, 0, 2, 9]), "an operator may choose another");
        assert!(check([10, 0, 0, 1], 8, [255, 255, 255, 255]));
        assert!(!check([192, 0, 2, 5], 24, [0, 0, 0, 0]));
        assert!(!check([192, 0, 2, 5], 24, [192, 0, 2, 5]), "the address itself");
        assert!(!check([192, 0, 2, 5], 32, [192, 0, 2, 6]), "a peer");
        assert!(!check([192, 0, 2, 5], 31, [192, 0, 2, 4]), "a peer");
        assert!(!check([192, 0, 2, 5], 24, [198, 51, 100, 1]), "a peer of another network");
    }

    #[test]
    fn gateways_are_read_from_the_kernels_tables() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(gateway4(v4), Value::from("192.0.2.1"));
        assert_eq!(gateway4("Iface\nppp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n"), Value::Bool(true));
        assert_eq!(gateway4("garbage"), Value::Bool(false));
        let zero = "00000000000000000000000000000000";
        let line = |gateway: &str, flags: &str, device: &str| {
            format!("{zero} 00 {zero} 00 {gateway} 00000400 00000001 00000000 {flags} {device}\n")
        };
        let own = line(zero, "00200200", "lo");
        assert_eq!(gateway6(&own), Value::Bool(false));
        let routed = own + &line("fd000000000000000000000000000001", "00000003", "eth0");
        assert_eq!(gateway6(&routed), Value::from("fd00::1"));
    }

    #[test]
    fn a_second_address_of_a_network_is_secondary() {
        let first = v4("192.0.2.2", 24);
        assert!(same_network(&first, &v4("192.0.2.3", 24)));
        assert!(!same_network(&first, &v4("192.0.2.3", 32)));
        assert!(!same_network(&first, &v4("192.0.3.3", 24)));
    }

    #[test]
    fn interfaces_have_salts_form() {
        let mut second = v4("192.0.2.3", 24);
        second.secondary = true;
        let interface = Interface {
            name: "eth0".into(),
            up: true,
            parent: Some("bond0".into()),
            hwaddr: Some("02:fc:00:00:00:01".into()),
            addresses: vec![second, v4("192.0.2.2", 24), v4("fe80::1", 64)],
        };
        let shown = Value::from(interface.to_map());
        assert_eq!(shown.traverse("inet:0:netmask", ":"), Some(&Value::from("255.255.255.0")));
        assert_eq!(shown.traverse("inet6:0:prefixlen", ":"), Some(&Value::from("64")));
        assert_eq!(shown.traverse("inet6:0:scope", ":"), Some(&Value::from("link")));
        assert_eq!(shown.traverse("secondary:0:type", ":"), Some(&Value::from("inet")));
        let grains = Value::from(network(&[interface]));
        let expected = list!["192.0.2.2", "fe80::1", "192.0.2.3"];
        assert_eq!(grains.traverse("ip_interfaces:eth0", ":"), Some(&expected));
        assert_eq!(grains.traverse("ipv4", ":"), Some(&list!["192.0.2.2", "192.0.2.3"]));
    }

    #[test]
    fn temporary_addresses_are_flagged() {
        let text = "fd000000000000000000000000000002 04 40 00 82 eth0\n\
                    fd000000000000000000000000000003 04 40 00 01 eth0\nbroken\n";
        assert_eq!(temporary_addresses(text), ["fd00::3".parse::<Ipv6Addr>().unwrap()]);
    }
}
