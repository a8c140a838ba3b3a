//! `+ - * / // % **` and signs.

use num_bigint::Sign;
use num_integer::Integer;
use num_traits::{Pow, ToPrimitive, Zero};

use super::compare::big_to_f64;
use crate::error::{Error, ErrorKind};
use crate::run::State;
use crate::value::{BigInt, Key, Set, Value};

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
}

impl BinOp {
    fn sign(self) -> &'static str {
        match self {
            BinOp::Add => "+",
            BinOp::Sub => "-",
            BinOp::Mul => "*",
            BinOp::Div => "/",
            BinOp::FloorDiv => "//",
            BinOp::Mod => "%",
            // Python's message names both, because pow() shares the code.
            BinOp::Pow => "** or pow()",
        }
    }
}

enum Num {
    Int(i64),
    Big(BigInt),
    Float(f64),
}

fn number(value: &Value) -> Option<Num> {
    Some(match value {
        Value::Int(number) => Num::Int(*number),
        Value::Bool(flag) => Num::Int(i64::from(*flag)),
        Value::Big(number) => Num::Big((**number).clone()),
        Value::Float(number) => Num::Float(*number),
        _ => return None,
    })
}

/// Returns an integer of any size, if the value is one.
pub(crate) fn to_big(value: &Value) -> Option<BigInt> {
    match value {
        Value::Big(number) => Some((**number).clone()),
        other => other.as_i64().map(BigInt::from),
    }
}

/// Evaluates an operator between two values.
pub(crate) fn binary(state: &mut State, op: BinOp, a: &Value, b: &Value) -> Result<Value, Error> {
    match op {
        BinOp::Add => add(state, a, b),
        BinOp::Sub => sub(state, a, b),
        BinOp::Mul => mul(state, a, b),
        BinOp::Div => div(a, b),
        BinOp::FloorDiv => floor_div(a, b),
        BinOp::Mod => modulo(state, a, b),
        BinOp::Pow => power(state, a, b),
    }
}

fn unsupported(op: BinOp, a: &Value, b: &Value) -> Error {
    // The left operand answers first in Python, so that its error wins if both are undefined.
    if let Value::Undefined(undefined) = a {
        return undefined.fail();
    }
    if let Value::Undefined(undefined) = b {
        return undefined.fail();
    }
    let (sign, a, b) = (op.sign(), a.class_path(), b.class_path());
    Error::type_error(format!("unsupported operand type(s) for {sign}: '{a}' and '{b}'"))
}

fn zero_division(text: &str) -> Error {
    Error::new(ErrorKind::ZeroDivision, text)
}

enum Pair {
    Int(i64, i64),
    Big(BigInt, BigInt),
    Float(f64, f64),
}

fn pair(op: BinOp, a: &Value, b: &Value) -> Result<Pair, Error> {
    let (Some(x), Some(y)) = (number(a), number(b)) else { return Err(unsupported(op, a, b)) };
    Ok(match (x, y) {
        (Num::Int(x), Num::Int(y)) => Pair::Int(x, y),
        (Num::Float(x), Num::Float(y)) => Pair::Float(x, y),
        // An integer too large for a float is an OverflowError in Python, even when adding zero.
        (Num::Float(x), y) => Pair::Float(x, as_float(y)?),
        (x, Num::Float(y)) => Pair::Float(as_float(x)?, y),
        (x, y) => Pair::Big(as_big(x), as_big(y)),
    })
}

fn as_float(number: Num) -> Result<f64, Error> {
    match number {
        Num::Int(number) => Ok(number as f64),
        Num::Big(number) => big_to_f64(&number),
        Num::Float(number) => Ok(number),
    }
}

fn as_big(number: Num) -> BigInt {
    match number {
        Num::Int(number) => BigInt::from(number),
        Num::Big(number) => number,
        Num::Float(number) => BigInt::from(number as i64),
    }
}

/// `a + b`.
pub(crate) fn add(state: &mut State, a: &Value, b: &Value) -> Result<Value, Error> {
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => {
            return Ok(x.checked_add(*y).map_or_else(|| Value::int(BigInt::from(*x) + y), Value::Int));
        }
        (Value::Str(x), Value::Str(y)) => {
            state.check_size(x.len() + y.len())?;
            let mut text = String::with_capacity(x.len() + y.len());
            text.push_str(x);
            text.push_str(y);
            return Ok(Value::Str(text.into()));
        }
        (Value::Markup(x), Value::Str(_) | Value::Markup(_)) => {
            // Markup escapes operands from either side: the result must be safe without knowing its parts.
            let y = crate::filters::escape(state, b)?;
            return Ok(Value::markup(format!("{x}{y}")));
        }
        (Value::Str(_), Value::Markup(y)) => {
            let x = crate::filters::escape(state, a)?;
            return Ok(Value::markup(format!("{x}{y}")));
        }
        (Value::List(x), Value::List(y)) => {
            let mut items = x.to_vec();
            items.extend(y.to_vec());
            state.check_items(items.len())?;
            return Ok(Value::list(items));
        }
        (Value::Tuple(x), Value::Tuple(y)) => {
            state.check_items(x.len() + y.len())?;
            return Ok(Value::tuple(x.iter().chain(y.iter()).cloned().collect()));
        }
        (Value::Bytes(x), Value::Bytes(y)) => return Ok(Value::Bytes([&x[..], &y[..]].concat().into())),
        (Value::Undefined(undefined), _) | (_, Value::Undefined(undefined))
            if !matches!(a, Value::Str(_) | Value::Markup(_) | Value::List(_) | Value::Tuple(_)) =>
        {
            return Err(undefined.fail());
        }
        _ => {}
    }
    match a {
        Value::Undefined(undefined) => return Err(undefined.fail()),
        // A type of Python's own refuses first; the undefined value's answer is asked before.
        Value::Str(_) | Value::Markup(_) | Value::List(_) | Value::Tuple(_) => {
            if let Value::Undefined(undefined) = b {
                return Err(undefined.fail());
            }
            let name = if matches!(a, Value::Markup(_)) { "str" } else { a.class_path() };
            if matches!(a, Value::Markup(_)) {
                return Err(unsupported(BinOp::Add, a, b));
            }
            let other = b.class_path();
            return Err(Error::type_error(format!("can only concatenate {name} (not \"{other}\") to {name}")));
        }
        _ => {}
    }
    Ok(match pair(BinOp::Add, a, b)? {
        Pair::Int(x, y) => Value::int(BigInt::from(x) + y),
        Pair::Big(x, y) => Value::int(x + y),
        Pair::Float(x, y) => Value::Float(x + y),
    })
}

/// `a - b`.
pub(crate) fn sub(_: &mut State, a: &Value, b: &Value) -> Result<Value, Error> {
    // Views of keys and items are sets to Python; they subtract any sequence, real sets only sets.
    if let (Value::Set(_) | Value::View(_), Some(x)) = (a, super::compare::as_set(a)?) {
        let other = match b {
            Value::Set(_) | Value::View(_) => super::compare::as_set(b)?,
            Value::List(list) if matches!(a, Value::View(_)) => {
                Some(list.to_vec().into_iter().map(Key::new).collect::<Result<_, _>>()?)
            }
            Value::Tuple(items) if matches!(a, Value::View(_)) => {
                Some(items.iter().cloned().map(Key::new).collect::<Result<_, _>>()?)
            }
            _ => None,
        };
        if let Some(y) = other {
            return Ok(Value::Set(Set::new(x.into_iter().filter(|key| !y.contains(key)))));
        }
    }
    Ok(match pair(BinOp::Sub, a, b)? {
        Pair::Int(x, y) => x.checked_sub(y).map_or_else(|| Value::int(BigInt::from(x) - y), Value::Int),
        Pair::Big(x, y) => Value::int(x - y),
        Pair::Float(x, y) => Value::Float(x - y),
    })
}

/// `a * b`.
pub(crate) fn mul(state: &mut State, a: &Value, b: &Value) -> Result<Value, Error> {
    let is_sequence = |value: &Value| {
        matches!(value, Value::Str(_) | Value::Markup(_) | Value::List(_) | Value::Tuple(_) | Value::Bytes(_))
    };
    if is_sequence(a) || is_sequence(b) {
        let (sequence, times) = if is_sequence(a) { (a, b) } else { (b, a) };
        if let Value::Undefined(undefined) = times {
            return Err(undefined.fail());
        }
        return match times {
            Value::Int(_) | Value::Bool(_) => repeat(state, sequence, times.as_i64().unwrap_or(0)),
            // A negative count is an empty sequence, whatever its size.
            Value::Big(number) if number.sign() == Sign::Minus => repeat(state, sequence, 0),
            Value::Big(_) => Err(Error::new(ErrorKind::Overflow, "cannot fit 'int' into an index-sized integer")),
            // Markup multiplies by its own rule, from the right as well, and asks the other to be the count.
            _ if matches!(a, Value::Markup(_)) || matches!(b, Value::Markup(_)) => {
                let name = if matches!(a, Value::Markup(_)) { b } else { a }.class_path();
                Err(Error::type_error(format!("'{name}' object cannot be interpreted as an integer")))
            }
            other => {
                let name = other.class_path();
                Err(Error::type_error(format!("can't multiply sequence by non-int of type '{name}'")))
            }
        };
    }
    Ok(match pair(BinOp::Mul, a, b)? {
        Pair::Int(x, y) => x.checked_mul(y).map_or_else(|| Value::int(BigInt::from(x) * y), Value::Int),
        Pair::Big(x, y) => {
            // Before the multiplication: squaring a number in a loop doubles its size each time.
            state.check_size((x.bits() + y.bits()) as usize / 8)?;
            Value::int(x * y)
        }
        Pair::Float(x, y) => Value::Float(x * y),
    })
}

fn repeat(state: &mut State, sequence: &Value, times: i64) -> Result<Value, Error> {
    let times = times.max(0) as usize;
    // The product is checked before anything is allocated: `'x' * 10**18` must fail at once.
    let many = |len: usize| len.checked_mul(times).ok_or_else(|| Error::new(ErrorKind::Memory, ""));
    Ok(match sequence {
        Value::Str(text) | Value::Markup(text) => {
            state.check_size(many(text.len())?)?;
            let text = text.repeat(times);
            if matches!(sequence, Value::Markup(_)) { Value::markup(text) } else { Value::str(text) }
        }
        Value::Bytes(bytes) => {
            state.check_size(many(bytes.len())?)?;
            Value::Bytes(bytes.repeat(times).into())
        }
        Value::List(list) => {
            let items = list.to_vec();
            state.check_items(many(items.len())?)?;
            Value::list(repeat_items(&items, times))
        }
        Value::Tuple(items) => {
            state.check_items(many(items.len())?)?;
            Value::tuple(repeat_items(items, times))
        }
        other => other.clone(),
    })
}

fn repeat_items(items: &[Value], times: usize) -> Vec<Value> {
    let mut all = Vec::with_capacity(items.len() * times);
    for _ in 0..times {
        all.extend_from_slice(items);
    }
    all
}

/// `a / b`.
pub fn div(a: &Value, b: &Value) -> Result<Value, Error> {
    match pair(BinOp::Div, a, b)? {
        Pair::Int(_, 0) => Err(zero_division("division by zero")),
        // Up to 53 bits both operands are exact as floats, and one division rounds once, as Python's does.
        Pair::Int(x, y) if x.abs() < 1 << 53 && y.abs() < 1 << 53 => Ok(Value::Float(x as f64 / y as f64)),
        Pair::Int(x, y) => big_div(&BigInt::from(x), &BigInt::from(y)),
        Pair::Big(x, y) => big_div(&x, &y),
        Pair::Float(_, 0.0) => Err(zero_division("float division by zero")),
        Pair::Float(x, y) => Ok(Value::Float(x / y)),
    }
}

/// Divides exactly, then rounds once.
fn big_div(x: &BigInt, y: &BigInt) -> Result<Value, Error> {
    if y.is_zero() {
        return Err(zero_division("division by zero"));
    }
    // 66 bits of quotient: more than the 53 of a float, so that rounding sees what was cut off.
    let shift = 66 - (x.bits() as i64 - y.bits() as i64);
    let (x, y_shifted) = if shift >= 0 { (x << shift, y.clone()) } else { (x.clone(), y << -shift) };
    let (mut quotient, rest) = x.div_rem(&y_shifted);
    if !rest.is_zero() {
        // A sticky bit keeps the rounding right.
        quotient = (quotient << 1) + if (x.sign() == Sign::Minus) == (y.sign() == Sign::Minus) { 1 } else { -1 };
    } else {
        quotient <<= 1;
    }
    // powi() over- and underflows beyond these exponents, so the scaling is done in two steps.
    let float = quotient.to_f64().unwrap_or(f64::INFINITY) * 2f64.powi(-(shift as i32 + 1).clamp(-1100, 1000));
    let float = if shift + 1 > 1000 { float * 2f64.powi(-((shift + 1 - 1000) as i32)) } else { float };
    if float.is_infinite() {
        return Err(Error::new(ErrorKind::Overflow, "integer division result too large for a float"));
    }
    Ok(Value::Float(float))
}

/// Divides floats as Python's `//`.
pub(crate) fn floor_float(x: f64, y: f64) -> (f64, f64) {
    // CPython's algorithm, step by step: rounding, the sign of zero and the remainder must match it.
    let mut rest = x % y;
    let mut quotient = (x - rest) / y;
    if rest != 0.0 {
        if (y < 0.0) != (rest < 0.0) {
            rest += y;
            quotient -= 1.0;
        }
    } else {
        rest = 0f64.copysign(y);
    }
    let floored = if quotient == 0.0 {
        0f64.copysign(x / y)
    } else {
        let floor = quotient.floor();
        // The division may have rounded just below a whole number.
        if quotient - floor > 0.5 { floor + 1.0 } else { floor }
    };
    (floored, rest)
}

fn floor_div(a: &Value, b: &Value) -> Result<Value, Error> {
    match pair(BinOp::FloorDiv, a, b)? {
        Pair::Int(_, 0) => Err(zero_division("integer division or modulo by zero")),
        // `i64::MIN // -1` does not fit 64 bits.
        Pair::Int(x, y) if x != i64::MIN => Ok(Value::Int(Integer::div_floor(&x, &y))),
        Pair::Int(x, y) => Ok(Value::int(BigInt::from(x).div_floor(&BigInt::from(y)))),
        Pair::Big(_, y) if y.is_zero() => Err(zero_division("integer division or modulo by zero")),
        Pair::Big(x, y) => Ok(Value::int(x.div_floor(&y))),
        Pair::Float(_, 0.0) => Err(zero_division("float floor division by zero")),
        Pair::Float(x, y) => Ok(Value::Float(floor_float(x, y).0)),
    }
}

/// `a % b`; formats when the left side is text.
pub(crate) fn modulo(state: &mut State, a: &Value, b: &Value) -> Result<Value, Error> {
    if let Value::Str(_) | Value::Markup(_) = a {
        return super::percent(state, a, b);
    }
    match pair(BinOp::Mod, a, b)? {
        Pair::Int(_, 0) => Err(zero_division("integer modulo by zero")),
        Pair::Int(x, y) if x != i64::MIN => Ok(Value::Int(Integer::mod_floor(&x, &y))),
        Pair::Int(x, y) => Ok(Value::int(BigInt::from(x).mod_floor(&BigInt::from(y)))),
        Pair::Big(_, y) if y.is_zero() => Err(zero_division("integer modulo by zero")),
        Pair::Big(x, y) => Ok(Value::int(x.mod_floor(&y))),
        Pair::Float(_, 0.0) => Err(zero_division("float modulo")),
        Pair::Float(x, y) => Ok(Value::Float(floor_float(x, y).1)),
    }
}

fn power(state: &mut State, a: &Value, b: &Value) -> Result<Value, Error> {
    match pair(BinOp::Pow, a, b)? {
        Pair::Int(x, y) => int_power(state, &BigInt::from(x), &BigInt::from(y)),
        Pair::Big(x, y) => int_power(state, &x, &y),
        Pair::Float(x, y) => float_power(x, y),
    }
}

fn int_power(state: &mut State, x: &BigInt, y: &BigInt) -> Result<Value, Error> {
    if y.sign() == Sign::Minus {
        return float_power(big_to_f64(x)?, big_to_f64(y)?);
    }
    // These have small powers for exponents of any size.
    if x.bits() <= 1 {
        // Zero and one, with either sign.
        let odd = y.is_odd();
        return Ok(match (x.to_i64(), y.is_zero(), odd) {
            (_, true, _) | (Some(1), ..) => Value::Int(1),
            (Some(0), ..) => Value::Int(0),
            (_, _, true) => Value::Int(-1),
            _ => Value::Int(1),
        });
    }
    // A result beyond 4 MiB takes too long to compute, even if the byte limit allows it.
    let Some(exponent) = y.to_u32().filter(|y| (x.bits() as usize).saturating_mul(*y as usize) / 8 <= 1 << 22) else {
        // For its error: the message of the limit.
        state.check_size(usize::MAX)?;
        return Err(Error::new(ErrorKind::Memory, ""));
    };
    state.check_size((x.bits() as usize).saturating_mul(exponent as usize) / 8)?;
    Ok(Value::int(Pow::pow(x, exponent)))
}

fn float_power(x: f64, y: f64) -> Result<Value, Error> {
    if x == 0.0 && y < 0.0 {
        return Err(zero_division("0.0 cannot be raised to a negative power"));
    }
    // Python answers with a complex number, which has no value here.
    if x < 0.0 && x.is_finite() && y.is_finite() && y.fract() != 0.0 {
        return Err(Error::value_error("not supported: complex numbers"));
    }
    let result = x.powf(y);
    if result.is_infinite() && x.is_finite() && y.is_finite() {
        return Err(Error::new(ErrorKind::Overflow, "(34, 'Numerical result out of range')"));
    }
    Ok(Value::Float(result))
}

/// `-a`.
pub(crate) fn negate(a: &Value) -> Result<Value, Error> {
    match number(a) {
        Some(Num::Int(number)) => {
            Ok(number.checked_neg().map_or_else(|| Value::int(-BigInt::from(number)), Value::Int))
        }
        Some(Num::Big(number)) => Ok(Value::int(-number)),
        Some(Num::Float(number)) => Ok(Value::Float(-number)),
        None => Err(bad_unary('-', a)),
    }
}

/// `+a`.
pub(crate) fn positive(a: &Value) -> Result<Value, Error> {
    match number(a) {
        Some(Num::Int(number)) => Ok(Value::Int(number)),
        Some(_) => Ok(a.clone()),
        None => Err(bad_unary('+', a)),
    }
}

fn bad_unary(sign: char, a: &Value) -> Error {
    match a {
        Value::Undefined(undefined) => undefined.fail(),
        other => Error::type_error(format!("bad operand type for unary {sign}: '{}'", other.class_path())),
    }
}
