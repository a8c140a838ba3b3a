//! The option `decrypt_pillar`: decrypts values at the end, whatever source they came from.

use render::Gpg;
use value::{Map, Value};

/// Decrypts the named values in place, and returns the errors.
pub(crate) fn decrypt(pillar: &mut Map, wanted: &Value, options: &Map, gpg: &Gpg) -> Vec<String> {
    let entries = entries(wanted);
    if entries.is_empty() {
        return vec!["decrypt_pillar config option is malformed".to_owned()];
    }
    let delimiter = options.get_str("decrypt_pillar_delimiter").unwrap_or(":");
    let default = options.get_str("decrypt_pillar_default").unwrap_or("gpg");
    let allowed: Vec<String> = match options.get("decrypt_pillar_renderers") {
        Some(Value::List(names)) => names.iter().map(Value::to_string).collect(),
        // Renderers such as `py` run code, and pillar values may come from sources that others control. Only decryption
        // is allowed unless the option says otherwise.
        _ => vec!["gpg".to_owned()],
    };
    let mut errors = Vec::new();
    for (key, renderer) in entries {
        let Some(found) = find(pillar, &key, delimiter) else {
            // The option lists the keys of all minions, so each minion lacks most of them. This is not an error.
            tracing::debug!("Pillar key {key} not present");
            continue;
        };
        let renderer = renderer.filter(|name| !name.is_empty()).unwrap_or_else(|| default.to_owned());
        let decrypted = if !allowed.is_empty() && !allowed.contains(&renderer) {
            let choices = allowed.join(", ");
            Err(format!("'{renderer}' is not a valid decryption renderer. Valid choices are: {choices}"))
        } else if renderer != "gpg" {
            Err(format!("not supported: the renderer '{renderer}'"))
        } else {
            gpg.render(found.clone(), false).map_err(|error| error.to_string())
        };
        match decrypted {
            Ok(plain) => *found = plain,
            Err(why) => errors.push(format!("Failed to decrypt pillar key '{key}': {why}")),
        }
    }
    errors
}

/// Returns the keys with their renderers. The option is a map of them, or a list of keys and such maps.
fn entries(wanted: &Value) -> Vec<(String, Option<String>)> {
    let pair = |(key, renderer): (&Value, &Value)| {
        (key.to_string(), Some(renderer).filter(|renderer| renderer.truthy()).map(Value::to_string))
    };
    match wanted {
        Value::Map(map) => map.iter().map(pair).collect(),
        Value::List(items) => {
            let mut all = Vec::new();
            for item in items {
                match item {
                    Value::Map(map) => all.extend(map.iter().map(pair)),
                    other => all.push((other.to_string(), None)),
                }
            }
            all
        }
        _ => Vec::new(),
    }
}

fn find<'a>(pillar: &'a mut Map, key: &str, delimiter: &str) -> Option<&'a mut Value> {
    let mut parts = key.split(delimiter);
    let mut value = pillar.get_mut(parts.next()?)?;
    for part in parts {
        value = value.as_map_mut()?.get_mut(part)?;
    }
    Some(value).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    fn run(wanted: Value, options: Map) -> Vec<String> {
        let gpg = Gpg::of(&map! { "gpg_keydir" => "/nonexistent" }, &map! {}, &map! {});
        let mut pillar = map! { "a" => map! { "b" => "plain" }, "c" => list!["x"] };
        let before = pillar.clone();
        let errors = decrypt(&mut pillar, &wanted, &options, &gpg);
        // Values without ciphertext, and those that could not be decrypted, stay as they were.
        assert_eq!(pillar, before);
        errors
    }

    #[test]
    fn keys_are_found_with_the_delimiter_and_only_allowed_renderers_decrypt() {
        assert_eq!(run(list!["a:b", "c", "gone:x", "c:x"], map! {}), Vec::<String>::new());
        assert_eq!(
            run(map! { "a/b" => Value::Null }.into(), map! { "decrypt_pillar_delimiter" => "/" }),
            Vec::<String>::new()
        );
        assert_eq!(run("nonsense".into(), map! {}), ["decrypt_pillar config option is malformed"]);
        let errors = run(list![map! { "a:b" => "py" }], map! {});
        let expected =
            "Failed to decrypt pillar key 'a:b': 'py' is not a valid decryption renderer. Valid choices are: gpg";
        assert_eq!(errors, [expected]);
    }
}
