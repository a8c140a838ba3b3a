//! `nested`: the default format, by indentation.

use ::value::python::{repr, repr_float};
use ::value::{Map, Value};

use super::settings::Settings;
use super::text::{lines, sorted};

/// Formats a value, with each line indented by `indent` spaces.
pub fn output(data: &Value, settings: &Settings, retcode: i64, indent: usize) -> String {
    let mut display = Display { settings, failed: retcode != 0, lines: Vec::new() };
    display.value(data, indent, "");
    display.lines.join("\n")
}

struct Display<'a> {
    settings: &'a Settings,
    failed: bool,
    lines: Vec<String>,
}

impl<'a> Display<'a> {
    fn value(&mut self, value: &Value, indent: usize, prefix: &str) {
        let yellow = &self.settings.colors.light_yellow;
        match value {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) => {
                self.line(indent, yellow, prefix, &repr(value), "");
            }
            Value::Float(number) => self.line(indent, yellow, prefix, &repr_float(*number), ""),
            Value::Str(text) => self.text(text, indent, prefix),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => self.text(text, indent, prefix),
                // Salt omits such bytes; showing them is better.
                Err(_) => self.text(&repr(value), indent, prefix),
            },
            Value::List(items) => self.list(items, indent),
            Value::Map(map) => self.map(map, indent, prefix),
            Value::DateTime(_) | Value::Constant(_) => self.text(&value.to_string(), indent, prefix),
        }
    }

    fn text(&mut self, text: &str, indent: usize, prefix: &str) {
        let blank = " ".repeat(prefix.len());
        for (place, line) in lines(text).into_iter().enumerate() {
            let prefix = if place == 0 { prefix } else { &blank };
            self.line(indent, &self.settings.colors.green, prefix, line, "");
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        let colors = &self.settings.colors;
        let color = if self.failed { &colors.red } else { &colors.green };
        for item in items {
            match item {
                // A nested list needs the prefix of its items, a map has none.
                Value::List(_) => {
                    self.line(indent, color, "", "|_", "");
                    self.value(item, indent + 2, "- ");
                }
                Value::Map(_) => {
                    self.line(indent, color, "", "|_", "");
                    self.value(item, indent + 2, "");
                }
                _ => self.value(item, indent, "- "),
            }
        }
    }

    fn map(&mut self, map: &Map, indent: usize, prefix: &str) {
        let colors = &self.settings.colors;
        let color = if self.failed { &colors.red } else { &colors.cyan };
        // The outermost map has no line above it, because the minion's id is its heading.
        if indent > 0 {
            self.line(indent, color, "", "----------", "");
        }
        // Keys of different types do not compare, in Python either; Salt then sorts them by their text.
        let named = Map::from_iter(map.iter().map(|(key, value)| (key.to_string(), value.clone())));
        let entries = sorted(map).or_else(|_| sorted(&named)).unwrap_or_default();
        for (key, value) in entries {
            self.line(indent, color, prefix, &key.to_string(), ":");
            self.value(value, indent + 4, "");
        }
    }

    fn line(&mut self, indent: usize, color: &'a str, prefix: &str, text: &str, suffix: &str) {
        let end = &self.settings.colors.end;
        self.lines.push(format!("{:indent$}{color}{prefix}{text}{end}{suffix}", ""));
    }
}
