//! `newline_values_only`: the values of all minions, one per line, without the ids.

use ::value::Value;

use super::WrongShape;

/// Formats a line per value; a list gives a line per item.
pub fn output(data: &Value) -> Result<String, WrongShape> {
    let mut lines = Vec::new();
    for value in data.as_map().ok_or(WrongShape)?.values() {
        match value {
            Value::List(items) => lines.extend(items.iter().map(Value::to_string)),
            other => lines.push(other.to_string()),
        }
    }
    Ok(lines.join("\n"))
}
