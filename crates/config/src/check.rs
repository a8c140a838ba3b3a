//! Checks the type of option values, with the conversions that Salt accepts.

use value::Value;

use crate::table::Type;

/// Returns whether the value has one of the types, or else a description of the valid ones.
///
/// As in Salt, a number may be written as a string, any scalar may be given for a string, and only booleans are
/// booleans. The address of a secret (`sdb://`) may replace anything.
pub(crate) fn check(types: &[Type], value: &Value) -> Result<(), String> {
    let secret = value.as_str().is_some_and(|text| text.starts_with("sdb://"));
    if secret || types.iter().any(|kind| accepts(*kind, value)) {
        return Ok(());
    }
    let words: Vec<&str> = types.iter().map(|kind| word(*kind)).collect();
    Err(words.join(" or "))
}

fn accepts(kind: Type, value: &Value) -> bool {
    match (kind, value) {
        (Type::Any, _) | (Type::None, Value::Null) => true,
        (Type::Str, Value::Str(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) | Value::Bool(_)) => true,
        // Not even `yes` or 1: what protects a fleet must not depend on a guess.
        (Type::Bool, Value::Bool(_)) | (Type::List, Value::List(_)) | (Type::Map, Value::Map(_)) => true,
        // Salt warns about a fraction in an integer option but uses it; if it cannot be used, the typed field refuses it.
        (Type::Int | Type::Float, Value::Int(_) | Value::BigInt(_) | Value::Float(_)) => true,
        (Type::Int, Value::Str(text)) => integer(text).is_some(),
        (Type::Float, Value::Str(text)) => text.trim().parse::<f64>().is_ok(),
        // Salt tries to convert the value, and Python's `dict()` accepts an empty list and an empty text.
        (Type::Map, Value::List(items)) => items.is_empty(),
        (Type::Map, Value::Str(text)) => text.is_empty(),
        _ => false,
    }
}

/// Parses an integer as Python's `int()` does.
pub(crate) fn integer(text: &str) -> Option<i64> {
    // Underscores between digits are valid in Python (`10_000`).
    text.trim().replace('_', "").parse().ok()
}

fn word(kind: Type) -> &'static str {
    match kind {
        Type::Str => "text",
        Type::Int | Type::Float => "a number",
        Type::Bool => "true or false",
        Type::List => "a list",
        Type::Map => "a map",
        Type::None => "empty",
        Type::Any => "anything",
    }
}

/// Formats a value for a message: short, in Python's form. The caller must hide secrets.
pub(crate) fn brief_repr(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value::python::repr(value);
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn values_are_taken_as_salt_takes_them() {
        let fine = [
            (Type::Int, Value::from("4506")),
            (Type::Int, Value::from(4506)),
            (Type::Float, Value::from(1)),
            (Type::Float, Value::from("1.5")),
            (Type::Str, Value::from(1000)),
            (Type::Str, Value::from("sdb://vault/key")),
            (Type::Map, Value::from("sdb://vault/key")),
            (Type::Map, Value::from(map! {})),
            (Type::Any, Value::from(map! {})),
            (Type::None, Value::Null),
        ];
        for (kind, value) in fine {
            assert_eq!(check(&[kind], &value), Ok(()), "{kind:?} {value:?}");
        }
        let wrong = [
            (Type::Int, Value::from("abc"), "a number"),
            (Type::Int, Value::from(true), "a number"),
            (Type::Bool, Value::from("yes"), "true or false"),
            (Type::Bool, Value::from(1), "true or false"),
            (Type::Str, list![1], "text"),
            (Type::List, Value::from("roots"), "a list"),
            (Type::Map, list![1], "a map"),
            (Type::Float, Value::Null, "a number"),
        ];
        for (kind, value, must) in wrong {
            assert_eq!(check(&[kind], &value), Err(must.to_owned()), "{kind:?} {value:?}");
        }
        assert_eq!(check(&[Type::Str, Type::List], &Value::from(map! {})), Err("text or a list".into()));
    }
}
