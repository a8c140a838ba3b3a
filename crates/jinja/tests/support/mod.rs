//! Renders recorded cases in the environment they were recorded in, and compares.

use std::collections::HashMap;
use std::sync::Arc;

use saltern_jinja::python::str_of;
use saltern_jinja::value::BigInt;
use saltern_jinja::{Dict, Environment, Error, Key, MapLoader, State, TagKind, Template, UndefinedKind, Value, Vars};
use serde_json::Value as Json;

/// Converts JSON to a value.
pub fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(int) => Value::Int(int),
            None if number.is_f64() => Value::Float(number.as_f64().unwrap_or(0.0)),
            None => number.to_string().parse::<BigInt>().map_or(Value::None, Value::int),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(entries) => {
            let dict = Dict::new();
            for (key, item) in entries {
                dict.insert(Key::str(key.as_str()), value(item));
            }
            Value::Dict(dict)
        }
    }
}

/// Text with line ends and tabs is printed so that YAML reads it back.
fn quote(text: &str) -> Option<String> {
    if !text.contains(['\n', '\r', '\t']) {
        return None;
    }
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            char => out.push(char),
        }
    }
    out.push('"');
    Some(out)
}

fn finalize(state: &mut State, value: &Value) -> Result<Option<String>, Error> {
    match value {
        Value::Dict(_) | Value::List(_) | Value::Tuple(_) | Value::Set(_) => {
            str_of(state, value, Some(&quote)).map(Some)
        }
        _ => Ok(None),
    }
}

fn load_json(state: &mut State, value: &Value) -> Result<Value, Error> {
    if let Value::Undefined(undefined) = value {
        return Err(undefined.fail());
    }
    let text = match value {
        Value::Object(_) | Value::Str(_) | Value::Markup(_) => Some(state.str(value)?),
        _ => None,
    };
    match text.as_deref().map(serde_json::from_str::<Json>) {
        Some(Ok(json)) => Ok(self::value(&json)),
        _ => Err(Error::runtime(format!("Unable to load json from {}", state.str(value)?))),
    }
}

/// Makes the environment of a case.
pub fn environment(case: &Json) -> Environment {
    let mut env = Environment::new();
    env.undefined = UndefinedKind::Strict;
    env.finalize = Some(Arc::new(finalize));
    env.add_filter("load_json", |call| {
        let [value] = call.bind("load_json", [("value", None)])?;
        load_json(call.state, &value)
    });
    env.add_filter("load_text", |call| {
        let [value] = call.bind("load_text", [("value", None)])?;
        match &value {
            Value::Undefined(undefined) => Err(undefined.fail()),
            Value::Object(_) => call.state.str(&value).map(Value::from),
            _ => Ok(value),
        }
    });
    for kind in ["json", "text"] {
        let filter = format!("load_{kind}");
        env.tags.insert(filter.as_str().into(), TagKind::Load { filter: filter.as_str().into(), end: &["endload"] });
        env.tags.insert(format!("import_{kind}").into(), TagKind::Import { filter: filter.into() });
    }
    env.tags.insert("profile".into(), TagKind::Labelled { end: &["endprofile"] });
    let mut templates = HashMap::new();
    for (name, text) in case["templates"].as_object().into_iter().flatten() {
        templates.insert(name.clone(), text.as_str().unwrap_or_default().to_string());
    }
    env.loader = Some(Arc::new(MapLoader(templates)));
    for (name, option) in case["options"].as_object().into_iter().flatten() {
        set_option(&mut env, name, option);
    }
    env
}

fn set_option(env: &mut Environment, name: &str, option: &Json) {
    let flag = option.as_bool().unwrap_or(false);
    let text = option.as_str().unwrap_or_default().to_string();
    let syntax = &mut env.syntax;
    match name {
        "trim_blocks" => syntax.trim_blocks = flag,
        "lstrip_blocks" => syntax.lstrip_blocks = flag,
        "keep_trailing_newline" => syntax.keep_trailing_newline = flag,
        "line_statement_prefix" => syntax.line_statement_prefix = Some(text),
        "line_comment_prefix" => syntax.line_comment_prefix = Some(text),
        "block_start_string" => syntax.block_start = text,
        "block_end_string" => syntax.block_end = text,
        "variable_start_string" => syntax.variable_start = text,
        "variable_end_string" => syntax.variable_end = text,
        "comment_start_string" => syntax.comment_start = text,
        "comment_end_string" => syntax.comment_end = text,
        "autoescape" => env.autoescape = flag,
        "undefined" => {
            env.undefined = match text.as_str() {
                "lenient" => UndefinedKind::Lenient,
                "chainable" => UndefinedKind::Chainable,
                _ => UndefinedKind::Strict,
            }
        }
        other => panic!("unknown option {other}"),
    }
}

/// Runs a case and returns its result in the recorded form.
pub fn run(case: &Json, context: &Json) -> Json {
    let mut vars = Vars::default();
    for (name, item) in context.as_object().into_iter().flatten() {
        vars.insert(name.as_str().into(), value(item));
    }
    let source = case["source"].as_str().unwrap_or_default();
    let rendered = Template::compile(&Arc::new(environment(case)), None, source).and_then(|t| t.render(vars));
    match rendered {
        Ok(text) => Json::from(text),
        Err(error) => {
            let mut lines: Vec<u32> = error.places().iter().map(|place| place.line).collect();
            // Jinja reports one line for a template that it cannot compile.
            if error.kind().is_syntax() {
                lines.truncate(1);
            }
            // Recorded as in a Python traceback: outermost first.
            lines.reverse();
            serde_json::json!([error.kind().class(), error.message(), lines])
        }
    }
}

/// Takes addresses out of texts: they differ from run to run.
fn without_addresses(json: &Json) -> Json {
    match json {
        Json::String(text) => {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some(at) = rest.find("0x") {
                let end =
                    rest[at + 2..].find(|char: char| !char.is_ascii_hexdigit()).map_or(rest.len(), |e| at + 2 + e);
                // A short number is not an address but part of the tested text.
                if end - at < 8 {
                    out.push_str(&rest[..end]);
                } else {
                    out.push_str(&rest[..at]);
                }
                rest = &rest[end..];
            }
            Json::from(out + rest)
        }
        Json::Array(items) => Json::Array(items.iter().map(without_addresses).collect()),
        other => other.clone(),
    }
}

/// Returns whether a result is the recorded one.
pub fn same(ours: &Json, theirs: &Json) -> bool {
    without_addresses(ours) == without_addresses(theirs)
}

/// Names the reason why a result may differ from the recorded one; the list is complete.
pub fn known_difference(case: &Json, ours: &Json, theirs: &Json) -> Option<&'static str> {
    let not_subscriptable = ours[1].as_str().is_some_and(|text| text.ends_with("is not subscriptable"));
    let default_asked = case["source"].as_str().is_some_and(|text| text.contains("|default(") || text.contains("|d("));
    if not_subscriptable && (default_asked || case["options"]["undefined"] == "lenient") {
        return Some("a slice of a constant that Jinja computes when it compiles is undefined instead of an error");
    }
    let ours_is = |text: &str| ours[1].as_str() == Some(text);
    if ours_is("unhashable type: 'slice'") && case["options"]["undefined"] == "lenient" {
        return Some("a slice of a constant that Jinja computes when it compiles is undefined instead of an error");
    }
    if ours_is("not supported: complex numbers") {
        return Some("complex numbers");
    }
    let (class, message, lines) = (&theirs[0], theirs[1].as_str()?, theirs[2].as_array()?);
    if class == "SyntaxError" && lines.is_empty() {
        // Found by Python in the code Jinja writes; the message names a line of that code.
        let text = message.split(" (<template>").next();
        return (ours[0] == "SyntaxError" && ours[1].as_str() == text).then_some("a line of generated code");
    }
    if lines.is_empty() {
        return Some("Jinja computes constant expressions when it compiles and then reports no line");
    }
    if class == "NameError" {
        return Some("Jinja writes a constant infinity or NaN into its code as a name");
    }
    if class == "RecursionError" {
        return Some("recursion: another depth, and a value that contains itself prints [...]");
    }
    message.contains("_GroupTuple.__new__").then_some("Salt's finalizer cannot copy what groupby gives")
}
