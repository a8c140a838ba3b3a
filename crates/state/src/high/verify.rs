//! Checks the structure of high data.

use value::{Map, Value};

use super::{first_key, is_dunder, text_of};
use crate::keywords::is_requisite;

/// Returns the errors in the structure of high data, in Salt's words.
pub fn verify_high(high: &Value) -> Vec<String> {
    let Some(high) = high.as_map() else {
        return vec!["High data is not a dictionary and is invalid".into()];
    };
    let mut errors = Vec::new();
    for (id, body) in high {
        if !matches!(id, Value::Str(_)) {
            errors.push(format!(
                "ID '{id}' in SLS '{}' is not formed as a string, but is type {}. It may need to be quoted.",
                body.as_map().map(|body| text_of(body, "__sls__")).unwrap_or_default(),
                id.type_name()
            ));
        } else if is_dunder(id) {
            continue;
        }
        match body.as_map() {
            Some(body) => verify_body(&id.to_string(), body, &mut errors),
            None => errors.push(format!("The type {id} in {body} is not formatted as a dictionary")),
        }
    }
    errors
}

fn verify_body(id: &str, body: &Map, errors: &mut Vec<String>) {
    let sls = text_of(body, "__sls__");
    for (state, args) in body {
        if is_dunder(state) {
            continue;
        }
        if !matches!(state, Value::Str(_)) {
            errors.push(format!("State '{state}' of ID '{id}' in SLS '{sls}' is not formed as a string"));
            continue;
        }
        match args {
            Value::Null => errors.push(format!(
                "ID '{id}' in SLS '{sls}' contains a short declaration ({state}) with a trailing colon. When not passing any \
                 arguments to a state, the colon must be omitted."
            )),
            Value::List(args) => verify_args(id, &sls, &state.to_string(), args, errors),
            _ => errors.push(format!("State '{id}' in SLS '{sls}' is not formed as a list")),
        }
    }
}

fn verify_args(id: &str, sls: &str, state: &str, args: &[Value], errors: &mut Vec<String>) {
    let mut functions: Vec<&str> = state.split_once('.').map(|(_, fun)| fun).into_iter().collect();
    for arg in args {
        match arg {
            Value::Str(fun) => {
                functions.push(fun);
                // `- user root`, with its colon missing, is a plain string and would otherwise count as a function.
                if fun.trim().contains(' ') {
                    errors.push(format!(
                        "The function \"{fun}\" in state \"{id}\" in SLS \"{sls}\" has whitespace, a function with whitespace is \
                         not supported, perhaps this is an argument that is missing a \":\""
                    ));
                }
            }
            Value::Map(map) => verify_option(id, sls, map, errors),
            _ => {}
        }
    }
    if functions.is_empty() {
        errors.push(format!("No function declared in state '{id}' in SLS '{sls}'"));
    } else if functions.len() > 1 {
        errors.push(format!(
            "Too many functions declared in state '{id}' in SLS '{sls}'. Please choose one of the following: {}",
            functions.join(", ")
        ));
    }
}

fn verify_option(id: &str, sls: &str, option: &Map, errors: &mut Vec<String>) {
    let Some(first) = first_key(option).and_then(Value::as_str) else {
        return;
    };
    let value = option.get(first).unwrap_or(&Value::Null);
    if first == "names" && value.as_list().is_none() {
        errors.push(format!("The 'names' argument in state '{id}' in SLS '{sls}' needs to be formed as a list"));
    }
    if !is_requisite(first) {
        return;
    }
    match value {
        Value::List(references) => {
            references.iter().for_each(|reference| verify_reference(id, sls, reference, errors));
        }
        _ => errors.push(format!("The {first} statement in state '{id}' in SLS '{sls}' needs to be formed as a list")),
    }
    // Two options in one list item are usually a line with a missing dash.
    if option.len() != 1 {
        errors.push(format!("Multiple dictionaries defined in argument of state '{id}' in SLS '{sls}'"));
    }
}

fn verify_reference(id: &str, sls: &str, reference: &Value, errors: &mut Vec<String>) {
    if matches!(reference, Value::Str(_)) {
        return;
    }
    let Some((key, value)) = reference.as_map().filter(|map| map.len() == 1).and_then(|map| map.iter().next()) else {
        let text = format!(
            "Requisite declaration {reference} in state {id} in SLS {sls} is not formed as a single key dictionary"
        );
        errors.push(text);
        return;
    };
    let key = key.to_string();
    if let Some((state, _)) = key.split_once('.') {
        errors.push(format!(
            "Invalid requisite type '{key}' in state '{id}', in SLS '{sls}'. Requisite types must not contain dots, did you \
             mean '{state}'?"
        ));
    }
    if matches!(value, Value::List(_) | Value::Map(_)) {
        errors.push(format!("Illegal requisite \"{value}\" in SLS \"{sls}\", please check your syntax.\n"));
    }
}
