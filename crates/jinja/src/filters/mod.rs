//! Jinja's filters.

mod json;
mod lazy;
mod numbers;
mod sequences;
mod text;
mod url;
mod wrap;

use std::sync::Arc;

use crate::env::Environment;
use crate::error::Error;
use crate::python;
use crate::run::State;
use crate::value::{CallArgs, Undefined, Value};

type Filter = fn(&mut CallArgs) -> Result<Value, Error>;

const FILTERS: &[(&str, Filter)] = &[
    ("abs", numbers::abs),
    ("attr", sequences::attr),
    ("batch", lazy::batch),
    ("capitalize", text::capitalize),
    ("center", text::center),
    ("count", |call| sequences::length(call)),
    ("d", default),
    ("default", default),
    ("dictsort", sequences::dictsort),
    ("e", text::escape_filter),
    ("escape", text::escape_filter),
    ("filesizeformat", numbers::filesizeformat),
    ("first", sequences::first),
    ("float", numbers::float),
    ("forceescape", text::forceescape),
    ("format", text::format),
    ("groupby", sequences::groupby),
    ("indent", text::indent),
    ("int", numbers::int),
    ("items", lazy::items),
    ("join", sequences::join),
    ("last", sequences::last),
    ("length", |call| sequences::length(call)),
    ("list", sequences::list),
    ("lower", text::lower),
    ("map", lazy::map),
    ("max", |call| sequences::min_or_max(call, "do_max", true)),
    ("min", |call| sequences::min_or_max(call, "do_min", false)),
    ("pprint", text::pprint),
    ("random", sequences::random),
    ("reject", |call| lazy::select(call, false, false)),
    ("rejectattr", |call| lazy::select(call, false, true)),
    ("replace", text::replace),
    ("reverse", sequences::reverse),
    ("round", numbers::round),
    ("safe", text::safe),
    ("select", |call| lazy::select(call, true, false)),
    ("selectattr", |call| lazy::select(call, true, true)),
    ("slice", lazy::slice),
    ("sort", sequences::sort),
    ("string", text::string),
    ("striptags", text::striptags),
    ("sum", numbers::sum),
    ("title", text::title),
    ("tojson", json::tojson),
    ("trim", text::trim),
    ("truncate", text::truncate),
    ("unique", lazy::unique),
    ("upper", text::upper),
    ("urlencode", url::urlencode),
    ("urlize", url::urlize),
    ("wordcount", text::wordcount),
    ("wordwrap", wrap::wordwrap),
    ("xmlattr", text::xmlattr),
];

/// Adds Jinja's filters to an environment.
pub(crate) fn install(env: &mut Environment) {
    for (name, filter) in FILTERS {
        env.filters.insert((*name).into(), Arc::new(filter));
    }
}

/// Converts a value to text that is safe in HTML; markup passes unchanged.
pub(crate) fn escape(state: &mut State, value: &Value) -> Result<String, Error> {
    match value {
        Value::Markup(text) => Ok(text.to_string()),
        other => Ok(escape_text(&state.str(other)?)),
    }
}

/// Escapes the characters that are special in HTML.
pub(crate) fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Numbers instead of `&quot;` and `&apos;`, because that is what markupsafe writes.
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    out
}

fn default(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("default_value", Some(Value::str(""))), ("boolean", Some(Value::Bool(false)))];
    let [value, default, boolean] = call.bind("do_default", params)?;
    if value.is_undefined() || (python::truthy(call.state, &boolean)? && !python::truthy(call.state, &value)?) {
        return Ok(default);
    }
    Ok(value)
}

/// Makes the undefined value that a filter returns for an empty sequence.
fn empty(state: &State, hint: &str) -> Value {
    Undefined::hint(state.env().undefined, hint, Value::None)
}

/// The path to a nested attribute (`a.b.0`), as filters take it in `attribute=`.
#[derive(Clone, Default)]
struct Path {
    parts: Vec<Value>,
    lower: bool,
    default: Option<Value>,
}

impl Path {
    /// Reads `a.b.0`, a number or nothing.
    fn new(attribute: &Value) -> Self {
        let parts = match attribute {
            Value::None => Vec::new(),
            Value::Str(text) | Value::Markup(text) => text
                .split('.')
                .map(|part| match part.parse() {
                    // Jinja asks `isdigit()` first: `-1` stays a name.
                    Ok(index) if part.chars().all(python::text::is_digit) => Value::Int(index),
                    _ => Value::str(part),
                })
                .collect(),
            other => vec![other.clone()],
        };
        Path { parts, lower: false, default: None }
    }

    fn ignoring_case(mut self, ignore: bool) -> Self {
        self.lower = ignore;
        self
    }

    fn or(mut self, default: Value) -> Self {
        // Jinja cannot distinguish an absent default from `none`.
        self.default = Some(default).filter(|default| !default.is_none());
        self
    }

    fn get(&self, state: &mut State, item: &Value) -> Result<Value, Error> {
        let mut value = item.clone();
        for part in &self.parts {
            value = python::get_item(state, &value, part)?;
            // The default replaces an undefined part in the middle of a path, too, and the rest of the path is looked
            // up in it.
            if let (true, Some(default)) = (value.is_undefined(), &self.default) {
                value = default.clone();
            }
        }
        Ok(match &value {
            Value::Str(text) if self.lower => Value::str(text.to_lowercase()),
            Value::Markup(text) if self.lower => Value::markup(text.to_lowercase()),
            _ => value,
        })
    }
}

/// Returns an integer argument, or Python's TypeError.
fn integer(value: &Value) -> Result<i64, Error> {
    value.as_i64().ok_or_else(|| match value {
        Value::Undefined(undefined) => undefined.fail(),
        other => Error::type_error(format!("'{}' object cannot be interpreted as an integer", other.type_name())),
    })
}
