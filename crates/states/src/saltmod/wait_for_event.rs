//! `salt.wait_for_event`.

use exec::{Call, Context, Error, Result, function};
use value::{Map, Value, map};

use crate::Ret;

/// Waits until events whose tag matches a glob have reported each id of a list, or the timeout expires. Outside of an
/// orchestration there is no bus to watch.
#[function]
fn wait_for_event(
    ctx: &Context,
    name: Value,
    id_list: Value,
    #[default("id")] event_id: Value,
    #[default(300)] timeout: Value,
    #[default("master")] node: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.clone());
    if ctx.is_test() {
        let text = format!("Orchestration would wait for event '{name}'");
        return Ok(ret.would(text));
    }
    // Only the master has a bus with the events of all minions on it.
    if node.as_str() != Some("master") || ctx.opt_str("__role") != Some("master") {
        return Err(Error::execution(
            "not supported: salt.wait_for_event anywhere but in an orchestration of the master",
        ));
    }
    let Value::List(ids) = id_list else {
        return Err(Error::execution(format!("'id_list' must be a list, not {}", id_list.type_name())));
    };
    let seconds = timeout.as_f64().or_else(|| timeout.as_str()?.trim().parse().ok());
    let seconds = seconds.ok_or_else(|| Error::execution(format!("'timeout' must be a number, not {timeout}")))?;
    let kwargs = map! { "tag" => name.to_string(), "id_list" => ids, "event_id" => event_id, "timeout" => seconds };
    let told = ctx.call_with("saltutil.wait_for_event", Call { args: Vec::new(), kwargs })?;
    Ok(outcome(ret, &told.into_map().unwrap_or_default()))
}

fn outcome(ret: Ret, told: &Map) -> Ret {
    let mut changes = Map::new();
    // Those that were seen are reported even on a timeout, to show who is missing.
    if let Some(seen) = told.get("seen").filter(|seen| seen.truthy()) {
        changes.insert("minions_seen", seen.clone());
    }
    let ret = ret.changed(changes);
    if told.get("done").is_some_and(Value::truthy) {
        let seconds = told.get("seconds").cloned().unwrap_or_default();
        return ret.ok(format!("All events seen in {seconds} seconds."));
    }
    ret.fail("Timeout value reached.")
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn what_was_seen_is_told_also_when_the_time_is_over() {
        let all = map! { "seen" => list!["a"], "done" => true, "seconds" => 1.5 };
        let ret = outcome(Ret::new("t"), &all);
        assert_eq!((ret.result, ret.comment), (Some(true), "All events seen in 1.5 seconds.".into()));
        let some = map! { "seen" => list!["a"], "done" => false, "seconds" => 2.0 };
        let ret = outcome(Ret::new("t"), &some);
        assert_eq!((ret.result, ret.comment), (Some(false), "Timeout value reached.".into()));
        assert_eq!(ret.changes, map! { "minions_seen" => list!["a"] });
    }
}
