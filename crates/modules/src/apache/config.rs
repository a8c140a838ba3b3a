//! Configuration as data: `apache.config`.

use std::fmt::Write;

use exec::{Error, Result, function};
use value::Value;

/// The maximum nesting depth of sections.
const DEPTH: u32 = 200;

/// The key whose value follows the name of a section, as `*:80` in `<VirtualHost *:80>`.
const THIS: &str = "this";

/// Writes a configuration that is given as a list of maps, and returns its text; with ``edit=False`` nothing is
/// written. In a section the key ``this`` is the argument of the section.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.config /etc/httpd/conf.d/ports.conf config="[{'Listen': '22'}]"
#[function]
fn config(name: String, config: Value, #[default(true)] edit: Value) -> Result<String> {
    let text = text(&config)?;
    if edit.truthy() {
        let content = format!("# This file is managed by Salt.\n{text}");
        std::fs::write(&name, content).map_err(|error| Error::io("write", &name, &error))?;
    }
    Ok(text)
}

/// The text of a whole configuration.
fn text(config: &Value) -> Result<String> {
    let refused =
        |what: &Value| Error::Other(format!("apache.config: a directive with its value was expected, not {what}"));
    let entries = config.as_list().ok_or_else(|| Error::Other("apache.config: config must be a list".into()))?;
    let mut parts = Vec::with_capacity(entries.len());
    for entry in entries {
        // Salt takes the first key of an entry and ignores the others.
        let first = entry.as_map().and_then(|entry| entry.iter().next());
        let (name, value) = first.ok_or_else(|| refused(entry))?;
        parts.push(directive(value, Some(&name.to_string()), DEPTH)?);
    }
    Ok(parts.join("\n"))
}

/// Renders a directive or a section. Values other than texts, lists and maps render as nothing.
fn directive(value: &Value, name: Option<&str>, depth: u32) -> Result<String> {
    // The data comes from a state or a command line; Salt would end in a recursion error here.
    let depth = depth.checked_sub(1).ok_or_else(|| Error::execution("apache.config: sections lie too deep"))?;
    let shown = name.unwrap_or("None");
    match value {
        Value::Str(text) => Ok(match name.filter(|name| !name.is_empty()) {
            Some(name) => format!("{name} {text}"),
            None => text.to_string(),
        }),
        Value::List(items) => match this_of(items)? {
            Some(this) => section_of_list(items, shown, &this, depth),
            None => lines(items.iter().map(|item| directive(item, Some(shown), depth))),
        },
        Value::Map(entries) => {
            let this = entries.get(THIS).ok_or_else(|| Error::execution(without_this(shown)))?;
            let others = entries.iter().filter(|(key, _)| key.as_str() != Some(THIS));
            let inner = others.filter(|(_, value)| matches!(value, Value::Str(_) | Value::List(_) | Value::Map(_)));
            let inner = lines(inner.map(|(key, value)| match value {
                Value::Str(text) => Ok(format!("{key} {text}")),
                other => directive(other, Some(&key.to_string()), depth),
            }))?;
            Ok(format!("<{shown} {this}>\n{inner}</{shown}>\n"))
        }
        _ => Ok(String::new()),
    }
}

fn without_this(name: &str) -> String {
    format!("Apache section container \"<{name}>\" expects attribute. Specify it using key \"this\".")
}

/// Puts each part on a separate line.
fn lines(parts: impl Iterator<Item = Result<String>>) -> Result<String> {
    let mut text = String::new();
    for part in parts {
        let _ = writeln!(text, "{}", part?);
    }
    Ok(text)
}

/// Returns what follows the name when a list is a section: the last `this` in it.
fn this_of(items: &[Value]) -> Result<Option<String>> {
    let mut found = None;
    for item in items {
        match item {
            // The last one wins, since Salt overwrites the name in its loop.
            Value::Map(entries) => found = entries.get(THIS).map(Value::to_string).or(found),
            Value::List(entries) if !entries.contains(&THIS.into()) => {}
            // Salt asks `"this" in item` of every item, which for a text means a part of it.
            Value::Str(text) if !text.contains(THIS) => {}
            other => {
                return Err(Error::Other(format!("apache.config: {other} cannot stand in a list of directives")));
            }
        }
    }
    Ok(found)
}

fn section_of_list(items: &[Value], name: &str, this: &str, depth: u32) -> Result<String> {
    let mut inner = String::new();
    for item in items {
        let refused = || Error::Other(format!("apache.config: {item} cannot stand in a section as a list, <{name}>"));
        for (key, value) in item.as_map().ok_or_else(refused)?.iter().filter(|(key, _)| key.as_str() != Some(THIS)) {
            let _ = writeln!(inner, "{}", directive(value, Some(&key.to_string()), depth)?);
        }
    }
    Ok(format!("<{name} {this}>\n{inner}</{name}>\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn sections_that_lie_too_deep_are_refused() {
        let mut section: Value = map! { "this" => "x" }.into();
        for _ in 0..DEPTH {
            section = map! { "this" => "x", "If" => section }.into();
        }
        let said = text(&list![map! { "If" => section }]).unwrap_err().to_string();
        assert_eq!(said, "apache.config: sections lie too deep");
    }

    #[test]
    fn what_is_no_directive_is_named() {
        let said = |config: Value| text(&config).unwrap_err().to_string();
        assert!(said("Listen 80".into()).contains("must be a list"));
        assert!(said(list!["Listen 80"]).contains("not Listen 80"));
        assert!(said(list![map! { "Options" => list![1] }]).contains("1 cannot stand in a list"));
        let mixed = list![map! { "If" => list![map! { "this" => "x" }, "odd"] }];
        assert!(said(mixed).contains("odd cannot stand in a section"));
    }
}
