//! Formats a state in one line.

use ::value::{Map, Value};

use super::super::WrongShape;
use super::super::settings::{Settings, Tabular};
use super::Names;

/// The format of `state_tabular: True`, in the syntax of Python's `str.format`.
const COLUMNS: &str = "{2:>10}.{3:<10} {4:7}   Name: {1}{5}";

/// Formats the line.
pub fn line(
    color: &str,
    names: &Names,
    state: &Map,
    result: &Value,
    settings: &Settings,
) -> Result<String, WrongShape> {
    let word = match result {
        Value::Bool(false) => "Failed",
        Value::Null => "Differs",
        _ if state.get("changes").is_some_and(Value::truthy) => "Changed",
        _ => "Clean",
    };
    let fields = [color, names.name, names.module, names.function, word, &settings.colors.end];
    let timed = settings.state_output_profile && state.contains_key("start_time");
    let format = match &settings.state_tabular {
        Tabular::Format(format) => return fill_in(format, &fields, state),
        Tabular::On => {
            let times = if timed { "{6[start_time]!s} [{6[duration]!s:>7} ms] " } else { "" };
            format!("{{0}}{times}{COLUMNS}")
        }
        Tabular::Off => {
            let times = if timed { " - Started: {6[start_time]!s} - Duration: {6[duration]!s} ms" } else { "" };
            format!(" {{0}} Name: {{1}} - Function: {{2}}.{{3}} - Result: {{4}}{times}{{5}}")
        }
    };
    let mut warnings = match state.get("warnings") {
        Some(list) => {
            let colors = &settings.colors;
            format!("{}Warnings:\n{}{}", colors.light_red, super::joined(list), colors.end)
        }
        None => String::new(),
    };
    if !warnings.is_empty() && settings.state_tabular == Tabular::On {
        warnings.push('\n');
    }
    Ok(warnings + &fill_in(&format, &fields, state)?)
}

/// Fills a Python format: `{0}` to `{5}` are the fields, `{6[key]}` an entry of the state, with an optional `!s` and
/// `:>width`.
fn fill_in(format: &str, fields: &[&str; 6], state: &Map) -> Result<String, WrongShape> {
    let mut out = String::new();
    let mut rest = format;
    while let Some(place) = rest.find(['{', '}']) {
        out.push_str(&rest[..place]);
        let bracket = &rest[place..=place];
        rest = &rest[place + 1..];
        // Python's format writes a brace as two.
        if let Some(after) = rest.strip_prefix(bracket) {
            out.push_str(bracket);
            rest = after;
            continue;
        }
        let (field, after) = rest.split_once('}').filter(|_| bracket == "{").ok_or(WrongShape)?;
        out.push_str(&field_text(field, fields, state)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn field_text(field: &str, fields: &[&str; 6], state: &Map) -> Result<String, WrongShape> {
    let (name, form) = field.split_once(':').unwrap_or((field, ""));
    let name = name.strip_suffix("!s").unwrap_or(name);
    let text = match name.strip_prefix("6[").and_then(|key| key.strip_suffix(']')) {
        // Python raises an error for an unknown key, and Salt then prints the data with `nested`.
        Some(key) => state.get(key).ok_or(WrongShape)?.to_string(),
        None => {
            let number: usize = name.parse().map_err(|_| WrongShape)?;
            fields.get(number).ok_or(WrongShape)?.to_string()
        }
    };
    let (right, width) = match form.strip_prefix('>') {
        Some(width) => (true, width),
        None => (false, form.strip_prefix('<').unwrap_or(form)),
    };
    let width: usize = if width.is_empty() { 0 } else { width.parse().map_err(|_| WrongShape)? };
    Ok(if right { format!("{text:>width$}") } else { format!("{text:<width$}") })
}
