//! Jinja's tests (the `is` operator).

use std::sync::Arc;

use crate::env::Environment;
use crate::error::{Error, ErrorKind};
use crate::methods::tests_of_strings::{is_lower, is_upper_text};
use crate::python::{self, CmpOp, compare, is_callable, is_iterable, is_mapping};
use crate::value::{CallArgs, Key, Value};

type Test = fn(&mut CallArgs) -> Result<bool, Error>;

const TESTS: &[(&str, Test)] = &[
    ("odd", |call| remainder(call, "test_odd", 1)),
    ("even", |call| remainder(call, "test_even", 0)),
    ("divisibleby", divisibleby),
    ("defined", |call| Ok(!one(call, "test_defined")?.is_undefined())),
    ("undefined", |call| Ok(one(call, "test_undefined")?.is_undefined())),
    ("filter", |call| {
        // Python looks the name up in a dictionary, so that an unhashable argument is a TypeError instead of false.
        let name = Key::new(one(call, "test_filter")?)?.into_value();
        Ok(name.as_str().is_some_and(|name| call.state.env().filters.contains_key(name)))
    }),
    ("test", |call| {
        let name = Key::new(one(call, "test_test")?)?.into_value();
        Ok(name.as_str().is_some_and(|name| call.state.env().tests.contains_key(name)))
    }),
    ("none", |call| Ok(one(call, "test_none")?.is_none())),
    // A boolean is a number but not an integer: Jinja's tests separate what Python's isinstance() does not.
    ("boolean", |call| Ok(matches!(one(call, "test_boolean")?, Value::Bool(_)))),
    ("false", |call| Ok(matches!(one(call, "test_false")?, Value::Bool(false)))),
    ("true", |call| Ok(matches!(one(call, "test_true")?, Value::Bool(true)))),
    ("integer", |call| Ok(matches!(one(call, "test_integer")?, Value::Int(_) | Value::Big(_)))),
    ("float", |call| Ok(matches!(one(call, "test_float")?, Value::Float(_)))),
    ("lower", |call| {
        let value = one(call, "test_lower")?;
        Ok(is_lower(&call.state.str(&value)?))
    }),
    ("upper", |call| {
        let value = one(call, "test_upper")?;
        Ok(is_upper_text(&call.state.str(&value)?))
    }),
    ("string", |call| Ok(one(call, "test_string")?.as_str().is_some())),
    ("mapping", |call| Ok(is_mapping(&one(call, "test_mapping")?))),
    ("number", |call| {
        let value = one(call, "test_number")?;
        Ok(matches!(value, Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_)))
    }),
    ("sequence", sequence),
    ("sameas", |call| {
        let [a, b] = call.bind("test_sameas", [("value", None), ("other", None)])?;
        Ok(a.is_same(&b))
    }),
    ("iterable", |call| {
        let value = one(call, "test_iterable")?;
        is_iterable(call.state, &value)
    }),
    ("callable", |call| {
        let value = one(call, "callable")?;
        Ok(is_callable(&value))
    }),
    ("escaped", |call| Ok(matches!(one(call, "test_escaped")?, Value::Markup(_)))),
    ("in", |call| {
        let [value, seq] = call.bind("test_in", [("value", None), ("seq", None)])?;
        python::contains(call.state, &seq, &value)
    }),
    ("==", |call| operator(call, "eq", CmpOp::Eq)),
    ("eq", |call| operator(call, "eq", CmpOp::Eq)),
    ("equalto", |call| operator(call, "eq", CmpOp::Eq)),
    ("!=", |call| operator(call, "ne", CmpOp::Ne)),
    ("ne", |call| operator(call, "ne", CmpOp::Ne)),
    (">", |call| operator(call, "gt", CmpOp::Gt)),
    ("gt", |call| operator(call, "gt", CmpOp::Gt)),
    ("greaterthan", |call| operator(call, "gt", CmpOp::Gt)),
    (">=", |call| operator(call, "ge", CmpOp::Ge)),
    ("ge", |call| operator(call, "ge", CmpOp::Ge)),
    ("<", |call| operator(call, "lt", CmpOp::Lt)),
    ("lt", |call| operator(call, "lt", CmpOp::Lt)),
    ("lessthan", |call| operator(call, "lt", CmpOp::Lt)),
    ("<=", |call| operator(call, "le", CmpOp::Le)),
    ("le", |call| operator(call, "le", CmpOp::Le)),
];

/// Adds Jinja's tests to an environment.
pub(crate) fn install(env: &mut Environment) {
    for (name, test) in TESTS {
        env.tests.insert((*name).into(), Arc::new(move |call: &mut CallArgs| test(call).map(Value::Bool)));
    }
}

fn one(call: &mut CallArgs, name: &str) -> Result<Value, Error> {
    if call.args.len() == 1 && call.kwargs.is_empty() {
        return Ok(call.args.swap_remove(0));
    }
    // This test is Python's builtin itself, which words its argument errors differently from a Python function.
    if name == "callable" {
        let given = call.args.len();
        return Err(Error::type_error(format!("callable() takes exactly one argument ({given} given)")));
    }
    let [value] = call.bind(name, [("value", None)])?;
    Ok(value)
}

fn remainder(call: &mut CallArgs, name: &str, wanted: i64) -> Result<bool, Error> {
    let value = one(call, name)?;
    // The operator, not an integer check: `3.0 is odd` holds, and a string is formatted with `%`, as in Jinja.
    let rest = python::modulo(call.state, &value, &Value::Int(2))?;
    python::equal(call.state, &rest, &Value::Int(wanted))
}

fn divisibleby(call: &mut CallArgs) -> Result<bool, Error> {
    let [value, num] = call.bind("test_divisibleby", [("value", None), ("num", None)])?;
    let rest = python::modulo(call.state, &value, &num)?;
    python::equal(call.state, &rest, &Value::Int(0))
}

fn sequence(call: &mut CallArgs) -> Result<bool, Error> {
    let value = one(call, "test_sequence")?;
    Ok(match &value {
        Value::Str(_)
        | Value::Markup(_)
        | Value::List(_)
        | Value::Tuple(_)
        | Value::Dict(_)
        | Value::Range(_)
        | Value::Bytes(_) => true,
        // Jinja tries len() and the attribute `__getitem__`. A lenient undefined value has both; a strict one fails in
        // len(), which the test swallows.
        Value::Undefined(undefined) => undefined.lenient().is_ok(),
        Value::Object(object) => object.has_items() && object.len(call.state).is_ok_and(|len| len.is_some()),
        _ => false,
    })
}

fn operator(call: &mut CallArgs, name: &str, op: CmpOp) -> Result<bool, Error> {
    if !call.kwargs.is_empty() {
        return Err(Error::type_error(format!("{name}() takes no keyword arguments")));
    }
    let given = call.args.len();
    let Ok([a, b]) = <[Value; 2]>::try_from(std::mem::take(&mut call.args)) else {
        return Err(Error::new(ErrorKind::Type, format!("{name} expected 2 arguments, got {given}")));
    };
    compare(call.state, op, &a, &b)
}
