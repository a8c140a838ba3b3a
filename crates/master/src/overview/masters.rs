//! The masters of the set, and what differs between them.

use share::drift::Kind;
use value::{Map, Value, map};

use super::Refused;
use crate::Shared;
use crate::set_requests::{Reader, SetRequest};

async fn ask(shared: &Shared, request: SetRequest) -> Result<Option<Map>, Refused> {
    let Some(sharing) = shared.sharing.get() else { return Ok(None) };
    let answer = sharing.ask(request).await.map_err(|reason| Refused::new(503, reason))?;
    Ok(answer.into_map())
}

/// Returns the masters of the set; this one alone if it shares nothing.
///
/// # Errors
/// When the part of the master that shares does not answer.
pub async fn masters(shared: &Shared) -> Result<Value, Refused> {
    let Some(mut known) = ask(shared, SetRequest::Masters(Reader::Program)).await? else {
        let minions = shared.connected().len();
        let row = map! { "name" => shared.stores.config.id.as_str(), "state" => "here", "minions" => minions };
        return Ok(map! {
            "cluster_id" => Value::Null, "masters" => vec![row], "others" => Vec::<Value>::new(), "keys" => Map::new(),
            "once" => Value::Null,
        }
        .into());
    };
    let take = |known: &mut Map, name: &str| known.remove(name).unwrap_or_default();
    let members = take(&mut known, "masters").into_map().unwrap_or_default();
    let named = |(name, row): (Value, Value)| {
        let mut named = map! { "name" => name };
        named.update(row.into_map().unwrap_or_default());
        named
    };
    let rows: Vec<Map> = members.into_iter().map(named).collect();
    let others = take(&mut known, "others").into_list().unwrap_or_default();
    Ok(map! {
        "cluster_id" => take(&mut known, "cluster_id"), "masters" => rows, "others" => others,
        "keys" => take(&mut known, "keys"), "once" => take(&mut known, "once"),
    }
    .into())
}

/// Returns which kinds differ by the digests that the masters tell each other, or what differs in one kind, for which all files are
/// looked at. Nothing differs on a master that shares nothing.
///
/// # Errors
/// When the part of the master that shares does not answer.
pub async fn drift(shared: &Shared, kind: Option<Kind>) -> Result<Value, Refused> {
    let request = match kind {
        Some(kind) => SetRequest::Drift(Some(kind)),
        None => SetRequest::DriftOverview,
    };
    let known = ask(shared, request).await?.unwrap_or_default();
    Ok(described(known, kind.is_none()).into())
}

fn described(mut known: Map, all: bool) -> Map {
    let list = |known: &mut Map, name: &str| known.remove(name).and_then(Value::into_list).unwrap_or_default();
    let (compared, not_compared) = (list(&mut known, "compared_with"), list(&mut known, "not_compared"));
    let (same, unknown) = (list(&mut known, "same"), list(&mut known, "unknown"));
    let more = known.get("more") == Some(&true.into());
    let differs = known.remove("differs").and_then(Value::into_map).unwrap_or_default();
    let (mut kinds, mut entries) = (Vec::new(), Vec::new());
    for (name, what) in differs {
        match all {
            true => {
                let part = |field: &str| what.get(field).cloned();
                let on = part("on").unwrap_or_else(|| Value::List(Vec::new()));
                kinds.push(map! { "kind" => name, "state" => "differs", "on" => on, "since" => part("since") });
            }
            false => entries.push(map! { "name" => name.to_string(), "on" => what }),
        }
    }
    for (names, state) in [(same, "same"), (unknown, "unknown")] {
        let row = |name| map! { "kind" => name, "state" => state, "on" => Vec::<Value>::new(), "since" => Value::Null };
        kinds.extend(names.into_iter().map(row));
    }
    map! {
        "kinds" => kinds, "entries" => entries, "more" => more, "compared_with" => compared, "not_compared" => not_compared,
    }
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn kinds_and_entries_are_rows() {
        let kind =
            map! { "on" => list!["m2"], "since" => "2026-11-26 16:05:11", "show" => "salt-run saltern.drift pillar" };
        let known = map! {
            "compared_with" => list!["m2"], "differs" => map! { "pillar" => kind }, "same" => list!["files"],
            "unknown" => list!["git"],
        };
        let shown = described(known, true);
        let rows = shown.get("kinds").and_then(Value::as_list).unwrap();
        let states: Vec<_> = rows.iter().map(|row| row.get("state").and_then(Value::as_str).unwrap()).collect();
        assert_eq!(states, ["differs", "same", "unknown"]);
        assert_eq!(rows[0].get("on"), Some(&list!["m2"]));
        let known = map! { "differs" => map! { "top.sls" => map! { "m2" => "differs" } }, "more" => true };
        let shown = described(known, false);
        assert_eq!(shown.get("more"), Some(&true.into()));
        let expected: Value = list![map! { "name" => "top.sls", "on" => map! { "m2" => "differs" } }];
        assert_eq!(shown.get("entries"), Some(&expected));
    }
}
