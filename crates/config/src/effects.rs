//! The effect of each of Salt's options in Saltern: obeyed, no effect, or refused.
//!
//! An option that is in the tables `options/*.txt` and not here is obeyed; a test checks that code reads it.
//! `docs/options.md` is generated from this table.

use std::collections::BTreeSet;

use value::{Map, Value};

use crate::error::Error;
use crate::origin::Origins;
use crate::{Role, table};

/// The effect of an option in Saltern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The same as in Salt.
    Obeyed,
    /// Nothing, for this reason. At startup a warning is logged if the option is set to anything but its default.
    None(&'static str),
    /// It restricts who may do what and cannot be enforced, for this reason: the program does not start.
    Refused(&'static str),
    /// Salt keeps this among its options, but it is never set in a file: a command-line flag or an internal note.
    Internal,
}

/// The daemons that have an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Master,
    Minion,
    Both,
}

impl Side {
    fn has(self, role: Role) -> bool {
        matches!((self, role), (Side::Both, _) | (Side::Master, Role::Master) | (Side::Minion, Role::Minion))
    }
}

use Side::{Both, Master, Minion};

/// Options that restrict who may do what and cannot be enforced.
const REFUSED: &[(Side, &str, &[&str])] = &[
    (Minion, "running commands through sudo as another user is not supported", &["sudo_user"]),
    (
        Both,
        "plug-ins of this kind cannot be disabled",
        &[
            "disable_auths",
            "disable_beacons",
            "disable_caches",
            "disable_executors",
            "disable_fileservers",
            "disable_matchers",
            "disable_outputs",
            "disable_pillars",
            "disable_renders",
            "disable_serializers",
            "disable_tokens",
            "disable_tops",
        ],
    ),
];

/// Options that only a master of a set has a use for. What Salt itself says about `cluster_peers` and `cluster_pki_dir` is said
/// elsewhere.
const OF_A_SET: &[&str] = &[
    "cluster_addresses",
    "cluster_bus",
    "cluster_bus_credentials",
    "cluster_events",
    "cluster_heartbeat",
    "cluster_lease_time",
    "cluster_once",
    "cluster_pool_port",
    "cluster_pub_fingerprint",
    "cluster_queue_size",
    "cluster_return_copies",
    "cluster_role",
    "cluster_secret",
    "cluster_share",
    "cluster_tombstone_days",
];

const PYTHON: &str = "Saltern does not run Python yet";
const PROCESSES: &str = "Saltern uses threads of one process instead of processes";
// Salt's tables of defaults still have these names.
const UNREAD: &str = "no release of Salt since 3006 reads it";
const SSH: &str = "there is no salt-ssh";
const SYNDIC: &str = "there is no salt-syndic";
const API: &str = "salt-api reads it from the configuration of a master";
const NO_API: &str = "salt-api serves only what rest_cherrypy says";
const CLUSTER: &str = "masters of a set elect no leader and share no file system";
const TOKENS: &str = "tokens are stored in files";
const EXPANDED: &str = "each function of a job needs an entry that grants it";
const PROXY: &str = "proxy minions are not supported";
const WINDOWS: &str = "it applies only to Windows minions";
const BACKEND: &str = "this file server is not supported";
const RESOURCES: &str = "resources of minions are not supported";
const CACHE: &str = "data is stored in files, without a second cache in memory";
const CLOUD: &str = "there is no salt-cloud";

/// Options without any effect, by the reason.
const NONE: &[(Side, &str, &[&str])] = &[
    (
        Both,
        PYTHON,
        &[
            "cython_enable",
            "enable_zip_modules",
            "engines",
            "grains_dirs",
            "module_dirs",
            "optimization_order",
            "outputter_dirs",
            "queue_dirs",
            "reactor",
            "render_dirs",
            "returner_dirs",
            "runner_dirs",
            "states_dirs",
            "thorium_interval",
            "thorium_roots",
            "thorium_top",
            "thoriumenv",
            "utils_dirs",
            "virtual_timer",
            "lazy_loader_strict_matching",
            "disable_engines",
            "disable_utils",
            "disable_thoriums",
            "reactor_refresh_interval",
            "reactor_worker_hwm",
            "reactor_worker_threads",
            "disable_log_handlers",
        ],
    ),
    (
        Both,
        PROCESSES,
        &[
            "event_publisher_niceness",
            "event_return_niceness",
            "fileserver_update_niceness",
            "maintenance_niceness",
            "master_async_mworker",
            "master_mworker_max_inflight",
            "minion_memory_headroom",
            "minion_memory_max",
            "modules_max_memory",
            "multiprocessing",
            "mworker_niceness",
            "mworker_queue_niceness",
            "pub_server_niceness",
            "reactor_niceness",
            "req_server_niceness",
            "sock_pool_size",
            "tcp_master_publish_pull",
            "tcp_master_workers",
            "worker_pools",
            "worker_pools_enabled",
            "con_cache",
            "batch_manager_loop_interval",
        ],
    ),
    (
        Both,
        UNREAD,
        &[
            "auth_events_pend_autosign_grains",
            "cache_sreqs",
            "cluster_mode",
            "dummy_pub",
            "keep_jobs",
            "request_server_aes_session",
            "resolve_dns_fallback",
            "restart_on_error",
            "search",
        ],
    ),
    (
        Both,
        SSH,
        &[
            "enable_ssh_minions",
            "min_extra_mods",
            "regen_thin",
            "roster",
            "roster_defaults",
            "roster_file",
            "rosters",
            "ssh_config_file",
            "ssh_identities_only",
            "ssh_keepalive",
            "ssh_keepalive_count_max",
            "ssh_keepalive_interval",
            "ssh_list_nodegroups",
            "ssh_log_file",
            "ssh_merge_pillar",
            "ssh_minion_opts",
            "ssh_passwd",
            "ssh_port",
            "ssh_priv",
            "ssh_priv_passwd",
            "ssh_run_pre_flight",
            "ssh_scan_ports",
            "ssh_scan_timeout",
            "ssh_sudo",
            "ssh_sudo_user",
            "ssh_timeout",
            "ssh_use_home_key",
            "ssh_user",
            "thin_exclude_saltexts",
            "thin_extra_mods",
            "thin_saltext_allowlist",
            "thin_saltext_blocklist",
        ],
    ),
    (
        Both,
        SYNDIC,
        &[
            "syndic_event_forward_timeout",
            "syndic_failover",
            "syndic_finger",
            "syndic_forward_all_events",
            "syndic_jid_forward_cache_hwm",
            "syndic_log_file",
            "syndic_master",
            "syndic_master_port",
            "syndic_pidfile",
            "syndic_retries",
            "syndic_user",
        ],
    ),
    (Minion, SYNDIC, &["publisher_acl", "publisher_acl_blacklist"]),
    (Minion, API, &["api_logfile", "api_pidfile", "netapi_enable_clients", "rest_cherrypy", "rest_timeout"]),
    (Both, NO_API, &["rest_tornado", "rest_wsgi", "disable_netapis"]),
    (Both, SSH, &["netapi_allow_raw_shell"]),
    (Both, "the backend django of external_auth is not supported", &["django_auth_path", "django_auth_settings"]),
    (
        Both,
        CLUSTER,
        &[
            "cluster_auto_replace_voters",
            "cluster_demote_cooldown",
            "cluster_election_max",
            "cluster_election_min",
            "cluster_encryption_algorithm",
            "cluster_isolated_filesystem",
            "cluster_join_timeout",
            "cluster_key_pass",
            "cluster_max_log_size",
            "cluster_max_voters",
            "cluster_min_voters",
            "cluster_voter_health_check_interval",
            "cluster_voter_timeout",
        ],
    ),
    (Both, EXPANDED, &["auth.enable_expanded_auth_matching"]),
    (Both, TOKENS, &["eauth_tokens", "eauth_tokens.cache_driver", "eauth_tokens.cluster_id"]),
    (
        Both,
        PROXY,
        &[
            "add_proxymodule_to_opts",
            "metaproxy",
            "proxy",
            "proxy_always_alive",
            "proxy_deep_merge_pillar_in_opts",
            "proxy_keep_alive",
            "proxy_keep_alive_interval",
            "proxy_merge_grains_in_module",
            "proxy_merge_pillar_in_opts",
            "proxy_merge_pillar_in_opts_strategy",
            "proxy_mines_pillar",
            "disable_proxys",
            "napalm",
        ],
    ),
    (
        Both,
        WINDOWS,
        &[
            "winrepo_branch",
            "winrepo_cache_expire_max",
            "winrepo_cache_expire_min",
            "winrepo_cachefile",
            "winrepo_depth",
            "winrepo_dir",
            "winrepo_dir_ng",
            "winrepo_fallback",
            "winrepo_insecure_auth",
            "winrepo_installer_cache_expire",
            "winrepo_passphrase",
            "winrepo_password",
            "winrepo_privkey",
            "winrepo_proxy",
            "winrepo_pubkey",
            "winrepo_refspecs",
            "winrepo_remotes",
            "winrepo_remotes_ng",
            "winrepo_source_dir",
            "winrepo_ssl_verify",
            "winrepo_user",
        ],
    ),
    (
        Both,
        BACKEND,
        &[
            "azurefs_update_interval",
            "fileserver_ftp_timeout",
            "hgfs_base",
            "hgfs_branch_method",
            "hgfs_mountpoint",
            "hgfs_remotes",
            "hgfs_root",
            "hgfs_saltenv_blacklist",
            "hgfs_saltenv_whitelist",
            "hgfs_update_interval",
            "s3fs_update_interval",
            "svnfs_branches",
            "svnfs_mountpoint",
            "svnfs_remotes",
            "svnfs_root",
            "svnfs_saltenv_blacklist",
            "svnfs_saltenv_whitelist",
            "svnfs_tags",
            "svnfs_trunk",
            "svnfs_update_interval",
        ],
    ),
    (
        Both,
        RESOURCES,
        &[
            "resource_index_primary_capacity",
            "resource_index_primary_slot_size",
            "resource_pillar_key",
            "resource_registry_compact_load_factor",
            "resource_registry_compact_min_interval",
            "resource_registry_compact_tombstone_ratio",
        ],
    ),
    (
        Both,
        CACHE,
        &["gpg_cache_backend", "memcache_debug", "minion_pillar_cache", "pillar.cache_driver", "pillar_cache_backend"],
    ),
    (Both, "expired values are removed when there are too many", &["memcache_full_cleanup"]),
    (Minion, CACHE, &["memcache_expire_seconds", "memcache_max_items"]),
    (Both, CLOUD, &["bootstrap_delay", "enable_cloud_grains"]),
    (
        Both,
        "file lists are always current",
        &["fileserver_interval", "minionfs_update_interval", "roots_update_interval"],
    ),
    (
        Master,
        "no request waits longer than two seconds for the data cache",
        &["etcd.read_timeout", "mysql.connect_timeout", "mysql.read_timeout", "mysql.write_timeout"],
    ),
    (Master, "names in the data cache are always sent in UTF-8", &["mysql.charset"]),
    (Both, "each repository has its own lock", &["git_pillar_global_lock", "gitfs_global_lock"]),
    (Master, "the list of accepted keys is in memory and is not written to disk", &["key_cache"]),
    (Both, "maintenance runs each loop_interval", &["maintenance_interval"]),
    (Both, "the option 'metrics' serves these figures", &["master_stats", "master_stats_event_iter"]),
    (Both, "only metrics are exported, to Prometheus; traces are not", &["tracing"]),
    (Both, "messages are encrypted inside TLS too", &["disable_aes_with_tls"]),
    (Both, "events are matched by the prefix of their tag", &["event_match_type"]),
    (Both, "connections are always monitored", &["zmq_monitor"]),
    (Both, "pub_hwm limits the queue of a slow subscriber", &["publish_drain_timeout", "pub_server_write_queue_size"]),
    (Both, "masters are not discovered", &["discovery"]),
    (
        Both,
        "presence counts the connections of the master process, not of the port",
        &["detect_remote_minions", "remote_minions_port"],
    ),
    (Both, "range targets are not supported", &["range_server"]),
    (
        Both,
        "the renderer pass is not supported",
        &["pass_dir", "pass_gnupghome", "pass_strict_fetch", "pass_variable_prefix"],
    ),
    (Both, "queues are not supported", &["sqlite_queue_dir", "disable_queues"]),
    (Both, "secret stores (sdb) are not supported", &["disable_sdbs"]),
    (Both, "vault is not supported", &["vault"]),
    (
        Both,
        "there is no salt-pip",
        &[
            "saltpip_allow_find_links",
            "saltpip_disable_pip_version_check",
            "saltpip_no_deps",
            "saltpip_no_index",
            "saltpip_use_pythonpath",
        ],
    ),
    (Both, "snapper is not supported", &["snapper_states", "snapper_states_config"]),
    (Both, "the package manager updates the minion", &["update_restart_services", "update_url"]),
    (Both, "grains are refreshed each grains_refresh_every minutes and on demand", &["grains_refresh_pre_exec"]),
    (Both, "answers of any size are accepted", &["http_max_body"]),
    (Both, "the certificates of the system's OpenSSL are used", &["ca_bundle_url", "use_os_truststore"]),
    (Both, "x509 is always x509_v2", &["features"]),
    (Both, "orchestrations use file_roots", &["master_roots"]),
    (Both, "the session key is never encrypted for one request", &["auth_mode"]),
    (
        Minion,
        "the minion retries to sign in until it succeeds",
        &["auth_retries", "auth_safemode", "tcp_authentication_retries"],
    ),
    (
        Minion,
        "a return is retried until a master acknowledges it or it expires: see return_keep",
        &["return_retry_tries"],
    ),
    (Minion, "the mine is sent without a scheduled job", &["mine_return_job"]),
    (Minion, "they belong to proxy minions", &["username", "password"]),
    (Master, "no other process writes the log", &["alert_master", "ext_processes"]),
    (Both, "scheduled jobs run as tasks", &["run_schedule_jobs_in_background"]),
    (
        Both,
        "connections are kept alive by tcp_keepalive and heartbeats",
        &["zmq_heartbeat_ivl", "zmq_heartbeat_timeout"],
    ),
    (Minion, "every minion runs its own beacons", &["beacons_leader"]),
];

/// Names among Salt's options that are command-line flags, results or internal notes.
const INTERNAL: &[&str] = &[
    "ApiKey",
    "ApiUser",
    "ClientIp",
    "Command",
    "UserName",
    "_caller_cachedir",
    "_master_conf_file",
    "_minion_conf_file",
    "allow_undefined",
    "arch",
    "arg",
    "async",
    "auth_trb",
    "backend",
    "batch",
    "batch_wait",
    "cache_event_strip_fields",
    "caller",
    "cert",
    "chunked",
    "conf_dir",
    "conf_file",
    "configure_console_logger",
    "configure_ext_handlers",
    "configure_file_logger",
    "configure_granular_levels",
    "delimiter",
    "deploy_scripts_search_path",
    "dest",
    "detect_mode",
    "diff_cache_events",
    "doc",
    "eauth",
    "endpoint",
    "executor_opts",
    "export_interval_seconds",
    "exporter",
    "file_transport",
    "filter_events",
    "fun",
    "function",
    "gen_keys",
    "gen_keys_dir",
    "gzip",
    "hard_timeout",
    "hash_id",
    "headers",
    "histogram_boundaries",
    "include_accepted",
    "include_all",
    "include_denied",
    "include_rejected",
    "insecure",
    "inventory_base_uri",
    "jid",
    "keep_tmp",
    "keydir",
    "keyname",
    "kwargs",
    "loaded_base_name",
    "local",
    "local_masters",
    "local_state",
    "location",
    "log_file_key",
    "logger",
    "master_id",
    "master_ip",
    "master_list",
    "master_uri",
    "master_uri_list",
    "match",
    "match_dict",
    "metadata",
    "method",
    "mine_get",
    "minion_id",
    "mktoken",
    "multimaster",
    "no_parse",
    "no_return_event",
    "output",
    "parallel",
    "pillar",
    "pool_index",
    "pool_name",
    "pool_worker_count",
    "preserve_minions",
    "print_metadata",
    "profiles",
    "profiling_enabled",
    "profiling_path",
    "prometheus",
    "proxyid",
    "proxymodule",
    "quiet",
    "raw",
    "reclass_source_path",
    "refresh_grains_cache",
    "resource_attributes",
    "resource_type",
    "resources",
    "resources_dispatch",
    "resources_tgt",
    "resources_tgt_type",
    "ret",
    "retcode_passthrough",
    "sampler",
    "sampler_arg",
    "secrets",
    "secure",
    "selected_target_option",
    "serial",
    "servers",
    "service_name",
    "signedby",
    "source_ip",
    "src",
    "ssh_agent",
    "start_action",
    "storage_account",
    "storage_key",
    "subproxy",
    "syndic_mode",
    "syndic_sock_dir",
    "tgt",
    "tgt_type",
    "token",
    "transport_opts",
    "trusted",
    "uid",
    "update_cachedir",
    "use_sftp",
    "userdata_template",
    "verify_ssl",
    "workers_ipc_name",
    "yes",
];

/// Options that Salt reads outside its tables, and that are obeyed.
const ALSO_OBEYED: &[&str] = &[
    "ca_bundle",
    "cache.redis.bank_keys_prefix",
    "cache.redis.bank_prefix",
    "cache.redis.banks_prefix",
    "cache.redis.cluster.startup_nodes",
    "cache.redis.cluster_mode",
    "cache.redis.db",
    "cache.redis.host",
    "cache.redis.key_prefix",
    "cache.redis.keys_prefix",
    "cache.redis.password",
    "cache.redis.port",
    "cache.redis.separator",
    "cache.redis.timestamp_prefix",
    "cache.redis.unix_socket_path",
    "consul.consistency",
    "consul.dc",
    "consul.host",
    "consul.port",
    "consul.scheme",
    "consul.timestamp_suffix",
    "consul.token",
    "consul.verify",
    "disable_grains",
    "disable_runners",
    "disable_states",
    "disable_wheels",
    "environment",
    "etcd.allow_reconnect",
    "etcd.allow_redirect",
    "etcd.ca",
    "etcd.ca_cert",
    "etcd.cache_profile",
    "etcd.cert",
    "etcd.client_cert",
    "etcd.client_key",
    "etcd.host",
    "etcd.password",
    "etcd.path_prefix",
    "etcd.port",
    "etcd.protocol",
    "etcd.srv_domain",
    "etcd.timestamp_suffix",
    "etcd.username",
    "fileserver_events",
    "mysql.database",
    "mysql.db",
    "mysql.fresh_connection",
    "mysql.host",
    "mysql.passwd",
    "mysql.password",
    "mysql.port",
    "mysql.ssl_ca",
    "mysql.ssl_cert",
    "mysql.ssl_disabled",
    "mysql.ssl_key",
    "mysql.ssl_verify_cert",
    "mysql.ssl_verify_identity",
    "mysql.table_name",
    "mysql.unix_socket",
    "mysql.user",
    "sharedsecret",
    "skip_grains",
    "syndic_dir",
    "token_dir",
    "token_file",
];

/// Options of that kind which only a master has.
const OBEYED_ON_MASTER: &[&str] = &["api_logfile", "api_pidfile", "rest_cherrypy"];

/// Returns the effect of an option in the files of one side; `None` for an unknown name.
pub fn effect(role: Role, name: &str) -> Option<Effect> {
    let within = |table: &'static [(Side, &'static str, &'static [&'static str])]| {
        // A linear search: this runs once per option in a file, at startup.
        table.iter().find(|(side, _, names)| side.has(role) && names.contains(&name)).map(|(_, reason, _)| *reason)
    };
    // First: a name in both tables must stop the start rather than be ignored.
    if let Some(reason) = within(REFUSED) {
        return Some(Effect::Refused(reason));
    }
    if let Some(reason) = within(NONE) {
        return Some(Effect::None(reason));
    }
    if INTERNAL.contains(&name) {
        return Some(Effect::Internal);
    }
    let also = ALSO_OBEYED.contains(&name) || (role == Role::Master && OBEYED_ON_MASTER.contains(&name));
    (also || table::names(role).any(|known| known == name)).then_some(Effect::Obeyed)
}

/// Returns all options of one side with their effects, by name.
pub fn all(role: Role) -> Vec<(&'static str, Effect)> {
    let groups = [REFUSED, NONE].into_iter().flatten().filter(|(side, ..)| side.has(role));
    let names = groups.flat_map(|(_, _, names)| names.iter().copied());
    let names = names.chain(INTERNAL.iter().copied()).chain(ALSO_OBEYED.iter().copied());
    let names = names.chain(OBEYED_ON_MASTER.iter().copied());
    let names: BTreeSet<_> = names.chain(table::names(role)).collect();
    names.into_iter().filter_map(|name| Some((name, effect(role, name)?))).collect()
}

/// Returns the text of `docs/options.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Options\n\nEvery option of Salt 3006 to 3008, for masters and minions, and the few that only Saltern has.\n\n\
         - `obeyed`: works as in Salt, or as `COMPATIBILITY.md` says.\n\
         - `no effect`: does nothing in Saltern. At startup the log names such an option if it is set to anything but its\n  \
         default.\n\
         - `refused`: restricts who may do what, and cannot be enforced. Neither the daemons nor `salt-call` start with it.\n\n\
         Options that are not in the table are kept for `config.get` and change nothing.\n\nThis page is generated by \
         `cargo run -p saltern-config --example options > docs/options.md`.\n\n| option | master | minion |\n|---|---|---|\n",
    );
    let (master, minion) = (all(Role::Master), all(Role::Minion));
    let names: BTreeSet<_> = master.iter().chain(&minion).map(|(name, _)| *name).collect();
    for name in names {
        let shown = [Role::Master, Role::Minion].map(|role| match effect(role, name) {
            Some(Effect::Obeyed) => Some("obeyed".to_owned()),
            Some(Effect::None(reason)) => Some(format!("no effect: {reason}")),
            Some(Effect::Refused(reason)) => Some(format!("refused: {reason}")),
            Some(Effect::Internal) | None => None,
        });
        if let [master, minion] = shown.map(|shown| shown.unwrap_or_else(|| "not an option".into()))
            && (master != "not an option" || minion != "not an option")
        {
            let minion = if minion == master { "the same".to_owned() } else { minion };
            page += &format!("| `{name}` | {master} | {minion} |\n");
        }
    }
    let notes: Vec<_> = INTERNAL.iter().map(|name| format!("`{name}`")).collect();
    page +=
        "\nSalt also keeps flags of its programs and internal notes among its options; nobody sets these in a file:\n";
    page += &notes.join(", ");
    page + ".\n"
}

/// Fails if an operator has set an option that restricts who may do what and cannot be enforced.
pub(crate) fn refuse(role: Role, opts: &Map, origins: &Origins) -> Result<(), Error> {
    for (name, origin, why) in set(role, opts, origins) {
        if let Effect::Refused(reason) = why {
            return Err(Error::Refused { origin: Some(origin), name, reason });
        }
    }
    Ok(())
}

/// Options that say where masters reach each other. Over a bus they reach its servers only.
const OF_LINKS: [&str; 2] = ["cluster_addresses", "cluster_pool_port"];

/// Returns whether this is a master of a set.
fn shares(opts: &Map) -> bool {
    opts.get("cluster_id").is_some_and(Value::truthy)
}

/// Returns a log line for each option that an operator has set and that has no effect.
pub(crate) fn ineffective(role: Role, opts: &Map, origins: &Origins) -> Vec<String> {
    let mut lines: Vec<_> = set(role, opts, origins)
        .filter_map(|(name, origin, why)| match why {
            Effect::None(reason) => Some(format!("config: {origin}: option '{name}' has no effect: {reason}")),
            Effect::Obeyed if !shares(opts) => {
                Some(format!("config: {origin}: option '{name}' has no effect without 'cluster_id'"))
            }
            Effect::Obeyed if opts.get("cluster_bus").is_some_and(Value::truthy) && OF_LINKS.contains(&&*name) => {
                Some(format!("config: {origin}: option '{name}' has no effect with 'cluster_bus'"))
            }
            _ => None,
        })
        .collect();
    // Origins are kept in a hash map. The log should be the same at each start.
    lines.sort();
    lines
}

/// Returns the options that files set to anything but their default, without those that are always obeyed.
fn set<'a>(
    role: Role,
    opts: &'a Map,
    origins: &'a Origins,
) -> impl Iterator<Item = (String, crate::Origin, Effect)> + 'a {
    let defaults = table::defaults(role);
    origins.iter().filter_map(move |(name, origin)| {
        let effect = effect(role, name).filter(|effect| match effect {
            Effect::None(_) | Effect::Refused(_) => true,
            Effect::Obeyed => role == Role::Master && OF_A_SET.contains(&name.as_str()),
            Effect::Internal => false,
        })?;
        let value = opts.get(name).unwrap_or(&Value::Null);
        // An empty value of an option without a default requests nothing. Sample files repeat the defaults, and a line
        // in the log for each would be noise.
        let plain = defaults.get(name).map_or_else(|| !value.truthy(), |default| default == value);
        (!plain).then(|| (name.clone(), origin.clone(), effect))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_is_listed_twice() {
        for role in [Role::Master, Role::Minion] {
            let groups = || [REFUSED, NONE].into_iter().flatten().filter(move |(side, ..)| side.has(role));
            let all: Vec<_> =
                groups().flat_map(|(_, _, names)| names.iter()).chain(INTERNAL).chain(ALSO_OBEYED).collect();
            let twice: Vec<_> =
                all.iter().filter(|name| all.iter().filter(|other| other == name).count() > 1).collect();
            assert!(twice.is_empty(), "{twice:?}");
        }
    }
}
