//! `unless`, `onlyif`, `creates` and `check_cmd`.

use std::path::Path;

use exec::{Call, Context, Error, Result};
use value::{Map, Value, map};

use super::slots;

/// Arguments of a state that its checks use too.
const SHARED: [&str; 8] = ["cwd", "root", "runas", "env", "prepend_path", "umask", "timeout", "success_retcodes"];

/// The verdict of the checks before a state.
#[derive(Debug, Default)]
pub struct Checked {
    /// True if the state is skipped.
    pub skip: bool,
    /// The reason, one line for each kind of check.
    pub comment: Vec<String>,
}

impl Checked {
    fn one(skip: bool, comment: impl Into<String>) -> Self {
        Checked { skip, comment: vec![comment.into()] }
    }
}

/// Returns whether a state has `unless`, `onlyif` or `creates`.
pub fn has_checks(low: &Map) -> bool {
    ["unless", "onlyif", "creates"].iter().any(|key| low.contains_key(key))
}

/// Runs `unless`, `onlyif` and `creates` of a state.
pub fn before(ctx: &Context, low: &Map) -> Result<Checked> {
    let shared = shared(low, &ctx.grains);
    let mut all = Checked::default();
    if let Some(entries) = low.get("onlyif") {
        add(&mut all, onlyif(ctx, entries, &shared)?);
    }
    if let Some(entries) = low.get("unless") {
        add(&mut all, unless(ctx, entries, &shared)?);
    }
    if let Some(paths) = low.get("creates") {
        add(&mut all, creates(paths));
    }
    Ok(all)
}

fn add(all: &mut Checked, one: Checked) {
    all.skip |= one.skip;
    all.comment.extend(one.comment);
}

fn shared(low: &Map, grains: &Map) -> Map {
    let excluded: Vec<&Value> = match low.get("cmd_opts_exclude") {
        Some(Value::List(keys)) => keys.iter().collect(),
        Some(key) => vec![key],
        None => Vec::new(),
    };
    let is_excluded = |key: &str| excluded.iter().any(|excluded| excluded.as_str() == Some(key));
    let mut options = Map::new();
    for key in SHARED {
        if let Some(value) = low.get(key).filter(|value| !value.is_null() && !is_excluded(key)) {
            options.insert(key, value.clone());
        }
    }
    // `cmd` parses its `umask` as octal digits again.
    if let Some(mask) = low.get("__umask__").and_then(Value::as_i64).filter(|_| !is_excluded("umask")) {
        options.insert("umask", format!("{mask:03o}"));
    }
    if let Some(shell) = low.get("shell").filter(|_| !is_excluded("shell")).or_else(|| grains.get("shell")) {
        options.insert("shell", shell.clone());
    }
    options
}

fn entries(value: &Value) -> &[Value] {
    match value {
        Value::List(entries) => entries,
        one => std::slice::from_ref(one),
    }
}

/// Runs a command through the shell and returns its exit code, or `failed` if it cannot be run.
fn retcode(ctx: &Context, command: &str, options: &Map, failed: i64) -> Result<i64> {
    let mut kwargs = options.clone();
    kwargs.extend([("ignore_retcode", true), ("python_shell", true)]);
    let call = Call { args: vec![command.into()], kwargs };
    match ctx.call_permitted("cmd.retcode", call) {
        Ok(code) => Ok(code.as_i64().unwrap_or(failed)),
        Err(Error::Execution(reason)) => {
            tracing::debug!("the check {command} could not be run: {reason}");
            Ok(failed)
        }
        Err(error) => Err(error),
    }
}

/// The outcome of an execution function used as a check.
enum Answer {
    /// The function set a return code.
    Code(i64),
    Truth(bool),
}

/// Calls the function of a check. The job's return code is saved and restored around the call.
fn ask(ctx: &Context, entry: &Map) -> Result<Option<Answer>> {
    let Some((fun, mut call)) = slots::call_of(entry) else {
        return Ok(None);
    };
    slots::fill_call(ctx, &mut call)?;
    let before = ctx.job.retcode();
    ctx.set_retcode(0);
    let answer = ctx.call_permitted(&fun, call);
    let code = ctx.job.retcode();
    // A check that fails must not make the job fail.
    ctx.set_retcode(before);
    let mut answer = answer?;
    if let Some(path) = entry.get("get_return").filter(|path| path.truthy()) {
        answer = answer.traverse(&path.to_string(), ":").cloned().unwrap_or_default();
    }
    Ok(Some(if code != 0 { Answer::Code(code) } else { Answer::Truth(answer.truthy()) }))
}

fn onlyif(ctx: &Context, value: &Value, options: &Map) -> Result<Checked> {
    let (holds, fails) = ("onlyif condition is true", "onlyif condition is false");
    let mut comment = String::new();
    for entry in entries(value) {
        let holding = match entry {
            // A command that cannot be started skips the state for `onlyif` and `unless` alike, so the codes differ.
            Value::Str(command) => retcode(ctx, command, options, 100)? == 0,
            Value::Map(map) => match ask(ctx, map)? {
                Some(Answer::Code(code)) => code == 0,
                Some(Answer::Truth(truth)) => truth,
                None => return Ok(Checked::one(false, missing_fun("onlyif", map))),
            },
            _ => return Ok(Checked::one(false, "onlyif execution failed, bad type passed")),
        };
        if !holding {
            return Ok(Checked::one(true, fails));
        }
        comment = holds.into();
    }
    Ok(Checked::one(false, comment))
}

/// One false condition is enough for the state to run.
fn unless(ctx: &Context, value: &Value, options: &Map) -> Result<Checked> {
    let (holds, fails) = ("unless condition is true", "unless condition is false");
    let mut last = Checked::one(false, "");
    for entry in entries(value) {
        let holding = match entry {
            Value::Str(command) => retcode(ctx, command, options, 0)? == 0,
            Value::Map(map) => match ask(ctx, map)? {
                Some(Answer::Code(code)) => code == 0,
                Some(Answer::Truth(truth)) => truth,
                None => return Ok(Checked { comment: vec![missing_fun("unless", map)], ..last }),
            },
            _ => {
                last = Checked::one(false, "unless condition is false, bad type passed");
                continue;
            }
        };
        if !holding {
            return Ok(Checked::one(false, fails));
        }
        last = Checked::one(true, holds);
    }
    Ok(last)
}

fn missing_fun(word: &str, entry: &Map) -> String {
    let text = format!("no `fun` argument in {word}: {}", value::python::repr_map(entry));
    tracing::warn!("{text}");
    text
}

fn creates(paths: &Value) -> Checked {
    let exists = |path: &Value| path.as_str().is_some_and(|path| Path::new(path).exists());
    match paths {
        Value::Str(path) if exists(paths) => Checked::one(true, format!("{path} exists")),
        Value::List(all) if all.iter().all(exists) => Checked::one(true, "All files in creates exist"),
        _ => Checked::one(false, "Creates files not found"),
    }
}

/// Runs the commands of `check_cmd`, which decide whether a state succeeded. Returns result and comment.
pub fn after(ctx: &Context, low: &Map) -> Result<Map> {
    let mut options = Map::new();
    if let Some(shell) = ctx.grains.get("shell") {
        options.insert("shell", shell.clone());
    }
    let mut ret = map! { "result" => false };
    for command in entries(low.get("check_cmd").unwrap_or(&Value::Null)) {
        // A command that cannot be started is a failure of the state itself.
        let mut kwargs = options.clone();
        kwargs.extend([("ignore_retcode", true), ("python_shell", true)]);
        let code = ctx.call_permitted("cmd.retcode", Call { args: vec![command.clone()], kwargs })?;
        if code.as_i64() != Some(0) {
            return Ok(map! { "result" => false, "comment" => "check_cmd determined the state failed" });
        }
        ret = map! { "result" => true, "comment" => "check_cmd determined the state succeeded" };
    }
    Ok(ret)
}
