//! Filters that search and replace by pattern.

use fancy_regex::Regex;
use jinja::{CallArgs, Error, Value};

use super::python_regex as regex;
use super::{flag, re_error, text};

fn compiled(call: &mut CallArgs, pattern: &Value, ignore_case: &Value, multi_line: &Value) -> Result<Regex, Error> {
    let ignore_case = flag(call.state, ignore_case)?;
    let multi_line = flag(call.state, multi_line)?;
    let Some(pattern) = pattern.as_str() else {
        return Err(Error::type_error("first argument must be string or compiled pattern"));
    };
    regex::compile(pattern, ignore_case, multi_line).map_err(re_error)
}

fn searched(value: &Value) -> Result<&str, Error> {
    value
        .as_str()
        .ok_or_else(|| Error::type_error(format!("expected string or bytes-like object, got '{}'", value.type_name())))
}

fn groups(call: &mut CallArgs, name: &str, at_start: bool) -> Result<Value, Error> {
    let no = Some(Value::Bool(false));
    let params = [("txt", None), ("rgx", None), ("ignorecase", no.clone()), ("multiline", no)];
    let [txt, rgx, ignore_case, multi_line] = call.bind(name, params)?;
    let compiled = compiled(call, &rgx, &ignore_case, &multi_line)?;
    let found = regex::find(&compiled, searched(&txt)?, at_start).map_err(re_error)?;
    Ok(found.map_or(Value::None, |found| {
        let groups = regex::groups(&compiled, &found);
        Value::tuple(groups.into_iter().map(|group| group.map_or(Value::None, Value::str)).collect())
    }))
}

pub fn regex_search(call: &mut CallArgs) -> Result<Value, Error> {
    groups(call, "regex_search", false)
}

pub fn regex_match(call: &mut CallArgs) -> Result<Value, Error> {
    groups(call, "regex_match", true)
}

pub fn regex_replace(call: &mut CallArgs) -> Result<Value, Error> {
    let no = Some(Value::Bool(false));
    let params = [("txt", None), ("rgx", None), ("val", None), ("ignorecase", no.clone()), ("multiline", no)];
    let [txt, rgx, val, ignore_case, multi_line] = call.bind("regex_replace", params)?;
    let compiled = compiled(call, &rgx, &ignore_case, &multi_line)?;
    let subject = searched(&txt)?;
    let replacement = val.as_str().ok_or_else(|| {
        Error::type_error(format!("decoding to str: need a bytes-like object, {} found", val.type_name()))
    })?;
    regex::replace(&compiled, subject, replacement).map(Value::from).map_err(re_error)
}

pub fn regex_escape(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("regex_escape", [("value", None)])?;
    Ok(Value::from(regex::quoted(&text(&value)?)))
}

/// The test `match`.
pub fn is_match(call: &mut CallArgs) -> Result<Value, Error> {
    groups(call, "test_match", true).map(|found| Value::Bool(!found.is_none()))
}

/// The test `equalto`.
pub fn is_equal(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, other] = call.bind("test_equalto", [("value", None), ("other", None)])?;
    jinja::python::equal(call.state, &value, &other).map(Value::Bool)
}
