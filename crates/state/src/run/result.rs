//! Decides whether a run succeeded.

use value::{Map, Value};

use crate::high::is_dunder;
use crate::tag;

/// Returns whether a run succeeded: no state failed, or every failed state has an `onfail` handler with `onfail_stop:
/// False`.
pub fn is_success(running: &Map, high: Option<&Map>) -> bool {
    check(running, high, false)
}

fn check(running: &Map, high: Option<&Map>, nested: bool) -> bool {
    if running.is_empty() {
        return false;
    }
    running.iter().all(|(id, ret)| {
        let Some(ret_map) = ret.as_map() else {
            return nested;
        };
        let good = match ret_map.get("result") {
            Some(Value::Bool(false)) => false,
            // `None`, the result of a test run that predicts changes, is not a failure.
            Some(_) => true,
            None => check(ret_map, high, true),
        };
        good || (!ret_map.is_empty() && high.is_some_and(|high| is_handled(id, running, high)))
    })
}

/// Returns the part of high data that [`is_success`] needs: the states that handle failures. Most trees have none.
pub fn failure_handlers(high: &Map) -> Map {
    let handles = |args: &Value| args.as_list().unwrap_or_default().iter().any(goes_on_after_failure);
    let of_body = |body: &Value| body.as_map().is_some_and(|body| body.iter().any(|(_, args)| handles(args)));
    high.iter().filter(|(_, body)| of_body(body)).map(|(id, body)| (id.clone(), body.clone())).collect()
}

fn goes_on_after_failure(arg: &Value) -> bool {
    arg.get("onfail_stop") == Some(&Value::Bool(false))
}

/// Returns whether a failed state has handlers and all of them succeeded.
fn is_handled(failed: &Value, running: &Map, high: &Map) -> bool {
    let text = failed.to_string();
    let (state, id) = match tag::split(&text) {
        Some([state, id, ..]) => (Some(state), id),
        None => (None, text.as_str()),
    };
    let mut verdict = None;
    for (handler, module) in handlers(state, id, high) {
        for (tag, ret) in running {
            let tag = tag.to_string();
            let Some([state, id, ..]) = tag::split(&tag) else { continue };
            if state != module || id != handler {
                continue;
            }
            verdict = ret.get("result").and_then(Value::as_bool).or(verdict);
            if verdict == Some(false) {
                break;
            }
        }
        // A handler that has no result did not run, so the failure is not handled.
        verdict = verdict.or(Some(false));
    }
    verdict == Some(true)
}

/// Returns id and state of the handlers of a failed state.
fn handlers(state: Option<&str>, id: &str, high: &Map) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (handler, body) in high.iter().filter(|(handler, _)| handler.as_str() != Some(id)) {
        for (module, args) in body.as_map().into_iter().flatten().filter(|(module, _)| !is_dunder(module)) {
            let args = args.as_list().unwrap_or_default();
            if !args.iter().any(goes_on_after_failure) {
                continue;
            }
            let references = args.iter().filter_map(|arg| arg.get("onfail")?.as_list()).flatten();
            let pairs = references.filter_map(Value::as_map).flatten();
            let meant = pairs.filter(|(module, wanted)| {
                wanted.as_str() == Some(id) && state.is_none_or(|state| module.as_str() == Some(state))
            });
            found.extend(meant.map(|_| (handler.to_string(), module.to_string())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    fn ret(result: impl Into<Value>) -> Value {
        map! { "result" => result, "changes" => map! {} }.into()
    }

    #[test]
    fn a_failure_counts_unless_it_is_handled() {
        assert!(!is_success(&map! {}, None));
        assert!(is_success(
            &map! { "test_|-a_|-a_|-nop" => ret(true), "test_|-b_|-b_|-nop" => ret(Value::Null) },
            None
        ));
        let failed = map! { "test_|-a_|-a_|-fail" => ret(false), "test_|-b_|-b_|-nop" => ret(true) };
        assert!(!is_success(&failed, None));
        let handler = |stop: bool| {
            let args = list!["nop", map! { "onfail" => list![map! { "test" => "a" }] }, map! { "onfail_stop" => stop }];
            map! { "a" => map! { "test" => list!["fail"] }, "b" => map! { "test" => args } }
        };
        assert!(is_success(&failed, Some(&handler(false))));
        assert!(is_success(&failed, Some(&failure_handlers(&handler(false)))));
        assert!(failure_handlers(&handler(true)).is_empty());
        assert!(!is_success(&failed, Some(&handler(true))));
        assert!(!is_success(
            &map! { "test_|-a_|-a_|-fail" => ret(false), "test_|-b_|-b_|-nop" => ret(false) },
            Some(&handler(false))
        ));
        assert!(!is_success(&map! { "test_|-a_|-a_|-fail" => ret(false) }, Some(&handler(false))));
    }
}
