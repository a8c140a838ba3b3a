//! `process`: processes that must not run.

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::call_with_kwargs;

/// The module.
pub static MODULE: Module = Module::new("process", "Processes that must not run.", &[&ABSENT]);

/// Ends the processes whose command line contains the pattern.
#[function]
fn absent(ctx: &Context, name: Value, user: Option<Value>, signal: Option<Value>) -> Result<Ret> {
    const NONE: &str = "No matching processes running";
    let ret = Ret::new(name.clone());
    if ctx.is_test() {
        let running = call_with_kwargs(ctx, "ps.pgrep", map! { "pattern" => name, "user" => user })?;
        return Ok(ret.would(match running.as_list().map_or(0, <[Value]>::len) {
            0 => NONE.to_owned(),
            count => format!("{count} processes will be killed"),
        }));
    }
    let mut arguments = map! { "pattern" => name, "user" => user, "full" => true };
    if let Some(signal) = signal.filter(Value::truthy) {
        arguments.insert("signal", signal);
    }
    let killed = call_with_kwargs(ctx, "ps.pkill", arguments)?.into_map().unwrap_or_default();
    Ok(match killed.get("killed").and_then(Value::as_list).map(<[Value]>::len) {
        Some(count) => ret.changed(killed).ok(format!("Killed {count} processes")),
        None => ret.changed(Map::new()).ok(NONE),
    })
}
