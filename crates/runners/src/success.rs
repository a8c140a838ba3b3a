//! Whether a result means success.

use value::{Map, Value};

/// Says whether results of states, by minion or by state, are all good: no `result` in them is false.
///
/// A result that is no map counts as a failure, a map without `result` is looked into.
pub fn check_result(running: &Value) -> bool {
    running.as_map().is_some_and(|map| check(map, false))
}

fn check(running: &Map, nested: bool) -> bool {
    if running.is_empty() {
        return false;
    }
    running.iter().all(|(id, state)| match state {
        Value::Map(state) => match state.get("result") {
            Some(result) => *result != Value::Bool(false),
            None => check(state, true),
        },
        Value::List(_) if id.as_str() == Some("__extend__") => true,
        _ => nested,
    })
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn one_bad_state_spoils_all() {
        let states = |result: bool| Value::from(map! { "web1" => map! { "a" => map! { "result" => result } } });
        assert!(check_result(&states(true)));
        assert!(!check_result(&states(false)));
        assert!(!check_result(&map! { "web1" => "text" }.into()));
        assert!(!check_result(&map! { "web1" => map! {} }.into()));
        assert!(!check_result(&map! {}.into()));
        assert!(!check_result(&true.into()));
    }
}
