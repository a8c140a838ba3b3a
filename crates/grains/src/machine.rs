//! The machine as the grains see it: a file tree, an environment, and a few programs.
//!
//! Everything is read below a root, so that tests can use trees recorded on other machines. Programs run only on the real
//! machine.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::answers::Answers;
use crate::output::Output;

/// The timeout of a program.
const PROGRAM_LIMIT: Duration = Duration::from_secs(5);

/// The directories where programs are searched after those of `PATH`.
const USUAL_PLACES: [&str; 6] = ["/sbin", "/bin", "/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

/// A machine to describe.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    env: BTreeMap<String, String>,
    runs_programs: bool,
    answers: Option<Arc<Answers>>,
}

impl Machine {
    /// Returns this machine, with the environment of this process.
    pub fn here() -> Self {
        let env = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .collect();
        Machine { root: PathBuf::from("/"), env, runs_programs: true, answers: None }
    }

    /// Adds a cache of the answers to [`Machine::ask`].
    pub(crate) fn remembering(self, answers: Option<Arc<Answers>>) -> Self {
        Machine { answers, ..self }
    }

    /// Returns a machine recorded in a directory. Its programs are found but never run.
    pub fn recorded(root: impl Into<PathBuf>, env: &[(&str, &str)]) -> Self {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Machine { root: root.into(), env, runs_programs: false, answers: None }
    }

    /// Returns an environment variable.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// Returns the real path of an absolute path of the machine.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the content of a file as text, with invalid UTF-8 replaced. `None` if it cannot be read.
    pub fn read(&self, path: &str) -> Option<String> {
        self.read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the content of a file.
    pub fn read_bytes(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(path)).ok()
    }

    /// Returns the content of a small file without surrounding white space; `None` if it is missing.
    pub fn read_trimmed(&self, path: &str) -> Option<String> {
        self.read(path).map(|text| text.trim().to_owned())
    }

    /// Returns whether the path exists.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns whether the path is a directory.
    pub fn is_dir(&self, path: &str) -> bool {
        self.path(path).is_dir()
    }

    /// Returns whether the path is a file.
    pub fn is_file(&self, path: &str) -> bool {
        self.path(path).is_file()
    }

    /// Returns the sorted names in a directory; none if it cannot be read.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let mut names: Vec<String> = self.names_with(directory, "").collect();
        names.sort();
        names
    }

    /// Returns the names in a directory with a prefix, in any order; none if it cannot be read.
    pub fn names_with(&self, directory: &str, start: &str) -> impl Iterator<Item = String> {
        let entries = std::fs::read_dir(self.path(directory)).into_iter().flatten().flatten();
        entries.filter_map(move |entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().starts_with(start.as_bytes()).then(|| name.to_string_lossy().into_owned())
        })
    }

    /// Returns the target of a symbolic link, as written in it.
    pub fn link_target(&self, path: &str) -> Option<String> {
        std::fs::read_link(self.path(path)).ok().map(|target| target.to_string_lossy().into_owned())
    }

    /// Returns the path of a program, from `PATH` or else from the usual directories.
    pub fn which(&self, program: &str) -> Option<String> {
        // A full path is not searched, as by a shell.
        if program.starts_with('/') {
            return self.is_executable(program).then(|| program.to_owned());
        }
        let path = self.env("PATH").unwrap_or_default();
        let places = path.split(':').filter(|place| place.starts_with('/')).chain(USUAL_PLACES);
        places.map(|place| format!("{place}/{program}")).find(|candidate| self.is_executable(candidate))
    }

    fn is_executable(&self, path: &str) -> bool {
        // Root may read anything, so the mode decides.
        let executable = |meta: std::fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        std::fs::metadata(self.path(path)).is_ok_and(executable)
    }

    /// Like [`Machine::run`], for questions whose answer stays the same until a reboot or until the program is replaced: an earlier
    /// answer is used.
    pub fn ask(&self, program: &str, args: &[&str]) -> Option<Output> {
        match &self.answers {
            Some(answers) if self.runs_programs => {
                // The path is part of the question: another PATH may lead to another program.
                let path = self.which(program)?;
                answers.or_ask(&path, args, || self.run(&path, args))
            }
            _ => self.run(program, args),
        }
    }

    /// Runs a program of the machine. `None` if it does not exist, cannot be started, or times out.
    pub fn run(&self, program: &str, args: &[&str]) -> Option<Output> {
        if !self.runs_programs {
            return None;
        }
        let path = self.which(program)?;
        let mut command = Command::new(&path);
        // Without a terminal on standard input no program can stop to ask.
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Translated or coloured output could not be parsed.
        command.env("LC_ALL", "C").env("SYSTEMD_COLORS", "0");
        let child = command.spawn().ok()?;
        let output = wait_for(child, PROGRAM_LIMIT);
        if output.is_none() {
            tracing::warn!("{path} took too long; the grains it gives are left out");
        }
        output
    }
}

/// Reads a child's output until it ends, and kills it after the timeout.
fn wait_for(mut child: Child, limit: Duration) -> Option<Output> {
    let printed = read_until(&mut child, Instant::now() + limit);
    if printed.is_none() {
        // It may have ended in the meantime, which is just as good.
        let _ = child.kill();
    }
    // Always waited for, or it would stay a zombie.
    let status = child.wait().ok()?;
    let mut stdout = String::from_utf8_lossy(&printed?).into_owned();
    stdout.truncate(stdout.trim_end_matches(['\n', '\r']).len());
    Some(Output { code: status.code(), stdout })
}

fn read_until(child: &mut Child, deadline: Instant) -> Option<Vec<u8>> {
    let mut pipe = child.stdout.take()?;
    let mut printed = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).ok()?;
        // A read blocks without end; poll has a timeout.
        if poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], timeout).ok()? == 0 {
            return None;
        }
        match pipe.read(&mut chunk).ok()? {
            0 => return Some(printed),
            length => printed.extend_from_slice(&chunk[..length]),
        }
    }
}

/// Returns the last part of a path.
pub fn base_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_program_is_returned() {
        let output = Machine::here().run("sh", &["-c", "echo one; echo two; exit 3"]).unwrap();
        assert_eq!(output, Output { code: Some(3), stdout: "one\ntwo".into() });
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let child = Command::new("sleep").arg("600").stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(wait_for(child, Duration::from_millis(20)), None);
    }

    #[test]
    fn recorded_machines_run_nothing() {
        let machine = Machine::recorded("/", &[("PATH", "/bin")]);
        assert!(machine.which("sh").is_some());
        assert_eq!(machine.run("sh", &["-c", "true"]), None);
    }
}
