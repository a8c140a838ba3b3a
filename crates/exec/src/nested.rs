//! A value as indented text without colours, as Salt shows it in comments and errors.

use value::{Map, Value};

/// Returns the text of a value, each map and list indented below its name, maps in the order of their keys.
pub fn nested(value: &Value) -> String {
    let mut lines = Vec::new();
    show(value, 0, "", &mut lines);
    lines.join("\n").trim_end().to_owned()
}

fn show(value: &Value, indent: usize, prefix: &str, lines: &mut Vec<String>) {
    match value {
        Value::List(items) => list(items, indent, lines),
        Value::Map(map) => entries(map, indent, prefix, lines),
        other => {
            // Subsequent lines are aligned with the first, behind its prefix.
            let blank = " ".repeat(prefix.len());
            for (place, line) in other.to_string().lines().enumerate() {
                let prefix = if place == 0 { prefix } else { &blank };
                lines.push(format!("{:indent$}{prefix}{line}", ""));
            }
        }
    }
}

fn list(items: &[Value], indent: usize, lines: &mut Vec<String>) {
    for item in items {
        match item {
            Value::List(_) | Value::Map(_) => {
                lines.push(format!("{:indent$}|_", ""));
                show(item, indent + 2, if item.as_list().is_some() { "- " } else { "" }, lines);
            }
            _ => show(item, indent, "- ", lines),
        }
    }
}

fn entries(map: &Map, indent: usize, prefix: &str, lines: &mut Vec<String>) {
    // As in Salt's outputter, the outermost map has no rule above it.
    if indent > 0 {
        lines.push(format!("{:indent$}----------", ""));
    }
    // Salt's outputter sorts the keys of maps, so the same data always gives the same text.
    let mut sorted: Vec<_> = map.iter().map(|(key, value)| (key.to_string(), value)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, value) in sorted {
        lines.push(format!("{:indent$}{prefix}{key}:", ""));
        show(value, indent + 4, "", lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn values_are_indented() {
        let value = map! { "errors" => list!["two\nlines"], "changes" => map! { "b" => 1, "a" => list![list![1]] } };
        let text = "changes:\n    ----------\n    a:\n        |_\n          - 1\n    b:\n        1\nerrors:\n    - two\n      lines";
        assert_eq!(nested(&value.into()), text);
    }
}
