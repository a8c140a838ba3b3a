//! Doing the work of several package states of a run in one call (`aggregate: True`).

use exec::{Result, function};
use value::{Map, Value, map};

/// The functions whose states are taken together.
// Salt's list. All other functions run one by one.
const TOGETHER: [&str; 4] = ["installed", "latest", "removed", "purged"];

/// Merges the packages of the other states of the run that do the same into this one. Returns the low chunk, changed.
#[function]
fn mod_aggregate(low: Map, chunks: Vec<Map>, running: Map) -> Result<Map> {
    Ok(aggregated(low, &chunks, &running))
}

fn aggregated(mut low: Map, chunks: &[Map], running: &Map) -> Map {
    if !TOGETHER.contains(&low.get_str("fun").unwrap_or_default()) {
        return low;
    }
    // A package manager takes names or files in one call, not both, so the two kinds are gathered
    // apart.
    let kind = if low.contains_key("sources") { "sources" } else { "pkgs" };
    let mut packages = Map::new();
    for chunk in chunks {
        // States that ran already are left out: their packages are settled, and a removal in
        // between must not be undone.
        if running.contains_key(&tag(chunk)) || !alike(&low, chunk) {
            continue;
        }
        match chunk.get(kind) {
            Some(list) => combine(&mut packages, list),
            None if kind == "pkgs" && !chunk.contains_key("sources") => {
                let part = |name: &str| chunk.get(name).cloned().unwrap_or_default();
                add(&mut packages, &part("name"), [part("version")]);
            }
            None => continue,
        }
    }
    // There is no state to join: the state stays as it was written.
    if packages.is_empty() {
        return low;
    }
    let mut all = Map::new();
    match low.get(kind) {
        Some(list) => combine(&mut all, list),
        None => {
            let part = |name: &str| low.get(name).cloned().unwrap_or_default();
            add(&mut all, &part("name"), [part("version")]);
        }
    }
    for (name, versions) in packages {
        add(&mut all, &name, versions.into_list().unwrap_or_default());
    }
    // A state that does not care about the version takes the one that another state requires.
    for (_, versions) in all.iter_mut() {
        if let Value::List(versions) = versions
            && versions.len() > 1
        {
            versions.retain(|version| !version.is_null());
        }
    }
    let entries = all.iter().flat_map(|(name, versions)| {
        let one = move |version: &Value| match version {
            Value::Null => name.clone(),
            version => map! { name.clone() => version.clone() }.into(),
        };
        versions.as_list().unwrap_or_default().iter().map(one)
    });
    let entries: Vec<Value> = entries.collect();
    low.insert(kind, entries);
    // The version moved into the list. Left here, it would be taken for the version of every
    // package.
    low.remove("version");
    low
}

fn alike(low: &Map, chunk: &Map) -> bool {
    let same = |name: &str| chunk.get(name) == low.get(name);
    chunk.get_str("state") == Some("pkg")
        // Already joined into another state.
        && !chunk.contains_key("__agg__")
        && same("fun")
        && same("fromrepo")
        // Holding belongs to the packages of that one state and would spread to all of the joint
        // call.
        && !chunk.contains_key("hold")
}

/// The name results have in the run.
fn tag(chunk: &Map) -> String {
    let part = |name: &str| chunk.get(name).map(Value::to_string).unwrap_or_default();
    format!("{}_|-{}_|-{}_|-{}", part("state"), part("__id__"), part("name"), part("fun"))
}

fn combine(packages: &mut Map, list: &Value) {
    for item in list.as_list().unwrap_or_default() {
        match item {
            Value::Map(map) => map.iter().for_each(|(name, version)| add(packages, name, [version.clone()])),
            name => add(packages, name, [Value::Null]),
        }
    }
}

/// Adds versions, each once.
fn add(packages: &mut Map, name: &Value, versions: impl IntoIterator<Item = Value>) {
    let known = packages.entry_or_insert_with(name.clone(), || Value::List(Vec::new()));
    if let Value::List(known) = known {
        for version in versions {
            if !known.contains(&version) {
                known.push(version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn chunk(id: &str, more: Map) -> Map {
        let mut chunk = map! { "state" => "pkg", "fun" => "installed", "__id__" => id, "name" => id };
        chunk.update(more);
        chunk
    }

    #[test]
    fn packages_of_states_that_do_the_same_are_taken_together() {
        let chunks = [
            chunk("a", map! {}),
            chunk("b", map! { "pkgs" => list!["x", map! { "y" => "1" }] }),
            chunk("c", map! { "version" => "2" }),
            chunk("d", map! { "hold" => true }),
            chunk("e", map! { "fromrepo" => "other" }),
            chunk("f", map! { "__agg__" => true }),
            chunk("g", map! { "fun" => "removed" }),
            chunk("h", map! {}),
        ];
        let running = map! { "pkg_|-h_|-h_|-installed" => map! {} };
        let low = aggregated(chunks[0].clone(), &chunks, &running);
        // `d` to `h` each break one of the conditions and must stay out.
        assert_eq!(low.get("pkgs"), Some(&list!["a", "x", map! { "y" => "1" }, map! { "c" => "2" }]));
        let alone = aggregated(chunk("z", map! { "version" => "3" }), &chunks[..1], &Map::new());
        assert_eq!(alone.get("pkgs"), Some(&list![map! { "z" => "3" }, "a"]));
    }

    #[test]
    fn sources_are_taken_with_sources() {
        let source = |name: &str| map! { "sources" => list![map! { name => format!("salt://{name}") }] };
        let chunks = [chunk("a", source("a")), chunk("b", map! {}), chunk("c", source("c"))];
        let low = aggregated(chunks[0].clone(), &chunks, &Map::new());
        assert_eq!(low.get("sources"), Some(&list![map! { "a" => "salt://a" }, map! { "c" => "salt://c" }]));
        assert_eq!(aggregated(chunk("z", map! { "fun" => "held" }), &chunks, &Map::new()).get("pkgs"), None);
    }
}
