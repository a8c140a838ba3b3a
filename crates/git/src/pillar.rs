//! Pillar from repositories (`git_pillar`).

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::disk;
use value::{Map, Value};

use crate::{Error, Fetched, Group, Repository, Result, Role, checkout};

/// The branch name that means the requested environment.
const ANY: &str = "__env__";
/// Directories that were not used for this time are removed.
const UNUSED: Duration = Duration::from_secs(24 * 3600);

/// The repositories of one external pillar `git`.
pub struct GitPillar {
    group: Group,
    /// The branch that is `base` for all remotes.
    base: String,
    /// True if files of other remotes of an environment may be included.
    pub includes: bool,
}

/// A directory of pillar files. It has one commit and never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PillarDir {
    /// The directory.
    pub path: PathBuf,
    /// Its environment.
    pub env: String,
    /// True if it is mounted at another path, so it has no top file.
    pub mounted: bool,
}

/// The requested environments.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestedEnvs<'a> {
    /// The environment of pillar.
    pub pillarenv: Option<&'a str>,
    /// The environment of states.
    pub saltenv: Option<&'a str>,
}

impl RequestedEnvs<'_> {
    fn env(&self) -> Option<&str> {
        self.pillarenv.filter(|env| !env.is_empty()).or(self.saltenv.filter(|env| !env.is_empty()))
    }
}

impl GitPillar {
    /// Reads the remotes of a `git` in `ext_pillar`.
    ///
    /// # Errors
    /// If something about them is wrong, in Salt's words.
    pub fn new(remotes: &Value, options: &Map, cachedir: &Path) -> Result<Self> {
        let remotes = match remotes {
            Value::List(remotes) => remotes.clone(),
            other => vec![other.clone()],
        };
        let group = Group::new(Role::GitPillar, &remotes, options, cachedir)?;
        let base = options.get("git_pillar_base").map_or_else(|| "master".to_owned(), crate::values::text);
        let includes = options.get("git_pillar_includes").is_none_or(Value::truthy);
        Ok(GitPillar { group, base, includes })
    }

    /// Returns the remotes.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Fetches one remote.
    pub fn fetch(&self, repository: &Repository) -> Option<Fetched> {
        if let Err(error) = self.group.prepare() {
            tracing::error!("failed to prepare the cache of git_pillar: {}", error.chain());
        }
        let fetched = self.group.fetch(repository);
        for place in [self.checkouts(), self.mounts()] {
            checkout::remove_old(&place, UNUSED);
        }
        fetched
    }

    fn checkouts(&self) -> PathBuf {
        self.group.root().join("checkouts")
    }

    fn mounts(&self) -> PathBuf {
        self.group.root().join("mounts")
    }

    /// Returns the directories for a request, in the order of the remotes, each with its environment. A remote that cannot be used
    /// is left out, and the reason is logged.
    pub fn directories(&self, wanted: &RequestedEnvs) -> Vec<PillarDir> {
        let mut directories = Vec::new();
        for repository in self.group.repositories() {
            match self.directory(repository, wanted) {
                Ok(found) => directories.extend(found),
                Err(error) => {
                    tracing::error!("failed to check out git_pillar remote '{}': {}", repository.id(), error.chain());
                }
            }
        }
        directories
    }

    fn directory(&self, repository: &Repository, wanted: &RequestedEnvs) -> Result<Option<PillarDir>> {
        let remote = &repository.remote;
        let target = self.target(repository, wanted);
        let Some(tree) = find(repository, &target)? else {
            tracing::error!(
                "Failed to checkout {target} from git_pillar remote '{}': remote ref does not exist",
                repository.id()
            );
            return Ok(None);
        };
        let root = remote.root.trim_matches('/');
        // Checked in the tree, before anything is written to the disk.
        if !root.is_empty() && tree.directory(root).is_none() {
            tracing::error!(
                "Root path '{}' not present in git_pillar remote '{}', skipping.",
                remote.root,
                repository.id()
            );
            return Ok(None);
        }
        let checkout = checkout::directory(&self.checkouts(), repository, &tree)?;
        let served = if root.is_empty() { checkout } else { checkout.join(root) };
        let env = self.env(repository, &target, wanted);
        if remote.mountpoint.is_empty() {
            return Ok(Some(PillarDir { path: served, env, mounted: false }));
        }
        let path = self.mount(&served, tree.oid.as_str(), root, &remote.mountpoint)?;
        Ok(Some(PillarDir { path, env, mounted: true }))
    }

    /// Returns the branch or tag to check out.
    fn target(&self, repository: &Repository, wanted: &RequestedEnvs) -> String {
        let remote = &repository.remote;
        if remote.branch != ANY {
            return remote.branch.clone();
        }
        if let Some(all) = &remote.all_saltenvs {
            return all.clone();
        }
        match wanted.env() {
            None | Some("base") => remote.base.clone(),
            // A branch with the name of the environment.
            Some(env) => env.to_owned(),
        }
    }

    /// Returns the environment that a remote serves.
    fn env(&self, repository: &Repository, target: &str, wanted: &RequestedEnvs) -> String {
        let remote = &repository.remote;
        if remote.branch == ANY && remote.all_saltenvs.is_some() {
            return wanted.env().unwrap_or("base").to_owned();
        }
        match remote.env.as_str() {
            "" if remote.branch == remote.base || target == remote.base => "base".to_owned(),
            "" => target.to_owned(),
            ANY => wanted.env().unwrap_or(&self.base).to_owned(),
            env => env.to_owned(),
        }
    }

    /// Returns a directory with the files at the mountpoint.
    fn mount(&self, served: &Path, tree: &str, root: &str, mountpoint: &str) -> Result<PathBuf> {
        let parts: Vec<&str> = mountpoint.split('/').filter(|part| !part.is_empty()).collect();
        // The mountpoint comes from the configuration, but a mistake in it must not place links elsewhere.
        if parts.iter().any(|part| matches!(*part, "." | "..")) || mountpoint.contains('\0') {
            return Err(self.group.role().wrong(format!("the mountpoint '{mountpoint}' is not below the pillar")));
        }
        // Everything that makes a difference is in the name, so a mount never changes after it is made.
        let name = crypto::HashType::Sha256.hex(format!("{tree}\0{root}\0{mountpoint}").as_bytes());
        let place = self.mounts().join(name);
        let link = parts.iter().fold(place.clone(), |path, part| path.join(part));
        if link.is_dir() {
            checkout::renew(&place);
            return Ok(place);
        }
        disk::make_directory(link.parent().unwrap_or(&place))?;
        // An existing link was made by another process for the same name, and so leads to the same place.
        match symlink(served, &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::io("link", &link)(error)),
            _ => Ok(place),
        }
    }
}

/// Looks for a branch, then for a tag, then for the fallback.
fn find(repository: &Repository, target: &str) -> Result<Option<std::sync::Arc<crate::Tree>>> {
    let fallback = Some(repository.remote.fallback.as_str()).filter(|name| !name.is_empty());
    for name in [Some(target), fallback].into_iter().flatten() {
        let snapshot = repository.snapshot();
        if let Some(tree) = repository.tree_of(&snapshot, name)? {
            return Ok(Some(tree));
        }
    }
    Ok(None)
}
