//! Types and groups of options that masters and minions share.

use std::path::PathBuf;

use value::{Map, Value};

use crate::masters::{MasterType, UriFormat};
use crate::opts::{FromOption, options};

/// The transport between masters and minions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// ZeroMQ.
    #[default]
    Zeromq,
    /// Plain TCP, with TLS if `ssl` is set.
    Tcp,
}

impl Transport {
    /// Returns Salt's name.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Zeromq => "zeromq",
            Transport::Tcp => "tcp",
        }
    }
}

impl FromOption for Transport {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value.and_then(Value::as_str) {
            // `detect` is left from an old transport of Salt and means the default there too.
            None | Some("zeromq" | "detect") => Ok(Transport::Zeromq),
            Some("tcp") => Ok(Transport::Tcp),
            Some(_) => Err("zeromq or tcp".into()),
        }
    }
}

/// The way local programs connect to the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpcMode {
    /// Unix sockets in `sock_dir`.
    #[default]
    Ipc,
    /// TCP ports on the loopback address.
    Tcp,
}

impl FromOption for IpcMode {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value.and_then(Value::as_str) {
            // An empty value means the default, as for most options.
            None | Some("ipc" | "") => Ok(IpcMode::Ipc),
            Some("tcp") => Ok(IpcMode::Tcp),
            Some(_) => Err("ipc or tcp".into()),
        }
    }
}

impl FromOption for MasterType {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        let known = "str, failover, distributed, func or disable";
        value.and_then(Value::as_str).map_or(Ok(MasterType::Hot), |word| word.parse().map_err(|_| known.into()))
    }
}

impl FromOption for UriFormat {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        match value.and_then(Value::as_str) {
            Some("ip_only") => Ok(UriFormat::IpOnly),
            // Salt only asks for `ip_only`; any other word is the default.
            _ => Ok(UriFormat::Default),
        }
    }
}

/// Environments and their directories, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots(Vec<(String, Vec<PathBuf>)>);

impl Roots {
    /// Creates roots from environments and directories.
    pub fn new(environments: impl IntoIterator<Item = (String, Vec<PathBuf>)>) -> Self {
        Roots(environments.into_iter().collect())
    }

    /// Returns the directories of an environment; none if it does not exist.
    pub fn get(&self, environment: &str) -> Option<&[PathBuf]> {
        self.0.iter().find(|(name, _)| name == environment).map(|(_, dirs)| dirs.as_slice())
    }

    /// Iterates over environments and directories in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[PathBuf])> {
        self.0.iter().map(|(name, dirs)| (name.as_str(), dirs.as_slice()))
    }

    /// Returns whether there is no environment.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromOption for Roots {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        let map = Map::from_option(value).map_err(|_| "a map of environments to lists of directories")?;
        // An environment whose value is not a list has no directories, as in Salt.
        let dirs = |dirs: &Value| Vec::<String>::from_option(Some(dirs)).unwrap_or_default();
        let one =
            |(env, list): (&Value, &Value)| (env.to_string(), dirs(list).into_iter().map(PathBuf::from).collect());
        Ok(Roots(map.iter().map(one).collect()))
    }
}

/// What is required of the peer's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertReqs {
    /// Certificates are not checked.
    None,
    /// A certificate is checked if there is one.
    Optional,
    /// A valid certificate is required.
    #[default]
    Required,
}

/// TLS for the tcp transport: the option `ssl`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The private key of this side.
    pub keyfile: Option<PathBuf>,
    /// The certificate of this side, with its chain.
    pub certfile: Option<PathBuf>,
    /// The certificates of the trusted authorities.
    pub ca_certs: Option<PathBuf>,
    /// What is required of the peer's certificate.
    pub cert_reqs: CertReqs,
    /// Python's name of a protocol (`PROTOCOL_TLSv1_2`), unchanged.
    pub ssl_version: Option<String>,
    /// OpenSSL's list of ciphers.
    pub ciphers: Option<String>,
}

impl FromOption for Option<Tls> {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        let map = match value {
            None | Some(Value::Null | Value::Bool(false)) => return Ok(None),
            // TLS with everything left to the defaults; Salt turns it into an empty map.
            Some(Value::Bool(true)) => return Ok(Some(Tls::default())),
            Some(Value::Map(map)) => map,
            Some(_) => return Err("true, false or a map".into()),
        };
        // Ignoring them silently would weaken the checks.
        let unknown = ["verify_flags", "verify_locations"].into_iter().find(|name| map.contains_key(name));
        if let Some(name) = unknown {
            return Err(format!("a map without '{name}', which is not supported"));
        }
        let path = |name: &str| {
            Option::<PathBuf>::from_option(map.get(name)).map_err(|_| format!("a map with a path under '{name}'"))
        };
        let text = |name: &str| {
            Option::<String>::from_option(map.get(name)).map_err(|_| format!("a map with text under '{name}'"))
        };
        Ok(Some(Tls {
            keyfile: path("keyfile")?,
            certfile: path("certfile")?,
            ca_certs: path("ca_certs")?,
            cert_reqs: cert_reqs(map.get("cert_reqs"))?,
            ssl_version: text("ssl_version")?,
            ciphers: text("ciphers")?,
        }))
    }
}

/// As in Salt since 3008, certificates are required by default.
fn cert_reqs(value: Option<&Value>) -> Result<CertReqs, String> {
    match value.filter(|value| !value.is_null()).map(Value::to_string).as_deref() {
        // Python's constants have these numbers, and Salt takes names and numbers.
        Some("CERT_NONE" | "0") => Ok(CertReqs::None),
        Some("CERT_OPTIONAL" | "1") => Ok(CertReqs::Optional),
        None | Some("CERT_REQUIRED" | "2") => Ok(CertReqs::Required),
        Some(_) => Err("a map whose 'cert_reqs' is CERT_NONE, CERT_OPTIONAL or CERT_REQUIRED".into()),
    }
}

options! {
    /// Options of the log.
    pub struct Log {
        /// The file, already below `root_dir`, or an address such as `udp://host:514`.
        log_file: String;
        /// The level of the console.
        log_level: String;
        /// The level of the file; that of the console if unset.
        log_level_logfile: Option<String>;
        /// The format of the time on the console.
        log_datefmt: String;
        /// The format of the time in the file.
        log_datefmt_logfile: String;
        /// The format of a line on the console.
        log_fmt_console: String;
        /// The format of a line in the file.
        log_fmt_logfile: String;
        /// The format of a job id in a line.
        log_fmt_jid: Option<String>;
        /// The format of a minion id in a line.
        log_fmt_minion_id: Option<String>;
        /// Levels by logger name.
        log_granular_levels: Map;
        /// The size in bytes at which the file is rotated; 0 for never.
        log_rotate_max_bytes: u64;
        /// The number of rotated files that are kept.
        log_rotate_backup_count: u32;
        /// The log file of `salt-key`.
        key_logfile: Option<String>;
    }

    /// Keepalive of TCP connections; -1 leaves the system's value.
    pub struct Keepalive {
        /// True if it is on.
        tcp_keepalive: bool;
        /// The idle time before the first probe, in seconds.
        tcp_keepalive_idle: i64;
        /// The number of probes before the connection is closed.
        tcp_keepalive_cnt: i64;
        /// The interval between probes in seconds.
        tcp_keepalive_intvl: i64;
    }

    /// Options of the output of state results.
    pub struct Output {
        /// Show unchanged states.
        state_verbose: bool;
        /// `full`, `terse`, `mixed`, `changes`, `filter`, with `_id` or without.
        state_output: String;
        /// Show only states with changes.
        state_output_diff: bool;
        /// Show duration and start time.
        state_output_profile: bool;
        /// Show percentages.
        state_output_pct: bool;
        /// Merge states of one id.
        state_compress_ids: bool;
    }

    /// Options of files that are served or used locally.
    pub struct FileSettings {
        /// The backends in order; `gitfs` also for `git`.
        fileserver_backend: Vec<String>;
        /// The environments with their directories; patterns are expanded.
        file_roots: Roots;
        /// Follow links.
        fileserver_followsymlinks: bool;
        /// Hide links.
        fileserver_ignoresymlinks: bool;
        /// Expressions of paths that are never served; all of them are valid.
        file_ignore_regex: Vec<String>;
        /// Patterns of paths that are never served.
        file_ignore_glob: Vec<String>;
        /// The chunk size of files in bytes.
        file_buffer_size: usize;
        /// The maximum size of a file that a minion may push, in MiB.
        file_recv_max_size: u64;
        /// True if minions may push files.
        file_recv: bool;
        /// How long a list of files may be cached in seconds; 0 for not at all.
        fileserver_list_cache_time: u64, or 20;
        /// The name of the top file.
        state_top: String;
        /// The only environment whose top file is read.
        state_top_saltenv: Option<String>;
        /// `merge`, `same` or `merge_all`.
        top_file_merging_strategy: String;
        /// The environment whose top file counts with `same`.
        default_top: String;
        /// The order in which environments are merged.
        env_order: Vec<String>;
        /// The environment if none is named.
        saltenv: Option<String>;
        /// The digest of files: `sha256`, `md5`…
        hash_type: String;
    }

    /// Options of pillar compilation.
    pub struct PillarSettings {
        /// The environments with their directories.
        pillar_roots: Roots;
        /// The external pillars in order, each a map of one name to its arguments.
        ext_pillar: Vec<Value>;
        /// True if external pillars come before the files, so that files win.
        ext_pillar_first: bool;
        /// External pillars that minions may request.
        on_demand_ext_pillar: Vec<String>;
        /// Add the master's options to every pillar.
        pillar_opts: bool;
        /// Hide the details of errors from minions.
        pillar_safe_render_error: bool;
        /// `smart`, `recurse`, `aggregate`, `overwrite` or `none`.
        pillar_source_merging_strategy: String;
        /// Join lists when merging.
        pillar_merge_lists: bool;
        /// True if an included file wins over the including one.
        pillar_includes_override_sls: bool;
        /// The environment if none is named.
        pillarenv: Option<String>;
        /// Use the environment of states for pillar too.
        pillarenv_from_saltenv: bool;
        /// Cache the compiled pillar.
        pillar_cache: bool;
        /// How long it is cached, in seconds.
        pillar_cache_ttl: u64;
    }
}
