//! `salt`: what an orchestration has minions, runners and wheel functions do.
//!
//! Everything goes through `saltutil.cmd`, `saltutil.runner` and `saltutil.wheel`, which are the master's where an
//! orchestration runs.

mod function_;
mod runners;
mod state;
mod wait_for_event;

use exec::{Context, Module};
use value::{Map, Value};

use crate::Ret;
use function_::FUNCTION;
use runners::{PARALLEL_RUNNERS, RUNNER, WHEEL};
use state::STATE;
use wait_for_event::WAIT_FOR_EVENT;

/// The module.
pub static MODULE: Module = Module::new(
    "salt",
    "What an orchestration has minions, runners and wheel functions do.",
    &[&FUNCTION, &PARALLEL_RUNNERS, &RUNNER, &STATE, &WAIT_FOR_EVENT, &WHEEL],
);

/// Reads `fail_minions`: a list, or a text with commas.
fn minions(value: Option<Value>, ret: &mut Ret) -> Vec<String> {
    match value {
        None => Vec::new(),
        Some(Value::Str(text)) => text.split(',').map(|name| name.trim().to_owned()).collect(),
        Some(Value::List(names)) => names.iter().map(Value::to_string).collect(),
        Some(_) => {
            let text = "'fail_minions' needs to be a list or a comma separated string. Ignored.";
            ret.more.insert("warnings", value::list![text]);
            Vec::new()
        }
    }
}

/// The job id of the first minion's return.
fn note_jid(ret: &mut Ret, returns: &Map) {
    // All returns belong to one job, so any of them will do.
    if let Some(jid) = returns.values().next().and_then(|first| first.get("jid")) {
        ret.more.insert("__jid__", jid.clone());
    }
}

/// Returns whether to stop at the first failure, by the argument or the option `failhard`.
fn fails_hard(ctx: &Context, argument: Option<&Value>) -> bool {
    argument == Some(&Value::Bool(true)) || ctx.opt("failhard").is_some_and(Value::truthy)
}
