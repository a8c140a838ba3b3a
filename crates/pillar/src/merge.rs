//! Merges maps with Salt's strategies.

use value::python::equal;
use value::{Map, Value};

/// The strategies for merging two maps (option `pillar_source_merging_strategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Maps are merged recursively; for anything else the second value wins.
    #[default]
    Recurse,
    /// The second map's entries replace those of the first as a whole, unless the files mark them otherwise.
    Aggregate,
    /// The second map's entries replace those of the first as a whole.
    Overwrite,
    /// Entries in both become lists of two; as in Salt, those only in the second are lost.
    List,
    /// There is only one environment, so this is [`Strategy::Recurse`] without joining lists.
    None,
}

impl Strategy {
    /// Returns the strategy with this name. `smart`, or no name, depends on the renderer; an unknown one is `recurse`, with a
    /// warning.
    pub fn from_name(name: &str, renderer: &str) -> Self {
        match name {
            "recurse" => Strategy::Recurse,
            "aggregate" => Strategy::Aggregate,
            "overwrite" => Strategy::Overwrite,
            "list" => Strategy::List,
            "none" => Strategy::None,
            "" | "smart" if renderer.rsplit('|').next() == Some("yamlex") || renderer.starts_with("yamlex_") => {
                Strategy::Aggregate
            }
            "" | "smart" => Strategy::Recurse,
            other => {
                // As in Salt, this fallback ignores `pillar_merge_lists`, unlike the real `recurse`.
                tracing::warn!("Unknown merging strategy '{other}', fallback to recurse");
                Strategy::None
            }
        }
    }
}

/// Merges the second map into the first. With `join_lists`, lists in both are joined, without values that the first has.
pub fn merge(first: Map, second: &Map, strategy: Strategy, join_lists: bool) -> Map {
    match strategy {
        Strategy::Recurse => recurse(first, second, join_lists),
        Strategy::None => recurse(first, second, false),
        Strategy::Aggregate | Strategy::Overwrite => replace(first, second),
        Strategy::List => pairs(first, second),
    }
}

/// Merges maps recursively, and joins lists without values that the first has: Salt's `dictupdate` with both its switches on.
pub fn merged(first: Map, second: &Map) -> Map {
    recurse(first, second, true)
}

fn recurse(mut first: Map, second: &Map, join_lists: bool) -> Map {
    for (key, new) in second {
        match (first.get_value_mut(key), new) {
            (Some(Value::Map(old)), Value::Map(new)) => *old = recurse(std::mem::take(old), new, join_lists),
            (Some(Value::List(old)), Value::List(new)) if join_lists => {
                let unknown: Vec<Value> =
                    new.iter().filter(|item| !old.iter().any(|known| equal(known, item))).cloned().collect();
                old.extend(unknown);
            }
            (Some(old), new) => *old = new.clone(),
            (None, new) => drop(first.insert(key.clone(), new.clone())),
        }
    }
    first
}

fn replace(mut first: Map, second: &Map) -> Map {
    first.extend(second.iter().map(|(key, value)| (key.clone(), value.clone())));
    first
}

fn pairs(first: Map, second: &Map) -> Map {
    let pair = |(key, old): (Value, Value)| match second.get_value(&key) {
        Some(new) => (key, Value::List(vec![old, new.clone()])),
        None => (key, old),
    };
    first.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_strategy_name_is_smart() {
        assert_eq!(Strategy::from_name("", "jinja|yaml"), Strategy::Recurse);
        assert_eq!(Strategy::from_name("", "jinja|yamlex"), Strategy::Aggregate);
        assert_eq!(Strategy::from_name("bogus", "jinja|yaml"), Strategy::None);
    }
}
