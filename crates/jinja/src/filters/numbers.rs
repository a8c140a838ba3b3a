//! Filters of numbers.

use num_bigint::Sign;
use num_traits::{FromPrimitive, Pow, Signed, ToPrimitive};

use super::{Path, integer};
use crate::error::{Error, ErrorKind};
use crate::python::text::{decimal_value, is_space};
use crate::python::{self, to_big, truthy};
use crate::value::{BigInt, CallArgs, Value, ValueIter};

pub(super) fn abs(call: &mut CallArgs) -> Result<Value, Error> {
    call.no_kwargs("abs")?;
    let given = call.args.len();
    if given != 1 {
        return Err(Error::type_error(format!("abs() takes exactly one argument ({given} given)")));
    }
    match &call.args[0] {
        Value::Float(number) => Ok(Value::Float(number.abs())),
        other => match to_big(other) {
            Some(number) => Ok(Value::int(number.abs())),
            None => Err(Error::type_error(format!("bad operand type for abs(): '{}'", other.type_name()))),
        },
    }
}

/// Parses an integer as Python's `int(text, base)`; `None` where Python raises a ValueError.
pub(crate) fn parse_int(text: &str, base: u32) -> Option<BigInt> {
    let trimmed = text.trim_matches(is_space);
    let (negative, digits) = match trimmed.chars().next()? {
        '-' => (true, &trimmed[1..]),
        '+' => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let prefix = |digits: &str| match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0b") => Some(2),
        Some("0o") => Some(8),
        Some("0x") => Some(16),
        _ => None,
    };
    let (base, mut digits) = match (base, prefix(digits)) {
        (0, Some(found)) => (found, &digits[2..]),
        (0, None) => {
            // With base 0 Python reads a Python literal, where `010` is an error but `00` is zero.
            let leading = digits.len() > 1 && digits.starts_with('0');
            if leading && digits.bytes().any(|byte| !matches!(byte, b'0' | b'_')) {
                return None;
            }
            (10, digits)
        }
        (base, Some(found)) if base == found => (base, &digits[2..]),
        (base, _) => (base, digits),
    };
    if digits.len() < trimmed.len()
        && digits.starts_with('_')
        && prefix(trimmed.trim_start_matches(['-', '+'])).is_some()
    {
        // One underscore may follow a prefix: `0x_ff`.
        digits = &digits[1..];
    }
    if digits.is_empty() || digits.starts_with('_') || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    let mut plain = String::with_capacity(digits.len());
    for char in digits.chars().filter(|char| *char != '_') {
        match char {
            char if char.is_ascii_alphanumeric() => plain.push(char),
            // Python accepts the decimal digits of every script.
            other => plain.push(char::from_digit(decimal_value(other)?, 10)?),
        }
    }
    if !(2..=36).contains(&base) {
        return None;
    }
    let number = BigInt::parse_bytes(plain.as_bytes(), base)?;
    Some(if negative { -number } else { number })
}

/// Parses a float as Python's `float(text)`; `None` where Python raises a ValueError.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let trimmed = text.trim_matches(is_space);
    let mut plain = String::with_capacity(trimmed.len());
    let chars: Vec<char> = trimmed.chars().collect();
    for (at, char) in chars.iter().enumerate() {
        match char {
            '_' => {
                let digit = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(|c| c.is_ascii_digit());
                if !digit(at.checked_sub(1)) || !digit(Some(at + 1)) {
                    return None;
                }
            }
            char if char.is_ascii() => plain.push(*char),
            other => plain.push(char::from_digit(decimal_value(*other)?, 10)?),
        }
    }
    let bare = plain.trim_start_matches(['+', '-']).to_ascii_lowercase();
    // Rust's parser also takes these names, but Python's takes no others, such as `infinit`.
    let named = matches!(bare.as_str(), "inf" | "infinity" | "nan");
    if !named && !bare.starts_with(|char: char| char.is_ascii_digit() || char == '.') {
        return None;
    }
    plain.parse().ok()
}

fn float_to_int(number: f64) -> Option<Value> {
    number.is_finite().then(|| Value::int(BigInt::from_f64(number.trunc()).unwrap_or_default()))
}

pub(super) fn int(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("default", Some(Value::Int(0))), ("base", Some(Value::Int(10)))];
    let [value, default, base] = call.bind("do_int", params)?;
    match &value {
        Value::Undefined(undefined) => Err(undefined.fail()),
        Value::Float(number) if number.is_infinite() => {
            Err(Error::new(ErrorKind::Overflow, "cannot convert float infinity to integer"))
        }
        // NaN gives the default, but infinity is an error: `do_int` catches ValueError and not OverflowError.
        Value::Float(number) => Ok(float_to_int(*number).unwrap_or(default)),
        Value::Str(text) | Value::Markup(text) => {
            let base = integer(&base).unwrap_or(0);
            if base != 0 && !(2..=36).contains(&base) {
                return Ok(parse_float(text).and_then(float_to_int).unwrap_or(default));
            }
            Ok(match parse_int(text, base as u32) {
                // Python refuses to read more than 4,300 digits, which is 14,284 bits, and Jinja then tries a float:
                // infinity, so the default.
                Some(number) if number.bits() < 14_284 => Value::int(number),
                _ => parse_float(text).and_then(float_to_int).unwrap_or(default),
            })
        }
        other => Ok(to_big(other).map_or(default, Value::int)),
    }
}

pub(super) fn float(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, default] = call.bind("do_float", [("value", None), ("default", Some(Value::Float(0.0)))])?;
    match &value {
        Value::Undefined(undefined) => Err(undefined.fail()),
        Value::Float(_) => Ok(value),
        Value::Str(text) | Value::Markup(text) => Ok(parse_float(text).map_or(default, Value::Float)),
        other => match to_big(other) {
            Some(number) => match number.to_f64().filter(|float| float.is_finite()) {
                Some(float) => Ok(Value::Float(float)),
                None => Err(Error::new(ErrorKind::Overflow, "int too large to convert to float")),
            },
            None => Ok(default),
        },
    }
}

/// Rounds the exact value at a decimal place; a half goes to the even neighbour.
fn round_float(number: f64, places: i64) -> f64 {
    // A double has no digit beyond 10^-323 and none above 10^309: CPython answers without computing.
    if !number.is_finite() || places > 323 {
        return number;
    }
    if places < -309 {
        return 0f64.copysign(number);
    }
    if places >= 0 {
        // Through text, as CPython does: scaling by a power of ten rounds twice and would make `4.825|round(2)` 4.82
        // instead of 4.83.
        return format!("{number:.*}", places as usize).parse().unwrap_or(number);
    }
    // The digits left of the point are rounded with an exact decimal of the whole number.
    let whole = BigInt::from_f64(number.trunc()).unwrap_or_default();
    let unit: BigInt = Pow::pow(BigInt::from(10), places.unsigned_abs() as u32);
    let rounded = round_big(&whole, &unit, number.fract() != 0.0);
    rounded.to_f64().unwrap_or(number)
}

fn round_big(whole: &BigInt, unit: &BigInt, more: bool) -> BigInt {
    let magnitude = whole.abs();
    let (mut quotient, rest) = (&magnitude / unit, &magnitude % unit);
    let twice: BigInt = &rest * 2;
    let up = match twice.cmp(unit) {
        std::cmp::Ordering::Greater => true,
        // Half goes to the even neighbour, unless a fraction beyond the whole digits makes it more than half.
        std::cmp::Ordering::Equal => more || quotient.bit(0),
        std::cmp::Ordering::Less => false,
    };
    if up {
        quotient += 1;
    }
    let rounded = quotient * unit;
    if whole.sign() == Sign::Minus { -rounded } else { rounded }
}

pub(super) fn round(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("precision", Some(Value::Int(0))), ("method", Some(Value::str("common")))];
    let [value, precision, method] = call.bind("do_round", params)?;
    let method = method.as_str().unwrap_or_default().to_string();
    if !matches!(method.as_str(), "common" | "ceil" | "floor") {
        return Err(Error::new(ErrorKind::FilterArgument, "method must be common, ceil or floor"));
    }
    if method == "common" {
        return match &value {
            Value::Float(number) => {
                let places = integer(&precision)?;
                let rounded = round_float(*number, places);
                if rounded.is_infinite() && number.is_finite() {
                    return Err(Error::new(ErrorKind::Overflow, "rounded value too large to represent"));
                }
                Ok(Value::Float(rounded))
            }
            Value::Undefined(_) => {
                let name = value.type_name();
                Err(Error::type_error(format!("type {name} doesn't define __round__ method")))
            }
            other => match to_big(other) {
                Some(number) => {
                    let places = integer(&precision)?;
                    if places >= 0 {
                        return Ok(Value::int(number));
                    }
                    // A number has fewer decimal digits than bits, so this rounds to zero; `10 ** n` must not be
                    // computed for a huge `n`.
                    if places < -(number.bits() as i64) {
                        return Ok(Value::Int(0));
                    }
                    let unit: BigInt = Pow::pow(BigInt::from(10), places.unsigned_abs() as u32);
                    Ok(Value::int(round_big(&number, &unit, false)))
                }
                None => {
                    let name = other.type_name();
                    Err(Error::type_error(format!("type {name} doesn't define __round__ method")))
                }
            },
        };
    }
    let state = &mut *call.state;
    // `ceil` and `floor` scale and divide with Python's operators. Their rounding errors are visible and therefore
    // kept.
    let power = python::binary(state, python::BinOp::Pow, &Value::Int(10), &precision)?;
    let scaled = python::mul(state, &value, &power)?;
    let whole = match &scaled {
        Value::Float(number) => {
            if number.is_nan() {
                return Err(Error::value_error("cannot convert float NaN to integer"));
            }
            if number.is_infinite() {
                return Err(Error::new(ErrorKind::Overflow, "cannot convert float infinity to integer"));
            }
            let number = if method == "ceil" { number.ceil() } else { number.floor() };
            Value::int(BigInt::from_f64(number).unwrap_or_default())
        }
        Value::Int(_) | Value::Bool(_) | Value::Big(_) => scaled,
        other => return Err(Error::type_error(format!("must be real number, not {}", other.type_name()))),
    };
    python::div(&whole, &power)
}

pub(super) fn sum(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("iterable", None), ("attribute", Some(Value::None)), ("start", Some(Value::Int(0)))];
    let [items, attribute, start] = call.bind("sync_do_sum", params)?;
    let state = &mut *call.state;
    let path = Path::new(&attribute);
    let mut walk = python::iterate(state, &items)?;
    // Python's sum() checks this before the first item.
    if start.as_str().is_some() {
        return Err(Error::type_error("sum() can't sum strings [use ''.join(seq) instead]"));
    }
    let mut total = start;
    while let Some(item) = ValueIter::next(&mut *walk, state)? {
        state.spend(1)?;
        let value = path.get(state, &item)?;
        total = python::add(state, &total, &value)?;
    }
    Ok(total)
}

pub(super) fn filesizeformat(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("binary", Some(Value::Bool(false)))];
    let [value, binary] = call.bind("do_filesizeformat", params)?;
    let bytes = match &value {
        Value::Undefined(undefined) => return Err(undefined.fail()),
        Value::Float(number) => *number,
        Value::Str(text) | Value::Markup(text) => parse_float(text).ok_or_else(|| {
            Error::value_error(format!("could not convert string to float: {}", python::repr_str(text)))
        })?,
        other => match to_big(other).and_then(|number| number.to_f64()) {
            Some(number) => number,
            None => {
                let name = other.type_name();
                let text = format!("float() argument must be a string or a real number, not '{name}'");
                return Err(Error::type_error(text));
            }
        },
    };
    let binary = truthy(call.state, &binary)?;
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok(Value::str("1 Byte"));
    }
    if bytes < base {
        return Ok(Value::str(format!("{} Bytes", bytes.trunc())));
    }
    let units = if binary {
        ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]
    } else {
        ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]
    };
    // The last unit stays in `text` when the number exceeds all of them.
    let mut unit = base;
    let mut text = String::new();
    for name in units {
        unit *= base;
        text = format!("{:.1} {name}", base * bytes / unit);
        if bytes < unit {
            break;
        }
    }
    Ok(Value::str(text))
}
