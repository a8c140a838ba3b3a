//! The running jobs, in this process and in other programs on this host.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use exec::{Job, RunningJob};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use store::proc_dir::{self, ProcDir};
use tracing::{debug, warn};
use value::{Map, Value};

/// The jobs that run on this minion, over all masters.
#[derive(Debug)]
pub struct Running {
    jobs: Mutex<BTreeMap<String, Entry>>,
    /// Notes of running jobs on the disk.
    notes: ProcDir,
}

#[derive(Debug)]
struct Entry {
    load: Map,
    since: SystemTime,
    job: Arc<Job>,
}

impl Running {
    /// Creates an empty list. The notes of other programs are below `cachedir`.
    pub fn new(cachedir: &Path) -> Self {
        Running { jobs: Mutex::default(), notes: ProcDir::new(cachedir) }
    }

    /// Removes the notes of jobs that ended long ago.
    ///
    /// # Errors
    /// When the directory of the notes cannot be read.
    pub fn tidy(&self) -> store::Result<()> {
        self.notes.tidy()
    }

    /// Writes a note to disk, for other programs, that a job is running. Dropping the result removes it.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub fn note(&self, jid: &str, load: &Map) -> store::Result<proc_dir::Running> {
        self.notes.enter(jid, std::process::id(), load)
    }

    /// Notes a job for as long as the guard lives. `load` is what `saltutil.running` returns.
    pub fn enter(self: &Arc<Self>, load: Map, since: SystemTime, job: Arc<Job>) -> RunningGuard {
        let jid = job.jid().to_owned();
        self.lock().insert(jid.clone(), Entry { load, since, job });
        RunningGuard { running: self.clone(), jid }
    }

    /// Returns the jobs of this process, by id.
    pub fn list(&self) -> Vec<RunningJob> {
        self.lock().values().map(|entry| RunningJob { load: entry.load.clone(), since: entry.since }).collect()
    }

    /// Returns the running jobs of this machine: in this process and in other programs.
    pub fn list_all(&self, now: SystemTime) -> Vec<RunningJob> {
        let mut running = self.list();
        let others = self.notes.of_others().unwrap_or_else(|reason| {
            warn!("what runs beside this process is not known: {reason}");
            Vec::new()
        });
        running.extend(others.into_iter().map(|load| RunningJob { load, since: now }));
        running
    }

    /// Sends a signal to a job, in this process or in another program. Returns whether there is such a job.
    pub fn signal(&self, jid: &str, signal: i32) -> bool {
        if self.signal_here(jid, signal) {
            return true;
        }
        let others = self.notes.of_others().unwrap_or_default();
        others.iter().any(|note| note.get_str("jid") == Some(jid) && signal_process(note, signal))
    }

    /// Sends a signal to the process groups of a job. A signal that ends processes also ends the job. Returns whether
    /// there is such a job.
    fn signal_here(&self, jid: &str, signal: i32) -> bool {
        let Some(job) = self.lock().get(jid).map(|entry| entry.job.clone()) else { return false };
        signal_children(&job, signal);
        if signal == Signal::SIGTERM as i32 || signal == Signal::SIGKILL as i32 {
            job.cancel.cancel();
        }
        true
    }

    /// Ends all jobs, because the minion stops.
    pub fn end_all(&self) {
        let jobs: Vec<_> = self.lock().values().map(|entry| entry.job.clone()).collect();
        // Outside the lock: ending jobs remove themselves from the map.
        for job in jobs {
            signal_children(&job, Signal::SIGTERM as i32);
            job.cancel.cancel();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Entry>> {
        // The map is whole after any panic: each change is one insert or one remove.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a signal to the process of a job outside this minion (`salt-call`). Returns whether it could be sent.
fn signal_process(note: &Map, signal: i32) -> bool {
    // Never zero or negative: those mean process groups, ours among them.
    let pid = note.get("pid").and_then(Value::as_i64).and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
    let Some((pid, signal)) = pid.zip(Signal::try_from(signal).ok()) else { return false };
    kill(Pid::from_raw(pid), signal).is_ok()
}

fn signal_children(job: &Job, signal: i32) {
    let Ok(signal) = Signal::try_from(signal) else {
        warn!(jid = job.jid(), signal, "no such signal");
        return;
    };
    for pid in job.children() {
        // A child leads a process group of its own, so that what it started is reached, too.
        if let Err(error) = kill(Pid::from_raw(-pid), signal) {
            debug!(jid = job.jid(), pid, %error, "could not signal a child process");
        }
    }
}

/// Forgets the job when dropped.
#[derive(Debug)]
pub struct RunningGuard {
    running: Arc<Running>,
    jid: String,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.running.lock().remove(&self.jid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn a_job_is_listed_while_its_guard_lives_and_ends_when_killed() {
        let dir = tempfile::tempdir().unwrap();
        let running = Arc::new(Running::new(dir.path()));
        let job = Arc::new(Job::new(map! { "jid" => "1" }));
        let guard = running.enter(map! { "jid" => "1", "pid" => 7 }, SystemTime::UNIX_EPOCH, job.clone());
        assert_eq!(running.list()[0].jid(), "1");
        assert!(!running.signal("2", 9));
        assert!(running.signal("1", 9));
        assert!(job.cancel.is_cancelled());
        drop(guard);
        assert!(running.list().is_empty());
    }
}
