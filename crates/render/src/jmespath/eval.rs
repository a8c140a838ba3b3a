//! Evaluates an expression against a value.

use jinja::python::{CmpOp, compare, equal, slice, truthy};
use jinja::{Dict, Error, Key, Object, State, Value};

use super::functions;
use super::lexer::Kind;
use super::tree::{Node, Tree};

/// An expression as a value: what functions such as `sort_by` take.
pub(super) struct Expression(pub(super) Tree);

impl Object for Expression {
    fn type_name(&self) -> &str {
        "_Expression"
    }

    fn module(&self) -> Option<&str> {
        Some("jmespath.visitor")
    }
}

/// Evaluates a tree against a value.
pub(super) fn visit(state: &mut State, tree: &Tree, value: &Value) -> Result<Value, Error> {
    state.spend(1)?;
    Ok(match &*tree.node {
        Node::Current => value.clone(),
        Node::Literal(literal) => literal.clone(),
        Node::Field(name) => field(value, name)?,
        Node::Index(at) => index(value, at),
        Node::Slice(parts) => cut(value, parts)?,
        Node::Chain(trees) => {
            let mut found = value.clone();
            for tree in trees {
                found = visit(state, tree, &found)?;
            }
            found
        }
        Node::Projection(base, each) => project(state, base, each, None, value)?,
        Node::Filter(base, each, condition) => project(state, base, each, Some(condition), value)?,
        Node::Values(base, each) => values(state, base, each, value)?,
        Node::Flatten(base) => flatten(state, base, value)?,
        Node::Compare(kind, left, right) => {
            let (left, right) = (visit(state, left, value)?, visit(state, right, value)?);
            compared(state, *kind, &left, &right)?
        }
        Node::Or(trees) => first(state, trees, value, true)?,
        Node::And(trees) => first(state, trees, value, false)?,
        Node::Not(tree) => {
            let found = visit(state, tree, value)?;
            // Numbers are always true in JMESPath, even 0.
            Value::Bool(!is_number(&found) && !truthy(state, &found)?)
        }
        Node::List(trees) => multi_list(state, trees, value)?,
        Node::Map(entries) => multi_map(state, entries, value)?,
        Node::Call(name, trees) => {
            let mut args = Vec::with_capacity(trees.len());
            for tree in trees {
                args.push(visit(state, tree, value)?);
            }
            functions::call(state, name, args)?
        }
        Node::Expression(tree) => Value::object(Expression(tree.clone())),
    })
}

fn field(value: &Value, name: &Value) -> Result<Value, Error> {
    match value {
        Value::Dict(dict) => Ok(dict.get(&Key::new(name.clone())?).unwrap_or_default()),
        Value::Undefined(undefined) => Err(undefined.fail()),
        _ => Ok(Value::None),
    }
}

fn index(value: &Value, at: &Value) -> Value {
    let (Value::List(list), Some(at)) = (value, at.as_i64()) else { return Value::None };
    let items = list.lock();
    let place = if at < 0 { items.len() as i64 + at } else { at };
    usize::try_from(place).ok().and_then(|place| items.get(place).cloned()).unwrap_or_default()
}

fn cut(value: &Value, parts: &[Option<Value>; 3]) -> Result<Value, Error> {
    // Only lists: in JMESPath a string cannot be sliced.
    let Value::List(_) = value else { return Ok(Value::None) };
    let [start, stop, step] = parts.clone().map(Option::unwrap_or_default);
    slice(value, &start, &stop, &step)
}

fn project(
    state: &mut State,
    base: &Tree,
    each: &Tree,
    condition: Option<&Tree>,
    value: &Value,
) -> Result<Value, Error> {
    let Value::List(base) = visit(state, base, value)? else { return Ok(Value::None) };
    let mut found = Vec::new();
    for item in base.to_vec() {
        if let Some(condition) = condition {
            let holds = visit(state, condition, &item)?;
            if is_false(&holds)? {
                continue;
            }
        }
        found.push(visit(state, each, &item)?);
    }
    // A projection drops nulls.
    found.retain(|item| !item.is_none());
    Ok(Value::list(found))
}

fn values(state: &mut State, base: &Tree, each: &Tree, value: &Value) -> Result<Value, Error> {
    let entries = match visit(state, base, value)? {
        Value::Dict(dict) => dict.entries(),
        Value::Undefined(undefined) => return Err(undefined.fail()),
        _ => return Ok(Value::None),
    };
    let mut found = Vec::new();
    for (_, item) in entries {
        found.push(visit(state, each, &item)?);
    }
    found.retain(|item| !item.is_none());
    Ok(Value::list(found))
}

fn flatten(state: &mut State, base: &Tree, value: &Value) -> Result<Value, Error> {
    let Value::List(base) = visit(state, base, value)? else { return Ok(Value::None) };
    let mut items = Vec::new();
    for item in base.to_vec() {
        match item {
            Value::List(inner) => items.extend(inner.to_vec()),
            other => items.push(other),
        }
        state.check_items(items.len())?;
    }
    state.spend(items.len() as u64)?;
    Ok(Value::list(items))
}

/// Returns the first result whose truth is `wanted`, or the last one.
fn first(state: &mut State, trees: &[Tree], value: &Value, wanted: bool) -> Result<Value, Error> {
    let mut found = Value::None;
    for (place, tree) in trees.iter().enumerate() {
        found = visit(state, tree, value)?;
        if place + 1 < trees.len() && is_false(&found)? != wanted {
            break;
        }
    }
    Ok(found)
}

fn multi_list(state: &mut State, trees: &[Tree], value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Ok(Value::None);
    }
    trees.iter().map(|tree| visit(state, tree, value)).collect::<Result<_, _>>().map(Value::list)
}

fn multi_map(state: &mut State, entries: &[(Value, Tree)], value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Ok(Value::None);
    }
    let dict = Dict::new();
    for (name, tree) in entries {
        let found = visit(state, tree, value)?;
        dict.insert(Key::new(name.clone())?, found);
    }
    Ok(Value::Dict(dict))
}

/// Numbers that are not booleans.
pub(super) fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::Big(_) | Value::Float(_))
}

fn is_false(value: &Value) -> Result<bool, Error> {
    Ok(match value {
        Value::None | Value::Bool(false) => true,
        Value::Str(text) | Value::Markup(text) => text.is_empty(),
        Value::List(list) => list.lock().is_empty(),
        Value::Dict(dict) => dict.is_empty(),
        Value::Undefined(undefined) => return Err(undefined.fail()),
        _ => false,
    })
}

fn compared(state: &mut State, kind: Kind, left: &Value, right: &Value) -> Result<Value, Error> {
    let op = match kind {
        Kind::Eq => return same(state, left, right).map(Value::Bool),
        Kind::Ne => return same(state, left, right).map(|same| Value::Bool(!same)),
        Kind::Lt => CmpOp::Lt,
        Kind::Lte => CmpOp::Le,
        Kind::Gt => CmpOp::Gt,
        _ => CmpOp::Ge,
    };
    let comparable = |value: &Value| is_number(value) || value.as_str().is_some();
    // Ordering anything but numbers gives null; the Python library also orders text.
    if !comparable(left) || !comparable(right) {
        return Ok(Value::None);
    }
    compare(state, op, left, right).map(Value::Bool)
}

/// Equal as in Python, except that 0 and 1 are not booleans.
fn same(state: &mut State, left: &Value, right: &Value) -> Result<bool, Error> {
    let flag = |value: &Value| matches!(value, Value::Bool(_));
    if (is_number(left) && flag(right)) || (is_number(right) && flag(left)) {
        return Ok(false);
    }
    equal(state, left, right)
}
