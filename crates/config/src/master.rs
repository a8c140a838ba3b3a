//! The settings of a master.

use std::path::PathBuf;
use std::time::Duration;

use value::{Map, Value};

use crate::cluster::{self, Cluster};
use crate::common::{FileSettings, IpcMode, Keepalive, Log, Output, PillarSettings, Tls, Transport};
use crate::error::Error;
use crate::host::Host;
use crate::machine::Machine;
use crate::opts::{Opts, options};
use crate::origin::Origins;
use crate::{LoadOptions, Role, Source, effects, finish, prepare, read};

/// The settings of a master. They never change.
#[derive(Clone, Debug)]
pub struct Master {
    /// The id of the master.
    pub id: String,
    /// The user it runs as.
    pub user: String,
    /// The directory of the main file.
    pub config_dir: PathBuf,
    /// Its directories.
    pub paths: MasterPaths,
    /// Where and how it listens.
    pub network: MasterNetwork,
    /// Keepalive of its connections.
    pub keepalive: Keepalive,
    /// Keys, signatures, sessions.
    pub keys: MasterKeys,
    /// The set of masters that it shares with, if it shares.
    pub cluster: Option<Cluster>,
    /// Access control.
    pub access: Access,
    /// Files it serves.
    pub files: FileSettings,
    /// Options of the pillars it compiles.
    pub pillar: PillarSettings,
    /// Options of its job cache and data caches.
    pub jobs: JobSettings,
    /// Options of events.
    pub events: EventSettings,
    /// Options of command-line programs on its host.
    pub client: ClientSettings,
    /// The settings for showing states.
    pub output: Output,
    /// Its log.
    pub log: Log,
    /// Names of groups of minions: an expression, or a list of words.
    pub nodegroups: Map,
    /// All options, as `config.get` and `test.get_opts` show them. Secrets of the set are hidden.
    pub raw: Map,
    /// Where options were set that differ from the defaults.
    pub origins: Origins,
    /// Messages for the log, which is not open yet.
    pub warnings: Vec<String>,
}

impl Master {
    /// Reads the files.
    pub fn load(source: &Source, load: &LoadOptions) -> Result<Self, Error> {
        Self::build(read::read_all(Role::Master, &source.path)?, source, load, &Host)
    }

    /// Creates settings from options without files, for tests and tools.
    pub fn from_options(options: Map) -> Result<Self, Error> {
        let opts = Opts { map: options, ..Opts::default() };
        Self::build(opts, &Source::default_for(Role::Master), &LoadOptions::default(), &Host)
    }

    /// Fails if a file sets an option that restricts who may do what and cannot be enforced.
    ///
    /// # Errors
    /// The message names file, line and option.
    pub fn refuse_unsupported(&self) -> Result<(), Error> {
        effects::refuse(Role::Master, &self.raw, &self.origins)
    }

    /// Returns a line for each option in the files that has no effect, for the log of the master alone: programs that ask it
    /// something need none of them.
    pub fn ineffective(&self) -> Vec<String> {
        let mut lines = effects::ineffective(Role::Master, &self.raw, &self.origins);
        lines.extend(cluster::readable_secrets(&self.raw, &self.origins));
        lines.extend(self.waits_for_others());
        lines.extend(self.undecided());
        lines
    }

    /// This is how the first member of a set starts, and a second one that forgot its peers.
    fn waits_for_others(&self) -> Option<String> {
        self.cluster
            .as_ref()
            .filter(|cluster| cluster.peers.is_empty() && cluster.secret.is_none() && cluster.bus.is_none())?;
        let place = self.origins.get("cluster_id").map(|origin| format!("{origin}: ")).unwrap_or_default();
        Some(format!(
            "config: {place}option 'cluster_id' is set without 'cluster_peers' and 'cluster_secret': this master waits for \
             other masters to connect to it"
        ))
    }

    /// Returns a line for each option by which other masters decide about keys when minions sign in.
    fn undecided(&self) -> Vec<String> {
        const DECIDE: [&str; 5] =
            ["auto_accept", "autoreject_file", "autosign_file", "autosign_grains_dir", "open_mode"];
        let is_reader = self.cluster.as_ref().is_some_and(|cluster| cluster.refuses_key_decisions().is_some());
        let set = DECIDE.into_iter().filter(|name| is_reader && self.raw.get(name).is_some_and(Value::truthy));
        let line = |name: &str| {
            let place = self.origins.get(name).map(|origin| format!("{origin}: ")).unwrap_or_default();
            format!(
                "config: {place}option '{name}' has no effect on a reader ('cluster_role'), which decides about no key"
            )
        };
        set.map(line).collect()
    }

    pub(crate) fn build(opts: Opts, source: &Source, load: &LoadOptions, machine: &dyn Machine) -> Result<Self, Error> {
        // Flags come after the preparation, so `raw` shows them exactly as they were given.
        let mut opts = prepare::master(opts, load, machine)?;
        finish(&mut opts, source, load)?;
        let cluster = Cluster::read(&opts)?;
        cluster::hide_secrets(&mut opts);
        cluster::close_to_minions(&mut opts, cluster.as_ref());
        Ok(Master {
            id: opts.read("id")?,
            user: opts.read("user")?,
            config_dir: source.directory(),
            paths: MasterPaths::read(&opts)?,
            network: MasterNetwork::read(&opts)?,
            keepalive: Keepalive::read(&opts)?,
            keys: MasterKeys::read(&opts)?,
            cluster,
            access: Access::read(&opts)?,
            files: FileSettings::read(&opts)?,
            pillar: PillarSettings::read(&opts)?,
            jobs: JobSettings::read(&opts)?,
            events: EventSettings::read(&opts)?,
            client: ClientSettings::read(&opts)?,
            output: Output::read(&opts)?,
            log: Log::read(&opts)?,
            nodegroups: opts.read("nodegroups")?,
            raw: opts.map,
            origins: opts.origins,
            warnings: opts.warnings,
        })
    }
}

options! {
    /// The paths of a master, already below `root_dir`.
    pub struct MasterPaths {
        /// The main file.
        conf_file: PathBuf;
        /// The key directory.
        pki_dir: PathBuf;
        /// The cache directory: jobs, data of minions, tokens.
        cachedir: PathBuf;
        /// The directory of local sockets.
        sock_dir: PathBuf;
        /// The pid file.
        pidfile: PathBuf;
        /// The directory of login tokens.
        token_dir: PathBuf;
        /// The directory of syndic data.
        syndic_dir: PathBuf;
        /// The directory of synced Python plug-ins.
        extension_modules: PathBuf;
        /// The file with names of minions whose keys are accepted.
        autosign_file: Option<PathBuf>;
        /// The file with names of minions whose keys are rejected.
        autoreject_file: Option<PathBuf>;
        /// The directory of grain values that admit a minion.
        autosign_grains_dir: Option<PathBuf>;
        /// Fix owners and modes at startup.
        verify_env: bool;
        /// True if the group may read the keys.
        permissive_pki_access: bool;
    }

    /// Where and how a master listens.
    pub struct MasterNetwork {
        /// The address to bind.
        interface: String;
        /// Use IPv6; by default the address decides.
        ipv6: Option<bool>;
        /// The publish port.
        publish_port: u16;
        /// The request port: sign-ins, requests and returns.
        ret_port: u16;
        /// The transport.
        transport: Transport;
        /// TLS for the tcp transport.
        tls: Option<Tls> = "ssl";
        /// The number of connections that may wait to be accepted.
        zmq_backlog: u32;
        /// The number of publications that may wait for one subscriber.
        pub_hwm: usize;
        /// True if a job is sent only to its targets.
        zmq_filtering: bool;
        /// Unix sockets or loopback ports for local programs.
        ipc_mode: IpcMode;
        /// The port of the event publisher, with `ipc_mode: tcp`.
        tcp_master_pub_port: u16;
        /// The port of the event receiver.
        tcp_master_pull_port: u16;
        /// The bytes that may wait for one local client; 0 for no limit.
        ipc_write_buffer: u64;
        /// The maximum size of an event in bytes.
        max_event_size: usize;
        /// The requested limit of open files.
        max_open_files: u64;
        /// The number of concurrent requests (processes in Salt).
        worker_threads: usize;
    }

    /// Keys, signatures and sessions of a master.
    pub struct MasterKeys {
        /// True if every key is accepted and replaced, which is no protection at all.
        open_mode: bool;
        /// True if every new key is accepted.
        auto_accept: bool;
        /// The number of minutes for which a file in the autosign directory is valid.
        autosign_timeout: u64, or 120;
        /// The size of a new key in bits.
        keysize: u32;
        /// The passphrase of the private key.
        key_pass: Option<String>;
        /// True if sign-in replies contain a signature of the master's public key.
        master_sign_pubkey: bool;
        /// The name of the signing key pair.
        master_sign_key_name: String;
        /// The passphrase of the signing key.
        signing_key_pass: Option<String>;
        /// Send an existing signature.
        master_use_pubkey_signature: bool;
        /// The name of the signature file.
        master_pubkey_signature: Option<String>;
        /// Rotate the AES key when a minion's key is deleted.
        rotate_aes_key: bool;
        /// The lifetime of the AES key.
        publish_session: Duration;
        /// Ping all minions after a rotation.
        ping_on_rotate: bool;
        /// Keep the data of deleted keys.
        preserve_minion_cache: bool;
        /// True if a minion may revoke its own key.
        allow_minion_key_revoke: bool;
        /// The maximum number of accepted keys; 0 for no limit.
        max_minions: usize;
        /// The maximum number of pending keys; 0 for no limit.
        max_pending_keys: usize;
        /// The maximum of pending keys from one address; 0 for no limit.
        max_pending_keys_per_address: usize;
        /// The minimum size of a minion's new key in bits.
        minimum_key_bits: u32;
        /// The oldest accepted protocol version of a sign-in.
        minimum_auth_version: i64;
        /// The age at which requests are dropped; zero for never.
        request_server_ttl: Duration;
        /// True if publications are signed.
        sign_pub_messages: bool;
        /// The signature algorithm.
        publish_signing_algorithm: String;
        /// Accept only signed messages of minions.
        require_minion_sign_messages: bool;
        /// Drop a message with a wrong signature.
        drop_messages_signature_fail: bool;
        /// The digest of fingerprints and job directories.
        hash_type: String;
    }

    /// The permissions of users and minions.
    pub struct Access {
        /// Permissions of users of external authentication.
        external_auth: Map;
        /// Store permissions in the token.
        keep_acl_in_token: bool;
        /// The lifetime of a token.
        token_expire: Duration;
        /// Who may ask for another lifetime: true for everybody, or a map of lists of users by backend.
        token_expire_user_override: Value;
        /// Functions that local users may call.
        publisher_acl: Map;
        /// Users and functions that are never allowed.
        publisher_acl_blacklist: Map;
        /// Look these users up at startup.
        client_acl_verify: bool;
        /// True if the rules apply to users who came through sudo.
        sudo_acl: bool;
        /// Add rules for everybody to more specific ones.
        permissive_acl: bool;
        /// The functions that minions may publish.
        peer: Map;
        /// The runners that minions may call.
        peer_run: Map;
    }

    /// Options of a master's job cache and data caches.
    pub struct JobSettings {
        /// The driver of the minion data cache.
        cache: String;
        /// Cache grains, pillar and mine of minions.
        minion_data_cache: bool;
        /// Fire an event when these change.
        minion_data_cache_events: bool;
        /// Keep the mine anyway.
        enforce_mine_cache: bool;
        /// Keep jobs.
        job_cache: bool;
        /// The time for which they are kept.
        keep_jobs_seconds: Duration;
        /// The job cache.
        master_job_cache: String;
        /// A job cache that minions write to.
        ext_job_cache: String;
        /// Store the end of a job.
        job_cache_store_endtime: bool;
        /// True if job ids contain the process id.
        unique_jid: bool;
        /// Store results of runners.
        runner_returns: bool;
        /// The interval of maintenance in seconds.
        loop_interval: Duration;
        /// Scheduled jobs.
        schedule: Map;
        /// True if minions may be syndics.
        order_masters: bool;
        /// How long after its publication a job is still delivered to a minion that reconnects. Not an option of Salt.
        job_grace: Duration;
        /// The maximum size of a return in bytes, 0 for no limit. Not an option of Salt.
        return_max_size: u64;
        /// The maximum size of a minion's grains, and of its mine, in bytes. Not an option of Salt.
        minion_data_max_size: u64;
        /// The maximum number of environments for which the pillar of a minion is kept, 0 for no limit. Not an option of Salt.
        max_pillar_environments: usize;
        /// The maximum bytes of unpublished jobs that a minion may store per hour. Not an option of Salt.
        own_jobs_max_size: u64;
    }

    /// Events a master fires and keeps.
    pub struct EventSettings {
        /// Returners that store all events.
        event_return: Vec<String>;
        /// Tags to store.
        event_return_whitelist: Vec<String>;
        /// Tags not to store.
        event_return_blacklist: Vec<String>;
        /// The number of events that are stored at once.
        event_return_queue: usize;
        /// Fire presence events.
        presence_events: bool;
        /// Fire an event for each sign-in.
        auth_events: bool;
    }

    /// Options of command-line programs on the host of a master.
    pub struct ClientSettings {
        /// How long to wait for returns.
        timeout: Duration;
        /// How long to wait for answers to `find_job`.
        gather_job_timeout: Duration;
        /// How long the master may take to accept a job.
        publish_timeout: Duration;
        /// The chunk size of `salt-cp` in bytes.
        salt_cp_chunk_size: usize;
        /// How long a syndic may take to name its minions.
        syndic_wait: Duration;
    }
}
