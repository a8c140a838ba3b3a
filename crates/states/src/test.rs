//! `test`: states that do nothing, in every way.

use exec::{Context, Error, KwArgs, Module, Result, StateCall, function};
use value::{Map, Value, list, map};

use crate::Ret;

/// The module.
pub static MODULE: Module = Module::new(
    "test",
    "States that do nothing, in every way.",
    &[
        &CHECK_PILLAR,
        &CONFIGURABLE_TEST_STATE,
        &FAIL_WITH_CHANGES,
        &FAIL_WITHOUT_CHANGES,
        &MOD_WATCH,
        &NOP,
        &SHOW_NOTIFICATION,
        &SUCCEED_WITH_CHANGES,
        &SUCCEED_WITHOUT_CHANGES,
    ],
);

/// Returns the changes that the states of this module pretend to make.
fn pretended() -> Map {
    map! { "testing" => map! { "old" => "Unchanged", "new" => "Something pretended to change" } }
}

fn comment(kwargs: &KwArgs, default: &str) -> Value {
    kwargs.0.get("comment").cloned().unwrap_or_else(|| default.into())
}

/// Does nothing and succeeds. Useful as a target of requisites.
#[function]
fn nop(name: Value, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    Ok(Ret::new(name).ok("Success!"))
}

/// Succeeds and reports no changes.
#[function]
fn succeed_without_changes(name: Value, kwargs: KwArgs) -> Result<Ret> {
    Ok(Ret::new(name).ok(comment(&kwargs, "Success!")))
}

/// Fails and reports no changes.
#[function]
fn fail_without_changes(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let text = match ctx.is_test() {
        true => "If we weren't testing, this would be a failure!".into(),
        false => comment(&kwargs, "Failure!"),
    };
    Ok(Ret::new(name).fail(text))
}

/// Succeeds and reports changes.
#[function]
fn succeed_with_changes(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name).changed(pretended());
    Ok(match ctx.is_test() {
        true => ret.would("If we weren't testing, this would be successful with changes"),
        false => ret.ok(comment(&kwargs, "Success!")),
    })
}

/// Fails and reports changes.
#[function]
fn fail_with_changes(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name).changed(pretended());
    Ok(match ctx.is_test() {
        true => ret.would("If we weren't testing, this would be failed with changes"),
        false => ret.fail(comment(&kwargs, "Failure!")),
    })
}

/// Succeeds or fails, with or without changes, comment and warnings, as the arguments say. ``changes`` and ``result`` are
/// True, False or "Random". In test mode the result is None when there are changes, and True otherwise; a failure stays
/// one with ``allow_test_mode_failure``.
#[function]
fn configurable_test_state(
    ctx: &Context,
    name: Value,
    #[default(true)] changes: Value,
    #[default(true)] result: Value,
    #[default("")] comment: Value,
    warnings: Option<Value>,
    #[default(false)] allow_test_mode_failure: bool,
) -> Result<Ret> {
    let mut ret = Ret::new(name);
    if choice(&changes, "changes")? {
        ret.changes = pretended();
    }
    ret.result = Some(choice(&result, "result")?);
    ret.comment = comment.clone();
    if let Some(warnings) = warnings {
        ret.more.insert("warnings", warning_list(warnings)?);
    }
    if ctx.is_test() {
        let failure = allow_test_mode_failure && result == Value::Bool(false);
        ret.result = match (failure, changes == Value::Bool(false)) {
            (true, _) => Some(false),
            (false, true) => Some(true),
            (false, false) => None,
        };
        ret.comment = if comment.truthy() { comment } else { "This is a test".into() };
    }
    Ok(ret)
}

/// True, False, or a random one of them.
fn choice(value: &Value, option: &str) -> Result<bool> {
    match value {
        Value::Bool(choice) => Ok(*choice),
        other if other.to_string().eq_ignore_ascii_case("random") => Ok(rand::random()),
        _ => Err(Error::invocation(format!(
            "You have specified the state option '{option}' with invalid arguments. It must be either True, False, or \
             'Random'"
        ))),
    }
}

fn warning_list(warnings: Value) -> Result<Value> {
    match warnings {
        Value::Str(text) => Ok(list![text]),
        list @ Value::List(_) => Ok(list),
        _ => Err(Error::invocation(
            "You have specified the state option 'warnings' with invalid arguments. It must be a string or a list of \
             strings",
        )),
    }
}

/// Shows a text as the comment of the state.
#[function]
fn show_notification(name: Value, text: Option<Value>, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    match text.filter(Value::truthy) {
        Some(text) => Ok(Ret::new(name).ok(text)),
        None => Err(Error::invocation("Missing required argument text.")),
    }
}

/// Reports the changes of a watched state. ``result``, ``comment`` and ``changes`` can be set by arguments of these
/// names.
#[function]
fn mod_watch(ctx: &Context, name: Value, sfun: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let _ = sfun;
    let given = |key: &str, default: Value| kwargs.0.get(key).cloned().unwrap_or(default);
    let changed = ctx.state.as_deref().map(watched_changes).unwrap_or_default();
    // `changes: False` of a configurable_test_state is handed on, too, and refused by the run as no map of changes.
    let ret = map! {
        "name" => name,
        "result" => given("result", true.into()),
        "comment" => given("comment", "Watch statement fired.".into()),
        "changes" => given("changes", map! { "Requisites with changes" => changed }.into()),
    };
    Ok(ret.into())
}

/// The watched states that changed something, as `state: id`.
fn watched_changes(call: &StateCall) -> Vec<String> {
    let watched = call.low.get("__reqs__").and_then(|reqs| reqs.get("watch")).and_then(Value::as_list);
    let all = call.changed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let changed = |low: &&Map| all.contains(&StateCall::tag(low));
    let part = |low: &Map, key: &str| low.get(key).map(Value::to_string).unwrap_or_default();
    let lows = watched.unwrap_or_default().iter().filter_map(Value::as_map);
    lows.filter(changed).map(|low| format!("{}: {}", part(low, "state"), part(low, "__id__"))).collect()
}

/// The types that `check_pillar` supports: the argument, Python's name, and the check.
type Check = (Option<&'static str>, fn(&Value) -> bool);

const CHECKS: [Check; 6] = [
    (None, |_| true),
    (Some("<class 'bool'>"), |value| matches!(value, Value::Bool(_))),
    // To Python a bool is a number, too.
    (Some("<class 'int'>"), |value| matches!(value, Value::Int(_) | Value::BigInt(_) | Value::Bool(_))),
    (Some("(<class 'str'>,)"), |value| matches!(value, Value::Str(_))),
    (Some("<class 'list'>"), |value| matches!(value, Value::List(_))),
    (Some("<class 'dict'>"), |value| matches!(value, Value::Map(_))),
];

/// Checks that keys are in the pillar and, if wanted, that their values have a certain type. With ``verbose`` valid
/// keys are listed, too.
#[function]
fn check_pillar(
    ctx: &Context,
    name: Value,
    present: Option<Value>,
    boolean: Option<Value>,
    integer: Option<Value>,
    string: Option<Value>,
    listing: Option<Value>,
    dictionary: Option<Value>,
    #[default(false)] verbose: bool,
) -> Result<Ret> {
    let wanted = [present, boolean, integer, string, listing, dictionary];
    if !wanted.iter().flatten().any(Value::truthy) {
        return Err(Error::invocation("Missing required argument text."));
    }
    let (mut fine, mut failed) = (Map::new(), Map::new());
    for (keys, (kind, fits)) in wanted.into_iter().zip(CHECKS) {
        for key in key_list(keys)? {
            let found = ctx.call("pillar.get", vec![key.clone(), Value::Null])?;
            if found.is_null() {
                failed.insert(key, Value::Null);
            } else if !fits(&found) {
                failed.insert(key, kind);
            } else if verbose {
                fine.insert(key, kind.unwrap_or("None"));
            }
        }
    }
    let mut text: String = failed.iter().map(|(key, kind)| failure(key, kind)).collect();
    if !fine.is_empty() {
        text.push_str("Those keys passed the check:\n");
        text.extend(fine.iter().map(|(key, kind)| format!("- {key} ({kind})\n")));
    }
    let ret = Ret::new(name);
    Ok(if failed.is_empty() { ret.ok(text) } else { ret.fail(text) })
}

fn key_list(keys: Option<Value>) -> Result<Vec<Value>> {
    match keys.filter(Value::truthy) {
        None => Ok(Vec::new()),
        Some(Value::List(keys)) => Ok(keys),
        Some(key @ Value::Str(_)) => Ok(vec![key]),
        Some(other) => Err(Error::Other(format!("the keys to check must be a text or a list, not {other}"))),
    }
}

fn failure(key: &Value, kind: &Value) -> String {
    match kind {
        Value::Null => format!("Pillar key \"{key}\" is missing.\n"),
        kind => format!("Pillar key \"{key}\" is not {kind}.\n"),
    }
}
