//! `listen`: reactions at the end of the run; and `beacon`: beacons of states.

use value::{Map, Value, map};

use super::Run;
use crate::high::{is_dunder, text_of};
use crate::keywords::{Kind, is_requisite};
use crate::low::{Settings, allow_aggregate};
use crate::tag;

/// A listener (state, and id or name) and what it listens to.
struct Listener {
    state: String,
    name: String,
    to: Vec<Value>,
}

impl Run {
    /// Runs the listeners of states that made changes.
    pub(super) fn listeners(&mut self) {
        let listens = |low: &Map| low.contains_key("listen") || low.contains_key("listen_in");
        if !self.chunks.in_order().any(listens) {
            return;
        }
        let lows: Vec<&Map> = self.distinct();
        let mut reactions = Vec::new();
        let mut errors = Map::new();
        for listener in listeners(&lows) {
            for (state, name) in listener.to.iter().flat_map(|to| references(to, &lows)) {
                let heard: Vec<&Map> = lows.iter().copied().filter(|low| is_meant(low, &state, &name)).collect();
                if heard.is_empty() {
                    note_missing(&mut errors, &state, &name);
                    continue;
                }
                for _ in heard.iter().filter(|low| self.has_changed(low)) {
                    let is_reacting = |low: &&Map| is_listener(low, &listener.state, &listener.name);
                    let reacting: Vec<&Map> = lows.iter().copied().filter(is_reacting).collect();
                    if reacting.is_empty() {
                        note_missing(&mut errors, &listener.state, &listener.name);
                    }
                    reactions.extend(reacting.into_iter().map(reaction));
                }
            }
        }
        self.run_more(reactions);
        for (tag, mut error) in errors {
            if let Some(error) = error.as_map_mut() {
                error.insert("__run_num__", self.next_number());
            }
            self.running.insert(tag, error);
        }
    }

    /// Calls `mod_beacon` for states with `beacon: True`.
    pub(super) fn beacons(&mut self) {
        let wants_beacon = |low: &Map| low.contains_key("beacon");
        if !self.chunks.in_order().any(wants_beacon) {
            return;
        }
        let lows: Vec<Map> = self
            .distinct()
            .into_iter()
            .filter(|low| wants_beacon(low))
            .map(|low| {
                let mut low = low.clone();
                let function = low.insert("fun", "mod_beacon").unwrap_or_default();
                low.insert("sfun", function);
                low.insert("__id__", format!("beacon_{}", text_of(&low, "__id__")));
                low
            })
            .collect();
        self.run_more(lows);
    }

    /// Runs the chunks of listeners and adds their results.
    fn run_more(&mut self, lows: Vec<Map>) {
        let before = std::mem::take(&mut self.running);
        let agent = self.ctx.agent.clone();
        let settings = Settings::new(&self.ctx.opts, &self.ctx.grains, agent.states());
        let mut order = Vec::with_capacity(lows.len());
        for low in lows {
            let aggregate = allow_aggregate(&low, &settings);
            order.push(self.chunks.graph.add_chunk(low, aggregate));
        }
        self.in_order(&order);
        let more = std::mem::replace(&mut self.running, before);
        self.running.update(more);
    }

    /// Removes duplicate chunks by state, id and name: the last one replaces the first, in its position.
    fn distinct(&self) -> Vec<&Map> {
        let mut known: indexmap::IndexMap<[String; 3], &Map> = indexmap::IndexMap::new();
        for low in self.chunks.in_order() {
            known.insert(["state", "__id__", "name"].map(|key| text_of(low, key)), low);
        }
        known.into_values().collect()
    }

    fn has_changed(&self, low: &Map) -> bool {
        self.running.get(&tag::of(low)).and_then(|ret| ret.get("changes")).is_some_and(Value::truthy)
    }
}

fn listeners(lows: &[&Map]) -> Vec<Listener> {
    let mut found = Vec::new();
    for low in lows {
        if let Some(to) = low.get("listen") {
            let to = to.as_list().map(<[Value]>::to_vec).unwrap_or_default();
            found.push(Listener { state: text_of(low, "state"), name: text_of(low, "__id__"), to });
        }
        for target in low.get("listen_in").and_then(Value::as_list).unwrap_or_default() {
            let back = map! { text_of(low, "state") => text_of(low, "__id__") };
            for (state, name) in references(target, lows) {
                found.push(Listener { state, name, to: vec![back.clone().into()] });
            }
        }
    }
    found
}

/// Returns state and name of a reference; a plain string is an id or a name.
fn references(reference: &Value, lows: &[&Map]) -> Vec<(String, String)> {
    if let Some(map) = reference.as_map() {
        return map.iter().map(|(state, name)| (state.to_string(), name.to_string())).collect();
    }
    let named = |low: &&&Map| low.get("__id__") == Some(reference) || low.get("name") == Some(reference);
    // As in Salt, whose loop does not stop at the first match, the last one wins.
    let low = lows.iter().rev().find(named);
    low.map(|low| (text_of(low, "state"), text_of(low, "__id__"))).into_iter().collect()
}

fn is_meant(low: &Map, state: &str, name: &str) -> bool {
    low.get_str("state") == Some(state) && ["state", "__id__", "name"].iter().any(|key| low.get_str(key) == Some(name))
}

fn is_listener(low: &Map, state: &str, name: &str) -> bool {
    is_meant(low, state, name)
}

/// Returns the chunk that runs the reaction of a listener.
fn reaction(low: &Map) -> Map {
    let mut low = low.clone();
    let function = low.insert("fun", "mod_watch").unwrap_or_default();
    low.insert("sfun", function);
    low.insert("__id__", format!("listener_{}", text_of(&low, "__id__")));
    // The reaction runs at once: its requisites were met when the state itself ran.
    low.retain(|key, _| {
        is_dunder(key) || !key.as_str().is_some_and(|key| is_requisite(key) || key == Kind::Listen.word())
    });
    low
}

fn note_missing(errors: &mut Map, state: &str, name: &str) {
    errors.insert(
        tag::listen_error(state, name),
        map! {
            "comment" => format!("Referenced state {state}: {name} does not exist"),
            "name" => format!("listen_{state}:{name}"),
            "result" => false,
            "changes" => Map::new(),
        },
    );
}
