//! `txt`: each line of a result after the id of its minion.

use ::value::Value;

use super::text::lines;

/// Formats `id: line` for each line.
pub fn output(data: &Value) -> String {
    match data {
        Value::Map(map) => map.iter().map(|(key, value)| entry(key, value)).collect(),
        Value::Str(text) => format!("{text}\n"),
        // Without a minion's id there is nothing to put in front of the lines.
        other => format!("{}\n", super::pformat(other)),
    }
}

fn entry(key: &Value, value: &Value) -> String {
    match value {
        Value::Str(text) => lines(text).iter().map(|line| format!("{key}: {line}\n")).collect(),
        Value::Bytes(bytes) => byte_lines(bytes).map(|line| format!("{key}: {line}\n")).collect(),
        other => format!("{key}: {other}\n"),
    }
}

/// Bytes have only three kinds of line ends.
fn byte_lines(bytes: &[u8]) -> impl Iterator<Item = Value> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let line = &rest[..end.unwrap_or(rest.len())];
        let skip = match end {
            Some(end) if rest[end..].starts_with(b"\r\n") => end + 2,
            Some(end) => end + 1,
            None => rest.len(),
        };
        rest = &rest[skip..];
        Some(Value::from(line))
    })
}
