//! `extend`: changes that one SLS file makes to states of another.

use value::{Map, Value};

use super::{find_name, first_key, is_dunder};
use crate::keywords::is_requisite;

/// Removes `__extend__` from the high data and applies it. Returns errors for extensions of entries that do not
/// exist.
pub fn reconcile_extend(high: &mut Map, strict: bool) -> Vec<String> {
    let Some(extensions) = high.remove("__extend__") else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for extension in extensions.into_list().unwrap_or_default() {
        for (name, body) in extension.into_map().unwrap_or_default() {
            let Some(body) = body.into_map() else {
                errors.push(format!("Extension name '{name}' is not a dictionary"));
                continue;
            };
            match target(high, &name, &body, strict) {
                // Exclusions are applied later, but an excluded file must not change what remains.
                Some(_) if is_excluded(high, &body) => {}
                Some(id) => extend_entry(high, &id, body),
                None => errors.push(not_part(&name, &body)),
            }
        }
    }
    errors
}

/// Returns the id that the reference names, if there is exactly one.
fn target(high: &Map, name: &Value, body: &Map, strict: bool) -> Option<Value> {
    let state = body.keys().find(|key| !is_dunder(key))?;
    let entry = high.get_value(name).and_then(Value::as_map);
    if entry.is_some_and(|entry| entry.get_value(state).is_some()) {
        return Some(name.clone());
    }
    match find_name(name, state, high, strict).as_slice() {
        [(id, _)] => Some(id.clone()),
        _ => None,
    }
}

fn not_part(name: &Value, body: &Map) -> String {
    let part = |key: &str| body.get(key).map_or_else(|| "base".to_owned(), Value::to_string);
    let (env, sls) = (part("__env__"), part("__sls__"));
    format!(
        "Cannot extend ID '{name}' in '{env}:{sls}'. It is not part of the high state.\nThis is likely due to a missing \
         include statement or an incorrectly typed ID.\nEnsure that a state with an ID of '{name}' is available\nin \
         environment '{env}' and to SLS '{sls}'"
    )
}

/// Returns whether the file that extends is itself excluded.
fn is_excluded(high: &Map, body: &Map) -> bool {
    let sls = body.get("__sls__");
    let excludes = high.get("__exclude__").and_then(Value::as_list).unwrap_or_default();
    excludes.iter().any(|exclude| match exclude {
        Value::Str(_) => sls == Some(exclude),
        other => other.get("sls").is_some_and(|excluded| excluded.truthy() && sls == Some(excluded)),
    })
}

fn extend_entry(high: &mut Map, id: &Value, body: Map) {
    let Some(entry) = high.get_value_mut(id).and_then(Value::as_map_mut) else {
        return;
    };
    for (state, run) in body {
        if is_dunder(&state) {
            continue;
        }
        match (entry.get_value_mut(&state), run) {
            (None, run) => drop(entry.insert(state, run)),
            (Some(Value::List(present)), Value::List(run)) => run.into_iter().for_each(|arg| extend_args(present, arg)),
            // Neither form is valid; the verification of the entry reports it.
            (Some(present), run) => {
                if present.as_list().is_some() {
                    *present = run;
                }
            }
        }
    }
}

fn extend_args(present: &mut Vec<Value>, arg: Value) {
    let mut update = false;
    for place in present.iter_mut() {
        match (&arg, &mut *place) {
            (Value::Str(_), Value::Str(_)) => {
                // A plain string is the function of the state, which an extension may replace.
                *place = arg.clone();
                update = true;
            }
            (Value::Map(new), Value::Map(old)) => update |= extend_option(new, old),
            _ => {}
        }
    }
    if !update {
        present.push(arg);
    }
}

/// Merges one option into another. Returns whether both are the same option.
fn extend_option(new: &Map, old: &mut Map) -> bool {
    let (Some(new_key), Some(old_key)) = (first_key(new).cloned(), first_key(old).cloned()) else {
        return false;
    };
    if new_key == old_key {
        if new_key.as_str().is_some_and(is_requisite) {
            if let (Some(Value::List(old)), Some(Value::List(new))) =
                (old.get_value_mut(&new_key), new.get_value(&new_key))
            {
                // Requisites add up; any other option is replaced.
                old.extend(new.iter().cloned());
            }
        } else {
            *old = new.clone();
        }
        return true;
    }
    // As in Salt: one name replaces the list of names, and is then appended a second time as a separate option.
    if new_key.as_str() == Some("name") && old_key.as_str() == Some("names") {
        *old = new.clone();
    }
    false
}
