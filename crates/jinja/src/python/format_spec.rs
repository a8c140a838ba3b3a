//! The mini-language of `format()`.

use num_bigint::Sign;
use num_traits::{Signed, ToPrimitive};

use super::text::char_count;
use crate::error::{Error, ErrorKind};
use crate::run::State;
use crate::value::{BigInt, Value};

#[derive(Clone, Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    negative_zero: bool,
    alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

fn digits(rest: &mut &str) -> Result<Option<usize>, Error> {
    let len = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, after) = rest.split_at(len);
    *rest = after;
    if number.is_empty() {
        return Ok(None);
    }
    match number.parse::<usize>() {
        // CPython's bound is that of the machine's word. No width beyond this one could be filled anyway.
        Ok(number) if number <= i32::MAX as usize => Ok(Some(number)),
        _ => Err(Error::value_error("Too many decimal digits in format string")),
    }
}

fn take(rest: &mut &str, wanted: &[char]) -> Option<char> {
    let char = rest.chars().next().filter(|char| wanted.contains(char))?;
    *rest = &rest[char.len_utf8()..];
    Some(char)
}

fn parse(spec: &str, of: &str) -> Result<Spec, Error> {
    let mut parsed = Spec::default();
    let mut rest = spec;
    let align = ['<', '>', '=', '^'];
    let mut chars = rest.chars();
    // The fill may be any character, even one of the alignment signs: `<<5`. Hence the look at the second character
    // first.
    if let (Some(fill), Some(sign)) = (chars.next(), chars.next())
        && align.contains(&sign)
    {
        parsed.fill = Some(fill);
        parsed.align = Some(sign);
        rest = chars.as_str();
    } else {
        parsed.align = take(&mut rest, &align);
    }
    parsed.sign = take(&mut rest, &['+', '-', ' ']);
    parsed.negative_zero = take(&mut rest, &['z']).is_some();
    parsed.alternate = take(&mut rest, &['#']).is_some();
    if parsed.fill.is_none() && take(&mut rest, &['0']).is_some() {
        parsed.fill = Some('0');
        // Since Python 3.10 a leading zero does not align text like a number.
        if parsed.align.is_none() && of != "str" {
            parsed.align = Some('=');
        }
    }
    parsed.width = digits(&mut rest)?.unwrap_or(0);
    // The order and the wording of these checks are CPython's parser's.
    parsed.grouping = take(&mut rest, &[',']);
    if let Some(second) = take(&mut rest, &['_']) {
        if parsed.grouping.is_some() {
            return Err(Error::value_error("Cannot specify both ',' and '_'."));
        }
        parsed.grouping = Some(second);
        if take(&mut rest, &[',']).is_some() {
            return Err(Error::value_error("Cannot specify both ',' and '_'."));
        }
    } else if parsed.grouping.is_some() && take(&mut rest, &[',']).is_some() {
        return Err(Error::value_error("Cannot specify ',' with ','."));
    }
    if take(&mut rest, &['.']).is_some() {
        parsed.precision = digits(&mut rest)?;
        if parsed.precision.is_none() {
            return Err(Error::value_error("Format specifier missing precision"));
        }
    }
    let mut chars = rest.chars();
    parsed.kind = chars.next();
    if chars.next().is_some() {
        return Err(Error::value_error(format!("Invalid format specifier '{spec}' for object of type '{of}'")));
    }
    if let (Some(grouping), Some(kind)) = (parsed.grouping, parsed.kind) {
        let fits = match kind {
            'd' | 'e' | 'f' | 'g' | 'E' | 'G' | '%' | 'F' => true,
            'b' | 'o' | 'x' | 'X' => grouping == '_',
            _ => false,
        };
        if !fits {
            return Err(Error::value_error(format!("Cannot specify '{grouping}' with '{kind}'.")));
        }
    }
    Ok(parsed)
}

fn unknown(kind: char, of: &str) -> Error {
    let shown = if (' '..='~').contains(&kind) { kind.to_string() } else { format!("\\x{:x}", kind as u32) };
    Error::value_error(format!("Unknown format code '{shown}' for object of type '{of}'"))
}

/// Formats a value as Python's `format(value, spec)`.
pub(crate) fn format_value(state: &mut State, value: &Value, spec: &str) -> Result<String, Error> {
    if let Value::Undefined(undefined) = value {
        undefined.lenient()?;
    }
    if spec.is_empty() {
        return state.str(value);
    }
    match value {
        Value::Str(text) | Value::Markup(text) => format_str(state, text, spec),
        Value::Int(_) | Value::Bool(_) | Value::Big(_) => format_int(state, value, spec),
        Value::Float(number) => {
            let spec = parse(spec, "float")?;
            state.check_size(spec.width.max(spec.precision.unwrap_or(0)))?;
            let kind = spec.kind;
            match kind {
                None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'n' | '%') => format_float(*number, &spec),
                Some(kind) => Err(unknown(kind, "float")),
            }
        }
        other => {
            let name = other.type_name();
            Err(Error::type_error(format!("unsupported format string passed to {name}.__format__")))
        }
    }
}

fn format_str(state: &State, text: &str, spec: &str) -> Result<String, Error> {
    let spec = parse(spec, "str")?;
    if let Some(kind) = spec.kind.filter(|kind| *kind != 's') {
        return Err(unknown(kind, "str"));
    }
    if let Some(sign) = spec.sign {
        let what = if sign == ' ' { "Space" } else { "Sign" };
        return Err(Error::value_error(format!("{what} not allowed in string format specifier")));
    }
    if spec.negative_zero {
        return Err(Error::value_error("Negative zero coercion (z) not allowed in string format specifier"));
    }
    if spec.alternate {
        return Err(Error::value_error("Alternate form (#) not allowed in string format specifier"));
    }
    if let Some(grouping) = spec.grouping {
        return Err(Error::value_error(format!("Cannot specify '{grouping}' with 's'.")));
    }
    if spec.align == Some('=') {
        return Err(Error::value_error("'=' alignment not allowed in string format specifier"));
    }
    state.check_size(spec.width.saturating_mul(4))?;
    let cut: String = match spec.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text.to_string(),
    };
    Ok(pad(&cut, &spec, '<'))
}

fn pad(text: &str, spec: &Spec, default: char) -> String {
    let missing = spec.width.saturating_sub(char_count(text));
    let fill = |count: usize| spec.fill.unwrap_or(' ').to_string().repeat(count);
    match spec.align.unwrap_or(default) {
        '<' => format!("{text}{}", fill(missing)),
        '^' => format!("{}{text}{}", fill(missing / 2), fill(missing - missing / 2)),
        _ => format!("{}{text}", fill(missing)),
    }
}

fn group(digits: &str, every: usize, sign: char) -> String {
    let count = digits.len();
    let mut out = String::with_capacity(count + count / every);
    for (at, char) in digits.chars().enumerate() {
        if at > 0 && (count - at).is_multiple_of(every) {
            out.push(sign);
        }
        out.push(char);
    }
    out
}

/// Puts sign, prefix, grouped digits and the rest together and fills the width.
fn number(negative: bool, prefix: &str, whole: &str, rest: &str, spec: &Spec, every: usize) -> String {
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (_, Some('+')) => "+",
        (_, Some(' ')) => " ",
        _ => "",
    };
    let inside_zeros = spec.fill == Some('0') && spec.align == Some('=');
    let mut whole = whole.to_string();
    if let Some(grouping) = spec.grouping {
        if inside_zeros {
            // Zeros are grouped too, and fill at least the width.
            let room = spec.width.saturating_sub(sign.len() + prefix.len() + rest.len());
            let mut grouped = group(&whole, every, grouping);
            while grouped.len() < room {
                whole.insert(0, '0');
                grouped = group(&whole, every, grouping);
            }
            whole = grouped;
        } else {
            whole = group(&whole, every, grouping);
        }
    }
    let body = format!("{whole}{rest}");
    match spec.align.unwrap_or('>') {
        '=' => {
            let missing = spec.width.saturating_sub(sign.len() + prefix.len() + char_count(&body));
            let fill = spec.fill.unwrap_or(' ').to_string().repeat(missing);
            format!("{sign}{prefix}{fill}{body}")
        }
        _ => pad(&format!("{sign}{prefix}{body}"), spec, '>'),
    }
}

fn format_int(state: &State, value: &Value, spec: &str) -> Result<String, Error> {
    let name = value.type_name();
    let spec = parse(spec, name)?;
    state.check_size(spec.width.max(spec.precision.unwrap_or(0)).saturating_mul(4))?;
    let int = super::to_big(value).unwrap_or_default();
    match spec.kind {
        None | Some('d' | 'n' | 'b' | 'o' | 'x' | 'X' | 'c') => {}
        // An integer with a float's format is converted first.
        Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => {
            let float = super::compare::big_to_f64(&int)?;
            return format_float(float, &spec);
        }
        Some(kind) => return Err(unknown(kind, name)),
    }
    if spec.precision.is_some() {
        return Err(Error::value_error("Precision not allowed in integer format specifier"));
    }
    if spec.negative_zero {
        return Err(Error::value_error("Negative zero coercion (z) not allowed in format specifier with integer"));
    }
    if spec.kind == Some('c') {
        if spec.sign.is_some() {
            return Err(Error::value_error("Sign not allowed with integer format specifier 'c'"));
        }
        if spec.alternate {
            return Err(Error::value_error("Alternate form (#) not allowed with integer format specifier 'c'"));
        }
        let char = int.to_u32().and_then(char::from_u32);
        return match char {
            Some(char) => Ok(number(false, "", &char.to_string(), "", &spec, 3)),
            None => Err(Error::new(ErrorKind::Overflow, "%c arg not in range(0x110000)")),
        };
    }
    let magnitude = int.abs();
    let (radix, prefix, every) = match spec.kind {
        Some('b') => (2, "0b", 4),
        Some('o') => (8, "0o", 4),
        Some('x') => (16, "0x", 4),
        Some('X') => (16, "0X", 4),
        _ => (10, "", 3),
    };
    let mut digits = if radix == 10 { super::int_text(&magnitude)? } else { magnitude.to_str_radix(radix) };
    if spec.kind == Some('X') {
        digits = digits.to_uppercase();
    }
    let prefix = if spec.alternate { prefix } else { "" };
    Ok(number(int.sign() == Sign::Minus, prefix, &digits, "", &spec, every))
}

fn format_float(value: f64, spec: &Spec) -> Result<String, Error> {
    let mut value = value;
    let kind = spec.kind;
    let percent = kind == Some('%');
    if percent {
        value *= 100.0;
    }
    let text = match kind {
        // Without a type a float prints like `repr()`, or like `%g` that keeps one decimal.
        None => match spec.precision {
            None => super::repr_float(value.abs()),
            Some(precision) => general(value.abs(), precision.max(1), spec.alternate, true),
        },
        Some('e' | 'E') => exponent(value.abs(), spec.precision.unwrap_or(6), spec.alternate),
        Some('f' | 'F' | '%') => fixed(value.abs(), spec.precision.unwrap_or(6), spec.alternate),
        _ => general(value.abs(), spec.precision.unwrap_or(6).max(1), spec.alternate, false),
    };
    let mut negative = value.is_sign_negative() && !value.is_nan();
    // Option `z`: a result of only zeros loses its sign.
    if spec.negative_zero && negative && text.chars().all(|char| matches!(char, '0' | '.' | 'e' | '+' | '-')) {
        negative = false;
    }
    let mut text = if matches!(kind, Some('E' | 'F' | 'G')) { text.to_uppercase() } else { text };
    if percent {
        text.push('%');
    }
    let split = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(split);
    Ok(number(negative, "", whole, rest, spec, 3))
}

fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("nan".into());
    }
    value.is_infinite().then(|| "inf".into())
}

/// `%f` of a number without sign.
pub(super) fn fixed(value: f64, precision: usize, alternate: bool) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let text = exact_fixed(value, precision);
    if alternate && precision == 0 { text + "." } else { text }
}

/// Rust prints floats exactly, rounding half to even on the exact value, as C does.
fn exact_fixed(value: f64, precision: usize) -> String {
    format!("{value:.precision$}")
}

/// `%e` of a number without sign.
pub(super) fn exponent(value: f64, precision: usize, alternate: bool) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    // Rust writes `1e5` where C writes `1e+05`.
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    let dot = if alternate && precision == 0 { "." } else { "" };
    format!("{digits}{dot}e{sign}{:02}", exponent.abs())
}

/// `%g` of a number without sign; with `repr_like` a whole number keeps `.0`.
pub(super) fn general(value: f64, precision: usize, alternate: bool, repr_like: bool) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let scientific = exponent(value, precision - 1, false);
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let limit = precision as i32 - i32::from(repr_like);
    let trim = |text: &str| -> String {
        if alternate || !text.contains('.') {
            return text.to_string();
        }
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    // Python's thresholds for scientific notation; without a type it begins one digit earlier.
    if power < -4 || power >= limit.max(if repr_like { 0 } else { 1 }) {
        let digits = trim(digits);
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    let decimals = (precision as i32 - 1 - power).max(0) as usize;
    let text = trim(&exact_fixed(value, decimals));
    match (alternate, repr_like, text.contains('.')) {
        (true, _, false) => text + ".",
        (_, true, false) => text + ".0",
        _ => text,
    }
}

/// Prints digits of an integer for the `%` operator.
pub(super) fn radix_digits(int: &BigInt, kind: char) -> Result<String, Error> {
    let magnitude = int.abs();
    Ok(match kind {
        'o' => magnitude.to_str_radix(8),
        'x' => magnitude.to_str_radix(16),
        'X' => magnitude.to_str_radix(16).to_uppercase(),
        _ => super::int_text(&magnitude)?,
    })
}
