//! The renderer `yaml`.

use value::{Map, Value};

use crate::Error;

/// Reads YAML as Salt does. Nothing, and anything that counts as nothing, is an empty map.
pub fn render(text: &str) -> Result<Value, Error> {
    let value = yaml::load(text, yaml::UNNAMED).map_err(|error| in_salts_words(&error, text))?;
    if !value.truthy() {
        return Ok(Map::new().into());
    }
    // `{{ x }}` that Jinja did not render is, to YAML, a map as the key of a map.
    if has_map_for_key(&value) {
        return Err(Error::new("Invalid YAML, possible double curly-brace"));
    }
    Ok(value)
}

/// Salt shows errors of the scanner without the place when PyYAML is built with libyaml, else with the surrounding
/// lines, as here; other errors are shown in full.
fn in_salts_words(error: &yaml::Error, text: &str) -> Error {
    let problem = match error.kind {
        yaml::Kind::Scanner if error.problem == "found character '\\t' that cannot start any token" => {
            "Illegal tab character"
        }
        yaml::Kind::Scanner => &error.problem,
        _ => return Error::new(error.to_string()),
    };
    match error.line().and_then(|line| usize::try_from(line).ok()) {
        Some(line) => Error::at(problem, text, line),
        None => Error::new(problem),
    }
}

fn has_map_for_key(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.iter().any(|(key, value)| matches!(key, Value::Map(_)) || has_map_for_key(value)),
        Value::List(items) => items.iter().any(has_map_for_key),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_names_its_line() {
        for (text, line) in [
            ("a: 1\nb: c: d\n", 2),
            ("a:\n\tb: 1\n", 2),
            ("a: \"open\nb: 1\n", 3),
            ("a: 1\nb: \u{1}\n", 2),
            ("a: 1\na: 2\n", 2),
            ("a: *nowhere\n", 1),
            ("a:\n  - b\n  c: d\n", 3),
            ("a: [\n", 2),
        ] {
            let said = render(text).unwrap_err().to_string();
            assert!(said.contains(&format!("line {line}")), "{text:?}: {said}");
        }
        let shown = render("a: 1\nb: c: d\n").unwrap_err().to_string();
        assert_eq!(
            shown,
            "mapping values are not allowed in this context; line 2\n\n---\na: 1\nb: c: d    <======================\n---"
        );
    }
}
