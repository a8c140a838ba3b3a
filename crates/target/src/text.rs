//! Matchers of plain text: lists, expressions that are glob or regular expression, the minion's data store.

use std::collections::HashSet;

use value::Value;

use crate::{Error, PyRegex, fnmatch};

/// The maximum number of names in a list.
const LIST_LIMIT: usize = 250_000;

/// Returns the ids of a list target, each once: a list, or a string with commas. Empty parts are left out.
pub fn split_list(target: &Value) -> Result<Vec<String>, Error> {
    let found = match target {
        Value::Str(text) => 1 + text.bytes().filter(|byte| *byte == b',').count(),
        Value::List(ids) => ids.len(),
        _ => 0,
    };
    if found > LIST_LIMIT {
        return Err(Error::TooLong { found, most: LIST_LIMIT });
    }
    let mut ids: Vec<&str> = match target {
        Value::Str(text) => text.split(',').filter(|id| !id.is_empty()).collect(),
        Value::List(ids) => ids.iter().filter_map(Value::as_str).collect(),
        other => return Err(Error::WrongType { kind: "list", found: other.type_name() }),
    };
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(*id));
    Ok(ids.into_iter().map(str::to_owned).collect())
}

/// Returns whether the id is in the list, which is a list or a string with commas.
pub fn list_match(target: &Value, id: &str) -> bool {
    match target {
        Value::Str(text) => text == id || text.split(',').any(|part| part == id),
        Value::List(ids) => ids.iter().any(|item| item.as_str() == Some(id)),
        Value::Map(ids) => ids.contains_key(id),
        _ => false,
    }
}

/// Returns whether the text matches an expression: as a glob, or else as a regular expression for the whole text.
///
/// An invalid regular expression is only a glob.
pub fn expr_match(text: &str, expression: &str) -> bool {
    // The glob first: most expressions are globs, and `*` alone is not a valid regular expression.
    fnmatch(text, expression) || PyRegex::whole(expression).is_ok_and(|regex| regex.is_match(text))
}

/// Returns whether `key:pattern` matches an entry of the minion's data store, which `get` reads by key.
///
/// A list matches by its members (ignoring case), a map by having the key, a string as a glob.
pub fn data_match(target: &str, get: impl FnOnce(&str) -> Option<Value>) -> bool {
    let mut parts = target.split(':');
    // Additional parts are ignored, as in Salt.
    let (Some(key), Some(pattern)) = (parts.next(), parts.next()) else { return false };
    match get(key) {
        Some(Value::List(members)) => {
            let pattern = pattern.to_lowercase();
            members.iter().any(|member| fnmatch(&member.to_string().to_lowercase(), &pattern))
        }
        Some(Value::Map(map)) => map.contains_key(pattern),
        Some(Value::Str(text)) => fnmatch(&text, pattern),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use value::{Value, list, map};

    use super::*;

    #[test]
    fn each_id_of_a_list_counts_once() {
        assert_eq!(split_list(&"web2,web1,,web2".into()).unwrap(), ["web2", "web1"]);
        assert_eq!(split_list(&list!["web1", "web1", 7, "web2"]).unwrap(), ["web1", "web2"]);
    }

    #[test]
    fn each_type_of_data_matches_in_its_own_way() {
        let store = |key: &str| match key {
            "roles" => Some(list!["Web", 12]),
            "site" => Some(Value::from(map! { "city" => "Oslo" })),
            "name" => Some(Value::from("blue")),
            _ => None,
        };
        for (target, expected) in [
            ("roles:w*", true),
            ("roles:12", true),
            ("roles:db", false),
            ("site:city", true),
            ("site:Oslo", false),
            ("name:bl*", true),
            ("name:BL*", false),
            ("none:x", false),
            ("roles", false),
        ] {
            assert_eq!(data_match(target, store), expected, "{target}");
        }
    }
}
