//! The settings of a master.

use std::path::PathBuf;
use std::time::Duration;

use value::Map;

use crate::common::{FileSettings, IpcMode, Keepalive, Log, Output, PillarSettings, Tls, Transport};
use crate::error::Error;
use crate::host::Host;
use crate::id::Machine;
use crate::opts::{Opts, Origins, options};
use crate::{LoadOptions, Role, Source, effects, finish, prepare, read};

/// All settings of a master, read once and then never changed.
#[derive(Clone, Debug)]
pub struct Master {
    /// The name of the master.
    pub id: String,
    /// The user it runs as.
    pub user: String,
    /// The directory of the main file.
    pub config_dir: PathBuf,
    /// Where things lie.
    pub paths: MasterPaths,
    /// Where and how it listens.
    pub network: MasterNetwork,
    /// Keepalive of its connections.
    pub keepalive: Keepalive,
    /// Keys, signatures, sessions.
    pub keys: MasterKeys,
    /// Who may do what.
    pub access: Access,
    /// Files it serves.
    pub files: FileSettings,
    /// Pillar it makes.
    pub pillar: PillarSettings,
    /// Jobs and data it keeps.
    pub jobs: JobSettings,
    /// Events it fires and keeps.
    pub events: EventSettings,
    /// Command line programs on its host.
    pub client: ClientSettings,
    /// How they print states.
    pub output: Output,
    /// Its log.
    pub log: Log,
    /// Names of groups of minions: an expression, or a list of words.
    pub nodegroups: Map,
    /// All options, as `config.get` and `test.get_opts` show them.
    pub raw: Map,
    /// Where the options that are no defaults were set.
    pub origins: Origins,
    /// What is to be said once the log is open.
    pub warnings: Vec<String>,
}

impl Master {
    /// Reads the files and makes the settings.
    pub fn load(source: &Source, load: &LoadOptions) -> Result<Self, Error> {
        Self::build(read::read_all(Role::Master, &source.path)?, source, load, &Host)
    }

    /// Makes settings from options, without files: for tests and tools.
    pub fn from_options(options: Map) -> Result<Self, Error> {
        let opts = Opts { map: options, ..Opts::default() };
        Self::build(opts, &Source::default_for(Role::Master), &LoadOptions::default(), &Host)
    }

    /// Returns the address at which programs on this host reach the master: its own, or the loopback address when it
    /// listens on all.
    pub fn client_address(&self) -> &str {
        match self.network.interface.as_str() {
            "0.0.0.0" | "" => "127.0.0.1",
            "::" | "[::]" => "::1",
            other => other,
        }
    }

    /// Refuses to go on when a file sets an option that limits who may do what and that is not supported.
    ///
    /// # Errors
    /// When one does; the text names file, line and option.
    pub fn refuse_unsupported(&self) -> Result<(), Error> {
        effects::refuse(Role::Master, &self.raw, &self.origins)
    }

    /// Says which options in the files have no effect, one line each.
    pub fn ineffective(&self) -> Vec<String> {
        effects::ineffective(Role::Master, &self.raw, &self.origins)
    }

    pub(crate) fn build(opts: Opts, source: &Source, load: &LoadOptions, machine: &dyn Machine) -> Result<Self, Error> {
        let mut opts = prepare::master(opts, load, machine)?;
        finish(&mut opts, source, load)?;
        Ok(Master {
            id: opts.read("id")?,
            user: opts.read("user")?,
            config_dir: source.directory(),
            paths: MasterPaths::read(&opts)?,
            network: MasterNetwork::read(&opts)?,
            keepalive: Keepalive::read(&opts)?,
            keys: MasterKeys::read(&opts)?,
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
    /// Where things of a master lie; below `root_dir` already.
    pub struct MasterPaths {
        /// Path of the main file.
        conf_file: PathBuf;
        /// Keys.
        pki_dir: PathBuf;
        /// Jobs, data of minions, tokens.
        cachedir: PathBuf;
        /// Local sockets.
        sock_dir: PathBuf;
        /// File with the process id.
        pidfile: PathBuf;
        /// Login tokens.
        token_dir: PathBuf;
        /// Data of syndics.
        syndic_dir: PathBuf;
        /// Synced Python plug-ins.
        extension_modules: PathBuf;
        /// Names of minions whose keys are accepted.
        autosign_file: Option<PathBuf>;
        /// Names of minions whose keys are rejected.
        autoreject_file: Option<PathBuf>;
        /// Files of grain values that let a minion in.
        autosign_grains_dir: Option<PathBuf>;
        /// Whether owners and modes are put right at the start.
        verify_env: bool;
        /// Whether the group may read the keys.
        permissive_pki_access: bool;
    }

    /// Where and how a master listens.
    pub struct MasterNetwork {
        /// Address to bind.
        interface: String;
        /// IPv6 wanted or not; unset to go by the address.
        ipv6: Option<bool>;
        /// Port where jobs are published.
        publish_port: u16;
        /// Port of sign-ins, requests and returns.
        ret_port: u16;
        /// How bytes travel.
        transport: Transport;
        /// TLS for the tcp transport.
        tls: Option<Tls> = "ssl";
        /// Connections that may wait to be taken.
        zmq_backlog: u32;
        /// Publications that may wait for one subscriber.
        pub_hwm: usize;
        /// Whether a job is sent only to the minions it is for.
        zmq_filtering: bool;
        /// Local sockets as unix sockets or as ports.
        ipc_mode: IpcMode;
        /// Port of the event publisher when local sockets are ports.
        tcp_master_pub_port: u16;
        /// Port of the event receiver.
        tcp_master_pull_port: u16;
        /// Bytes that may wait for one local client; 0 for no limit.
        ipc_write_buffer: u64;
        /// Largest event, in bytes.
        max_event_size: usize;
        /// Limit of open files to ask for.
        max_open_files: u64;
        /// How many requests are worked on at once, in Salt processes.
        worker_threads: usize;
    }

    /// Keys, signatures and sessions of a master.
    pub struct MasterKeys {
        /// Whether every key is accepted and replaced: no protection at all.
        open_mode: bool;
        /// Whether every new key is accepted.
        auto_accept: bool;
        /// Minutes a file in the autosign directory counts.
        autosign_timeout: u64, or 120;
        /// Bits of a new key.
        keysize: u32;
        /// Passphrase of the private key.
        key_pass: Option<String>;
        /// Whether our public key is signed in sign-in replies.
        master_sign_pubkey: bool;
        /// Name of the signing key pair.
        master_sign_key_name: String;
        /// Passphrase of the signing key.
        signing_key_pass: Option<String>;
        /// Whether a signature made before is sent.
        master_use_pubkey_signature: bool;
        /// Name of the file with it.
        master_pubkey_signature: Option<String>;
        /// Whether the session key changes when a key is deleted.
        rotate_aes_key: bool;
        /// Time between changes of the session key.
        publish_session: Duration;
        /// Whether all minions are pinged after a change.
        ping_on_rotate: bool;
        /// Whether data of deleted keys is kept.
        preserve_minion_cache: bool;
        /// Whether a minion may revoke its own key.
        allow_minion_key_revoke: bool;
        /// Most accepted keys; 0 for no limit.
        max_minions: usize;
        /// Most keys that wait for a decision; 0 for no limit.
        max_pending_keys: usize;
        /// Most of them from one address; 0 for no limit.
        max_pending_keys_per_address: usize;
        /// New keys of minions with fewer bits are refused.
        minimum_key_bits: u32;
        /// Oldest sign-in accepted.
        minimum_auth_version: i64;
        /// Age at which requests are dropped; zero for never.
        request_server_ttl: Duration;
        /// Whether publications are signed.
        sign_pub_messages: bool;
        /// How they are signed.
        publish_signing_algorithm: String;
        /// Whether only signed messages of minions are taken.
        require_minion_sign_messages: bool;
        /// Whether a message with a wrong signature is dropped.
        drop_messages_signature_fail: bool;
        /// Digest of fingerprints and job directories.
        hash_type: String;
        /// Name of the cluster, if this master is in one.
        cluster_id: Option<String>;
    }

    /// Who may do what.
    pub struct Access {
        /// Rights of those who log in through a backend.
        external_auth: Map;
        /// Whether rights are kept in the token.
        keep_acl_in_token: bool;
        /// Functions local users may call.
        publisher_acl: Map;
        /// Users and functions that are never allowed.
        publisher_acl_blacklist: Map;
        /// Whether the users named there are looked up at the start.
        client_acl_verify: bool;
        /// Whether the rules count for users who came through sudo.
        sudo_acl: bool;
        /// Whether rules for everybody are added to more precise ones.
        permissive_acl: bool;
        /// Which minions may publish what.
        peer: Map;
        /// Which minions may call which runners.
        peer_run: Map;
    }

    /// Jobs and data of minions a master keeps.
    pub struct JobSettings {
        /// Driver of the data cache of minions.
        cache: String;
        /// Whether grains, pillar and mine of minions are kept.
        minion_data_cache: bool;
        /// Whether a change of them is an event.
        minion_data_cache_events: bool;
        /// Whether the mine is kept even so.
        enforce_mine_cache: bool;
        /// Whether jobs are kept.
        job_cache: bool;
        /// How long.
        keep_jobs_seconds: Duration;
        /// The store of jobs.
        master_job_cache: String;
        /// A store minions write to.
        ext_job_cache: String;
        /// Whether the end of a job is kept.
        job_cache_store_endtime: bool;
        /// Whether job ids carry the process id.
        unique_jid: bool;
        /// Whether results of runners are kept.
        runner_returns: bool;
        /// Seconds between passes of the maintenance.
        loop_interval: Duration;
        /// Scheduled jobs.
        schedule: Map;
        /// Whether minions may be other masters' relays.
        order_masters: bool;
        /// How long after publishing a minion that comes back still gets a job. Not an option of Salt.
        job_grace: Duration;
        /// Bytes one return may have, 0 for any number. Not an option of Salt.
        return_max_size: u64;
        /// Bytes the grains of a minion may have, and its mine. Not an option of Salt.
        minion_data_max_size: u64;
        /// Bytes of jobs nobody published that a minion may have kept in an hour. Not an option of Salt.
        own_jobs_max_size: u64;
    }

    /// Events a master fires and keeps.
    pub struct EventSettings {
        /// Stores of all events.
        event_return: Vec<String>;
        /// Tags to store.
        event_return_whitelist: Vec<String>;
        /// Tags not to store.
        event_return_blacklist: Vec<String>;
        /// Events to gather before they are stored.
        event_return_queue: usize;
        /// Whether presence of minions is told.
        presence_events: bool;
        /// Whether each sign-in is told.
        auth_events: bool;
    }

    /// Command line programs on the host of a master.
    pub struct ClientSettings {
        /// How long returns are waited for.
        timeout: Duration;
        /// How long an answer to "does the job still run?" is waited for.
        gather_job_timeout: Duration;
        /// How long the master may take to accept a job.
        publish_timeout: Duration;
        /// Bytes per piece of `salt-cp`.
        salt_cp_chunk_size: usize;
        /// How long minions may take to say whom a syndic expects.
        syndic_wait: Duration;
    }
}
