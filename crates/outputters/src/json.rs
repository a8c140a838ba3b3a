//! `json`: like Python's `json.dumps`, one object per result.

use std::fmt::Write;

use ::value::python::{repr, repr_float};
use ::value::{Map, Value, escape};

use super::WrongShape;
use super::settings::{Indent, Settings};
use super::text::sorted;

/// Formats JSON; `{}` for data without a JSON form.
pub fn output(data: &Value, settings: &Settings) -> String {
    let (indent, sort) = match settings.indent {
        Indent::Unset => (Some(4), false),
        Indent::Pretty => (Some(4), true),
        Indent::OneLine => (None, false),
        // Negative: one line.
        Indent::Width(width) => (usize::try_from(width).ok(), false),
    };
    let mut writer = Writer { indent, sort, out: String::new() };
    match writer.value(data, 0) {
        Ok(()) => writer.out,
        // As in Salt, for keys that `json.dumps` refuses.
        Err(WrongShape) => "{}".into(),
    }
}

struct Writer {
    indent: Option<usize>,
    sort: bool,
    out: String,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), WrongShape> {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(flag) => self.out.push_str(if *flag { "true" } else { "false" }),
            Value::Int(_) | Value::BigInt(_) => drop(write!(self.out, "{value}")),
            Value::Float(number) => self.out.push_str(&float(*number)),
            Value::Str(text) => self.text(text),
            Value::List(items) => return self.list(items, depth),
            Value::Map(map) => return self.map(map, depth),
            // JSON has no such types; Salt prints their Python form.
            Value::Bytes(_) | Value::DateTime(_) | Value::Constant(_) => self.text(&repr(value)),
        }
        Ok(())
    }

    fn list(&mut self, items: &[Value], depth: usize) -> Result<(), WrongShape> {
        if items.is_empty() {
            self.out.push_str("[]");
            return Ok(());
        }
        self.out.push('[');
        for (place, item) in items.iter().enumerate() {
            self.separate(place, depth + 1);
            self.value(item, depth + 1)?;
        }
        self.close(depth, ']');
        Ok(())
    }

    fn map(&mut self, map: &Map, depth: usize) -> Result<(), WrongShape> {
        if map.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        let entries = if self.sort { sorted(map)? } else { map.iter().collect() };
        self.out.push('{');
        for (place, (key, value)) in entries.into_iter().enumerate() {
            self.separate(place, depth + 1);
            let key = key_text(key)?;
            self.text(&key);
            self.out.push_str(": ");
            self.value(value, depth + 1)?;
        }
        self.close(depth, '}');
        Ok(())
    }

    fn separate(&mut self, place: usize, depth: usize) {
        match (place, self.indent) {
            (0, None) => {}
            (_, None) => self.out.push_str(", "),
            (0, Some(width)) => self.new_line(width * depth),
            (_, Some(width)) => {
                self.out.push(',');
                self.new_line(width * depth);
            }
        }
    }

    fn close(&mut self, depth: usize, bracket: char) {
        if let Some(width) = self.indent {
            self.new_line(width * depth);
        }
        self.out.push(bracket);
    }

    fn new_line(&mut self, blanks: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', blanks));
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for letter in text.chars() {
            match letter {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\x08' => self.out.push_str("\\b"),
                '\x0c' => self.out.push_str("\\f"),
                // More than JSON requires: an escaped control character means the same, and does not control the terminal.
                _ if escape::is_command(letter) => drop(write!(self.out, "\\u{:04x}", letter as u32)),
                _ => self.out.push(letter),
            }
        }
        self.out.push('"');
    }
}

fn float(number: f64) -> String {
    // These words are not valid JSON, but Python writes and reads them.
    if number.is_nan() {
        "NaN".into()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else {
        repr_float(number)
    }
}

fn key_text(key: &Value) -> Result<String, WrongShape> {
    Ok(match key {
        Value::Str(text) => text.clone(),
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(_) | Value::BigInt(_) => key.to_string(),
        Value::Float(number) => float(*number),
        _ => return Err(WrongShape),
    })
}
