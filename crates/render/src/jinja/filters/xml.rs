//! The filter `xml`.

use jinja::{CallArgs, Error, State, Value};

use super::{python_str, undefined_in};

/// An element with its attributes, text and children.
#[derive(Default)]
struct Element {
    tag: String,
    attributes: Vec<(String, String)>,
    text: Option<String>,
    children: Vec<Element>,
}

const MAX_DEPTH: usize = 200;

fn no_tree() -> Error {
    Error::runtime("Value is not a dict or list. Cannot render as XML")
}

/// Returns the pairs of tag and content in a value.
fn pairs(value: &Value) -> Result<Vec<(Value, Value)>, Error> {
    let of_list = |items: Vec<Value>| match items.first() {
        Some(Value::Str(_) | Value::Markup(_)) if items.len() == 2 => {
            let mut items = items.into_iter();
            Ok(vec![(items.next().unwrap_or_default(), items.next().unwrap_or_default())])
        }
        Some(Value::Str(_) | Value::Markup(_)) => Err(no_tree()),
        _ => Ok(Vec::new()),
    };
    match value {
        Value::Dict(dict) => Ok(dict.entries()),
        Value::List(list) => of_list(list.to_vec()),
        Value::Tuple(items) => of_list(items.to_vec()),
        _ => Err(no_tree()),
    }
}

/// Appends elements to a parent. Salt continues with the last one it made.
fn grow(state: &mut State, pairs: Vec<(Value, Value)>, into: &mut Vec<Element>, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(jinja::ErrorKind::Recursion, "maximum recursion depth exceeded"));
    }
    for (tag, content) in pairs {
        // A list repeats its tag for each item.
        if let Value::List(items) = &content {
            for item in items.to_vec() {
                grow(state, vec![(tag.clone(), item)], into, depth + 1)?;
            }
            continue;
        }
        let mut element = Element { tag: python_str(state, &tag)?, ..Element::default() };
        match &content {
            Value::Str(_) | Value::Markup(_) | Value::Int(_) | Value::Big(_) | Value::Bool(_) | Value::Float(_) => {
                element.text = Some(python_str(state, &content)?);
            }
            Value::Dict(dict) => {
                let mut inner = Vec::new();
                for (key, value) in dict.entries() {
                    match value {
                        Value::Dict(_) | Value::List(_) => inner.push((key, value)),
                        plain => {
                            let key = python_str(state, &key)?;
                            element.attributes.push((key, python_str(state, &plain)?));
                        }
                    }
                }
                grow(state, inner, &mut element.children, depth + 1)?;
            }
            other => {
                for (key, value) in self::pairs(other)? {
                    if matches!(value, Value::Dict(_) | Value::List(_)) {
                        grow(state, vec![(key, value)], &mut element.children, depth + 1)?;
                    }
                }
            }
        }
        into.push(element);
    }
    Ok(())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn write(element: &Element, depth: usize, out: &mut String) {
    let indent = " ".repeat(depth);
    out.push_str(&format!("{indent}<{}", element.tag));
    for (name, value) in &element.attributes {
        out.push_str(&format!(" {name}=\"{}\"", escaped(value)));
    }
    match (&element.text, element.children.is_empty()) {
        (Some(text), true) if !text.is_empty() => {
            out.push_str(&format!(">{}</{}>\n", escaped(text), element.tag));
        }
        (_, true) => out.push_str("/>\n"),
        (_, false) => {
            out.push_str(">\n");
            element.children.iter().for_each(|child| write(child, depth + 1, out));
            out.push_str(&format!("{indent}</{}>\n", element.tag));
        }
    }
}

pub fn xml(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("format_xml", [("value", None)])?;
    if let Some(undefined) = undefined_in(call.state, &value) {
        return Ok(undefined);
    }
    let mut roots = Vec::new();
    grow(call.state, pairs(&value)?, &mut roots, 0)?;
    // Salt overwrites its root with each element it makes, so that only the last one is printed.
    let Some(root) = roots.last() else {
        return Err(Error::type_error("a bytes-like object is required, not 'NoneType'"));
    };
    let mut out = "<?xml version=\"1.0\" ?>\n".to_owned();
    write(root, 0, &mut out);
    Ok(Value::markup(out))
}
