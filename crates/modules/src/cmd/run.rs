//! Running a command: from the arguments to what came out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use exec::{Context, Error, Result};
use value::{Map, Value, map};

use super::encoding::Encoding;
use super::options::{Line, Options};
use super::{runas, words};
pub use crate::subprocess::Outcome;
use crate::subprocess::process::{self, Ended, Failure, Launch};

impl Outcome {
    /// Returns what `cmd.run_all` returns.
    pub fn into_map(self) -> Map {
        let (pid, retcode) = (self.pid, self.retcode);
        // Salt fills the map in another order after a timeout, and the order shows in every output format.
        if self.timed_out {
            return map! { "stdout" => self.stdout, "stderr" => self.stderr, "retcode" => retcode, "pid" => pid };
        }
        map! { "pid" => pid, "retcode" => retcode, "stdout" => self.stdout, "stderr" => self.stderr }
    }

    /// Removes the output.
    pub fn hidden(self) -> Self {
        Outcome { stdout: String::new(), stderr: String::new(), ..self }
    }
}

/// Runs a command and sets the return code of the job to its exit code.
///
/// # Errors
/// When it cannot be started, or the job was killed.
pub fn run(ctx: &Context, options: &Options) -> Result<Outcome> {
    let launch = prepare(ctx, options)?;
    log_start(options, &launch.cwd);
    if options.background {
        let pid = process::leave_running(&launch).map_err(|failure| refused(options, &launch, failure))?;
        // Salt runs background commands with `ignore_retcode`, which clears the code of an earlier command too.
        ctx.set_retcode(0);
        return Ok(Outcome { pid, ..Outcome::default() });
    }
    let limit = options.timeout.as_ref().map(|timeout| timeout.limit);
    match process::run(ctx, &launch, limit) {
        Ok(Ended::Exited { pid, code, out, err }) => {
            let outcome = judge(
                options,
                Outcome {
                    pid,
                    retcode: Some(code),
                    stdout: text(options, out, "stdout"),
                    stderr: text(options, err, "stderr"),
                    timed_out: false,
                },
            );
            // The last command of a job decides its return code, as `__context__["retcode"]` does in Salt.
            ctx.set_retcode(if options.ignore_retcode { 0 } else { outcome.retcode.unwrap_or_default() });
            Ok(outcome)
        }
        Ok(Ended::TimedOut { pid }) => Ok(timed_out(options, &launch, pid)),
        Err(failure) => Err(refused(options, &launch, failure)),
    }
}

fn text(options: &Options, bytes: Vec<u8>, stream: &str) -> String {
    // The other encodings give every byte a meaning, or say nothing in Salt either.
    if options.encoding == Encoding::Utf8 && std::str::from_utf8(&bytes).is_err() {
        let command = options.line.first_word();
        tracing::error!(
            "Failed to decode {stream} from command {command}, non-decodable characters have been replaced"
        );
    }
    let mut text = options.encoding.decode(bytes);
    if options.rstrip {
        // Python's `rstrip` counts the four ASCII separators as white space; Rust does not.
        let white = |letter: char| letter.is_whitespace() || ('\x1c'..='\x1f').contains(&letter);
        text.truncate(text.trim_end_matches(white).len());
    }
    text
}

/// Applies the arguments `success_…`.
fn judge(options: &Options, mut outcome: Outcome) -> Outcome {
    let by_code = outcome.retcode.is_some_and(|code| options.success_retcodes.contains(&code));
    let by_text = options.success_stdout.iter().any(|text| outcome.stdout.contains(text))
        || options.success_stderr.iter().any(|text| outcome.stderr.contains(text));
    // Callers see 0, not the code that was accepted: this is how Salt makes a state succeed.
    if by_code || by_text {
        outcome.retcode = Some(0);
    }
    outcome
}

/// Builds the outcome of a timeout. The job's return code is not changed, as in Salt.
fn timed_out(options: &Options, launch: &Launch, pid: i64) -> Outcome {
    let seconds = options.timeout.as_ref().map_or(Value::Null, |timeout| timeout.given.clone());
    let stdout = format!("{} : Timed out after {seconds} seconds", command_text(options, launch));
    Outcome { pid, retcode: Some(1), stdout, stderr: String::new(), timed_out: true }
}

/// Shows the command as Python does: the line for a shell, a list of words without one.
fn command_text(options: &Options, launch: &Launch) -> String {
    match &options.line {
        Line::Text(text) if options.through_shell => text.clone(),
        Line::Words(words) => Value::from(words.clone()).to_string(),
        Line::Text(_) => Value::from(launch.words.clone()).to_string(),
    }
}

fn refused(options: &Options, launch: &Launch, failure: Failure) -> Error {
    let command = if options.loglevel.is_some() { command_text(options, launch) } else { "REDACTED".to_owned() };
    // The text is that of Salt, which prints the keyword arguments of `Popen`; -1 is PIPE and -2 is STDOUT. `env` and
    // `stdin` are left out because they often hold passwords.
    let context = map! {
        "cwd" => launch.cwd.to_string_lossy(),
        "shell" => options.through_shell,
        "stdout" => -1,
        "stderr" => if launch.merge { -2 } else { -1 },
        "with_communicate" => !options.background,
        "timeout" => options.timeout.as_ref().map(|timeout| timeout.given.clone()),
        "bg" => options.background,
        "close_fds" => true,
    };
    Error::execution(format!("Unable to run command '{command}' with the context '{context:?}', reason: {failure}"))
}

fn prepare(ctx: &Context, options: &Options) -> Result<Launch> {
    let identity = runas::identity(options.runas.as_deref(), options.group.as_deref())?;
    let cwd = directory(options)?;
    Ok(Launch {
        words: argv(options)?,
        cwd,
        env: environment(ctx, options)?.into_iter().collect(),
        identity,
        umask: options.umask,
        stdin: options.stdin.as_ref().map(|text| {
            // Salt turns the two letters `\n` into a line break, since an argument on a command line cannot hold one
            // easily.
            if options.stdin_raw { text.clone().into_bytes() } else { text.replace("\\n", "\n").into_bytes() }
        }),
        merge: options.merge,
    })
}

/// Returns the given directory, else the user's home if it is readable, else the root.
fn directory(options: &Options) -> Result<PathBuf> {
    match &options.cwd {
        Some(cwd) if Path::new(cwd).is_absolute() && Path::new(cwd).is_dir() => Ok(cwd.into()),
        Some(cwd) => Err(Error::execution(format!("Specified cwd '{cwd}' either not absolute or does not exist"))),
        None => {
            let home = runas::home(options.runas.as_deref()).map(PathBuf::from);
            // Under sudo the home can be that of another user, whom this process may not look into.
            let usable = |home: &PathBuf| home.is_absolute() && std::fs::read_dir(home).is_ok();
            Ok(home.filter(usable).unwrap_or_else(|| "/".into()))
        }
    }
}

fn argv(options: &Options) -> Result<Vec<String>> {
    let found = match (&options.line, &options.shell) {
        (Line::Text(text), shell) if options.through_shell => {
            vec![shell.clone().unwrap_or_else(|| "/bin/sh".into()), "-c".into(), text.clone()]
        }
        // Only the first word is the script; the others become `$0`, `$1` and so on, as with a list and `shell=True` in
        // Python.
        (Line::Words(words), shell) if options.through_shell => {
            let shell = shell.clone().unwrap_or_else(|| "/bin/sh".into());
            [shell, "-c".into()].into_iter().chain(words.iter().cloned()).collect()
        }
        (Line::Words(words), _) => words.clone(),
        (Line::Text(text), _) if options.split => {
            words::split(text).map_err(|error| Error::Other(error.to_string()))?
        }
        // Without a shell (`shell=None`) Salt does not split the line: all of it is the name of a program.
        (Line::Text(text), _) => vec![text.clone()],
    };
    match found.first() {
        Some(program) if !program.is_empty() => Ok(found),
        _ => Err(Error::invocation("the command to run is empty")),
    }
}

/// The locale variables set to C, so that programs can parse the output, unless the caller sets them.
const ENGLISH: [&str; 13] = [
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_COLLATE",
    "LC_MONETARY",
    "LC_MESSAGES",
    "LC_PAPER",
    "LC_NAME",
    "LC_ADDRESS",
    "LC_TELEPHONE",
    "LC_MEASUREMENT",
    "LC_IDENTIFICATION",
    "LANGUAGE",
];

fn environment(ctx: &Context, options: &Options) -> Result<BTreeMap<String, String>> {
    let mut wanted = match &options.runas {
        Some(user) => runas::login_environment(ctx, user, options.shell.as_deref())?,
        None => BTreeMap::new(),
    };
    // The caller's variables win over those of the login, and the locale below over neither.
    wanted.extend(options.env.clone());
    if options.reset_locale {
        for name in ENGLISH {
            wanted.entry(name.to_owned()).or_insert_with(|| "C".to_owned());
        }
    }
    // Not the environment of the process: `environ.setenv` changes a copy, because other threads read the real one.
    let mut env = if options.clean_env { BTreeMap::new() } else { crate::environ::variables() };
    // A child must not speak to the service manager in our name.
    env.remove("NOTIFY_SOCKET");
    env.extend(wanted);
    if let Some(first) = &options.prepend_path {
        let path = env.remove("PATH").unwrap_or_default();
        env.insert("PATH".into(), format!("{first}:{path}"));
    }
    Ok(env)
}

fn log_start(options: &Options, cwd: &Path) {
    if options.loglevel.is_none() {
        return;
    }
    // Python prints a list with its own brackets and quotes.
    let quote = if matches!(options.line, Line::Text(_)) { "'" } else { "" };
    let user = options.runas.as_ref().map(|user| format!("as user '{user}' ")).unwrap_or_default();
    let group = options.group.as_ref().map(|group| format!("in group '{group}' ")).unwrap_or_default();
    let tail = if options.background { ". Executing command in the background, no output will be logged." } else { "" };
    tracing::info!(
        "Executing command {quote}{}{quote} {user}{group}in directory '{}'{tail}",
        options.line.first_word(),
        cwd.display()
    );
}

/// Logs the output of a failed command, unless its output is not to be logged.
pub fn log_failure(options: &Options, outcome: &Outcome) {
    let Some(code) = outcome.retcode.filter(|code| *code != 0 && !options.ignore_retcode) else { return };
    if options.loglevel.is_none() {
        return;
    }
    tracing::error!("Command '{}' failed with return code: {code}", options.line.first_word());
    for (name, text) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
        if !text.is_empty() {
            tracing::error!("{name}: {text}");
        }
    }
    tracing::error!("retcode: {code}");
}

/// Logs the output of a command at the requested level.
pub fn log_output(level: tracing::Level, output: &str) {
    match level {
        tracing::Level::TRACE => tracing::trace!("output: {output}"),
        tracing::Level::DEBUG => tracing::debug!("output: {output}"),
        tracing::Level::INFO => tracing::info!("output: {output}"),
        tracing::Level::WARN => tracing::warn!("output: {output}"),
        _ => tracing::error!("output: {output}"),
    }
}
