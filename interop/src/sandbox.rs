//! A scratch directory for one scenario, and the cleanup of files and processes when it ends.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::slots::Slot;

/// Variable that marks every process a scenario starts, however it forks; the value is the scratch directory.
pub(crate) const MARK: &str = "SALTERN_INTEROP_SANDBOX";

/// Folder with a file for each living process group.
const GROUPS: &str = ".groups";

/// Lines of each log file shown when a scenario fails.
const SHOWN_LINES: usize = 60;

/// A scratch directory; its processes are killed and its files removed when it is dropped.
pub struct Sandbox {
    dir: Option<TempDir>,
    root: PathBuf,
    watchman: Arc<Watchman>,
}

/// A shell that survives if this process is killed, and then does the cleanup.
///
/// It waits for the end of a pipe whose other end only this process holds. A folder has a file for each process group
/// to kill. The file is removed when the group has ended, because its number may be reused.
pub(crate) struct Watchman {
    root: PathBuf,
    shell: Mutex<Child>,
}

/// The shell's script; its arguments are the folder and the scratch directory.
const WATCH: &str = r#"
cat >/dev/null
for group in $(ls "$1"); do kill -9 -- "-$group" 2>/dev/null; done
[ -n "$KEEP" ] || rm -rf "$2"
"#;

/// Runs a scenario in its own [`Sandbox`] when a slot is free; shows the logs and panics when it fails.
pub fn scenario(name: &str, body: impl FnOnce(&Sandbox) -> Result<()>) {
    let slot = Slot::one().expect("a slot to run in");
    let sandbox = Sandbox::new().expect("a scratch directory");
    println!("{name} in {}", sandbox.root().display());
    // A panic must show the logs as well, and the sandbox must be gone before the test fails.
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&sandbox)));
    if !matches!(outcome, Ok(Ok(()))) {
        sandbox.show_logs();
    }
    // In this order: the slot is free once the daemons are gone.
    drop((sandbox, slot));
    match outcome {
        Ok(Ok(())) => (),
        Ok(Err(error)) => panic!("{name}: {error:#}"),
        Err(panic) => resume_unwind(panic),
    }
}

impl Sandbox {
    /// Creates an empty scratch directory. The path is short: socket paths below it must fit in 107 bytes.
    pub fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("si-").tempdir().context("failed to create a scratch directory")?;
        let root = dir.path().to_owned();
        let watchman = Arc::new(Watchman::post(&root)?);
        Ok(Self { dir: Some(dir), root, watchman })
    }

    /// The scratch directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the watchman of this sandbox.
    pub(crate) fn watchman(&self) -> Arc<Watchman> {
        Arc::clone(&self.watchman)
    }

    /// Creates a folder in the scratch directory.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).with_context(|| format!("failed to create {}", path.display()))?;
        Ok(path)
    }

    /// Returns an unused loopback address on which the given ports are free.
    pub fn address(&self, ports: &[u16]) -> Ipv4Addr {
        loop {
            let [_, b, c, d]: [u8; 4] = rand::random();
            // Random, since tests of other processes choose at the same time. From 127.64.0.0 on, so that neither the
            // usual addresses of the host nor those of a swarm (127.1.0.0/16) are hit.
            let address = Ipv4Addr::new(127, b | 64, c, d.clamp(2, 250));
            if ports.iter().all(|port| TcpListener::bind((address, *port)).is_ok()) {
                return address;
            }
        }
    }

    /// Lists every process that was started for this sandbox, also if its parents have ended.
    pub fn processes(&self) -> Vec<Pid> {
        marked(&self.root)
    }

    /// Prints the end of every log and captured output below the scratch directory.
    pub fn show_logs(&self) {
        let mut files = Vec::new();
        collect_logs(&self.root, &mut files);
        files.sort();
        for path in files {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
            let lines: Vec<_> = text.lines().collect();
            if lines.is_empty() {
                continue;
            }
            println!("===== {} ({} lines)", path.display(), lines.len());
            lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES)).for_each(|line| println!("{line}"));
        }
    }
}

impl Watchman {
    fn post(root: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        let groups = root.join(GROUPS);
        fs::create_dir(&groups).with_context(|| format!("failed to create {}", groups.display()))?;
        command.args(["-c", WATCH, "watchman"]).arg(&groups).arg(root);
        // In its own group, so that Ctrl-C in the terminal does not end the shell before its work.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        if keep() {
            command.env("KEEP", "1");
        }
        let shell = command.spawn().context("failed to start a shell")?;
        Ok(Self { root: root.to_owned(), shell: Mutex::new(shell) })
    }

    /// The scratch directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Registers a process group to be killed at the end.
    pub(crate) fn watch(&self, group: u32) {
        let _ = fs::write(self.root.join(GROUPS).join(group.to_string()), "");
    }

    /// Unregisters a process group that has ended. To be called before its number can be reused.
    pub(crate) fn forget(&self, group: u32) {
        let _ = fs::remove_file(self.root.join(GROUPS).join(group.to_string()));
    }

    /// Makes the shell do the cleanup and waits for it.
    fn relieve(&self) {
        // Waiting closes the pipe first.
        let _ = self.shell.lock().expect("no panic while writing").wait();
    }
}

fn keep() -> bool {
    std::env::var_os("SALTERN_INTEROP_KEEP").is_some()
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        kill_marked(&self.root);
        self.watchman.relieve();
        if keep() {
            println!("kept {}", self.root.display());
            let _ = self.dir.take().map(TempDir::keep);
        }
    }
}

fn collect_logs(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_logs(&path, files),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|e| e == "log" || e == "out") => {
                files.push(path)
            }
            _ => (),
        }
    }
}

/// Kills every process that carries the mark of this scratch directory, until none is found.
fn kill_marked(root: &Path) {
    // Several rounds, because a process may fork between the listing and its death.
    for _ in 0..20 {
        let found = marked(root);
        if found.is_empty() {
            return;
        }
        found.into_iter().for_each(|pid| {
            let _ = kill(pid, Signal::SIGKILL);
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Lists the living processes that were started for the scratch directory.
fn marked(root: &Path) -> Vec<Pid> {
    let mark = format!("{MARK}={}", root.display()).into_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        // By the environment, which daemons that detach and change their group and parent still carry.
        environ.split(|byte| *byte == 0).any(|variable| variable == mark)
    })
    .map(Pid::from_raw)
    .collect()
}
