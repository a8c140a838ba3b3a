//! `cmd` — running commands.
//!
//! [`options`] reads the arguments, [`run`] builds the command from them and runs it, [`calls`] selects the results of the
//! variants. Other modules run programs through [`crate::subprocess`].

mod calls;
mod chroot;
pub mod encoding;
mod options;
mod run;
mod runas;
mod script;
mod shells;
mod table;
#[cfg(test)]
mod tests;

use std::path::Path;

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use python::shlex as words;

pub use options::default_shell;

use options::CallArgs;
use table::{
    POWERSHELL, POWERSHELL_ALL, RETCODE, RUN, RUN_ALL, RUN_BG, RUN_CHROOT, RUN_STDERR, RUN_STDOUT, SCRIPT,
    SCRIPT_RETCODE, SHELL,
};

use crate::util;

/// Registers the functions of `cmd`.
pub static MODULE: Module = Module::new(
    "cmd",
    "Functions that run commands. Whoever may call them may do anything.",
    &[
        &EXEC_CODE,
        &EXEC_CODE_ALL,
        &HAS_EXEC,
        &POWERSHELL,
        &POWERSHELL_ALL,
        &RETCODE,
        &RUN,
        &RUN_ALL,
        &RUN_BG,
        &RUN_CHROOT,
        &RUN_STDERR,
        &RUN_STDOUT,
        &SCRIPT,
        &SCRIPT_RETCODE,
        &SHELL,
        &SHELL_INFO,
        &SHELLS,
        &TTY,
        &WHICH,
        &WHICH_BIN,
    ],
);

/// Runs code in a language whose interpreter takes a file, and returns its output.
///
/// It takes all arguments of ``cmd.run_all``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cmd.exec_code perl 'print join ",", @ARGV' args='[a, b]'
#[function]
fn exec_code(
    ctx: &Context,
    lang: String,
    code: String,
    cwd: Option<Value>,
    args: Option<Value>,
    kwargs: KwArgs,
) -> Result<String> {
    let outcome = script::code(ctx, &lang, &code, code_arguments(cwd, args, kwargs))?;
    Ok(outcome.stdout)
}

/// Runs code in a language whose interpreter takes a file, and returns process id, exit code, stdout and stderr.
///
/// It takes all arguments of ``cmd.run_all``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cmd.exec_code_all sh 'exit $1' args=3
#[function]
fn exec_code_all(
    ctx: &Context,
    lang: String,
    code: String,
    cwd: Option<Value>,
    args: Option<Value>,
    kwargs: KwArgs,
) -> Result<Map> {
    let outcome = script::code(ctx, &lang, &code, code_arguments(cwd, args, kwargs))?;
    Ok(outcome.into_map())
}

fn code_arguments(cwd: Option<Value>, args: Option<Value>, kwargs: KwArgs) -> CallArgs {
    let mut bound =
        // The functions that run code do not have these arguments, but Salt runs them with the defaults of `cmd.run`.
        exec::Bound { kwargs: map! { "shell" => default_shell(), "output_loglevel" => "debug" }, ..Default::default() };
    bound.kwargs.update(kwargs.0);
    bound.kwargs.update(map! { "cwd" => cwd, "args" => args });
    CallArgs::of(&EXEC_CODE_ALL, bound)
}

/// Returns whether there is such a program on the search path.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cmd.has_exec rsync
#[function]
fn has_exec(cmd: String) -> Result<bool> {
    Ok(util::which(&cmd).is_some())
}

/// Returns the path of a program, or None.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cmd.which rsync
#[function]
fn which(cmd: String) -> Result<Option<String>> {
    Ok(util::which(&cmd).map(|path| path.to_string_lossy().into_owned()))
}

/// Returns the path of the first of several programs that exists, or None.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cmd.which_bin '[pigz, gzip]'
#[function]
fn which_bin(cmds: Vec<String>) -> Result<Option<String>> {
    let found = cmds.iter().find_map(|cmd| util::which(cmd));
    Ok(found.map(|path| path.to_string_lossy().into_owned()))
}

/// Returns the shells for users, from /etc/shells.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cmd.shells
#[function]
fn shells() -> Result<Vec<String>> {
    Ok(shells::listed(Path::new("/etc/shells")))
}

/// Returns version and path of a shell or interpreter: bash, perl, php, python, ruby, tcsh or zsh.
///
/// ``installed`` is True when a version was found, False when the program is missing, None when it printed no version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cmd.shell_info python
#[function]
fn shell_info(ctx: &Context, shell: String, #[default(false)] list_modules: bool) -> Result<Map> {
    if list_modules {
        tracing::debug!("only PowerShell has modules to list");
    }
    shells::info(ctx, &shell)
}

/// Writes a text to a terminal, such as tty0 or pts3.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cmd.tty pts3 'The disk is being replaced, please log out'
#[function]
fn tty(ctx: &Context, device: String, #[default("")] echo: String) -> Result<Map> {
    let path = match (device.strip_prefix("pts"), device.starts_with("tty")) {
        (Some(number), _) => format!("/dev/pts/{number}"),
        (None, true) => format!("/dev/{device}"),
        (None, false) => return Ok(map! { "Error" => "The specified device is not a valid TTY" }),
    };
    // The device comes from the caller: `pts/../../etc/motd` is not a terminal.
    if path.contains("..") {
        return Ok(map! { "Error" => "The specified device is not a valid TTY" });
    }
    let target = path.clone();
    // A terminal that is stopped would block.
    match ctx.blocking(move || write_terminal(&target, &echo)) {
        Ok(()) => Ok(map! { "Success" => format!("Message was successfully echoed to {path}") }),
        Err(error) => {
            tracing::debug!("failed to write to {path}: {error}");
            Ok(map! { "Error" => format!("Echoing to {path} returned error") })
        }
    }
}

fn write_terminal(path: &str, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    std::fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}
