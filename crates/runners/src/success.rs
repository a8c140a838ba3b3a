//! Decides if a result means success.

use value::{Map, Value};

/// Returns whether the results of states, by minion or by state, are all good: no `result` in them is false.
///
/// A result that is not a map counts as a failure. A map without `result` is searched for one.
pub fn check_result(running: &Value) -> bool {
    running.as_map().is_some_and(|map| check(map, false))
}

fn check(running: &Map, nested: bool) -> bool {
    // Nothing ran, so nothing succeeded: a target that matches no state fails, as in Salt.
    if running.is_empty() {
        return false;
    }
    running.iter().all(|(id, state)| match state {
        Value::Map(state) => match state.get("result") {
            Some(result) => *result != Value::Bool(false),
            None => check(state, true),
        },
        // High data may contain this list, which is not a result.
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
        // Orchestrations take their exit code from this.
        let states = |result: bool| Value::from(map! { "web1" => map! { "a" => map! { "result" => result } } });
        assert!(check_result(&states(true)));
        assert!(!check_result(&states(false)));
        assert!(!check_result(&map! { "web1" => "text" }.into()));
        assert!(!check_result(&map! { "web1" => map! {} }.into()));
        assert!(!check_result(&map! {}.into()));
        assert!(!check_result(&true.into()));
    }
}
