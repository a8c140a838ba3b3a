//! Normalises the declarations of one SLS file: converts short forms to the long form, sets `extend` and `exclude`
//! aside, and numbers the states in file order.

use value::{Map, Value, list, map};

use crate::high::is_dunder;

/// The origin of a declaration: the name of the SLS file and its environment.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The SLS name, such as `web.install`.
    pub sls: &'a str,
    /// The environment, such as `base`.
    pub saltenv: &'a str,
}

/// Moves `extend` of SLS data to `__extend__`.
pub fn extend(state: &mut Map, place: Place, errors: &mut Vec<String>) {
    let Some(extension) = state.remove("extend") else {
        return;
    };
    let Value::Map(mut extension) = extension else {
        errors.push(format!("Extension value in SLS '{}' is not a dictionary", place.sls));
        return;
    };
    for (name, body) in extension.iter_mut() {
        let Some(body) = body.as_map_mut() else {
            errors.push(format!("Extension name '{name}' in SLS '{}' is not a dictionary", place.sls));
            continue;
        };
        set_place(body, place);
        for key in dotted_keys(body) {
            split_key(body, &key);
        }
    }
    push(state, "__extend__", [Value::from(extension)]);
}

/// Moves `exclude` of SLS data to `__exclude__`.
pub fn exclude(state: &mut Map, place: Place, errors: &mut Vec<String>) {
    match state.remove("exclude") {
        Some(Value::List(excluded)) => push(state, "__exclude__", excluded),
        Some(_) => errors.push(format!("Exclude Declaration in SLS {} is not formed as a list", place.sls)),
        None => {}
    }
}

fn push(state: &mut Map, key: &str, more: impl IntoIterator<Item = Value>) {
    match state.entry_or_insert_with(key, || list![]) {
        Value::List(items) => items.extend(more),
        other => *other = more.into_iter().collect(),
    }
}

/// Converts every declaration to the form `id: {state: [function, {option: value}, …]}`.
pub fn states(state: &mut Map, place: Place, errors: &mut Vec<String>) {
    for (name, body) in state.iter_mut() {
        match body {
            Value::Map(body) => {
                let file = format!("in SLS '{}'", place.sls);
                split_keys(name, body, body.keys().cloned().collect(), &file, errors);
                set_place(body, place);
            }
            // Lists that the two functions above have set aside.
            _ if matches!(name.as_str(), Some("__extend__" | "__exclude__")) => {}
            Value::Str(text) if text.contains('.') => {
                let (module, function) = first_two(text);
                *body = map! { "__sls__" => place.sls, "__env__" => place.saltenv, module => list![function] }.into();
            }
            _ => errors.push(format!("ID {name} in SLS {} is not a dictionary", place.sls)),
        }
    }
}

/// Converts the declarations of a single template to the same form.
pub fn template(high: &mut Map, template: &str) -> Vec<String> {
    if let Some(item) = ["include", "exclude", "extends"].into_iter().find(|item| high.contains_key(item)) {
        return vec![format!(
            "The '{item}' declaration found on '{template}' is invalid when rendering single templates"
        )];
    }
    let mut errors = Vec::new();
    for (name, body) in high.iter_mut() {
        match body {
            Value::Map(body) => {
                for (key, value) in body.iter() {
                    if value.is_null() && !key.as_str().is_some_and(|key| key.starts_with('_')) {
                        errors.push(format!(
                            "ID '{name}' in template {template} contains a short declaration ({key}) with a trailing colon. When \
                             not passing any arguments to a state, the colon must be omitted."
                        ));
                    }
                }
                let mut keys: Vec<Value> = body.keys().cloned().collect();
                // Salt sorts the keys of a single template, but not those of an SLS file. This decides which of two
                // declarations of one module counts.
                keys.sort_by_key(Value::to_string);
                split_keys(name, body, keys, &format!("in template '{template}'"), &mut errors);
            }
            Value::Str(text) if text.contains('.') => {
                let (module, function) = first_two(text);
                *body = map! { module => list![function] }.into();
            }
            _ => errors.push(format!("ID {name} in template {template} is not a dictionary")),
        }
    }
    errors
}

fn set_place(body: &mut Map, place: Place) {
    for (key, value) in [("__sls__", place.sls), ("__env__", place.saltenv)] {
        if !body.contains_key(key) {
            body.insert(key, value);
        }
    }
}

/// Splits `module.function`. As in Salt, everything after a second dot is dropped.
fn first_two(text: &str) -> (String, String) {
    let mut parts = text.split('.');
    (parts.next().unwrap_or_default().to_owned(), parts.next().unwrap_or_default().to_owned())
}

fn dotted_keys(body: &Map) -> Vec<String> {
    let lists = body.iter().filter(|(key, value)| value.as_list().is_some() && !starts_low(key));
    lists.filter_map(|(key, _)| key.as_str()).filter(|key| key.contains('.')).map(str::to_owned).collect()
}

fn starts_low(key: &Value) -> bool {
    key.as_str().is_some_and(|key| key.starts_with('_'))
}

/// Splits the keys of the form `module.function`. An id can declare each module once.
fn split_keys(name: &Value, body: &mut Map, keys: Vec<Value>, file: &str, errors: &mut Vec<String>) {
    let mut seen: Vec<String> = Vec::new();
    for key in keys {
        let listed = body.get_value(&key).is_some_and(|value| value.as_list().is_some());
        let Some(key) = key.as_str().filter(|key| listed && !key.starts_with('_')) else { continue };
        match key.split_once('.') {
            Some((module, _)) if seen.iter().any(|known| known == module) => {
                errors.push(format!("ID '{name}' {file} contains multiple state declarations of the same type"))
            }
            Some((module, _)) => {
                seen.push(module.to_owned());
                split_key(body, key);
            }
            None => seen.push(key.to_owned()),
        }
    }
}

/// Converts the entry `module.function: [...]` to `module: [..., function]`.
fn split_key(body: &mut Map, key: &str) {
    let (module, function) = first_two(key);
    if let Some(Value::List(mut args)) = body.remove(key) {
        // The order follows it.
        args.reserve_exact(2);
        args.push(function.into());
        body.insert(module, args);
    }
}

/// Gives every state without an `order` the next number. `next` is the number after the last one used.
pub fn auto_order(state: &mut Map, next: &mut i64) {
    for body in state.iter_mut().filter_map(|(_, body)| body.as_map_mut()) {
        for (declared, args) in body.iter_mut() {
            let Value::List(args) = args else { continue };
            if starts_low(declared) || is_dunder(declared) {
                continue;
            }
            let ordered = args
                .iter()
                .any(|arg| arg.as_map().and_then(crate::high::first_key).and_then(Value::as_str) == Some("order"));
            if !ordered {
                args.push(map! { "order" => *next }.into());
                *next += 1;
            }
        }
    }
}
