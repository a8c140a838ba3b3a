//! `event` — events from the command line.

use exec::{Error, Result, function};
use value::{Map, Value};

use crate::{Module, RunnerContext};

/// The functions of the runner `event`.
pub static MODULE: Module = Module::new("event", "Events from the command line.", &[&SEND]);

/// Fires an event on the master's bus, with the given tag, and returns whether the bus accepted it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run event.send my/custom/event '{"foo": "bar"}'
#[function]
async fn send(ctx: &RunnerContext, tag: String, data: Option<Value>) -> Result<bool> {
    let data = match data {
        Some(Value::Map(data)) => data,
        None => Map::new(),
        Some(other) if !other.truthy() => Map::new(),
        Some(other) => return Err(Error::Other(format!("ValueError: Dict object expected, not '{other}'."))),
    };
    Ok(ctx.events.fire(&tag, data).await)
}
