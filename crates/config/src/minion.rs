//! The settings of a minion.

use std::path::PathBuf;
use std::time::Duration;

use value::{Map, Value};

use crate::bus_ports::BusPorts;
use crate::common::{FileSettings, IpcMode, Keepalive, Log, Output, PillarSettings, Tls, Transport};
use crate::error::Error;
use crate::host::Host;
use crate::machine::Machine;
use crate::masters::{MasterAddress, MasterType, UriFormat, parse_masters};
use crate::opts::{Opts, options};
use crate::origin::Origins;
use crate::{LoadOptions, Role, Source, effects, finish, prepare, read};

/// The settings of a minion. They never change.
#[derive(Clone, Debug)]
pub struct Minion {
    /// The id of the minion.
    pub id: String,
    /// The user it runs as.
    pub user: String,
    /// The directory of the main file.
    pub config_dir: PathBuf,
    /// Its masters in order; empty if a function names them, or with `master_type: disable`.
    pub masters: Vec<MasterAddress>,
    /// The settings for using and finding them.
    pub links: LinkSettings,
    /// Its paths.
    pub paths: MinionPaths,
    /// The settings for connections.
    pub network: MinionNetwork,
    /// Keepalive of its connections.
    pub keepalive: Keepalive,
    /// Keys and trust in masters.
    pub trust: Trust,
    /// Sign-in, waiting, retries.
    pub login: Login,
    /// Jobs and processes.
    pub jobs: MinionJobs,
    /// Grains.
    pub grains: GrainSettings,
    /// Options of files that it uses or serves to itself.
    pub files: FileSettings,
    /// Options of pillar that it compiles itself.
    pub pillar: PillarSettings,
    /// The settings with which `salt-call` shows states.
    pub output: Output,
    /// Its log.
    pub log: Log,
    /// All options, as `config.get` and `test.get_opts` show them.
    pub raw: Map,
    /// Where options were set that differ from the defaults.
    pub origins: Origins,
    /// Messages for the log, which is not open yet.
    pub warnings: Vec<String>,
}

impl Minion {
    /// Reads the files.
    pub fn load(source: &Source, load: &LoadOptions) -> Result<Self, Error> {
        Self::build(read::read_all(Role::Minion, &source.path)?, source, load, &Host)
    }

    /// Creates settings from options without files, for tests and tools.
    pub fn from_options(options: Map) -> Result<Self, Error> {
        let opts = Opts { map: options, ..Opts::default() };
        Self::build(opts, &Source::default_for(Role::Minion), &LoadOptions::default(), &Host)
    }

    /// Fails if a file sets an option that restricts who may do what and cannot be enforced.
    ///
    /// # Errors
    /// The message names file, line and option.
    pub fn refuse_unsupported(&self) -> Result<(), Error> {
        effects::refuse(Role::Minion, &self.raw, &self.origins)
    }

    /// Returns a line for each option in the files that has no effect.
    pub fn ineffective(&self) -> Vec<String> {
        effects::ineffective(Role::Minion, &self.raw, &self.origins)
    }

    pub(crate) fn build(opts: Opts, source: &Source, load: &LoadOptions, machine: &dyn Machine) -> Result<Self, Error> {
        let mut opts = prepare::minion(opts, load, machine)?;
        finish(&mut opts, source, load)?;
        let links = LinkSettings::read(&opts)?;
        Ok(Minion {
            id: opts.read("id")?,
            user: opts.read("user")?,
            config_dir: source.directory(),
            masters: masters(&opts, &links)?,
            links,
            paths: MinionPaths::read(&opts)?,
            network: MinionNetwork::read(&opts)?,
            keepalive: Keepalive::read(&opts)?,
            trust: Trust::read(&opts)?,
            login: Login::read(&opts)?,
            jobs: MinionJobs::read(&opts)?,
            grains: GrainSettings::read(&opts)?,
            files: FileSettings::read(&opts)?,
            pillar: PillarSettings::read(&opts)?,
            output: Output::read(&opts)?,
            log: Log::read(&opts)?,
            raw: opts.map,
            origins: opts.origins,
            warnings: opts.warnings,
        })
    }

    /// Returns whether files and pillar come from this machine alone.
    pub fn is_local(&self) -> bool {
        self.jobs.file_client == "local"
    }
}

fn masters(opts: &Opts, links: &LinkSettings) -> Result<Vec<MasterAddress>, Error> {
    if matches!(links.master_type, MasterType::Func | MasterType::Disable) {
        // The option then names a Python function, or nothing, and must not be parsed as an address.
        return Ok(Vec::new());
    }
    let port = links.master_port;
    parse_masters(&links.master, links.master_uri_format, port).map_err(|must| match must.rsplit_once(", not ") {
        // The error shows the value of the option: an entry of a list must be named, but not a single text again.
        Some((must, _)) if links.master.as_str().is_some() => opts.wrong("master", must),
        _ => opts.wrong("master", must),
    })
}

options! {
    /// The settings for using, finding and checking the masters.
    pub struct LinkSettings {
        /// The option as written: a string or a list, or a function name with `master_type: func`.
        master: Value;
        /// The value of `master_type`.
        master_type: MasterType;
        /// How the addresses are parsed.
        master_uri_format: UriFormat;
        /// The request port of an entry without one.
        master_port: u16;
        /// The publish port of all masters, instead of the one each announces.
        publish_port: Option<u16>;
        /// The interval of checks that a master answers; zero for none.
        master_alive_interval: Duration;
        /// The heartbeat interval of each connection to a master; three missed ones end it. Not an option of Salt.
        master_heartbeat: Duration;
        /// Shuffle the list.
        random_master: bool;
        /// Its old name.
        master_shuffle: bool;
        /// Return to the first master.
        master_failback: bool;
        /// The interval of attempts to return; zero for that of the checks.
        master_failback_interval: Duration;
        /// How long the first master must have answered before the minion returns to it. Not an option of Salt.
        master_failback_healthy: Duration;
        /// The number of rounds over the list before giving up; -1 for ever.
        master_tries: i64;
        /// The pause between look-ups of a name that does not resolve; zero to give up at once.
        retry_dns: Duration;
        /// The number of such look-ups; unlimited if unset.
        retry_dns_count: Option<u32>;
        /// Follow a master although files are local.
        use_master_when_local: bool;
    }

    /// The paths of a minion, already below `root_dir`.
    pub struct MinionPaths {
        /// The main file.
        conf_file: PathBuf;
        /// The key directory.
        pki_dir: PathBuf;
        /// The cache directory: files, jobs, synced plug-ins.
        cachedir: PathBuf;
        /// The directory of local sockets.
        sock_dir: PathBuf;
        /// The pid file.
        pidfile: PathBuf;
        /// The directory of synced Python plug-ins.
        extension_modules: PathBuf;
        /// Fix owners and modes at startup.
        verify_env: bool;
        /// True if the group may read the keys.
        permissive_pki_access: bool;
    }

    /// The settings for a minion's connections.
    pub struct MinionNetwork {
        /// The transport.
        transport: Transport;
        /// TLS for the tcp transport.
        tls: Option<Tls> = "ssl";
        /// Use IPv6; by default what resolves.
        ipv6: Option<bool>;
        /// The interface whose address is the source of connections.
        source_interface_name: Option<String>;
        /// The source address of connections.
        source_address: Option<String>;
        /// The local port of the request connection; 0 for any.
        source_ret_port: u16;
        /// The local port of the publish connection; 0 for any.
        source_publish_port: u16;
        /// True if the master does not even send jobs for others.
        zmq_filtering: bool;
        /// The minimum pause before a reconnection, in milliseconds.
        recon_default: u64;
        /// The maximum pause, in milliseconds.
        recon_max: u64;
        /// True if the pause is random between the two.
        recon_randomize: bool;
        /// The pause before a reconnection (tcp).
        tcp_reconnect_backoff: Duration;
        /// Unix sockets or loopback ports for local programs.
        ipc_mode: IpcMode;
        /// Ports on which local programs listen to events, with `ipc_mode: tcp`.
        tcp_pub_port: BusPorts;
        /// Ports to which they send events.
        tcp_pull_port: BusPorts;
        /// The bytes that may wait for one local client; 0 for no limit.
        ipc_write_buffer: u64;
        /// The maximum size of an event in bytes.
        max_event_size: usize;
    }

    /// Keys and trust in masters.
    pub struct Trust {
        /// The required fingerprint of a master's key.
        master_finger: Option<String>;
        /// Verify the signature of a master's key.
        verify_master_pubkey_sign: bool;
        /// The name of the public signing key.
        master_sign_key_name: String;
        /// Verify it at each sign-in.
        always_verify_signature: bool;
        /// Accept only signed jobs.
        sign_pub_messages: bool;
        /// Sign messages.
        minion_sign_messages: bool;
        /// The padding of encryption at sign-in.
        encryption_algorithm: String;
        /// The padding of signatures.
        signing_algorithm: String;
        /// Accept a changed key of a master.
        open_mode: bool;
        /// Grains sent at sign-in, so that the key is accepted.
        autosign_grains: Vec<String>;
        /// The size of a new key in bits.
        keysize: u32;
        /// The digest of fingerprints and files.
        hash_type: String;
    }

    /// Sign-in, waiting, retries.
    pub struct Login {
        /// The pause while our key is pending.
        acceptance_wait_time: Duration;
        /// The longest such pause; zero to keep it constant.
        acceptance_wait_time_max: Duration;
        /// The number of unanswered sign-ins before giving up.
        auth_tries: u32;
        /// The timeout of a sign-in.
        auth_timeout: Duration;
        /// True if a rejected minion keeps trying.
        rejected_retry: bool;
        /// The longest random pause before a repeated sign-in.
        random_reauth_delay: Duration;
        /// The longest random pause at startup.
        random_startup_delay: Duration;
        /// The interval of pings to the master in minutes; 0 for none.
        ping_interval: u64;
        /// The timeout of a request.
        request_channel_timeout: Duration;
        /// The number of attempts to send a request.
        request_channel_tries: u32;
        /// The minimum pause before a return is sent again.
        return_retry_timer: Duration;
        /// The longest such pause.
        return_retry_timer_max: Duration;
        /// How long an unacknowledged return is kept. Not an option of Salt.
        return_keep: Duration;
        /// The maximum size of these returns in bytes. Not an option of Salt.
        return_keep_size: u64;
        /// How long a return waits for its master before another one gets a copy. Not an option of Salt.
        return_peer_after: Duration;
        /// Send returns at all.
        pub_ret: bool;
        /// Fire the old start event as well.
        enable_legacy_startup_events: bool;
        /// Grains added to the start event.
        start_event_grains: Vec<String>;
    }

    /// Jobs and processes of a minion.
    pub struct MinionJobs {
        /// `remote` or `local`.
        file_client: String;
        /// Store returns on the minion too.
        cache_jobs: bool;
        /// The maximum number of concurrent jobs; -1 for no limit.
        process_count_max: i64;
        /// The number of job ids that are remembered.
        minion_jid_queue_hwm: usize;
        /// True if several functions of a job run in order and return lists.
        multifunc_ordered: bool;
        /// The module to use, of several with one name: `pkg: yumpkg`.
        providers: Map;
        /// Returners used for every job.
        returners: Vec<String> = "return";
        /// Send the mine.
        mine_enabled: bool;
        /// The interval of sending the mine, in minutes.
        mine_interval: u64;
        /// Scheduled jobs.
        schedule: Map;
        /// True if states run in test mode.
        test: bool;
        /// The interval of the main loop in seconds.
        loop_interval: Duration;
        /// The chunk size of a pushed file in bytes.
        salt_cp_chunk_size: usize;
    }

    /// The settings for collecting and caching grains.
    pub struct GrainSettings {
        /// Grains set in the configuration.
        grains: Map;
        /// The interval of checks for changed grains in minutes; 0 for never.
        grains_refresh_every: u64;
    }
}

impl MinionNetwork {
    /// Returns the pairs of ports, for publishing and pulling, of the event bus of a minion with this number of masters.
    ///
    /// # Errors
    /// If a list has another length, a port would be too high, or two are the same.
    pub fn bus_ports(&self, masters: usize) -> Result<Vec<(u16, u16)>, String> {
        BusPorts::pairs(&self.tcp_pub_port, &self.tcp_pull_port, masters)
    }
}
