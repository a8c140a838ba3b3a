//! States that are disabled on a machine (the grain `state_runs_disabled`).

use exec::{Call, Context, Result, function};
use value::{Map, Value, map};

use crate::util::split_input;

// A grain outlives a restart of the minion and shows on the master. Salt keeps the list there, too.
const GRAIN: &str = "state_runs_disabled";

fn off(ctx: &Context) -> Vec<String> {
    let names = ctx.grains.get(GRAIN).and_then(Value::as_list).unwrap_or_default();
    names.iter().map(Value::to_string).collect()
}

/// Returns which of these names are disabled, in Salt's words.
pub fn of(ctx: &Context, names: &[String]) -> Vec<String> {
    let off = off(ctx);
    let mut texts = Vec::new();
    for name in names {
        for pattern in &off {
            // `a.*` disables the SLS files of a directory, but not `a` itself.
            match pattern.contains(".*").then(|| pattern.split('.').next().unwrap_or_default()) {
                Some(module) if name.starts_with(&format!("{module}.")) => texts.push(format!(
                    "The state file \"{name}\" is currently disabled by \"{pattern}\", to re-enable, run state.enable {pattern}."
                )),
                None if pattern == name => texts.push(format!(
                    "The state file \"{name}\" is currently disabled, to re-enable, run state.enable {name}."
                )),
                _ => {}
            }
        }
    }
    texts
}

/// Disables states or the highstate on this machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.disable highstate
///     salt '*' state.disable test.succeed_without_changes
#[function]
pub fn disable(ctx: &Context, states: Value) -> Result<Map> {
    let mut all = off(ctx);
    let mut told = Vec::new();
    for name in split_input(&states) {
        let already = if all.contains(&name) { "already " } else { "" };
        told.push(format!("Info: {name} state {already}disabled."));
        if already.is_empty() {
            all.push(name);
        }
    }
    change(ctx, all, told)
}

/// Enables states or the highstate again.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.enable highstate
#[function]
pub fn enable(ctx: &Context, states: Value) -> Result<Map> {
    let mut all = off(ctx);
    let mut told = Vec::new();
    for name in split_input(&states) {
        let already = if all.contains(&name) { "" } else { "already " };
        told.push(format!("Info: {name} state {already}enabled."));
        all.retain(|present| *present != name);
    }
    change(ctx, all, told)
}

fn change(ctx: &Context, names: Vec<String>, told: Vec<String>) -> Result<Map> {
    if names != off(ctx) {
        let call = Call { args: vec![GRAIN.into(), names.into()], kwargs: Map::new() };
        ctx.call_with("grains.setval", call)?;
    }
    // The grain was written to a file. The running minion would continue with the old list.
    ctx.wait(ctx.agent.refresh(exec::Refresh::Grains))?;
    Ok(map! { "res" => true, "msg" => told.join("\n") })
}

/// Returns the disabled states.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.list_disabled
#[function]
pub fn list_disabled(ctx: &Context) -> Result<Value> {
    Ok(ctx.grains.get(GRAIN).cloned().unwrap_or_else(|| "".into()))
}
