//! `test` — functions that prove that runners work.

use std::time::Duration;

use exec::{KwArgs, Result, VarArgs, function};
use value::{Map, Value, list, map};

use crate::{Module, RunnerContext};

/// The functions of the runner `test`.
pub static MODULE: Module = Module::new(
    "test",
    "Functions that prove that runners work.",
    &[&ARG, &GET_OPTS, &METASYNTACTIC, &RAW_ARG, &SLEEP, &STDOUT_PRINT, &STREAM],
);

/// Returns its arguments; names that begin with two underscores are left out.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run test.arg foo bar=baz
#[function]
async fn arg(_ctx: &RunnerContext, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => args.0, "kwargs" => kwargs.given() })
}

/// Returns its arguments.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run test.raw_arg foo __bar=baz
#[function]
async fn raw_arg(_ctx: &RunnerContext, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => args.0, "kwargs" => kwargs.0 })
}

/// Returns metasyntactic variable names, such as `foo`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run test.metasyntactic locality=uk
#[function]
async fn metasyntactic(_ctx: &RunnerContext, #[default("us")] locality: String) -> Result<Value> {
    Ok(match locality.as_str() {
        "us" => list![
            "foo", "bar", "baz", "qux", "quux", "quuz", "corge", "grault", "garply", "waldo", "fred", "plugh", "xyzzy",
            "thud",
        ],
        "uk" => list!["wibble", "wobble", "wubble", "flob"],
        _ => Value::Null,
    })
}

/// Prints `foo` and returns `bar`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run test.stdout_print
#[function]
async fn stdout_print(ctx: &RunnerContext) -> Result<&'static str> {
    ctx.sink.print("foo");
    Ok("bar")
}

/// Prints a number of seconds, sleeps for as long, and returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run test.sleep s_time=5
#[function]
async fn sleep(ctx: &RunnerContext, #[default(10)] s_time: Value) -> Result<bool> {
    ctx.sink.print(&s_time.to_string());
    // A duration from an infinite, negative or huge number would panic.
    let seconds = s_time.as_f64().filter(|seconds| (0.0..=1e9).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        exec::Error::Arguments(format!("'{}' object cannot be interpreted as an integer", s_time.type_name()))
    })?;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    Ok(true)
}

/// Reports its progress a hundred times within ten seconds, then returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run test.stream
#[function]
async fn stream(ctx: &RunnerContext) -> Result<bool> {
    for percent in 1..100 {
        ctx.progress(map! { "message" => format!("Runner is {percent}% done") }).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(true)
}

/// Returns the master's options.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run test.get_opts
#[function]
async fn get_opts(ctx: &RunnerContext) -> Result<Map> {
    Ok(ctx.config.raw.clone())
}
