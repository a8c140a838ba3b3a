//! The functions that a request names, and their arguments.

use value::{Map, Value};

/// Returns the functions of a request: one, or several in a list or separated by commas. `None` for anything else.
pub fn functions(load: &Map) -> Option<Vec<String>> {
    match load.get("fun")? {
        Value::List(names) if !names.is_empty() => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        Value::Str(names) => Some(names.split(',').map(str::to_owned).collect()),
        _ => None,
    }
}

/// Returns the arguments of each function.
pub fn arguments(load: &Map) -> Vec<Vec<Value>> {
    let all = load.get("arg").and_then(Value::as_list).unwrap_or_default();
    match load.get("fun") {
        Some(Value::List(_)) => all.iter().map(|part| part.as_list().unwrap_or_default().to_vec()).collect(),
        _ => vec![all.to_vec()],
    }
}
