//! All remotes of one role, and their directory in the cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto::HashType;
use store::disk::{self, Writing};
use targeting::Glob;
use value::{Map, Value};

use crate::lock::{self, LockType};
use crate::program::{Git, Program};
use crate::repository::{Fetched, Places, Repository, SharedOptions};
use crate::{Remote, Result, Role, values};

/// The remotes of the file server, or of one external pillar.
pub struct Group {
    role: Role,
    root: PathBuf,
    lists: PathBuf,
    repositories: Vec<Repository>,
}

/// The version of the directory's layout; a directory with another one is emptied.
const LAYOUT: &str = "saltern 1";
/// Names of directories that do not belong to a remote.
const COMMON: [&str; 7] = ["hash", "refs", "links", "work", "blobs", "checkouts", "mounts"];

impl Group {
    /// Reads the remotes in a list. This fetches nothing and does not touch the disk.
    ///
    /// # Errors
    /// If something about them is wrong, in Salt's words.
    pub fn new(role: Role, remotes: &[Value], options: &Map, cachedir: &Path) -> Result<Self> {
        Self::with_git(role, remotes, options, cachedir, Arc::new(Program))
    }

    /// Like [`Group::new`], with another implementation of [`Git`].
    ///
    /// # Errors
    /// Those of [`Group::new`].
    pub fn with_git(role: Role, remotes: &[Value], options: &Map, cachedir: &Path, git: Arc<dyn Git>) -> Result<Self> {
        check_provider(role, options)?;
        let root = cachedir.join(role.name());
        let lists = cachedir.join("file_lists").join(role.name());
        let around = SharedOptions {
            global_lock: options.get(&format!("{role}_global_lock")).is_none_or(Value::truthy),
            machine: lock::machine_id(),
            timeout: timeout(options),
        };
        let hash: HashType = options.get_str("hash_type").unwrap_or("sha256").parse().unwrap_or_default();
        let mut repositories: Vec<Repository> = Vec::new();
        for entry in remotes {
            let Some(remote) = Remote::read(role, entry, options)? else { continue };
            let places = places(&root, &remote, hash)?;
            repositories.push(Repository::new(remote, places, around.clone(), Arc::clone(&git)));
        }
        let group = Group { role, root, lists, repositories };
        group.refuse_collisions()?;
        Ok(group)
    }

    fn refuse_collisions(&self) -> Result<()> {
        for repository in &self.repositories {
            let place = &repository.places().cachedir;
            let same: Vec<_> = self.repositories.iter().filter(|other| other.places().cachedir == *place).collect();
            // Two remotes in one directory would fetch over each other. Salt refuses that too.
            if same.len() > 1 {
                let ids = same.iter().map(|repository| repository.id()).collect::<Vec<_>>().join(", ");
                return Err(self.role.wrong(format!(
                    "The following {} remotes have conflicting cachedirs: {ids}. Resolve this using a per-remote parameter \
                     called 'name'.",
                    self.role
                )));
            }
        }
        Ok(())
    }

    /// Returns the role of the remotes.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns their directory in the cache.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the remotes in the order of the configuration.
    pub fn repositories(&self) -> &[Repository] {
        &self.repositories
    }

    /// Prepares the directory: removes what another program or layout left there, and file server remotes that are no longer
    /// configured. Returns whether there were any.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn prepare(&self) -> Result<bool> {
        disk::make_directory(&self.root)?;
        let version = self.root.join("cache_version");
        let found = disk::read_text(&version).unwrap_or_default();
        if found.as_deref().map(str::trim) != Some(LAYOUT) {
            // Only if there was a version: a directory without one is new, or belongs to something else.
            if found.is_some() {
                tracing::info!(
                    "the {} cache in {} was made by another program and is rebuilt",
                    self.role,
                    self.root.display()
                );
                self.empty()?;
            }
            disk::write(&version, LAYOUT.as_bytes(), Writing::SHARED)?;
        }
        // Several external pillars share the directory, and each knows only its own remotes.
        let removed = self.role == Role::GitFs && self.remove_old()?;
        self.write_map()?;
        Ok(removed)
    }

    fn empty(&self) -> Result<()> {
        for name in disk::names(&self.root)? {
            let path = self.root.join(name);
            if path.is_dir() && !path.is_symlink() {
                disk::remove_tree(&path)?
            } else {
                disk::remove(&path)?
            };
        }
        Ok(())
    }

    fn remove_old(&self) -> Result<bool> {
        let mut removed = false;
        for name in disk::text_names(&self.root)? {
            // A name that another remote or this layout uses is never taken for an old remote.
            let known = COMMON.contains(&name.as_str())
                || name.starts_with('.')
                || self.repositories.iter().any(|repository| repository.places().basehash == name);
            let path = self.root.join(&name);
            if known || !path.is_dir() || self.is_busy(&name) {
                continue;
            }
            match disk::remove_tree(&path).and_then(|_| disk::remove_tree(&self.root.join("work").join(&name))) {
                Ok(_) => {
                    tracing::debug!("{} removed old cachedir {}", self.role, path.display());
                    removed = true;
                }
                Err(error) => {
                    tracing::error!("Unable to remove old {} remote cachedir {}: {error}", self.role, path.display());
                }
            }
        }
        Ok(removed)
    }

    /// A remote that is being fetched belongs to another master that shares the directory.
    fn is_busy(&self, name: &str) -> bool {
        let list = self.root.join("work").join(name).join("_");
        let fresh = |path: PathBuf| {
            let modified = std::fs::metadata(path).and_then(|state| state.modified()).ok();
            let age = modified.and_then(|time| SystemTime::now().duration_since(time).ok());
            age.is_some_and(|age| age < Duration::from_secs(3600))
        };
        fresh(list.join("update.lk"))
    }

    /// Writes which directory belongs to which remote.
    fn write_map(&self) -> Result<()> {
        let path = self.root.join("remote_map.txt");
        let line = |repository: &Repository| format!("{} = {}", repository.places().basehash, repository.id());
        // Only written if something has changed, because several masters may read it.
        let own: Vec<String> = self.repositories.iter().map(line).collect();
        let before = disk::read_text(&path).unwrap_or_default().unwrap_or_default();
        let noted: Vec<&str> = before.lines().skip(1).collect();
        let others = noted.iter().filter(|line| !own.iter().any(|own| own == *line)).map(|line| (*line).to_owned());
        let others: Vec<String> = if self.role == Role::GitFs { Vec::new() } else { others.collect() };
        if noted.len() == own.len() + others.len() && own.iter().all(|line| noted.contains(&line.as_str())) {
            return Ok(());
        }
        let lines = [vec![format!("# {}_remote map", self.role)], own, others].concat().join("\n");
        disk::write(&path, format!("{lines}\n").as_bytes(), Writing::SHARED)?;
        tracing::info!("Wrote new {} remote map to {}", self.role, path.display());
        Ok(())
    }

    /// Fetches one remote. A failure affects only this remote, and is logged in Salt's words.
    pub fn fetch(&self, repository: &Repository) -> Option<Fetched> {
        match repository.fetch() {
            Ok(fetched) => Some(fetched),
            Err(error) => {
                let role = self.role;
                tracing::error!("Error occurred fetching {role} remote '{}': {}", repository.id(), error.chain());
                None
            }
        }
    }

    /// Returns the remotes with one of these names or URLs; all for an empty list.
    pub fn named<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a Repository> {
        let wanted = move |repository: &&Repository| {
            let own = repository.remote.name.as_deref();
            names.is_empty() || names.iter().any(|name| Some(name.as_str()) == own || *name == repository.remote.raw_id)
        };
        self.repositories.iter().filter(wanted)
    }

    /// Removes everything in the cache, and returns what could not be removed.
    pub fn clear_cache(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for directory in [&self.root, &self.lists] {
            if let Err(error) = disk::remove_tree(directory) {
                let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                failures.push(format!("Unable to delete {}: {cause}", directory.display()));
            }
        }
        failures
    }

    /// Removes the locks of remotes whose URL matches the pattern; returns Salt's messages of success and failure.
    pub fn clear_lock(&self, pattern: Option<&str>, kind: LockType) -> (Vec<String>, Vec<String>) {
        let (mut cleared, mut failed) = (Vec::new(), Vec::new());
        for repository in self.fitting(pattern) {
            match repository.lock(kind).clear() {
                Ok(message) => cleared.extend(message),
                Err(message) => failed.push(message),
            }
        }
        (cleared, failed)
    }

    /// Locks the remotes whose URL matches the pattern until they are unlocked; returns Salt's messages of success and failure.
    pub fn set_lock(&self, pattern: Option<&str>) -> (Vec<String>, Vec<String>) {
        let (mut locked, mut failed) = (Vec::new(), Vec::new());
        for repository in self.fitting(pattern) {
            match repository.lock(LockType::Update).set() {
                Ok(message) => locked.extend(message),
                Err(error) => failed.push(error.chain()),
            }
        }
        (locked, failed)
    }

    fn fitting(&self, pattern: Option<&str>) -> impl Iterator<Item = &Repository> {
        let pattern = pattern.filter(|pattern| !pattern.is_empty()).map(Glob::new);
        let fits =
            move |repository: &&Repository| pattern.as_ref().is_none_or(|pattern| pattern.matches(repository.url()));
        self.repositories.iter().filter(fits)
    }
}

fn places(root: &Path, remote: &Remote, hash: HashType) -> Result<Places> {
    let basehash = match &remote.name {
        Some(name) => name.clone(),
        // Salt's name for the directory: the URL itself may contain a password.
        None => STANDARD.encode(hash.digest(remote.raw_id.as_bytes())).replace('/', "_"),
    };
    let plain = !matches!(basehash.as_str(), "" | "." | "..")
        && !basehash.contains(['/', '\0'])
        && !basehash.starts_with('.')
        && !COMMON.contains(&basehash.as_str());
    if !plain {
        return Err(remote.role.wrong(format!(
            "the name '{basehash}' of {} remote '{}' cannot be the name of a directory of its own",
            remote.role,
            remote.id()
        )));
    }
    Ok(Places { cachedir: root.join(&basehash).join("_"), work: root.join("work").join(&basehash).join("_"), basehash })
}

/// Accepts the names of Salt's git providers, all of which mean the program `git`.
fn check_provider(role: Role, options: &Map) -> Result<()> {
    let Some(provider) = options.get(&format!("{role}_provider")).filter(|value| value.truthy()) else { return Ok(()) };
    let provider = values::text(provider).to_lowercase();
    if ["pygit2", "gitpython", "gitcli"].contains(&provider.as_str()) {
        return Ok(());
    }
    Err(role.wrong(format!("Invalid {role}_provider '{provider}'. Valid choices are: pygit2, gitpython, gitcli")))
}

/// Returns the timeout of a fetch (`git_timeout`, in seconds).
fn timeout(options: &Map) -> Duration {
    const DEFAULT: u64 = 600;
    let seconds = options.get("git_timeout").and_then(Value::as_i64).and_then(|number| u64::try_from(number).ok());
    // Zero would let every fetch fail at once.
    Duration::from_secs(seconds.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT))
}
