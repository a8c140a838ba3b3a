//! Filters for lists.

use jinja::python::{contains, equal, iterate, less_than, to_vec};
use jinja::{CallArgs, Error, Key, Set, State, Value};

use super::{flag, text, whole};

/// Returns whether Python can hash a value. Salt uses this to distinguish texts from lists.
fn hashable(value: &Value) -> bool {
    !matches!(value, Value::List(_) | Value::Dict(_) | Value::Set(_) | Value::View(_))
}

/// Returns whether a value can be walked.
fn is_iterable(state: &mut State, value: &Value) -> Result<bool, Error> {
    match value {
        Value::Undefined(undefined) => undefined.lenient().map(|()| true),
        other => Ok(iterate(state, other).is_ok()),
    }
}

fn items(state: &mut State, value: &Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Undefined(undefined) => Err(undefined.fail()),
        other => to_vec(state, other),
    }
}

fn set(items: Vec<Value>) -> Result<Set, Error> {
    Ok(Set::new(items.into_iter().map(Key::new).collect::<Result<Vec<_>, _>>()?))
}

#[allow(clippy::mutable_key_type, reason = "hashable values do not change")]
fn distinct(state: &mut State, values: Vec<Value>) -> Result<Value, Error> {
    let mut found: Vec<Value> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for value in values {
        // Hashable values are found fast; the others are compared one by one, as Python does for all.
        match Key::new(value.clone()) {
            Ok(key) if hashable(&value) => {
                if known.insert(key) {
                    found.push(value);
                }
            }
            _ => {
                if !holds(state, &found, &value)? {
                    found.push(value);
                }
            }
        }
    }
    Ok(Value::list(found))
}

fn holds(state: &mut State, list: &[Value], value: &Value) -> Result<bool, Error> {
    for item in list {
        if item.is_same(value) || equal(state, item, value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn unique(call: &mut CallArgs) -> Result<Value, Error> {
    let [values] = call.bind("unique", [("values", None)])?;
    let found = items(call.state, &values)?;
    // Salt's odd rule: something hashable, such as a string or a tuple, gives a set; a list gives a list.
    if hashable(&values) { Ok(Value::Set(set(found)?)) } else { distinct(call.state, found) }
}

/// Selects items from two lists.
type Pick = fn(&mut State, &[Value], &[Value]) -> Result<Vec<Value>, Error>;

/// Combines two values: to a set if both are hashable, otherwise to a list without duplicates.
fn combined(call: &mut CallArgs, name: &str, pick: Pick) -> Result<Value, Error> {
    let [first, second] = call.bind(name, [("lst1", None), ("lst2", None)])?;
    // As in `unique`: only two hashable arguments give a set.
    let sets = hashable(&first) && hashable(&second);
    let (a, b) = (items(call.state, &first)?, items(call.state, &second)?);
    let picked = pick(call.state, &a, &b)?;
    if sets { Ok(Value::Set(set(picked)?)) } else { distinct(call.state, picked) }
}

pub fn union(call: &mut CallArgs) -> Result<Value, Error> {
    combined(call, "union", |_, a, b| Ok([a, b].concat()))
}

pub fn intersect(call: &mut CallArgs) -> Result<Value, Error> {
    combined(call, "intersect", |state, a, b| kept(state, a, b, true))
}

pub fn difference(call: &mut CallArgs) -> Result<Value, Error> {
    combined(call, "difference", |state, a, b| kept(state, a, b, false))
}

pub fn symmetric_difference(call: &mut CallArgs) -> Result<Value, Error> {
    combined(call, "symmetric_difference", |state, a, b| {
        let mut all = kept(state, a, b, false)?;
        all.extend(kept(state, b, a, false)?);
        Ok(all)
    })
}

/// Returns the items of the first list that are in the second or, without `present`, are not.
fn kept(state: &mut State, a: &[Value], b: &[Value], present: bool) -> Result<Vec<Value>, Error> {
    let mut found = Vec::new();
    for item in a {
        if holds(state, b, item)? == present {
            found.push(item.clone());
        }
    }
    Ok(found)
}

fn extreme(
    call: &mut CallArgs,
    name: &str,
    better: fn(&mut State, &Value, &Value) -> Result<bool, Error>,
) -> Result<Value, Error> {
    let function = format!("lst_{name}");
    let [values] = call.bind(&function, [("obj", None)])?;
    let mut all = items(call.state, &values)?.into_iter();
    let Some(mut best) = all.next() else {
        return Err(Error::value_error(format!("{name}() arg is an empty sequence")));
    };
    for item in all {
        if better(call.state, &item, &best)? {
            best = item;
        }
    }
    Ok(best)
}

pub fn min(call: &mut CallArgs) -> Result<Value, Error> {
    extreme(call, "min", less_than)
}

pub fn max(call: &mut CallArgs) -> Result<Value, Error> {
    extreme(call, "max", |state, a, b| less_than(state, b, a))
}

pub fn avg(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("lst_avg", [("lst", None)])?;
    let number = |value: &Value| match value {
        Value::Int(number) => Ok(*number as f64),
        Value::Bool(flag) => Ok(f64::from(u8::from(*flag))),
        Value::Float(number) => Ok(*number),
        Value::Big(number) => Ok(number.to_string().parse().unwrap_or(f64::INFINITY)),
        other => {
            Err(Error::type_error(format!("unsupported operand type(s) for +: 'int' and '{}'", other.type_name())))
        }
    };
    if hashable(&value) {
        // Salt passes a hashable argument to `float()`.
        if let Some(text) = value.as_str() {
            let bad = || Error::value_error(format!("could not convert string to float: {}", value_repr(text)));
            return text.trim().parse().map(Value::Float).map_err(|_| bad());
        }
        return match &value {
            Value::Int(_) | Value::Bool(_) | Value::Float(_) | Value::Big(_) => number(&value).map(Value::Float),
            Value::Undefined(undefined) => Err(undefined.fail()),
            other => {
                let class = other.type_name();
                let text = format!("float() argument must be a string or a real number, not '{class}'");
                Err(Error::type_error(text))
            }
        };
    }
    let all = items(call.state, &value)?;
    let sum = all.iter().map(number).sum::<Result<f64, _>>()?;
    if all.is_empty() {
        return Err(Error::new(jinja::ErrorKind::ZeroDivision, "division by zero"));
    }
    Ok(Value::Float(sum / all.len() as f64))
}

fn value_repr(text: &str) -> String {
    value::python::repr_str(text)
}

pub fn compare(call: &mut CallArgs) -> Result<Value, Error> {
    let [old, new] = call.bind("compare_lists", [("old", Some(Value::None)), ("new", Some(Value::None))])?;
    let found = jinja::Dict::new();
    for (name, from, other) in [("new", &new, &old), ("old", &old, &new)] {
        let mut only = Vec::new();
        for item in items(call.state, from)? {
            if !contains(call.state, other, &item)? {
                only.push(item);
            }
        }
        if !only.is_empty() {
            found.insert_str(name, Value::list(only));
        }
    }
    Ok(Value::Dict(found))
}

pub fn exactly_one_true(call: &mut CallArgs) -> Result<Value, Error> {
    let [values] = call.bind("exactly_one", [("iterable", None)])?;
    exactly(call.state, &values, 1)
}

pub fn exactly_n_true(call: &mut CallArgs) -> Result<Value, Error> {
    let [values, amount] = call.bind("exactly_n", [("iterable", None), ("amount", Some(Value::Int(1)))])?;
    let amount = whole(&amount, "amount")?;
    exactly(call.state, &values, amount)
}

fn exactly(state: &mut State, values: &Value, amount: i64) -> Result<Value, Error> {
    let mut found = 0;
    for item in items(state, values)? {
        found += i64::from(flag(state, &item)?);
    }
    Ok(Value::Bool(found == amount.max(0)))
}

pub fn flatten(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("data", None), ("levels", Some(Value::None)), ("preserve_nulls", Some(Value::Bool(false)))];
    let [data, levels, nulls] = call.bind("flatten", params)?;
    let nulls = flag(call.state, &nulls)?;
    let levels = if levels.is_none() { None } else { Some(whole(&levels, "levels")?) };
    let mut out = Vec::new();
    flat(call.state, &data, levels, nulls, &mut Vec::new(), &mut out)?;
    Ok(Value::list(out))
}

fn flat(
    state: &mut State,
    data: &Value,
    levels: Option<i64>,
    nulls: bool,
    open: &mut Vec<Value>,
    out: &mut Vec<Value>,
) -> Result<(), Error> {
    // Salt remembers every list it has seen, so that a list that occurs twice is a cycle to it. Here only a real cycle
    // is one.
    if open.len() > 300 || open.iter().any(|known| known.is_same(data)) {
        let text = "Reference cycle detected. Check input list.";
        return Err(Error::new(jinja::ErrorKind::Recursion, text));
    }
    open.push(data.clone());
    for item in items(state, data)? {
        // Salt also drops these two words, as they are left over from printing and YAML.
        let null = item.is_none() || matches!(item.as_str(), Some("None" | "null"));
        if null && !nulls {
            continue;
        }
        let enter = item.as_str().is_none() && is_iterable(state, &item)? && levels.is_none_or(|levels| levels >= 1);
        if enter {
            flat(state, &item, levels.map(|levels| levels - 1), nulls, open, out)?;
        } else {
            out.push(item);
        }
    }
    open.pop();
    Ok(())
}

pub fn is_list(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("is_list", [("value", None)])?;
    Ok(Value::Bool(matches!(value, Value::List(_))))
}

pub fn is_iter(call: &mut CallArgs) -> Result<Value, Error> {
    // Salt's parameter for types to ignore; templates cannot name a type.
    let [thing, _ignore] = call.bind("is_iter", [("thing", None), ("ignore", Some(Value::None))])?;
    if thing.as_str().is_some() {
        return Ok(Value::Bool(false));
    }
    is_iterable(call.state, &thing).map(Value::Bool)
}

pub fn sequence(call: &mut CallArgs) -> Result<Value, Error> {
    let [data] = call.bind("ensure_sequence_filter", [("data", None)])?;
    Ok(match data {
        Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) => data,
        single => Value::list(vec![single]),
    })
}

pub fn sorted_ignorecase(call: &mut CallArgs) -> Result<Value, Error> {
    let [values] = call.bind("sorted_ignorecase", [("to_sort", None)])?;
    let mut keyed = Vec::new();
    for item in items(call.state, &values)? {
        let lower = item.as_str().map(str::to_lowercase);
        let missing = || {
            let text = format!("'{}' object has no attribute 'lower'", item.type_name());
            Error::new(jinja::ErrorKind::Attribute, text)
        };
        keyed.push((lower.ok_or_else(missing)?, item));
    }
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect()))
}

pub fn substring_in_list(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("string_to_search_for", None), ("list_to_search", None)];
    let [wanted, list] = call.bind("substr_in_list", params)?;
    let _text = text(&wanted)?;
    for item in items(call.state, &list)? {
        if contains(call.state, &item, &wanted)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
