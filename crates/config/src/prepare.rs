//! Prepares the options after all files are read: paths below `root_dir`, derived options, normal forms.
//!
//! The steps and their order are those of Salt, because each step sees the result of the one before.

use value::{Map, Value};

use crate::error::Error;
use crate::glob;
use crate::id;
use crate::machine::Machine;
use crate::opts::Opts;
use crate::paths::{absolute, join};
use crate::table;
use crate::{LoadOptions, Role};

/// The signature algorithms that Salt knows.
const SIGNING_ALGORITHMS: [&str; 2] = ["PKCS1v15-SHA1", "PKCS1v15-SHA224"];
/// The encryption algorithms that Salt knows.
const ENCRYPTION_ALGORITHMS: [&str; 2] = ["OAEP-SHA1", "OAEP-SHA224"];
/// The digests that we can compute.
const HASH_TYPES: [&str; 6] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];
/// The maximum length of a Unix socket's path in bytes, without the final zero.
pub const UNIX_PATH_MAX: usize = 107;

/// Merges the files' options over the defaults.
fn over_defaults(role: Role, mut set: Opts) -> Opts {
    adjust_log_file(role, &mut set);
    let mut map = table::defaults(role);
    // Before the files' options, which may override even this in Salt.
    map.insert("__role", role.name());
    map.update(set.map);
    set.map = map;
    set
}

/// Prepares the options of a master.
pub(crate) fn master(set: Opts, load: &LoadOptions, machine: &dyn Machine) -> Result<Opts, Error> {
    // Taken before the defaults are merged in: afterwards, set and unset look the same.
    let write_buffer = set.map.get("ipc_write_buffer").cloned();
    let mut opts = over_defaults(Role::Master, set);
    opts.set("__fs_update", true);
    // 3008.0 read the port from `cluster_port` by mistake, so configurations of that time have it there.
    if opts.map.contains_key("cluster_port") && !opts.origins.contains_key("cluster_pool_port") {
        opts.warn("The 'cluster_port' master opt is deprecated; use 'cluster_pool_port' instead.");
        let port = opts.map.get("cluster_port").cloned().unwrap_or_default();
        opts.set("cluster_pool_port", port);
    }
    // The REST backend returns permissions only at login, so they must be kept in the token.
    if opts.map.get("external_auth").is_some_and(|backends| backends.get("rest").is_some()) {
        opts.set("keep_acl_in_token", true);
    }
    opts.set("__cli", load.program.as_str());
    environment(&mut opts, "master");
    renamed(&mut opts, "client_acl", "publisher_acl")?;
    renamed(&mut opts, "client_acl_blacklist", "publisher_acl_blacklist")?;
    backend_names(&mut opts);
    // Before paths move below `root_dir`: Salt compares the lengths of the original paths.
    short_sock_dir(&mut opts);
    for (name, below) in [("token_dir", "tokens"), ("syndic_dir", "syndics")] {
        let path = join(&opts.text("cachedir"), below);
        opts.set(name, path);
    }
    extension_dirs(&mut opts);
    set_write_buffer(&mut opts, write_buffer);
    id::settle_master(&mut opts, machine)?;
    let paths = [
        "pki_dir",
        "cachedir",
        "pidfile",
        "sock_dir",
        "extension_modules",
        "autosign_file",
        "autoreject_file",
        "token_dir",
        "syndic_dir",
        "sqlite_queue_dir",
        "autosign_grains_dir",
    ];
    below_root(&mut opts, &paths, &["log_file", "key_logfile", "ssh_log_file"])?;
    cluster(&mut opts);
    only_true(&mut opts, "open_mode");
    only_true(&mut opts, "auto_accept");
    roots(&mut opts, "file_roots", "/srv/salt");
    roots(&mut opts, "pillar_roots", "/srv/pillar");
    ignored_files(&mut opts);
    if opts.read::<i64>("worker_threads")? < 1 {
        return Err(opts.wrong("worker_threads", "a whole number of at least 1"));
    }
    // A minion that publishes occupies a worker while its job needs others; Salt requires three then.
    if opts.read::<i64>("worker_threads")? < 3 && opts.truthy("peer") {
        let file = opts.text("conf_file");
        opts.warn(format!(
            "The 'worker_threads' setting in '{file}' cannot be lower than 3. Resetting it to the default value of 3."
        ));
        opts.set("worker_threads", 3);
    }
    worker_pools(&mut opts);
    normal_forms(&mut opts, false)?;
    one_of(&opts, "publish_signing_algorithm", &SIGNING_ALGORITHMS)?;
    one_of(&opts, "cluster_encryption_algorithm", &ENCRYPTION_ALGORITHMS)?;
    nodegroups(&mut opts);
    Ok(opts)
}

/// Prepares the options of a minion.
pub(crate) fn minion(set: Opts, load: &LoadOptions, machine: &dyn Machine) -> Result<Opts, Error> {
    let write_buffer = set.map.get("ipc_write_buffer").cloned();
    let mut opts = over_defaults(Role::Minion, set);
    environment(&mut opts, "minion");
    backend_names(&mut opts);
    opts.set("__cli", load.program.as_str());
    id::settle_minion(&mut opts, load, machine)?;
    // After the id is known and before anything is derived from these directories.
    id::append_to_dirs(&mut opts);
    short_sock_dir(&mut opts);
    only_true(&mut opts, "open_mode");
    roots(&mut opts, "file_roots", "/srv/salt");
    roots(&mut opts, "pillar_roots", "/srv/pillar");
    extension_dirs(&mut opts);
    let paths = ["pki_dir", "cachedir", "sock_dir", "extension_modules", "pidfile"];
    below_root(&mut opts, &paths, &["log_file", "key_logfile"])?;
    if !opts.map.contains_key("beacons") {
        opts.set("beacons", Map::new());
    }
    set_write_buffer(&mut opts, write_buffer);
    normal_forms(&mut opts, true)?;
    one_of(&opts, "encryption_algorithm", &ENCRYPTION_ALGORITHMS)?;
    one_of(&opts, "signing_algorithm", &SIGNING_ALGORITHMS)?;
    if !opts.map.contains_key("__cachedir") {
        let cachedir = opts.text("cachedir");
        // Keeps the directory that was configured, under Salt's name.
        opts.set("__cachedir", cachedir);
    }
    Ok(opts)
}

/// `log_dir` moves a relative log file, or the default one, below itself.
fn adjust_log_file(role: Role, set: &mut Opts) {
    let directory = set.text("log_dir");
    if directory.is_empty() {
        return;
    }
    let file = set.text("log_file");
    // Salt's default is a file named after the daemon.
    if file.is_empty() {
        set.set("log_file", join(&directory, role.name()));
    } else if !file.starts_with('/') {
        set.set("log_file", join(&directory, &file));
    }
}

fn environment(opts: &mut Opts, daemon: &str) {
    let Some(old) = opts.map.get("environment").cloned() else { return };
    match opts.map.get("saltenv").cloned() {
        None | Some(Value::Null) => {
            opts.warn(format!(
                "The 'environment' {daemon} config option has been renamed to 'saltenv'. Using {old} as the 'saltenv' \
                 config value."
            ));
            opts.set("saltenv", old);
        }
        Some(saltenv) => {
            opts.warn(format!(
                "The 'saltenv' and 'environment' {daemon} config options cannot both be used. Ignoring 'environment' \
                 in favor of 'saltenv'."
            ));
            // Salt leaves the value under both names, and formulas read either.
            opts.set("environment", saltenv);
        }
    }
}

/// Accepts an option under the name it has in old tutorials. It restricts who may do what, so only one of the two may be set.
fn renamed(opts: &mut Opts, old: &str, new: &str) -> Result<(), Error> {
    let Some(value) = opts.map.get(old).cloned() else { return Ok(()) };
    // Only origins show whether a file set the new name; a default is always there.
    if opts.origins.contains_key(new) {
        return Err(opts.wrong(old, format!("removed: it is the old name of '{new}', which is set too")));
    }
    let place = opts.origins.get(old).map(|origin| format!("{origin}: ")).unwrap_or_default();
    opts.warn(format!("config: {place}option '{old}' is the old name of '{new}' and is obeyed"));
    if let Some(origin) = opts.origins.get(old).cloned() {
        // So that an error about the new name points to the line with the old one.
        opts.origins.insert(new.to_owned(), origin);
    }
    opts.set(new, value);
    Ok(())
}

fn backend_names(opts: &mut Opts) {
    if let Some(Value::List(backends)) = opts.map.get_mut("fileserver_backend") {
        for backend in backends {
            // Salt accepts the short names of version control systems.
            if matches!(backend.as_str(), Some("git" | "hg" | "svn" | "minion")) {
                *backend = format!("{backend}fs").into();
            }
        }
    }
}

/// A socket directory with a much longer path than the cache directory is replaced by one in it.
fn short_sock_dir(opts: &mut Opts) {
    let (sockets, cache) = (opts.text("sock_dir"), opts.text("cachedir"));
    // The path of a Unix socket is short; Salt moves the directory by this rule, and its programs look there.
    if sockets.chars().count() > cache.chars().count() + 10 {
        opts.set("sock_dir", join(&cache, ".salt-unix"));
    }
}

fn extension_dirs(opts: &mut Opts) {
    if !opts.truthy("extension_modules") {
        let path = join(&opts.text("cachedir"), "extmods");
        opts.set("extension_modules", path);
    }
    if !opts.truthy("utils_dirs") {
        let path = join(&opts.text("extension_modules"), "utils");
        opts.set("utils_dirs", vec![path]);
    }
}

/// Salt's own default is a share of the memory, which Salt then does not use.
fn set_write_buffer(opts: &mut Opts, set: Option<Value>) {
    const DYNAMIC: i64 = 64 << 20;
    match set {
        None => opts.set("ipc_write_buffer", 0),
        Some(Value::Str(word)) if word == "dynamic" => opts.set("ipc_write_buffer", DYNAMIC),
        Some(_) => {}
    }
}

fn cluster(opts: &mut Opts) {
    if opts.truthy("cluster_id") {
        if !opts.truthy("cluster_pki_dir") {
            let pki_dir = opts.text("pki_dir");
            opts.set("cluster_pki_dir", pki_dir);
        }
        return;
    }
    if opts.truthy("cluster_peers") {
        opts.warn("Cluster peers defined without a cluster_id, ignoring.");
        opts.set("cluster_peers", Vec::<String>::new());
    }
    if opts.truthy("cluster_pki_dir") {
        opts.warn("Cluster pki dir defined without a cluster_id, ignoring.");
        opts.set("cluster_pki_dir", Value::Null);
    }
}

/// These options protect everything, so only a plain `true` enables them.
fn only_true(opts: &mut Opts, name: &str) {
    let open = opts.map.get(name) == Some(&Value::Bool(true));
    opts.set(name, open);
}

/// Environment names are strings, their values lists; patterns are expanded once, at startup.
fn roots(opts: &mut Opts, name: &str, default: &str) {
    // As in Salt, a warning is logged and the default is used, whatever the file meant.
    let Some(Value::Map(roots)) = opts.map.get(name) else {
        opts.warn(format!("The {name} parameter is not properly formatted, using defaults"));
        let base: Map = [("base", vec![default])].into_iter().collect();
        opts.set(name, base);
        return;
    };
    // YAML makes numbers of environments such as `2024`.
    let normal: Map = roots.iter().map(|(env, dirs)| (env.to_string(), expand(dirs))).collect();
    opts.set(name, normal);
}

fn expand(dirs: &Value) -> Value {
    let one = |dir: &Value| match dir {
        Value::Str(pattern) if glob::has_magic(pattern) => {
            glob::glob(pattern).into_iter().map(|path| Value::from(path.display().to_string())).collect()
        }
        other => vec![other.clone()],
    };
    dirs.as_list().unwrap_or_default().iter().flat_map(one).collect()
}

/// Invalid expressions are left out with a warning.
fn ignored_files(opts: &mut Opts) {
    for name in ["file_ignore_regex", "file_ignore_glob"] {
        if let Some(Value::Str(one)) = opts.map.get(name).cloned().filter(Value::truthy) {
            opts.set(name, vec![one]);
        }
    }
    let Some(Value::List(patterns)) = opts.map.get("file_ignore_regex").cloned() else { return };
    let (good, bad): (Vec<Value>, Vec<Value>) =
        patterns.into_iter().partition(|pattern| compiles(&pattern.to_string()));
    for pattern in bad {
        opts.warn(format!("Unable to parse file_ignore_regex. Skipping: {pattern}"));
    }
    opts.set("file_ignore_regex", good);
}

fn compiles(pattern: &str) -> bool {
    fancy_regex::Regex::new(pattern).is_ok()
}

/// One pool with all workers, unless pools are configured.
fn worker_pools(opts: &mut Opts) {
    if opts.truthy("worker_pools_enabled") && !opts.truthy("worker_pools") {
        let threads = opts.map.get("worker_threads").cloned().unwrap_or_default();
        let pool: Map = [("worker_count", threads), ("commands", vec!["*"].into())].into_iter().collect();
        let pools: Map = [("default", pool)].into_iter().collect();
        opts.set("worker_pools", pools);
    }
}

fn normal_forms(opts: &mut Opts, minion: bool) -> Result<(), Error> {
    let hash = opts.text("hash_type").to_lowercase();
    opts.set("hash_type", hash);
    one_of(opts, "hash_type", &HASH_TYPES)?;
    match opts.map.get("ssl") {
        None | Some(Value::Bool(false)) => opts.set("ssl", Value::Null),
        Some(Value::Bool(true)) => opts.set("ssl", Map::new()),
        _ => {}
    }
    discovery(opts, minion)?;
    if let Some(Value::List(returners)) = opts.map.get("return") {
        // Publications carry returners as one text with commas.
        let joined = returners.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
        opts.set("return", joined);
    }
    for (name, value) in &opts.map {
        if value.as_str().is_some_and(|text| text.starts_with("sdb://")) {
            let warning = format!("sdb is not supported: option '{name}' keeps the address itself");
            opts.warnings.push(warning);
        }
    }
    Ok(())
}

fn discovery(opts: &mut Opts, minion: bool) -> Result<(), Error> {
    let set = match opts.map.get("discovery") {
        Some(Value::Bool(true)) => Map::new(),
        Some(Value::Map(set)) => set.clone(),
        _ => return Ok(()),
    };
    let mut full = Map::new();
    if minion {
        full.extend([("attempts", 3), ("pause", 5)]);
    }
    full.insert("port", 4520);
    if minion {
        full.insert("match", "any");
    }
    full.insert("mapping", Map::new());
    if let Some(unknown) =
        set.text_keys().find(|key| !matches!(*key, "attempts" | "pause" | "port" | "match" | "mapping"))
    {
        return Err(opts.wrong("discovery", format!("without the unknown entry '{unknown}'")));
    }
    full.update(set);
    opts.set("discovery", full);
    Ok(())
}

fn one_of(opts: &Opts, name: &str, known: &[&str]) -> Result<(), Error> {
    match known.contains(&opts.text(name).as_str()) {
        true => Ok(()),
        false => Err(opts.wrong(name, format!("one of {}", known.join(", ")))),
    }
}

/// A list of maps becomes one map.
fn nodegroups(opts: &mut Opts) {
    match opts.map.get("nodegroups").cloned() {
        None | Some(Value::Null) => opts.set("nodegroups", Map::new()),
        // Salt's documentation shows both forms.
        Some(Value::List(items)) if items.iter().all(|item| matches!(item, Value::Map(_))) => {
            let one: Map = items.into_iter().filter_map(Value::into_map).flatten().collect();
            opts.set("nodegroups", one);
        }
        Some(_) => {}
    }
}

/// Puts paths below `root_dir`; logs only if they are paths and not addresses of a log server.
fn below_root(opts: &mut Opts, paths: &[&str], logs: &[&str]) -> Result<(), Error> {
    let root = absolute(&opts.text("root_dir"));
    if !opts.truthy("root_dir") {
        return Err(opts.wrong("root_dir", "a path"));
    }
    let logs = logs.iter().filter(|name| opts.map.get_str(name).is_some_and(|log| !has_scheme(log)));
    let all: Vec<&str> = paths.iter().chain(logs).copied().collect();
    for name in all {
        let Some(path) = opts.map.get_str(name).filter(|path| !path.is_empty()) else { continue };
        if let Some(moved) = moved_below(path, &root) {
            opts.set(name, moved);
        }
    }
    Ok(())
}

/// Returns the new path. An absolute path stays below the root that it already has; the root of the default paths is `/`,
/// whatever prefix they have, so every absolute path moves.
fn moved_below(path: &str, root: &str) -> Option<String> {
    let base = root.trim_end_matches('/');
    let within = (!base.is_empty()).then(|| path.strip_prefix(base)).flatten();
    let rest = match within {
        // A whole component must match: `/opt/xy` is not below `/opt/x`.
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => path,
    };
    Some(join(if base.is_empty() { "/" } else { base }, rest.trim_start_matches('/')))
}

/// Returns whether a log file is an address such as `udp://host:514` or `file:///dev/log`.
pub(crate) fn has_scheme(log: &str) -> bool {
    let Some((scheme, _)) = log.split_once(':') else { return false };
    let mut letters = scheme.chars();
    // The syntax of a scheme as in RFC 3986. A path never matches, because a slash is not part of a scheme.
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_below_the_root_once() {
        for (path, root, expected) in [
            ("/var/cache/salt", "/", "/var/cache/salt"),
            ("/var/cache/salt", "/opt/x", "/opt/x/var/cache/salt"),
            ("/opt/x/var/cache", "/opt/x", "/opt/x/var/cache"),
            ("/opt/xy/cache", "/opt/x", "/opt/x/opt/xy/cache"),
            ("pki", "/opt/x", "/opt/x/pki"),
        ] {
            assert_eq!(moved_below(path, root).as_deref(), Some(expected), "{path} {root}");
        }
    }

    #[test]
    fn log_addresses_are_not_paths() {
        assert!(has_scheme("udp://loghost:514"));
        assert!(has_scheme("file:///dev/log"));
        assert!(!has_scheme("/var/log/salt/master"));
        assert!(!has_scheme("log/a:b"));
    }
}
