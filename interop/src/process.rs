//! Child processes: programs that run to their end, and daemons that are stopped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::sandbox::{MARK, Sandbox, Watchman};
use crate::wait::until;

/// The time a program may run before it is killed.
const LIMIT: Duration = Duration::from_secs(90);

/// A command line about to be run in a sandbox.
pub struct Program {
    command: Command,
    line: String,
    limit: Duration,
    stdin: Option<Vec<u8>>,
    watchman: Arc<Watchman>,
}

/// The result of a program.
#[derive(Debug, Clone)]
pub struct Output {
    /// The command line, for messages.
    pub line: String,
    /// Exit code; 128 plus the signal for a killed one, as a shell would say.
    pub code: i32,
    /// Standard output; bytes that are not UTF-8 become U+FFFD.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
}

impl Program {
    /// Prepares a program to be run for a sandbox, in its own process group.
    pub fn new(sandbox: &Sandbox, program: &Path) -> Self {
        Self::watched(sandbox.watchman(), program)
    }

    /// Like [`Program::new`], for callers that have no sandbox at hand.
    pub(crate) fn watched(watchman: Arc<Watchman>, program: &Path) -> Self {
        let root = watchman.root();
        let mut command = Command::new(program);
        command.current_dir(root).env(MARK, root).env("LC_ALL", "C.UTF-8").env("HOME", root);
        // The environment of the user who runs the tests must not lead to another configuration. The separate process
        // group allows killing a program with all its children.
        command.env_remove("SALT_CONFIG_DIR").process_group(0);
        let line = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { command, line, limit: LIMIT, stdin: None, watchman }
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        for arg in args {
            self.line = format!("{} {}", self.line, arg.as_ref().to_string_lossy());
            self.command.arg(arg);
        }
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it as another user and group.
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        self.command.uid(uid).gid(gid);
        self
    }

    /// Sets the bytes of standard input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Changes how long it may run.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it to its end and gives what it printed.
    pub fn run(mut self) -> Result<Output> {
        let begin = Instant::now();
        let stdin = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().with_context(|| format!("failed to start `{}`", self.line))?;
        self.watchman.watch(child.id());
        if let Some(bytes) = self.stdin.take() {
            let _ = child.stdin.take().context("no standard input")?.write_all(&bytes);
        }
        // Threads read both pipes: a program that fills one of them would block forever.
        let stdout = reader(child.stdout.take());
        let stderr = reader(child.stderr.take());
        let status = wait_or_kill(&mut child, self.limit)?;
        self.watchman.forget(child.id());
        let took = begin.elapsed();
        let (stdout, stderr) = (text(stdout), text(stderr));
        match status {
            Some(status) => Ok(Output { line: self.line, code: code(status), stdout, stderr, took }),
            None => bail!(
                "`{}` ran longer than {:?} and was killed\nstdout: {stdout}\nstderr: {stderr}",
                self.line,
                self.limit
            ),
        }
    }

    /// Starts it as a daemon whose output goes to `captured`.
    pub fn start(mut self, captured: &Path) -> Result<Daemon> {
        let out = File::options().create(true).append(true).open(captured);
        let out = out.with_context(|| format!("failed to open {}", captured.display()))?;
        let err = out.try_clone().context("failed to duplicate the output file")?;
        self.command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = self.command.spawn().with_context(|| format!("failed to start `{}`", self.line))?;
        self.watchman.watch(child.id());
        Ok(Daemon {
            child,
            line: self.line,
            captured: captured.to_owned(),
            status: None,
            watchman: self.watchman,
            ended: false,
        })
    }
}

impl Output {
    /// Succeeds when the program ended with exit code 0.
    pub fn ok(self) -> Result<Self> {
        self.exits(0)
    }

    /// Succeeds when the program ended with the given exit code.
    pub fn exits(self, code: i32) -> Result<Self> {
        ensure!(self.code == code, "expected exit code {code} of {self}");
        Ok(self)
    }

    /// Reads the last line of standard output as one JSON value: scripts may have printed before.
    pub fn last_json(&self) -> Result<Value> {
        let last = self.stdout.trim_end().rsplit('\n').next().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("expected JSON in the last line from {self}"))
    }

    /// Reads standard output as one JSON value.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("expected JSON from {self}"))
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, code, stdout, stderr, .. } = self;
        write!(f, "`{line}`, which ended with {code}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// A running child with all its processes; killed when dropped.
pub struct Daemon {
    child: Child,
    line: String,
    captured: PathBuf,
    status: Option<ExitStatus>,
    watchman: Arc<Watchman>,
    /// True once the whole group was killed. Its number may belong to another one then.
    ended: bool,
}

impl Daemon {
    /// Process id of the first process, which is also its process group.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Returns the output until now.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.captured).unwrap_or_default()).into_owned()
    }

    /// Returns whether it still runs.
    pub fn alive(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_none()
    }

    /// Sends a signal to the first process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid(), signal).with_context(|| format!("failed to send {signal} to `{}`", self.line))
    }

    /// Kills all of it with SIGKILL, as a power failure would.
    pub fn kill(&mut self) {
        if self.ended {
            return;
        }
        // The group, because workers of a real master survive their parent.
        let _ = killpg(self.pid(), Signal::SIGKILL);
        self.watchman.forget(self.child.id());
        self.status = self.status.or_else(|| self.child.wait().ok());
        self.ended = true;
    }

    /// Ends it with SIGTERM and returns how long it took until every process of its group was gone.
    pub fn terminate(&mut self, limit: Duration) -> Result<Duration> {
        let begin = Instant::now();
        self.signal(Signal::SIGTERM)?;
        let group = self.pid();
        let gone = until(&format!("the end of `{}` after SIGTERM", self.line), limit, || {
            // Signal 0 only asks: it fails once no process of the group is left.
            !self.alive() && killpg(group, None).is_err()
        });
        let took = begin.elapsed();
        self.kill();
        gone.map(|()| took)
    }

    /// Waits until it ends by itself and gives the exit code.
    pub fn wait(&mut self, limit: Duration) -> Result<i32> {
        until(&format!("the end of `{}`", self.line), limit, || !self.alive())?;
        Ok(self.status.map_or(-1, code))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

fn reader(pipe: Option<impl std::io::Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn text(reader: thread::JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Waits for the child. If it takes too long, kills its group and returns `None`.
fn wait_or_kill(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let begin = Instant::now();
    // Short pauses at first, because this also measures fast programs.
    while begin.elapsed() < limit {
        if let Some(status) = child.try_wait().context("failed to wait for a child")? {
            return Ok(Some(status));
        }
        thread::sleep(if begin.elapsed() < Duration::from_millis(100) {
            Duration::from_micros(200)
        } else {
            Duration::from_millis(2)
        });
    }
    let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
    child.wait().context("failed to wait for a killed child")?;
    Ok(None)
}
