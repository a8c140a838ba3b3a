//! Helpers that state functions share: calling execution functions and reading arguments as Salt does.

use exec::{Call, Context, Error, Result};
use value::{Map, Value};

/// Builds the positional arguments of a call.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$( ::value::Value::from($value) ),*] };
}

/// Returns whether this machine has the execution function.
pub fn has(ctx: &Context, fun: &str) -> bool {
    ctx.agent.registry().find(fun).is_ok()
}

/// Calls an execution function.
///
/// # Errors
/// Those of the function.
pub fn call(ctx: &Context, fun: &str, args: Vec<Value>, kwargs: Map) -> Result<Value> {
    ctx.call_with(fun, Call { args, kwargs })
}

/// Calls an execution function with named arguments alone.
///
/// # Errors
/// Those of the function, and that there is none of the name.
pub fn call_with_kwargs(ctx: &Context, fun: &str, kwargs: Map) -> Result<Value> {
    call(ctx, fun, Vec::new(), kwargs)
}

/// The same for a function that returns a boolean.
///
/// # Errors
/// Those of the function, and that there is none of the name.
pub fn call_for_bool(ctx: &Context, fun: &str, kwargs: Map) -> Result<bool> {
    call_with_kwargs(ctx, fun, kwargs).map(|answer| answer.truthy())
}

/// The environment the state came from.
pub fn saltenv(ctx: &Context) -> String {
    let env = ctx.state.as_ref().and_then(|state| state.low.get_str("__env__"));
    env.or_else(|| ctx.opt_str("saltenv")).unwrap_or("base").to_owned()
}

/// Lays one map over another and returns it.
pub fn over(mut base: Map, more: &Map) -> Map {
    base.update(more.clone());
    base
}

pub use modules::util::is_true;

/// A failure that a state reports as its result.
#[derive(Debug)]
pub struct Caught {
    /// The whole text.
    pub text: String,
    /// The text without what was changed.
    pub without_changes: String,
    /// The changes before the failure.
    pub changes: Map,
    /// True if there is more than a text.
    pub detailed: bool,
}

/// Catches failures of execution functions that states report; any other error is passed on.
///
/// # Errors
/// The error, when it is none of that kind.
pub fn caught(error: Error) -> Result<Caught> {
    match error {
        Error::Execution(_) | Error::Detailed { .. } => {
            let (without_changes, changes) = error.without_changes();
            Ok(Caught {
                text: error.to_string(),
                without_changes,
                changes,
                detailed: matches!(error, Error::Detailed { .. }),
            })
        }
        other => Err(other),
    }
}

/// The same, for requests that make no sense, too.
///
/// # Errors
/// The error, when it is none of these kinds.
pub fn caught_or_refused(error: Error) -> Result<Caught> {
    match error {
        Error::Invocation(text) => {
            Ok(Caught { without_changes: text.clone(), text, changes: Map::new(), detailed: false })
        }
        other => caught(other),
    }
}

/// Joins what can be printed.
pub fn join<T: std::fmt::Display>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}

/// The items of a list; a single value is a list of one, nothing an empty one.
pub fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::List(items) => items.clone(),
        Value::Null => Vec::new(),
        single => vec![single.clone()],
    }
}

/// Returns whether two values are equal as Python compares them.
pub fn equal(a: &Value, b: &Value) -> bool {
    value::python::equal(a, b)
}

/// Returns why a module does not work: none of its programs exists.
///
/// # Errors
/// The reason, as Salt words it.
pub fn needs(programs: &[&str], otherwise: &str) -> std::result::Result<(), String> {
    // Tests replay what functions answered, without the programs behind them.
    let there = cfg!(test) || programs.iter().any(|program| modules::util::which(program).is_some());
    if there { Ok(()) } else { Err(otherwise.to_owned()) }
}
