//! Running the programs of RabbitMQ.

use exec::{Call, Context, Error, Result};
use value::{Map, Value, map};

use crate::util;

/// The outcome of a run of a program.
#[derive(Debug, Default)]
pub(super) struct ToolOutput {
    pub code: i64,
    pub stdout: String,
    pub stderr: String,
}

impl ToolOutput {
    pub fn failed(&self) -> bool {
        // Old versions fail with code 0 and report it on stderr only.
        self.code != 0 || !self.stderr.is_empty()
    }

    /// Returns the output, or an error if the run failed.
    pub fn output(self) -> Result<String> {
        match self.failed() {
            true => Err(Error::execution(format!("RabbitMQ command failed: {}", self.stderr))),
            false => Ok(self.stdout),
        }
    }

    /// The same, under a name.
    pub fn under(self, name: &str) -> Result<Map> {
        self.output().map(|output| map! { name => output })
    }
}

/// The words of a command.
pub(super) fn words<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    texts.into_iter().map(Value::from).collect()
}

/// Runs `rabbitmqctl`, as the user that is named or else our own.
pub(super) fn control<'a>(
    ctx: &Context,
    texts: impl IntoIterator<Item = &'a str>,
    runas: &Option<String>,
) -> Result<ToolOutput> {
    control_with(ctx, words(texts), runas, Map::new())
}

/// The same, with more to say about the run.
pub(super) fn control_with(ctx: &Context, words: Vec<Value>, runas: &Option<String>, more: Map) -> Result<ToolOutput> {
    run(ctx, program(ctx)?, words, runas, more)
}

/// The path of `rabbitmqctl`.
pub(super) fn program(ctx: &Context) -> Result<String> {
    util::program(ctx, "rabbitmqctl").ok_or_else(|| Error::CommandNotFound("rabbitmqctl".into()))
}

/// Returns the keyword arguments for every run.
pub(super) fn usual(runas: &Option<String>) -> Map {
    // Salt always names a user. `cmd.run` without one would do the same here.
    let runas = runas.clone().unwrap_or_else(config::host::current_user);
    map! { "reset_system_locale" => false, "runas" => runas, "python_shell" => false }
}

/// Runs one of the programs.
pub(super) fn run(
    ctx: &Context,
    program: String,
    words: Vec<Value>,
    runas: &Option<String>,
    more: Map,
) -> Result<ToolOutput> {
    let command: Value = std::iter::once(Value::from(program)).chain(words).collect();
    let mut kwargs = usual(runas);
    kwargs.update(more);
    let said = ctx.call_with("cmd.run_all", Call { args: vec![command], kwargs })?;
    let text = |name: &str| said.get(name).map(Value::to_string).unwrap_or_default();
    Ok(ToolOutput {
        code: said.get("retcode").and_then(Value::as_i64).unwrap_or_default(),
        stdout: text("stdout"),
        stderr: text("stderr"),
    })
}

/// Returns the keyword argument that keeps a command and its output out of the log.
pub(super) fn unlogged() -> Map {
    map! { "output_loglevel" => "quiet" }
}
