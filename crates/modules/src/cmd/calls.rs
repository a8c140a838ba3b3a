//! The variants of running a command: which output they return, and what they do around it.

use exec::{Context, Error, Result};
use value::Value;

use super::options::{CallArgs, Options};
use super::run::{self, Outcome};
use super::{chroot, script as scripts};

/// `cmd.run`.
pub fn run(ctx: &Context, given: CallArgs) -> Result<Value> {
    let options = Options::rendered(ctx, &given)?;
    let outcome = run::run(ctx, &options)?;
    // With `output_loglevel=quiet` Salt skips the whole block, `raise_err` included.
    if let Some(level) = options.loglevel {
        let failed = outcome.retcode.is_some_and(|code| code != 0) && !options.ignore_retcode;
        if failed {
            let code = outcome.retcode.unwrap_or_default();
            tracing::error!("Command '{}' failed with return code: {code}", options.line.first_word());
            if given.flag("raise_err") {
                return Err(Error::execution(unless_hidden(&given, outcome.stdout)));
            }
        }
        run::log_output(if failed { tracing::Level::ERROR } else { level }, &outcome.stdout);
    }
    Ok(unless_hidden(&given, outcome.stdout).into())
}

/// `cmd.shell`.
pub fn shell(ctx: &Context, mut given: CallArgs) -> Result<Value> {
    // This function exists for shell lines: a pipe works even where `cmd.run` would not use a shell.
    if given.value("python_shell").is_null() {
        given.set("python_shell", true);
    }
    given.set("redirect_stderr", true);
    run(ctx, given)
}

/// `cmd.run_stdout`.
pub fn run_stdout(ctx: &Context, given: CallArgs) -> Result<Value> {
    let outcome = outcome(ctx, &given)?;
    Ok(unless_hidden(&given, outcome.stdout).into())
}

/// `cmd.run_stderr`.
pub fn run_stderr(ctx: &Context, given: CallArgs) -> Result<Value> {
    let outcome = outcome(ctx, &given)?;
    Ok(unless_hidden(&given, outcome.stderr).into())
}

/// `cmd.run_all`.
pub fn run_all(ctx: &Context, given: CallArgs) -> Result<Value> {
    let outcome = outcome(ctx, &given)?;
    Ok(hidden(&given, outcome).into_map().into())
}

/// `cmd.run_bg`.
pub fn run_bg(ctx: &Context, mut given: CallArgs) -> Result<Value> {
    given.set("bg", true);
    let outcome = outcome(ctx, &given)?;
    Ok(value::map! { "pid" => outcome.pid }.into())
}

/// `cmd.retcode`.
pub fn retcode(ctx: &Context, mut given: CallArgs) -> Result<Value> {
    given.set("redirect_stderr", true);
    Ok(outcome(ctx, &given)?.retcode.into())
}

/// `cmd.run_chroot`.
pub fn run_chroot(ctx: &Context, given: CallArgs) -> Result<Value> {
    let outcome = chroot::run(ctx, &given)?;
    Ok(hidden(&given, outcome).into_map().into())
}

/// `cmd.script`.
pub fn script(ctx: &Context, given: CallArgs) -> Result<Value> {
    match scripts::run(ctx, &given)? {
        Some(outcome) => Ok(hidden(&given, outcome).into_map().into()),
        None => Ok(scripts::not_cached().into()),
    }
}

/// `cmd.script_retcode`.
pub fn script_retcode(ctx: &Context, given: CallArgs) -> Result<Value> {
    match scripts::run(ctx, &given)? {
        Some(outcome) => Ok(outcome.retcode.into()),
        None => Ok(1.into()),
    }
}

/// `cmd.powershell` and `cmd.powershell_all`.
pub fn refuse_powershell(_ctx: &Context, _given: CallArgs) -> Result<Value> {
    Err(Error::execution("not supported: PowerShell commands run on Windows minions only"))
}

fn outcome(ctx: &Context, given: &CallArgs) -> Result<Outcome> {
    let options = Options::rendered(ctx, given)?;
    let outcome = run::run(ctx, &options)?;
    run::log_failure(&options, &outcome);
    Ok(outcome)
}

fn unless_hidden(given: &CallArgs, text: String) -> String {
    if given.flag("hide_output") { String::new() } else { text }
}

fn hidden(given: &CallArgs, outcome: Outcome) -> Outcome {
    if given.flag("hide_output") { outcome.hidden() } else { outcome }
}
