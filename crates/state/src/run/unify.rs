//! Normalises what state functions return.

use value::{Map, Value, map};

/// The keys of every result.
const KEYS: [&str; 4] = ["name", "result", "changes", "comment"];

/// Joins a list of comments, converts the result to a boolean or `None`, and refuses other values.
pub fn unify(value: Value) -> Map {
    let Value::Map(mut ret) = value else {
        return refused("Malformed state return. Data must be a dictionary type.");
    };
    if let Err(why) = check(&ret) {
        return refused(&why);
    }
    tidy(&mut ret);
    if let Some(Value::List(parts)) = ret.get_mut("sub_state_run") {
        for part in parts.iter_mut() {
            *part = unify(std::mem::take(part)).into();
        }
    }
    ret
}

fn tidy(ret: &mut Map) {
    if let Some(Value::List(lines)) = ret.get("comment") {
        let joined = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        ret.insert("comment", joined);
    }
    match ret.get("result") {
        None | Some(Value::Null) => {}
        // As in Salt, any value is accepted and judged by its truth, so `1` or a non-empty text is a success.
        Some(result) => {
            let result = result.truthy();
            ret.insert("result", result);
        }
    }
}

fn check(ret: &Map) -> Result<(), String> {
    if !matches!(ret.get("changes"), Some(Value::Map(_))) {
        return Err("'Changes' should be a dictionary.".into());
    }
    let missing: Vec<&str> = KEYS.into_iter().filter(|key| !ret.contains_key(key)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("The following keys were not present in the state return: {}.", missing.join(", ")))
}

fn refused(why: &str) -> Map {
    map! {
        "result" => false,
        "name" => "later",
        "changes" => Map::new(),
        "comment" => format!("An exception occurred in this state: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn results_are_unified_and_anything_else_is_refused() {
        let ret =
            unify(map! { "name" => "a", "result" => 1, "changes" => map! {}, "comment" => list!["b", "c"] }.into());
        assert_eq!(ret.get("comment"), Some(&"b\nc".into()));
        assert_eq!(ret.get("result"), Some(&true.into()));
        let ret = unify(map! { "name" => "a", "changes" => map! {} }.into());
        let text = "An exception occurred in this state: The following keys were not present in the state return: result, comment.";
        assert_eq!(ret.get_str("comment"), Some(text));
        assert_eq!(unify(Value::Null).get("result"), Some(&false.into()));
    }
}
