//! Scripts: fetched or given as text, put into a file for one run.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use exec::{Context, Error, Result};
use tempfile::TempPath;
use value::{Map, Value, map};

use super::options::{CallArgs, Options, with_pillar};
use super::run::{self, Outcome};
use super::{runas, words};
use crate::templates;

/// Runs a script from the file server, a URL or this machine; `None` when it cannot be fetched.
pub fn run(ctx: &Context, given: &CallArgs) -> Result<Option<Outcome>> {
    let source = given.text("source").unwrap_or_default();
    let saltenv = given.some_text("saltenv").or_else(|| ctx.opt_str("saltenv").map(str::to_owned));
    let cached = match crate::fileclient::cache(ctx, &source, saltenv.as_deref().unwrap_or("base"))? {
        Some(path) => path,
        None => return Ok(None),
    };
    // The file may vanish between the two calls when the cache is cleared; Salt answers that with `cache_error`.
    let content = match std::fs::read(&cached) {
        Ok(content) => content,
        Err(error) => {
            tracing::error!("failed to read the cached script {}: {error}", cached.display());
            return Ok(None);
        }
    };
    let content = match given.some_text("template") {
        Some(engine) => {
            let text = String::from_utf8(content)
                .map_err(|_| Error::execution(format!("the script {source} is not valid UTF-8")))?;
            let context = given.value("context").as_map().cloned().unwrap_or_default();
            let saltenv = saltenv.as_deref().unwrap_or("base");
            let ctx = with_pillar(ctx, given)?;
            let rendered = templates::text(&ctx, Some(&engine), &text, Some(&cached), saltenv, context);
            rendered?.into_bytes()
        }
        None => content,
    };
    // A `?saltenv=…` at the end of the address would otherwise become part of the suffix.
    let plain = source.split('?').next().unwrap_or_default();
    // Some interpreters judge a script by its suffix.
    let suffix = Path::new(plain).extension().map(|ending| format!(".{}", ending.to_string_lossy()));
    let runas = given.some_text("runas");
    let file = place(&content, given.some_text("cwd").as_deref(), &suffix.unwrap_or_default(), runas.as_deref())?;
    let outcome = run::run(ctx, &options(ctx, given, &file)?);
    remove(file);
    outcome.map(Some)
}

/// The result of `cmd.script` when the script cannot be fetched.
pub fn not_cached() -> Map {
    map! { "pid" => 0, "retcode" => 1, "stdout" => "", "stderr" => "", "cache_error" => true }
}

/// Runs code in any language whose program takes a file.
pub fn code(ctx: &Context, lang: &str, code: &str, given: CallArgs) -> Result<Outcome> {
    let file = place(code.as_bytes(), None, "", given.some_text("runas").as_deref())?;
    let mut given = given;
    let mut command = vec![Value::from(lang), file.to_string_lossy().into()];
    match given.value("args") {
        Value::List(items) => command.extend(items.clone()),
        Value::Null => {}
        single => command.push(single.clone()),
    }
    given.set("cmd", command);
    given.set("python_shell", false);
    let outcome = run::run(ctx, &Options::read(ctx, &given)?);
    remove(file);
    outcome
}

fn options(ctx: &Context, given: &CallArgs, file: &TempPath) -> Result<Options> {
    let mut given = given.clone();
    let mut command = vec![file.to_string_lossy().into_owned()];
    let args = match given.value("args") {
        Value::Str(text) => words::split(text).map_err(|error| Error::Other(error.to_string()))?,
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        Value::Null => Vec::new(),
        single => vec![single.to_string()],
    };
    // Arguments given to a shell would need quoting; without one they reach the script as they are.
    if !args.is_empty() {
        given.set("python_shell", false);
    }
    command.extend(args);
    given.set("cmd", command);
    // The script was checked already; its path is nothing to render.
    given.set("template", Value::Null);
    Options::read(ctx, &given)
}

/// Writes the script where only its user can read and run it.
fn place(content: &[u8], directory: Option<&str>, suffix: &str, runas: Option<&str>) -> Result<TempPath> {
    let directory = directory.map_or_else(std::env::temp_dir, Into::into);
    let failed = |error: std::io::Error| Error::io("write a temporary script in", &directory, &error);
    let mut file =
        tempfile::Builder::new().prefix("__salt.tmp.").suffix(suffix).tempfile_in(&directory).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    let path = file.into_temp_path();
    // Closed first and then made executable: executing a file that is open for writing fails with ETXTBSY.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o500)).map_err(failed)?;
    if let Some(name) = runas {
        let user = runas::user(name)?;
        // The mode lets only the owner read it, so the user who runs it must own it.
        nix::unistd::chown(path.as_os_str(), Some(user.uid), None).map_err(|error| failed(error.into()))?;
    }
    Ok(path)
}

fn remove(file: TempPath) {
    if let Err(error) = file.close() {
        tracing::error!("cmd.script: Unable to clean tempfile: {error}");
    }
}
