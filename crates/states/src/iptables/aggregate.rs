//! Setting the rules of several states of a run in one (`aggregate: True`).

use exec::{Result, StateCall, function};
use value::{Map, Value};

/// Merges the rules of the other states of the run that do the same into this one. Returns the low chunk, changed.
#[function]
fn mod_aggregate(low: Map, chunks: Vec<Map>, running: Map) -> Result<Map> {
    Ok(aggregated(low, chunks, &running))
}

fn aggregated(mut low: Map, chunks: Vec<Map>, running: &Map) -> Map {
    if !matches!(low.get_str("fun"), Some("append" | "insert")) {
        return low;
    }
    let alike = |chunk: &Map| {
        chunk.get_str("state") == Some("iptables")
            && !chunk.contains_key("__agg__")
            && chunk.get("fun") == low.get("fun")
            // Rules that are set already must not be added twice.
            && !running.contains_key(&StateCall::tag(chunk))
    };
    let mut rules: Vec<Value> = Vec::new();
    for chunk in chunks.into_iter().filter(alike).map(Value::from) {
        if !rules.contains(&chunk) {
            rules.push(chunk);
        }
    }
    if !rules.is_empty() {
        let mut all = low.get("rules").and_then(Value::as_list).unwrap_or_default().to_vec();
        all.extend(rules);
        low.insert("rules", all);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn rules_of_states_that_do_the_same_are_taken_together() {
        let chunk = |id: &str, fun: &str| {
            map! { "state" => "iptables", "fun" => fun, "__id__" => id, "name" => id, "chain" => "INPUT" }
        };
        let (a, b, c, ran) = (chunk("a", "append"), chunk("b", "append"), chunk("c", "insert"), chunk("r", "append"));
        let running = map! { StateCall::tag(&ran) => map! { "result" => true } };
        let low = aggregated(a.clone(), vec![a.clone(), b.clone(), c.clone(), ran, b.clone()], &running);
        assert_eq!(low.get("rules"), Some(&list![a.clone(), b]));
        let flush = chunk("f", "flush");
        assert_eq!(aggregated(flush.clone(), vec![a], &running), flush);
    }
}
