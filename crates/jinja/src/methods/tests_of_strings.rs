//! The `is…` methods of text.

use super::strings::text;
use super::{Method, arity};
use crate::error::Error;
use crate::python::text::{
    is_alpha, is_cased, is_decimal, is_digit, is_numeric, is_printable, is_space, is_title, is_upper,
};
use crate::value::{CallArgs, Value};

pub(super) fn find(name: &str) -> Option<Method> {
    Some(match name {
        "isalnum" => |object, call| all(object, call, "isalnum", |char| is_alpha(char) || is_numeric(char)),
        "isalpha" => |object, call| all(object, call, "isalpha", is_alpha),
        "isdecimal" => |object, call| all(object, call, "isdecimal", is_decimal),
        "isdigit" => |object, call| all(object, call, "isdigit", is_digit),
        "isnumeric" => |object, call| all(object, call, "isnumeric", is_numeric),
        "isspace" => |object, call| all(object, call, "isspace", is_space),
        // Except these two: no character, no violation.
        "isascii" => |object, call| test(object, call, "isascii", str::is_ascii),
        "isprintable" => |object, call| test(object, call, "isprintable", |text| text.chars().all(is_printable)),
        "islower" => |object, call| test(object, call, "islower", is_lower),
        "isupper" => |object, call| test(object, call, "isupper", is_upper_text),
        "istitle" => |object, call| test(object, call, "istitle", is_title_text),
        "isidentifier" => |object, call| test(object, call, "isidentifier", is_identifier),
        _ => return None,
    })
}

fn all(object: &Value, call: &mut CallArgs, name: &str, class: fn(char) -> bool) -> Result<Value, Error> {
    arity(call, "str", name, 0, 0)?;
    let text = text(object);
    // Python's `is…` methods are false for empty text.
    Ok(Value::Bool(!text.is_empty() && text.chars().all(class)))
}

fn test(object: &Value, call: &mut CallArgs, name: &str, holds: fn(&str) -> bool) -> Result<Value, Error> {
    arity(call, "str", name, 0, 0)?;
    Ok(Value::Bool(holds(text(object))))
}

/// Returns whether all characters with a case are lower case, and there is one.
pub(crate) fn is_lower(text: &str) -> bool {
    let mut found = false;
    for char in text.chars().filter(|char| is_cased(*char)) {
        if is_upper(char) || is_title(char) {
            return false;
        }
        found = true;
    }
    found
}

/// Returns whether all characters with a case are upper case, and there is one.
pub(crate) fn is_upper_text(text: &str) -> bool {
    let mut found = false;
    for char in text.chars().filter(|char| is_cased(*char)) {
        if !is_upper(char) || is_title(char) {
            return false;
        }
        found = true;
    }
    found
}

fn is_title_text(text: &str) -> bool {
    let (mut found, mut inside) = (false, false);
    for char in text.chars() {
        let cased = is_cased(char);
        let upper = is_upper(char) || is_title(char);
        // Upper case must follow an uncased character, and lower case a cased one.
        if cased && upper == inside {
            return false;
        }
        found |= cased;
        inside = cased;
    }
    found
}

fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|char| char == '_' || unicode_ident::is_xid_start(char))
        && chars.all(unicode_ident::is_xid_continue)
}
