//! `==`, `<` and sorting.

use std::cmp::Ordering;

use num_traits::{FromPrimitive, ToPrimitive};

use super::{MAX_DEPTH, too_deep};
use crate::error::Error;
use crate::run::State;
use crate::value::{BigInt, Key, Range, Value, ViewKind};

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmpOp {
    /// `==`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
    /// `in`.
    In,
    /// `not in`.
    NotIn,
}

impl CmpOp {
    fn sign(self) -> &'static str {
        match self {
            CmpOp::Eq => "==",
            CmpOp::Ne => "!=",
            CmpOp::Lt => "<",
            CmpOp::Le => "<=",
            CmpOp::Gt => ">",
            CmpOp::Ge => ">=",
            CmpOp::In => "in",
            CmpOp::NotIn => "not in",
        }
    }
}

/// Compares two numbers. Returns `None` if one is not a number, `Some(None)` if they have no order (NaN).
pub(crate) fn compare_numbers(a: &Value, b: &Value) -> Option<Option<Ordering>> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(Some(a.cmp(b))),
        (Value::Float(a), Value::Float(b)) => Some(a.partial_cmp(b)),
        (Value::Big(a), Value::Big(b)) => Some(Some(a.cmp(b))),
        (Value::Bool(_), _) => compare_numbers(&Value::Int(a.as_i64()?), b),
        (_, Value::Bool(_)) => compare_numbers(a, &Value::Int(b.as_i64()?)),
        (Value::Int(_), Value::Big(b)) => {
            Some(Some(if b.sign() == num_bigint::Sign::Minus { Ordering::Greater } else { Ordering::Less }))
        }
        (Value::Big(_), Value::Int(_)) => compare_numbers(b, a).map(|order| order.map(Ordering::reverse)),
        (Value::Int(a), Value::Float(b)) => Some(int_float(*a, *b)),
        (Value::Float(a), Value::Int(b)) => Some(int_float(*b, *a).map(Ordering::reverse)),
        (Value::Big(a), Value::Float(b)) => Some(big_float(a, *b)),
        (Value::Float(a), Value::Big(b)) => Some(big_float(b, *a).map(Ordering::reverse)),
        _ => None,
    }
}

fn int_float(a: i64, b: f64) -> Option<Ordering> {
    // Python compares exactly: `2**53 + 1 == 2.0**53` is false, although the conversion would make it true.
    if a.abs() < 1 << 52 {
        return (a as f64).partial_cmp(&b);
    }
    big_float(&BigInt::from(a), b)
}

fn big_float(a: &BigInt, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b.is_infinite() {
        return Some(if b > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = BigInt::from_f64(b.floor())?;
    // Equal to the whole part: the fraction decides.
    Some(a.cmp(&floor).then(if b.fract() == 0.0 { Ordering::Equal } else { Ordering::Less }))
}

pub(crate) fn ranges_equal(a: &Range, b: &Range) -> bool {
    let len = a.len();
    len == b.len() && (len == 0 || (a.start == b.start && (len == 1 || a.step == b.step)))
}

/// Returns whether two values are equal, as Python's `==`.
pub fn equal(state: &mut State, a: &Value, b: &Value) -> Result<bool, Error> {
    equal_at(state, a, b, 0)
}

fn equal_at(state: &mut State, a: &Value, b: &Value, depth: u32) -> Result<bool, Error> {
    match (a, b) {
        (Value::Str(a) | Value::Markup(a), Value::Str(b) | Value::Markup(b)) => return Ok(a == b),
        (Value::Int(a), Value::Int(b)) => return Ok(a == b),
        (Value::Undefined(a), Value::Undefined(b)) => {
            a.lenient()?;
            b.lenient()?;
            // Undefined values of one class are equal in Jinja, whatever their names.
            return Ok(a.kind == b.kind);
        }
        (Value::Undefined(undefined), _) | (_, Value::Undefined(undefined)) => {
            undefined.lenient()?;
            return Ok(false);
        }
        (Value::Object(object), other) | (other, Value::Object(object)) => {
            // The object decides from either side, like Python's reflected `__eq__`.
            return Ok(object.equals(state, other)?.unwrap_or_else(|| a.is_same(b)));
        }
        _ => {}
    }
    if let Some(order) = compare_numbers(a, b) {
        return Ok(order == Some(Ordering::Equal));
    }
    if depth >= MAX_DEPTH {
        return Err(Error::new(crate::ErrorKind::Recursion, "maximum recursion depth exceeded in comparison"));
    }
    match (a, b) {
        // A list that contains itself would otherwise be compared until the depth limit.
        (Value::List(x), Value::List(y)) if x.is_same(y) => Ok(true),
        (Value::List(x), Value::List(y)) => items_equal(state, &x.to_vec(), &y.to_vec(), depth),
        (Value::Tuple(x), Value::Tuple(y)) => items_equal(state, x, y, depth),
        (Value::Dict(x), Value::Dict(y)) => {
            if x.len() != y.len() {
                return Ok(false);
            }
            for (key, value) in x.entries() {
                let Some(other) = y.get(&Key::new(key)?) else { return Ok(false) };
                if !item_equal(state, &value, &other, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Set(_) | Value::View(_), Value::Set(_) | Value::View(_)) => {
            let (Some(x), Some(y)) = (as_set(a)?, as_set(b)?) else { return Ok(a.is_same(b)) };
            Ok(x.len() == y.len() && x.iter().all(|key| y.contains(key)))
        }
        (Value::Range(x), Value::Range(y)) => Ok(ranges_equal(x, y)),
        (Value::Bytes(x), Value::Bytes(y)) => Ok(x == y),
        _ => Ok(a.is_same(b)),
    }
}

/// Elements of containers are first compared by identity, as Python does.
fn item_equal(state: &mut State, a: &Value, b: &Value, depth: u32) -> Result<bool, Error> {
    // A float here has no identity, and `[nan] == [nan]` must not depend on its bits.
    if a.is_same(b) && !matches!(a, Value::Float(_)) {
        return Ok(true);
    }
    equal_at(state, a, b, depth)
}

fn items_equal(state: &mut State, a: &[Value], b: &[Value], depth: u32) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b) {
        if !item_equal(state, a, b, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the keys of a set or of a view that acts as one.
pub(crate) fn as_set(value: &Value) -> Result<Option<indexmap::IndexSet<Key>>, Error> {
    Ok(match value {
        Value::Set(set) => Some(set.lock().iter().cloned().collect()),
        Value::View(view) if view.kind != ViewKind::Values => {
            Some(view.to_vec().into_iter().map(Key::new).collect::<Result<_, _>>()?)
        }
        _ => None,
    })
}

/// Returns whether `a < b`, with Python's error when they have no order.
pub fn less_than(state: &mut State, a: &Value, b: &Value) -> Result<bool, Error> {
    order(state, CmpOp::Lt, a, b, 0)
}

/// Evaluates a comparison.
pub fn compare(state: &mut State, op: CmpOp, a: &Value, b: &Value) -> Result<bool, Error> {
    match op {
        CmpOp::Eq => equal(state, a, b),
        CmpOp::Ne => Ok(!equal(state, a, b)?),
        CmpOp::In => super::contains(state, b, a),
        CmpOp::NotIn => Ok(!super::contains(state, b, a)?),
        _ => order(state, op, a, b, 0),
    }
}

fn holds(op: CmpOp, order: Ordering) -> bool {
    match op {
        CmpOp::Lt => order == Ordering::Less,
        CmpOp::Le => order != Ordering::Greater,
        CmpOp::Gt => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }
}

fn order(state: &mut State, op: CmpOp, a: &Value, b: &Value, depth: u32) -> Result<bool, Error> {
    match (a, b) {
        (Value::Undefined(undefined), _) | (_, Value::Undefined(undefined)) => return Err(undefined.fail()),
        (Value::Str(a) | Value::Markup(a), Value::Str(b) | Value::Markup(b)) => return Ok(holds(op, a.cmp(b))),
        (Value::Bytes(a), Value::Bytes(b)) => return Ok(holds(op, a.cmp(b))),
        _ => {}
    }
    if let Some(order) = compare_numbers(a, b) {
        return Ok(order.is_some_and(|order| holds(op, order)));
    }
    if depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    match (a, b) {
        (Value::List(x), Value::List(y)) => sequence_order(state, op, &x.to_vec(), &y.to_vec(), depth),
        (Value::Tuple(x), Value::Tuple(y)) => sequence_order(state, op, x, y, depth),
        (Value::Set(_) | Value::View(_), Value::Set(_) | Value::View(_)) => {
            // Sets have a partial order: neither of two sets may be a subset of the other.
            let (Some(x), Some(y)) = (as_set(a)?, as_set(b)?) else { return Err(no_order(op, a, b)) };
            let inside = x.iter().all(|key| y.contains(key));
            let around = y.iter().all(|key| x.contains(key));
            Ok(match op {
                CmpOp::Lt => inside && x.len() < y.len(),
                CmpOp::Le => inside,
                CmpOp::Gt => around && x.len() > y.len(),
                _ => around,
            })
        }
        _ => Err(no_order(op, a, b)),
    }
}

fn no_order(op: CmpOp, a: &Value, b: &Value) -> Error {
    let sign = op.sign();
    let (a, b) = (a.class_path(), b.class_path());
    Error::type_error(format!("'{sign}' not supported between instances of '{a}' and '{b}'"))
}

fn sequence_order(state: &mut State, op: CmpOp, a: &[Value], b: &[Value], depth: u32) -> Result<bool, Error> {
    for (x, y) in a.iter().zip(b) {
        if !item_equal(state, x, y, depth + 1)? {
            return order(state, op, x, y, depth + 1);
        }
    }
    Ok(holds(op, a.len().cmp(&b.len())))
}

/// Sorts items by their keys, stably, as Python's `sorted()`; the first error ends it.
pub fn sort_by_keys(state: &mut State, mut items: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>, Error> {
    // Comparisons are not counted one by one; the number of items bounds them well enough.
    state.spend(items.len() as u64)?;
    if reverse {
        // Reversing before and after the sort keeps equal items in their order. Reversing only the result would turn
        // them around.
        items.reverse();
    }
    let sorted = merge_sort(state, items)?;
    let mut values: Vec<Value> = sorted.into_iter().map(|(_, value)| value).collect();
    if reverse {
        values.reverse();
    }
    Ok(values)
}

/// Sorts short runs by binary insertion, as Python does, and merges them. Thus the first pair without an order, which
/// the error names, is mostly Python's.
fn merge_sort(state: &mut State, items: Vec<(Value, Value)>) -> Result<Vec<(Value, Value)>, Error> {
    // CPython's sort also starts with binary insertion for runs up to this length.
    if items.len() <= 64 {
        return insertion_sort(state, items);
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let (left, right) = (merge_sort(state, left)?, merge_sort(state, right)?);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let second = less_than(state, &b.0, &a.0)?;
        merged.extend(if second { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

fn insertion_sort(state: &mut State, items: Vec<(Value, Value)>) -> Result<Vec<(Value, Value)>, Error> {
    // Python first counts the run the items begin with, turning a falling one around.
    let mut sorted = items;
    let mut run = sorted.len().min(1);
    if sorted.len() > 1 {
        run = 2;
        let falling = less_than(state, &sorted[1].0, &sorted[0].0)?;
        while run < sorted.len() && less_than(state, &sorted[run].0, &sorted[run - 1].0)? == falling {
            run += 1;
        }
        if falling {
            sorted[..run].reverse();
        }
    }
    for index in run..sorted.len() {
        let (mut low, mut high) = (0, index);
        while low < high {
            let middle = (low + high) / 2;
            if less_than(state, &sorted[index].0, &sorted[middle].0)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // After equal items: the sort is stable.
        sorted[low..=index].rotate_right(1);
    }
    Ok(sorted)
}

/// Converts an integer to a float, or returns Python's OverflowError.
pub(crate) fn big_to_f64(number: &BigInt) -> Result<f64, Error> {
    match number.to_f64() {
        Some(float) if float.is_finite() => Ok(float),
        _ => Err(Error::new(crate::ErrorKind::Overflow, "int too large to convert to float")),
    }
}
