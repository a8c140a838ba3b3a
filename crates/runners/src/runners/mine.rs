//! `mine` — what minions publish for others, as the master sees it.

use std::collections::HashSet;

use ::cache::Part;
use exec::{Result, function};
use targeting::acl::function_matches;
use targeting::{DEFAULT_DELIMITER, TargetType};
use value::{Map, Value};

use crate::local::Ask;
use crate::minions::Minions;
use crate::{Module, RunnerContext};

/// The functions of the runner `mine`.
pub static MODULE: Module = Module::new("mine", "What minions publish for others.", &[&GET, &UPDATE]);

/// The key that marks a value which only some minions may see.
const RESTRICTED: &str = "__saltmine_acl__";

/// Returns the mine of minions for a function, by id; for several functions (`a,b` or a list) by function and id.
/// Values that are restricted by ``allow_tgt`` are shown if the master's own id is allowed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run mine.get '*' network.interfaces
#[function]
async fn get(ctx: &RunnerContext, tgt: Value, fun: Value, #[default("glob")] tgt_type: String) -> Result<Map> {
    ctx.blocking(move |ctx| {
        let Some((functions, several)) = function_names(&fun) else { return Ok(Map::new()) };
        let functions = readable_functions(ctx, functions);
        if functions.is_empty() {
            return Ok(Map::new());
        }
        let minions = Minions::new(ctx)?;
        let mut found = Map::new();
        let mines = minions.all(Part::Mine, matching_minions(&minions, &tgt, &tgt_type));
        for (id, mine) in &mines {
            let (id, Some(mine)) = (id.to_string(), mine.as_map()) else { continue };
            for function in &functions {
                let Some(value) = mine.get(function).and_then(|value| visible(ctx, &minions, value)) else { continue };
                if !several {
                    found.insert(id.as_str(), value);
                } else if let Some(part) =
                    found.entry_or_insert_with(function.as_str(), || Map::new().into()).as_map_mut()
                {
                    part.insert(id.as_str(), value);
                }
            }
        }
        Ok(found)
    })
    .await
}

/// Returns the names of functions, and whether the answer is grouped by them.
fn function_names(fun: &Value) -> Option<(Vec<String>, bool)> {
    match fun {
        Value::Str(text) => {
            let mut seen = HashSet::new();
            // A comma makes several names, but `a,a` is one, and the answer then has the short form.
            let names: Vec<String> = text.split(',').filter(|name| seen.insert(*name)).map(str::to_owned).collect();
            let several = names.len() > 1;
            Some((names, several))
        }
        // A list has the long form even with one name.
        Value::List(names) => Some((names.iter().map(Value::to_string).collect(), true)),
        _ => None,
    }
}

/// Keeps the functions that `mine_get` lets the master's own id read; all if the option is not set.
fn readable_functions(ctx: &RunnerContext, functions: Vec<String>) -> Vec<String> {
    let Some(rules) = ctx.config.raw.get("mine_get") else { return functions };
    // Rules of the wrong type grant nothing.
    let Some(rules) = rules.as_map() else { return Vec::new() };
    let granted: Vec<&str> = rules
        .iter()
        .filter(|(ids, _)| ids.as_str().is_some_and(|pattern| function_matches(pattern, &ctx.config.id)))
        .flat_map(|(_, granted)| granted.as_list().unwrap_or_default())
        .filter_map(Value::as_str)
        .collect();
    functions.into_iter().filter(|name| granted.iter().any(|pattern| function_matches(pattern, name))).collect()
}

/// Returns the minions a target matches by cached data. Pillar is compared exactly, as for minions that ask.
fn matching_minions(minions: &Minions, tgt: &Value, tgt_type: &str) -> Vec<String> {
    let kind = match tgt_type.to_lowercase().as_str() {
        "pillar" => Ok(TargetType::PillarExact),
        "compound" => Ok(TargetType::CompoundPillarExact),
        _ => TargetType::from_name(tgt_type),
    };
    let found = kind
        .map_err(|error| error.to_string())
        .and_then(|kind| minions.checker().known(tgt, kind, DEFAULT_DELIMITER).map_err(|error| error.to_string()));
    found.map(|known| known.minions).unwrap_or_else(|error| {
        tracing::error!("Failed matching available minions with {tgt_type} pattern: {tgt}: {error}");
        Vec::new()
    })
}

/// Returns a stored value without its access rules if the master's own id may see it.
fn visible(ctx: &RunnerContext, minions: &Minions, stored: &Value) -> Option<Value> {
    let Some(wrapped) = stored.as_map().filter(|map| map.contains_key(RESTRICTED)) else {
        return Some(stored.clone());
    };
    if let Some(target) = wrapped.get("allow_tgt") {
        // An unknown target type grants nothing.
        let kind = TargetType::from_name(wrapped.get_str("allow_tgt_type").unwrap_or("glob")).ok()?;
        let meant = minions.checker().expect(target, kind, DEFAULT_DELIMITER).ok()?.minions;
        if !meant.contains(&ctx.config.id) {
            return None;
        }
    }
    wrapped.get("__data__").cloned()
}

/// Makes minions update their mine and returns their answers by id; ``mine_functions`` are the functions to update,
/// with ``clear`` all others are deleted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run mine.update '*'
///     salt-run mine.update 'juniper-edges' tgt_type='nodegroup'
#[function]
async fn update(
    ctx: &RunnerContext,
    tgt: Value,
    #[default("glob")] tgt_type: String,
    #[default(false)] clear: bool,
    mine_functions: Option<Value>,
) -> Result<Map> {
    let mut named = Map::new();
    // Arguments that are not given are left out, so that minions use their own defaults.
    if clear {
        named.insert("clear", true);
    }
    if let Some(functions) = mine_functions.filter(Value::truthy) {
        named.insert("mine_functions", functions);
    }
    let ask = Ask::new(ctx, tgt, &tgt_type, "mine.update").with(Vec::new(), named);
    let answers = ask.run(ctx).await.map_err(crate::context::failed)?;
    Ok(answers.results(ctx))
}
