//! The kernel's tables: routes, neighbours, connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;

use exec::{Context, Error, Result, function};
use value::{Map, Value, map};

use crate::subprocess;

fn proc_net(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default()
}

/// A connection or a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub proto: &'static str,
    pub local: (IpAddr, u16),
    pub remote: (IpAddr, u16),
    pub state: u8,
    sending: u32,
    receiving: u32,
    uid: u32,
    pub inode: u64,
}

/// The states of TCP by the kernel's numbers, as `netstat` names them.
const STATES: [&str; 12] = [
    "",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
];

/// The name of a state of TCP.
pub(crate) fn state(number: u8) -> &'static str {
    STATES.get(usize::from(number)).copied().unwrap_or_default()
}

/// All connections and listening sockets.
pub(crate) fn all_sockets() -> Vec<Socket> {
    ["tcp", "tcp6", "udp", "udp6"].into_iter().flat_map(|proto| sockets(&proc_net(proto), proto)).collect()
}

/// Reads a table such as `/proc/net/tcp`.
fn sockets(text: &str, proto: &'static str) -> Vec<Socket> {
    text.lines().skip(1).filter_map(|line| socket(line, proto)).collect()
}

fn socket(line: &str, proto: &'static str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (sending, receiving) = fields.get(4)?.split_once(':')?;
    Some(Socket {
        proto,
        local: endpoint(fields.get(1)?)?,
        remote: endpoint(fields.get(2)?)?,
        state: u8::from_str_radix(fields.get(3)?, 16).ok()?,
        sending: u32::from_str_radix(sending, 16).ok()?,
        receiving: u32::from_str_radix(receiving, 16).ok()?,
        uid: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// Reads `0100007F:1F90`; each group of four bytes is in the machine's own order.
fn endpoint(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for place in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(place..place + 8)?, 16).ok()?;
        // The kernel prints each 32-bit word in the machine's byte order.
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some((ip, port))
}

/// Returns the established TCP connections, by number.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.active_tcp
#[function]
pub fn active_tcp(ctx: &Context) -> Result<Map> {
    let mut found = ctx.blocking(|| sockets(&proc_net("tcp"), "tcp"));
    found.extend(ctx.blocking(|| sockets(&proc_net("tcp6"), "tcp6")));
    let active = found.iter().filter(|socket| socket.state == 1).enumerate();
    Ok(active
        .map(|(number, socket)| {
            let shown = map! {
                "local_addr" => bare(socket.local.0).to_string(),
                "local_port" => socket.local.1,
                "remote_addr" => bare(socket.remote.0).to_string(),
                "remote_port" => socket.remote.1,
            };
            (number, shown)
        })
        .collect())
}

/// Returns the IPv4 address that an IPv6 address maps, or the address itself.
fn bare(ip: IpAddr) -> IpAddr {
    match ip {
        // A dual-stack socket shows IPv4 peers as mapped addresses.
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        v4 => v4,
    }
}

/// Returns the hardware addresses of neighbours, with the IPv4 address of each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.arp
#[function]
pub fn arp(ctx: &Context) -> Result<Map> {
    let text = ctx.blocking(|| proc_net("arp"));
    Ok(neighbours(&text))
}

/// Reads `/proc/net/arp`.
fn neighbours(text: &str) -> Map {
    let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|fields| fields.len() >= 6)
        .map(|fields| {
            // An entry that is still being resolved has no address yet.
            let known = fields[2] != "0x0";
            (if known { fields[3] } else { "<incomplete>" }, fields[0])
        })
        .collect()
}

/// Returns the neighbours with an IPv4 address, as ``ip neigh`` lists them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ip_neighs
#[function]
pub fn ip_neighs(ctx: &Context) -> Result<Map> {
    let said = subprocess::quiet(ctx, &["ip", "neigh", "show"])?;
    Ok(ip_neighbours(&said.stdout, '.'))
}

/// Returns the neighbours with an IPv6 address, as ``ip neigh`` lists them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ip_neighs6
#[function]
pub fn ip_neighs6(ctx: &Context) -> Result<Map> {
    let said = subprocess::quiet(ctx, &["ip", "neigh", "show"])?;
    Ok(ip_neighbours(&said.stdout, ':'))
}

/// Returns the neighbours with an IPv4 address, as ``network.ip_neighs``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ipneighs
#[function]
pub fn ipneighs(ctx: &Context) -> Result<Map> {
    ip_neighs(ctx)
}

/// Returns the neighbours with an IPv6 address, as ``network.ip_neighs6``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ipneighs6
#[function]
pub fn ipneighs6(ctx: &Context) -> Result<Map> {
    ip_neighs6(ctx)
}

/// Reads "192.0.2.1 dev eth0 lladdr 02:… REACHABLE".
fn ip_neighbours(text: &str, sign: char) -> Map {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Entries without a hardware address are shorter.
    lines.filter(|words| words.len() >= 5 && words[0].contains(sign)).map(|words| (words[4], words[0])).collect()
}

/// A route.
fn route(family: &str, destination: String, gateway: String, netmask: String, interface: &str) -> Map {
    let flags = if gateway == "0.0.0.0" || gateway == "::" { "U" } else { "UG" };
    map! {
        "addr_family" => family,
        "destination" => destination,
        "gateway" => gateway,
        "netmask" => netmask,
        "flags" => flags,
        "interface" => interface,
    }
}

/// Reads `/proc/net/route`.
fn routes4(text: &str) -> Vec<Map> {
    let address =
        |text: &str| u32::from_str_radix(text, 16).map(|word| Ipv4Addr::from(word.to_ne_bytes()).to_string()).ok();
    let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|fields| fields.len() >= 8)
        .filter_map(|fields| {
            let mut shown = route("inet", address(fields[1])?, address(fields[2])?, address(fields[7])?, fields[0]);
            shown.insert("flags", flag_letters(fields[3]));
            Some(shown)
        })
        .collect()
}

/// The letters `netstat` has for the kernel's bits.
fn flag_letters(hex: &str) -> String {
    let bits = u32::from_str_radix(hex, 16).unwrap_or(0);
    // The flags of route(8); the bits are those of linux/route.h.
    let letters = [(0x1, 'U'), (0x2, 'G'), (0x4, 'H'), (0x200, '!'), (0x0020_0000, 'n')];
    letters.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter).collect()
}

/// Reads `/proc/net/ipv6_route`.
fn routes6(text: &str) -> Vec<Map> {
    let address = |text: &str| u128::from_str_radix(text, 16).map(Ipv6Addr::from).ok();
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|fields| fields.len() == 10)
        .filter_map(|fields| {
            let length = u8::from_str_radix(fields[1], 16).ok()?;
            let destination = format!("{}/{length}", address(fields[0])?);
            let gateway = address(fields[4])?.to_string();
            let mut shown = route("inet6", destination, gateway, String::new(), fields[9]);
            shown.insert("flags", flag_letters(fields[8]));
            Some(shown)
        })
        .collect()
}

fn all_routes(ctx: &Context, family: Option<&str>) -> Result<Vec<Map>> {
    if let Some(family) = family.filter(|family| !["inet", "inet6"].contains(family)) {
        return Err(Error::execution(format!("Invalid address family {family}")));
    }
    let (v4, v6) = ctx.blocking(|| (proc_net("route"), proc_net("ipv6_route")));
    let mut routes = if family == Some("inet6") { Vec::new() } else { routes4(&v4) };
    routes.extend(if family == Some("inet") { Vec::new() } else { routes6(&v6) });
    Ok(routes)
}

/// Returns the routes, of one family or both.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.routes
///     salt '*' network.routes inet
#[function]
pub fn routes(ctx: &Context, family: Option<String>) -> Result<Value> {
    Ok(Value::from(all_routes(ctx, family.as_deref())?))
}

/// Returns the default routes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.default_route
#[function]
pub fn default_route(ctx: &Context, family: Option<String>) -> Result<Value> {
    let mut routes = all_routes(ctx, family.as_deref())?;
    routes.retain(|route| {
        let everything = [Some("0.0.0.0"), Some("::/0")].contains(&route.get_str("destination"));
        everything && (route.get_str("netmask") == Some("0.0.0.0") || route.get_str("netmask") == Some(""))
    });
    Ok(Value::from(routes))
}

/// Returns the route of packets to an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.get_route 10.10.10.10
#[function]
pub fn get_route(ctx: &Context, ip: String) -> Result<Map> {
    let address: IpAddr = ip.parse().map_err(|_| Error::invocation(format!("'{ip}' is not an address")))?;
    let said = subprocess::quiet(ctx, &["ip", "route", "get", &address.to_string()])?;
    let words: Vec<&str> = said.stdout.lines().next().unwrap_or_default().split_whitespace().collect();
    let after =
        |name: &str| words.iter().position(|word| *word == name).and_then(|place| words.get(place + 1)).copied();
    match after("dev") {
        Some(interface) => Ok(map! {
            "destination" => ip,
            "gateway" => after("via"),
            "interface" => interface,
            "source" => after("src"),
        }),
        None => Err(Error::execution(said.stderr.trim_end())),
    }
}

/// Returns all connections and listening sockets with their programs.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.netstat
#[function]
pub fn netstat(ctx: &Context) -> Result<Value> {
    Ok(ctx.blocking(|| {
        let owners = socket_owners();
        all_sockets().iter().map(|socket| socket.to_map(&owners)).collect()
    }))
}

impl Socket {
    fn to_map(&self, owners: &HashMap<u64, String>) -> Map {
        let endpoint = |(ip, port): (IpAddr, u16)| match port {
            0 => format!("{ip}:*"),
            port => format!("{ip}:{port}"),
        };
        let mut shown = map! {
            "proto" => self.proto,
            "recv-q" => self.receiving.to_string(),
            "send-q" => self.sending.to_string(),
            "local-address" => endpoint(self.local),
            "remote-address" => endpoint(self.remote),
        };
        if self.proto.starts_with("tcp") {
            shown.insert("state", state(self.state));
        }
        shown.insert("user", self.uid.to_string());
        shown.insert("inode", self.inode.to_string());
        shown.insert("program", owners.get(&self.inode).map_or("-", String::as_str));
        shown
    }
}

/// Returns the owners of sockets by inode, each as `1234/sshd`.
fn socket_owners() -> HashMap<u64, String> {
    let mut owners = HashMap::new();
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        // The process has ended, or belongs to someone else.
        let Ok(links) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        for link in links.flatten() {
            let target = std::fs::read_link(link.path()).unwrap_or_default();
            if target.to_string_lossy().starts_with("socket:")
                // The inode connects the socket with its line in /proc/net.
                && let Ok(meta) = std::fs::metadata(link.path())
            {
                owners.insert(meta.ino(), format!("{pid}/{}", name.trim_end()));
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_read() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000001 00:00000000 00000000  1000        0 4711 1 0\n\
             \x20  1: broken\n";
        let found = sockets(text, "tcp");
        assert_eq!(found.len(), 1);
        let shown = found[0].to_map(&HashMap::from([(4711, "7/web".to_owned())]));
        let expected = map! {
            "proto" => "tcp", "recv-q" => "1", "send-q" => "0", "local-address" => "127.0.0.1:8080",
            "remote-address" => "0.0.0.0:*", "state" => "LISTEN", "user" => "1000", "inode" => "4711", "program" => "7/web",
        };
        assert_eq!(shown, expected);
        let v6 = endpoint("0000000000000000FFFF00000100007F:0050").unwrap();
        assert_eq!(bare(v6.0).to_string(), "127.0.0.1");
        assert_eq!(endpoint("xx"), None);
    }

    #[test]
    fn routes_are_read() {
        let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        let expected = map! {
            "addr_family" => "inet", "destination" => "0.0.0.0", "gateway" => "192.0.2.1", "netmask" => "0.0.0.0",
            "flags" => "UG", "interface" => "eth0",
        };
        assert_eq!(routes4(v4), [expected]);
        let zero = "0".repeat(32);
        let v6 =
            format!("fd000000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001 eth0\n");
        assert_eq!(routes6(&v6)[0].get_str("destination"), Some("fd00::/64"));
        assert_eq!(flag_letters("0205"), "UH!");
    }

    #[test]
    fn neighbours_are_read() {
        let text = "IP address HW type Flags HW address Mask Device\n192.0.2.1 0x1 0x2 02:fc:00:00:00:05 * eth0\n\
                    192.0.2.9 0x1 0x0 00:00:00:00:00:00 * eth0\n";
        assert_eq!(neighbours(text), map! { "02:fc:00:00:00:05" => "192.0.2.1", "<incomplete>" => "192.0.2.9" });
        let text = "192.0.2.1 dev eth0 lladdr 02:fc REACHABLE\nfe80::1 dev eth0 lladdr 02:fd router STALE\nx FAILED\n";
        assert_eq!(ip_neighbours(text, '.'), map! { "02:fc" => "192.0.2.1" });
        assert_eq!(ip_neighbours(text, ':'), map! { "02:fd" => "fe80::1" });
    }
}
