//! The functions of the language.

use jinja::python::{CmpOp, compare, contains, div, len, sort_by_keys, to_vec};
use jinja::{Dict, Error, Key, State, Value};

use super::eval::{Expression, is_number, visit};
use python::json;

type Args<'a> = &'a [Value];
type Function = fn(&mut State, Args) -> Result<Value, Error>;

/// Types of an argument, as the language names them; none for any.
type Types = &'static [&'static str];

struct Spec {
    name: &'static str,
    args: &'static [Types],
    /// True if more arguments may follow.
    more: bool,
    function: Function,
}

const ANY: Types = &[];
const NUMBER: Types = &["number"];
const NUMBERS: Types = &["array-number"];
const ONE_KIND: Types = &["array-number", "array-string"];
const TEXT: Types = &["string"];
const ARRAY: Types = &["array"];
const OBJECT: Types = &["object"];
const EXPRESSION: Types = &["expref"];

const fn spec(name: &'static str, args: &'static [Types], function: Function) -> Spec {
    Spec { name, args, more: false, function }
}

const FUNCTIONS: &[Spec] = &[
    spec("abs", &[NUMBER], abs),
    spec("avg", &[NUMBERS], avg),
    spec("ceil", &[NUMBER], |state, args| round(state, &args[0], f64::ceil)),
    spec("contains", &[&["array", "string"], ANY], |state, args| contains(state, &args[0], &args[1]).map(Value::Bool)),
    spec("ends_with", &[TEXT, TEXT], |_, args| Ok(Value::Bool(text(&args[0]).ends_with(text(&args[1]))))),
    spec("floor", &[NUMBER], |state, args| round(state, &args[0], f64::floor)),
    spec("join", &[TEXT, &["array-string"]], join),
    spec("keys", &[OBJECT], |_, args| Ok(Value::list(entries(&args[0]).into_iter().map(|(key, _)| key).collect()))),
    spec("length", &[&["string", "array", "object"]], |state, args| len(state, &args[0]).map(Value::from)),
    spec("map", &[EXPRESSION, ARRAY], map),
    spec("max", &[ONE_KIND], |state, args| most(state, &args[0], None, "max", CmpOp::Gt)),
    spec("max_by", &[ARRAY, EXPRESSION], |state, args| most(state, &args[0], Some(&args[1]), "max_by", CmpOp::Gt)),
    Spec { name: "merge", args: &[OBJECT], more: true, function: merge },
    spec("min", &[ONE_KIND], |state, args| most(state, &args[0], None, "min", CmpOp::Lt)),
    spec("min_by", &[ARRAY, EXPRESSION], |state, args| most(state, &args[0], Some(&args[1]), "min_by", CmpOp::Lt)),
    Spec { name: "not_null", args: &[ANY], more: true, function: not_null },
    spec("reverse", &[&["array", "string"]], reverse),
    spec("sort", &[&["array-string", "array-number"]], |state, args| sort(state, &args[0], None)),
    spec("sort_by", &[ARRAY, EXPRESSION], |state, args| sort(state, &args[0], Some(&args[1]))),
    spec("starts_with", &[TEXT, TEXT], |_, args| Ok(Value::Bool(text(&args[0]).starts_with(text(&args[1]))))),
    spec("sum", &[NUMBERS], |state, args| filter(state, "sum", vec![args[0].clone()])),
    spec("to_array", &[ANY], |_, args| match &args[0] {
        list @ Value::List(_) => Ok(list.clone()),
        other => Ok(Value::list(vec![other.clone()])),
    }),
    spec("to_number", &[ANY], to_number),
    spec("to_string", &[ANY], to_string),
    spec("type", &[ANY], |_, args| Ok(kind(&args[0]).map_or(Value::None, Value::str))),
    spec("values", &[OBJECT], |_, args| {
        Ok(Value::list(entries(&args[0]).into_iter().map(|(_, value)| value).collect()))
    }),
];

/// Calls a function by name.
pub(super) fn call(state: &mut State, name: &Value, args: Vec<Value>) -> Result<Value, Error> {
    let name = name.as_str().unwrap_or_default();
    let Some(spec) = FUNCTIONS.iter().find(|spec| spec.name == name) else {
        return Err(Error::value_error(format!("Unknown function: {name}()")));
    };
    let (wanted, given) = (spec.args.len(), args.len());
    if given < wanted || (given > wanted && !spec.more) {
        let least = if spec.more { "at least " } else { "" };
        let plural = if wanted == 1 { "" } else { "s" };
        return Err(Error::value_error(format!(
            "Expected {least}{wanted} argument{plural} for function {name}(), received {given}"
        )));
    }
    for (types, arg) in spec.args.iter().zip(&args) {
        check(state, name, types, arg)?;
    }
    (spec.function)(state, &args)
}

/// Returns the JMESPath type; `None` for objects of other kinds.
fn kind(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::None => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) | Value::Big(_) | Value::Float(_) => "number",
        Value::Str(_) | Value::Markup(_) => "string",
        Value::List(_) => "array",
        Value::Dict(_) => "object",
        _ => return None,
    })
}

/// Like [`kind`], but markup is unknown, as in the library, and expressions have a type.
fn exact_kind(value: &Value) -> &'static str {
    match value {
        // The library looks the class's name up in a table, where Python's subclasses of str are missing.
        Value::Markup(_) => "unknown",
        value if value.downcast::<Expression>().is_some() => "expref",
        other => kind(other).unwrap_or("unknown"),
    }
}

fn refused(state: &mut State, name: &str, value: &Value, types: &[&str], found: &str) -> Error {
    let shown = match state.str(value) {
        Ok(shown) => shown,
        Err(error) => return error,
    };
    let types: Vec<String> = types.iter().map(|one| format!("'{one}'")).collect();
    let types = types.join(", ");
    Error::value_error(format!(
        "In function {name}(), invalid type for value: {shown}, expected one of: [{types}], received: \"{found}\""
    ))
}

fn check(state: &mut State, name: &str, types: &[&str], value: &Value) -> Result<(), Error> {
    let found = exact_kind(value);
    let plain = |one: &&str| one.split('-').next() == Some(found);
    if !types.is_empty() && !types.iter().any(plain) {
        return Err(refused(state, name, value, types, found));
    }
    let inner: Vec<&str> = types.iter().filter_map(|one| one.split_once('-')).map(|(_, inner)| inner).collect();
    let Value::List(list) = value else { return Ok(()) };
    let items = list.to_vec();
    let (Some(first), Some(_)) = (items.first(), inner.first()) else { return Ok(()) };
    // With several kinds to choose from, the first item decides.
    let allowed = if inner.len() == 1 { inner[0] } else { exact_kind(first) };
    for item in &items {
        if exact_kind(item) != allowed || !inner.contains(&allowed) {
            // For items the library reports Python's name of the type instead of its own.
            let class = item.type_name().to_owned();
            return Err(refused(state, name, item, types, &class));
        }
    }
    Ok(())
}

fn filter(state: &mut State, name: &str, args: Vec<Value>) -> Result<Value, Error> {
    state.call_filter(&Value::str(name), args, Vec::new())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn entries(value: &Value) -> Vec<(Value, Value)> {
    value.as_dict().map(Dict::entries).unwrap_or_default()
}

fn abs(state: &mut State, args: Args) -> Result<Value, Error> {
    filter(state, "abs", vec![args[0].clone()])
}

fn avg(state: &mut State, args: Args) -> Result<Value, Error> {
    let count = len(state, &args[0])?;
    if count == 0 {
        return Ok(Value::None);
    }
    let sum = filter(state, "sum", vec![args[0].clone()])?;
    div(&sum, &Value::from(count))
}

fn round(state: &mut State, value: &Value, to: fn(f64) -> f64) -> Result<Value, Error> {
    match value {
        Value::Float(number) if number.is_nan() => Err(Error::value_error("cannot convert float NaN to integer")),
        Value::Float(number) => filter(state, "int", vec![Value::Float(to(*number))]),
        whole => Ok(whole.clone()),
    }
}

fn join(state: &mut State, args: Args) -> Result<Value, Error> {
    let items = to_vec(state, &args[1])?;
    let parts: Vec<&str> = items.iter().map(text).collect();
    let joined = parts.join(text(&args[0]));
    state.check_size(joined.len())?;
    Ok(Value::str(joined))
}

fn inner(state: &mut State, expression: &Value, item: &Value) -> Result<Value, Error> {
    match expression.downcast::<Expression>() {
        Some(Expression(tree)) => visit(state, &tree.clone(), item),
        None => Ok(Value::None),
    }
}

fn map(state: &mut State, args: Args) -> Result<Value, Error> {
    let items = to_vec(state, &args[1])?;
    items.iter().map(|item| inner(state, &args[0], item)).collect::<Result<_, _>>().map(Value::list)
}

/// Returns the keys by which items are compared: the items themselves without an expression.
fn keys(
    state: &mut State,
    items: &[Value],
    expression: Option<&Value>,
    name: &str,
    allowed: &[&str],
) -> Result<Vec<Value>, Error> {
    let Some(expression) = expression else { return Ok(items.to_vec()) };
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let key = inner(state, expression, item)?;
        let found = exact_kind(&key);
        if !allowed.contains(&found) {
            return Err(refused(state, name, &key, allowed, found));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn most(
    state: &mut State,
    list: &Value,
    expression: Option<&Value>,
    name: &str,
    better: CmpOp,
) -> Result<Value, Error> {
    let items = to_vec(state, list)?;
    let keys = keys(state, &items, expression, name, &["number", "string"])?;
    let mut best = 0;
    for at in 1..items.len() {
        if compare(state, better, &keys[at], &keys[best])? {
            best = at;
        }
    }
    Ok(items.into_iter().nth(best).unwrap_or_default())
}

fn sort(state: &mut State, list: &Value, expression: Option<&Value>) -> Result<Value, Error> {
    let items = to_vec(state, list)?;
    let mut allowed = Vec::new();
    if let (Some(expression), Some(first)) = (expression, items.first()) {
        let key = inner(state, expression, first)?;
        let found = exact_kind(&key);
        if !matches!(found, "number" | "string") {
            // The first key decides the type of all others.
            return Err(refused(state, "sort_by", first, &["string", "number"], found));
        }
        allowed.push(found);
    // An empty list is returned as it is, the same object.
    } else if expression.is_some() {
        return Ok(list.clone());
    }
    let keys = keys(state, &items, expression, "sort_by", &allowed)?;
    let pairs = keys.into_iter().zip(items).collect();
    Ok(Value::list(sort_by_keys(state, pairs, false)?))
}

fn merge(_state: &mut State, args: Args) -> Result<Value, Error> {
    let merged = Dict::new();
    for arg in args {
        let Value::Dict(dict) = arg else {
            return Err(Error::type_error(format!("'{}' object is not iterable", arg.type_name())));
        };
        for (key, value) in dict.entries() {
            merged.insert(Key::new(key)?, value);
        }
    }
    Ok(Value::Dict(merged))
}

fn not_null(_state: &mut State, args: Args) -> Result<Value, Error> {
    Ok(args.iter().find(|arg| !arg.is_none()).cloned().unwrap_or_default())
}

fn reverse(state: &mut State, args: Args) -> Result<Value, Error> {
    if let Some(text) = args[0].as_str() {
        return Ok(Value::str(text.chars().rev().collect::<String>()));
    }
    let mut items = to_vec(state, &args[0])?;
    items.reverse();
    Ok(Value::list(items))
}

fn to_string(state: &mut State, args: Args) -> Result<Value, Error> {
    if args[0].as_str().is_some() {
        return Ok(args[0].clone());
    }
    let style = json::Style {
        ensure_ascii: true,
        // The library writes compact JSON.
        separators: Some((",".to_owned(), ":".to_owned())),
        ..json::Style::default()
    };
    let plain = crate::convert::plain(state, &args[0])?;
    json::dumps(&plain, &style).map(Value::str).map_err(Error::type_error)
}

fn to_number(state: &mut State, args: Args) -> Result<Value, Error> {
    match &args[0] {
        number if is_number(number) => Ok(number.clone()),
        Value::Undefined(undefined) => Err(undefined.fail()),
        Value::Str(text) | Value::Markup(text) => match python::integer(text, 10) {
            Some(number) => Ok(Value::int(number)),
            None => filter(state, "float", vec![args[0].clone(), Value::None]),
        },
        _ => Ok(Value::None),
    }
}
