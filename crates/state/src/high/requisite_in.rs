//! `*_in` requisites such as `require_in`, and `use`: both become extensions of the target.

use value::{Map, Value, list, map};

use super::{find_name, find_sls_ids, first_key, is_dunder, reconcile_extend, single_key};

/// The requisites this module handles.
const WANTED: [&str; 7] = ["require_in", "watch_in", "onfail_in", "onchanges_in", "use", "use_in", "prereq_in"];

/// Arguments that `use` does not copy: requisites and names.
const NOT_USED: [&str; 15] = [
    "require_in",
    "watch_in",
    "onfail_in",
    "onchanges_in",
    "use",
    "use_in",
    "prereq_in",
    "require",
    "watch",
    "prereq",
    "onfail",
    "onfail_stop",
    "onchanges",
    "name",
    "names",
];

/// Moves `*_in` requisites to their targets. Returns errors for those that are malformed or whose target does not
/// exist.
pub fn requisite_in(high: &mut Map, disabled: &[String]) -> Vec<String> {
    // The pass only reads. All changes are collected as extensions, so the result does not depend on the order of
    // states.
    let view: &Map = high;
    let mut pass = Pass { high: view, extend: Map::new(), errors: Vec::new() };
    for (id, body) in view {
        let Some(body) = body.as_map() else { continue };
        for (state, run) in body.iter().filter(|(state, _)| !is_dunder(state)) {
            for arg in run.as_list().unwrap_or_default() {
                let Some(key) = arg.as_map().and_then(first_key).and_then(Value::as_str) else { continue };
                if !WANTED.contains(&key) {
                    continue;
                }
                if disabled.iter().any(|word| word == key) {
                    tracing::warn!("The {key} requisite has been disabled, Ignoring.");
                    continue;
                }
                let end = End { id, state, body, key, kind: key.split('_').next().unwrap_or(key) };
                match arg.get(key) {
                    Some(Value::Map(items)) => pass.one(&end, items),
                    Some(Value::List(items)) => pass.several(&end, items),
                    _ => {}
                }
            }
        }
    }
    let Pass { extend, mut errors, .. } = pass;
    let extensions = extend.into_iter().map(|(id, body)| Value::from(Map::from_iter([(id, body)]))).collect();
    high.insert("__extend__", Value::List(extensions));
    errors.extend(reconcile_extend(high, true));
    errors
}

/// The state that declares the requisite.
struct End<'a> {
    id: &'a Value,
    state: &'a Value,
    body: &'a Map,
    /// The word, such as `require_in`.
    key: &'a str,
    /// The requisite it becomes, such as `require`.
    kind: &'a str,
}

struct Pass<'a> {
    high: &'a Map,
    extend: Map,
    errors: Vec<String>,
}

impl Pass<'_> {
    /// A single map of state to name.
    fn one(&mut self, end: &End, items: &Map) {
        for (state, name) in items {
            let mut state = state.clone();
            if let Some((short, _)) = state.as_str().and_then(|state| state.split_once('.')) {
                self.errors.push(format!(
                    "Invalid requisite in {}: {state} for {name} in SLS '{}'. Requisites must not contain dots, did you mean \
                     '{short}'?",
                    end.kind,
                    super::text_of(end.body, "__sls__"),
                ));
                state = short.into();
            }
            self.add(end, name, &state);
        }
    }

    /// A list of references. As in Salt, the targets found so far are kept for the rest of the list and added again
    /// with each further reference.
    fn several(&mut self, end: &End, items: &[Value]) {
        let mut hinges = Vec::new();
        for item in items {
            let Some(reference) = self.resolve(item) else { continue };
            let Some((state, name)) = reference.iter().next() else { continue };
            if state.as_str() == Some("sls") {
                // Unlike other references, this one replaces the targets found so far, as in Salt.
                hinges = find_sls_ids(name, self.high);
            } else {
                hinges.push((name.clone(), state.clone()));
            }
            if let Some((short, _)) = state.as_str().and_then(|state| state.split_once('.')) {
                self.errors.push(format!(
                    "Invalid requisite in {}: {state} for {name}, in SLS '{}'. Requisites must not contain dots, did you mean \
                     '{short}'?",
                    end.kind,
                    super::text_of(end.body, "__sls__"),
                ));
            }
            for (name, state) in &hinges {
                match end.key {
                    "use_in" => self.hand_on(end, name, state),
                    "use" => self.take_over(end, name, state),
                    _ => self.add(end, name, state),
                }
            }
        }
    }

    /// Returns what a reference names; a plain string is an id or a name.
    fn resolve(&self, item: &Value) -> Option<Map> {
        if let Some(reference) = item.as_map() {
            return Some(reference.clone());
        }
        if let Some(body) = self.high.get_value(item).and_then(Value::as_map) {
            let state = body.keys().find(|state| !is_dunder(state))?;
            return Some(Map::from_iter([(state.clone(), item.clone())]));
        }
        for (id, body) in self.high {
            for (state, args) in body.as_map().into_iter().flatten().filter(|(state, _)| !is_dunder(state)) {
                let named = |arg: &Value| arg.get("name") == Some(item);
                if args.as_list().unwrap_or_default().iter().any(named) {
                    return Some(Map::from_iter([(state.clone(), id.clone())]));
                }
            }
        }
        None
    }

    fn add(&mut self, end: &End, name: &Value, state: &Value) {
        let entry = entry_of(&mut self.extend, name);
        entry.entry_or_insert_with(state.clone(), || list![]);
        for place in ["__env__", "__sls__"] {
            if let Some(value) = end.body.get(place) {
                entry.insert(place, value.clone());
            }
        }
        let Some(Value::List(args)) = entry.get_value_mut(state) else { return };
        let back = Value::from(Map::from_iter([(end.state.clone(), end.id.clone())]));
        let mut found = false;
        for arg in args.iter_mut().filter_map(Value::as_map_mut) {
            if first_key(arg).and_then(Value::as_str) == Some(end.kind)
                && let Some(Value::List(references)) = arg.get_mut(end.kind)
            {
                references.push(back.clone());
                found = true;
            }
        }
        if !found {
            args.push(map! { end.kind => list![back] }.into());
        }
    }

    /// `use_in`: copies the arguments of this state to the other.
    fn hand_on(&mut self, end: &End, name: &Value, state: &Value) {
        for (id, other) in find_name(name, state, self.high, true) {
            let given = self.args(end.id, end.state);
            let has = self.args(&id, state);
            self.copy(&id, &other, given, has);
        }
    }

    /// `use`: copies the arguments of the other state to this one.
    fn take_over(&mut self, end: &End, name: &Value, state: &Value) {
        for (id, other) in find_name(name, state, self.high, true) {
            let given = self.args(&id, &other);
            let has = self.args(end.id, end.state);
            self.copy(end.id, end.state, given, has);
        }
    }

    fn args(&self, id: &Value, state: &Value) -> Vec<Value> {
        let body = self.high.get_value(id).and_then(Value::as_map);
        let args = body.and_then(|body| body.get_value(state)).and_then(Value::as_list).unwrap_or_default();
        args.iter().filter(|arg| single_key(arg).is_some()).cloned().collect()
    }

    fn copy(&mut self, id: &Value, state: &Value, given: Vec<Value>, has: Vec<Value>) {
        let entry = entry_of(&mut self.extend, id);
        let Value::List(args) = entry.entry_or_insert_with(state.clone(), || list![]) else { return };
        let own: Vec<&Value> = has.iter().filter_map(single_key).collect();
        let wanted = given.into_iter().filter(|arg| {
            let key = single_key(arg);
            !key.is_some_and(|key| own.contains(&key))
                && !key.and_then(Value::as_str).is_some_and(|key| NOT_USED.contains(&key))
        });
        args.extend(wanted);
    }
}

fn entry_of<'a>(extend: &'a mut Map, id: &Value) -> &'a mut Map {
    let entry = extend.entry_or_insert_with(id.clone(), || Value::Map(Map::new()));
    entry.as_map_mut().expect("nothing but maps is put here")
}
