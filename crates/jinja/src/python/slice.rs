//! Indexes and slices.

use num_bigint::Sign;

use crate::error::{Error, ErrorKind};
use crate::value::Value;

/// Resolves an index, which counts from the end if it is negative; `None` if it is out of range.
pub(crate) fn index_of(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index + len as i64 } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

fn bound(value: &Value) -> Result<Option<i64>, Error> {
    match value {
        Value::None => Ok(None),
        Value::Int(number) => Ok(Some(*number)),
        Value::Bool(flag) => Ok(Some(i64::from(*flag))),
        // A bound beyond 64 bits is clamped, because no sequence is that long.
        Value::Big(number) => Ok(Some(if number.sign() == Sign::Minus { i64::MIN } else { i64::MAX })),
        _ => Err(not_an_index()),
    }
}

fn not_an_index() -> Error {
    Error::type_error("slice indices must be integers or None or have an __index__ method")
}

/// Returns the indexes of a slice: start, step and count.
pub(crate) fn slice_bounds(start: &Value, stop: &Value, step: &Value, len: usize) -> Result<(i64, i64, usize), Error> {
    // Python converts the step first, then start, then stop.
    let step = bound(step)?.unwrap_or(1).max(-i64::MAX);
    if step == 0 {
        return Err(Error::value_error("slice step cannot be zero"));
    }
    let len = len as i64;
    // Going backwards, a bound may be before the first item: -1 here, which no index from Python means.
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp = |value: Option<i64>, default: i64| match value {
        None => default,
        Some(value) if value < 0 => value.saturating_add(len).max(low),
        Some(value) => value.min(high),
    };
    let start = clamp(bound(start)?, if step > 0 { low } else { high });
    let stop = clamp(bound(stop)?, if step > 0 { high } else { low });
    let count = if step > 0 {
        if start < stop { (stop - start - 1) / step + 1 } else { 0 }
    } else if stop < start {
        (start - stop - 1) / -step + 1
    } else {
        0
    };
    Ok((start, step, count as usize))
}

/// Evaluates `value[start:stop:step]`.
pub fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let pick = |items: &[Value]| -> Result<Vec<Value>, Error> {
        let (start, step, count) = slice_bounds(start, stop, step, items.len())?;
        Ok((0..count as i64).map(|at| items[(start + at * step) as usize].clone()).collect())
    };
    match value {
        Value::Str(text) | Value::Markup(text) => {
            let part = slice_text(text, start, stop, step)?;
            Ok(if matches!(value, Value::Markup(_)) { Value::markup(part) } else { Value::str(part) })
        }
        Value::List(list) => Ok(Value::list(pick(&list.to_vec())?)),
        Value::Tuple(items) => Ok(Value::tuple(pick(items)?)),
        Value::Bytes(bytes) => {
            let (start, step, count) = slice_bounds(start, stop, step, bytes.len())?;
            Ok(Value::Bytes((0..count as i64).map(|at| bytes[(start + at * step) as usize]).collect()))
        }
        Value::Range(range) => {
            let (start, step, count) = slice_bounds(start, stop, step, range.len())?;
            // Wrapping, because the bound after the last item may be beyond 64 bits.
            let first = range.start.wrapping_add(start.wrapping_mul(range.step));
            let step = range.step.wrapping_mul(step);
            let stop = first.wrapping_add(step.wrapping_mul(count as i64));
            Ok(Value::Range(std::sync::Arc::new(crate::value::Range { start: first, stop, step })))
        }
        Value::Undefined(undefined) if undefined.kind != crate::value::UndefinedKind::Chainable => {
            Err(undefined.fail())
        }
        Value::Undefined(_) => Ok(value.clone()),
        // A dictionary takes the slice for a key, and before Python 3.12 slices cannot be hashed.
        Value::Dict(_) => Err(unhashable_slice()),
        other => Err(Error::type_error(format!("'{}' object is not subscriptable", other.class_path()))),
    }
}

fn unhashable_slice() -> Error {
    Error::new(ErrorKind::Type, "unhashable type: 'slice'")
}

fn slice_text(text: &str, start: &Value, stop: &Value, step: &Value) -> Result<String, Error> {
    // ASCII needs no table of characters: the common case copies bytes.
    if text.is_ascii() {
        let bytes = text.as_bytes();
        let (start, step, count) = slice_bounds(start, stop, step, bytes.len())?;
        if step == 1 {
            return Ok(if count == 0 {
                String::new()
            } else {
                text[start as usize..start as usize + count].to_string()
            });
        }
        return Ok((0..count as i64).map(|at| bytes[(start + at * step) as usize] as char).collect());
    }
    let chars: Vec<char> = text.chars().collect();
    let (start, step, count) = slice_bounds(start, stop, step, chars.len())?;
    Ok((0..count as i64).map(|at| chars[(start + at * step) as usize]).collect())
}
