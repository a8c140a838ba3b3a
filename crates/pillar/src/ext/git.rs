//! The external pillar `git`: pillar from the directories of repositories.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::Roots;
use git::{GitPillar, PillarDir, Repository, RequestedEnvs};
use value::{Map, Value};

use super::{External, ExternalCall};

/// The remotes of all `git` entries in `ext_pillar`.
pub struct GitExternal {
    options: Map,
    cachedir: PathBuf,
    /// True if a remote is fetched when it is first needed, because on a minion without a master nothing else fetches
    /// it.
    fetches: bool,
    known: Mutex<Vec<(Value, Arc<GitPillar>)>>,
    /// The time at which each remote was last fetched on demand, by its id.
    fetched: Mutex<HashMap<String, Instant>>,
}

/// The number of cached sources.
const MAX: usize = 64;
/// The pause after a failed fetch on demand.
const PAUSE: Duration = Duration::from_secs(60);

impl GitExternal {
    /// Reads the remotes in the option `ext_pillar`. Nothing is fetched.
    ///
    /// # Errors
    /// If something about them is wrong, in Salt's words.
    pub fn new(options: &Map, cachedir: &Path) -> Result<Self, git::Error> {
        let external = GitExternal {
            options: options.clone(),
            cachedir: cachedir.to_owned(),
            fetches: options.get_str("__role") == Some("minion"),
            known: Mutex::default(),
            fetched: Mutex::default(),
        };
        for entry in options.get("ext_pillar").and_then(Value::as_list).unwrap_or_default() {
            if let Some(remotes) = entry.get("git") {
                external.source(remotes)?;
            }
        }
        Ok(external)
    }

    /// Returns the remotes of a master. If `git_pillar_verify_config` is off, invalid options are only logged, and the pillar is
    /// compiled without any remotes.
    ///
    /// # Errors
    /// If something about them is wrong, in Salt's words.
    pub fn of_master(master: &config::Master) -> Result<Self, git::Error> {
        let verify = master.raw.get("git_pillar_verify_config").is_none_or(Value::truthy);
        match Self::new(&master.raw, &master.paths.cachedir) {
            Err(error) if !verify => {
                tracing::error!("Could not initialize git_pillar: {error}");
                let mut without = master.raw.clone();
                without.remove("ext_pillar");
                Self::new(&without, &master.paths.cachedir)
            }
            outcome => outcome,
        }
    }

    /// Makes this external pillar fetch remotes when they are needed, for programs without a background task that does.
    pub fn fetching(self) -> Self {
        GitExternal { fetches: true, ..self }
    }

    /// Returns the sources, one for each `git` in the options.
    pub fn sources(&self) -> Vec<Arc<GitPillar>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(_, source)| Arc::clone(source)).collect()
    }

    /// Returns the source for a list of remotes, which a minion may have requested itself.
    fn source(&self, remotes: &Value) -> Result<Arc<GitPillar>, git::Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, source)) = known.iter().find(|(given, _)| given == remotes) {
            return Ok(Arc::clone(source));
        }
        if known.len() >= MAX {
            // Minions that may request other sources must not fill the memory.
            return Ok(Arc::new(GitPillar::new(remotes, &self.options, &self.cachedir)?));
        }
        let source = Arc::new(GitPillar::new(remotes, &self.options, &self.cachedir)?);
        known.push((remotes.clone(), Arc::clone(&source)));
        Ok(source)
    }

    /// Returns the source, after fetching missing remotes.
    fn ready(&self, remotes: &Value) -> Result<Arc<GitPillar>, String> {
        let source = self.source(remotes).map_err(|error| error.to_string())?;
        for repository in source.group().repositories() {
            if self.fetches || is_empty(repository) {
                self.fetch_needed(&source, repository);
            }
        }
        Ok(source)
    }

    /// Fetches a remote that is needed now. Others that need it wait too, instead of compiling without it.
    fn fetch_needed(&self, source: &GitPillar, repository: &Repository) {
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked again under the lock: another request may have just fetched the remote, or failed to.
        let lately = fetched.get(repository.id()).is_some_and(|at| at.elapsed() < PAUSE);
        if lately || !(self.fetches || is_empty(repository)) {
            return;
        }
        source.fetch(repository);
        fetched.insert(repository.id().to_owned(), Instant::now());
    }
}

/// Returns whether the remote has never been fetched.
fn is_empty(repository: &Repository) -> bool {
    repository.snapshot().names().next().is_none()
}

/// Without this entry in `_errors` the minion would apply states with half a pillar.
fn unreadable(repository: &Repository) -> Value {
    let id = repository.id();
    format!("Failed to load ext_pillar git: remote '{id}' could not be fetched. Please see master log for details.")
        .into()
}

impl External for GitExternal {
    fn name(&self) -> &str {
        "git"
    }

    fn load(&self, call: &ExternalCall) -> Result<Map, String> {
        let source = self.ready(call.arguments)?;
        let unread: Vec<Value> =
            source.group().repositories().iter().filter(|repo| is_empty(repo)).map(unreadable).collect();
        let directories = source.directories(&RequestedEnvs { pillarenv: call.pillarenv, saltenv: call.saltenv });
        let mut pillar = Map::new();
        for (number, directory) in directories.iter().enumerate() {
            // Directories that are mounted elsewhere only serve as includes of others.
            let other = call.pillarenv.is_some_and(|env| !env.is_empty() && env != directory.env);
            if directory.mounted || other {
                continue;
            }
            let roots = roots_of(&directories, number, source.includes);
            let own = call.compile(Roots::new([(directory.env.clone(), roots)]), call.pillarenv);
            pillar = call.merged(pillar, &own);
        }
        if !unread.is_empty()
            && let Value::List(errors) = pillar.entry_or_insert_with("_errors", || Value::List(Vec::new()))
        {
            errors.extend(unread);
        }
        Ok(pillar)
    }
}

/// Returns the directories of one remote's pillar: its own, whose top file counts, then those of its environment.
fn roots_of(directories: &[PillarDir], own: usize, includes: bool) -> Vec<PathBuf> {
    let mut roots = vec![directories[own].path.clone()];
    let others = directories.iter().enumerate().filter(|(number, other)| {
        includes && *number != own && other.env == directories[own].env && other.path != directories[own].path
    });
    roots.extend(others.map(|(_, other)| other.path.clone()));
    roots
}
