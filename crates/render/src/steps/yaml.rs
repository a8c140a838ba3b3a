//! The renderer `yaml`.

use value::{Map, Value};

use crate::Error;

/// Reads YAML as Salt does. Nothing, and anything that counts as nothing, is an empty map.
pub fn render(text: &str) -> Result<Value, Error> {
    let value = yaml::load(text, yaml::UNNAMED).map_err(|error| in_salts_words(&error))?;
    if !value.truthy() {
        return Ok(Map::new().into());
    }
    if has_map_for_key(&value) {
        return Err(Error::new("Invalid YAML, possible double curly-brace"));
    }
    Ok(value)
}

/// What the scanner finds Salt shows without the place, the rest in full.
fn in_salts_words(error: &yaml::Error) -> Error {
    match error.kind {
        yaml::Kind::Scanner if error.problem == "found character '\\t' that cannot start any token" => {
            Error::new("Illegal tab character")
        }
        yaml::Kind::Scanner => Error::new(error.problem.clone()),
        _ => Error::new(error.to_string()),
    }
}

fn has_map_for_key(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.iter().any(|(key, value)| matches!(key, Value::Map(_)) || has_map_for_key(value)),
        Value::List(items) => items.iter().any(has_map_for_key),
        _ => false,
    }
}
