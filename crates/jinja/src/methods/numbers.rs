//! Methods and attributes of numbers.

use num_traits::{Signed, ToPrimitive};

use super::{Method, arity};
use crate::error::{Error, ErrorKind};
use crate::python::to_big;
use crate::value::{BigInt, CallArgs, Value};

pub(super) fn find_int(name: &str) -> Option<Method> {
    Some(match name {
        "bit_length" => bit_length,
        "bit_count" => bit_count,
        "conjugate" => conjugate,
        "as_integer_ratio" => as_integer_ratio,
        _ => return None,
    })
}

pub(super) fn find_float(name: &str) -> Option<Method> {
    Some(match name {
        "is_integer" => is_integer,
        "conjugate" => conjugate,
        "as_integer_ratio" => as_integer_ratio,
        "hex" => hex,
        _ => return None,
    })
}

pub(super) fn attribute(object: &Value, name: &str) -> Option<Value> {
    match (name, object) {
        ("real", Value::Float(number)) => Some(Value::Float(*number)),
        ("imag", Value::Float(_)) => Some(Value::Float(0.0)),
        ("real" | "numerator", other) => to_big(other).map(Value::int),
        ("imag", _) => Some(Value::Int(0)),
        ("denominator", other) if !matches!(other, Value::Float(_)) => Some(Value::Int(1)),
        _ => None,
    }
}

fn big(object: &Value) -> BigInt {
    to_big(object).unwrap_or_default()
}

fn bit_length(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "bit_length", 0, 0)?;
    Ok(Value::from(big(object).bits()))
}

fn bit_count(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "bit_count", 0, 0)?;
    let ones: u64 = big(object).abs().to_u64_digits().1.iter().map(|digit| u64::from(digit.count_ones())).sum();
    Ok(Value::from(ones))
}

fn conjugate(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "conjugate", 0, 0)?;
    Ok(match object {
        // `conjugate()` of a boolean is an int.
        Value::Bool(flag) => Value::Int((*flag).into()),
        other => other.clone(),
    })
}

fn as_integer_ratio(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, object.type_name(), "as_integer_ratio", 0, 0)?;
    let Value::Float(number) = object else {
        return Ok(Value::tuple(vec![Value::int(big(object)), Value::Int(1)]));
    };
    if number.is_nan() {
        return Err(Error::value_error("cannot convert NaN to integer ratio"));
    }
    if number.is_infinite() {
        return Err(Error::new(ErrorKind::Overflow, "cannot convert Infinity to integer ratio"));
    }
    let (mut top, mut bottom) = (*number, BigInt::from(1));
    // Doubling a float is exact, and at most 1,074 doublings make it whole.
    while top.fract() != 0.0 {
        top *= 2.0;
        bottom *= 2;
    }
    let top = num_traits::FromPrimitive::from_f64(top).unwrap_or_default();
    Ok(Value::tuple(vec![Value::int(top), Value::int(bottom)]))
}

fn is_integer(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "float", "is_integer", 0, 0)?;
    Ok(Value::Bool(matches!(object, Value::Float(number) if number.fract() == 0.0)))
}

fn hex(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "float", "hex", 0, 0)?;
    let Value::Float(number) = object else { return Ok(Value::None) };
    if !number.is_finite() {
        return Ok(Value::str(crate::python::repr_float(*number)));
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let bits = number.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff).to_i64().unwrap_or(0), bits & ((1 << 52) - 1));
    Ok(Value::str(match (exponent, fraction) {
        (0, 0) => format!("{sign}0x0.0p+0"),
        // Subnormal numbers have no implicit leading one and a fixed exponent.
        (0, _) => format!("{sign}0x0.{fraction:013x}p-1022"),
        _ => format!("{sign}0x1.{fraction:013x}p{:+}", exponent - 1023),
    }))
}
