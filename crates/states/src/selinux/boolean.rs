//! `selinux.boolean`, and doing several of them in one call.

use exec::{Context, Result, StateCall, function};
use value::{Map, Value, list, map, python};

use crate::support::{call, call_with_kwargs, join};
use crate::{Ret, args};

/// "on" or "off", however it is written.
fn refined(value: &Value) -> Option<&'static str> {
    match value.to_string().to_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some("on"),
        "0" | "off" | "no" | "false" => Some("off"),
        _ => None,
    }
}

/// The booleans of a list of names, maps, or both; a name alone has the value of the state.
fn combined(value: &Value, list: &Value, names_need_value: bool) -> Map {
    let mut found = Map::new();
    match list {
        Value::Map(map) => found.update(map.clone()),
        list => {
            for item in list.as_list().unwrap_or_default() {
                match item {
                    Value::Map(map) => found.update(map.clone()),
                    _ if names_need_value && value.is_null() => {}
                    name => drop(found.insert(name.clone(), value.clone())),
                }
            }
        }
    }
    found
}

/// The booleans to change, with their old and new values.
#[derive(Default)]
struct Change {
    correct: Vec<String>,
    old: Map,
    new: Map,
}

fn compared(wanted: &Map, known: &Map, persist: bool) -> std::result::Result<Change, String> {
    let mut change = Change::default();
    for (name, value) in wanted {
        let entry = known.get_value(name).ok_or_else(|| format!("Boolean {name} is not available"))?;
        let new = refined(value).ok_or_else(|| format!("{value} is not a valid value for the boolean {name}"))?;
        let part = |key: &str| entry.get(key).cloned().unwrap_or_default();
        let (now, later) = (part("State"), part("Default"));
        if now.as_str() == Some(new) && (!persist || later.as_str() == Some(new)) {
            change.correct.push(name.to_string());
            continue;
        }
        change.old.insert(name.clone(), if persist { list![now, later] } else { now });
        change.new.insert(name.clone(), new);
    }
    change.correct.sort();
    Ok(change)
}

/// Makes sure that booleans have their values; `persist` makes them permanent.
#[function]
fn boolean(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] value: Value,
    #[default(Value::Null)] booleans: Value,
    #[default(false)] persist: bool,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let wanted = match booleans.truthy() {
        true => combined(&value, &booleans, false),
        false => map! { name.as_str() => value },
    };
    let known = call_with_kwargs(ctx, "selinux.list_sebool", Map::new())?.into_map().unwrap_or_default();
    let change = match compared(&wanted, &known, persist) {
        Ok(change) => change,
        Err(why) => return Ok(ret.fail(why)),
    };
    let mut comments = Vec::new();
    if !change.correct.is_empty() {
        comments.push(format!("The following booleans were in the correct state: {}", change.correct.join(", ")));
    }
    if change.new.is_empty() {
        return Ok(ret.ok(comments.join("\n")));
    }
    let diffs = change.new.iter().map(|(name, new)| {
        let new = if persist { list![new.clone(), new.clone()] } else { new.clone() };
        (name.clone(), map! { "old" => change.old.get_value(name).cloned(), "new" => new })
    });
    let diffs: Map = diffs.collect();
    let mut names: Vec<String> = change.new.keys().map(Value::to_string).collect();
    names.sort();
    let names = join(names, ", ");
    if ctx.is_test() {
        comments.push(format!("The following booleans would be changed: {names}"));
        return Ok(ret.would(comments.join("\n")).changed(diffs));
    }
    if call(ctx, "selinux.setsebools", args![change.new, persist], Map::new())?.truthy() {
        comments.push(format!("The following booleans have been changed: {names}"));
        return Ok(ret.ok(comments.join("\n")).changed(diffs));
    }
    Ok(ret.fail(format!("Failed to set the following booleans: {}", python::repr_map(&wanted))))
}

/// Merges the booleans of the other states of the run into this one. Returns the low chunk, changed.
#[function]
fn mod_aggregate(low: Map, chunks: Vec<Map>, running: Map) -> Result<Map> {
    Ok(aggregated(low, &chunks, &running))
}

fn aggregated(mut low: Map, chunks: &[Map], running: &Map) -> Map {
    if low.get_str("fun") != Some("boolean") {
        return low;
    }
    let part = |chunk: &Map, name: &str| chunk.get(name).cloned().unwrap_or_default();
    let mut others = Map::new();
    for chunk in chunks {
        let alike = chunk.get_str("state") == Some("selinux")
            && !chunk.contains_key("__agg__")
            && ["fun", "persist"].iter().all(|name| part(chunk, name) == part(&low, name))
            && !running.contains_key(&StateCall::tag(chunk));
        if !alike {
            continue;
        }
        match chunk.get("booleans") {
            Some(list) => others.update(combined(&part(chunk, "value"), list, true)),
            None => drop(others.insert(part(chunk, "name"), part(chunk, "value"))),
        }
    }
    if !others.is_empty() {
        let mut all = match low.get("booleans") {
            Some(list) => combined(&part(&low, "value"), list, true),
            None => map! { part(&low, "name") => part(&low, "value") },
        };
        all.update(others);
        low.insert("booleans", all);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_of_other_states_are_taken_together() {
        let chunk = |id: &str, more: Map| {
            let mut chunk = map! { "state" => "selinux", "fun" => "boolean", "__id__" => id, "name" => id };
            chunk.update(more);
            chunk
        };
        let one = chunk("one", map! { "value" => "on" });
        let two = chunk("two", map! { "value" => false, "booleans" => list!["a", map! { "b" => true }] });
        let lasting = chunk("three", map! { "value" => "on", "persist" => true });
        let ran = chunk("ran", map! { "value" => "on" });
        let running = map! { StateCall::tag(&ran) => Map::new() };
        let low = aggregated(one.clone(), &[one, two, lasting, ran], &running);
        assert_eq!(low.get("booleans"), Some(&map! { "one" => "on", "a" => false, "b" => true }.into()));
    }
}
