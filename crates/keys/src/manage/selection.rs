//! Ids by directory, as Salt's key functions take and return them.

use targeting::Glob;
use value::{Map, Value};
use wire::MinionId;

use crate::Bank;

/// Keeps the ids that match one of the patterns. Directories without a match are removed.
pub(super) fn matching(pattern: &Value, all: Map) -> Map {
    let globs: Vec<Glob> = patterns(pattern).iter().map(|pattern| Glob::new(pattern)).collect();
    let mut found = Map::new();
    for (bank, ids) in all {
        let fitting = |id: &String| globs.iter().any(|glob| glob.matches(id));
        let ids: Vec<String> = texts(&ids).into_iter().filter(fitting).collect();
        if !ids.is_empty() {
            found.insert(bank, ids);
        }
    }
    found
}

/// Returns the patterns of a selection: text is split at commas, a list is used as it is.
pub(super) fn patterns(selection: &Value) -> Vec<String> {
    match selection {
        Value::List(_) => texts(selection),
        // No trimming, as in Salt: `a, b` looks for an id that begins with a space.
        other => other.to_string().split(',').map(str::to_owned).collect(),
    }
}

pub(super) fn texts(ids: &Value) -> Vec<String> {
    ids.as_list().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// Returns the ids of a directory in a selection. Invalid ids are left out, because no file can exist for them.
pub(super) fn ids(selected: &Map, bank: Bank) -> Vec<MinionId> {
    let named = selected.get(bank.directory()).map(texts).unwrap_or_default();
    named.into_iter().filter_map(|id| MinionId::new(id).ok()).collect()
}

pub(super) fn names(ids: &[MinionId]) -> Value {
    ids.iter().map(MinionId::as_str).collect()
}

pub(super) fn append(found: &mut Map, bank: Bank, id: &str) {
    if let Value::List(ids) = found.entry_or_insert_with(bank.directory(), || Value::List(Vec::new())) {
        ids.push(id.into());
    }
}

/// Sorts names without regard to letter case, as Salt sorts ids.
pub(super) fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_by_cached_key(|name| (name.to_lowercase(), name.clone()));
    names
}
