//! The connected minions.
//!
//! The master keeps the list itself. `salt-run` runs in a separate process and does what Salt does: it reads the
//! system's established connections to the publish port and compares the peers' addresses with those in the cached
//! grains.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exec::Result;
use value::{Map, Value};
use wire::MinionId;

use crate::RunnerContext;
use crate::context::failed;

/// Returns the connected minions, sorted by id, with the address each comes from where that is known.
///
/// # Errors
/// When the minion data cache cannot be listed.
pub fn connected(ctx: &RunnerContext, subset: Option<&[String]>) -> Result<Vec<(String, Option<IpAddr>)>> {
    let wanted = |id: &str| subset.is_none_or(|subset| subset.is_empty() || subset.iter().any(|one| one == id));
    if let Some(live) = &ctx.connected {
        let mut found = live.connected();
        found.retain(|(id, _)| wanted(id));
        found.sort();
        // A minion that reconnects has two connections until the old one is noticed to be dead.
        found.dedup_by(|a, b| a.0 == b.0);
        return Ok(found);
    }
    // An id is recognised only by the addresses in its grains. Without cached grains Salt finds no minion either.
    if !ctx.config.jobs.minion_data_cache {
        return Ok(Vec::new());
    }
    let peers = peers(ctx.config.network.publish_port);
    let data = ctx.data()?;
    let mut found = Vec::new();
    for id in data.ids().map_err(failed)?.into_iter().filter(|id| wanted(id)) {
        let Ok(minion) = MinionId::new(id.as_str()) else { continue };
        // One unreadable file must not hide all other minions, so it is a warning.
        let grains = data.grains(&minion).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            None
        });
        if let Some(address) = grains.and_then(|grains| first_match(&grains, &peers)) {
            found.push((id, Some(address)));
        }
    }
    Ok(found)
}

fn first_match(grains: &Map, peers: &HashSet<IpAddr>) -> Option<IpAddr> {
    ["ipv4", "ipv6"].into_iter().find_map(|grain| {
        let addresses = grains.get(grain).and_then(Value::as_list).unwrap_or_default();
        addresses.iter().filter_map(|address| address.as_str()?.parse().ok()).find(|address| peers.contains(address))
    })
}

/// Returns the addresses that are connected to a local port. A minion on this host is returned under every address of
/// the host.
fn peers(port: u16) -> HashSet<IpAddr> {
    let mut peers = HashSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // Without IPv6 the second does not exist.
        let text = std::fs::read_to_string(table).unwrap_or_default();
        peers.extend(text.lines().filter_map(|line| established(line, port)));
    }
    // A minion on the master's own host connects over the loopback, but its grains name the host's other addresses.
    for loopback in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        if peers.remove(&loopback) {
            peers.extend(own_addresses().into_iter().filter(|own| own.is_ipv4() == loopback.is_ipv4()));
        }
    }
    peers
}

/// Returns the peer of a line of `/proc/net/tcp`, if it is an established connection to the port.
fn established(line: &str, port: u16) -> Option<IpAddr> {
    const ESTABLISHED: &str = "01";
    let mut fields = line.split_whitespace().skip(1);
    let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
    let local_port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
    (state == ESTABLISHED && local_port == port).then(|| address(remote.rsplit_once(':')?.0)).flatten()
}

/// Reads an address as the kernel prints it: words of 32 bits in the machine's order.
fn address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    match hex.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            // A dual-stack socket shows IPv4 peers as `::ffff:a.b.c.d`; the grains have the plain form.
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

fn own_addresses() -> Vec<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let addresses = interfaces.into_iter().filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    });
    // Loopback addresses are in the grains of every minion and would match all of them.
    addresses.filter(|address| !address.is_loopback()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "   1: 1500007F:11F9 0100007F:C3AA 01 00000000:00000000 00:00000000 00000000     0        0 1";
        assert_eq!(established(line, 4601), Some("127.0.0.1".parse().unwrap()));
        // Another port, another state than ESTABLISHED, the heading of the table: none is a minion.
        assert_eq!(established(line, 4505), None);
        assert_eq!(established(&line.replace(" 01 ", " 06 "), 4601), None);
        assert_eq!(established("  sl  local_address rem_address   st", 4601), None);
        let mapped = address("0000000000000000FFFF00000100007F");
        assert_eq!(mapped, Some("127.0.0.1".parse().unwrap()));
        assert_eq!(address("00000000000000000000000001000000"), Some("::1".parse().unwrap()));
        assert_eq!(address("xyz"), None);
    }
}
