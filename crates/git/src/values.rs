//! Option values as Salt converts them, and lists of small maps.

use value::{Map, Value};

/// Converts any value to a string, as Salt does.
pub(crate) fn text(value: &Value) -> String {
    if value.is_null() { "None".to_owned() } else { value.to_string() }
}

/// Returns a list of strings; a single string is split at its commas.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().map(text).collect(),
        other => text(other).split(',').map(|part| part.trim().to_owned()).collect(),
    }
}

/// Returns an integer, if the value is one or parses as one.
pub(crate) fn number(value: &Value) -> Option<i64> {
    match value {
        // Python's `int(True)` is 1.
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::Float(number) => Some(*number as i64),
        Value::Str(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    }
}

/// Returns whether a value is a list of maps with one entry each.
fn is_dict_list(value: &Value) -> bool {
    value.as_list().is_some_and(|items| items.iter().all(|item| item.as_map().is_some_and(|map| map.len() == 1)))
}

/// Merges a list of maps with one entry each, also nested ones, into one map; bare strings become keys without a value. Anything
/// else gives an empty map, as in Salt, which only logs it.
pub(crate) fn repack(value: &Value) -> Map {
    let Some(items) = value.as_list() else {
        tracing::error!("Invalid input for repack_dictlist, data passed is not a list ({value})");
        return Map::new();
    };
    let mut map = Map::new();
    for item in items {
        match item {
            Value::Map(entry) if entry.len() == 1 => {
                let Some((key, value)) = entry.iter().next() else { continue };
                let value = if is_dict_list(value) { repack(value).into() } else { value.clone() };
                map.insert(text(key), value);
            }
            Value::Map(_) => {
                tracing::error!(
                    "Invalid input for repack_dictlist: key/value pairs must contain only one element (data passed: \
                     {item})."
                );
                return Map::new();
            }
            Value::Str(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_) => {
                map.insert(text(item), Value::Null);
            }
            _ => {
                tracing::error!("Invalid input for repack_dictlist: element {item} is not a string/dict/numeric value");
                return Map::new();
            }
        }
    }
    map
}

/// Removes the scheme and `://`.
pub(crate) fn strip_proto(url: &str) -> &str {
    match url.split_once("://") {
        Some((scheme, rest)) if !scheme.is_empty() && !scheme.contains([':', '/']) => rest,
        _ => url,
    }
}

/// Returns whether Python's `int(text, 16)` accepts it. As in Salt, such environments are taken for commits.
pub fn is_hex(text: &str) -> bool {
    let text = text.trim();
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.map_or(text, |digits| digits.strip_prefix('_').unwrap_or(digits));
    !digits.is_empty()
        && digits.split('_').all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn small_maps_are_merged() {
        let packed =
            list![map! { "base" => "x" }, map! { "saltenv" => list![map! { "dev" => list![map! { "ref" => "d" }] }] }];
        let expected = map! { "base" => "x", "saltenv" => map! { "dev" => map! { "ref" => "d" } } };
        assert_eq!(repack(&packed), expected);
        assert_eq!(repack(&list![map! { "a" => 1, "b" => 2 }]), Map::new());
        assert_eq!(repack(&Value::Null), Map::new());
    }

    #[test]
    fn commits_are_distinguished_from_names() {
        for hex in ["dead", "0xbeef", "DEAD_beef", " 12 ", "-1"] {
            assert!(is_hex(hex), "{hex}");
        }
        for other in ["", "base", "0x", "a__b", "_a", "1-2"] {
            assert!(!is_hex(other), "{other}");
        }
    }
}
