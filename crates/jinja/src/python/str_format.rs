//! `text.format(…)` with the sandbox's rules.

use super::{format_value, get_attr, get_item, get_item_raw};
use crate::error::{Error, ErrorKind};
use crate::run::State;
use crate::value::Value;

struct Numbering {
    next: usize,
    automatic: Option<bool>,
}

/// Formats text with arguments by position and by name.
pub(crate) fn str_format(state: &mut State, text: &str, args: &[Value], named: &Value) -> Result<String, Error> {
    let mut numbering = Numbering { next: 0, automatic: None };
    // Python's formatter allows a format inside a format specification, but no deeper.
    format(state, text, args, named, 2, &mut numbering)
}

fn format(
    state: &mut State,
    text: &str,
    args: &[Value],
    named: &Value,
    depth: u32,
    numbering: &mut Numbering,
) -> Result<String, Error> {
    let mut out = String::new();
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            char @ ('{' | '}') if chars.get(at + 1) == Some(&char) => {
                out.push(char);
                at += 2;
            }
            '}' => return Err(Error::value_error("Single '}' encountered in format string")),
            '{' => {
                at += 1;
                let field = field(&chars, &mut at)?;
                let piece = replace(state, &field, args, named, depth, numbering)?;
                state.check_size(out.len() + piece.len())?;
                out.push_str(&piece);
            }
            char => {
                out.push(char);
                at += 1;
            }
        }
    }
    Ok(out)
}

struct Field {
    name: String,
    conversion: Option<char>,
    spec: String,
}

/// Parses a field; `at` stands after its opening brace and moves after its closing one.
fn field(chars: &[char], at: &mut usize) -> Result<Field, Error> {
    let start = *at;
    if start >= chars.len() {
        return Err(Error::value_error("Single '{' encountered in format string"));
    }
    let (mut depth, mut end, mut bracket) = (1, start, false);
    // The name ends at the first sign outside of brackets; braces nest in the specification.
    let mut name_end = None;
    while end < chars.len() {
        match chars[end] {
            // Braces and colons inside brackets belong to the key: `{a[:]}`.
            '[' if name_end.is_none() => bracket = true,
            ']' if name_end.is_none() => bracket = false,
            '{' if name_end.is_none() && !bracket => {
                return Err(Error::value_error("unexpected '{' in field name"));
            }
            '{' if !bracket || name_end.is_some() => depth += 1,
            '}' if !bracket || name_end.is_some() => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            ':' | '!' if name_end.is_none() && !bracket => name_end = Some(end),
            _ => {}
        }
        end += 1;
    }
    if end >= chars.len() {
        return Err(Error::value_error("expected '}' before end of string"));
    }
    *at = end + 1;
    let text = |range: std::ops::Range<usize>| chars[range].iter().collect::<String>();
    let Some(mut rest) = name_end else {
        return Ok(Field { name: text(start..end), conversion: None, spec: String::new() });
    };
    let name = text(start..rest);
    let mut conversion = None;
    if chars[rest] == '!' {
        rest += 1;
        if rest >= end {
            return Err(Error::value_error("unmatched '{' in format spec"));
        }
        conversion = Some(chars[rest]);
        rest += 1;
        if rest < end && chars[rest] != ':' {
            return Err(Error::value_error("expected ':' after conversion specifier"));
        }
    }
    let spec = if rest < end { text(rest + 1..end) } else { String::new() };
    Ok(Field { name, conversion, spec })
}

fn replace(
    state: &mut State,
    field: &Field,
    args: &[Value],
    named: &Value,
    depth: u32,
    numbering: &mut Numbering,
) -> Result<String, Error> {
    let mut name = field.name.clone();
    let switch = |numbering: &mut Numbering, automatic: bool| -> Result<(), Error> {
        match numbering.automatic {
            Some(before) if before != automatic => {
                let text = "cannot switch from manual field specification to automatic field numbering";
                Err(Error::value_error(text))
            }
            _ => {
                numbering.automatic = Some(automatic);
                Ok(())
            }
        }
    };
    if name.is_empty() {
        // `{}` and `{0}` may not be mixed, but a nested specification continues the numbering.
        switch(numbering, true)?;
        name = numbering.next.to_string();
        numbering.next += 1;
    } else if name.chars().all(|char| char.is_ascii_digit()) {
        switch(numbering, false)?;
    }
    let value = lookup(state, &name, args, named)?;
    let value = match field.conversion {
        None => value,
        Some('s') => Value::str(state.str(&value)?),
        // Python's string.Formatter supports `!a` and would escape non-ASCII text in it; here it prints like `!r`.
        Some('r' | 'a') => Value::str(state.repr(&value)?),
        Some(other) => {
            return Err(Error::value_error(format!("Unknown conversion specifier {other}")));
        }
    };
    if depth == 0 {
        return Err(Error::value_error("Max string recursion exceeded"));
    }
    let spec = if field.spec.contains(['{', '}']) {
        if depth == 1 {
            return Err(Error::value_error("Max string recursion exceeded"));
        }
        format(state, &field.spec, args, named, depth - 1, numbering)?
    } else {
        field.spec.clone()
    };
    format_value(state, &value, &spec)
}

/// Finds what a field's name means: an argument, then its attributes and items.
fn lookup(state: &mut State, name: &str, args: &[Value], named: &Value) -> Result<Value, Error> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let mut value = match first.parse::<usize>() {
        // Rust's parser also takes `+1`, which is a name here.
        Ok(index) if first.chars().all(|char| char.is_ascii_digit()) => match args.get(index) {
            Some(value) => value.clone(),
            None => {
                // The arguments are a tuple in Jinja's formatter, and its error shows that.
                return Err(Error::new(ErrorKind::Index, "tuple index out of range"));
            }
        },
        _ => get_item_raw(state, named, &Value::str(first))?,
    };
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return Err(Error::value_error("Empty attribute in format string"));
            }
            // Through the sandbox: an attribute in a format is the classical way around it.
            value = get_attr(state, &value, &after[..end].into())?;
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            let Some(end) = after.find(']') else {
                return Err(Error::value_error("Missing ']' in format string"));
            };
            let key = &after[..end];
            if key.is_empty() {
                return Err(Error::value_error("Empty attribute in format string"));
            }
            let key = match key.parse::<i64>() {
                Ok(index) if key.chars().all(|char| char.is_ascii_digit()) => Value::Int(index),
                _ => Value::str(key),
            };
            value = get_item(state, &value, &key)?;
            rest = &after[end + 1..];
        } else {
            return Err(Error::value_error("Only '.' or '[' may follow ']' in format field specifier"));
        }
    }
    Ok(value)
}
