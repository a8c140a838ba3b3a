//! Prints and compares values as Python does: `repr()`, `==`.

use std::fmt::Write;

use crate::{Map, Value};

/// Returns what Python's `repr()` prints.
///
/// ```
/// use saltern_value::{Value, list, python::repr};
/// assert_eq!(repr(&list!["it's", 1.0, Value::Null, true]), r#"["it's", 1.0, None, True]"#);
/// ```
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// Returns what Python's `repr()` prints for a dictionary.
pub fn repr_map(map: &Map) -> String {
    let mut out = String::new();
    write_map(&mut out, map);
    out
}

/// Returns the `repr()` of a text: quoted, with the escapes Python uses.
pub fn repr_str(text: &str) -> String {
    let mut out = String::new();
    write_str(&mut out, text);
    out
}

/// Returns the `repr()` of a float: the shortest digits that read back the same.
pub fn repr_float(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    // Rust's `e` form has the shortest digits; Python writes an exponent below -4 and from 16 on.
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{number}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

/// Compares as Python's `==` does: numbers by value whatever their type, containers item by item.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Bool(_) | Value::Int(_), Value::Bool(_) | Value::Int(_)) => a.as_i64() == b.as_i64(),
        (Value::Float(x), _) => b.as_f64() == Some(*x),
        (_, Value::Float(y)) => a.as_f64() == Some(*y),
        (Value::List(x), Value::List(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Map(x), Value::Map(y)) => {
            // Keys are compared structurally: `{1: 'a'} == {1.0: 'a'}`, true in Python, is false here.
            x.len() == y.len() && x.iter().all(|(key, x)| y.get_value(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(number) => drop(write!(out, "{number}")),
        Value::BigInt(number) => drop(write!(out, "{number}")),
        Value::Float(number) => out.push_str(&repr_float(*number)),
        Value::Str(text) => write_str(out, text),
        Value::Bytes(bytes) => write_bytes(out, bytes),
        Value::List(items) => write_list(out, items),
        Value::Map(map) => write_map(out, map),
        Value::DateTime(time) => {
            let _ = write!(
                out,
                "datetime.datetime({}, {}, {}, {}, {}",
                time.year, time.month, time.day, time.hour, time.minute
            );
            // Python leaves out trailing zeros, but the hour and the minute always stay.
            if time.second != 0 || time.micros != 0 {
                let _ = write!(out, ", {}", time.second);
            }
            if time.micros != 0 {
                let _ = write!(out, ", {}", time.micros);
            }
            out.push(')');
        }
        Value::Constant(constant) => out.push_str(&constant.0),
    }
}

fn write_list(out: &mut String, items: &[Value]) {
    out.push('[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        write_repr(out, item);
    }
    out.push(']');
}

fn write_map(out: &mut String, map: &Map) {
    out.push('{');
    for (place, (key, value)) in map.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        write_repr(out, key);
        out.push_str(": ");
        write_repr(out, value);
    }
    out.push('}');
}

fn write_str(out: &mut String, text: &str) {
    // Python switches to double quotes only where that saves an escape.
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if letter == quote => {
                out.push('\\');
                out.push(letter);
            }
            _ if printable(letter) => out.push(letter),
            _ => write_escape(out, letter as u32),
        }
    }
    out.push(quote);
}

fn write_escape(out: &mut String, code: u32) {
    let _ = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Approximates Python's `str.isprintable()`: no controls, no separators but the space, no private use.
fn printable(letter: char) -> bool {
    match letter as u32 {
        0x20..=0x7e => true,
        0..=0xa0 | 0xad | 0x1680 | 0x2000..=0x200f | 0x2028..=0x202f | 0x205f..=0x206f | 0x3000 => false,
        0xd800..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0xe0000.. => false,
        _ => true,
    }
}

fn write_bytes(out: &mut String, bytes: &[u8]) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    out.push('b');
    out.push(quote as char);
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ if byte == quote => {
                out.push('\\');
                out.push(byte as char);
            }
            0x20..=0x7e => out.push(byte as char),
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
    out.push(quote as char);
}

/// Shown as Python shows it: log lines and failed tests then read like those of the real Salt.
impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&repr_map(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map;

    #[test]
    fn floats_print_as_python_prints_them() {
        for (number, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            // On both sides of the thresholds of scientific notation.
            (1e16, "1e+16"),
            (123456789012345.6, "123456789012345.6"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1.5e300, "1.5e+300"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(repr_float(number), text);
        }
    }

    #[test]
    fn text_is_quoted_as_python_quotes_it() {
        assert_eq!(repr_str("a"), "'a'");
        assert_eq!(repr_str("it's"), "\"it's\"");
        assert_eq!(repr_str("it's \"so\""), "'it\\'s \"so\"'");
        assert_eq!(repr_str("é\u{0}\n\u{200b}"), "'é\\x00\\n\\u200b'");
    }

    #[test]
    fn containers_nest() {
        let value = Value::from(map! { "a" => vec![1, 2], "b" => map! {} });
        assert_eq!(repr(&value), "{'a': [1, 2], 'b': {}}");
        assert_eq!(repr(&Value::bytes(Bytes::from_static(b"\x00a'"))), "b\"\\x00a'\"");
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(equal(&Value::Int(1), &Value::Float(1.0)));
        assert!(equal(&Value::Bool(true), &Value::Int(1)));
        assert!(!equal(&Value::from("1"), &Value::Int(1)));
    }

    use crate::Bytes;
}
