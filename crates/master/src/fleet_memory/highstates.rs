//! The last highstate of each minion since the master has started, from the events of its returns.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use value::{Map, Value, map};

use super::shown;

/// The most minions.
const MOST: usize = 100_000;

/// The last highstates by minion.
#[derive(Default)]
pub struct Highstates(Mutex<HashMap<Box<str>, Highstate>>);

#[derive(Clone, Debug, PartialEq)]
struct Highstate {
    jid: Box<str>,
    time: SystemTime,
    total: usize,
    failed: usize,
    changed: usize,
}

impl Highstates {
    fn all(&self) -> MutexGuard<'_, HashMap<Box<str>, Highstate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a return, if it is that of a highstate that was no test.
    pub fn note(&self, id: &str, jid: &str, data: &Map, time: SystemTime) {
        if !is_highstate(data) {
            return;
        }
        let Some((total, failed, changed)) = summed(data.get("return")) else { return };
        let mut all = self.all();
        if all.len() >= MOST && !all.contains_key(id) {
            // Ids without a key are never shown, and the others come again.
            all.clear();
        }
        all.insert(id.into(), Highstate { jid: jid.into(), time, total, failed, changed });
    }

    /// Returns the last one of a minion.
    pub fn of(&self, id: &str) -> Option<Map> {
        let all = self.all();
        let last = all.get(id)?;
        Some(map! {
            "jid" => &*last.jid, "time" => shown(last.time), "total" => last.total, "failed" => last.failed,
            "changed" => last.changed,
        })
    }
}

/// Returns whether a return is that of a whole highstate: `state.apply` with names of states is none.
fn is_highstate(data: &Map) -> bool {
    let arguments = data.get("fun_args").and_then(Value::as_list).unwrap_or_default();
    // As the minion tells them, keywords are maps or texts with an equals sign.
    let keyword = |argument: &Value| match argument {
        Value::Map(_) => true,
        Value::Str(text) => text.contains('='),
        _ => false,
    };
    let is_test = |argument: &Value| match argument {
        Value::Map(map) => map.get("test").is_some_and(Value::truthy),
        Value::Str(text) => text.strip_prefix("test=").is_some_and(|value| value.eq_ignore_ascii_case("true")),
        _ => false,
    };
    let whole = match data.get_str("fun") {
        Some("state.highstate") => true,
        Some("state.apply") => arguments.iter().all(keyword),
        _ => false,
    };
    whole && !arguments.iter().any(is_test)
}

/// Returns how many states there were, have failed, and have changed something. A list of errors is one that has failed.
fn summed(returned: Option<&Value>) -> Option<(usize, usize, usize)> {
    match returned? {
        Value::Map(states) => {
            let failed = |state: &&Value| state.get("result").and_then(Value::as_bool) == Some(false);
            let changed = |state: &&Value| state.get("changes").is_some_and(Value::truthy);
            let states: Vec<&Value> = states.iter().map(|(_, state)| state).collect();
            let count = |is: &dyn Fn(&&Value) -> bool| states.iter().filter(|state| is(state)).count();
            Some((states.len(), count(&failed), count(&changed)))
        }
        Value::List(_) => Some((0, 1, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn only_whole_highstates_count() {
        let is = |fun: &str, arguments: Value| is_highstate(&map! { "fun" => fun, "fun_args" => arguments });
        assert!(is("state.highstate", list![]) && is("state.apply", list![]));
        assert!(is("state.apply", list!["saltenv=dev"]) && is("state.apply", list![map! { "pillar" => map! {} }]));
        for (fun, arguments) in [
            ("state.apply", list!["web"]),
            ("state.sls", list![]),
            ("test.ping", list![]),
            ("state.highstate", list!["test=True"]),
            ("state.apply", list![map! { "test" => true }]),
        ] {
            assert!(!is(fun, arguments.clone()), "{fun} {arguments}");
        }
    }

    #[test]
    fn the_last_one_is_shown() {
        let highstates = Highstates::default();
        let states = map! {
            "a" => map! { "result" => true, "changes" => map! { "x" => 1 } },
            "b" => map! { "result" => false, "changes" => map! {} },
            "c" => map! { "result" => true, "changes" => map! {} },
        };
        let data = map! { "fun" => "state.apply", "fun_args" => list![], "return" => states };
        highstates.note("web1", "20261126160511953300", &data, SystemTime::UNIX_EPOCH);
        let last = highstates.of("web1").unwrap();
        assert_eq!(last.get_str("jid"), Some("20261126160511953300"));
        let numbers = ["total", "failed", "changed"].map(|name| last.get(name).and_then(Value::as_i64));
        assert_eq!(numbers, [Some(3), Some(1), Some(1)]);
        assert_eq!(highstates.of("web2"), None);
        assert_eq!(summed(Some(&list!["Rendering SLS failed"])), Some((0, 1, 0)));
        assert_eq!(summed(Some(&"text".into())), None);
    }
}
