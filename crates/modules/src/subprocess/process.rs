//! Child processes: started in separate process groups, read to the end, killed with all their children.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use exec::Context;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Gid, Pid, Uid};

use super::child::{self, Bounds, Input, Process, Stop, Stream};

/// The time a process group of a killed job gets between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(300);

/// How often to retry after ETXTBSY: a sibling between fork and exec may still hold the file open for writing.
const BUSY_TRIES: u32 = 25;

/// A process to start.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program and its arguments; never empty.
    pub words: Vec<String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// The user to run as; `None` for the minion's own.
    pub identity: Option<Identity>,
    /// The file mode mask.
    pub umask: Option<u32>,
    /// Data for its standard input; `None` for /dev/null.
    pub stdin: Option<Vec<u8>>,
    /// Sends stderr to the same pipe as stdout.
    pub merge: bool,
}

/// A user as the kernel knows one.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user.
    pub uid: Uid,
    /// The main group.
    pub gid: Gid,
    /// All groups.
    pub groups: Vec<Gid>,
}

/// The outcome of a process.
#[derive(Debug)]
pub enum Ended {
    /// It exited, or was ended by a signal.
    Exited {
        /// Its process id.
        pid: i64,
        /// Its exit code, or minus the signal.
        code: i64,
        /// The standard output.
        out: Vec<u8>,
        /// The standard error, unless merged.
        err: Vec<u8>,
    },
    /// It took too long and was killed.
    TimedOut {
        /// Its process id.
        pid: i64,
    },
}

/// A program that could not be started: why, and its name.
#[derive(Debug, thiserror::Error)]
#[error("{}", os_text(.0, .1))]
pub struct Failure(pub io::Error, pub String);

/// Runs a program to its end. The whole process group is killed when the time limit is exceeded or the job is killed;
/// in the latter case this function does not return.
pub fn run(ctx: &Context, launch: &Launch, limit: Option<Duration>) -> Result<Ended, Failure> {
    // Between two commands of one function there is no other point where a killed job would notice.
    ctx.unless_killed();
    let failed = |error| Failure(error, launch.words[0].clone());
    let killed = ctx.job.cancel.descriptor().map_err(failed)?;
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let bounds = Bounds { until, killed: Some(killed.as_fd()) };
    let (mut process, mut streams) = start(launch)?;
    // From here on every way out of the function, a panic included, must end the processes.
    let mut group = Group { pid: process.pid(), armed: true };
    let noted = ctx.child(group.pid.as_raw());
    let pid = i64::from(group.pid.as_raw());
    let input = Input::new(process.take_stdin(), launch.stdin.as_deref().unwrap_or_default());
    let ended = input.and_then(|mut input| child::finish(&mut process, &mut input, &mut streams, &bounds));
    match ended {
        // SIGKILL at once, as Salt's `TimedProc` does: the limit is hard.
        Ok(Err(Stop::Late)) => {
            group.end(&mut process, Signal::SIGKILL);
            Ok(Ended::TimedOut { pid })
        }
        // A killed job may clean up first: package managers leave locks behind when they get SIGKILL.
        Ok(Err(Stop::Killed)) => {
            group.end(&mut process, Signal::SIGTERM);
            drop(noted);
            ctx.end_killed()
        }
        Ok(Ok(status)) => {
            group.forget();
            let [out, err] = streams.map(|stream| stream.read);
            Ok(Ended::Exited { pid, code: exit_code(status), out, err })
        }
        Err(error) => {
            group.forget();
            Err(failed(error))
        }
    }
}

/// Starts a program in the background and returns its process id. Its standard streams are /dev/null.
pub fn leave_running(launch: &Launch) -> Result<i64, Failure> {
    let mut command = prepare(launch);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(i64::from(spawn(&mut command, launch)?.pid().as_raw()))
}

/// Words an error of the system as Python does.
pub fn os_text(error: &io::Error, path: &str) -> String {
    match error.raw_os_error() {
        Some(code) => format!("[Errno {code}] {}: {}", Errno::from_raw(code).desc(), value::python::repr_str(path)),
        None => error.to_string(),
    }
}

fn exit_code(status: std::process::ExitStatus) -> i64 {
    use std::os::unix::process::ExitStatusExt;
    // Python's `returncode` is minus the number of the signal.
    let by_signal = || -status.signal().unwrap_or_default();
    i64::from(status.code().unwrap_or_else(by_signal))
}

/// Starts a program; returns it with what it writes to stdout and to stderr.
fn start(launch: &Launch) -> Result<(Process, [Stream; 2]), Failure> {
    let failed = |error| Failure(error, launch.words[0].clone());
    let mut command = prepare(launch);
    command.stdin(if launch.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let (out, writer) = io::pipe().map_err(failed)?;
    let err = if launch.merge {
        // One pipe for both, so that lines keep the order they were written in.
        command.stderr(writer.try_clone().map_err(failed)?);
        None
    } else {
        let (err, writer) = io::pipe().map_err(failed)?;
        command.stderr(writer);
        Some(err)
    };
    command.stdout(writer);
    Ok((spawn(&mut command, launch)?, [Stream::new(Some(out)), Stream::new(err)]))
}

fn prepare(launch: &Launch) -> Command {
    let mut command = Command::new(&launch.words[0]);
    command.args(&launch.words[1..]).current_dir(&launch.cwd);
    command.env_clear().envs(launch.env.iter().map(|(name, value)| (name, value)));
    // A separate process group: a signal reaches pipelines and grandchildren, and not the minion.
    command.process_group(0);
    if launch.identity.is_some() || launch.umask.is_some() {
        before_exec(&mut command, launch.identity.clone(), launch.umask);
    }
    command
}

fn spawn(command: &mut Command, launch: &Launch) -> Result<Process, Failure> {
    for _ in 0..BUSY_TRIES {
        match Process::spawn(command) {
            Err(error) if error.raw_os_error() == Some(Errno::ETXTBSY as i32) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result.map_err(|error| Failure(error, launch.words[0].clone())),
        }
    }
    Err(Failure(Errno::ETXTBSY.into(), launch.words[0].clone()))
}

/// Changes the user and the umask in the child, between fork and exec. Everything that allocates was done before.
#[expect(unsafe_code, reason = "std has no safe way to set all groups and the umask between fork and exec")]
fn before_exec(command: &mut Command, identity: Option<Identity>, umask: Option<u32>) {
    let change = move || {
        if let Some(identity) = &identity {
            // The groups before the user: after setuid the process has no right to change them.
            nix::unistd::setgid(identity.gid)?;
            nix::unistd::setgroups(&identity.groups)?;
            nix::unistd::setuid(identity.uid)?;
        }
        if let Some(mask) = umask {
            nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask));
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls that are safe between fork and exec and touches no lock or heap.
    unsafe { command.pre_exec(change) };
}

/// A process group that is killed when this value is dropped, unless it was forgotten.
struct Group {
    pid: Pid,
    armed: bool,
}

impl Group {
    fn forget(&mut self) {
        self.armed = false;
    }

    /// Signals the group, waits briefly for its leader, then kills what is left.
    fn end(&mut self, process: &mut Process, signal: Signal) {
        // The group and not the pid alone: the shell would die and leave what it started.
        self.signal(signal);
        if signal != Signal::SIGKILL {
            let moment = Bounds { until: Some(Instant::now() + GRACE), killed: None };
            if matches!(process.wait(&moment), Ok(Ok(_))) {
                // The leader is gone, but those it started may have ignored the signal.
                self.signal(Signal::SIGKILL);
                return self.forget();
            }
        }
        self.signal(Signal::SIGKILL);
        if let Err(error) = process.wait(&Bounds::default()) {
            tracing::warn!("failed to wait for process {}: {error}", self.pid);
        }
        self.forget();
    }

    fn signal(&self, signal: Signal) {
        // A group that is gone already is what we want.
        if let Err(error) = killpg(self.pid, signal)
            && error != Errno::ESRCH
        {
            tracing::warn!("failed to send {signal} to process group {}: {error}", self.pid);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.armed {
            self.signal(Signal::SIGKILL);
        }
    }
}
