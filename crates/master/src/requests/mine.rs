//! The mine: values that minions publish for other minions.

use std::collections::HashSet;
use std::sync::Arc;

use cache::Part;
use targeting::acl::function_matches;
use targeting::{Checker, DEFAULT_DELIMITER, TargetType};
use tracing::{error, warn};
use value::{Map, Value, map};
use wire::MinionId;
use wire::loads::{MineDelete, MineGet, MineStore};

use super::{Answer, MasterRequest, nothing, read};
use crate::Shared;

/// Marks a value that only some minions may read.
const RESTRICTED: &str = "__saltmine_acl__";

/// `_mine`: stores values.
pub fn store(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return nothing() };
    let Some(MineStore { data, clear, .. }) = read(load, MineStore::from_map) else { return nothing() };
    let jobs = &shared.stores.config.jobs;
    if !jobs.minion_data_cache && !jobs.enforce_mine_cache {
        return true.into();
    }
    let kept = match clear.unwrap_or_default() {
        true => Ok(None),
        false => mine_to_change(&shared, &id),
    };
    let Ok(kept) = kept else { return false.into() };
    let mut all = kept.map(|kept| (*kept).clone()).unwrap_or_default();
    all.update(data);
    if !shared.bounds.may_keep(&id, "mine", &all) {
        return false.into();
    }
    done(&shared, &id, shared.stores.data.store_mine(&id, all)).into()
}

/// `_mine_delete`: removes a value.
pub fn delete(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return false.into() };
    let Some(request) = read(load, MineDelete::from_map) else { return false.into() };
    let Ok(kept) = mine_to_change(&shared, &id) else { return false.into() };
    let Some(mut all) = kept.map(|mine| (*mine).clone()) else { return true.into() };
    all.remove_value(&request.fun);
    done(&shared, &id, shared.stores.data.store_mine(&id, all)).into()
}

/// `_mine_flush`: removes all values.
pub fn flush(ask: MasterRequest) -> Answer {
    let Some(id) = &ask.id else { return false.into() };
    done(&ask.shared, id, ask.shared.stores.data.remove_mine(id).map(drop)).into()
}

fn done(shared: &Shared, id: &MinionId, outcome: cache::Result<()>) -> bool {
    outcome
        .inspect(|()| shared.outgoing.iter().for_each(|outgoing| outgoing.data(Part::Mine, id)))
        .inspect_err(|failure| {
            if !failure.is_logged() {
                error!(minion = %id, "failed to write the mine of {id}: {}", crate::chain(failure));
            }
        })
        .is_ok()
}

fn mine(shared: &Shared, id: &MinionId) -> Option<Arc<Map>> {
    mine_to_change(shared, id).unwrap_or_default()
}

/// Returns the stored values of a minion. Unreadable values are treated as absent, because they will be replaced. It is
/// an error if a cache server does not answer: its values would be lost if it answered again when the change is
/// written.
fn mine_to_change(shared: &Shared, id: &MinionId) -> cache::Result<Option<Arc<Map>>> {
    shared.stores.data.mine(id).or_else(|failure| match failure {
        cache::Error::NoAnswer { .. } => Err(failure),
        failure => {
            warn!(minion = %id, "failed to read the mine of {id}: {}", crate::chain(&failure));
            Ok(None)
        }
    })
}

/// Reads the mines of several minions, in their order. Those without one are left out.
fn mines(shared: &Shared, ids: Vec<String>, mut each: impl FnMut(&str, &Map)) {
    let Some(size) = shared.stores.data.batch() else {
        for id in ids {
            if let Some(mine) = MinionId::new(id.as_str()).ok().and_then(|id| mine(shared, &id)) {
                each(&id, &mine);
            }
        }
        return;
    };
    for some in ids.chunks(size) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        match shared.stores.data.read(Part::Mine, &some) {
            Ok(found) => {
                some.iter().filter_map(|id| Some((*id, found.get(*id)?))).for_each(|(id, mine)| each(id, mine))
            }
            Err(failure) if failure.is_logged() => {}
            Err(failure) => warn!("failed to read the mines of minions: {}", crate::chain(&failure)),
        }
    }
}

/// `_mine_get`: reads values of other minions.
pub fn get(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return nothing() };
    let Some(request) = read(load, MineGet::from_map) else { return nothing() };
    let Some(wanted) = WantedFunctions::of(&request.fun) else { return nothing() };
    let functions = readable_functions(&shared, &id, wanted.functions);
    if functions.is_empty() {
        return nothing();
    }
    let kind = request.tgt_type.0.or(request.expr_form.0).unwrap_or_else(|| "glob".into());
    let checker = shared.stores.checker();
    let mut reader = Reader { checker: &checker, asking: &id, seen: Vec::new() };
    let mut found = Map::new();
    mines(&shared, reader.minions(&request.tgt, &kind), |minion, mine| {
        for function in &functions {
            let Some(value) = mine.get(function).and_then(|value| reader.visible(value)) else { continue };
            if wanted.several {
                let part = found.entry_or_insert_with(function.as_str(), || Map::new().into());
                if let Some(part) = part.as_map_mut() {
                    part.insert(minion, value);
                }
            } else {
                found.insert(minion, value);
            }
        }
    });
    found.into()
}

/// The requested functions.
struct WantedFunctions {
    functions: Vec<String>,
    /// True if the answer is grouped by function.
    several: bool,
}

impl WantedFunctions {
    fn of(fun: &Value) -> Option<Self> {
        let (names, is_list): (Vec<String>, bool) = match fun {
            Value::Str(text) => (text.split(',').map(str::to_owned).collect(), false),
            Value::List(names) => (names.iter().map(Value::to_string).collect(), true),
            _ => return None,
        };
        // A name that is repeated a thousand times would copy the data as often.
        let mut seen = HashSet::new();
        let functions: Vec<String> = names.into_iter().filter(|name| seen.insert(name.clone())).collect();
        Some(WantedFunctions { several: is_list || functions.len() > 1, functions })
    }
}

/// Keeps the functions that the option `mine_get` permits a minion to read; without the option, all.
fn readable_functions(shared: &Shared, id: &MinionId, functions: Vec<String>) -> Vec<String> {
    let Some(rules) = shared.stores.config.raw.get("mine_get") else { return functions };
    let Some(rules) = rules.as_map() else { return Vec::new() };
    let granted: Vec<&str> = rules
        .iter()
        .filter(|(minions, _)| minions.as_str().is_some_and(|pattern| function_matches(pattern, id.as_str())))
        .flat_map(|(_, granted)| granted.as_list().unwrap_or_default())
        .filter_map(Value::as_str)
        .collect();
    functions.into_iter().filter(|name| granted.iter().any(|pattern| function_matches(pattern, name))).collect()
}

struct Reader<'a> {
    /// One checker for the whole request, which limits its cost.
    checker: &'a Checker<'a>,
    asking: &'a MinionId,
    /// Rules that were evaluated, with the result, because the values of many minions have the same rules.
    seen: Vec<(Value, bool)>,
}

impl Reader<'_> {
    /// Returns the minions of a target. Pillar is compared exactly, so that its values cannot be guessed with globs.
    fn minions(&self, tgt: &Value, kind: &str) -> Vec<String> {
        let kind = match kind {
            "pillar" => TargetType::PillarExact,
            "compound" => TargetType::CompoundPillarExact,
            other => match TargetType::from_name(other) {
                Ok(kind) => kind,
                Err(failure) => {
                    warn!(minion = %self.asking, "mine: {failure}");
                    return Vec::new();
                }
            },
        };
        match self.checker.known(tgt, kind, DEFAULT_DELIMITER) {
            Ok(known) => known.minions,
            Err(failure) => {
                warn!(minion = %self.asking, "mine: {failure}");
                Vec::new()
            }
        }
    }

    /// Returns a stored value without its rules, if the asking minion may see it.
    fn visible(&mut self, stored: &Value) -> Option<Value> {
        let Some(wrapped) = stored.as_map().filter(|map| map.contains_key(RESTRICTED)) else {
            return Some(stored.clone());
        };
        let value = || wrapped.get("__data__").cloned();
        let Some(target) = wrapped.get("allow_tgt").filter(|target| target.truthy()) else { return value() };
        let kind = wrapped.get_str("allow_tgt_type").unwrap_or("glob");
        let rule: Value = map! { "target" => target.clone(), "kind" => kind }.into();
        let known = self.seen.iter().find(|(seen, _)| *seen == rule).map(|(_, outcome)| *outcome);
        let passes = known.unwrap_or_else(|| {
            let passes = TargetType::from_name(kind).is_ok_and(|kind| {
                let means = self.checker.means(target, kind, DEFAULT_DELIMITER, self.asking.as_str());
                means.inspect_err(|failure| warn!(minion = %self.asking, "mine: {failure}")).unwrap_or(false)
            });
            self.seen.push((rule, passes));
            passes
        });
        passes.then(value).flatten()
    }
}
