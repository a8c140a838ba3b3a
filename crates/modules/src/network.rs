//! `network` — interfaces, addresses, routes and connections.

mod addresses;
mod host;
mod probes;
pub(crate) mod tables;

use std::net::IpAddr;

use exec::{Context, Error, Module, Result, function};
use grains::network::Interface;
use value::{Map, Value, list, map};

use addresses::Net;

/// The module.
pub static MODULE: Module = Module::new(
    "network",
    "Functions that look at interfaces, addresses, routes and connections.",
    &[
        &tables::ACTIVE_TCP,
        &tables::ARP,
        &addresses::CALC_NET,
        &probes::CONNECT,
        &addresses::CONVERT_CIDR,
        &tables::DEFAULT_ROUTE,
        &probes::DIG,
        &FQDNS,
        &host::GET_BUFSIZE,
        &GET_FQDN,
        &GET_HOSTNAME,
        &tables::GET_ROUTE,
        &HW_ADDR,
        &HWADDR,
        &IFACESTARTSWITH,
        &IN_SUBNET,
        &INTERFACE,
        &INTERFACE_IP,
        &INTERFACES,
        &IP_ADDRS,
        &IP_ADDRS6,
        &addresses::IP_IN_SUBNET,
        &tables::IP_NEIGHS,
        &tables::IP_NEIGHS6,
        &IP_NETWORKS,
        &IP_NETWORKS6,
        &IPADDRS,
        &IPADDRS6,
        &addresses::IPHEXVAL,
        &tables::IPNEIGHS,
        &tables::IPNEIGHS6,
        &addresses::IS_LOOPBACK,
        &addresses::IS_PRIVATE,
        &host::MOD_BUFSIZE,
        &host::MOD_HOSTNAME,
        &tables::NETSTAT,
        &probes::PING,
        &addresses::REVERSE_IP,
        &tables::ROUTES,
        &SUBNETS,
        &SUBNETS6,
        &probes::TRACEROUTE,
        &probes::WOL,
    ],
);

/// Returns all interfaces.
fn all(ctx: &Context) -> Result<Vec<Interface>> {
    Ok(ctx.blocking(grains::network::interfaces))
}

/// Returns the interfaces that match the patterns, a text or a list; all without patterns.
fn chosen(ctx: &Context, patterns: &Value) -> Result<Vec<Interface>> {
    let patterns = crate::util::split_input(patterns);
    let fits = |name: &str| patterns.is_empty() || patterns.iter().any(|pattern| targeting::fnmatch(name, pattern));
    Ok(all(ctx)?.into_iter().filter(|interface| fits(&interface.name)).collect())
}

/// Returns the host names of all addresses of this machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.fqdns
#[function]
fn fqdns(ctx: &Context) -> Result<Map> {
    let interfaces = all(ctx)?;
    let mut addresses = grains::network::addresses(&interfaces, false, false);
    addresses.extend(grains::network::addresses(&interfaces, false, true));
    let lookups = addresses.into_iter().map(|ip| move || grains::names::full_name_of(ip)).collect();
    let mut names: Vec<_> = ctx.side_by_side(lookups).into_iter().flatten().collect();
    names.sort();
    names.dedup();
    Ok(map! { "fqdns" => names })
}

/// Returns the full name of this machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.get_fqdn
#[function]
fn get_fqdn(ctx: &Context) -> Result<String> {
    let host = hostname();
    Ok(ctx.blocking(move || grains::names::full_name_of_host(&host).unwrap_or(host)))
}

fn hostname() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// Returns the host name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.get_hostname
#[function]
fn get_hostname() -> Result<String> {
    Ok(hostname())
}

/// Returns an interface. The inner error is Salt's text for a missing one.
fn one(ctx: &Context, name: &str) -> Result<std::result::Result<Interface, String>> {
    let interfaces = all(ctx)?;
    let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    // Salt returns the complaint as the answer instead of failing.
    let text = format!("Interface \"{name}\" not in available interfaces: \"{}\"", names.join("\", \""));
    let found = interfaces.into_iter().find(|interface| interface.name == name);
    if found.is_none() {
        tracing::error!("{text}");
    }
    Ok(found.ok_or(text))
}

/// Returns the hardware address of an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.hw_addr eth0
#[function]
fn hw_addr(ctx: &Context, iface: String) -> Result<String> {
    hardware_address(ctx, &iface)
}

/// Returns the hardware address of an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.hwaddr eth0
#[function]
fn hwaddr(ctx: &Context, iface: String) -> Result<String> {
    hardware_address(ctx, &iface)
}

fn hardware_address(ctx: &Context, iface: &str) -> Result<String> {
    Ok(match one(ctx, iface)? {
        Ok(interface) => interface.hwaddr.unwrap_or_default(),
        Err(text) => text,
    })
}

/// Returns the interfaces with an address that begins with these characters.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ifacestartswith 10.0
#[function]
fn ifacestartswith(ctx: &Context, cidr: Value) -> Result<Value> {
    let text = cidr.to_string();
    let parts: Vec<&str> = text.split('.').collect();
    // More than four parts are not a beginning of an address. An empty pattern then matches all, as in
    // Salt.
    let pattern = if parts.len() <= 4 { text.as_str() } else { "" };
    let begins = |interface: &&Interface| {
        let mut v4 = interface.addresses.iter().filter(|address| address.ip.is_ipv4() && !address.secondary);
        v4.any(|address| address.ip.to_string().starts_with(pattern))
    };
    Ok(all(ctx)?.iter().filter(begins).map(|interface| interface.name.as_str()).collect())
}

/// Returns whether this machine has an address in a network.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.in_subnet 10.0.0.0/16
#[function]
fn in_subnet(ctx: &Context, cidr: String) -> Result<bool> {
    // Python's `ip_network` refuses host bits, and Salt reports that as False.
    let Some(net) = Net::strict(&cidr) else {
        tracing::error!("Invalid CIDR '{cidr}'");
        return Ok(false);
    };
    let interfaces = all(ctx)?;
    let addresses = interfaces.iter().flat_map(|interface| &interface.addresses).map(|address| address.ip);
    Ok(addresses.filter(|ip| !ip.is_loopback()).any(|ip| net.contains(ip)))
}

/// Returns the IPv4 addresses of an interface with all details.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.interface eth0
#[function]
fn interface(ctx: &Context, iface: String) -> Result<Value> {
    Ok(match one(ctx, &iface)? {
        Ok(interface) => interface.to_map().remove("inet").unwrap_or_else(|| Value::from("")),
        Err(text) => Value::from(text),
    })
}

/// Returns the first IPv4 address of an interface.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.interface_ip eth0
#[function]
fn interface_ip(ctx: &Context, iface: String) -> Result<String> {
    Ok(match one(ctx, &iface)? {
        Ok(interface) => {
            let mut v4 = interface.addresses.iter().filter(|address| address.ip.is_ipv4() && !address.secondary);
            v4.next().map_or_else(String::new, |address| address.ip.to_string())
        }
        Err(text) => text,
    })
}

/// Returns all interfaces with all details.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.interfaces
#[function]
fn interfaces(ctx: &Context) -> Result<Map> {
    Ok(all(ctx)?.iter().map(|interface| (interface.name.as_str(), interface.to_map())).collect())
}

/// The arguments that `ip_addrs` and its relatives have in common.
struct AddressFilter {
    interface: Value,
    loopback: bool,
    cidr: Option<String>,
    private: Option<bool>,
    v6: bool,
}

impl AddressFilter {
    fn find(self, ctx: &Context) -> Result<Value> {
        let interfaces = chosen(ctx, &self.interface)?;
        let found = grains::network::addresses(&interfaces, self.loopback, self.v6);
        let net = self.cidr.filter(|cidr| !cidr.is_empty());
        let fits = |ip: &IpAddr| match (&net, self.private) {
            // With a network, the kind of address does not count.
            (Some(cidr), _) => Net::strict(cidr).is_some_and(|net| net.contains(*ip)),
            (None, Some(private)) => addresses::private(*ip) == private,
            (None, None) => true,
        };
        Ok(found.iter().filter(|ip| fits(ip)).map(IpAddr::to_string).collect())
    }
}

fn private_only(kind: Option<&str>) -> Option<bool> {
    match kind {
        Some("private") => Some(true),
        Some("public") => Some(false),
        _ => None,
    }
}

/// Returns the IPv4 addresses, of all interfaces or those named, with ``cidr`` those of a network, with ``type`` only
/// ``public`` or ``private`` ones.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ip_addrs
#[function]
fn ip_addrs(
    ctx: &Context,
    #[default(Value::Null)] interface: Value,
    #[default(false)] include_loopback: bool,
    cidr: Option<String>,
    r#type: Option<String>,
) -> Result<Value> {
    let private = private_only(r#type.as_deref());
    AddressFilter { interface, loopback: include_loopback, cidr, private, v6: false }.find(ctx)
}

/// Returns the IPv4 addresses, as ``network.ip_addrs``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ipaddrs
#[function]
fn ipaddrs(
    ctx: &Context,
    #[default(Value::Null)] interface: Value,
    #[default(false)] include_loopback: bool,
    cidr: Option<String>,
    r#type: Option<String>,
) -> Result<Value> {
    let private = private_only(r#type.as_deref());
    AddressFilter { interface, loopback: include_loopback, cidr, private, v6: false }.find(ctx)
}

/// Returns the IPv6 addresses, of all interfaces or those named, with ``cidr`` those of a network.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ip_addrs6
#[function]
fn ip_addrs6(
    ctx: &Context,
    #[default(Value::Null)] interface: Value,
    #[default(false)] include_loopback: bool,
    cidr: Option<String>,
) -> Result<Value> {
    AddressFilter { interface, loopback: include_loopback, cidr, private: None, v6: true }.find(ctx)
}

/// Returns the IPv6 addresses, as ``network.ip_addrs6``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ipaddrs6
#[function]
fn ipaddrs6(
    ctx: &Context,
    #[default(Value::Null)] interface: Value,
    #[default(false)] include_loopback: bool,
    cidr: Option<String>,
) -> Result<Value> {
    AddressFilter { interface, loopback: include_loopback, cidr, private: None, v6: true }.find(ctx)
}

/// The networks of interfaces, sorted.
fn networks(interfaces: &[Interface], loopback: bool, v6: bool) -> Vec<Net> {
    let addresses = interfaces.iter().flat_map(|interface| &interface.addresses);
    let of_kind = addresses.filter(|address| address.ip.is_ipv6() == v6);
    let mut nets: Vec<Net> = of_kind.map(|address| Net::around(address.ip, address.prefix)).collect();
    nets.retain(|net| loopback || !net.is_loopback());
    nets.sort();
    nets.dedup();
    nets
}

fn networks_shown(ctx: &Context, interface: &Value, loopback: bool, verbose: bool, v6: bool) -> Result<Value> {
    let nets = networks(&chosen(ctx, interface)?, loopback, v6);
    if verbose {
        return Ok(Value::Map(nets.iter().map(|net| (net.to_string(), net.details())).collect()));
    }
    Ok(nets.iter().map(Net::to_string).collect())
}

/// Returns the IPv4 networks this machine is in, with ``verbose`` with details.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ip_networks
#[function]
fn ip_networks(
    ctx: &Context,
    #[default(Value::Null)] interface: Value,
    #[default(false)] include_loopback: bool,
    #[default(false)] verbose: bool,
) -> Result<Value> {
    networks_shown(ctx, &interface, include_loopback, verbose, false)
}

/// Returns the IPv6 networks this machine is in, with ``verbose`` with details.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ip_networks6
#[function]
fn ip_networks6(
    ctx: &Context,
    #[default(Value::Null)] interface: Value,
    #[default(false)] include_loopback: bool,
    #[default(false)] verbose: bool,
) -> Result<Value> {
    networks_shown(ctx, &interface, include_loopback, verbose, true)
}

/// Returns the IPv4 networks this machine is in, of all interfaces or those named.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.subnets
///     salt '*' network.subnets interfaces=eth1
#[function]
fn subnets(ctx: &Context, #[default(Value::Null)] interfaces: Value) -> Result<Value> {
    if interfaces.as_map().is_some() {
        return Err(Error::invocation("interfaces must be a name or a list of names"));
    }
    let nets = networks(&chosen(ctx, &interfaces)?, false, false);
    Ok(nets.iter().map(Net::to_string).collect())
}

/// Returns the IPv6 networks this machine is in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.subnets6
#[function]
fn subnets6(ctx: &Context) -> Result<Value> {
    let nets = networks(&all(ctx)?, false, true);
    Ok(if nets.is_empty() { list![] } else { nets.iter().map(Net::to_string).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback() {
        let (ctx, _) = exec::testing::context(&[&MODULE], map! {}, map! {}, map! {});
        let found = ctx.call("network.interfaces", vec![]).unwrap();
        assert_eq!(found.traverse("lo:inet:0:address", ":"), Some(&"127.0.0.1".into()));
        assert_eq!(ctx.call("network.interface_ip", vec!["lo".into()]).unwrap(), "127.0.0.1".into());
        let with = ctx.call("network.ip_addrs", vec!["lo".into(), true.into()]).unwrap();
        assert!(with.as_list().unwrap().contains(&"127.0.0.1".into()));
        let missing = ctx.call("network.hw_addr", vec!["nosuch0".into()]).unwrap();
        assert!(missing.as_str().unwrap().starts_with("Interface \"nosuch0\" not in available interfaces: \""));
    }
}
