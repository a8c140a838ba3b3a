//! Information from the master's files: which minions are expected, and which are connected.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use cache::{Cache, Part};
use client::Away;
use targeting::{Checker, MinionData, Needs, ReadAhead, TargetType, Unavailable};
use value::{Map, Value};
use wire::MinionId;

use super::hold;
use super::job::Job;
use super::printer::Silence;
use crate::hint;

/// The largest number of ids that are explained.
const MOST_EXPLAINED: usize = 5;

/// The master's files, which are read when first needed.
pub struct MasterFiles {
    accepted_dir: PathBuf,
    syndic_dir: PathBuf,
    cache: Cache,
    data_cache: bool,
    nodegroups: Map,
    publish_port: u16,
    connected: OnceCell<BTreeSet<String>>,
}

impl MasterFiles {
    /// Takes the paths from the configuration.
    ///
    /// # Errors
    /// If an option of the minion data cache has an invalid value.
    pub fn new(config: &config::Master) -> Result<Self> {
        Ok(MasterFiles {
            accepted_dir: config.paths.pki_dir.join("minions"),
            syndic_dir: config.paths.syndic_dir.clone(),
            cache: Cache::of_master(config)?,
            data_cache: config.jobs.minion_data_cache,
            nodegroups: config.nodegroups.clone(),
            publish_port: config.network.publish_port,
            connected: OnceCell::new(),
        })
    }

    /// Returns the ids that match a target, as the master sees it.
    pub fn expected(&self, job: &Job, delimiter: &str) -> Result<Vec<String>> {
        let kind = TargetType::from_name(&job.target_type)?;
        let checker = Checker::new(self, &self.nodegroups, self.data_cache);
        let expected = checker.expect(&job.target, kind, delimiter);
        Ok(expected.with_context(|| format!("failed to read the target '{}'", job.target))?.minions)
    }

    /// Prints to standard error why a target matches no minion, if it is invalid or looks mistyped.
    pub fn explain(&self, job: &Job, delimiter: &str) {
        if let Some(text) = self.explanation(job, delimiter) {
            rt::complain!("{text}");
        }
    }

    fn explanation(&self, job: &Job, delimiter: &str) -> Option<String> {
        let kind = match TargetType::from_name(&job.target_type) {
            Ok(kind) => kind,
            Err(error) => return Some(error.to_string()),
        };
        let context = targeting::Context { delimiter, nodegroups: Some(&self.nodegroups) };
        if let Err(error) = targeting::Compiled::for_master(&job.target, kind, &context) {
            return Some(error.to_string());
        }
        let named = match &job.target {
            Value::Str(text) if kind == TargetType::Glob => vec![text.to_string()],
            Value::List(ids) if kind == TargetType::List => ids.iter().map(Value::to_string).collect(),
            _ => return None,
        };
        let accepted = self.accepted();
        let is_in = |bank: &str, id: &str| self.accepted_dir.with_file_name(bank).join(id).is_file();
        let lines = named.iter().take(MOST_EXPLAINED).filter_map(|id| {
            // A path would lead out of the directory of keys.
            if id.contains('/') {
                return None;
            }
            if is_in("minions_pre", id) {
                return Some(format!("The key of '{id}' is not accepted yet. See: salt-key -a {id}"));
            }
            if is_in("minions_rejected", id) {
                return Some(format!("The key of '{id}' is rejected. See: salt-key -l rejected"));
            }
            let near = hint::nearest(id, accepted.iter().map(String::as_str))?;
            Some(format!("There is no minion '{id}'. {}", hint::did_you_mean(near)))
        });
        Some(lines.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
    }

    /// Returns the texts about minions that do not answer a job.
    pub fn about(self, jid: &str) -> About {
        About { known: self, jid: jid.to_owned() }
    }

    /// Returns the ids whose addresses have a connection to the publish port.
    fn connected(&self) -> &BTreeSet<String> {
        self.connected.get_or_init(|| {
            let peers = peers_of_port(self.publish_port);
            let ids = self.cached().into_iter();
            ids.filter(|id| self.grains(id).is_some_and(|grains| addresses(&grains).any(|a| peers.contains(&a))))
                .collect()
        })
    }
}

impl MinionData for MasterFiles {
    fn accepted(&self) -> Vec<String> {
        let entries = match std::fs::read_dir(&self.accepted_dir) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(path = %self.accepted_dir.display(), %error, "failed to list accepted keys");
                return Vec::new();
            }
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        // Anything else in the directory is not a key.
        let mut ids: Vec<String> = names.filter(|name| MinionId::new(name.as_str()).is_ok()).collect();
        ids.sort_unstable();
        ids
    }

    fn cached(&self) -> Vec<String> {
        read(self.cache.ids())
    }

    fn grains(&self, id: &str) -> Option<Arc<Map>> {
        read(self.cache.grains(&MinionId::new(id).ok()?))
    }

    fn pillar(&self, id: &str) -> Option<Arc<Map>> {
        read(self.cache.pillar(&MinionId::new(id).ok()?))
    }

    fn batch(&self) -> Option<usize> {
        self.cache.batch()
    }

    fn read_ahead(&self, ids: &[&str], needs: Needs) -> Result<ReadAhead, Unavailable> {
        let read = |part| self.cache.read(part, ids).inspect_err(report).map_err(|_| Unavailable);
        let grains = needs.grains.then(|| read(Part::Grains)).transpose()?;
        Ok(ReadAhead { grains, pillar: needs.pillar.then(|| read(Part::Pillar)).transpose()? })
    }
}

fn read<T: Default>(result: cache::Result<T>) -> T {
    result.inspect_err(report).unwrap_or_default()
}

fn report(error: &cache::Error) {
    if !error.is_logged() {
        tracing::warn!(%error, "failed to read the minion data cache");
    }
}

/// Texts about the minions that did not answer a job.
pub struct About {
    known: MasterFiles,
    jid: String,
}

impl Silence for About {
    fn text(&self, id: &str) -> Option<String> {
        let known = &self.known;
        if known.data_cache && known.grains(id).is_some() {
            let connected = known.connected();
            // As in Salt, an empty list of connections says nothing about a minion.
            if !connected.is_empty() && !connected.contains(id) {
                return Some(NOT_CONNECTED.into());
            }
        }
        // A relay master answers through its minions.
        if known.syndic_dir.join(id).exists() {
            return None;
        }
        Some(format!(
            "Minion did not return. [No response]\nThe minions may not have all finished running and any remaining \
             minions will return upon completion. To look up the return data for this job later, run the following \
             command:\n\nsalt-run jobs.lookup_jid {}",
            self.jid
        ))
    }
}

/// Salt's words, which scripts look for.
pub const NOT_CONNECTED: &str = "Minion did not return. [Not connected]";

/// Returns the text about a minion that is disconnected, as the master reports. Only output for users has the time
/// since then.
pub fn not_connected(away: &Away, to_a_person: bool, now: SystemTime) -> String {
    if !to_a_person {
        return NOT_CONNECTED.into();
    }
    let ago = hold::span(Duration::from_secs(away.gone.as_secs()));
    match (away.seen, now.checked_sub(away.gone)) {
        (true, Some(last)) => format!("{NOT_CONNECTED} (last seen {}, {ago} ago)", local_time(last)),
        _ => format!("{NOT_CONNECTED} (not seen since the master started, {ago} ago)"),
    }
}

fn local_time(at: SystemTime) -> String {
    let zoned = jiff::Timestamp::try_from(at).map(|at| at.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map_or_else(|_| "long ago".into(), |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn addresses(grains: &Map) -> impl Iterator<Item = IpAddr> + '_ {
    let lists = ["ipv4", "ipv6"].into_iter().filter_map(|name| grains.get(name)?.as_list());
    lists.flatten().filter_map(Value::as_str).filter_map(|text| text.parse().ok())
}

/// Returns who is connected to a port of this host. A minion over loopback is returned under every address of the
/// host, since its grains list those.
fn peers_of_port(port: u16) -> BTreeSet<IpAddr> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let mut peers: BTreeSet<IpAddr> = tables.iter().flat_map(|table| peers_in_table(table, port)).collect();
    let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1])];
    if loopback.iter().filter(|address| peers.remove(address)).count() > 0 {
        peers.extend(own_addresses());
    }
    peers
}

fn own_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    addresses.filter(|address| !address.is_loopback()).collect()
}

/// Reads the kernel's table of connections: the remote addresses of established ones on a local port.
fn peers_in_table(table: &str, port: u16) -> Vec<IpAddr> {
    const ESTABLISHED: &str = "01";
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
        let local_port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (state == ESTABLISHED && local_port == port).then(|| kernel_address(remote.rsplit_once(':')?.0))?
    });
    rows.collect()
}

/// Reads an address of the kernel: words of four bytes, each in the byte order of the machine.
fn kernel_address(hex: &str) -> Option<IpAddr> {
    let words: Option<Vec<[u8; 4]>> = (0..hex.len() / 8)
        .map(|word| u32::from_str_radix(hex.get(word * 8..word * 8 + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect();
    match words?.as_slice() {
        [v4] => Some(IpAddr::from(*v4)),
        v6 => <[u8; 16]>::try_from(v6.concat()).ok().map(|bytes| {
            let address = std::net::Ipv6Addr::from(bytes);
            // An IPv4 peer of a socket for both looks like `::ffff:192.0.2.1`.
            address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_tells_who_is_connected() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
                     0: 0100007F:1199 00000000:0000 0A 0\n   \
                     1: 0A00000A:1199 0B00000A:C350 01 0\n   \
                     2: 0A00000A:1199 0C00000A:C351 06 0\n   \
                     3: 0A00000A:0016 0D00000A:C352 01 0\n";
        assert_eq!(peers_in_table(table, 4505), [IpAddr::from([10, 0, 0, 11])]);
        let six = "head\n 0: 00000000000000000000000001000000:1199 0000000000000000FFFF00000B00000A:1 01 0\n";
        assert_eq!(peers_in_table(six, 4505), [IpAddr::from([10, 0, 0, 11])]);
    }

    #[test]
    fn people_are_told_since_when_a_minion_is_away_and_scripts_get_salts_words() {
        let away = |seen| Away { id: "a".into(), gone: Duration::from_millis(90_500), seen, wait: Duration::ZERO };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        assert_eq!(not_connected(&away(true), false, now), "Minion did not return. [Not connected]");
        let told = not_connected(&away(true), true, now);
        assert!(told.starts_with("Minion did not return. [Not connected] (last seen 2027-01-1"), "{told}");
        assert!(told.ends_with(", 90s ago)"), "{told}");
        assert!(not_connected(&away(false), true, now).ends_with("(not seen since the master started, 90s ago)"));
    }

    #[test]
    fn broken_tables_tell_nothing() {
        assert_eq!(peers_in_table("head\n0: zz\n1: a:b c:d 01\n", 4505), Vec::<IpAddr>::new());
    }
}
