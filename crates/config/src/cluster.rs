//! The settings for sharing with other masters: the options `cluster_*`, checked.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use value::{Map, Value};

use crate::bus::{self, Bus};
use crate::error::Error;
use crate::masters::{MasterAddress, UriFormat, parse_master};
use crate::member_keys;
use crate::opts::Opts;
use crate::origin::{Origin, Origins};
use crate::secret::Secret;

/// The settings of a master that shares. They exist only with `cluster_id`.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The name of the set.
    pub id: String,
    /// Where other members may be reached (`cluster_peers`).
    pub peers: Vec<MasterAddress>,
    /// The servers that carry messages between members (`cluster_bus`); without them members are linked with each other.
    pub bus: Option<Bus>,
    /// The secret that admits a new member (`cluster_secret`).
    pub secret: Option<Secret>,
    /// The SHA-256 of member keys that are believed at the first contact (`cluster_pub_fingerprint`).
    pub pinned: Vec<[u8; 32]>,
    /// The port for other members (`cluster_pool_port`).
    pub pool_port: u16,
    /// Where the keys of minions are (`cluster_pki_dir`); by default `pki_dir`.
    pub pki_dir: PathBuf,
    /// The interval at which members send heartbeats (`cluster_heartbeat`).
    pub heartbeat: Duration,
    /// The addresses at which others reach this master, if not as they see it (`cluster_addresses`).
    pub addresses: Vec<MasterAddress>,
    /// For how long deletions are remembered (`cluster_tombstone_days`).
    pub tombstones: Duration,
    /// The number of bytes that may wait for a member in a lane (`cluster_queue_size`).
    pub queue_size: usize,
    /// The tags of events that other members get, as globs; those of `!glob` are left out (`cluster_events`).
    pub events: Vec<String>,
    /// What decides which member runs the schedule (`cluster_once`).
    pub once: Once,
    /// For how long a majority grants the right to run it (`cluster_lease_time`).
    pub lease_time: Duration,
    /// On how many disks a return is before its minion hears of it (`cluster_return_copies`): 1 or 2.
    pub return_copies: u8,
    /// What this member does in the set (`cluster_role`).
    pub role: ClusterRole,
    /// The address on which it listens for other members: the option `interface`, which says something else for a witness.
    pub interface: String,
}

/// Who does what must happen once in the set (`cluster_once`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// `JetStream` where the bus has it; else `Majority` with three voters or more, else `Available`.
    Auto,
    /// The member that a majority has chosen; nobody without a majority.
    Majority,
    /// The first member by name that is there; after a partition each side has one.
    Available,
    /// The member to which the servers of the bus grant it.
    JetStream,
    /// Each member.
    Off,
}

/// What a member does in the set (`cluster_role`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterRole {
    /// Serves minions.
    Master,
    /// Votes, and serves no minions.
    Witness,
    /// Serves minions, and leaves it to others to decide about keys and members, and to vote.
    Reader,
}

/// What programs that would decide about keys are told on a reader and on a witness.
const READER: &str =
    "this master is a reader (cluster_role) and decides nothing about keys: do it on another master of the set";
const WITNESS: &str =
    "this master is a witness (cluster_role) and decides nothing about keys: do it on another master of the set";

impl Cluster {
    /// Returns why programs on this host may not decide about the keys of minions, if they may not.
    pub fn refuses_key_decisions(&self) -> Option<&'static str> {
        match self.role {
            ClusterRole::Master => None,
            ClusterRole::Witness => Some(WITNESS),
            ClusterRole::Reader => Some(READER),
        }
    }
}

/// The least number of characters of a secret.
const LEAST_SECRET: usize = 20;
/// The maximum length of names that members send each other, in bytes.
const MOST_NAME: usize = 256;
/// The maximum number of patterns of tags.
const MOST_PATTERNS: usize = 256;
/// The maximum number of addresses of one member.
const MOST_ADDRESSES: usize = 64;
/// The options whose values no list of options shows.
const HIDDEN: [&str; 2] = ["cluster_secret", "cluster_bus_credentials"];

impl Cluster {
    /// Reads the settings; `None` for a master that shares nothing.
    pub(crate) fn read(opts: &Opts) -> Result<Option<Self>, Error> {
        if !opts.truthy("cluster_id") {
            return Ok(None);
        }
        only(opts, "cluster_share", "all")?;
        let pool_port = within(opts, "cluster_pool_port", 1, 65_535)? as u16;
        let addresses = addresses(opts, "cluster_addresses", pool_port)?;
        if addresses.len() > MOST_ADDRESSES {
            return Err(opts.wrong("cluster_addresses", format!("a list of at most {MOST_ADDRESSES} addresses")));
        }
        let bus = read_bus(opts)?;
        let once = once(opts, bus.is_some())?;
        Ok(Some(Cluster {
            id: id(opts)?,
            peers: self::addresses(opts, "cluster_peers", pool_port)?,
            bus,
            secret: secret(opts)?,
            pinned: member_keys::read(opts)?,
            pool_port,
            pki_dir: opts.read("cluster_pki_dir")?,
            heartbeat: seconds(opts, "cluster_heartbeat", 0.05, 60.0)?,
            addresses,
            tombstones: Duration::from_secs(within(opts, "cluster_tombstone_days", 1, 3_650)? * 86_400),
            // A message has up to 512 KiB, and must fit.
            queue_size: within(opts, "cluster_queue_size", 1 << 20, 16 << 30)? as usize,
            events: events(opts)?,
            once,
            lease_time: seconds(opts, "cluster_lease_time", 1.0, 600.0)?,
            return_copies: within(opts, "cluster_return_copies", 1, 2)? as u8,
            role: role(opts)?,
            interface: opts.read("interface")?,
        }))
    }
}

/// Hides secrets in the options that `config.get`, `test.get_opts` and templates show.
pub(crate) fn hide_secrets(opts: &mut Opts) {
    for name in HIDDEN {
        if opts.truthy(name) {
            opts.set(name, "(hidden)");
        }
    }
}

/// Returns a line for each file with a secret of the set that every user of this host can read.
pub(crate) fn readable_secrets(opts: &Map, origins: &Origins) -> Vec<String> {
    let set = HIDDEN.iter().filter(|name| opts.get(name).is_some_and(Value::truthy));
    let files = set.filter_map(|name| Some((name, origins.get(*name)?)));
    let readable = files
        .filter(|(_, origin)| std::fs::metadata(&origin.file).is_ok_and(|file| file.permissions().mode() & 0o004 != 0));
    let line = |(name, origin): (&&str, &Origin)| {
        format!("config: {origin}: every user of this host can read '{name}': chmod 600 {}", origin.file.display())
    };
    readable.map(line).collect()
}

/// Has a witness take requests of programs on its own host only: it serves no minions.
pub(crate) fn close_to_minions(opts: &mut Opts, cluster: Option<&Cluster>) {
    if cluster.is_some_and(|cluster| cluster.role == ClusterRole::Witness) {
        opts.set("interface", "127.0.0.1");
    }
}

/// Fails unless the option has its only supported value. Others are planned, and must not be ignored until then.
fn only(opts: &Opts, name: &str, value: &str) -> Result<(), Error> {
    match opts.map.get(name) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Str(text)) if text == value => Ok(()),
        Some(_) => Err(opts.wrong(name, format!("'{value}': nothing else is supported yet"))),
    }
}

fn within(opts: &Opts, name: &str, least: u64, most: u64) -> Result<u64, Error> {
    let number = opts.read::<u64>(name).ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| opts.wrong(name, format!("a whole number from {least} to {most}")))
}

fn id(opts: &Opts) -> Result<String, Error> {
    let id: String = opts.read("cluster_id")?;
    match id.len() <= MOST_NAME && !id.chars().any(char::is_control) {
        true => Ok(id),
        false => Err(opts.wrong("cluster_id", format!("a name of at most {MOST_NAME} bytes"))),
    }
}

fn secret(opts: &Opts) -> Result<Option<Secret>, Error> {
    let name = "cluster_secret";
    match opts.map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Str(text)) if text.is_empty() => Ok(None),
        Some(Value::Str(text)) if text.starts_with("sdb://") => {
            Err(opts.wrong(name, "the secret itself (sdb is not supported)"))
        }
        Some(Value::Str(text)) if text.chars().count() >= LEAST_SECRET => Ok(Some(Secret::new(text.clone()))),
        // YAML reads digits as a number, and another spelling of it would be another secret.
        Some(_) => Err(opts.wrong(name, format!("a text of at least {LEAST_SECRET} characters, in quotes"))),
    }
}

fn read_bus(opts: &Opts) -> Result<Option<Bus>, Error> {
    let value = |name| opts.map.get(name).unwrap_or(&Value::Null);
    let bus = Bus::read(value(bus::BUS), value(bus::CREDENTIALS)).map_err(|wrong| {
        let (origin, name) = (opts.origins.get(wrong.option).cloned(), wrong.option.to_owned());
        Error::Option { origin, name, must: wrong.must, value: wrong.found }
    })?;
    if bus.is_some() && opts.truthy("cluster_peers") {
        return Err(opts.wrong("cluster_peers", "left out with 'cluster_bus', on which masters find each other"));
    }
    Ok(bus)
}

fn seconds(opts: &Opts, name: &str, least: f64, most: f64) -> Result<Duration, Error> {
    let seconds = opts.read::<f64>(name).ok().filter(|seconds| (least..=most).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| opts.wrong(name, format!("a number of seconds from {least} to {most}")))
}

fn events(opts: &Opts) -> Result<Vec<String>, Error> {
    let name = "cluster_events";
    let patterns: Vec<String> = opts.read(name)?;
    match patterns.len() <= MOST_PATTERNS && patterns.iter().all(|pattern| (1..=MOST_NAME).contains(&pattern.len())) {
        true => Ok(patterns),
        false => Err(opts.wrong(name, format!("a list of at most {MOST_PATTERNS} globs of at most {MOST_NAME} bytes"))),
    }
}

fn once(opts: &Opts, has_bus: bool) -> Result<Once, Error> {
    let name = "cluster_once";
    Ok(match opts.map.get(name) {
        Some(Value::Str(text)) if text == "auto" => Once::Auto,
        Some(Value::Str(text)) if text == "majority" => Once::Majority,
        Some(Value::Str(text)) if text == "available" => Once::Available,
        Some(Value::Str(text)) if text == "jetstream" && has_bus => Once::JetStream,
        Some(Value::Str(text)) if text == "jetstream" => {
            return Err(opts.wrong(name, "something else than 'jetstream' without 'cluster_bus'"));
        }
        // YAML reads an `off` without quotes as false.
        Some(Value::Bool(false)) => Once::Off,
        Some(Value::Str(text)) if text == "off" => Once::Off,
        _ => return Err(opts.wrong(name, "'auto', 'majority', 'available', 'jetstream' or 'off'")),
    })
}

fn role(opts: &Opts) -> Result<ClusterRole, Error> {
    let name = "cluster_role";
    match opts.map.get(name) {
        None | Some(Value::Null) => Ok(ClusterRole::Master),
        Some(Value::Str(text)) if text == "master" => Ok(ClusterRole::Master),
        Some(Value::Str(text)) if text == "witness" => Ok(ClusterRole::Witness),
        Some(Value::Str(text)) if text == "reader" => Ok(ClusterRole::Reader),
        _ => Err(opts.wrong(name, "'master', 'witness' or 'reader'")),
    }
}

/// What addresses look like, for errors.
const FORMS: &str =
    "names or addresses with or without ports, such as [salt2.example.com, 10.0.0.3:4521, '[fd00::4]:4521']";

/// Reads a list of hosts with or without ports. What is listed twice counts once.
fn addresses(opts: &Opts, name: &str, port: u16) -> Result<Vec<MasterAddress>, Error> {
    let entries = match opts.map.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(value @ Value::Str(text)) if !text.is_empty() => std::slice::from_ref(value),
        Some(Value::List(entries)) => entries,
        Some(value) if !value.truthy() => return Ok(Vec::new()),
        Some(_) => return Err(opts.wrong(name, format!("a list of {FORMS}"))),
    };
    let mut all = Vec::new();
    for entry in entries {
        let address = address(entry, port).map_err(|must| {
            let must = format!("a list of {FORMS}; one entry must be {must}");
            opts.wrong_value(name, must, entry)
        })?;
        if !all.contains(&address) {
            all.push(address);
        }
    }
    Ok(all)
}

/// Reads one entry. The error says what it must be, and not what it is.
fn address(entry: &Value, port: u16) -> Result<MasterAddress, String> {
    let text = match entry {
        Value::Str(text) => text.clone(),
        Value::Int(_) | Value::Float(_) => entry.to_string(),
        Value::Map(_) => return Err("a text, without a space behind the colon".to_owned()),
        _ => return Err("a text".to_owned()),
    };
    if text.len() > MOST_NAME {
        return Err(format!("a text of at most {MOST_NAME} bytes"));
    }
    parse_master(&text, UriFormat::Default, port).map_err(|must| match must.rsplit_once(", not ") {
        Some((must, _)) => must.to_owned(),
        None => must,
    })
}

#[cfg(test)]
mod tests {
    use value::{Map, list, map};

    use super::*;
    use crate::Master;

    fn options(more: Map) -> Map {
        let mut all = map! { "id" => "m1", "root_dir" => "/tmp/x", "cluster_id" => "prod" };
        all.update(more);
        all
    }

    fn read(more: Map) -> Cluster {
        Master::from_options(options(more)).unwrap().cluster.unwrap()
    }

    fn refused(name: &str, value: impl Into<Value>) -> String {
        let mut more = Map::new();
        more.insert(name, value.into());
        let error = Master::from_options(options(more)).unwrap_err().to_string();
        assert!(error.contains(&format!("'{name}'")), "{error}");
        error
    }

    #[test]
    fn a_set_needs_only_its_name() {
        let cluster = read(map! {});
        assert_eq!((cluster.id.as_str(), cluster.pool_port, cluster.secret), ("prod", 4520, None));
        assert_eq!((cluster.peers, cluster.addresses), (vec![], vec![]));
        assert_eq!((cluster.heartbeat, cluster.queue_size), (Duration::from_millis(500), 64 << 20));
        assert_eq!(cluster.tombstones, Duration::from_secs(90 * 86_400));
        assert_eq!(cluster.events, ["*"]);
        assert_eq!((cluster.once, cluster.role), (Once::Auto, ClusterRole::Master));
        assert_eq!((cluster.lease_time, cluster.return_copies), (Duration::from_secs(6), 1));
        assert_eq!(cluster.pki_dir, PathBuf::from("/tmp/x/etc/salt/pki/master"));
    }

    #[test]
    fn without_a_name_nothing_is_read() {
        let config = Master::from_options(map! { "id" => "m1", "cluster_secret" => "short", "cluster_role" => 1 });
        assert!(config.unwrap().cluster.is_none());
    }

    #[test]
    fn addresses_have_the_port_of_the_set() {
        let peers = list!["m2", "m3:4521", "[::1]:1", "::1", "m2:4520"];
        let cluster = read(map! { "cluster_peers" => peers, "cluster_pool_port" => 4600, "cluster_addresses" => "m1" });
        let peers: Vec<_> = cluster.peers.iter().map(ToString::to_string).collect();
        assert_eq!(peers, ["m2:4600", "m3:4521", "[::1]:1", "[::1]:4600", "m2:4520"]);
        assert_eq!(cluster.addresses[0].to_string(), "m1:4600");
        let wrong = refused("cluster_peers", list!["m1", "m2:70000"]);
        assert!(wrong.ends_with("one entry must be an address with a port from 1 to 65535, not 'm2:70000'"), "{wrong}");
        assert!(wrong.contains("salt2.example.com") && !wrong.contains("'m1'"), "{wrong}");
        // What YAML makes of `- m2: 4520`.
        let wrong = refused("cluster_peers", list![map! { "m2" => 4520 }]);
        assert!(wrong.ends_with("without a space behind the colon, not {'m2': 4520}"), "{wrong}");
        assert!(refused("cluster_peers", "m2,m3").ends_with("not 'm2,m3'"));
        assert!(refused("cluster_peers", map! { "m2" => 4520 }).contains("a list of names or addresses"));
        assert!(refused("cluster_peers", list!["m".repeat(300)]).contains("at most 256 bytes"));
        refused("cluster_addresses", (0..65).map(|number| Value::from(format!("m{number}"))).collect::<Value>());
    }

    #[test]
    fn a_secret_is_never_shown() {
        let config = Master::from_options(options(map! { "cluster_secret" => "correct horse battery" })).unwrap();
        assert_eq!(config.cluster.as_ref().unwrap().secret.as_ref().unwrap().expose(), "correct horse battery");
        assert!(!format!("{config:?}").contains("battery"));
        assert_eq!(config.raw.get_str("cluster_secret"), Some("(hidden)"));
        for short in ["too short to count", "sdb://vault/cluster_secret"] {
            assert!(!refused("cluster_secret", short).contains(short));
        }
        assert!(refused("cluster_secret", 12_345_678_901_234_567_i64).contains("quotes"));
    }

    #[test]
    fn a_bus_takes_the_place_of_peers_and_shows_no_password() {
        let credentials = map! { "user" => "m1", "password" => "hunter2" };
        let all = options(map! { "cluster_bus" => "nats://n1,n2", "cluster_bus_credentials" => credentials });
        let config = Master::from_options(all).unwrap();
        assert_eq!(config.cluster.as_ref().unwrap().bus.as_ref().unwrap().shown(), "nats://n1:4222, nats://n2:4222");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert_eq!(config.raw.get_str("cluster_bus_credentials"), Some("(hidden)"));
        assert!(!refused("cluster_bus", "nats://m1:hunter2@n1").contains("hunter2"));
        assert!(refused("cluster_bus", "http://n1").ends_with("not 'http://'"));
        refused("cluster_bus_credentials", map! { "token" => "x" });
        let both = options(map! { "cluster_bus" => "nats://n1", "cluster_peers" => "m2" });
        assert!(Master::from_options(both).unwrap_err().to_string().contains("left out with 'cluster_bus'"));
        assert_eq!(read(map! {}).bus, None);
    }

    #[test]
    fn off_needs_no_quotes() {
        for off in [Value::from(false), "off".into()] {
            let mut more = Map::new();
            more.insert("cluster_once", off);
            assert_eq!(read(more).once, Once::Off);
        }
        assert_eq!(read(map! { "cluster_once" => "available" }).once, Once::Available);
        assert_eq!(read(map! { "cluster_once" => "majority" }).once, Once::Majority);
        assert!(refused("cluster_once", "leader").contains("'majority'"));
        refused("cluster_once", true);
    }

    #[test]
    fn the_bus_may_grant_leases() {
        let bus = map! { "cluster_bus" => "nats://h1,h2:4223", "cluster_once" => "jetstream" };
        let cluster = read(bus);
        assert_eq!((cluster.once, cluster.bus.unwrap().servers.len()), (Once::JetStream, 2));
        assert!(refused("cluster_once", "jetstream").contains("cluster_bus"));
        assert!(refused("cluster_bus", 4_222).contains("nats://"));
        let mut secret = map! { "cluster_bus" => "nats://h1" };
        secret.insert("cluster_bus_credentials", map! { "token" => "hunter2", "user" => "a" });
        let error = Master::from_options(options(secret)).unwrap_err().to_string();
        assert!(error.contains("cluster_bus_credentials") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn one_pattern_of_tags_is_a_list() {
        assert_eq!(read(map! { "cluster_events" => "!salt/beacon/*" }).events, ["!salt/beacon/*"]);
        assert_eq!(read(map! { "cluster_events" => list![] }).events, Vec::<String>::new());
        refused("cluster_events", list![""]);
        refused("cluster_events", (0..257).map(|number| Value::from(format!("{number}"))).collect::<Value>());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        refused("cluster_pool_port", 0);
        refused("cluster_heartbeat", 0);
        refused("cluster_heartbeat", "soon");
        refused("cluster_tombstone_days", 0);
        refused("cluster_queue_size", 1_000);
        refused("cluster_id", "a\nb");
        refused("cluster_lease_time", 0.5);
        assert_eq!(read(map! { "cluster_return_copies" => 2 }).return_copies, 2);
        for copies in [0, 3] {
            assert!(refused("cluster_return_copies", copies).contains("a whole number from 1 to 2"));
        }
        let witness = options(map! { "cluster_role" => "witness", "interface" => "10.0.0.3" });
        let witness = Master::from_options(witness).unwrap();
        let cluster = witness.cluster.unwrap();
        assert_eq!((cluster.role, cluster.interface.as_str()), (ClusterRole::Witness, "10.0.0.3"));
        assert_eq!(witness.network.interface, "127.0.0.1", "minions do not reach it");
        let reader =
            Master::from_options(options(map! { "cluster_role" => "reader", "interface" => "10.0.0.3" })).unwrap();
        assert_eq!(reader.network.interface, "10.0.0.3", "minions reach it");
        assert!(reader.cluster.unwrap().refuses_key_decisions().is_some());
        assert!(refused("cluster_role", "voter").contains("'master', 'witness' or 'reader'"));
        assert!(refused("cluster_share", list!["keys"]).contains("'all'"));
    }
}
