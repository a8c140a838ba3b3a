//! Updates the backends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use git::Repository;
use value::Map;

use super::backends::{Backend, Chosen};
use super::{FileServer, GitFs, Update};
use crate::Result;

/// The times at which this process fetched each remote, if it runs without a master.
static FETCHED: Mutex<BTreeMap<PathBuf, Instant>> = Mutex::new(BTreeMap::new());

/// The result of updating a backend.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The backend.
    pub backend: &'static str,
    /// True if anything changed.
    pub changed: bool,
    /// The data of the event.
    pub event: Map,
}

impl Updated {
    /// Returns the tag of the event (`fileserver_events`).
    pub fn tag(&self) -> String {
        format!("salt/fileserver/{}/update", self.backend)
    }
}

impl FileServer {
    /// Checks all files of `file_roots`, stores their modification times for the next update, and removes the hashes of files that
    /// are gone. Without the backend `roots` this does nothing.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn update_roots(&self) -> Result<Option<Update>> {
        self.backends
            .iter()
            .find_map(|backend| match backend {
                Backend::Roots(roots) => Some(roots.update()),
                _ => None,
            })
            .transpose()
    }

    fn git(&self) -> Option<&GitFs> {
        self.backends.iter().find_map(|backend| match backend {
            Backend::Git(git) => Some(git),
            _ => None,
        })
    }

    /// Returns the remotes that are fetched periodically, with their intervals.
    pub fn intervals(&self) -> Vec<Duration> {
        let repositories = self.git().map(|git| git.group().repositories()).unwrap_or_default();
        repositories.iter().map(|repository| Duration::from_secs(repository.remote.update_interval)).collect()
    }

    /// Fetches one remote, by its index in [`FileServer::intervals`]. This waits for the network; failures are logged.
    pub fn fetch(&self, number: usize) -> Option<Updated> {
        let git = self.git()?;
        let repository = git.group().repositories().get(number)?;
        Some(of_git(git.update(repository)))
    }

    /// Fetches the remotes that this process has not fetched for their interval, for programs that run without a master. This waits
    /// for the network; failures are logged.
    pub fn fetch_due(&self) {
        let Some(git) = self.git() else { return };
        // Concurrent callers wait for the first fetch too, instead of finding nothing.
        let mut fetched = FETCHED.lock().unwrap_or_else(PoisonError::into_inner);
        for repository in git.group().repositories() {
            let place = repository.places().cachedir.clone();
            let interval = Duration::from_secs(repository.remote.update_interval);
            if fetched.get(&place).is_none_or(|at| at.elapsed() >= interval) {
                git.update(repository);
                fetched.insert(place, Instant::now());
            }
        }
    }

    /// Updates some backends at once; of `gitfs` only the remotes with one of these names, or all.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn update(&self, chosen: &Chosen, remotes: &[String]) -> Result<Vec<Updated>> {
        let mut all = Vec::new();
        for (_, backend) in self.backends_of(chosen) {
            match backend {
                Backend::Roots(roots) => {
                    let update = roots.update()?;
                    all.push(Updated {
                        backend: backend.name(),
                        changed: !update.is_empty(),
                        event: update.to_event(),
                    });
                }
                Backend::Git(git) => {
                    let wanted: Vec<&Repository> = git.group().named(remotes).collect();
                    all.push(of_git(update_all(git, &wanted)));
                }
                Backend::Minion(_) => {}
            }
        }
        Ok(all)
    }
}

fn of_git(changed: bool) -> Updated {
    Updated { backend: super::gitfs::NAME, changed, event: GitFs::event(changed) }
}

/// Fetches all remotes in parallel: one that does not answer delays no other.
fn update_all(git: &GitFs, wanted: &[&Repository]) -> bool {
    std::thread::scope(|scope| {
        let running: Vec<_> = wanted.iter().map(|repository| scope.spawn(|| git.update(repository))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(false)).fold(false, |changed, more| changed | more)
    })
}
