//! The settings of a minion.

use std::path::PathBuf;
use std::time::Duration;

use value::{Map, Value};

use crate::bus_ports::BusPorts;
use crate::common::{FileSettings, IpcMode, Keepalive, Log, Output, PillarSettings, Tls, Transport};
use crate::error::Error;
use crate::host::Host;
use crate::id::Machine;
use crate::masters::{MasterAddress, MasterType, UriFormat, parse_masters};
use crate::opts::{Opts, Origins, options};
use crate::{LoadOptions, Role, Source, effects, finish, prepare, read};

/// All settings of a minion, read once and then never changed.
#[derive(Clone, Debug)]
pub struct Minion {
    /// The name of the minion.
    pub id: String,
    /// The user it runs as.
    pub user: String,
    /// The directory of the main file.
    pub config_dir: PathBuf,
    /// Its masters, in order; empty when a function names them, or with `master_type: disable`.
    pub masters: Vec<MasterAddress>,
    /// How they are used and found.
    pub links: LinkSettings,
    /// Where things lie.
    pub paths: MinionPaths,
    /// How it connects.
    pub network: MinionNetwork,
    /// Keepalive of its connections.
    pub keepalive: Keepalive,
    /// Keys and whom it trusts.
    pub trust: Trust,
    /// Sign-in, waiting, trying again.
    pub login: Login,
    /// Jobs and processes.
    pub jobs: MinionJobs,
    /// Grains.
    pub grains: GrainSettings,
    /// Files it uses or serves to itself.
    pub files: FileSettings,
    /// Pillar it makes for itself.
    pub pillar: PillarSettings,
    /// How `salt-call` prints states.
    pub output: Output,
    /// Its log.
    pub log: Log,
    /// All options, as `config.get` and `test.get_opts` show them.
    pub raw: Map,
    /// Where the options that are no defaults were set.
    pub origins: Origins,
    /// What is to be said once the log is open.
    pub warnings: Vec<String>,
}

impl Minion {
    /// Reads the files and makes the settings.
    pub fn load(source: &Source, load: &LoadOptions) -> Result<Self, Error> {
        Self::build(read::read_all(Role::Minion, &source.path)?, source, load, &Host)
    }

    /// Makes settings from options, without files: for tests and tools.
    pub fn from_options(options: Map) -> Result<Self, Error> {
        let opts = Opts { map: options, ..Opts::default() };
        Self::build(opts, &Source::default_for(Role::Minion), &LoadOptions::default(), &Host)
    }

    /// Refuses to go on when a file sets an option that limits who may do what and that is not supported.
    ///
    /// # Errors
    /// When one does; the text names file, line and option.
    pub fn refuse_unsupported(&self) -> Result<(), Error> {
        effects::refuse(Role::Minion, &self.raw, &self.origins)
    }

    /// Says which options in the files have no effect, one line each.
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

    /// Says whether files and pillar come from this machine alone.
    pub fn is_local(&self) -> bool {
        self.jobs.file_client == "local"
    }
}

fn masters(opts: &Opts, links: &LinkSettings) -> Result<Vec<MasterAddress>, Error> {
    if matches!(links.master_type, MasterType::Func | MasterType::Disable) {
        return Ok(Vec::new());
    }
    let port = links.master_port;
    parse_masters(&links.master, links.master_uri_format, port).map_err(|must| opts.wrong("master", must))
}

options! {
    /// How masters are used, found and watched.
    pub struct LinkSettings {
        /// The option as it was written: text or list; the name of a function with `master_type: func`.
        master: Value;
        /// All at once, one after the other…
        master_type: MasterType;
        /// How the texts are read.
        master_uri_format: UriFormat;
        /// Request port of an entry that names none.
        master_port: u16;
        /// Publish port of all masters, instead of what each says at sign-in.
        publish_port: Option<u16>;
        /// Time between checks that a master answers; zero for none.
        master_alive_interval: Duration;
        /// Time between signs of life on each connection to a master; three missing ones end it. Not an option of Salt.
        master_heartbeat: Duration;
        /// Whether the list is shuffled.
        random_master: bool;
        /// Old name of it.
        master_shuffle: bool;
        /// Whether the first master is gone back to.
        master_failback: bool;
        /// Time between tries to; zero for that of the checks.
        master_failback_interval: Duration;
        /// How long the first master must have answered before it is gone back to. Not an option of Salt.
        master_failback_healthy: Duration;
        /// Passes over the list before giving up; -1 for ever.
        master_tries: i64;
        /// Time between tries when a name does not resolve; zero to give up at once.
        retry_dns: Duration;
        /// How many such tries; unset for ever.
        retry_dns_count: Option<u32>;
        /// Whether a master is followed though files are local.
        use_master_when_local: bool;
    }

    /// Where things of a minion lie; below `root_dir` already.
    pub struct MinionPaths {
        /// Path of the main file.
        conf_file: PathBuf;
        /// Keys.
        pki_dir: PathBuf;
        /// Files, jobs, synced plug-ins.
        cachedir: PathBuf;
        /// Local sockets.
        sock_dir: PathBuf;
        /// File with the process id.
        pidfile: PathBuf;
        /// Synced Python plug-ins.
        extension_modules: PathBuf;
        /// Whether owners and modes are put right at the start.
        verify_env: bool;
        /// Whether the group may read the keys.
        permissive_pki_access: bool;
    }

    /// How a minion connects.
    pub struct MinionNetwork {
        /// How bytes travel.
        transport: Transport;
        /// TLS for the tcp transport.
        tls: Option<Tls> = "ssl";
        /// IPv6 wanted or not; unset to take what resolves.
        ipv6: Option<bool>;
        /// Interface whose address connections come from.
        source_interface_name: Option<String>;
        /// Address connections come from.
        source_address: Option<String>;
        /// Local port of the request connection; 0 for any.
        source_ret_port: u16;
        /// Local port of the publish connection; 0 for any.
        source_publish_port: u16;
        /// Whether jobs for others are not even sent to us.
        zmq_filtering: bool;
        /// Least pause before a connection is made again, in milliseconds.
        recon_default: u64;
        /// Longest pause, in milliseconds.
        recon_max: u64;
        /// Whether the pause is random between the two.
        recon_randomize: bool;
        /// Pause before a connection is made again (tcp).
        tcp_reconnect_backoff: Duration;
        /// Local sockets as unix sockets or as ports.
        ipc_mode: IpcMode;
        /// Ports on which local programs listen to events, with `ipc_mode: tcp`.
        tcp_pub_port: BusPorts;
        /// Ports to which they send events.
        tcp_pull_port: BusPorts;
        /// Bytes that may wait for one local client; 0 for no limit.
        ipc_write_buffer: u64;
        /// Largest event, in bytes.
        max_event_size: usize;
    }

    /// Keys and whom a minion trusts.
    pub struct Trust {
        /// Fingerprint the key of a master must have.
        master_finger: Option<String>;
        /// Whether the signature of the key of a master is checked.
        verify_master_pubkey_sign: bool;
        /// Name of the public half of the signing key.
        master_sign_key_name: String;
        /// Whether it is checked at each sign-in.
        always_verify_signature: bool;
        /// Whether only signed jobs are taken.
        sign_pub_messages: bool;
        /// Whether we sign what we send.
        minion_sign_messages: bool;
        /// Padding of encryption at sign-in.
        encryption_algorithm: String;
        /// Padding of signatures.
        signing_algorithm: String;
        /// Whether a changed key of a master is taken.
        open_mode: bool;
        /// Grains sent at sign-in, so that the key is accepted.
        autosign_grains: Vec<String>;
        /// Bits of a new key.
        keysize: u32;
        /// Digest of fingerprints and files.
        hash_type: String;
    }

    /// Sign-in, waiting, trying again.
    pub struct Login {
        /// Pause while our key is pending.
        acceptance_wait_time: Duration;
        /// Longest such pause; zero to keep it as it is.
        acceptance_wait_time_max: Duration;
        /// Sign-ins without an answer before giving up.
        auth_tries: u32;
        /// How long an answer is waited for.
        auth_timeout: Duration;
        /// Whether a rejected minion keeps trying.
        rejected_retry: bool;
        /// Longest random pause before a new sign-in.
        random_reauth_delay: Duration;
        /// Longest random pause at the start.
        random_startup_delay: Duration;
        /// Minutes between pings to the master; 0 for none.
        ping_interval: u64;
        /// How long the answer to a request is waited for.
        request_channel_timeout: Duration;
        /// How often it is sent.
        request_channel_tries: u32;
        /// Least pause before a return is sent again.
        return_retry_timer: Duration;
        /// Longest such pause.
        return_retry_timer_max: Duration;
        /// How long a return that no master has acknowledged is kept. Not an option of Salt.
        return_keep: Duration;
        /// Most bytes of such returns. Not an option of Salt.
        return_keep_size: u64;
        /// How long a return waits for its master before another one gets a copy. Not an option of Salt.
        return_peer_after: Duration;
        /// Whether results are sent at all.
        pub_ret: bool;
        /// Whether the old start event is fired as well.
        enable_legacy_startup_events: bool;
        /// Grains added to the start event.
        start_event_grains: Vec<String>;
    }

    /// Jobs and processes of a minion.
    pub struct MinionJobs {
        /// `remote` or `local`.
        file_client: String;
        /// Whether results are kept on the minion too.
        cache_jobs: bool;
        /// Most jobs at once; -1 for no limit.
        process_count_max: i64;
        /// How many job ids are remembered.
        minion_jid_queue_hwm: usize;
        /// Whether several functions of a job run in order and give lists.
        multifunc_ordered: bool;
        /// Which of several modules with one name is taken: `pkg: yumpkg`.
        providers: Map;
        /// Returners used for every job.
        returners: Vec<String> = "return";
        /// Whether the mine is sent.
        mine_enabled: bool;
        /// Minutes between that.
        mine_interval: u64;
        /// Scheduled jobs.
        schedule: Map;
        /// Whether states are only tried.
        test: bool;
        /// Seconds between passes of the main loop.
        loop_interval: Duration;
        /// Bytes per piece of a pushed file.
        salt_cp_chunk_size: usize;
    }

    /// How grains are found and kept.
    pub struct GrainSettings {
        /// Grains set in the configuration.
        grains: Map;
        /// Minutes between looking for changes; 0 for never.
        grains_refresh_every: u64;
    }
}
