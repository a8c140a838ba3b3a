//! `cmd`: commands and scripts as states.

mod outcome;
mod stateful;

use exec::{Call, Context, Error, Function, KwArgs, Module, Result, bind, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::saltenv;
use outcome::Outcome;
use stateful::Stateful;

/// The module.
pub static MODULE: Module = Module::new(
    "cmd",
    "Commands and scripts as states.",
    &[&CALL, &MOD_WATCH, &RUN, &SCRIPT, &WAIT, &WAIT_CALL, &WAIT_SCRIPT, &WATCH],
);

/// The shell a command runs in: the given one, or that of the grains.
fn shell(ctx: &Context, given: Value) -> Value {
    if given.truthy() { given } else { ctx.grains.get("shell").cloned().unwrap_or_default() }
}

fn is_environment(env: &Value) -> bool {
    matches!(env, Value::Null | Value::List(_) | Value::Map(_))
}

/// Runs a command only when a watched state changes something.
// The `wait` functions do nothing by themselves. `mod_watch` below does the work when a watched state has changed something.
#[function]
fn wait(
    name: Value,
    cwd: Option<Value>,
    root: Option<Value>,
    runas: Option<Value>,
    shell: Option<Value>,
    #[default(Value::List(Vec::new()))] env: Value,
    #[default(false)] stateful: Value,
    #[default("debug")] output_loglevel: Value,
    #[default(false)] hide_output: Value,
    #[default(false)] use_vt: Value,
    success_retcodes: Option<Value>,
    success_stdout: Option<Value>,
    success_stderr: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (cwd, root, runas, shell, env, stateful, output_loglevel, hide_output, use_vt);
    let _ = (success_retcodes, success_stdout, success_stderr, kwargs);
    Ok(Ret::new(name).ok(""))
}

/// `watch`: the same as `wait`.
static WATCH: Function = Function { name: "watch", doc: "Another name of ``cmd.wait``.", ..WAIT };

/// Runs a script only when a watched state changes something.
#[function]
fn wait_script(
    name: Value,
    source: Option<Value>,
    template: Option<Value>,
    cwd: Option<Value>,
    runas: Option<Value>,
    shell: Option<Value>,
    env: Option<Value>,
    #[default(false)] stateful: Value,
    #[default(false)] use_vt: Value,
    #[default("debug")] output_loglevel: Value,
    #[default(false)] hide_output: Value,
    success_retcodes: Option<Value>,
    success_stdout: Option<Value>,
    success_stderr: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (source, template, cwd, runas, shell, env, stateful, use_vt, output_loglevel, hide_output);
    let _ = (success_retcodes, success_stdout, success_stderr, kwargs);
    Ok(Ret::new(name).ok(""))
}

/// Calls a function only when a watched state changes something.
#[function]
fn wait_call(
    name: Value,
    func: Value,
    #[default(Value::List(Vec::new()))] args: Value,
    kws: Option<Value>,
    #[default(false)] stateful: Value,
    #[default(false)] use_vt: Value,
    #[default("debug")] output_loglevel: Value,
    #[default(false)] hide_output: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (func, args, kws, stateful, use_vt, output_loglevel, hide_output, kwargs);
    Ok(Ret::new(name).ok(""))
}

/// Runs a command. It fails when the command does, and the output of the command is the change.
///
/// ``stateful: True`` takes the last line of the output, or all of it as JSON, as the result of the state
/// (``changed=yes comment='done' key=value``). With ``stateful: [{test_name: COMMAND}]`` that command runs in test
/// mode.
#[function]
fn run(
    ctx: &Context,
    name: Value,
    cwd: Option<Value>,
    root: Option<Value>,
    runas: Option<Value>,
    password: Option<Value>,
    shell: Option<Value>,
    env: Option<Value>,
    prepend_path: Option<Value>,
    #[default(false)] stateful: Value,
    #[default("debug")] output_loglevel: Value,
    #[default(false)] hide_output: Value,
    timeout: Option<Value>,
    #[default(false)] ignore_timeout: Value,
    #[default(false)] use_vt: Value,
    success_retcodes: Option<Value>,
    success_stdout: Option<Value>,
    success_stderr: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let stateful = Stateful::read(&stateful)?;
    let ret = Ret::new(name.clone());
    let env = env.unwrap_or_default();
    // The result keeps the name of the state, even where another command runs in test mode.
    let command = stateful.command(ctx, name);
    if !is_environment(&env) {
        return Ok(ret.fail("Invalidly-formatted 'env' parameter. See documentation."));
    }
    // With a `test_name` the user has named a command that is safe to run in test mode.
    if ctx.is_test() && stateful.test_name.is_none() {
        let ret = ret.would(format!("Command \"{command}\" would have been executed"));
        let ret = ret.changed(map! { "cmd" => command });
        // Salt reads the pretended change as if it were output. As it has no stdout, both changes
        // and comment come out empty.
        return if stateful.on { stateful::reinterpreted(ret) } else { Ok(ret) };
    }
    let cwd = cwd.unwrap_or_default();
    // Checked here because the error of a failed spawn does not distinguish a missing directory from a missing program.
    if let Some(text) = missing_directory(&cwd) {
        return Ok(ret.fail(text));
    }
    let in_root = root.as_ref().is_some_and(Value::truthy);
    let mut arguments = kwargs.0;
    arguments.update(map! {
        "cwd" => cwd, "root" => root, "runas" => runas, "password" => password, "use_vt" => use_vt,
        "shell" => self::shell(ctx, shell.unwrap_or_default()), "env" => env, "prepend_path" => prepend_path,
        "output_loglevel" => output_loglevel, "hide_output" => hide_output, "success_retcodes" => success_retcodes,
        "success_stdout" => success_stdout, "success_stderr" => success_stderr, "timeout" => timeout,
        // A state's command is a line for the shell, unlike an argument of `cmd.run` from the
        // command line.
        "python_shell" => true, "cmd" => command.clone(),
    });
    let function = if in_root { "cmd.run_chroot" } else { "cmd.run_all" };
    let changes = match ctx.call_with(function, Call { args: Vec::new(), kwargs: arguments }) {
        Ok(changes) => changes.into_map().unwrap_or_default(),
        Err(error) => return Ok(ret.fail(error.to_string())),
    };
    let mut outcome = Outcome::of(ret, changes, format!("Command \"{command}\" run"));
    if ignore_timeout.truthy() {
        outcome.forgive_timeout();
    }
    outcome.finish(ctx, stateful.on)
}

fn missing_directory(cwd: &Value) -> Option<String> {
    let missing = cwd.truthy() && !std::path::Path::new(&cwd.to_string()).is_dir();
    missing.then(|| format!("Desired working directory \"{cwd}\" is not available"))
}

/// Fetches a script and runs it. Its arguments are those of ``args``, or the words behind the first of the name.
#[function]
fn script(
    ctx: &Context,
    name: Value,
    source: Option<Value>,
    template: Option<Value>,
    cwd: Option<Value>,
    runas: Option<Value>,
    password: Option<Value>,
    shell: Option<Value>,
    env: Option<Value>,
    #[default(false)] stateful: Value,
    timeout: Option<Value>,
    #[default(false)] use_vt: Value,
    #[default("debug")] output_loglevel: Value,
    #[default(false)] hide_output: Value,
    defaults: Option<Value>,
    context: Option<Value>,
    success_retcodes: Option<Value>,
    success_stdout: Option<Value>,
    success_stderr: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let stateful = Stateful::read(&stateful)?;
    let name = stateful.command(ctx, name);
    let ret = Ret::new(name.clone());
    let env = env.unwrap_or_default();
    if !is_environment(&env) {
        return Ok(ret.fail("Invalidly-formatted 'env' parameter. See documentation."));
    }
    let context = match template_context(defaults, context) {
        Ok(context) => context,
        Err(text) => return Ok(ret.fail(text)),
    };
    let mut arguments = kwargs.0;
    // With `retcode` the function returns the code alone, so there is no map of changes.
    let wants_code = arguments.get("retcode").is_some_and(Value::truthy);
    let cwd = cwd.unwrap_or_default();
    let saltenv = saltenv(ctx);
    let source = source.unwrap_or_else(|| name.clone());
    arguments.update(map! {
        "runas" => runas, "password" => password, "shell" => self::shell(ctx, shell.unwrap_or_default()), "env" => env,
        "cwd" => cwd.clone(), "template" => template, "timeout" => timeout, "output_loglevel" => output_loglevel,
        "hide_output" => hide_output, "use_vt" => use_vt, "context" => context, "saltenv" => saltenv.clone(),
        "success_retcodes" => success_retcodes, "success_stdout" => success_stdout, "success_stderr" => success_stderr,
        "python_shell" => true, "source" => source.clone(),
    });
    // `name: script.sh -a b` is a common way to write arguments.
    if let Some(words) = words_behind(&name, arguments.get("args")) {
        arguments.insert("args", words);
    }
    if ctx.is_test() && stateful.test_name.is_none() {
        let ret = ret.would(format!("Command '{name}' would have been executed"));
        return if stateful.on { stateful::reinterpreted(ret) } else { Ok(ret) };
    }
    // Only in a real run, so that a directory made by an earlier state does not fail test mode.
    if let Some(text) = missing_directory(&cwd) {
        return Ok(ret.fail(text));
    }
    let changes = match ctx.call_with("cmd.script", Call { args: Vec::new(), kwargs: arguments }) {
        Ok(changes) => changes.into_map().unwrap_or_default(),
        Err(error @ (Error::Execution(_) | Error::Other(_))) => return Ok(ret.fail(error.to_string())),
        Err(error) => return Err(error),
    };
    let comment = match changes.get("cache_error").is_some_and(Value::truthy) {
        // The script was not found on the file server. The return code reports failure already.
        true => format!("Unable to cache script {source} from saltenv '{saltenv}'"),
        false => format!("Command '{name}' run"),
    };
    let mut outcome = Outcome::of(ret, changes, comment);
    if wants_code {
        outcome.ret.result = Some(outcome.ret.changes.is_empty());
    }
    outcome.finish(ctx, stateful.on)
}

/// Returns the variables of the template of a script. The context wins over the defaults.
fn template_context(defaults: Option<Value>, context: Option<Value>) -> std::result::Result<Map, String> {
    let read = |value: Option<Value>, name: &str| match value.filter(Value::truthy) {
        None => Ok(Map::new()),
        Some(Value::Map(map)) => Ok(map),
        Some(_) => Err(format!("Invalidly-formatted '{name}' parameter. Must be formed as a dict.")),
    };
    // In Salt's order: `context` is complained about first.
    let context = read(context, "context")?;
    let mut all = read(defaults, "defaults")?;
    all.update(context);
    Ok(all)
}

/// The words of the name behind the first, when no arguments are given.
fn words_behind(name: &Value, args: Option<&Value>) -> Option<String> {
    let name = name.to_string();
    if args.is_some_and(Value::truthy) || name.split_whitespace().count() < 2 {
        return None;
    }
    name.split_once(' ').map(|(_, rest)| rest.to_owned())
}

/// Calls a Python function, which only states written in Python can name: refused.
#[function]
fn call(
    name: Value,
    func: Value,
    #[default(Value::List(Vec::new()))] args: Value,
    kws: Option<Value>,
    #[default("debug")] output_loglevel: Value,
    #[default(false)] hide_output: Value,
    #[default(false)] use_vt: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (name, args, kws, output_loglevel, hide_output, use_vt, kwargs);
    // A function object cannot come out of YAML. Python raises a TypeError with this text.
    Err(Error::Other(format!("'{}' object is not callable", func.type_name())))
}

/// Runs the command that ``cmd.wait`` and similar states wait with.
#[function]
fn mod_watch(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let mut arguments = kwargs.0;
    let sfun = arguments.get("sfun").map(Value::to_string).unwrap_or_default();
    let stateful = arguments.get("stateful").is_some_and(Value::truthy);
    let function: &'static Function = match sfun.as_str() {
        // This is only called if the state itself reported no change, so `cmd.run` seldom gets
        // here.
        "wait" | "run" | "watch" => &RUN,
        "wait_script" | "script" => &SCRIPT,
        "wait_call" | "call" if arguments.get("func").is_some_and(Value::truthy) => &CALL,
        "wait_call" | "call" => {
            return Ok(Ret::new(name).fail(format!("cmd.{sfun} needs a named parameter func")));
        }
        _ => {
            let text =
                format!("cmd.{sfun} does not work with the watch requisite, please use cmd.wait or cmd.wait_script");
            return Ok(Ret::new(name).fail(text));
        }
    };
    // Salt reinterprets the result here, so the function must not do it first.
    if stateful {
        arguments.remove("stateful");
    }
    arguments.insert("name", name);
    let bound = bind(function, Call { args: Vec::new(), kwargs: arguments }, &Map::new())?;
    let ret = Ret::from_value(function.call(ctx, bound)?);
    if stateful { stateful::reinterpreted(ret) } else { Ok(ret) }
}
