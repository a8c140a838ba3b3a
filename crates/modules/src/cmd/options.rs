//! The options of a command: the arguments all `cmd` functions share, parsed and checked.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use exec::{Bound, Context, Error, Function, Result};
use value::{Map, Value};

use super::encoding::Encoding;
use crate::util;

/// Returns the shell of commands that name none: that of the environment, else /bin/sh. The grain `shell` is the same.
pub fn default_shell() -> String {
    std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())
}

/// The arguments of a call by name, defaults filled in.
#[derive(Clone, Debug, Default)]
pub struct CallArgs(Map);

impl CallArgs {
    /// Takes the bound arguments of a function; keywords it does not name are kept too.
    pub fn of(function: &Function, bound: Bound) -> Self {
        let mut given = bound.kwargs;
        // The bound values last: a keyword of the same name in `kwargs` must not replace them.
        given.extend(function.params.iter().map(|param| param.name).zip(bound.values));
        CallArgs(given)
    }

    /// Returns the argument as it came.
    pub fn value(&self, name: &str) -> &Value {
        const NULL: &Value = &Value::Null;
        self.0.get(name).unwrap_or(NULL)
    }

    /// Returns the argument as text; numbers and booleans as Python prints them.
    pub fn text(&self, name: &str) -> Option<String> {
        let value = self.value(name);
        (!value.is_null()).then(|| value.to_string())
    }

    /// Returns the argument as text unless it is empty, false or not given.
    pub fn some_text(&self, name: &str) -> Option<String> {
        self.text(name).filter(|_| self.value(name).truthy())
    }

    /// Returns whether the argument counts as true.
    pub fn flag(&self, name: &str) -> bool {
        match self.value(name) {
            // A state or a quoted argument on the command line may hand over the text; every other text is true in
            // Python.
            Value::Str(text) if text.eq_ignore_ascii_case("false") => false,
            value => value.truthy(),
        }
    }

    /// Sets an argument.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name, value);
    }

    /// Returns whether the call came from an operator rather than from another function.
    pub fn is_from_job(&self) -> bool {
        self.value("__pub_jid").truthy()
    }
}

/// A command: a line, or a list of words.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A line for a shell, or to be split into words.
    Text(String),
    /// Words.
    Words(Vec<String>),
}

impl Line {
    /// Reads the argument `cmd`.
    pub fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => Line::Words(items.iter().map(Value::to_string).collect()),
            other => Line::Text(other.to_string()),
        }
    }

    /// Returns what Salt logs of a command: its first word, since the others may be secrets.
    pub fn first_word(&self) -> &str {
        let text = match self {
            Line::Text(text) => text,
            Line::Words(words) => words.first().map_or("", String::as_str),
        };
        text.split_whitespace().next().unwrap_or_default()
    }

    /// Returns the whole as one text.
    pub fn joined(&self) -> String {
        match self {
            Line::Text(text) => text.clone(),
            Line::Words(words) => words.join(" "),
        }
    }
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command line.
    pub line: Line,
    /// The working directory; `None` for the home directory.
    pub cwd: Option<String>,
    /// Text for its standard input.
    pub stdin: Option<String>,
    /// Keep `\n` in `stdin` as two letters.
    pub stdin_raw: bool,
    /// The user to run as.
    pub runas: Option<String>,
    /// The group to run as.
    pub group: Option<String>,
    /// The shell, for commands that need one.
    pub shell: Option<String>,
    /// Passes the line to the shell.
    pub through_shell: bool,
    /// Splits a line that does not go through a shell into words. Off when `shell` is None: then the line is the name
    /// of a program.
    pub split: bool,
    /// Additions to the environment.
    pub env: BTreeMap<String, String>,
    /// Starts with an empty environment.
    pub clean_env: bool,
    /// Directories before those of `PATH`.
    pub prepend_path: Option<String>,
    /// Strips white space from the end of the output.
    pub rstrip: bool,
    /// File mode mask.
    pub umask: Option<u32>,
    /// The encoding of the output.
    pub encoding: Encoding,
    /// The level the output is logged at; `None` keeps even the command out of the log.
    pub loglevel: Option<tracing::Level>,
    /// The time limit.
    pub timeout: Option<Timeout>,
    /// Sets the locale to C, so that messages are in English.
    pub reset_locale: bool,
    /// Keeps the job a success when the command fails.
    pub ignore_retcode: bool,
    /// Sends stderr to the same pipe as stdout.
    pub merge: bool,
    /// Runs in the background: nothing waits for it.
    pub background: bool,
    /// Exit codes that count as success.
    pub success_retcodes: Vec<i64>,
    /// Texts in stdout that make it a success.
    pub success_stdout: Vec<String>,
    /// Texts in stderr that make it a success.
    pub success_stderr: Vec<String>,
}

/// A time limit and how it was written.
#[derive(Clone, Debug)]
pub struct Timeout {
    /// The limit.
    pub limit: Duration,
    /// As given, for the message.
    pub given: Value,
}

impl Options {
    /// Reads the arguments after rendering the command and its directory, if `template` names an engine.
    ///
    /// # Errors
    /// As [`Options::read`], and when the text cannot be rendered.
    pub fn rendered(ctx: &Context, given: &CallArgs) -> Result<Self> {
        let Some(engine) = given.some_text("template") else { return Self::read(ctx, given) };
        let saltenv = given.some_text("saltenv").or_else(|| ctx.opt_str("saltenv").map(str::to_owned));
        // Templates look for their imports there, so there must always be an environment.
        let saltenv = saltenv.unwrap_or_else(|| "base".to_owned());
        let pillared = with_pillar(ctx, given)?;
        let mut given = given.clone();
        for name in ["cmd", "cwd"] {
            let Value::Str(text) = given.value(name).clone() else { continue };
            let [text] = crate::templates::paths(&pillared, Some(&engine), [&text], &saltenv)?;
            given.set(name, text);
        }
        // Rendered once: a value that was put in must not be taken for a template itself.
        given.set("template", Value::Null);
        Self::read(ctx, &given)
    }

    /// Reads and checks the arguments of a call, in the order Salt checks them.
    ///
    /// # Errors
    /// For each argument that makes no sense, in Salt's words.
    pub fn read(ctx: &Context, given: &CallArgs) -> Result<Self> {
        let line = Line::from_value(given.value("cmd"));
        let shell = given.some_text("shell");
        check_shell(shell.as_deref())?;
        util::plain_template(given.some_text("template").as_deref(), &line.joined())?;
        // States and other modules call the same functions; the lists only restrict users who publish jobs.
        if given.is_from_job() {
            check_allowed(ctx, &line)?;
        }
        if given.flag("use_vt") {
            tracing::warn!("use_vt is not supported, the command runs without a terminal");
        }
        let background = given.flag("bg");
        Ok(Options {
            line,
            cwd: given.some_text("cwd"),
            stdin: given.text("stdin"),
            stdin_raw: given.flag("stdin_raw_newlines"),
            runas: given.some_text("runas").or_else(|| runas_of_state(ctx)),
            group: given.some_text("group"),
            shell,
            through_shell: through_shell(ctx, given),
            // An empty text for the shell still splits the line; only None turns it off.
            split: !given.value("shell").is_null(),
            env: environment(given.value("env"))?,
            clean_env: given.flag("clean_env"),
            prepend_path: given.some_text("prepend_path"),
            // The default is true, and not every variant has the argument.
            rstrip: given.value("rstrip").is_null() || given.flag("rstrip"),
            umask: umask(given.text("umask"))?,
            encoding: Encoding::named(given.some_text("output_encoding").as_deref())?,
            loglevel: loglevel(given.text("output_loglevel").as_deref()),
            timeout: timeout(given.value("timeout"))?,
            // Absent counts as true: not every variant has the argument.
            reset_locale: given.value("reset_system_locale") != &Value::Bool(false),
            // A background command is not waited for, so it has no exit code to judge.
            ignore_retcode: background || given.flag("ignore_retcode"),
            merge: given.flag("redirect_stderr"),
            background,
            success_retcodes: success_retcodes(given.value("success_retcodes"))?,
            success_stdout: util::split_input(given.value("success_stdout")),
            success_stderr: util::split_input(given.value("success_stderr")),
        })
    }
}

/// Returns the user of the running state: with `runas`, all its commands run as that user.
fn runas_of_state(ctx: &Context) -> Option<String> {
    let state = ctx.state.as_ref()?;
    state.low.get_str("runas").filter(|user| !user.is_empty()).map(str::to_owned)
}

fn check_shell(shell: Option<&str>) -> Result<()> {
    match shell {
        Some(shell) if !util::is_executable(Path::new(shell)) => {
            tracing::warn!(
                "Attempt to run a shell command with what may be an invalid shell! Check to ensure that the shell <{shell}> is \
                 valid for this user."
            );
            Err(Error::execution(format!("The shell {shell} is not available")))
        }
        _ => Ok(()),
    }
}

/// Returns whether to use a shell: by default for commands of a job, not for those of other functions.
fn through_shell(ctx: &Context, given: &CallArgs) -> bool {
    match given.value("python_shell") {
        // A published command goes through the shell because users type pipes; calls by modules do not, which keeps
        // data out of it.
        Value::Null => given.is_from_job() || ctx.opts.get("cmd_safe") == Some(&Value::Bool(false)),
        _ => given.flag("python_shell"),
    }
}

/// Returns a context with the pillar that templates of this call see: compiled for `pillarenv`, with the values of
/// `pillar` merged over it.
///
/// # Errors
/// When the pillar cannot be compiled.
pub fn with_pillar(ctx: &Context, given: &CallArgs) -> Result<Context> {
    let (pillarenv, over) = (given.some_text("pillarenv"), given.value("pillar"));
    if pillarenv.is_none() && over.is_null() {
        return Ok(ctx.clone());
    }
    let compiled = crate::pillar::compiled(ctx, pillarenv, over.clone())?;
    Ok(Context { pillar: std::sync::Arc::new(compiled), ..ctx.clone() })
}

/// Refuses commands that the options `cmd_blacklist_glob` and `cmd_whitelist_glob` forbid.
fn check_allowed(ctx: &Context, line: &Line) -> Result<()> {
    let text = line.joined();
    let hit = |name: &str| {
        let globs = util::config_get(ctx, name).map(|value| util::split_input(&value)).unwrap_or_default();
        // An empty list is not a list: otherwise an empty whitelist would forbid everything.
        (!globs.is_empty()).then(|| globs.iter().any(|glob| targeting::fnmatch(&text, glob)))
    };
    if hit("cmd_blacklist_glob") == Some(true) || hit("cmd_whitelist_glob") == Some(false) {
        return Err(Error::execution(format!("The shell command \"{text}\" is not permitted")));
    }
    Ok(())
}

/// Reads the argument `env`: a map, or a list of maps and of names without a value. Anything else counts as empty, as
/// in Salt.
fn environment(value: &Value) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    let mut add = |name: &Value, value: &Value| {
        // execve(2) could not separate such a name from its value.
        if name.to_string().contains(['=', '\0']) {
            return Err(Error::Other("illegal environment variable name".into()));
        }
        all.insert(name.to_string(), variable(name, value));
        Ok(())
    };
    match value {
        Value::Map(map) => map.iter().try_for_each(|(name, value)| add(name, value))?,
        Value::List(items) => {
            for item in items {
                match item {
                    Value::Map(map) => map.iter().try_for_each(|(name, value)| add(name, value))?,
                    Value::Str(_) | Value::Int(_) | Value::Float(_) => add(item, &Value::Null)?,
                    _ => {}
                }
            }
        }
        _ => {}
    }
    Ok(all)
}

fn variable(name: &Value, value: &Value) -> String {
    if value.is_null() {
        tracing::error!("Environment variable '{name}' passed without a value. Setting value to an empty string");
        return String::new();
    }
    value.to_string()
}

fn umask(text: Option<String>) -> Result<Option<u32>> {
    let Some(text) = text else { return Ok(None) };
    // YAML may have read `022` as an octal number or left it as text: the zeros in front say nothing.
    let digits = text.trim_start_matches('0');
    if digits.is_empty() {
        return Err(Error::execution("Zero umask is not allowed."));
    }
    match u32::from_str_radix(digits, 8) {
        // umask(2) drops higher bits silently; an error is better than an unintended mask.
        Ok(mask) if mask <= 0o7777 => Ok(Some(mask)),
        _ => Err(Error::execution(format!("Invalid umask: '{text}'"))),
    }
}

fn loglevel(name: Option<&str>) -> Option<tracing::Level> {
    match name.map(str::to_ascii_lowercase).as_deref() {
        Some("quiet") => None,
        Some("all" | "garbage" | "trace") => Some(tracing::Level::TRACE),
        Some("profile" | "debug") => Some(tracing::Level::DEBUG),
        Some("warning") => Some(tracing::Level::WARN),
        Some("error" | "critical") => Some(tracing::Level::ERROR),
        Some("info") => Some(tracing::Level::INFO),
        other => {
            let shown = other.unwrap_or("None");
            // As in Salt, an error is logged and the default is used; a typing error in a log level must not stop a
            // command.
            tracing::error!("Invalid output_loglevel '{shown}'. Falling back to 'info'.");
            Some(tracing::Level::INFO)
        }
    }
}

fn timeout(value: &Value) -> Result<Option<Timeout>> {
    if !value.truthy() {
        return Ok(None);
    }
    let seconds = match value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => value.as_f64(),
        _ => None,
    };
    // A negative timeout has passed already; one beyond the range of a duration is refused rather than capped.
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
    match limit {
        Some(limit) => Ok(Some(Timeout { limit, given: value.clone() })),
        None => Err(Error::Other(format!("Error: timeout {value} must be a number"))),
    }
}

fn success_retcodes(value: &Value) -> Result<Vec<i64>> {
    if value.is_null() {
        return Ok(vec![0]);
    }
    let codes: std::result::Result<_, _> = util::split_input(value).iter().map(|code| code.parse()).collect();
    codes.map_err(|_| Error::invocation("success_retcodes must be a list of integers"))
}
