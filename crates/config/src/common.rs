//! Types and groups that masters and minions share.

use std::path::PathBuf;

use value::{Map, Value};

use crate::masters::{MasterType, UriFormat};
use crate::opts::{FromOption, options};

/// How bytes travel between masters and minions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// ZeroMQ.
    #[default]
    Zeromq,
    /// Plain TCP, with TLS if `ssl` is set.
    Tcp,
}

impl Transport {
    /// Returns Salt's word for it.
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
            None | Some("zeromq" | "detect") => Ok(Transport::Zeromq),
            Some("tcp") => Ok(Transport::Tcp),
            Some(_) => Err("zeromq or tcp".into()),
        }
    }
}

/// How programs on one host talk to the daemon.
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
            _ => Ok(UriFormat::Default),
        }
    }
}

/// Environments and their directories, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots(Vec<(String, Vec<PathBuf>)>);

impl Roots {
    /// Makes roots from environments and directories.
    pub fn new(environments: impl IntoIterator<Item = (String, Vec<PathBuf>)>) -> Self {
        Roots(environments.into_iter().collect())
    }

    /// Returns the directories of an environment; nothing for one that is not there.
    pub fn get(&self, environment: &str) -> Option<&[PathBuf]> {
        self.0.iter().find(|(name, _)| name == environment).map(|(_, dirs)| dirs.as_slice())
    }

    /// Goes through environments and directories in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[PathBuf])> {
        self.0.iter().map(|(name, dirs)| (name.as_str(), dirs.as_slice()))
    }

    /// Says whether there is no environment.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromOption for Roots {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        let map = Map::from_option(value).map_err(|_| "a map of environments to lists of directories")?;
        let dirs = |dirs: &Value| Vec::<String>::from_option(Some(dirs)).unwrap_or_default();
        let one =
            |(env, list): (&Value, &Value)| (env.to_string(), dirs(list).into_iter().map(PathBuf::from).collect());
        Ok(Roots(map.iter().map(one).collect()))
    }
}

/// Whether the other side must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertReqs {
    /// Certificates are not checked.
    None,
    /// Checked when there is one.
    Optional,
    /// Must be there and valid.
    #[default]
    Required,
}

/// TLS for the tcp transport: the option `ssl`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Our private key.
    pub keyfile: Option<PathBuf>,
    /// Our certificate, with the chain after it.
    pub certfile: Option<PathBuf>,
    /// Certificates of the authorities that are trusted.
    pub ca_certs: Option<PathBuf>,
    /// Whether the other side must show one.
    pub cert_reqs: CertReqs,
    /// Python's name of a protocol (`PROTOCOL_TLSv1_2`), kept as it is.
    pub ssl_version: Option<String>,
    /// OpenSSL's list of ciphers.
    pub ciphers: Option<String>,
}

impl FromOption for Option<Tls> {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        let map = match value {
            None | Some(Value::Null | Value::Bool(false)) => return Ok(None),
            Some(Value::Bool(true)) => return Ok(Some(Tls::default())),
            Some(Value::Map(map)) => map,
            Some(_) => return Err("true, false or a map".into()),
        };
        // Left out silently, they would make checks weaker than wished.
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

/// Certificates are demanded unless something else is said, as Salt does since 3008.
fn cert_reqs(value: Option<&Value>) -> Result<CertReqs, String> {
    match value.filter(|value| !value.is_null()).map(Value::to_string).as_deref() {
        Some("CERT_NONE" | "0") => Ok(CertReqs::None),
        Some("CERT_OPTIONAL" | "1") => Ok(CertReqs::Optional),
        None | Some("CERT_REQUIRED" | "2") => Ok(CertReqs::Required),
        Some(_) => Err("a map whose 'cert_reqs' is CERT_NONE, CERT_OPTIONAL or CERT_REQUIRED".into()),
    }
}

options! {
    /// What is logged, where and how.
    pub struct Log {
        /// File, or an address such as `udp://host:514`. Below `root_dir` already.
        log_file: String;
        /// Least level on the console.
        log_level: String;
        /// Least level in the file; the level of the console when unset.
        log_level_logfile: Option<String>;
        /// Form of the time on the console.
        log_datefmt: String;
        /// Form of the time in the file.
        log_datefmt_logfile: String;
        /// Form of a line on the console.
        log_fmt_console: String;
        /// Form of a line in the file.
        log_fmt_logfile: String;
        /// Form of a job id within a line.
        log_fmt_jid: Option<String>;
        /// Form of a minion id within a line.
        log_fmt_minion_id: Option<String>;
        /// Levels by logger name.
        log_granular_levels: Map;
        /// Size at which the file is put aside, in bytes; 0 for never.
        log_rotate_max_bytes: u64;
        /// How many files put aside are kept.
        log_rotate_backup_count: u32;
        /// Log file of `salt-key`.
        key_logfile: Option<String>;
    }

    /// Keepalive of TCP connections; -1 leaves the system's value.
    pub struct Keepalive {
        /// Whether it is on.
        tcp_keepalive: bool;
        /// Seconds of silence before the first probe.
        tcp_keepalive_idle: i64;
        /// Probes before the connection is given up.
        tcp_keepalive_cnt: i64;
        /// Seconds between probes.
        tcp_keepalive_intvl: i64;
    }

    /// How results of states are printed.
    pub struct Output {
        /// Whether unchanged states are shown.
        state_verbose: bool;
        /// `full`, `terse`, `mixed`, `changes`, `filter`, with `_id` or without.
        state_output: String;
        /// Whether only states with changes are shown.
        state_output_diff: bool;
        /// Whether duration and start time are shown.
        state_output_profile: bool;
        /// Whether percentages are shown.
        state_output_pct: bool;
        /// Whether states of one id are shown as one.
        state_compress_ids: bool;
    }

    /// What of files is served or used locally.
    pub struct FileSettings {
        /// Backends in order, `gitfs` rather than `git`.
        fileserver_backend: Vec<String>;
        /// Environments and their directories; patterns are expanded.
        file_roots: Roots;
        /// Whether links are followed.
        fileserver_followsymlinks: bool;
        /// Whether links are hidden.
        fileserver_ignoresymlinks: bool;
        /// Expressions of paths that are never served; all of them compile.
        file_ignore_regex: Vec<String>;
        /// Patterns of paths that are never served.
        file_ignore_glob: Vec<String>;
        /// Bytes per chunk of a file.
        file_buffer_size: usize;
        /// Largest file a minion may push, in MiB.
        file_recv_max_size: u64;
        /// Whether minions may push files.
        file_recv: bool;
        /// Seconds a list of files may be kept; 0 for not at all.
        fileserver_list_cache_time: u64, or 20;
        /// Name of the top file.
        state_top: String;
        /// The only environment whose top file is read.
        state_top_saltenv: Option<String>;
        /// `merge`, `same` or `merge_all`.
        top_file_merging_strategy: String;
        /// The environment whose top file counts under `same`.
        default_top: String;
        /// Order in which environments are merged.
        env_order: Vec<String>;
        /// The environment used when none is named.
        saltenv: Option<String>;
        /// Digest of files: `sha256`, `md5`…
        hash_type: String;
    }

    /// How pillar is made.
    pub struct PillarSettings {
        /// Environments and their directories.
        pillar_roots: Roots;
        /// External sources in order, each a map of one name to its arguments.
        ext_pillar: Vec<Value>;
        /// Whether external sources come before the files, so that files win.
        ext_pillar_first: bool;
        /// Sources minions may ask for by themselves.
        on_demand_ext_pillar: Vec<String>;
        /// Whether the options of the master are added to every pillar.
        pillar_opts: bool;
        /// Whether minions are spared the details of errors.
        pillar_safe_render_error: bool;
        /// `smart`, `recurse`, `aggregate`, `overwrite` or `none`.
        pillar_source_merging_strategy: String;
        /// Whether lists are joined when merging.
        pillar_merge_lists: bool;
        /// Whether an included file wins over the one that includes it.
        pillar_includes_override_sls: bool;
        /// The environment used when none is named.
        pillarenv: Option<String>;
        /// Whether the environment of states is used for pillar too.
        pillarenv_from_saltenv: bool;
        /// Whether finished pillar is kept.
        pillar_cache: bool;
        /// Seconds it is kept.
        pillar_cache_ttl: u64;
    }
}
