//! `environ` — the environment of the minion.
//!
//! A process with many threads must not change its own environment. These functions set an overlay: all functions and
//! the commands that are run see it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value};

/// Registers the functions of `environ`.
pub static MODULE: Module = Module::new(
    "environ",
    "Functions that look at the environment of the minion.",
    &[&GET, &HAS_VALUE, &ITEM, &ITEMS, &SETENV, &SETVAL],
);

/// The variables that were set (or removed, with `None`) since the program started.
static CHANGED: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());

/// Returns the environment that commands get.
pub fn variables() -> BTreeMap<String, String> {
    let inherited = std::env::vars_os();
    let mut all: BTreeMap<String, String> =
        // A variable that is not UTF-8 cannot be a value of Salt; the processes that are started would get a changed
        // one.
        inherited.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
    for (name, value) in CHANGED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        match value {
            Some(value) => drop(all.insert(name.clone(), value.clone())),
            None => drop(all.remove(name)),
        }
    }
    all
}

fn change(name: &str, value: Option<String>) {
    CHANGED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value);
}

fn variable(name: &str) -> Option<Value> {
    // A variable that was removed is recorded as such, or the inherited one would show again.
    if let Some(changed) = CHANGED.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
        return changed.as_ref().map(Value::from);
    }
    std::env::var_os(name).map(|value| Value::from(value.to_string_lossy()))
}

fn name_of(key: &Value) -> Result<&str> {
    key.as_str().filter(|name| !name.is_empty()).ok_or_else(|| Error::invocation(format!("'{key}' is not a name")))
}

/// Returns a variable, or the default.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.get foo
///     salt '*' environ.get baz default=False
#[function]
fn get(key: Value, #[default("")] default: Value) -> Result<Value> {
    match name_of(&key) {
        Ok(name) => Ok(variable(name).unwrap_or(default)),
        // Salt logs and returns False here instead of raising.
        Err(_) => Ok(Value::Bool(false)),
    }
}

/// Returns whether a variable is set, or has a value.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.has_value foo
#[function]
fn has_value(key: Value, #[default(Value::Null)] value: Value) -> Result<bool> {
    let Ok(name) = name_of(&key) else { return Ok(false) };
    Ok(variable(name).is_some_and(|found| value.is_null() || found == value))
}

/// Returns several variables.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.item foo
///     salt '*' environ.item '[foo, baz]' default=None
#[function]
fn item(keys: Value, #[default("")] default: Value) -> Result<Map> {
    let single = [keys];
    let names = single[0].as_list().unwrap_or(&single);
    let found = names.iter().filter_map(Value::as_str).filter(|name| !name.is_empty());
    Ok(found.map(|name| (name, variable(name).unwrap_or_else(|| default.clone()))).collect())
}

/// Returns all variables.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.items
#[function]
fn items(ctx: &Context) -> Result<Map> {
    let _ = ctx;
    Ok(variables().into_iter().collect())
}

/// Sets a variable and returns its value. False makes it empty, or removes it with ``false_unsets=True`` and returns None.
/// Anything but text and False is refused with False.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.setval foo bar
///     salt '*' environ.setval baz val=False false_unsets=True
#[function]
fn setval(
    key: Value,
    val: Value,
    #[default(false)] false_unsets: Value,
    #[default(false)] permanent: Value,
) -> Result<Value> {
    // The argument is about the registry of Windows.
    let _ = permanent;
    Ok(set_one(&key, &val, false_unsets == Value::Bool(true)))
}

fn set_one(key: &Value, val: &Value, false_unsets: bool) -> Value {
    // setenv(3) refuses such names, and a command started with them would fail.
    let usable = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    let Some(name) = key.as_str().filter(|name| usable(name)) else {
        tracing::error!("'{key}' is not the name of an environment variable");
        return false.into();
    };
    match val {
        Value::Bool(false) if false_unsets => {
            change(name, None);
            Value::Null
        }
        // Without `false_unsets` False means an empty text: the variable stays.
        Value::Bool(false) => {
            change(name, Some(String::new()));
            "".into()
        }
        Value::Str(text) if !text.contains('\0') => {
            change(name, Some(text.clone()));
            text.as_str().into()
        }
        _ => {
            tracing::debug!("the value of the environment variable {name} is neither text nor False");
            false.into()
        }
    }
}

/// Sets variables and returns their values. With ``clear_all=True`` all others are emptied, or removed with
/// ``false_unsets=True``. ``update_minion=True`` also notifies the minion, whose variables these are anyway.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.setenv '{"foo": "bar", "baz": "quux"}'
///     salt '*' environ.setenv '{"a": "b", "c": False}' false_unsets=True
#[function]
fn setenv(
    ctx: &Context,
    environ: Value,
    #[default(false)] false_unsets: Value,
    #[default(false)] clear_all: Value,
    #[default(false)] update_minion: Value,
    #[default(false)] permanent: Value,
) -> Result<Value> {
    let Value::Map(wanted) = &environ else { return Ok(false.into()) };
    let unsets = false_unsets == Value::Bool(true);
    let mut done = Map::new();
    if clear_all == Value::Bool(true) {
        for name in variables().into_keys().filter(|name| !wanted.contains_key(name)) {
            let value = set_one(&name.as_str().into(), &false.into(), unsets);
            done.insert(name, value);
        }
    }
    for (name, value) in wanted.iter() {
        // Salt stops in the middle: variables before the wrong one stay set.
        if !matches!(value, Value::Str(_) | Value::Bool(false)) {
            return Ok(false.into());
        }
        done.insert(name.clone(), set_one(name, value, unsets));
    }
    if update_minion == Value::Bool(true) {
        let data = value::map! {
            "environ" => environ, "false_unsets" => false_unsets, "clear_all" => clear_all, "permanent" => permanent,
        };
        // The job's process may be another one than the minion's; the minion listens for this event.
        ctx.wait(ctx.agent.fire_local("environ_setenv", data))?;
    }
    Ok(done.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn variables_are_looked_up() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(get("PATH".into(), "".into()).unwrap(), path.as_str().into());
        assert_eq!(get("NO_SUCH_NAME".into(), 7.into()).unwrap(), 7.into());
        assert!(has_value("PATH".into(), Value::Null).unwrap());
        assert!(!has_value("PATH".into(), "x".into()).unwrap());
        let found = item(list!["PATH", "NO_SUCH_NAME"], "".into()).unwrap();
        assert_eq!(found, map! { "PATH" => path, "NO_SUCH_NAME" => "" });
    }
}
