//! `state_compress_ids`: merges states with the same id and result into one entry.

use std::collections::HashMap;

use ::value::{Map, Value, map};

use super::super::settings::Settings;

/// Returns how many states an entry represents.
pub fn count(tag: &str, settings: &Settings) -> usize {
    if !settings.state_compress_ids || !tag.contains("_|-state_compressed_") {
        return 1;
    }
    let id = tag.split("_|-").nth(1).unwrap_or_default();
    let number = id.strip_suffix(')').and_then(|id| id.rsplit_once('(')).map(|(_, number)| number);
    number.and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// Merges the results of all minions; `None`, with a warning, if they lack required fields.
pub fn compress(hosts: &Map) -> Option<Map> {
    let folded = hosts.iter().map(|(host, results)| Some((host.clone(), host_results(results.as_map()?)?)));
    let folded: Option<Map> = folded.collect::<Option<Vec<_>>>().map(|entries| entries.into_iter().collect());
    if folded.is_none() {
        tracing::warn!("Unable to compress state output by ID! Returning output normally.");
    }
    folded
}

fn host_results(results: &Map) -> Option<Map> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (tag, info) in results {
        *counts.entry(family(tag.as_str()?, info)?).or_default() += 1;
    }
    let mut folded = Map::new();
    for (tag, info) in results {
        let tag = tag.as_str()?;
        match counts[&family(tag, info)?] {
            1 => drop(folded.insert(tag, info.clone())),
            count => {
                let tag = folded_tag(tag, info, count)?;
                match folded.get_mut(&tag) {
                    None => drop(folded.insert(tag, info.clone())),
                    Some(known) => merge(known.as_map_mut()?, info.as_map()?)?,
                }
            }
        }
    }
    Some(folded)
}

/// The fields that must be equal to merge two results.
fn family(tag: &str, info: &Value) -> Option<String> {
    let module = tag.split("_|-").next()?;
    Some(format!("{module}_{}_{}_{}", info.get("__id__")?, info.get("__sls__")?, info.get("result")?))
}

fn folded_tag(tag: &str, info: &Value, count: usize) -> Option<String> {
    let mut parts: Vec<String> = tag.split("_|-").map(str::to_owned).collect();
    let (id, sls, result) = (info.get("__id__")?, info.get("__sls__")?, info.get("result")?);
    *parts.get_mut(2)? = format!("state_compressed_{sls}_{id}_{result}");
    *parts.get_mut(1)? = format!("{id} ({count})");
    Some(parts.join("_|-"))
}

/// Merges two results: the first position, the earliest start, the sum of durations, changes by name.
fn merge(known: &mut Map, info: &Map) -> Option<()> {
    let place = known.get("__run_num__")?.as_i64()?.min(info.get("__run_num__")?.as_i64()?);
    // The merged entry stands where its first state ran.
    known.insert("__run_num__", place);
    let duration = known.get("duration")?.as_f64()? + info.get("duration")?.as_f64()?;
    // Milliseconds with three digits, as the single durations have.
    known.insert("duration", (duration * 1000.0).round() / 1000.0);
    // Times of one day compare as text.
    let start = known.get_str("start_time")?.min(info.get_str("start_time")?).to_owned();
    known.insert("start_time", start);
    let Some(new) = info.get("changes").filter(|changes| changes.truthy()) else { return Some(()) };
    let name = info.get("name")?.clone();
    let old = known.get("changes").filter(|changes| changes.truthy()).cloned();
    let mut by_name = match old {
        None => Map::new(),
        Some(old) => match old.get("compressed changes") {
            Some(inner) => inner.as_map()?.clone(),
            None => Map::from_iter([(known.get("name")?.clone(), old)]),
        },
    };
    by_name.insert(name, new.clone());
    known.insert("changes", map! { "compressed changes" => by_name });
    Some(())
}
