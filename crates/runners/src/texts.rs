//! Arguments that may be lists in several forms.

use value::Value;

/// Salt's `split_input`: a list is taken as it is, a text is split at commas, null gives an empty list.
pub fn split_input(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::List(items) => items.iter().map(ToString::to_string).collect(),
        other => other.to_string().split(',').map(|part| part.trim().to_owned()).collect(),
    }
}

/// Returns whether a text matches an expression, as a shell glob or, from start to end, as a regular expression.
pub fn expr_match(text: &str, expression: &str) -> bool {
    targeting::expr_match(text, expression)
}
