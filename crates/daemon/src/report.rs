//! SIGUSR1: a running daemon writes a report of its state to a file, and continues.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::signal::unix::{SignalKind, signal};

use crate::Error;

/// Returns the daemon's part of a report.
pub type Report = Arc<dyn Fn() -> String + Send + Sync>;

/// How long a daemon may take for its part; a hanging one is reported without it.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of files within one second.
const MAX_FILES: u32 = 100;

/// Writes reports at SIGUSR1. It is cheap to clone.
#[derive(Clone)]
pub struct Reports(Arc<Inner>);

struct Inner {
    program: &'static str,
    started: Instant,
    report: Mutex<Option<Report>>,
}

impl Reports {
    /// Handles SIGUSR1 and SIGUSR2 from now on, so that neither ends the process. Must be called within a runtime.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub fn listen(program: &'static str) -> Result<Self, Error> {
        let inner = Inner { program, started: Instant::now(), report: Mutex::default() };
        let reports = Reports(Arc::new(inner));
        let mut asked = signal(SignalKind::user_defined1()).map_err(Error::Signals)?;
        let mut profile = signal(SignalKind::user_defined2()).map_err(Error::Signals)?;
        let writing = reports.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(()) = asked.recv() => writing.write().await,
                    Some(()) = profile.recv() => {
                        tracing::warn!("SIGUSR2 has no effect: there is no profiler; SIGUSR1 writes the daemon's state to a file");
                    }
                    else => return,
                }
            }
        });
        Ok(reports)
    }

    /// Sets the daemon's part of a report.
    pub fn set(&self, report: Report) {
        *self.0.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    async fn write(&self) {
        let text = self.text().await;
        if io::stderr().is_terminal() {
            rt::complain!("{}", text.strip_suffix('\n').unwrap_or(&text));
            return;
        }
        let written = tokio::task::spawn_blocking(move || write_file(&std::env::temp_dir(), SystemTime::now(), &text));
        match written.await {
            Ok(Ok(path)) => tracing::warn!("Debug information was written to {}", path.display()),
            Ok(Err(error)) => {
                tracing::error!(
                    "Debug information could not be written to {}: {error}",
                    std::env::temp_dir().display()
                );
            }
            Err(error) => tracing::error!("Debug information could not be written: {error}"),
        }
    }

    async fn text(&self) -> String {
        let report = self.0.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = match report {
            None => "The daemon is still starting.\n".to_owned(),
            Some(report) => {
                let telling = tokio::task::spawn_blocking(move || report());
                match tokio::time::timeout(REPORT_TIMEOUT, telling).await {
                    Ok(Ok(told)) => told,
                    Ok(Err(error)) => format!("The daemon could not report its state: {error}\n"),
                    Err(_) => format!("The daemon did not report its state within {} s.\n", REPORT_TIMEOUT.as_secs()),
                }
            }
        };
        let mut text = String::from("======== Salt Debug Stack Trace =========\n");
        let up = self.0.started.elapsed().as_secs();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let _ = writeln!(text, "{} {}, process {}, up {up} s", self.0.program, crate::VERSION, std::process::id());
        let _ = writeln!(text, "tasks: {tasks}");
        text.push_str(&process(Path::new("/proc/self")));
        let _ = write!(text, "\n{told}");
        text.push_str("=========================================\n");
        text
    }
}

/// Returns the system's information about this process: memory, open files, and the state of its threads.
fn process(proc: &Path) -> String {
    const WANTED: [&str; 6] = ["VmPeak", "VmSize", "VmHWM", "VmRSS", "VmSwap", "Threads"];
    let mut text = String::new();
    let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
    for line in status.lines().filter(|line| WANTED.iter().any(|name| line.split(':').next() == Some(name))) {
        let _ = writeln!(text, "{}", line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let files = fs::read_dir(proc.join("fd")).map_or(0, Iterator::count);
    let _ = writeln!(text, "open files: {files}");
    let mut threads: Vec<_> =
        fs::read_dir(proc.join("task")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    threads.sort();
    for thread in threads {
        let part = |name: &str| fs::read_to_string(thread.join(name)).unwrap_or_default().trim().to_owned();
        let stat = part("stat");
        // The state follows the name, which is in parentheses and may contain anything.
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or("?").to_owned();
        let id = thread.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(text, "thread {id} {}: {state} {}", part("comm"), part("wchan"));
    }
    text
}

/// Writes a new file that only its owner can read. It never overwrites a file or follows a link, because the directory is
/// writable by everybody.
fn write_file(directory: &Path, now: SystemTime, text: &str) -> io::Result<PathBuf> {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let names = std::iter::once(format!("salt-debug-{seconds}.log"))
        .chain((1..MAX_FILES).map(|number| format!("salt-debug-{seconds}-{number}.log")));
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for path in names.map(|name| directory.join(name)) {
        let opened: io::Result<File> = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match opened {
            Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_report_never_follows_a_link_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(77);
        let victim = dir.path().join("victim");
        symlink(&victim, dir.path().join("salt-debug-77.log")).unwrap();
        let path = write_file(dir.path(), at, "text").unwrap();
        assert_eq!(path, dir.path().join("salt-debug-77-1.log"));
        assert!(!victim.exists(), "what the link points to was not made");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(write_file(dir.path(), at, "more").unwrap(), dir.path().join("salt-debug-77-2.log"));
        assert_eq!(fs::read_to_string(path).unwrap(), "text");
    }

    #[tokio::test]
    async fn a_report_contains_the_process_and_the_daemons_part() {
        let reports = Reports::listen("salt-minion").unwrap();
        let early = reports.text().await;
        assert!(early.contains("still starting"), "{early}");
        reports.set(Arc::new(|| "jobs: 3\n".to_owned()));
        let text = reports.text().await;
        assert!(text.starts_with("======== Salt Debug Stack Trace ========="), "{text}");
        for part in ["salt-minion", "VmRSS: ", "open files: ", "thread ", "jobs: 3\n"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[tokio::test]
    async fn sigusr_signals_do_not_end_the_process() {
        let _reports = Reports::listen("salt-minion").unwrap();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGUSR2).unwrap();
    }
}
