//! Names that Salt adds to Jinja's own.

use std::sync::Arc;

use jinja::python::to_vec;
use jinja::{Dict, Environment, Error, Function, Key, State, Value};

pub(super) fn install(env: &mut Environment) {
    env.add_function("raise", |call| {
        let [text] = call.bind("jinja_raise", [("msg", None)])?;
        Err(Error::other("TemplateError", call.state.str(&text)?))
    });
    // Fails in Salt 3008.5 with a NameError; COMPATIBILITY.md lists it.
    env.add_function("ifelse", |call| super::salt::call(call, "match.ifelse"));
    env.add_function("show_full_context", |call| {
        let shown = Dict::new();
        let mut names = call.state.variables();
        // The session is none of the template's business.
        names.retain(|(name, _)| &**name != super::session::NAME);
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, value) in names {
            shown.insert_str(name, simple(call.state, &value, 0)?);
        }
        Ok(Value::Dict(shown))
    });
    let ordered = Function::class("OrderedDict", "collections.OrderedDict", |call| {
        let made = Dict::ordered();
        let args = std::mem::take(&mut call.args);
        if args.len() > 1 {
            let text = format!("expected at most 1 positional argument, got {}", args.len());
            return Err(Error::type_error(text));
        }
        match args.first() {
            Some(Value::Dict(dict)) => {
                for (key, value) in dict.entries() {
                    made.insert(Key::new(key)?, value);
                }
            }
            Some(pairs) => {
                for pair in to_vec(call.state, pairs)? {
                    let pair = to_vec(call.state, &pair)?;
                    let size = pair.len();
                    let [key, value] = <[Value; 2]>::try_from(pair)
                        .map_err(|_| Error::value_error(format!("need 2 values to unpack, got {size}")))?;
                    made.insert(Key::new(key)?, value);
                }
            }
            None => {}
        }
        for (name, value) in std::mem::take(&mut call.kwargs) {
            made.insert_str(name, value);
        }
        Ok(Value::Dict(made))
    });
    env.add_global("odict", Value::Function(Arc::new(ordered)));
}

/// Returns data unchanged, and the `repr()` of everything else.
fn simple(state: &mut State, value: &Value, depth: usize) -> Result<Value, Error> {
    if depth > 100 {
        return Err(Error::new(jinja::ErrorKind::Recursion, "maximum recursion depth exceeded"));
    }
    Ok(match value {
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) | Value::Str(_) => value.clone(),
        Value::Markup(text) => Value::Str(text.clone()),
        Value::List(items) => simple_list(state, &items.to_vec(), depth)?,
        Value::Tuple(items) => simple_list(state, items, depth)?,
        Value::Dict(dict) => {
            let made = Dict::new();
            for (key, value) in dict.entries() {
                let key = simple(state, &key, depth + 1)?;
                let value = simple(state, &value, depth + 1)?;
                made.insert(Key::new(key).unwrap_or_else(|_| Key::str("")), value);
            }
            Value::Dict(made)
        }
        Value::Undefined(_) => value.clone(),
        other => Value::from(state.repr(other)?),
    })
}

fn simple_list(state: &mut State, items: &[Value], depth: usize) -> Result<Value, Error> {
    items.iter().map(|item| simple(state, item, depth + 1)).collect::<Result<Vec<_>, _>>().map(Value::list)
}
