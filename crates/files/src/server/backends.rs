//! The backends, and choosing among them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use config::FileSettings;
use git::{Group, LockType};
use value::{Map, Value, map};

use super::gitfs::{self, GitFs};
use super::ignored::Ignored;
use super::minionfs::{self, MinionFs};
use super::roots::{self, RootsFs};
use super::{FileServer, Lists};
use crate::Result;

/// A source of files.
pub(super) enum Backend {
    Roots(RootsFs),
    Git(GitFs),
    Minion(MinionFs),
}

impl Backend {
    /// Returns Salt's name.
    pub fn name(&self) -> &'static str {
        match self {
            Backend::Roots(_) => roots::NAME,
            Backend::Git(_) => gitfs::NAME,
            Backend::Minion(_) => minionfs::NAME,
        }
    }

    pub fn envs(&self) -> Vec<String> {
        match self {
            Backend::Roots(roots) => roots.envs(),
            Backend::Git(git) => git.envs(),
            Backend::Minion(minions) => minions.envs(),
        }
    }

    fn lists(&self, env: &str) -> Result<Lists> {
        match self {
            Backend::Roots(roots) => roots.lists(env),
            Backend::Git(git) => git.lists(env),
            Backend::Minion(minions) => minions.lists(env),
        }
    }

    fn group(&self) -> Option<&Group> {
        match self {
            Backend::Git(git) => Some(git.group()),
            _ => None,
        }
    }
}

/// Some of a server's backends in order, with the names by which they were requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen(Vec<(String, usize)>);

impl Chosen {
    /// Returns the names by which they were requested, in order.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// Returns the full name of a backend: `git` is `gitfs`, `minion` is `minionfs`.
fn full_name(name: &str) -> &str {
    match name {
        "git" => gitfs::NAME,
        "minion" => minionfs::NAME,
        name => name,
    }
}

/// Opens the backends in the order of the option. Unknown ones are left out, and so is `minionfs` if minions may not push.
pub(super) fn open(
    settings: &FileSettings,
    options: &Map,
    ignored: &Arc<Ignored>,
    cachedir: &Path,
) -> Result<Vec<Backend>> {
    let mut backends: Vec<Backend> = Vec::new();
    let mut seen = BTreeSet::new();
    for name in settings.fileserver_backend.iter().map(|name| full_name(name)) {
        // `git` and `gitfs` in one list are the same backend.
        if !seen.insert(name.to_owned()) {
            continue;
        }
        let ignored = Arc::clone(ignored);
        match name {
            roots::NAME => backends.push(Backend::Roots(RootsFs::new(settings, ignored, cachedir)?)),
            gitfs::NAME => match GitFs::new(settings, options, cachedir) {
                Ok(git) => backends.push(Backend::Git(git)),
                // Salt's option to start with a broken backend. By default a master must not silently serve fewer
                // files.
                Err(error) if options.get("fileserver_verify_config").is_some_and(|verify| !verify.truthy()) => {
                    tracing::error!("{error}");
                }
                Err(error) => return Err(error),
            },
            minionfs::NAME if settings.file_recv => {
                backends.push(Backend::Minion(MinionFs::new(settings, options, ignored, cachedir)?));
            }
            _ => {}
        }
    }
    Ok(backends)
}

impl FileServer {
    /// Returns all backends.
    pub fn all(&self) -> Chosen {
        let named = self.backends.iter().enumerate();
        Chosen(named.map(|(number, backend)| (backend.name().to_owned(), number)).collect())
    }

    /// Chooses backends by name, as Salt's runners do. No name means all. Names with a leading minus remove backends, unless there
    /// are names without one.
    pub fn choose(&self, names: &[String]) -> Chosen {
        let names: Vec<&str> = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
        let position = |name: &str| self.backends.iter().position(|backend| backend.name() == full_name(name));
        // Also true for no names at all: then nothing is removed.
        if names.iter().all(|name| name.starts_with('-')) {
            let removed: Vec<_> = names.iter().filter_map(|name| position(&name[1..])).collect();
            let Chosen(mut all) = self.all();
            all.retain(|(_, number)| !removed.contains(number));
            return Chosen(all);
        }
        Chosen(names.into_iter().filter_map(|name| Some((name.to_owned(), position(name)?))).collect())
    }

    pub(super) fn backends_of<'a>(&'a self, chosen: &'a Chosen) -> impl Iterator<Item = (&'a str, &'a Backend)> {
        chosen.0.iter().filter_map(|(name, number)| Some((name.as_str(), self.backends.get(*number)?)))
    }

    /// Returns the names of all environments of some backends in alphabetical order.
    pub fn envs_of(&self, chosen: &Chosen) -> Vec<String> {
        let all: BTreeSet<String> = self.backends_of(chosen).flat_map(|(_, backend)| backend.envs()).collect();
        all.into_iter().collect()
    }

    /// Returns the contents of an environment in some backends.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn lists_of(&self, chosen: &Chosen, env: &str) -> Result<Lists> {
        let mut backends = self.backends_of(chosen);
        let Some((_, first)) = backends.next() else { return Ok(Lists::default()) };
        let mut lists = first.lists(env)?;
        for (_, backend) in backends {
            // Lists are merged, while a single file comes from the first backend that has it.
            lists.add(backend.lists(env)?);
        }
        Ok(lists)
    }

    /// Removes the lists on disk of some environments or of all, and returns by backend which environments had one.
    ///
    /// # Errors
    /// If one of them cannot be removed.
    pub fn clear_lists(&self, chosen: &Chosen, envs: Option<&[String]>) -> Result<Map> {
        let mut all = Map::new();
        for (_, backend) in self.backends_of(chosen) {
            let Backend::Roots(roots) = backend else { continue };
            let mut cleared = match envs {
                None => roots.clear_lists(None)?,
                Some(envs) => {
                    let mut cleared = Vec::new();
                    for env in envs {
                        cleared.extend(roots.clear_lists(Some(env))?);
                    }
                    cleared
                }
            };
            cleared.sort();
            if !cleared.is_empty() {
                all.insert(backend.name(), cleared);
            }
        }
        Ok(all)
    }

    /// Removes everything that backends fetched; returns Salt's lists `cleared` and `errors`.
    pub fn clear_cache(&self, chosen: &Chosen) -> Map {
        let (mut cleared, mut errors) = (Vec::new(), Vec::new());
        for (name, backend) in self.backends_of(chosen) {
            let Some(group) = backend.group() else { continue };
            match group.clear_cache() {
                failed if failed.is_empty() => {
                    cleared.push(format!("The {name} fileserver cache was successfully cleared"));
                }
                failed => errors.extend(failed),
            }
        }
        answer("cleared", cleared, errors)
    }

    /// Removes the locks of remotes whose URL matches a pattern; returns Salt's lists `cleared` and `errors`.
    pub fn clear_lock(&self, chosen: &Chosen, remote: Option<&str>) -> Map {
        let (mut cleared, mut errors) = (Vec::new(), Vec::new());
        for (_, backend) in self.backends_of(chosen) {
            let Some(group) = backend.group() else { continue };
            let (done, failed) = group.clear_lock(remote, LockType::Update);
            cleared.extend(done);
            errors.extend(failed);
        }
        answer("cleared", cleared, errors)
    }

    /// Locks the remotes whose URL matches a pattern; returns Salt's lists `locked` and `errors`.
    pub fn lock(&self, chosen: &Chosen, remote: Option<&Value>) -> Map {
        let (mut locked, mut errors) = (Vec::new(), Vec::new());
        for (_, backend) in self.backends_of(chosen) {
            let Some(group) = backend.group() else { continue };
            let pattern = match remote.filter(|remote| remote.truthy()) {
                None => None,
                Some(Value::Str(pattern)) => Some(pattern.to_string()),
                Some(other) => {
                    errors.push(format!("Badly formatted remote pattern '{other}'"));
                    continue;
                }
            };
            let (done, failed) = group.set_lock(pattern.as_deref());
            locked.extend(done);
            errors.extend(failed);
        }
        answer("locked", locked, errors)
    }
}

fn answer(what: &str, done: Vec<String>, errors: Vec<String>) -> Map {
    let mut answer = map! { what => done, "errors" => errors };
    // Salt's runners show only what is not empty.
    answer.retain(|_, said| said.truthy());
    answer
}
