//! `schedule`: jobs of the minion's schedule.

use exec::{Call, Context, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::call_with_kwargs;

/// The module.
pub static MODULE: Module =
    Module::new("schedule", "Jobs of the minion's schedule.", &[&ABSENT, &DISABLED, &ENABLED, &PRESENT]);

/// The jobs there are.
fn jobs(ctx: &Context, offline: Option<Value>) -> Result<Map> {
    let mut arguments = map! { "show_all" => true, "return_yaml" => false };
    if let Some(offline) = offline {
        arguments.insert("offline", offline);
    }
    Ok(call_with_kwargs(ctx, "schedule.list", arguments)?.into_map().unwrap_or_default())
}

fn change(ctx: &Context, fun: &str, name: &Value, mut kwargs: Map) -> Result<Ret> {
    if ctx.is_test() {
        kwargs.insert("test", true);
    }
    let answer = ctx.call_with(&format!("schedule.{fun}"), Call { args: vec![name.clone()], kwargs })?;
    Ok(Ret::from_value(answer))
}

/// Makes sure that there is a job in the schedule, as the arguments say.
#[function]
fn present(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let kwargs = kwargs.0;
    let ret = Ret::new(name.clone()).ok("");
    let current = jobs(ctx, Some(kwargs.get("offline").cloned().unwrap_or_default()))?;
    let Some(current) = current.get_value(&name) else {
        let done = change(ctx, "add", &name, kwargs)?;
        if ctx.is_test() {
            return Ok(ret.changed(map! { name => "added" }).ok(done.comment));
        }
        if done.result != Some(true) {
            return Ok(Ret { result: done.result, comment: done.comment, ..ret });
        }
        return Ok(ret.changed(done.changes).ok(format!("Adding new job {name} to schedule")));
    };
    let call = Call { args: vec![name.clone()], kwargs: kwargs.clone() };
    let mut wanted = ctx.call_with("schedule.build_schedule_item", call)?;
    if let Value::Map(item) = &mut wanted {
        if item.get("result").is_some_and(|result| !result.truthy()) {
            return Ok(ret.fail(item.get("comment").cloned().unwrap_or_default()));
        }
        item.entry_or_insert_with("enabled", || true.into());
    }
    if &wanted == current {
        return Ok(ret.ok(format!("Job {name} in correct state")));
    }
    let done = change(ctx, "modify", &name, kwargs)?;
    if ctx.is_test() {
        return Ok(ret.changed(done.changes).ok(done.comment));
    }
    if done.result != Some(true) {
        return Ok(Ret { result: done.result, comment: done.comment, ..ret });
    }
    Ok(ret.changed(done.changes).ok(format!("Modifying job {name} in schedule")))
}

/// The call that changes an existing job.
struct Change {
    fun: &'static str,
    done: &'static str,
    /// True if changes are reported after a success, and after a failure.
    tells: (bool, bool),
}

fn change_if_present(ctx: &Context, name: Value, kwargs: Map, offline: Option<Value>, change_: Change) -> Result<Ret> {
    let ret = Ret::new(name.clone()).ok("");
    if jobs(ctx, offline)?.get_value(&name).is_none() {
        return Ok(ret.ok(format!("Job {name} not present in schedule")));
    }
    let done = change(ctx, change_.fun, &name, kwargs)?;
    if ctx.is_test() {
        return Ok(ret.ok(done.comment));
    }
    let (when_done, when_failed) = change_.tells;
    if done.result != Some(true) {
        let changes = if when_failed { done.changes } else { Map::new() };
        return Ok(Ret { result: done.result, comment: done.comment, changes, ..ret });
    }
    let changes = if when_done { done.changes } else { Map::new() };
    Ok(ret.changed(changes).ok(format!("{} job {name} from schedule", change_.done)))
}

/// Makes sure that there is no such job in the schedule.
#[function]
fn absent(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let offline = Some(kwargs.0.get("offline").cloned().unwrap_or_default());
    change_if_present(ctx, name, kwargs.0, offline, Change { fun: "delete", done: "Removed", tells: (true, false) })
}

/// Makes sure that a job of the schedule is enabled.
#[function]
fn enabled(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    change_if_present(ctx, name, kwargs.0, None, Change { fun: "enable_job", done: "Enabled", tells: (false, true) })
}

/// Makes sure that a job of the schedule is disabled.
#[function]
fn disabled(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let offline = Some(kwargs.0.get("offline").cloned().unwrap_or_default());
    change_if_present(
        ctx,
        name,
        kwargs.0,
        offline,
        Change { fun: "disable_job", done: "Disabled", tells: (false, false) },
    )
}
