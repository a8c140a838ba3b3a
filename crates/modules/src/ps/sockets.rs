//! The output of programs that list open files and sockets.

use exec::{Context, Result, function};
use value::{Value, list};

use crate::{subprocess, util};

/// Returns the output of ``lsof`` about the open files of commands with this name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.lsof apache2
#[function]
fn lsof(ctx: &Context, name: String) -> Result<Value> {
    let said = subprocess::quiet(ctx, &["lsof", "-c", &name])?;
    // The exit code becomes that of the job, as in Salt.
    ctx.set_retcode(said.retcode.unwrap_or(1));
    Ok(list![name, said.stdout])
}

/// Returns the lines of ``netstat -nap`` with a text in them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.netstat apache2
#[function]
fn netstat(ctx: &Context, name: String) -> Result<Value> {
    lines_with(ctx, &["netstat", "-nap"], name)
}

/// Returns the lines of ``ss -neap`` with a text in them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.ss apache2
#[function]
fn ss(ctx: &Context, name: String) -> Result<Value> {
    lines_with(ctx, &["ss", "-neap"], name)
}

fn lines_with(ctx: &Context, words: &[&str], name: String) -> Result<Value> {
    util::needs(ctx, words[0])?;
    let said = subprocess::quiet(ctx, words)?;
    let found: Vec<&str> = said.stdout.lines().filter(|line| line.contains(&name)).collect();
    Ok(list![name.as_str(), found])
}
