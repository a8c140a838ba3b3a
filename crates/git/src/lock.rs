//! Lock files in the form of Salt's masters: the process and the machine that hold the lock, one line each.

use std::collections::HashSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::{Error, Result, Role};

/// The operation that a lock protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockType {
    /// Fetching.
    Update,
    /// Checking out.
    Checkout,
    /// Mounting at another path.
    Mountpoint,
}

impl LockType {
    /// All operations.
    pub const ALL: [LockType; 3] = [LockType::Update, LockType::Checkout, LockType::Mountpoint];

    /// Returns Salt's name.
    pub fn name(self) -> &'static str {
        match self {
            LockType::Update => "update",
            LockType::Checkout => "checkout",
            LockType::Mountpoint => "mountpoint",
        }
    }

    /// Returns the operation with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A lock of one remote, not yet taken.
#[derive(Clone, Debug)]
pub struct Lock<'a> {
    /// The lock file.
    pub path: PathBuf,
    /// The protected operation.
    pub kind: LockType,
    /// The role of the remote.
    pub role: Role,
    /// The id of the remote, without its password.
    pub id: &'a str,
    /// Its URL, without its password.
    pub url: &'a str,
    /// True if locks of other machines are respected (`gitfs_global_lock`).
    pub global: bool,
    /// The id of this machine.
    pub machine: &'a str,
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Held(PathBuf);

/// A lock of another machine that is older was left by a master that is gone.
const ABANDONED: Duration = Duration::from_secs(3600);
/// A lock without a process that is younger was just created, and its process is about to be written.
const WRITTEN: Duration = Duration::from_secs(5);
/// The third line of a lock that an operator set.
const BY_HAND: &str = "manual";

/// Locks that this process holds. They distinguish its locks from those of an earlier process with the same pid.
static OWN_LOCKS: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// Held while this process takes or gives back a lock: in between, its file and [`OWN_LOCKS`] do not agree, and another thread would
/// take the lock for one of an earlier process.
static GATE: Mutex<()> = Mutex::new(());

fn gate() -> MutexGuard<'static, ()> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ours<T>(with: impl FnOnce(&mut HashSet<PathBuf>) -> T) -> T {
    with(OWN_LOCKS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl Drop for Held {
    fn drop(&mut self) {
        let _gate = gate();
        ours(|ours| ours.remove(&self.0));
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::error!("failed to remove {}: {error}", self.0.display());
        }
    }
}

/// The content of a lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holder {
    process: i32,
    machine: String,
    by_hand: bool,
}

impl Holder {
    fn read(content: &str) -> Self {
        let mut lines = content.lines().map(str::trim);
        Holder {
            process: lines.next().and_then(|line| line.parse().ok()).unwrap_or(0),
            machine: lines.next().unwrap_or_default().to_owned(),
            by_hand: lines.next() == Some(BY_HAND),
        }
    }
}

/// Facts about an existing lock.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// True if its process runs on this machine.
    runs: bool,
    same_machine: bool,
    age: Duration,
}

/// The treatment of an existing lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Respect,
    Break,
}

/// Decides about an existing lock. A global lock is broken only if a dead process of this machine holds it, or if it is so old
/// that no machine can still hold it; another lock, if its process does not run on this machine.
fn judge(holder: &Holder, facts: Facts, global: bool) -> Verdict {
    let abandoned = facts.age > ABANDONED && !facts.runs;
    let broken = if holder.by_hand || (holder.process == 0 && facts.age < WRITTEN) {
        false
    // Without the global lock, masters on other machines do not matter, whatever they wrote.
    } else if !global {
        !facts.runs
    // Nothing can be found out about a process of another machine, or about a file without a process. Only time helps.
    } else if holder.process == 0 || !facts.same_machine {
        abandoned
    } else {
        !facts.runs
    };
    if broken { Verdict::Break } else { Verdict::Respect }
}

impl Lock<'_> {
    /// Takes the lock. Returns `None` if another process holds it, which is logged.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn take(&self) -> Result<Option<Held>> {
        let _gate = gate();
        let held = self.place(false)?.then(|| Held(self.path.clone()));
        if held.is_some() {
            ours(|ours| ours.insert(self.path.clone()));
        }
        Ok(held)
    }

    /// Sets the lock for an operator: it stays until it is cleared. Returns Salt's message, or `None` if the lock is
    /// held already.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set(&self) -> Result<Option<String>> {
        Ok(self.place(true)?.then(|| {
            format!(
                "Set {} lock for {} remote '{}' on machine_id '{}'",
                self.kind.name(),
                self.role,
                self.id,
                self.machine
            )
        }))
    }

    /// Removes the lock, no matter which process holds it. Returns Salt's message, or `None` if there was none.
    ///
    /// # Errors
    /// Salt's message, if the file cannot be removed.
    pub fn clear(&self) -> std::result::Result<Option<String>, String> {
        let outcome = match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() == ErrorKind::IsADirectory => std::fs::remove_dir_all(&self.path),
            outcome => outcome,
        };
        match outcome {
            Ok(()) => Ok(Some(format!(
                "Removed {} lock for {} remote '{}' on machine_id '{}'",
                self.kind.name(),
                self.role,
                self.id,
                self.machine
            ))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(format!("Unable to remove update lock for {} ({}): {error} ", self.url, self.path.display()))
            }
        }
    }

    /// Logs why a fetch is skipped because of this lock.
    pub fn tell_skipped(&self) {
        tracing::warn!(
            "Update lock file is present for {role} remote '{}', skipping. If this warning persists, it is possible that \
             the update process was interrupted, but the lock could also have been manually set. Removing {} or running \
             'salt-run cache.clear_git_lock {role} type=update' will allow updates to continue for this remote.",
            self.id,
            self.path.display(),
            role = self.role,
        );
    }

    fn place(&self, by_hand: bool) -> Result<bool> {
        // After breaking a lock, another process may take it first.
        // Bounded: if others keep being faster, one of them is fetching, which is all that is needed.
        for _ in 0..3 {
            match self.create(by_hand) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("set the lock", &self.path)(error)),
            }
            if !self.broken()? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    fn create(&self, by_hand: bool) -> std::io::Result<()> {
        if let Some(directory) = self.path.parent() {
            store::disk::make_directories(directory)?;
        }
        // `create_new` decides between processes, also on network file systems.
        let mut file = store::disk::private_file().write(true).create_new(true).open(&self.path)?;
        let note = if by_hand { format!("{BY_HAND}\n") } else { String::new() };
        file.write_all(format!("{}\n{}\n{note}", std::process::id(), self.machine).as_bytes())
    }

    /// Breaks the existing lock, if that is allowed.
    fn broken(&self) -> Result<bool> {
        let content = match std::fs::read_to_string(&self.path) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(Error::io("read the lock", &self.path)(error)),
        };
        let holder = Holder::read(&content);
        let modified = std::fs::metadata(&self.path).and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|time| SystemTime::now().duration_since(time).ok()).unwrap_or_default();
        let same_machine = holder.machine == self.machine;
        let runs = runs(holder.process, &self.path);
        let verdict = judge(&holder, Facts { runs, same_machine, age }, self.global);
        self.tell(&holder, runs, same_machine, verdict);
        if verdict == Verdict::Respect {
            return Ok(false);
        }
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove the lock", &self.path)(error)),
            _ => Ok(true),
        }
    }

    fn tell(&self, holder: &Holder, runs: bool, same_machine: bool, verdict: Verdict) {
        let (kind, path, pid) = (self.kind.name(), self.path.display(), holder.process);
        let (role, id, machine) = (self.role, self.id, self.machine);
        let mut text = if self.global {
            format!(
                "{role}_global_lock is enabled and {kind} lockfile {path} is present for {role} remote '{id}' on \
                 machine_id {machine} with pid '{pid}'."
            )
        } else {
            format!("Process {pid} has a {role} {kind} lock ({path}) on machine_id {machine}")
        };
        if self.global && pid != 0 {
            let of = &holder.machine;
            text += &format!(" Process {pid} obtained the lock for machine_id {of}, current machine_id {machine}");
            if holder.by_hand {
                text += "; it was set by hand";
            } else if !runs && !same_machine {
                text += &format!(
                    " but this process is not running. The update may have been interrupted. If using multi-master with \
                     shared gitfs cache, the lock may have been obtained by another master, with machine_id {of}"
                );
            } else if !runs {
                text += " but this process is not running. The update may have been interrupted.  Given this process is \
                         for the same machine the lock will be reallocated to new process ";
            }
        } else if !self.global && verdict == Verdict::Break {
            text += ", but this process is not running. Cleaning up lock file.";
        }
        if verdict == Verdict::Break && !same_machine && self.global {
            text += &format!(". It is older than {} minutes and is removed", ABANDONED.as_secs() / 60);
        }
        tracing::warn!("{text}");
    }
}

/// Returns whether a process of this machine runs and may hold the lock.
fn runs(process: i32, path: &Path) -> bool {
    if process <= 0 {
        return false;
    }
    if process.cast_unsigned() == std::process::id() {
        // In a container every start may have the same process id.
        return ours(|ours| ours.contains(path));
    }
    let probe = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), None);
    // Any other error, such as a missing right to signal it, means that the process exists.
    !matches!(probe, Err(nix::errno::Errno::ESRCH))
}

/// Returns the id of this machine, by which masters that share a cache are distinguished.
pub fn machine_id() -> String {
    let places = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let id = places.iter().find_map(|place| std::fs::read_to_string(place).ok());
    // Salt's text, since its masters write it into the same lock files.
    id.map_or_else(|| "no_machine_id_available".to_owned(), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &Path, global: bool) -> Lock<'static> {
        Lock {
            path: path.to_owned(),
            kind: LockType::Update,
            role: Role::GitFs,
            id: "file:///r",
            url: "file:///r",
            global,
            machine: "here",
        }
    }

    #[test]
    fn existing_locks_are_judged() {
        let dead = Holder { process: 7, machine: "there".into(), by_hand: false };
        let facts =
            |runs, same_machine, hours: u64| Facts { runs, same_machine, age: Duration::from_secs(3600 * hours + 1) };
        use Verdict::{Break, Respect};
        for (holder, facts, global, expected) in [
            (&dead, facts(false, true, 0), true, Break),
            (&dead, facts(true, true, 9), true, Respect),
            (&dead, facts(false, false, 0), true, Respect),
            (&dead, facts(false, false, 1), true, Break),
            (&dead, facts(false, false, 0), false, Break),
            (&dead, facts(true, false, 0), false, Respect),
            (&Holder::default(), facts(false, false, 0), true, Respect),
            // It may be just being written.
            (&Holder::default(), facts(false, false, 0), false, Respect),
            (&Holder::default(), facts(false, false, 1), false, Break),
            (&Holder { by_hand: true, ..dead.clone() }, facts(false, true, 9), true, Respect),
        ] {
            assert_eq!(judge(holder, facts, global), expected, "{holder:?} {facts:?} {global}");
        }
    }

    #[test]
    fn a_lock_is_held_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("work/update.lk");
        let held = lock(&path, true).take().unwrap().unwrap();
        let content = std::fs::read_to_string(&path).unwrap();
        assert_eq!(content, format!("{}\nhere\n", std::process::id()));
        assert!(lock(&path, true).take().unwrap().is_none());
        assert!(lock(&path, false).take().unwrap().is_none());
        drop(held);
        assert!(!path.exists());
        // A lock of an earlier process with our pid.
        std::fs::write(&path, content).unwrap();
        assert!(lock(&path, true).take().unwrap().is_some());
    }

    #[test]
    fn a_lock_set_by_hand_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("update.lk");
        let message = lock(&path, true).set().unwrap().unwrap();
        assert_eq!(message, "Set update lock for gitfs remote 'file:///r' on machine_id 'here'");
        assert!(lock(&path, true).take().unwrap().is_none());
        let message = lock(&path, true).clear().unwrap().unwrap();
        assert_eq!(message, "Removed update lock for gitfs remote 'file:///r' on machine_id 'here'");
        assert_eq!(lock(&path, true).clear(), Ok(None));
    }

    #[test]
    fn a_lock_of_another_machine_stays_for_an_hour() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("update.lk");
        std::fs::write(&path, "999999999\nthere\n").unwrap();
        assert!(lock(&path, true).take().unwrap().is_none());
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - ABANDONED - Duration::from_secs(5)).unwrap();
        assert!(lock(&path, true).take().unwrap().is_some());
    }
}
