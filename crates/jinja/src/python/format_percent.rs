//! `text % values`.

use num_bigint::Sign;
use num_traits::{FromPrimitive, ToPrimitive};

use super::format_spec::{exponent, fixed, general, radix_digits};
use super::text::char_count;
use crate::error::{Error, ErrorKind};
use crate::run::State;
use crate::value::{BigInt, Value};

#[derive(Default)]
struct Flags {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

struct Formatter<'a> {
    values: Vec<Value>,
    next: usize,
    /// The mapping, if the right side is one.
    mapping: Option<&'a Value>,
    used_mapping: bool,
    is_tuple: bool,
    /// Text that is put in is escaped.
    markup: bool,
}

/// Evaluates `text % values`.
pub(crate) fn percent(state: &mut State, text: &Value, values: &Value) -> Result<Value, Error> {
    let is_tuple = matches!(values, Value::Tuple(_));
    let items = match values {
        Value::Tuple(items) => items.to_vec(),
        other => vec![other.clone()],
    };
    // Python takes anything with `__getitem__` for a mapping here, except tuples and text.
    let has_items = match values {
        Value::Dict(_) | Value::List(_) | Value::Undefined(_) | Value::Range(_) => true,
        Value::Object(object) => object.has_items(),
        _ => false,
    };
    let mut formatter = Formatter {
        values: items,
        next: 0,
        mapping: has_items.then_some(values),
        used_mapping: false,
        is_tuple,
        markup: matches!(text, Value::Markup(_)),
    };
    let out = formatter.run(state, text.as_str().unwrap_or_default())?;
    Ok(if formatter.markup { Value::markup(out) } else { Value::str(out) })
}

impl Formatter<'_> {
    fn take(&mut self) -> Result<Value, Error> {
        match self.values.get(self.next) {
            Some(value) => {
                self.next += 1;
                Ok(value.clone())
            }
            None => Err(Error::type_error("not enough arguments for format string")),
        }
    }

    fn run(&mut self, state: &mut State, format: &str) -> Result<String, Error> {
        let mut out = String::new();
        let chars: Vec<char> = format.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            if chars[at] != '%' {
                out.push(chars[at]);
                at += 1;
                continue;
            }
            at += 1;
            let piece = self.conversion(state, &chars, &mut at)?;
            state.check_size(out.len() + piece.len())?;
            out.push_str(&piece);
        }
        // A mapping may hold more than the format uses, and a single value that could be a mapping is not counted.
        if self.next < self.values.len() && !self.used_mapping && (self.is_tuple || self.mapping.is_none()) {
            return Err(Error::type_error("not all arguments converted during string formatting"));
        }
        Ok(out)
    }

    fn conversion(&mut self, state: &mut State, chars: &[char], at: &mut usize) -> Result<String, Error> {
        let incomplete = || Error::value_error("incomplete format");
        let mut named = None;
        if chars.get(*at) == Some(&'(') {
            *at += 1;
            // Keys may contain balanced parentheses.
            let (start, mut depth) = (*at, 1);
            while depth > 0 {
                match chars.get(*at) {
                    Some('(') => depth += 1,
                    Some(')') => depth -= 1,
                    Some(_) => {}
                    None => return Err(Error::value_error("incomplete format key")),
                }
                *at += 1;
            }
            let key: String = chars[start..*at - 1].iter().collect();
            let Some(mapping) = self.mapping else { return Err(Error::type_error("format requires a mapping")) };
            self.used_mapping = true;
            named = Some(super::get_item_raw(state, mapping, &Value::str(key))?);
        }
        let mut flags = Flags::default();
        loop {
            match chars.get(*at) {
                Some('-') => flags.left = true,
                Some('+') => flags.plus = true,
                Some(' ') => flags.space = true,
                Some('#') => flags.alternate = true,
                Some('0') => flags.zero = true,
                _ => break,
            }
            *at += 1;
        }
        if chars.get(*at) == Some(&'*') {
            *at += 1;
            let width = self.star()?;
            flags.left |= width < 0;
            flags.width = width.unsigned_abs() as usize;
        } else {
            flags.width = number(chars, at, "width too big")?;
        }
        if chars.get(*at) == Some(&'.') {
            *at += 1;
            flags.precision = Some(if chars.get(*at) == Some(&'*') {
                *at += 1;
                self.star()?.max(0) as usize
            } else {
                number(chars, at, "precision too big")?
            });
        }
        // C's length modifiers are allowed and mean nothing.
        if chars.get(*at).is_some_and(|char| matches!(char, 'h' | 'l' | 'L')) {
            *at += 1;
        }
        let kind = *chars.get(*at).ok_or_else(incomplete)?;
        *at += 1;
        // Python allows flags and a width before a second percent sign, and ignores them.
        if kind == '%' {
            return Ok("%".to_string());
        }
        let value = match named {
            Some(value) => value,
            None => self.take()?,
        };
        // A character of padding or text takes up to four bytes.
        state.check_size(flags.width.max(flags.precision.unwrap_or(0)).saturating_mul(4))?;
        self.convert(state, kind, &flags, &value, *at - 1)
    }

    fn star(&mut self) -> Result<i64, Error> {
        let value = self.take()?;
        value.as_i64().ok_or_else(|| Error::type_error("* wants int"))
    }

    fn convert(
        &mut self,
        state: &mut State,
        kind: char,
        flags: &Flags,
        value: &Value,
        at: usize,
    ) -> Result<String, Error> {
        match kind {
            's' | 'r' | 'a' => {
                let mut text = match kind {
                    's' => state.str(value)?,
                    _ => state.repr(value)?,
                };
                if self.markup {
                    text = match (kind, value) {
                        ('s', _) => crate::filters::escape(state, value)?,
                        _ => crate::filters::escape_text(&text),
                    };
                }
                if kind == 'a' {
                    text = ascii(&text);
                }
                if let Some(precision) = flags.precision {
                    text = text.chars().take(precision).collect();
                }
                Ok(pad(text, flags))
            }
            'c' => {
                let char = match value {
                    Value::Str(text) | Value::Markup(text) if char_count(text) == 1 => text.chars().next(),
                    Value::Int(_) | Value::Bool(_) => {
                        let code = value.as_i64().and_then(|code| u32::try_from(code).ok());
                        let char = code.and_then(char::from_u32);
                        if char.is_none() {
                            return Err(Error::new(ErrorKind::Overflow, "%c arg not in range(0x110000)"));
                        }
                        char
                    }
                    _ => None,
                };
                match char {
                    Some(char) => Ok(pad(char.to_string(), flags)),
                    None => Err(Error::type_error("%c requires int or char")),
                }
            }
            'd' | 'i' | 'u' | 'o' | 'x' | 'X' => self.integer(kind, flags, value),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => self.float(kind, flags, value),
            other => {
                let shown = if (' '..='~').contains(&other) { other } else { '?' };
                Err(Error::value_error(format!(
                    "unsupported format character '{shown}' ({:#x}) at index {at}",
                    other as u32
                )))
            }
        }
    }

    fn integer(&self, kind: char, flags: &Flags, value: &Value) -> Result<String, Error> {
        let shown = kind;
        let int = match value {
            // `%d` calls `__int__`, which undefined values have; `%x` wants an integer and refuses them by type.
            Value::Undefined(undefined) if matches!(kind, 'd' | 'i' | 'u') => return Err(undefined.fail()),
            Value::Float(number) if matches!(kind, 'd' | 'i' | 'u') => float_to_int(*number)?,
            other => match super::to_big(other) {
                Some(int) => int,
                None if matches!(kind, 'd' | 'i' | 'u') => {
                    let name = other.class_path();
                    return Err(Error::type_error(format!("%{shown} format: a real number is required, not {name}")));
                }
                None => {
                    let name = other.class_path();
                    return Err(Error::type_error(format!("%{shown} format: an integer is required, not {name}")));
                }
            },
        };
        let mut digits = radix_digits(&int, kind)?;
        if let Some(precision) = flags.precision {
            digits = format!("{}{digits}", "0".repeat(precision.saturating_sub(digits.len())));
        }
        let prefix = match (flags.alternate, kind) {
            (true, 'o') => "0o",
            (true, 'x') => "0x",
            (true, 'X') => "0X",
            _ => "",
        };
        Ok(signed(int.sign() == Sign::Minus, prefix, &digits, flags))
    }

    fn float(&self, kind: char, flags: &Flags, value: &Value) -> Result<String, Error> {
        let number = match value {
            Value::Float(number) => *number,
            Value::Undefined(undefined) => return Err(undefined.fail()),
            other => match super::to_big(other) {
                Some(int) => super::compare::big_to_f64(&int)?,
                None => {
                    return Err(Error::type_error(format!("must be real number, not {}", other.class_path())));
                }
            },
        };
        let precision = flags.precision.unwrap_or(6);
        let text = match kind.to_ascii_lowercase() {
            'e' => exponent(number.abs(), precision, flags.alternate),
            'f' => fixed(number.abs(), precision, flags.alternate),
            _ => general(number.abs(), precision.max(1), flags.alternate, false),
        };
        let text = if kind.is_ascii_uppercase() { text.to_uppercase() } else { text };
        Ok(signed(number.is_sign_negative() && !number.is_nan(), "", &text, flags))
    }
}

fn number(chars: &[char], at: &mut usize, too_big: &str) -> Result<usize, Error> {
    let mut number: usize = 0;
    while let Some(digit) = chars.get(*at).and_then(|char| char.to_digit(10)) {
        number = number * 10 + digit as usize;
        // Checked at each digit, so that a long number cannot overflow. CPython bounds the width later, but no width
        // beyond this one could be filled.
        if number > i32::MAX as usize {
            return Err(Error::value_error(too_big));
        }
        *at += 1;
    }
    Ok(number)
}

fn float_to_int(number: f64) -> Result<BigInt, Error> {
    if number.is_nan() {
        return Err(Error::value_error("cannot convert float NaN to integer"));
    }
    if number.is_infinite() {
        return Err(Error::new(ErrorKind::Overflow, "cannot convert float infinity to integer"));
    }
    Ok(number.to_i64().map(BigInt::from).or_else(|| BigInt::from_f64(number.trunc())).unwrap_or_default())
}

fn signed(negative: bool, prefix: &str, digits: &str, flags: &Flags) -> String {
    let sign = match (negative, flags.plus, flags.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    // The zeros go between the sign and the digits; `-` beats `0`, as in C.
    if flags.zero && !flags.left {
        let missing = flags.width.saturating_sub(sign.len() + prefix.len() + digits.len());
        return format!("{sign}{prefix}{}{digits}", "0".repeat(missing));
    }
    pad(format!("{sign}{prefix}{digits}"), flags)
}

fn pad(text: String, flags: &Flags) -> String {
    let missing = flags.width.saturating_sub(char_count(&text));
    if missing == 0 {
        return text;
    }
    let spaces = " ".repeat(missing);
    if flags.left { text + &spaces } else { spaces + &text }
}

fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char as u32 {
            0..=0x7f => out.push(char),
            code @ 0x80..=0xff => out.push_str(&format!("\\x{code:02x}")),
            code @ 0x100..=0xffff => out.push_str(&format!("\\u{code:04x}")),
            code => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out
}
