//! `test` — functions that prove a minion answers, and that calls, returns and failures arrive as they left.

mod arguments;
mod failures;
mod numbers;
#[cfg(test)]
mod tests;
mod versions;

use std::time::Duration;

use exec::{Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, list, map, python};

use crate::providers::file_of;
use arguments::{ARG, ARG_CLEAN, ARG_REPR, ARG_TYPE, KWARG};
use failures::{ASSERT_TRUE, EXCEPTION, RAISE_EXCEPTION, TRY};
use numbers::{COLLATZ, FIB, RAND_STR, RANDOM_HASH};
pub use versions::version_text;
use versions::{VERSION, VERSIONS, VERSIONS_INFORMATION, VERSIONS_REPORT};

/// The module.
pub static MODULE: Module = Module::new(
    "test",
    "Functions that prove a minion answers.",
    &[
        &ARG,
        &ARG_CLEAN,
        &ARG_REPR,
        &ARG_TYPE,
        &ASSERT_TRUE,
        &ATTR_CALL,
        &COLLATZ,
        &CONF_TEST,
        &CROSS_TEST,
        &DEPRECATION_WARNING,
        &ECHO,
        &EXCEPTION,
        &FALSE,
        &FIB,
        &GET_OPTS,
        &KWARG,
        &MODULE_REPORT,
        &NOT_LOADED,
        &OPTS_PKG,
        &OUTPUTTER,
        &PING,
        &PROVIDER,
        &PROVIDERS,
        &RAISE_EXCEPTION,
        &RAND_SLEEP,
        &RAND_STR,
        &RANDOM_HASH,
        &RETCODE,
        &SLEEP,
        &STACK,
        &TRUE,
        &TRY,
        &TTY,
        &VERSION,
        &VERSIONS,
        &VERSIONS_INFORMATION,
        &VERSIONS_REPORT,
    ],
);

/// Confirms that the minion is up: returns True. No ICMP is involved.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.ping
#[function]
fn ping(ctx: &Context) -> Result<bool> {
    tracing::debug!("test.ping received for minion '{}'", ctx.id());
    Ok(true)
}

/// Returns the given text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.echo 'one two three'
#[function]
fn echo(text: Value) -> Result<Value> {
    Ok(text)
}

/// Returns the grains, by way of a call from function to function.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.attr_call
#[function]
fn attr_call(ctx: &Context) -> Result<Value> {
    ctx.call("grains.items", Vec::new())
}

/// Calls another function with positional arguments, as functions call each other.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.cross_test cmd.which args='[tar]'
#[function]
fn cross_test(ctx: &Context, func: String, args: Option<Vec<Value>>) -> Result<Value> {
    ctx.call_permitted(&func, exec::Call { args: args.unwrap_or_default(), kwargs: Map::new() })
}

/// Returns the option ``test.foo``, or "unconfigured".
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.conf_test
#[function]
fn conf_test(ctx: &Context) -> Result<Value> {
    Ok(crate::util::config_get(ctx, "test.foo").unwrap_or_else(|| "unconfigured".into()))
}

/// Returns all options of this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.get_opts
#[function]
fn get_opts(ctx: &Context) -> Result<Map> {
    Ok(ctx.opts_with_data())
}

/// Returns all options of this minion and its grains among them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.opts_pkg
#[function]
fn opts_pkg(ctx: &Context) -> Result<Map> {
    Ok(ctx.opts_with_data())
}

/// Returns its argument, to test an outputter.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.outputter '{a: [1, 2]}'
#[function]
fn outputter(data: Value) -> Result<Value> {
    Ok(data)
}

/// Sets the return code of the job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.retcode 3
#[function]
fn retcode(ctx: &Context, #[default(42)] code: i64) -> Result<bool> {
    ctx.set_retcode(code);
    Ok(true)
}

/// Returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.true
#[function(name = "true")]
fn true_() -> Result<bool> {
    Ok(true)
}

/// Returns False.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.false
#[function(name = "false")]
fn false_() -> Result<bool> {
    Ok(false)
}

/// Sleeps for a number of seconds.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.sleep 20
#[function]
async fn sleep(ctx: &Context, length: Value) -> Result<bool> {
    rest(ctx, seconds(&length)?).await
}

/// Python's `int()` of an argument.
fn seconds(length: &Value) -> Result<u64> {
    let whole = match length {
        // Python's `int()`: floats are cut off, and texts must be whole numbers.
        Value::Float(number) => Some(number.trunc() as i64),
        Value::Str(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    };
    let wrong = || Error::Other(format!("invalid literal for int() with base 10: {}", python::repr(length)));
    match u64::try_from(whole.ok_or_else(wrong)?) {
        Ok(seconds) => Ok(seconds),
        Err(_) => Err(Error::Other("sleep length must be non-negative".into())),
    }
}

async fn rest(ctx: &Context, seconds: u64) -> Result<bool> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok(true),
        // A killed job must not sleep on.
        () = ctx.job.cancel.cancelled() => Err(Error::Terminated),
    }
}

/// Sleeps for a random number of seconds, up to the given one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.rand_sleep 60
#[function]
async fn rand_sleep(ctx: &Context, #[default(60)] max: u64) -> Result<bool> {
    let seconds = rand::random_range(0..=max);
    rest(ctx, seconds).await
}

/// Returns the provider of a module on this machine, such as `systemd_service` for `service`, or nothing.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.provider service
#[function]
fn provider(ctx: &Context, module: String) -> Result<String> {
    let found = ctx.agent.registry().modules().find(|known| known.name == module);
    Ok(found.map_or_else(String::new, |known| file_of(known).to_owned()))
}

/// Returns all modules that work here, each under its provider.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.providers
#[function]
fn providers(ctx: &Context) -> Result<Map> {
    Ok(ctx.agent.registry().modules().map(|module| (file_of(module), module.name)).collect())
}

/// Returns the modules that exist but do not work on this machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.not_loaded
#[function]
fn not_loaded(ctx: &Context) -> Result<Vec<&'static str>> {
    Ok(ctx.agent.registry().absent().map(|(name, _)| name).collect())
}

/// Returns all modules and functions that can be called, and which of them cannot be reached in Salt's other ways.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.module_report
#[function]
fn module_report(ctx: &Context) -> Result<Map> {
    let modules: Vec<&str> = ctx.agent.registry().modules().map(|module| module.name).collect();
    let functions = ctx.agent.registry().functions();
    let functions: Vec<String> = functions.map(|(module, function)| format!("{module}.{}", function.name)).collect();
    Ok(map! {
        "functions" => functions.clone(),
        "function_attrs" => functions.clone(),
        "function_subs" => functions,
        "modules" => modules.clone(),
        "module_attrs" => modules,
        // Salt compares two ways to look up functions. Here there is only one.
        "missing_attrs" => list![],
        "missing_subs" => list![],
    })
}

/// Returns the place of this function in the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.stack
#[function]
fn stack() -> Result<String> {
    Ok(std::backtrace::Backtrace::force_capture().to_string())
}

/// Moved to ``cmd.tty``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.tty tty0 'This is a test'
#[function]
fn tty(args: VarArgs, kwargs: KwArgs) -> Result<&'static str> {
    let _ = (args, kwargs);
    Ok("ERROR: This function has been moved to cmd.tty")
}

/// Returns True and logs two warnings, as deprecated functions do.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.deprecation_warning
#[function]
fn deprecation_warning() -> Result<bool> {
    tracing::warn!("This is a test deprecation warning by version.");
    tracing::warn!("This is a test deprecation warning by date very far into the future (3000-01-01).");
    Ok(true)
}
