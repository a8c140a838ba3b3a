//! Running other programs, with errors that name the command.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The reason why a chore ended early, as a sentence.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure with its sentence.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

/// The folder of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder cargo builds into.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The program as the tests build it.
pub fn checked_program() -> PathBuf {
    target_dir().join("debug/saltern")
}

/// The optimised program, which benchmarks and the demonstration run.
pub fn optimised_program() -> PathBuf {
    target_dir().join("release/saltern")
}

/// A cargo command in the workspace.
///
/// Where changes are judged everything is built once and then thrown away: what would speed up the next build, and the
/// line tables for debuggers, are half of 16 GB.
pub fn cargo(args: &[&str]) -> Step {
    let step = Step::new(cargo_program()).args(args);
    match judged() {
        true => step.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0"),
        false => step,
    }
}

/// The cargo that runs this program.
pub fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns whether a change is being judged (`CI=true`), rather than made.
pub fn judged() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

/// A command about to be run in the workspace's folder.
pub struct Step {
    command: Command,
    line: String,
}

impl Step {
    /// Begins a command.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(&program);
        command.current_dir(workspace());
        // Variables that `cargo run` sets for this program are not meant for another cargo.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_")) {
            command.env_remove(name);
        }
        let name = Path::new(program.as_ref()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { command, line: name }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.line = format!("{} {}", self.line, arg.as_ref().to_string_lossy());
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Lets it run with a low priority, beside tests with timeouts.
    pub fn low_priority(self) -> Self {
        self.nice("15")
    }

    /// Lets it run only while nothing else needs a processor.
    pub fn lowest_priority(self) -> Self {
        self.nice("19")
    }

    fn nice(self, by: &str) -> Self {
        let mut command = Command::new("nice");
        command.args(["-n", by]).arg(self.command.get_program()).args(self.command.get_args());
        if let Some(dir) = self.command.get_current_dir() {
            command.current_dir(dir);
        }
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self { command, line: format!("nice {}", self.line) }
    }

    /// Changes the folder it runs in.
    pub fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// The command as it is announced.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Announces and runs it; an error unless it succeeds.
    pub fn run(mut self) -> Result<(), Failure> {
        println!("$ {}", self.line);
        let status = self.command.status().map_err(|error| self.not_started(&error))?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("`{}` failed: {status}", self.line))) }
    }

    /// Announces and runs it, passing each line of its output to `line`, and showing those for which that returns true; returns
    /// whether it succeeded.
    pub fn follow(self, mut line: impl FnMut(&str) -> bool) -> Result<bool, Failure> {
        self.read(|text| {
            if line(text) {
                println!("{text}");
            }
        })
    }

    /// Announces and runs it, passing each line of its output to `line`; returns whether it succeeded.
    pub fn read(mut self, mut line: impl FnMut(&str)) -> Result<bool, Failure> {
        println!("$ {}", self.line);
        self.command.stdout(Stdio::piped());
        let mut child = self.command.spawn().map_err(|error| self.not_started(&error))?;
        // Bytes, not lines of text: a test may print anything.
        for text in BufReader::new(child.stdout.take().expect("piped above")).split(b'\n').map_while(Result::ok) {
            line(&String::from_utf8_lossy(&text));
        }
        Ok(child.wait().map_err(|error| self.not_started(&error))?.success())
    }

    /// Runs it silently and gives its standard output, or nothing when it fails.
    pub fn output(mut self) -> Option<String> {
        let output = self.command.stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it silently and gives what it wrote to its standard error; an error unless it succeeds.
    pub fn errors(mut self) -> Result<String, Failure> {
        let run = self.command.stdout(Stdio::null()).stdin(Stdio::null()).output();
        let output = run.map_err(|error| self.not_started(&error))?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => Ok(told),
            false => Err(Failure::new(format!("`{}` failed: {}\n{told}", self.line, output.status))),
        }
    }

    /// Starts it in the background with its output in a file.
    pub fn background(mut self, log: &Path) -> Result<std::process::Child, Failure> {
        println!("$ {} &", self.line);
        let open = std::fs::File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = open.map_err(|error| Failure::new(format!("failed to create {}: {error}", log.display())))?;
        // Without an input nothing can wait for a key.
        self.command.stdout(out).stderr(err).stdin(Stdio::null());
        self.command.spawn().map_err(|error| self.not_started(&error))
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("failed to run `{}`: {error}", self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_low_priority_is_the_same_command() {
        let step = Step::new("sh").args(["-c", "echo $WORD $(pwd) $(nice)"]).env("WORD", "storms").dir(Path::new("/"));
        let step = step.low_priority();
        assert!(step.line().starts_with("nice sh -c"), "{}", step.line());
        let usual: i32 = Step::new("nice").output().unwrap().trim().parse().unwrap();
        assert_eq!(step.output().unwrap().trim(), format!("storms / {}", (usual + 15).min(19)));
    }
}
