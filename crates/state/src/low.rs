//! Low chunks: single calls of state functions, in the order in which they run.

use targeting::fnmatch;
use value::{Map, Value, map};

use crate::graph::Graph;
use crate::high::{self, is_dunder, text_of};
use crate::keywords::Kind;
use crate::{StateFunctions, tag};

/// Settings that affect how states are compiled.
pub struct Settings<'a> {
    /// Requisites that are ignored (`disabled_requisites`).
    pub disabled_requisites: Vec<String>,
    /// The option `state_aggregate`: all states, a list of state modules, or none.
    pub aggregate: Value,
    /// Patterns of state functions that are disabled on this minion (the grain `state_runs_disabled`).
    pub runs_disabled: Vec<String>,
    /// The jid of the orchestration that this run belongs to.
    pub orchestration_jid: Option<Value>,
    /// The state functions that exist.
    pub known: &'a dyn StateFunctions,
}

impl<'a> Settings<'a> {
    /// Reads the settings from a minion's options and grains.
    pub fn new(opts: &Map, grains: &Map, known: &'a dyn StateFunctions) -> Self {
        let texts = |value: Option<&Value>| match value {
            Some(Value::List(items)) => items.iter().map(Value::to_string).collect(),
            Some(Value::Str(one)) => vec![one.clone()],
            _ => Vec::new(),
        };
        Settings {
            disabled_requisites: texts(opts.get("disabled_requisites")),
            aggregate: opts.get("state_aggregate").cloned().unwrap_or_default(),
            runs_disabled: texts(grains.get("state_runs_disabled")),
            orchestration_jid: None,
            known,
        }
    }
}

/// All chunks of a run.
#[derive(Debug, Default)]
pub struct Chunks {
    /// The chunks and their dependencies.
    pub graph: Graph,
    /// The order in which they run. A chunk that is tested first because of a `prereq` appears twice.
    pub order: Vec<usize>,
    /// The results of disabled chunks, by tag.
    pub disabled: Map,
}

impl Chunks {
    /// Iterates over the chunks in the order in which they run.
    pub fn in_order(&self) -> impl Iterator<Item = &Map> {
        self.order.iter().map(|chunk| self.graph.chunk(*chunk))
    }
}

/// Compiles gathered high data to chunks: extend, verify, `*_in` requisites, exclude, order.
///
/// # Errors
/// All errors of the first step that finds any.
pub fn compile(mut high: Map, settings: &Settings) -> Result<Chunks, Vec<String>> {
    let mut errors = high::reconcile_extend(&mut high, false);
    let mut data = Value::Map(high);
    errors.extend(high::verify_high(&data));
    let Some(high) = data.as_map_mut().filter(|_| errors.is_empty()) else {
        return Err(errors);
    };
    // Requisites move to their targets before anything is excluded, so a reference to an excluded state is not an error
    // here.
    let errors = high::requisite_in(high, &settings.disabled_requisites);
    high::apply_exclude(high);
    if !errors.is_empty() {
        return Err(errors);
    }
    let (chunks, errors) = compile_high_data(std::mem::take(high), settings);
    if errors.is_empty() { Ok(chunks) } else { Err(errors) }
}

/// Like [`compile`], for high data that may be incomplete because of earlier `errors`. New errors are appended to them.
///
/// # Errors
/// All errors, up to the step that cannot continue after them.
pub fn compile_what_there_is(
    mut high: Map,
    mut errors: Vec<String>,
    settings: &Settings,
) -> Result<Chunks, Vec<String>> {
    errors.extend(high::reconcile_extend(&mut high, false));
    let mut data = Value::Map(high);
    let wrong = high::verify_high(&data);
    let sound = wrong.is_empty();
    errors.extend(wrong);
    let Some(high) = data.as_map_mut().filter(|_| sound) else {
        return Err(errors);
    };
    errors.extend(high::requisite_in(high, &settings.disabled_requisites));
    high::apply_exclude(high);
    if !errors.is_empty() {
        return Err(errors);
    }
    let (chunks, errors) = compile_high_data(std::mem::take(high), settings);
    if errors.is_empty() { Ok(chunks) } else { Err(errors) }
}

/// Compiles complete, verified high data to chunks. Returns the chunks and the errors.
///
/// Declarations are freed as their chunks are made, so that a large tree is not held twice.
pub fn compile_high_data(high: Map, settings: &Settings) -> (Chunks, Vec<String>) {
    let mut chunks = Chunks::default();
    let mut lows = Vec::new();
    let mut errors = Vec::new();
    for (id, body) in high {
        let Some(body) = body.as_map().filter(|_| !is_dunder(&id)) else { continue };
        for (state, run) in body.iter().filter(|(state, _)| !is_dunder(state)) {
            lows.extend(lows_of(&id, body, state, run.as_list().unwrap_or_default(), settings, &mut errors));
        }
    }
    if !errors.is_empty() {
        return (chunks, errors);
    }
    let mut added = Vec::new();
    for low in lows {
        if let Some(pattern) = disabled_by(&low, &settings.runs_disabled) {
            note_disabled(&mut chunks.disabled, &low, pattern);
            continue;
        }
        let aggregate = allow_aggregate(&low, settings);
        added.push(chunks.graph.add_chunk(low, aggregate));
    }
    let errors = order(&mut chunks, &added, settings);
    (chunks, errors)
}

/// Orders chunks that were compiled elsewhere (`state.pkg`).
pub fn order_lows(lows: Vec<Map>, settings: &Settings) -> Result<Chunks, Vec<String>> {
    let mut chunks = Chunks::default();
    let added: Vec<usize> = lows
        .into_iter()
        .map(|low| {
            let aggregate = allow_aggregate(&low, settings);
            chunks.graph.add_chunk(low, aggregate)
        })
        .collect();
    let errors = order(&mut chunks, &added, settings);
    if errors.is_empty() { Ok(chunks) } else { Err(errors) }
}

/// Makes the chunks of one declaration: one chunk, or one for each of its `names`.
fn lows_of(
    id: &Value,
    body: &Map,
    state: &Value,
    run: &[Value],
    settings: &Settings,
    errors: &mut Vec<String>,
) -> Vec<Map> {
    let mut chunk = map! { "state" => state.clone(), "name" => id.clone() };
    if let Some(jid) = &settings.orchestration_jid {
        chunk.insert("__orchestration_jid__", jid.clone());
    }
    for key in ["__sls__", "__env__", "__sls_included_from__"] {
        if let Some(value) = body.get(key) {
            chunk.insert(key, value.clone());
        }
    }
    chunk.insert("__id__", id.clone());
    let mut names: Vec<&Value> = Vec::new();
    for (key, value) in run.iter().filter_map(Value::as_map).flatten() {
        match key.as_str() {
            Some("names") => {
                for name in value.as_list().unwrap_or_default() {
                    // A name that occurs twice would give two chunks with the same tag.
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
            // An argument must not change the module of its declaration.
            Some("state") => {}
            // As in Salt, a name that is not text falls back to the id.
            Some("name") if value.as_str().is_none() => drop(chunk.insert("name", id.clone())),
            _ => drop(chunk.insert(key.clone(), value.clone())),
        }
    }
    let Some(function) = run.iter().find(|arg| arg.as_str().is_some()) else {
        return Vec::new();
    };
    if names.is_empty() {
        chunk.insert("fun", function.clone());
        return vec![chunk];
    }
    let mut lows = Vec::with_capacity(names.len());
    for (place, name) in names.into_iter().enumerate() {
        let mut live = chunk.clone();
        match name.as_map() {
            Some(entry) => {
                if let Err(text) = override_by_name(&mut live, entry) {
                    errors.push(format!("{text} in state '{id}' in SLS '{}'", text_of(body, "__sls__")));
                    continue;
                }
            }
            None => drop(live.insert("name", name.clone())),
        }
        // A fraction of the order, so that names run in the order of the list.
        live.insert("name_order", place + 1);
        live.insert("fun", function.clone());
        lows.push(live);
    }
    lows
}

/// Applies an entry of `names` that overrides options for this name.
fn override_by_name(live: &mut Map, entry: &Map) -> Result<(), String> {
    let Some((name, options)) = entry.iter().next() else {
        return Err("The 'names' argument holds an empty dictionary".into());
    };
    live.insert("name", name.clone());
    let Some(options) = options.as_list() else {
        return Err(format!("The options of '{name}' in the 'names' argument are not formed as a list"));
    };
    for option in options {
        match option.as_map() {
            Some(option) => live.update(option.clone()),
            None => {
                return Err(format!("The option '{option}' of '{name}' in the 'names' argument is not a dictionary"));
            }
        }
    }
    Ok(())
}

fn disabled_by<'a>(low: &Map, patterns: &'a [String]) -> Option<&'a str> {
    let full = full_name(low);
    patterns.iter().find(|pattern| fnmatch(&full, pattern)).map(String::as_str)
}

fn note_disabled(disabled: &mut Map, low: &Map, pattern: &str) {
    let full = full_name(low);
    let comment = format!(
        "The state function \"{full}\" is currently disabled by \"{pattern}\", to re-enable, run state.enable {pattern}."
    );
    let number = disabled.len();
    let sls = low.get("__sls__").cloned().unwrap_or_default();
    disabled.insert(
        tag::of(low),
        map! { "changes" => Map::new(), "result" => false, "comment" => comment, "__run_num__" => number, "__sls__" => sls },
    );
}

/// Returns `module.function` of a chunk.
pub fn full_name(low: &Map) -> String {
    format!("{}.{}", text_of(low, "state"), text_of(low, "fun"))
}

/// Returns whether a chunk may be aggregated with others of its state module.
pub fn allow_aggregate(low: &Map, settings: &Settings) -> bool {
    let wanted = low.get("aggregate").unwrap_or(&settings.aggregate);
    let state = low.get("state").cloned().unwrap_or_default();
    let asked = match wanted {
        Value::Bool(all) => *all,
        Value::List(states) => states.contains(&state),
        Value::Map(states) => states.get_value(&state).is_some(),
        _ => false,
    };
    asked && settings.known.has(&format!("{state}.mod_aggregate"))
}

/// A state module without `mod_watch` cannot watch, so `watch` becomes `require`.
fn watch_as_require(low: &mut Map, known: &dyn StateFunctions) {
    let watches = low.contains_key("watch") || low.contains_key("watch_any");
    if !watches || known.has(&format!("{}.mod_watch", text_of(low, "state"))) {
        return;
    }
    for (watch, require) in [(Kind::Watch, Kind::Require), (Kind::WatchAny, Kind::RequireAny)] {
        let Some(Value::List(watched)) = low.remove(watch.word()) else { continue };
        match low.entry_or_insert_with(require.word(), || Value::List(Vec::new())) {
            Value::List(required) => required.extend(watched),
            other => *other = Value::List(watched),
        }
    }
}

/// Resolves the requisites of the chunks and orders them.
fn order(chunks: &mut Chunks, added: &[usize], settings: &Settings) -> Vec<String> {
    let mut cap: i64 = 1;
    let mut errors = Vec::new();
    for index in added {
        watch_as_require(chunks.graph.chunk_mut(*index), settings.known);
        if let Err(error) = chunks.graph.add_requisites(*index, &settings.disabled_requisites) {
            errors.push(error);
            continue;
        }
        match chunks.graph.chunk(*index).get("order").and_then(Value::as_i64) {
            // 100 is Salt's number. States without an explicit order come after the highest explicit one.
            Some(order) if order > cap - 1 && order > 0 => cap = order.saturating_add(100),
            _ => {}
        }
    }
    // Nothing looks up names from here on, and in a large tree the index takes much memory.
    chunks.graph.forget_names();
    match chunks.graph.order(cap) {
        Ok(order) => chunks.order = order,
        Err(cycle) => errors.push(format!("Recursive requisites were found: {cycle}")),
    }
    errors
}
