//! Counters of the network.

use exec::{Result, function};
use value::{Map, Value, map};

use super::{kernel_text, number};

/// Returns the traffic of the network interfaces.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.netdev
#[function]
pub(super) fn netdev() -> Result<Map> {
    Ok(parse_netdev(&kernel_text("/proc/net/dev")))
}

pub(super) fn parse_netdev(text: &str) -> Map {
    const FIELDS: [&str; 16] = [
        "rx_bytes",
        "rx_packets",
        "rx_errs",
        "rx_drop",
        "rx_fifo",
        "rx_frame",
        "rx_compressed",
        "rx_multicast",
        "tx_bytes",
        "tx_packets",
        "tx_errs",
        "tx_drop",
        "tx_fifo",
        "tx_colls",
        "tx_carrier",
        "tx_compressed",
    ];
    let mut interfaces = Map::new();
    // An alias such as `eth0:1` has a colon in its name.
    for (name, counters) in text.lines().filter_map(|line| line.rsplit_once(':')) {
        let mut fields: Vec<(&str, Value)> = FIELDS.into_iter().zip(counters.split_whitespace().map(number)).collect();
        fields.sort_by_key(|(name, _)| *name);
        let mut entry = map! { "iface" => name.trim() };
        entry.extend(fields);
        interfaces.insert(name.trim(), entry);
    }
    interfaces
}

/// Returns the network stack's counters.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.netstats
#[function]
pub(super) fn netstats() -> Result<Map> {
    Ok(parse_netstats(&kernel_text("/proc/net/netstat")))
}

/// Lines come in pairs: names, then values, both behind the name of the group.
pub(super) fn parse_netstats(text: &str) -> Map {
    let mut groups = Map::new();
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(group) = words.first() else { continue };
        // Every group has two lines of the same name: the columns and the numbers.
        if names.first() == Some(group) {
            let row: Map = names.iter().skip(1).copied().zip(words.iter().skip(1).map(|word| number(word))).collect();
            groups.insert(group.replace(':', ""), row);
        } else {
            names = words;
        }
    }
    groups
}
