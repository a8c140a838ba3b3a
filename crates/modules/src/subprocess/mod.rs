//! Running programs for the functions of a minion, as Python's `subprocess` does for Salt's: started in process groups of their
//! own, read to the end, killed with all their children.

mod child;
pub mod process;
#[cfg(test)]
pub mod tape;

use std::time::Duration;

use exec::{Context, Error, Result};

pub use process::os_text;
use process::{Ended, Failure, Launch};

/// The result of a command.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Its process id.
    pub pid: i64,
    /// Its exit code, 0 where the arguments say that it counts as success; `None` while it runs.
    pub retcode: Option<i64>,
    /// The standard output.
    pub stdout: String,
    /// The standard error, unless merged into the standard output.
    pub stderr: String,
    /// Set when it exceeded its time limit and was killed.
    pub timed_out: bool,
}

/// Runs a program for another function: without a shell, in English, with separate streams, and unlogged. The job's
/// return code is not changed.
///
/// # Errors
/// [`Error::CommandNotFound`] when there is no such program.
pub fn quiet(ctx: &Context, words: &[&str]) -> Result<Outcome> {
    quiet_for(ctx, words, None)
}

/// Like [`quiet`], but the program's exit code becomes the job's return code, for functions whose result does not show
/// a failure.
///
/// # Errors
/// As [`quiet`].
pub fn counted(ctx: &Context, words: &[&str]) -> Result<Outcome> {
    let outcome = quiet(ctx, words)?;
    ctx.set_retcode(outcome.retcode.unwrap_or(1));
    Ok(outcome)
}

/// Like [`quiet`], with a time limit. A program that exceeds it is killed, and the outcome records that.
pub fn quiet_for(ctx: &Context, words: &[&str], limit: Option<Duration>) -> Result<Outcome> {
    finish(ctx, plain(words)?, limit)
}

/// Like [`quiet`], with data for its standard input.
pub fn fed(ctx: &Context, words: &[&str], stdin: Vec<u8>) -> Result<Outcome> {
    finish(ctx, Launch { stdin: Some(stdin), ..plain(words)? }, None)
}

/// Additional settings for a program.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// Variables added to the environment.
    pub env: Vec<(String, String)>,
    /// Sends stderr to the same pipe as stdout.
    pub merge: bool,
    /// Data for its standard input.
    pub stdin: Option<Vec<u8>>,
}

/// Like [`quiet`], with variables, merged streams, or data for its standard input.
pub fn quiet_with(ctx: &Context, words: &[&str], extra: Extra) -> Result<Outcome> {
    let mut launch = Launch { merge: extra.merge, stdin: extra.stdin, ..plain(words)? };
    launch.env.extend(extra.env);
    finish(ctx, launch, None)
}

fn finish(ctx: &Context, launch: Launch, limit: Option<Duration>) -> Result<Outcome> {
    #[cfg(test)]
    if let Some(answer) = tape::answer(ctx, &launch) {
        return answer;
    }
    match process::run(ctx, &launch, limit) {
        Ok(Ended::Exited { pid, code, out, err }) => {
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            Ok(Outcome { pid, retcode: Some(code), stdout: text(out), stderr: text(err), timed_out: false })
        }
        // No signal number: Salt returns 1 for every command that exceeds its timeout.
        Ok(Ended::TimedOut { pid }) => Ok(Outcome { pid, retcode: Some(1), timed_out: true, ..Outcome::default() }),
        Err(failure) => Err(not_started(failure)),
    }
}

/// Starts a program without waiting for it and returns its process id.
///
/// # Errors
/// [`Error::CommandNotFound`] when there is no such program.
pub fn start(words: &[&str]) -> Result<i64> {
    process::leave_running(&plain(words)?).map_err(not_started)
}

fn plain(words: &[&str]) -> Result<Launch> {
    if words.first().is_none_or(|program| program.is_empty()) {
        return Err(Error::invocation("the command to run is empty"));
    }
    // The output is parsed; a translated message or a decimal comma would not be understood.
    let english = [("LC_ALL", "C"), ("LANGUAGE", "C")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Launch {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        // The directory the minion was started in may be gone or unreadable.
        cwd: "/".into(),
        env: crate::environ::variables()
            .into_iter()
            // systemd would take a `READY=1` or `STOPPING=1` of the child for one of the minion.
            .filter(|(name, _)| name != "NOTIFY_SOCKET")
            .chain(english)
            .collect(),
        ..Launch::default()
    })
}

fn not_started(Failure(error, program): Failure) -> Error {
    match error.kind() {
        // Callers distinguish a missing program from one that cannot be started.
        std::io::ErrorKind::NotFound => Error::CommandNotFound(program),
        _ => Error::execution(format!("failed to run {program}: {error}")),
    }
}
