//! Merges the data of several SLS files.

use value::{Map, Value};

use super::text_of;

/// Adds the data of one SLS file to the high data. An id with different definitions in both is an error.
pub fn merge_included_states(high: &mut Map, mut state: Map, errors: &mut Vec<String>) {
    for gathered in ["__extend__", "__exclude__"] {
        if let Some(Value::List(more)) = state.remove(gathered) {
            match high.entry_or_insert_with(gathered, || Value::List(Vec::new())) {
                Value::List(list) => list.extend(more),
                other => *other = Value::List(more),
            }
        }
    }
    for (id, body) in &state {
        match high.get_value(id) {
            // The same file may arrive twice, by a top file and by an include. Only different contents are a conflict.
            Some(present) if present != body => errors.push(conflict(id, present, body)),
            _ => {}
        }
    }
    high.update(state);
}

fn conflict(id: &Value, present: &Value, new: &Value) -> String {
    let place = |body: &Value| {
        let body = body.as_map().cloned().unwrap_or_default();
        format!("{}:{}", text_of(&body, "__env__"), text_of(&body, "__sls__"))
    };
    format!(
        "Detected conflicting IDs, SLS IDs need to be globally unique.\n    The conflicting ID is '{id}' and is found in SLS \
         '{}' and SLS '{}'",
        place(present),
        place(new)
    )
}

/// Removes duplicate extensions and keeps the first of each.
pub fn clean_duplicate_extends(high: &mut Map) {
    let Some(Value::List(extensions)) = high.get_mut("__extend__") else {
        return;
    };
    let mut kept: Vec<(Value, Value)> = Vec::new();
    for extension in std::mem::take(extensions) {
        for pair in extension.into_map().unwrap_or_default() {
            if !kept.contains(&pair) {
                kept.push(pair);
            }
        }
    }
    *extensions = kept.into_iter().map(|(id, body)| Value::from(Map::from_iter([(id, body)]))).collect();
}
