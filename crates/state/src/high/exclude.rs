//! `exclude`: removes ids and whole SLS files.

use targeting::fnmatch;
use value::{Map, Value};

use super::is_dunder;

/// Removes `__exclude__` from the high data, and the ids and SLS files that it lists.
pub fn apply_exclude(high: &mut Map) {
    let Some(exclude) = high.remove("__exclude__") else {
        return;
    };
    let (mut files, mut ids) = (Vec::new(), Vec::new());
    for entry in exclude.as_list().unwrap_or_default() {
        match entry {
            Value::Str(sls) => files.push(sls.clone()),
            Value::Map(map) if map.len() == 1 => {
                if let Some(sls) = map.get("sls") {
                    files.push(sls.to_string());
                } else if let Some(id) = map.get("id") {
                    ids.push(id.clone());
                }
            }
            _ => {}
        }
    }
    high.retain(|id, body| !ids.contains(id) && (is_dunder(id) || !from_excluded(body, &files)));
}

fn from_excluded(body: &Value, files: &[String]) -> bool {
    let sls = body.get("__sls__").and_then(Value::as_str).unwrap_or_default();
    !sls.is_empty() && files.iter().any(|pattern| fnmatch(sls, pattern))
}
