//! `module`: execution functions as states.

use exec::{Call, Context, Error, Function, KwArgs, Module, Result, function};
use value::{Map, Value};

use crate::Ret;

/// The module.
pub static MODULE: Module = Module::new("module", "Execution functions as states.", &[&MOD_WATCH, &RUN, &WAIT, &WATCH]);

/// Calls a function only when a watched state changes something.
#[function]
fn wait(name: Value, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    Ok(Ret::new(name).ok(""))
}

/// Another name of ``module.wait``.
#[function]
fn watch(name: Value, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    Ok(Ret::new(name).ok(""))
}

/// Calls functions: each key with a dot is one, with a list of its arguments. A key without a dot makes it the old form,
/// with ``name`` the function and its arguments beside it.
#[function]
fn run(ctx: &Context, kwargs: KwArgs) -> Result<Ret> {
    called(ctx, kwargs.0)
}

/// Calls functions when a watched state has changed something.
#[function]
fn mod_watch(ctx: &Context, kwargs: KwArgs) -> Result<Ret> {
    called(ctx, kwargs.0)
}

fn called(ctx: &Context, kwargs: Map) -> Result<Ret> {
    // The form is guessed from the keys: every one of the new form has a dot, as a function's name
    // does.
    let mut keys = kwargs.keys().map(Value::to_string).filter(|key| !["name", "__reqs__", "sfun"].contains(&&**key));
    let old = match keys.next() {
        None => !kwargs.is_empty(),
        Some(first) => !first.contains('.') || keys.any(|key| !key.contains('.')),
    };
    if let Some(returner) = kwargs.get("returner").filter(|returner| returner.truthy()) {
        tracing::warn!("the returner {returner} of module.run is not used");
    }
    if old { by_name(ctx, kwargs) } else { by_keys(ctx, kwargs) }
}

fn find(ctx: &Context, name: &str) -> Option<&'static Function> {
    // Functions that the minion's configuration disables count as missing.
    ctx.agent.registry().find_permitted(name).ok()
}

/// The function that a key names. A suffix after a colon lets a state call one function several
/// times.
fn function_of(key: &str) -> &str {
    key.split(':').next().unwrap_or_default()
}

fn by_keys(ctx: &Context, mut kwargs: Map) -> Result<Ret> {
    kwargs.remove("name");
    // Salt names the result after the list of all keys.
    let mut ret = Ret::new(kwargs.keys().cloned().collect::<Value>());
    ret.result = None;
    let keys: Vec<String> = kwargs.keys().map(Value::to_string).filter(|key| key.contains('.')).collect();
    if keys.is_empty() {
        return Ok(ret.fail("No function provided."));
    }
    let (there, missing): (Vec<&str>, Vec<&str>) =
        keys.iter().map(|key| function_of(key)).partition(|name| find(ctx, name).is_some());
    let tests = if ctx.is_test() { there } else { Vec::new() };
    // One missing function keeps all others from being called.
    if !missing.is_empty() || !tests.is_empty() {
        ret.comment = announcement(&missing, &tests).into();
        if !missing.is_empty() {
            ret.result = Some(false);
        }
        return Ok(ret);
    }
    let (mut failures, mut successes) = (Vec::new(), Vec::new());
    for key in &keys {
        let arguments = kwargs.get(key).cloned().unwrap_or_default();
        match call_one(ctx, function_of(key), arguments) {
            Ok(value) if succeeded(&value) => {
                successes.push(format!("{key}: {}", success_text(&value)));
                ret.changes.insert(key, value);
            }
            Ok(Value::Map(map)) => {
                let comment = map.get("comment").map_or_else(|| "(error message N/A)".into(), Value::to_string);
                failures.push(format!("'{key}' failed: {comment}"));
            }
            Ok(value) => failures.push(format!("'{key}': {value}")),
            Err(error @ (Error::Invocation(_) | Error::Arguments(_))) => {
                failures.push(format!("'{key}' failed: {error}"));
            }
            // Other errors end the state, as an exception does in Salt.
            Err(error) => return Err(error),
        }
    }
    ret.result = Some(failures.is_empty());
    // Failures come first in the comment.
    failures.append(&mut successes);
    ret.comment = failures.join(", ").into();
    Ok(ret)
}

/// The comment for missing functions and for test mode. Salt's plural "s" comes out as the word
/// True, which is kept.
fn announcement(missing: &[&str], tests: &[&str]) -> String {
    let plural = |names: &[&str]| if names.len() > 1 { "True" } else { "" };
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("Unavailable function{}: {}.", plural(missing), missing.join(", ")));
    }
    if !tests.is_empty() {
        parts.push(format!("Function{} {} to be executed.", plural(tests), tests.join(", ")));
    }
    parts.join(" ")
}

fn success_text(value: &Value) -> String {
    match value {
        Value::Map(map) => map.get("comment").map_or_else(|| "Success".into(), Value::to_string),
        other => other.to_string(),
    }
}

/// Calls a function with the arguments of a list: maps are named ones, everything else has its place.
fn call_one(ctx: &Context, name: &str, arguments: Value) -> Result<Value> {
    let function = find(ctx, name).ok_or_else(|| Error::NotAvailable(format!("'{name}' is not available.")))?;
    let call = sorted_call(function, listed(arguments))?;
    ctx.call_permitted(name, call)
}

/// The items that Python's `*` yields for a value.
fn listed(arguments: Value) -> Vec<Value> {
    match arguments {
        Value::List(items) => items,
        Value::Map(map) => map.keys().cloned().collect(),
        // A text where a list is expected falls into letters, as with Python's `*`.
        Value::Str(text) => text.chars().map(|letter| letter.to_string().into()).collect(),
        Value::Null => Vec::new(),
        single => vec![single],
    }
}

fn sorted_call(function: &Function, items: Vec<Value>) -> Result<Call> {
    let places: Vec<_> = function.params.iter().filter(|param| !param.keyword_only).collect();
    let expected: Vec<&str> = places.iter().filter(|param| param.default.is_none()).map(|param| param.name).collect();
    let (mut args, mut by_name, mut kwargs) = (Vec::new(), Map::new(), Map::new());
    // Salt goes through the list from the end, so the first of two values for a name wins.
    for item in items.into_iter().rev() {
        let Value::Map(set) = item else {
            args.push(item);
            continue;
        };
        for (key, value) in set.iter() {
            if key.as_str().is_some_and(|key| expected.contains(&key)) {
                by_name.insert(key.clone(), value.clone());
            } else {
                // The whole map and not only this key. Salt adds it once per key, which comes out
                // the same.
                kwargs.update(set.clone());
            }
        }
    }
    args.reverse();
    // Named values of required parameters follow the positional ones, in the order of the
    // signature.
    args.extend(expected.iter().filter_map(|name| by_name.get(name).cloned()));
    // Counted before names are checked, as in Salt.
    if args.len() < expected.len() {
        let rest = places.iter().skip(args.len()).filter(|param| param.default.is_none());
        let missing: Vec<&str> = rest.map(|param| param.name).filter(|name| !kwargs.contains_key(name)).collect();
        if !missing.is_empty() {
            return Err(Error::invocation(format!("Missing arguments: {}", missing.join(", "))));
        }
    }
    refuse_unknown(function, &kwargs)?;
    Ok(Call { args, kwargs })
}

/// Python's words for a named argument a function does not have.
fn refuse_unknown(function: &Function, kwargs: &Map) -> Result<()> {
    let known = |key: &str| function.kwargs.is_some() || function.params.iter().any(|param| param.name == key);
    match kwargs.keys().map(Value::to_string).find(|key| !known(key)) {
        Some(key) => Err(Error::Arguments(format!("{}() got an unexpected keyword argument '{key}'", function.name))),
        None => Ok(()),
    }
}

/// The argument of the state for a function's parameter: `m_name` where the plain word means
/// something to the state itself.
fn outer_name(name: &str) -> String {
    match name {
        "name" | "fun" | "names" | "state" | "saltenv" => format!("m_{name}"),
        other => other.to_owned(),
    }
}

fn by_name(ctx: &Context, mut kwargs: Map) -> Result<Ret> {
    let name = kwargs.remove("name").ok_or_else(|| Error::Arguments("module.run needs a name".into()))?.to_string();
    let mut ret = Ret::new(name.clone());
    ret.result = None;
    // Checked before test mode, so that a misspelt function fails there as well.
    let Some(function) = find(ctx, &name) else {
        return Ok(ret.fail(format!("Module function {name} is not available")));
    };
    if ctx.is_test() {
        return Ok(ret.would(format!("Module function {name} is set to execute")));
    }
    let call = match old_call(function, &mut kwargs) {
        Ok(call) => call,
        Err(text) => return Ok(ret.fail(text)),
    };
    let value = match ctx.call_permitted(&name, call) {
        Ok(value) => value,
        Err(error) => {
            let text = error.to_string();
            return Ok(ret.fail(format!("Module function {name} threw an exception. Exception: {text}")));
        }
    };
    ret.comment = format!("Module function {name} executed").into();
    ret.result = Some(succeeded(&value));
    ret.changes.insert("ret", value);
    Ok(ret)
}

/// The arguments of the old form, in the order of the parameters.
fn old_call(function: &Function, kwargs: &mut Map) -> std::result::Result<Call, String> {
    let (mut args, mut missing) = (Vec::new(), Vec::new());
    for param in function.params.iter().filter(|param| !param.keyword_only) {
        let outer = outer_name(param.name);
        // With a default the plain name is understood too, and `names` has no other.
        let value = match param.default {
            Some(make) => {
                let given = if param.name == "names" { None } else { kwargs.remove(&outer) };
                let given = kwargs.remove(param.name).or(given);
                Some(given.unwrap_or_else(make))
            }
            None => kwargs.remove(&outer),
        };
        match value {
            Some(value) => args.push(value),
            None => missing.push(outer),
        }
    }
    if !missing.is_empty() {
        return Err(format!("The following arguments are missing: {}", missing.join(" ")));
    }
    if let Some(rest) = function.varargs
        && let Some(given) = kwargs.remove(&outer_name(rest))
    {
        args.extend(given.into_list().ok_or_else(|| format!("'{rest}' must be a list."))?);
    }
    let mut named = Map::new();
    if let Some(rest) = function.kwargs
        && let Some(given) = kwargs.remove(rest)
    {
        named = given.into_map().ok_or_else(|| format!("'{rest}' must be a dict."))?;
    }
    Ok(Call { args, kwargs: named })
}

/// Returns whether a function's result means success. False does not, nor a map with a failed `result` or a `retcode`
/// in it.
fn succeeded(value: &Value) -> bool {
    match value {
        Value::Bool(done) => *done,
        Value::Map(map) => map_succeeded(map),
        // Everything else counts as success, even None and an empty text: many functions return
        // nothing.
        _ => true,
    }
}

fn map_succeeded(map: &Map) -> bool {
    map.iter().all(|(key, value)| match (key.as_str(), value) {
        (Some("result"), Value::Bool(false)) => false,
        (Some("retcode"), code) if code != &Value::Int(0) => false,
        // A function that ran a state returns its results one level down.
        (_, Value::Map(inner)) => map_succeeded(inner),
        _ => true,
    })
}
