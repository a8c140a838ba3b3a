//! The entries of users in `external_auth`, in the form that is documented.
//!
//! Salt reads other forms by accident: a map gives its keys as patterns, a text its letters, and an empty text matches every
//! function. Here a map is the list of its parts, a text is the list with this text, and what means nothing grants nothing.

use value::{Map, Value};

/// Returns the list of each user, pattern or group in the part of a backend, and what is odd about them. Options of the
/// backend (`^…`) are left out.
pub fn read(part: &Map) -> (Map, Vec<String>) {
    let (mut users, mut oddities) = (Map::new(), Vec::new());
    for (user, entries) in part {
        let user = user.to_string();
        if user.starts_with('^') {
            continue;
        }
        let listed: Vec<Value> = match entries {
            Value::List(entries) => entries.clone(),
            Value::Map(map) => map.iter().map(one).collect(),
            Value::Str(text) => {
                oddities
                    .push(format!("the entries of '{user}' are a text and not a list; it is read as the only entry"));
                vec![text.clone().into()]
            }
            _ => {
                oddities.push(format!("'{user}' has no list of entries, so nothing is granted"));
                Vec::new()
            }
        };
        let mut granted = Vec::new();
        for entry in &listed {
            match clean(entry) {
                Some(entry) => granted.push(entry),
                None => oddities.push(format!(
                    "an entry of '{user}' grants nothing: {}",
                    value::escape::brief(&value::python::repr(entry), 100)
                )),
            }
        }
        users.insert(user, granted);
    }
    (users, oddities)
}

/// Returns the entries of a list that grant anything, as [`read`] reads them.
pub fn granting(listed: &[Value]) -> Vec<Value> {
    listed.iter().filter_map(clean).collect()
}

fn one((key, value): (&Value, &Value)) -> Value {
    Map::from_iter([(key.clone(), value.clone())]).into()
}

/// Returns what an entry grants; `None` for nothing. An empty pattern would match every function.
fn clean(entry: &Value) -> Option<Value> {
    let (target, conditions) = match entry {
        Value::Str(text) => return (!text.is_empty()).then(|| entry.clone()),
        Value::Map(map) if map.len() == 1 => map.iter().next()?,
        _ => return None,
    };
    let target = target.as_str().filter(|target| !target.is_empty())?;
    let conditions: Vec<Value> = match conditions {
        Value::List(conditions) => conditions.iter().filter(|condition| names_functions(condition)).cloned().collect(),
        single => Some(single).filter(|condition| names_functions(condition)).into_iter().cloned().collect(),
    };
    (!conditions.is_empty()).then(|| Map::from_iter([(target, conditions)]).into())
}

/// Returns whether a condition has a pattern. The demands on arguments below it stay as they are: an empty pattern there
/// accepts any argument.
fn names_functions(condition: &Value) -> bool {
    match condition {
        Value::Str(pattern) => !pattern.is_empty(),
        Value::Map(map) => {
            map.len() == 1 && map.keys().all(|key| key.as_str().is_some_and(|pattern| !pattern.is_empty()))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn entries(entries: impl Into<Value>) -> (Value, usize) {
        let (users, oddities) = read(&map! { "w" => entries, "^filename" => "/x" });
        assert_eq!(users.len(), 1, "options of the backend are no users");
        (users.get("w").cloned().unwrap(), oddities.len())
    }

    #[test]
    fn a_list_is_kept() {
        let full = list![
            "test.*",
            "@jobs",
            map! { "web*" => list!["pkg.*", map! { "cmd.run" => map! { "args" => list!["id"], "kwargs" => map! {} } }] },
            map! { "@runner" => list!["jobs.list_jobs"] }
        ];
        assert_eq!(entries(full.clone()), (full, 0));
    }

    #[test]
    fn a_map_is_the_list_of_its_parts() {
        let found = entries(map! { "@runner" => list!["jobs.list_jobs"], "min1" => "test.ping" });
        let expected = list![map! { "@runner" => list!["jobs.list_jobs"] }, map! { "min1" => list!["test.ping"] }];
        assert_eq!(found, (expected, 0));
    }

    #[test]
    fn a_text_is_one_entry() {
        assert_eq!(entries("test.*"), (list!["test.*"], 1));
    }

    #[test]
    fn what_means_nothing_grants_nothing() {
        assert_eq!(entries(Value::Null), (list![], 1));
        assert_eq!(entries(7), (list![], 1));
        assert_eq!(entries(""), (list![], 2));
        let two_keys = map! { "a" => list![".*"], "b" => list![".*"] };
        assert_eq!(entries(list!["", Value::Null, 7, two_keys, "test.ping"]), (list!["test.ping"], 4));
        assert_eq!(
            entries(list![map! { "*" => list!["", "test.ping"] }]),
            (list![map! { "*" => list!["test.ping"] }], 0)
        );
        assert_eq!(entries(list![map! { "*" => "" }]), (list![], 1));
    }
}
