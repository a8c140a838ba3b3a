//! Runs the program `git` to fetch and read repositories.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::cat_file::CatFile;
use crate::command::command;
use crate::object::{Objects, Oid};
use crate::{Error, Result, Secret};

/// Operations on repositories. The program is one implementation.
pub trait Git: Send + Sync {
    /// Creates an empty bare repository.
    fn create(&self, repository: &Path) -> Result<()>;

    /// Fetches with the repository's configuration, and removes references that the remote no longer has.
    fn fetch(&self, fetch: &Fetch) -> Result<()>;

    /// Returns all references with their objects.
    fn refs(&self, repository: &Path) -> Result<Vec<(String, Oid)>>;

    /// Returns a reader of objects.
    fn objects(&self, repository: &Path) -> Result<Box<dyn Objects>>;
}

/// A fetch of the remote `origin`.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The repository.
    pub repository: PathBuf,
    /// The number of commits of each branch to fetch; all if `None`.
    pub depth: Option<u32>,
    /// Environment variables. Passwords are nowhere else.
    pub environment: Vec<(&'static str, Secret)>,
    /// The timeout.
    pub timeout: Duration,
}

/// The program `git` of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Program;

/// The timeout of work on the local disk.
const LOCAL: Duration = Duration::from_secs(300);

impl Git for Program {
    fn create(&self, repository: &Path) -> Result<()> {
        store::disk::make_directories(repository).map_err(Error::io("make", repository))?;
        let mut command = command(repository);
        // Templates of the system may contain hooks.
        command.args(["init", "--quiet", "--bare", "--template="]);
        run(command, "init", LOCAL).map(drop)
    }

    fn fetch(&self, fetch: &Fetch) -> Result<()> {
        let mut command = command(&fetch.repository);
        command.args(["fetch", "--quiet", "--prune", "--force"]);
        match fetch.depth {
            Some(depth) => command.arg(format!("--depth={depth}")),
            // The option `depth` was removed. Git refuses `--unshallow` for a complete repository.
            None if fetch.repository.join("shallow").exists() => command.arg("--unshallow"),
            None => &mut command,
        };
        command.arg("origin");
        command.envs(fetch.environment.iter().map(|(name, value)| (name, value.reveal())));
        let outcome = run(command, "fetch", fetch.timeout).map(drop);
        outcome.map_err(|error| match error {
            Error::Git { command, message } => {
                let hidden = fetch.environment.iter().fold(message, |message, (name, value)| {
                    // Short strings such as a user's name are not secret, and replacing them would garble the message.
                    if name.starts_with("SALTERN_GIT_PASS") { value.hide_in(&message) } else { message }
                });
                Error::Git { command, message: hidden }
            }
            other => other,
        })
    }

    fn refs(&self, repository: &Path) -> Result<Vec<(String, Oid)>> {
        let mut command = command(repository);
        command.args(["for-each-ref", "--format=%(objectname) %(refname)"]);
        let output = run(command, "for-each-ref", LOCAL)?;
        let lines = String::from_utf8_lossy(&output);
        let pairs = lines.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs.filter_map(|(oid, name)| Some((name.to_owned(), Oid::new(oid)?))).collect())
    }

    fn objects(&self, repository: &Path) -> Result<Box<dyn Objects>> {
        Ok(Box::new(CatFile::start(repository)?))
    }
}

/// Process groups of running programs.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Kills all fetches of this process, for a daemon that stops.
pub fn end_all() {
    for group in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = killpg(Pid::from_raw(*group), Signal::SIGTERM);
    }
}

/// The maximum output that is kept.
const MAX_OUTPUT: u64 = 64 << 20;
const MAX_ERRORS: u64 = 64 << 10;

/// Runs a program until it ends or times out, and returns its output.
fn run(mut command: Command, name: &'static str, timeout: Duration) -> Result<Vec<u8>> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // The files that the program writes are closed to other users. Git's own option for that, core.sharedRepository,
    // would give the directories the set-group-ID bit as well.
    let mut child = rt::umask::with(0o027, || command.spawn()).map_err(Error::io("start", Path::new("git")))?;
    let group = child.id().cast_signed();
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
    // Both pipes are read in parallel; a program blocks once either is full.
    let output = drain(child.stdout.take(), MAX_OUTPUT);
    let errors = drain(child.stderr.take(), MAX_ERRORS);
    let deadline = Instant::now() + timeout;
    let collected = collect(&output, deadline).and_then(|output| Some((output, collect(&errors, deadline)?)));
    if collected.is_none() {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    // After the kill as well, or the process would stay as a zombie.
    let status = child.wait();
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&group);
    let Some((output, errors)) = collected else {
        return Err(Error::Timeout { command: name, seconds: timeout.as_secs() });
    };
    let status = status.map_err(Error::io("wait for", Path::new("git")))?;
    if status.success() {
        return Ok(output);
    }
    let message = String::from_utf8_lossy(&errors).trim().to_owned();
    let message = if message.is_empty() { status.to_string() } else { message };
    Err(Error::Git { command: name, message: message.lines().map(crate::url::hidden).collect::<Vec<_>>().join("\n") })
}

fn collect(from: &mpsc::Receiver<Vec<u8>>, deadline: Instant) -> Option<Vec<u8>> {
    match from.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(bytes) => Some(bytes),
        // The reading thread has panicked, and the status of the program still counts.
        Err(RecvTimeoutError::Disconnected) => Some(Vec::new()),
        Err(RecvTimeoutError::Timeout) => None,
    }
}

/// Reads a pipe to its end in a separate thread, and discards what exceeds the limit.
fn drain(pipe: Option<impl Read + Send + 'static>, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let read = pipe.by_ref().take(most).read_to_end(&mut bytes);
            if read.is_ok() {
                // The rest is read and dropped: closing the pipe would kill the program with a signal.
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            }
        }
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn a_hanging_program_is_killed() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & sleep 600"]).process_group(0);
        let begun = Instant::now();
        let error = run(command, "fetch", Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }) && begun.elapsed() < Duration::from_secs(60), "{error}");
    }

    #[test]
    fn errors_of_git_hide_passwords() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo fatal: https://me:secret@h/x not found >&2; exit 3"]).process_group(0);
        let error = run(command, "fetch", LOCAL).unwrap_err().to_string();
        assert_eq!(error, "git fetch failed: fatal: https://me:***@h/x not found");
    }
}
