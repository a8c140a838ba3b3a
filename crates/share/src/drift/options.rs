//! Trees of options: which options are compared, and how.

use value::{Map, Value};
use wire::msgpack::{Packing, pack};

use super::tree::{Dir, DirBuilder, Leaf, entry_name};
use crate::Digest;

/// How deep maps inside options are looked into. What is deeper counts as one value.
const MAX_OPTION_DEPTH: usize = 8;

/// The options that say who may do what.
const ACL: [&str; 6] = ["external_auth", "publisher_acl", "publisher_acl_blacklist", "peer", "peer_run", "nodegroups"];

/// Options that are compared as kinds of their own, or of which the files are.
const ELSEWHERE: [&str; 6] = ["schedule", "reactor", "file_roots", "pillar_roots", "master_roots", "thorium_roots"];

/// Options that belong to one host, beside those of [`ENDINGS`] and [`BEGINNINGS`].
const OF_ONE_HOST: [&str; 17] = [
    "id",
    "interface",
    "extension_modules",
    "default_include",
    "include",
    "max_open_files",
    "ipv6",
    "grains",
    "fqdn",
    "master",
    "syndic_master",
    "conf_file",
    "pidfile",
    "cachedir",
    "saltversion",
    "host",
    "port",
];

/// How options end that name hosts, addresses, ports and paths, or say how much of the host may be used.
const ENDINGS: [&str; 20] = [
    "_port",
    "_ports",
    "_host",
    "_hosts",
    "_address",
    "_addresses",
    "_interface",
    "_id",
    "_dir",
    "_dirs",
    "_file",
    "_path",
    "_paths",
    "_pidfile",
    "_logfile",
    "_size",
    "_bytes",
    "_hwm",
    "_threads",
    "_niceness",
];

/// How options begin that are about logs, ports and the set itself.
const BEGINNINGS: [&str; 6] = ["log_", "cluster_", "tcp_master_", "source_", "zmq_", "__"];

/// Returns whether an option belongs to one host, and is not compared.
pub fn is_left_out(name: &str, value: &Value) -> bool {
    let is_path = |text: &str| text.starts_with('/') || text.starts_with("~/");
    OF_ONE_HOST.contains(&name)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || value.as_str().is_some_and(is_path)
}

/// Returns the tree of what says who may do what: options, and the file of users that `external_auth` names.
pub fn acl(options: &Map, users_file: Option<Digest>) -> Dir {
    let mut tree = DirBuilder::default();
    if let Some(digest) = users_file {
        tree.leaf("users file", Leaf::value(weakened(digest)));
    }
    for name in ACL {
        if let Some(value) = options.get(name).filter(|value| value.truthy()) {
            add(&mut tree, name, value, 0, &|_, _| false);
        }
    }
    tree.finish()
}

/// Returns the tree of all other options that must be the same on all members.
pub fn options(options: &Map) -> Dir {
    let mut tree = DirBuilder::default();
    for (name, value) in options.iter() {
        let Some(name) = name.as_str() else { continue };
        if !ACL.contains(&name) && !ELSEWHERE.contains(&name) && !is_left_out(name, value) {
            add(&mut tree, name, value, 0, &is_left_out);
        }
    }
    tree.finish()
}

/// Returns the tree of one option, such as `schedule`.
pub fn option_tree(value: Option<&Value>) -> Dir {
    let mut tree = DirBuilder::default();
    if let Some(Value::Map(map)) = value {
        map.iter().for_each(|(name, value)| add(&mut tree, &name.to_string(), value, 1, &|_, _| false));
    }
    tree.finish()
}

fn add(tree: &mut DirBuilder, name: &str, value: &Value, depth: usize, leave_out: &impl Fn(&str, &Value) -> bool) {
    let shown = entry_name(name.as_bytes());
    match value {
        Value::Map(map) if depth < MAX_OPTION_DEPTH && !map.is_empty() => {
            let Some(inside) = tree.dir(&shown) else { return };
            for (name, value) in map.iter() {
                let name = name.to_string();
                if !leave_out(&name, value) {
                    add(inside, &name, value, depth + 1, leave_out);
                }
            }
        }
        value => {
            tree.leaf(&shown, Leaf::value(weak_digest(value)));
        }
    }
}

fn weak_digest(value: &Value) -> Digest {
    weakened(Digest::of(&[&pack(&sorted(value), Packing::Bin)]))
}

/// Returns 16 bits of a digest. Values of options may be passwords, and whoever gets a longer digest of one tries words until one
/// fits. Of this one there are too many that fit; of 65,536 changes it misses one.
fn weakened(digest: Digest) -> Digest {
    let mut weak = Digest([0; 16]);
    weak.0[..2].copy_from_slice(&digest.0[..2]);
    weak
}

/// Returns a value with the keys of all maps in order: where an option is written does not matter.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let mut all: Vec<(Value, Value)> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            all.sort_by_cached_key(|(key, _)| key.to_string());
            Value::Map(all.into_iter().collect())
        }
        Value::List(list) => Value::List(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
