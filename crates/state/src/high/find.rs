//! Finds the entries of high data that a reference names.

use value::{Map, Value};

use super::{first_key, is_dunder};

/// Returns the ids, each with its state, that a reference by name matches. With `strict`, an entry of that id counts
/// only if it declares that state. The state `sls` means all ids of a file.
pub fn find_name(name: &Value, state: &Value, high: &Map, strict: bool) -> Vec<(Value, Value)> {
    let entry = high.get_value(name);
    let declares = entry.and_then(Value::as_map).is_some_and(|body| body.get_value(state).is_some());
    if entry.is_some() && (!strict || declares) {
        return vec![(name.clone(), state.clone())];
    }
    let bodies = high.iter().filter_map(|(id, body)| Some((id, body.as_map()?)));
    if state.as_str() == Some("sls") {
        return bodies
            .filter(|(_, body)| body.get("__sls__") == Some(name))
            // As in Salt, only the first state of each id.
            .filter_map(|(id, body)| Some((id.clone(), first_key(body)?.clone())))
            .collect();
    }
    bodies
        .flat_map(|(id, body)| {
            let args = body.get_value(state).and_then(Value::as_list).unwrap_or_default();
            args.iter().filter(|arg| sole_value(arg) == Some(name)).map(|_| (id.clone(), state.clone()))
        })
        .collect()
}

fn sole_value(arg: &Value) -> Option<&Value> {
    arg.as_map().filter(|map| map.len() == 1).and_then(|map| map.values().next())
}

/// Returns all ids of a file, each with every state it declares.
pub fn find_sls_ids(sls: &Value, high: &Map) -> Vec<(Value, Value)> {
    let mut found = Vec::new();
    for (id, body) in high {
        let Some(body) = body.as_map() else { continue };
        if body.get("__sls__") == Some(sls) {
            let states = body.keys().filter(|state| !is_dunder(state));
            found.extend(states.map(|state| (id.clone(), state.clone())));
        }
    }
    found
}
