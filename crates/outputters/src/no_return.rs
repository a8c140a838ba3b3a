//! `no_return`: minions that did not answer.

use ::value::Value;

use super::settings::Settings;
use super::text::sorted;

/// Formats each id with its text below.
pub fn output(data: &Value, settings: &Settings) -> String {
    let mut out = String::new();
    push(&mut out, data, settings, 0);
    out
}

fn push(out: &mut String, value: &Value, settings: &Settings, indent: usize) {
    let colors = &settings.colors;
    match value {
        Value::Str(text) => {
            // Only at newlines: this text is Salt's own, not a minion's.
            for line in text.split('\n') {
                out.push_str(&format!("{}{:indent$}{line}{}\n", colors.red, "", colors.end));
            }
        }
        Value::Map(map) => {
            for (key, value) in sorted(map).unwrap_or_default() {
                out.push_str(&format!("{}{:indent$}{key}{}:\n", colors.cyan, "", colors.end));
                push(out, value, settings, indent + 4);
            }
        }
        _ => {}
    }
}
