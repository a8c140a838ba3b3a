//! `tojson`.

use crate::error::{Error, ErrorKind};
use crate::python::{self, int_text, repr_float, sort_by_keys};
use crate::run::State;
use crate::value::{CallArgs, Value};

pub(super) fn tojson(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, indent] = call.bind("do_tojson", [("value", None), ("indent", Some(Value::None))])?;
    let indent = match &indent {
        Value::None => None,
        Value::Str(text) => Some(text.to_string()),
        other => {
            let count = usize::try_from(super::integer(other)?).unwrap_or(0);
            call.state.check_size(count)?;
            Some(" ".repeat(count))
        }
    };
    let mut writer = Writer { state: call.state, out: String::new(), indent, active: Vec::new() };
    writer.write(&value)?;
    let safe =
        // Jinja escapes these four so that the JSON can be part of a `<script>` element or a quoted attribute.
        writer.out.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").replace('\'', "\\u0027");
    Ok(Value::markup(safe))
}

struct Writer<'a> {
    state: &'a mut State,
    out: String,
    indent: Option<String>,
    active: Vec<usize>,
}

impl Writer<'_> {
    fn write(&mut self, value: &Value) -> Result<(), Error> {
        self.state.check_size(self.out.len())?;
        match value {
            Value::None => self.out.push_str("null"),
            Value::Bool(flag) => self.out.push_str(if *flag { "true" } else { "false" }),
            Value::Int(number) => self.out.push_str(&number.to_string()),
            Value::Big(number) => self.out.push_str(&int_text(number)?),
            Value::Float(number) => self.out.push_str(&float(*number)),
            Value::Str(text) | Value::Markup(text) => string(&mut self.out, text),
            Value::List(list) => {
                let (id, items) = (list.id(), list.to_vec());
                self.sequence(id, &items)?;
            }
            Value::Tuple(items) => self.sequence(items.as_ptr() as usize, items)?,
            Value::Dict(dict) => {
                // Jinja passes `sort_keys=True`, and Python sorts the pairs, not their JSON. Keys of mixed types have
                // no order and fail, as in Python.
                let mut keyed = Vec::new();
                for (key, value) in dict.entries() {
                    keyed.push((key.clone(), Value::tuple(vec![key, value])));
                }
                let entries = sort_by_keys(self.state, keyed, false)?;
                self.nested(dict.id(), '{', '}', entries.len(), |this, at| {
                    let Value::Tuple(pair) = &entries[at] else { return Ok(()) };
                    let key = key_text(&pair[0])?;
                    string(&mut this.out, &key);
                    this.out.push_str(": ");
                    this.write(&pair[1])
                })?;
            }
            other => {
                let name = other.type_name();
                return Err(Error::type_error(format!("Object of type {name} is not JSON serializable")));
            }
        }
        Ok(())
    }

    fn sequence(&mut self, id: usize, items: &[Value]) -> Result<(), Error> {
        self.nested(id, '[', ']', items.len(), |this, at| this.write(&items[at]))
    }

    fn nested(
        &mut self,
        id: usize,
        open: char,
        close: char,
        count: usize,
        mut item: impl FnMut(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        if count == 0 {
            self.out.push(close);
            return Ok(());
        }
        // Only containers that are still open: the same list twice next to each other is not a cycle.
        if self.active.contains(&id) {
            return Err(Error::value_error("Circular reference detected"));
        }
        if self.active.len() as u32 >= python::MAX_DEPTH {
            let text = "maximum recursion depth exceeded while encoding a JSON object";
            return Err(Error::new(ErrorKind::Recursion, text));
        }
        self.active.push(id);
        for at in 0..count {
            if at > 0 {
                // Python drops the space after the comma when it breaks lines.
                self.out.push_str(if self.indent.is_some() { "," } else { ", " });
            }
            self.line(self.active.len());
            item(self, at)?;
        }
        self.active.pop();
        self.line(self.active.len());
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, level: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(level));
        }
    }
}

fn float(number: f64) -> String {
    if number.is_nan() {
        // Not JSON, but what Python writes for it.
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    repr_float(number)
}

fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key {
        Value::Str(text) | Value::Markup(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Big(number) => int_text(number)?,
        Value::Float(number) => float(*number),
        // JSON has only text keys; these are the words that Python substitutes.
        Value::Bool(true) => "true".into(),
        Value::Bool(false) => "false".into(),
        Value::None => "null".into(),
        other => {
            let name = other.type_name();
            return Err(Error::type_error(format!("keys must be str, int, float, bool or None, not {name}")));
        }
    })
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            ' '..='~' => out.push(char),
            char => {
                // Pure ASCII, with surrogate pairs beyond the basic plane: Python's `ensure_ascii`.
                for unit in char.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}
