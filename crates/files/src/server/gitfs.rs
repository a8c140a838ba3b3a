//! The backend `gitfs`: branches, tags and commits of repositories.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::FileSettings;
use crypto::HashType;
use git::{Blobs, Entry, Fetched, Group, Oid, Repository, Role, Snapshot, Tree};
use value::{Map, Value, map};

use super::find::{Found, Source};
use super::lists::Lists;
use crate::Result;

/// The remotes of `gitfs_remotes`.
pub struct GitFs {
    group: Group,
    blobs: Blobs,
    hash: HashType,
    /// The environments of each remote, cached until its references change.
    views: Vec<Mutex<View>>,
    hashes: Mutex<HashMap<Oid, String>>,
    lists: Mutex<HashMap<String, (Vec<Listed>, Lists)>>,
    swept: Mutex<Option<Instant>>,
}

/// The environments in a list of references.
#[derive(Default)]
struct View {
    snapshot: Arc<Snapshot>,
    envs: Arc<BTreeSet<String>>,
}

/// The tree of an environment at a remote, if it serves one.
type Served<'a> = (&'a Repository, Option<Arc<Tree>>);

/// The tree that a list was built from; the same trees give the same list.
type Listed = Option<Oid>;

/// The backend's name.
pub const NAME: &str = "gitfs";
/// Contents that were not requested for this time are removed; if they are needed again, they are extracted again.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);
const SWEEP: Duration = Duration::from_secs(3600);
const MAX_HASHES: usize = 200_000;
const MAX_LISTS: usize = 64;

impl GitFs {
    /// Serves the remotes in the options. Nothing is fetched yet.
    ///
    /// # Errors
    /// If something about the remotes is wrong, in Salt's words.
    pub fn new(settings: &FileSettings, options: &Map, cachedir: &Path) -> Result<Self> {
        let remotes = options.get("gitfs_remotes").and_then(Value::as_list).unwrap_or_default();
        let group = Group::new(Role::GitFs, remotes, options, cachedir)?;
        Ok(GitFs {
            blobs: Blobs::new(group.root().join("blobs")),
            hash: settings.hash_type.parse()?,
            views: group.repositories().iter().map(|_| Mutex::default()).collect(),
            group,
            hashes: Mutex::default(),
            lists: Mutex::default(),
            swept: Mutex::default(),
        })
    }

    /// The remotes.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Returns the names of all environments in alphabetical order.
    pub fn envs(&self) -> Vec<String> {
        let mut all = BTreeSet::new();
        for number in 0..self.views.len() {
            all.extend(self.view(number).1.iter().cloned());
        }
        all.into_iter().collect()
    }

    /// Returns the references of a remote, and their environments.
    fn view(&self, number: usize) -> (Arc<Snapshot>, Arc<BTreeSet<String>>) {
        let repository = &self.group.repositories()[number];
        let snapshot = repository.snapshot();
        let mut view = self.views[number].lock().unwrap_or_else(PoisonError::into_inner);
        // A remote without references yet has no environments, and is checked again.
        if !Arc::ptr_eq(&view.snapshot, &snapshot) || view.envs.is_empty() {
            view.envs = Arc::new(repository.remote.envs(snapshot.names()));
            view.snapshot = Arc::clone(&snapshot);
        }
        (snapshot, Arc::clone(&view.envs))
    }

    /// Returns each remote's tree for an environment, in the order of the remotes, each from one snapshot.
    fn trees(&self, env: &str) -> Result<Vec<Served<'_>>> {
        // All snapshots are taken first: a fetch in between must not mix two states.
        let views: Vec<_> = (0..self.views.len()).map(|number| self.view(number)).collect();
        // An environment may also be a commit, which no list of branches contains.
        let known = git::is_hex(env) || views.iter().any(|(_, envs)| envs.contains(env));
        let mut trees = Vec::new();
        for (repository, (snapshot, _)) in self.group.repositories().iter().zip(&views) {
            let wanted = known || !repository.remote.fallback.is_empty();
            trees.push((repository, if wanted { tree(repository, snapshot, env)? } else { None }));
        }
        Ok(trees)
    }

    /// Finds a file in the first remote that has it.
    pub fn find(&self, path: &str, env: &str) -> Result<Option<Found>> {
        for (repository, tree) in self.trees(env)? {
            let (Some(tree), Some(inside)) = (tree, inside(repository, path, env)) else { continue };
            let Some((mode, oid)) = tree.file(&inside) else { continue };
            return Ok(Some(Found {
                path: self.blobs.file(repository, oid)?,
                relative: path.to_owned(),
                env: env.to_owned(),
                back: NAME,
                source: Source::Git { mode, oid: oid.clone() },
            }));
        }
        Ok(None)
    }

    /// Returns the hash of a content.
    pub fn hash(&self, found: &Found, oid: &Oid) -> Result<String> {
        if let Some(hash) = self.hashes.lock().unwrap_or_else(PoisonError::into_inner).get(oid) {
            return Ok(hash.clone());
        }
        let hash = store::disk::hash_file(&found.path, self.hash)?;
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if hashes.len() >= MAX_HASHES {
            // Contents never change, so the only reason to drop a hash is memory.
            hashes.clear();
        }
        hashes.insert(oid.clone(), hash.clone());
        Ok(hash)
    }

    /// Returns the contents of an environment.
    pub fn lists(&self, env: &str) -> Result<Lists> {
        let trees = self.trees(env)?;
        let made_of: Vec<Listed> = trees.iter().map(|(_, tree)| Some(tree.as_ref()?.oid.clone())).collect();
        // Not cached: a minion can ask for any number of environments that do not exist.
        if made_of.iter().all(Option::is_none) {
            return Ok(Lists::default());
        }
        if let Some((known, lists)) = self.lists.lock().unwrap_or_else(PoisonError::into_inner).get(env)
            && *known == made_of
        {
            return Ok(lists.clone());
        }
        let mut lists = Lists::default();
        for (repository, tree) in &trees {
            let served = tree.as_ref().and_then(|tree| tree.directory(repository.remote.root_in(env)));
            if let Some(served) = served {
                list(&served, repository.remote.mountpoint_in(env), &mut lists);
            }
        }
        if !git::is_hex(env) && !self.envs().iter().any(|known| known == env) {
            // As in Salt: files of a fallback environment are listed, but not its links.
            lists.links.clear();
        }
        let mut kept = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_LISTS {
            kept.clear();
        }
        kept.insert(env.to_owned(), (made_of, lists.clone()));
        Ok(lists)
    }

    /// Fetches one remote, and returns whether anything changed. Failures are logged.
    pub fn update(&self, repository: &Repository) -> bool {
        let removed = self.group.prepare().unwrap_or_else(|error| {
            tracing::error!("failed to prepare the cache of gitfs: {}", error.chain());
            false
        });
        let fetched = self.group.fetch(repository) == Some(Fetched::Changed);
        self.sweep();
        removed || fetched
    }

    /// Returns the data of the event `salt/fileserver/gitfs/update`.
    pub fn event(changed: bool) -> Map {
        map! { "changed" => changed, "backend" => NAME }
    }

    /// Removes unused contents once in a while.
    fn sweep(&self) {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_some_and(|last| last.elapsed() < SWEEP) {
            return;
        }
        *swept = Some(Instant::now());
        // Removing files may take long, and others only need the time.
        drop(swept);
        self.blobs.remove_old(&Default::default(), UNUSED);
    }
}

/// Returns the tree of an environment, if the remote serves it.
fn tree(repository: &Repository, snapshot: &Snapshot, env: &str) -> Result<Option<Arc<Tree>>> {
    let remote = &repository.remote;
    if !remote.is_exposed(env) {
        return Ok(None);
    }
    let Some(reference) = remote.reference(env) else { return Ok(None) };
    if let Some(tree) = repository.tree_of(snapshot, reference)? {
        return Ok(Some(tree));
    }
    let fallback = Some(remote.fallback.as_str()).filter(|name| !name.is_empty());
    Ok(fallback.map_or(Ok(None), |name| repository.tree_of(snapshot, name))?)
}

/// Returns the path in the repository of a path in an environment, if it is below the mountpoint.
fn inside(repository: &Repository, path: &str, env: &str) -> Option<String> {
    let (mountpoint, root) = (repository.remote.mountpoint_in(env), repository.remote.root_in(env));
    let below = match mountpoint {
        "" => path,
        mountpoint => path.strip_prefix(mountpoint)?.strip_prefix('/')?,
    };
    let below = below.trim_start_matches('/');
    if root.is_empty() {
        return Some(below.to_owned());
    }
    // A repository has no absolute root.
    git::normalise(&format!("{root}/{below}")).filter(|_| !root.starts_with('/'))
}

fn list(tree: &Tree, mountpoint: &str, lists: &mut Lists) {
    let shown = |path: String| if mountpoint.is_empty() { path } else { format!("{mountpoint}/{path}") };
    tree.walk(&mut |(path, entry)| match entry {
        Entry::Directory(_) => drop(lists.dirs.insert(shown(path))),
        Entry::File { .. } => drop(lists.files.insert(shown(path))),
        Entry::Link { target } => {
            let path = shown(path);
            lists.files.insert(path.clone());
            // As in Salt, of two remotes the later one counts here.
            lists.links.insert(path, target.clone());
        }
        Entry::Module => {}
    });
    if !mountpoint.is_empty() {
        lists.dirs.insert(mountpoint.to_owned());
    }
}
