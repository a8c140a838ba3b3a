//! `timezone`: the system's time zone.

use exec::{Context, Module, Result, function};
use value::{Map, Value};

use crate::support::{call, caught_or_refused, equal};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("timezone", "The system's time zone.", &[&SYSTEM]);

/// Makes sure that the system has a time zone, and that its hardware clock runs in UTC.
#[function]
fn system(ctx: &Context, name: String, #[default(true)] utc: Value) -> Result<Ret> {
    let mut ret = Ret { result: None, ..Ret::new(name.as_str()) };
    let same = match call(ctx, "timezone.zone_compare", args![name.as_str()], Map::new()) {
        Ok(same) => same,
        Err(error) => {
            let why = caught_or_refused(error)?.text;
            let text = format!("Unable to compare desired timezone '{name}' to system timezone: {why}");
            return Ok(ret.fail(text));
        }
    };
    let clock = call(ctx, "timezone.get_hwclock", args![], Map::new())?;
    let in_utc = Value::Bool(clock.as_str() != Some("localtime"));
    let mut messages = Vec::new();
    if same == Value::Bool(true) {
        ret.result = Some(true);
        messages.push(format!("Timezone {name} already set"));
    }
    let set_clock = utc.truthy() && !equal(&utc, &in_utc);
    if set_clock {
        ret.result = None;
    } else if utc.truthy() {
        messages.push(format!("UTC already set to {name}"));
    }
    if ret.result == Some(true) {
        return Ok(ret.ok(messages.join(", ")));
    }
    if ctx.is_test() {
        let mut messages = Vec::new();
        messages.extend((same == Value::Bool(false)).then(|| format!("Timezone {name} needs to be set")));
        messages.extend(set_clock.then(|| format!("UTC needs to be set to {utc}")));
        return Ok(Ret { comment: messages.join(", ").into(), ..ret });
    }
    apply(ctx, &name, same != Value::Bool(true), set_clock.then_some(utc), ret)
}

fn apply(ctx: &Context, name: &str, zone: bool, clock: Option<Value>, mut ret: Ret) -> Result<Ret> {
    let mut messages = Vec::new();
    if zone {
        let done = call(ctx, "timezone.set_zone", args![name], Map::new())?.truthy();
        ret.result = Some(done);
        if done {
            ret.changes.insert("timezone", name);
        }
        messages.push(if done { format!("Set timezone {name}") } else { "Failed to set timezone".into() });
    }
    if let Some(utc) = clock {
        let done = call(ctx, "timezone.set_hwclock", args!["UTC"], Map::new())?.truthy();
        ret.result = Some(done);
        let text = if done { format!("Set UTC to {utc}") } else { format!("Failed to set UTC to {utc}") };
        messages.push(text);
        if done {
            ret.changes.insert("utc", utc);
        }
    }
    Ok(Ret { comment: messages.join(", ").into(), ..ret })
}
