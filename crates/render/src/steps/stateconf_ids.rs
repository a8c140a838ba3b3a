//! The ids of a `stateconf` file: expands those with a dot, and puts states in order.

use value::{Map, Value, list, map};

use super::stateconf::SET;
use crate::Error;

/// Requisites whose ids may begin with a dot.
const REQUISITES: [&str; 12] = [
    "require",
    "require_in",
    "watch",
    "watch_in",
    "use",
    "use_in",
    "listen",
    "listen_in",
    "onchanges",
    "onchanges_in",
    "onfail",
    "onfail_in",
];

/// Requisites that may only name states declared before this one.
const BEFORE: [&str; 5] = ["require", "watch", "listen", "onchanges", "onfail"];

/// Requisites that may only name states declared after this one.
const BEHIND: [&str; 5] = ["require_in", "watch_in", "listen_in", "onchanges_in", "onfail_in"];

/// Keys of an SLS file that declare no state.
const NO_STATES: [&str; 3] = ["include", "exclude", "extend"];

/// The module of a state: `file` of `file.managed`.
fn module(state: &str) -> &str {
    state.split('.').next().unwrap_or(state)
}

/// The single pair of a map.
fn pair(value: &Value) -> Option<(&Value, &Value)> {
    value.as_map().and_then(|map| map.iter().next())
}

fn list_of(value: &mut Value) -> Option<&mut Vec<Value>> {
    if let Value::List(items) = value { Some(items) } else { None }
}

/// The states a file declares, each as its id and its module; `first` takes one for each id.
pub(super) fn declarations(data: &Map, first: bool) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (id, states) in data {
        let (Some(id), Some(states)) = (id.as_str(), states.as_map()) else { continue };
        if NO_STATES.contains(&id) || id.starts_with("__") || states.contains_key("__sls__") {
            continue;
        }
        let names = states.text_keys().filter(|state| !state.starts_with("__"));
        let names = names.map(|state| (id.to_owned(), module(state).to_owned()));
        found.extend(names.take(if first { 1 } else { usize::MAX }));
    }
    found
}

/// Returns the name a relative one means, seen from an SLS file.
fn absolute(relative: &str, sls: &str) -> Result<String, Error> {
    let suffix = relative.trim_start_matches('.');
    let levels = relative.len() - suffix.len();
    let parts: Vec<&str> = sls.split('.').collect();
    if levels > parts.len() {
        return Err(Error::new("Attempted relative include goes beyond top level package"));
    }
    let mut parts = parts[..parts.len() - levels].to_vec();
    parts.push(suffix);
    Ok(parts.join("."))
}

/// Returns the full id for one with a dot.
fn whole_id(id: &str, sls: &str) -> Result<String, Error> {
    if id.contains("::") {
        return absolute(id, sls);
    }
    let name = absolute(id, &format!("{sls}."))?;
    Ok(match name.rsplit_once('.') {
        Some((sls, id)) => format!("{sls}::{id}"),
        None => name,
    })
}

/// Makes includes and excludes that begin with a dot absolute.
pub(super) fn make_absolute(data: &mut Map, sls: &str, saltenv: &str) -> Result<(), Error> {
    if let Some(Value::List(includes)) = data.get_mut("include") {
        for include in includes {
            let (env, name) = match &*include {
                Value::Str(name) => (saltenv.into(), name.clone()),
                other => match pair(other) {
                    Some((env, Value::Str(name))) => (env.clone(), name.clone()),
                    _ => continue,
                },
            };
            if name.starts_with('.') {
                let name = absolute(&name, sls)?;
                *include = [(env, Value::from(name))].into_iter().collect::<Map>().into();
            }
        }
    }
    if let Some(Value::List(excludes)) = data.get_mut("exclude") {
        for exclude in excludes.iter_mut().filter_map(Value::as_map_mut) {
            if let Some(name) = exclude.get_str("sls").filter(|name| name.starts_with('.')) {
                let name = absolute(name, sls)?;
                exclude.insert("sls", name);
            }
        }
    }
    Ok(())
}

/// Replaces ids with a dot by their full names, in declarations and in requisites. Renamed declarations move to the
/// end.
pub(super) fn rename(data: &mut Map, sls: &str) -> Result<(), Error> {
    if let Some(Value::Map(extended)) = data.get_mut("extend") {
        rename(extended, sls)?;
    }
    for (id, states) in data.iter_mut() {
        let declares = id.as_str().is_some_and(|id| !id.starts_with("__") && id != "include" && id != "exclude");
        let Some(states) = states.as_map_mut().filter(|_| declares) else { continue };
        for args in states.iter_mut().filter_map(|(_, args)| list_of(args)) {
            for requisite in args.iter_mut() {
                rename_in(requisite, sls)?;
            }
        }
    }
    let dotted: Vec<String> = data.text_keys().filter(|id| id.starts_with('.')).map(str::to_owned).collect();
    for id in dotted {
        let whole = whole_id(&id, sls)?;
        if data.contains_key(&whole) {
            let text = format!("Can't rename state id({id}) into {whole} because the later already exists!");
            return Err(Error::new(text));
        }
        let Some(mut states) = data.remove(&id) else { continue };
        for (state, args) in states.as_map_mut().into_iter().flat_map(Map::iter_mut) {
            let holds_settings = state.as_str().is_some_and(|state| module(state) == module(SET));
            let Some(args) = list_of(args).filter(|_| !holds_settings) else { continue };
            // Otherwise the state's name would become the long id with the file's name in it.
            if !args.iter().filter_map(pair).any(|(name, _)| name.as_str() == Some("name")) {
                args.insert(0, map! { "name" => &id[1..] }.into());
            }
        }
        data.insert(whole, states);
    }
    Ok(())
}

/// Replaces ids in an argument by their full names, if it is a requisite.
fn rename_in(argument: &mut Value, sls: &str) -> Result<(), Error> {
    let Some((name, listed)) = argument.as_map_mut().and_then(|map| map.iter_mut().next()) else { return Ok(()) };
    let is_requisite = name.as_str().is_some_and(|name| REQUISITES.contains(&name));
    let Some(listed) = list_of(listed).filter(|_| is_requisite) else { return Ok(()) };
    for (_, id) in listed.iter_mut().filter_map(|item| item.as_map_mut()?.iter_mut().next()) {
        if let Some(dotted) = id.as_str().filter(|id| id.starts_with('.')) {
            *id = whole_id(dotted, sls)?.into();
        }
    }
    Ok(())
}

/// Returns the states that requisites of these names refer to, as `id:module`.
fn required(args: &[Value], names: &[&str]) -> Vec<String> {
    let of = |value: &Value| match pair(value) {
        Some((name, Value::List(listed))) if name.as_str().is_some_and(|name| names.contains(&name)) => listed.clone(),
        _ => Vec::new(),
    };
    let all: Vec<Value> = args.iter().flat_map(of).collect();
    all.iter().filter_map(pair).map(|(state, id)| format!("{id}:{}", module(&state.to_string()))).collect()
}

/// Makes each state require the one before it.
pub(super) fn require_in_order(data: &mut Map) -> Result<(), Error> {
    let mut behind: Vec<String> =
        declarations(data, false).iter().map(|(id, module)| format!("{id}:{module}")).collect();
    let mut before: Vec<String> = Vec::new();
    let mut last: Option<(String, String)> = None;
    for (id, states) in data.iter_mut() {
        let Some(id) = id.as_str().map(str::to_owned) else { continue };
        let Some(states) = states.as_map_mut() else { continue };
        if NO_STATES.contains(&id.as_str()) || id.starts_with("__") {
            continue;
        }
        for (state, args) in states.iter_mut() {
            let (Some(state), Some(args)) = (state.as_str(), list_of(args)) else { continue };
            if args.iter().filter_map(pair).any(|(name, _)| name.as_str() == Some("names")) {
                return Err(Error::new(format!(
                    "'names' declaration(found in state id: {id}) is not supported with implicitly ordered states! You should \
                     generate the states in a template for-loop instead."
                )));
            }
            let tag = format!("{id}:{}", module(state));
            behind.retain(|other| *other != tag);
            check_order(&tag, args, &before, &behind)?;
            if let Some((state, id)) = last {
                require(args, map! { state => id }.into());
            }
            before.push(tag);
            last = Some((module(state).to_owned(), id.clone()));
        }
    }
    Ok(())
}

fn check_order(tag: &str, args: &[Value], before: &[String], behind: &[String]) -> Result<(), Error> {
    if let Some(other) = required(args, &BEFORE).into_iter().find(|other| behind.contains(other)) {
        return Err(Error::new(format!(
            "State({tag}) can't require/watch/listen/onchanges/onfail a state({other}) defined after it!"
        )));
    }
    if let Some(other) = required(args, &BEHIND).into_iter().find(|other| before.contains(other)) {
        return Err(Error::new(format!(
            "State({tag}) can't require_in/watch_in/listen_in/onchanges_in/onfail_in a state({other}) defined before it!"
        )));
    }
    Ok(())
}

/// Inserts a state before the others that are required.
fn require(args: &mut Vec<Value>, state: Value) {
    for arg in args.iter_mut().filter_map(Value::as_map_mut) {
        if let Some(Value::List(listed)) = arg.get_mut("require") {
            listed.insert(0, state);
            return;
        }
    }
    args.push(map! { "require" => list![state] }.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_dots_are_relative_to_the_file() {
        assert_eq!(absolute(".db", "site.front").unwrap(), "site.db");
        assert_eq!(absolute("..db", "site.front").unwrap(), "db");
        assert!(absolute("...db", "site.front").is_err());
        assert_eq!(whole_id(".web", "site.front").unwrap(), "site.front::web");
        assert_eq!(whole_id(".db::main", "site.front").unwrap(), "site.db::main");
    }

    #[test]
    fn states_in_order_require_those_before() {
        let state = |args: Vec<Value>| Value::from(map! { "test.nop" => args });
        let mut data = map! { "a" => state(vec![]), "b" => state(vec![]) };
        require_in_order(&mut data).unwrap();
        assert_eq!(
            data,
            map! {
                "a" => state(vec![]), "b" => state(vec![map! { "require" => list![map! { "test" => "a" }] }.into()]),
            }
        );
        let wrong = state(vec![map! { "require" => list![map! { "test" => "b" }] }.into()]);
        let error = require_in_order(&mut map! { "a" => wrong, "b" => state(vec![]) }).unwrap_err();
        assert!(error.to_string().starts_with("State(a:test) can't require/watch"));
    }
}
