//! `test` — functions that prove a minion answers.

use exec::{Context, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, map};

/// The module.
pub static MODULE: Module = Module::new("test", "Functions that prove a minion answers.", &[&ARG, &ECHO, &PING]);

/// Returns the arguments it was given.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg 1 "two" 3.1 txt="hello"
#[function]
fn arg(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => args.0, "kwargs" => kwargs.0 })
}

/// Returns the text it was given.
#[function]
fn echo(text: Value) -> Result<Value> {
    Ok(text)
}

/// Says that the minion is there: returns True.
#[function]
async fn ping(ctx: &Context) -> Result<bool> {
    let _ = ctx.id();
    Ok(true)
}
