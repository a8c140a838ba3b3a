//! What this member compares with others, read from its options and its disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crypto::HashType;
use keys::MasterKeyOptions;
use share::Digest;
use share::drift::{self, Dir, DirBuilder, Kind, Leaf, entry_name};
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;
use value::{Map, Value};

use super::scan::{Rules, Scan, Unscanned};
use crate::{Stores, chain};

/// The trees of this member.
pub type Trees = BTreeMap<Kind, Arc<Dir>>;

/// A tree that was made, or why not.
pub type Scanned = (Kind, Result<Dir, Unscanned>);

/// What is compared, and where it is.
pub struct Sources {
    stores: Arc<Stores>,
    files: Rules,
    pillar: Rules,
    gitfs: Option<git::Group>,
}

impl Sources {
    pub fn new(stores: Arc<Stores>) -> Sources {
        let config = &stores.config;
        let gitfs = config.files.fileserver_backend.iter().any(|name| name == "gitfs").then(|| gitfs(config));
        Sources { files: Rules::of_files(&config.files), pillar: Rules::default(), gitfs: gitfs.flatten(), stores }
    }

    /// Returns how long a remote may have another commit than that of another member, in milliseconds.
    pub fn fetch_interval(&self) -> u64 {
        let gitfs = self.stores.files.intervals().into_iter().map(|interval| interval.as_secs());
        let pillar = self.stores.git_pillar.sources();
        let pillar = pillar.iter().flat_map(|source| source.group().repositories());
        gitfs.chain(pillar.map(|repository| repository.remote.update_interval)).max().unwrap_or(0) * 1_000
    }

    /// Makes all trees and sends each when it is made. What is on disk is read only where it differs from `before`.
    pub fn scan(&self, before: &Trees, now: i64, to: &Sender<Scanned>, stop: &CancellationToken) {
        // What takes no time first.
        let (fixed, looked_at): (Vec<Kind>, Vec<Kind>) = Kind::ALL.into_iter().partition(|kind| is_fixed(*kind));
        let fixed = fixed.into_iter().filter(|kind| !before.contains_key(kind));
        for kind in fixed.chain(looked_at) {
            let tree = self.tree(kind, before.get(&kind).map(Arc::as_ref), now, stop);
            // Nobody waits for it when the master stops.
            if stop.is_cancelled() || to.try_send((kind, tree)).is_err() {
                return;
            }
        }
    }

    fn tree(&self, kind: Kind, before: Option<&Dir>, now: i64, stop: &CancellationToken) -> Result<Dir, Unscanned> {
        let config = &self.stores.config;
        let scan = |rules| Scan::new(rules, before, now, stop);
        match kind {
            Kind::Acl => acl(&config.raw, scan(&self.pillar)),
            Kind::Config => Ok(drift::options(&config.raw)),
            Kind::Schedule => Ok(drift::option_tree(config.raw.get("schedule"))),
            Kind::Version => Ok(single("version", Digest::of(&[env!("CARGO_PKG_VERSION").as_bytes()]))),
            Kind::MasterKey => master_key(config),
            Kind::Files if !config.files.fileserver_backend.iter().any(|name| name == "roots") => Ok(Dir::default()),
            Kind::Files => scan(&self.files).environments(&config.files.file_roots),
            Kind::Pillar => scan(&self.pillar).environments(&config.pillar.pillar_roots),
            Kind::Extmods => match config.raw.get_str("extension_modules") {
                Some(directory) => scan(&self.pillar).directory(Path::new(directory)),
                None => Ok(Dir::default()),
            },
            Kind::Reactor => reactor(config.raw.get("reactor"), scan(&self.pillar)),
            Kind::Git => Ok(self.git()),
        }
    }

    fn git(&self) -> Dir {
        let mut remotes = DirBuilder::default();
        let pillar = self.stores.git_pillar.sources();
        let pillar = pillar.iter().map(|source| source.group());
        for group in self.gitfs.iter().chain(pillar) {
            for repository in group.repositories() {
                let name = entry_name(format!("{} {}", group.role(), repository.url()).as_bytes());
                let Some(remote) = remotes.dir(&name) else { continue };
                for (reference, oid) in repository.snapshot().iter() {
                    let commit = Leaf::value(Digest::of(&[oid.to_string().as_bytes()]));
                    remote.leaf(&entry_name(short(reference).as_bytes()), commit);
                }
            }
        }
        remotes.finish()
    }
}

/// Returns whether a kind is the same until the master is restarted.
pub fn is_fixed(kind: Kind) -> bool {
    match kind {
        Kind::Config | Kind::Schedule | Kind::Version | Kind::MasterKey => true,
        // It may have a file.
        Kind::Acl => false,
        Kind::Files | Kind::Pillar | Kind::Git | Kind::Reactor | Kind::Extmods => false,
    }
}

fn gitfs(config: &config::Master) -> Option<git::Group> {
    let remotes = config.raw.get("gitfs_remotes").and_then(Value::as_list).unwrap_or_default();
    match git::Group::new(git::Role::GitFs, remotes, &config.raw, &config.paths.cachedir) {
        Ok(group) => Some(group),
        Err(error) => {
            tracing::warn!("repositories are not compared with those of other masters: {}", chain(&error));
            None
        }
    }
}

fn short(reference: &str) -> String {
    match (reference.strip_prefix("refs/remotes/origin/"), reference.strip_prefix("refs/tags/")) {
        (Some(branch), _) => format!("branch {branch}"),
        (_, Some(tag)) => format!("tag {tag}"),
        _ => reference.to_owned(),
    }
}

fn single(name: &str, digest: Digest) -> Dir {
    let mut dir = DirBuilder::default();
    dir.leaf(name, Leaf::value(digest));
    dir.finish()
}

/// Returns the key that minions trust: with signed keys the one that signs, for each master may have its own pair then.
fn master_key(config: &config::Master) -> Result<Dir, Unscanned> {
    let options = MasterKeyOptions::from(config);
    let signs = options.master_sign_pubkey;
    let path = if signs { options.sign_path() } else { options.pair_path() };
    let path = path.map_err(|error| Unscanned(chain(&error)))?.public();
    let text = std::fs::read(&path).map_err(|error| Unscanned(format!("{}: {error}", path.display())))?;
    let finger = crypto::pem_finger(&text, HashType::Sha256);
    Ok(single(if signs { "signing key" } else { "master key" }, Digest::of(&[finger.as_bytes()])))
}

/// Returns the tree of who may do what, with the file of the backend `file`.
fn acl(options: &Map, mut scan: Scan<'_>) -> Result<Dir, Unscanned> {
    let backend = options.get("external_auth").and_then(|backends| backends.get("file"));
    let users_file = match backend.and_then(|options| options.get("^filename")).and_then(Value::as_str) {
        Some(path) => Some(file_or_none(&mut scan, Path::new(path))?.digest),
        None => None,
    };
    Ok(drift::acl(options, users_file))
}

/// Returns the leaf of a file. That there is none is a difference, too.
fn file_or_none(scan: &mut Scan<'_>, path: &Path) -> Result<Leaf, Unscanned> {
    let leaf = scan.file(path, None)?.unwrap_or_else(|| Leaf::value(Digest::of(&[b"no file"])));
    Ok(Leaf { mode: 0, ..leaf })
}

/// Returns the tree of the option `reactor`: below each tag the files that it names.
fn reactor(option: Option<&Value>, mut scan: Scan<'_>) -> Result<Dir, Unscanned> {
    let mut tags = DirBuilder::default();
    let entries = option.and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_map);
    for (tag, files) in entries.flat_map(Map::iter) {
        let Some(tag) = tags.dir(&entry_name(tag.to_string().as_bytes())) else { continue };
        let named = match files {
            Value::List(files) => files.as_slice(),
            one => std::slice::from_ref(one),
        };
        for (place, file) in named.iter().enumerate() {
            let file = file.to_string();
            // They run in this order.
            let name = entry_name(format!("{place} {file}").as_bytes());
            tag.leaf(&name, file_or_none(&mut scan, Path::new(&file))?);
        }
    }
    Ok(tags.finish())
}
