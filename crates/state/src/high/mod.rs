//! High data: the merged declarations of all SLS files of a run, before they become chunks.

mod exclude;
mod extend;
mod find;
mod merge;
mod requisite_in;
mod verify;

pub use exclude::apply_exclude;
pub use extend::reconcile_extend;
pub use find::{find_name, find_sls_ids};
pub use merge::{clean_duplicate_extends, merge_included_states};
pub use requisite_in::requisite_in;
pub use verify::verify_high;

use value::{Map, Value};

/// Returns whether a key is reserved for the engine, and is not an id or a state.
pub(crate) fn is_dunder(key: &Value) -> bool {
    key.as_str().is_some_and(|key| key.starts_with("__"))
}

/// Returns the first key of a map.
pub(crate) fn first_key(map: &Map) -> Option<&Value> {
    map.keys().next()
}

/// Returns the only key of a value that is a map with one entry.
pub(crate) fn single_key(value: &Value) -> Option<&Value> {
    value.as_map().filter(|map| map.len() == 1).and_then(first_key)
}

/// Returns an entry of a body as text.
pub(crate) fn text_of(body: &Map, key: &str) -> String {
    body.get(key).map(Value::to_string).unwrap_or_default()
}
