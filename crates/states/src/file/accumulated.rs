//! `file.accumulated`: texts that several states gather for one file.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value};

use super::common::start;
use crate::Ret;

/// The texts that were gathered in this run.
#[derive(Default)]
struct Gathered(Mutex<Accumulators>);

/// Texts by file and accumulator, and the states that are to use them.
#[derive(Default)]
struct Accumulators {
    texts: BTreeMap<String, Map>,
    users: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
}

impl Gathered {
    fn lock(&self) -> MutexGuard<'_, Accumulators> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what was gathered for a file, by accumulator.
pub fn for_file(ctx: &Context, name: &str) -> Option<Map> {
    ctx.memo.get::<Gathered>().lock().texts.get(name).cloned()
}

/// Returns the texts of a file for a state: those of accumulators that name it, else all.
pub fn for_state(ctx: &Context, name: &str, id: &str) -> Vec<Value> {
    let gathered = ctx.memo.get::<Gathered>();
    let gathered = gathered.lock();
    let Some(texts) = gathered.texts.get(name) else { return Vec::new() };
    let users = gathered.users.get(name);
    let named = |accumulator: &Value| {
        let users = users.and_then(|users| users.get(accumulator.as_str()?));
        users.is_some_and(|users| users.iter().any(|user| user.as_str() == Some(id)))
    };
    let chosen: Vec<&Value> = texts.iter().filter(|(key, _)| named(key)).map(|(_, texts)| texts).collect();
    // Salt falls back to everything gathered for the file if no accumulator names this state.
    let chosen = if chosen.is_empty() { texts.values().collect() } else { chosen };
    chosen.into_iter().flat_map(|texts| texts.as_list().unwrap_or_default().to_vec()).collect()
}

/// Gathers text for a file that another state writes.
#[function]
pub fn accumulated(ctx: &Context, name: String, filename: String, text: Value, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    let mut ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.accumulated"));
    }
    if text.is_null() {
        return Ok(ret.fail("No text supplied for accumulator"));
    }
    let low = ctx.state.as_ref().map(|state| state.low.clone()).unwrap_or_default();
    let list = |key: &str| low.get(key).and_then(Value::as_list).unwrap_or_default().to_vec();
    // The requisite names the state that will use an accumulator, and it also makes the accumulator run first.
    let users = [list("require_in"), list("watch_in")].concat();
    let about_file = |user: &Value| match user {
        Value::Map(map) => map.contains_key("file"),
        // Python's `in` on a string looks for a substring, so any ID with "file" in it passes.
        other => other.as_str().is_some_and(|text| text.contains("file")),
    };
    if !users.iter().any(about_file) {
        let part = |key: &str| low.get_str(key).unwrap_or_default().to_owned();
        let comment = format!("Orphaned accumulator {name} in {}:{}", part("__sls__"), part("__id__"));
        return Ok(ret.fail(comment));
    }
    let texts = match text {
        Value::List(texts) => texts,
        single => vec![single],
    };
    let gathered = ctx.memo.get::<Gathered>();
    let mut gathered = gathered.lock();
    let named = gathered.users.entry(filename.clone()).or_default().entry(name.clone()).or_default();
    for user in users {
        match user {
            Value::Map(map) => named.extend(map.into_iter().map(|(_, id)| id)),
            other => named.push(other),
        }
    }
    let own = gathered.texts.entry(filename.clone()).or_default();
    let own = own.entry_or_insert_with(name.as_str(), || Value::List(Vec::new()));
    if let Value::List(own) = own {
        for text in texts {
            // Texts are a set in order of arrival: a state that runs twice does not repeat itself.
            if !own.contains(&text) {
                own.push(text);
                ret.comment = format!("Accumulator {name} for file {filename} was charged by text").into();
            }
        }
    }
    Ok(ret)
}
