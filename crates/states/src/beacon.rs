//! `beacon`: what the minion watches.

use exec::{Call, Context, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::Ret;

/// The module.
pub static MODULE: Module =
    Module::new("beacon", "What the minion watches.", &[&ABSENT, &DISABLED, &ENABLED, &PRESENT]);

fn beacons(ctx: &Context, kwargs: &Map) -> Result<Map> {
    let mut arguments = map! { "return_yaml" => false };
    arguments.update(kwargs.clone());
    let call = Call { args: Vec::new(), kwargs: arguments };
    Ok(ctx.call_with("beacons.list", call)?.into_map().unwrap_or_default())
}

fn change(ctx: &Context, fun: &str, mut args: Vec<Value>, mut kwargs: Map, name: &Value) -> Result<Map> {
    if ctx.is_test() {
        kwargs.insert("test", true);
    }
    args.insert(0, name.clone());
    let answer = ctx.call_with(&format!("beacons.{fun}"), Call { args, kwargs })?;
    Ok(answer.into_map().unwrap_or_default())
}

fn comment_of(answer: &Map) -> Value {
    answer.get("comment").cloned().unwrap_or_default()
}

/// Returns the failed result, if the answer reports a failure.
fn refused(ctx: &Context, ret: &Ret, answer: &Map) -> Option<Ret> {
    let failed = !ctx.is_test() && !answer.get("result").is_some_and(Value::truthy);
    let result = answer.get("result").and_then(Value::as_bool);
    failed.then(|| Ret { result, comment: comment_of(answer), ..ret.clone() })
}

/// Saves the beacons if wanted and adds the outcome to the comment.
fn saved(ctx: &Context, name: &Value, save: bool, mut comments: Vec<String>, ret: Ret) -> Result<Ret> {
    if save {
        if ctx.is_test() {
            comments.push(format!("Beacon {name} would be saved"));
        } else {
            ctx.call("beacons.save", Vec::new())?;
            comments.push(format!("Beacon {name} saved"));
        }
    }
    Ok(ret.ok(comments.join("\n")))
}

/// Makes sure that a beacon is set up as the arguments say; ``save`` writes all to the configuration.
#[function]
fn present(ctx: &Context, name: Value, #[default(false)] save: Value, kwargs: KwArgs) -> Result<Ret> {
    let kwargs = kwargs.0;
    let mut ret = Ret::new(name.clone()).ok("");
    let data: Value = kwargs.iter().map(|(key, value)| Value::from(map! { key.clone() => value.clone() })).collect();
    let current = beacons(ctx, &kwargs)?;
    let comment = match current.get_value(&name) {
        Some(current) if *current == data => format!("Job {name} in correct state"),
        Some(_) => {
            let answer = change(ctx, "modify", vec![data], kwargs, &name)?;
            if let Some(ret) = refused(ctx, &ret, &answer) {
                return Ok(ret);
            }
            if let Some(changes) = answer.get("changes") {
                ret.changes = changes.as_map().cloned().unwrap_or_default();
            }
            match !ctx.is_test() && answer.contains_key("changes") {
                true => format!("Modifying {name} in beacons"),
                false => comment_of(&answer).to_string(),
            }
        }
        None => {
            let answer = change(ctx, "add", vec![data], kwargs, &name)?;
            if let Some(ret) = refused(ctx, &ret, &answer) {
                return Ok(ret);
            }
            if ctx.is_test() { comment_of(&answer).to_string() } else { format!("Adding {name} to beacons") }
        }
    };
    saved(ctx, &name, save.truthy(), vec![comment], ret)
}

/// Changes an existing beacon; reports one of these texts when it is done, or when there is no such beacon.
fn change_if_present(ctx: &Context, fun: &str, name: &Value, kwargs: Map, words: (String, String)) -> Result<Ret> {
    let ret = Ret::new(name.clone()).ok("");
    let (done, missing) = words;
    if beacons(ctx, &kwargs)?.get_value(name).is_none() {
        return Ok(ret.ok(missing));
    }
    let answer = change(ctx, fun, Vec::new(), kwargs, name)?;
    if let Some(ret) = refused(ctx, &ret, &answer) {
        return Ok(ret);
    }
    Ok(if ctx.is_test() { ret.ok(comment_of(&answer)) } else { ret.ok(done) })
}

/// Makes sure that there is no such beacon; ``save`` writes all to the configuration.
#[function]
fn absent(ctx: &Context, name: Value, #[default(false)] save: Value, kwargs: KwArgs) -> Result<Ret> {
    let words = (format!("Removed {name} from beacons"), format!("{name} not configured in beacons"));
    let ret = change_if_present(ctx, "delete", &name, kwargs.0, words)?;
    if ret.result != Some(true) {
        return Ok(ret);
    }
    let comment = ret.comment.to_string();
    saved(ctx, &name, save.truthy(), vec![comment], ret)
}

/// Makes sure that a beacon is enabled.
#[function]
fn enabled(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let words = (format!("Enabled {name} from beacons"), format!("{name} not a configured beacon"));
    change_if_present(ctx, "enable_beacon", &name, kwargs.0, words)
}

/// Makes sure that a beacon is disabled.
#[function]
fn disabled(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let words = (format!("Disabled beacon {name}."), format!("Job {name} is not configured."));
    change_if_present(ctx, "disable_beacon", &name, kwargs.0, words)
}

/// Returns the result of a `mod_beacon` that makes no beacon: the state function does not support them, or none is
/// wanted.
pub fn without(name: &str, kwargs: &Map, supported: &[&str], wrong: impl Fn(&str) -> String) -> Option<Ret> {
    let sfun = kwargs.get("sfun").cloned().unwrap_or_default().to_string();
    if !supported.contains(&sfun.as_str()) {
        return Some(Ret::new(name).fail(wrong(&sfun)));
    }
    let wanted = kwargs.get("beacon").is_some_and(Value::truthy);
    (!wanted).then(|| Ret::new(name).ok("Not adding beacon."))
}

/// Makes the beacon of a state.
pub fn made(ctx: &Context, beacon: Map) -> Result<Ret> {
    Ok(Ret::from_value(ctx.call_state("beacon.present", Call { args: Vec::new(), kwargs: beacon })?))
}
