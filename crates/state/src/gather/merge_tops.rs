//! Merges the top files of several environments.

use indexmap::IndexMap;
use value::{Map, Value};

/// Top files by environment. A top file that includes others counts as several.
pub type Tops = IndexMap<String, Vec<Map>>;

/// The message about an environment without targets.
pub const NO_TARGETS: &str = "Unable to render top file. No targets found.";

/// Merges by a strategy (`top_file_merging_strategy`). An unknown one means `merge`.
///
/// # Errors
/// Fails if a top file has an environment without targets.
pub fn merge(tops: Tops, strategy: &str, default_top: &str) -> Result<Map, String> {
    match strategy {
        "merge" => merge_default(tops),
        "merge_all" => merge_all(tops),
        "same" => merge_same(tops, default_top),
        other => {
            tracing::warn!("Invalid top_file_merging_strategy '{other}', falling back to 'merge'");
            merge_default(tops)
        }
    }
}

/// Iterates over the environments of a top file.
fn sections(top: &Map) -> impl Iterator<Item = (&Value, &Value)> {
    top.iter().filter(|(env, _)| env.as_str() != Some("include"))
}

fn is_env(env: &Value, name: &str) -> bool {
    env.as_str() == Some(name)
}

fn add(top: &mut Map, env: &Value, targets: &Value) -> Result<(), String> {
    let targets = targets.as_map().ok_or(NO_TARGETS)?;
    // An empty section does not count as a definition of the environment, so another top file may still supply it.
    if targets.is_empty() {
        return Ok(());
    }
    let section = top.entry_or_insert_with(env.clone(), || Value::Map(Map::new()));
    if let Some(section) = section.as_map_mut() {
        section.update(targets.clone());
    }
    Ok(())
}

/// `merge`: `base` wins. Another environment's top file counts only for itself, and only if `base` does not define it.
fn merge_default(mut tops: Tops) -> Result<Map, String> {
    let mut top = Map::new();
    for one in tops.shift_remove("base").unwrap_or_default() {
        for (env, targets) in sections(&one) {
            add(&mut top, env, targets)?;
        }
    }
    for (own, tops) in &tops {
        for one in tops {
            for (env, targets) in sections(one) {
                if is_env(env, own) && top.get_value(env).is_none() {
                    add(&mut top, env, targets)?;
                } else {
                    tracing::debug!("the section of '{env}' in the top file of '{own}' is passed over");
                }
            }
        }
    }
    Ok(top)
}

/// `same`: each environment's top file counts for itself. `default_top` supplies missing ones.
fn merge_same(tops: Tops, default_top: &str) -> Result<Map, String> {
    let mut top = Map::new();
    for (own, tops_here) in &tops {
        // Included top files count too: only if all are empty does the default replace them.
        let missing = tops_here.iter().all(Map::is_empty);
        let source = if missing { tops.get(default_top) } else { Some(tops_here) };
        let mut found = false;
        for (env, targets) in source.into_iter().flatten().flat_map(sections).filter(|(env, _)| is_env(env, own)) {
            add(&mut top, env, targets)?;
            found = true;
        }
        if missing && !found {
            tracing::error!(
                "the environment '{own}' has no top file, and the one of default_top ({default_top}) has no section for it"
            );
        }
    }
    Ok(top)
}

/// `merge_all`: all top files count, even for the same target.
fn merge_all(tops: Tops) -> Result<Map, String> {
    let mut top = Map::new();
    for (env, targets) in tops.values().flatten().flat_map(sections) {
        let targets = targets.as_map().ok_or(NO_TARGETS)?;
        for (target, states) in targets {
            let section = top.entry_or_insert_with(env.clone(), || Value::Map(Map::new()));
            let Some(section) = section.as_map_mut() else { continue };
            let merged = match section.get_value(target) {
                Some(present) => both(present, states)?,
                None => states.clone(),
            };
            section.insert(target.clone(), merged);
        }
    }
    Ok(top)
}

fn both(first: &Value, second: &Value) -> Result<Value, String> {
    let (first_match, first_states) = parts(first)?;
    let (second_match, second_states) = parts(second)?;
    let mut merged: Vec<Value> = second_match.or(first_match).cloned().into_iter().collect();
    merged.extend(first_states.into_iter().cloned());
    for state in second_states {
        if !merged.contains(state) {
            merged.push(state.clone());
        }
    }
    Ok(Value::List(merged))
}

/// Returns the matcher of a target and its states.
fn parts(target: &Value) -> Result<(Option<&Value>, Vec<&Value>), String> {
    let items = target.as_list().ok_or(NO_TARGETS)?;
    // As in Salt, the last map wins and the others are lost.
    let matcher = items.iter().rfind(|item| item.as_map().is_some());
    Ok((matcher, items.iter().filter(|item| item.as_str().is_some()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    fn tops() -> Tops {
        let base = map! {
            "base" => map! { "*" => list!["a"], "web*" => list!["b"] },
            "dev" => map! { "*" => list!["from_base"] },
        };
        let dev = map! { "dev" => map! { "*" => list!["d"] }, "base" => map! { "*" => list!["stranger"] } };
        let qa = map! { "qa" => map! { "*" => list!["q"] }, "dev" => map! { "*" => list!["stranger"] } };
        Tops::from_iter([
            ("base".to_owned(), vec![base]),
            ("dev".to_owned(), vec![dev]),
            ("qa".to_owned(), vec![qa]),
            ("old".to_owned(), vec![map! {}]),
        ])
    }

    #[test]
    fn base_comes_first_and_others_speak_for_themselves() {
        let merged = merge(tops(), "merge", "base").unwrap();
        let wanted = map! {
            "base" => map! { "*" => list!["a"], "web*" => list!["b"] },
            "dev" => map! { "*" => list!["from_base"] },
            "qa" => map! { "*" => list!["q"] },
        };
        assert_eq!(merged, wanted);
    }

    #[test]
    fn with_same_each_speaks_for_itself_alone() {
        let merged = merge(tops(), "same", "base").unwrap();
        let wanted = map! {
            "base" => map! { "*" => list!["a"], "web*" => list!["b"] },
            "dev" => map! { "*" => list!["d"] },
            "qa" => map! { "*" => list!["q"] },
        };
        assert_eq!(merged, wanted);
    }

    #[test]
    fn with_merge_all_every_word_counts() {
        let merged = merge(tops(), "merge_all", "base").unwrap();
        assert_eq!(merged.get("base").unwrap().get("*"), Some(&list!["a", "stranger"]));
        assert_eq!(merged.get("dev").unwrap().get("*"), Some(&list!["from_base", "d", "stranger"]));
        let targets = map! { "base" => Value::Null };
        assert_eq!(
            merge(Tops::from_iter([("base".to_owned(), vec![targets])]), "merge_all", ""),
            Err(NO_TARGETS.into())
        );
    }
}
