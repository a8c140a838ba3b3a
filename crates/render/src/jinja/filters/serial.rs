//! Filters that read and write data formats.

use jinja::{CallArgs, Error, ErrorKind, Value};
use yaml::{Flow, Style};

use super::{bytes_of, class, flag, python_str, undefined_in};
use crate::convert::{plain, seen};
use python::{json as pyjson, strip};

/// Returns early with the undefined value if the value contains one.
macro_rules! defined {
    ($call:expr, $value:expr) => {
        if let Some(undefined) = undefined_in($call.state, &$value) {
            return Ok(undefined);
        }
    };
}

fn written(call: &mut CallArgs, value: &Value, flow: &Value) -> Result<Value, Error> {
    let flow = match flow {
        Value::None => Flow::Leaves,
        other if flag(call.state, other)? => Flow::All,
        _ => Flow::Block,
    };
    let value = plain(call.state, value)?;
    let text = yaml::dump_with(&value, Style::from(flow))
        .map_err(|error| Error::new(ErrorKind::Recursion, error.to_string()))?;
    let text = strip(&text);
    // PyYAML ends a bare scalar with an end-of-document marker, which Salt removes.
    Ok(Value::markup(text.strip_suffix("\n...").unwrap_or(text)))
}

pub fn yaml(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, flow] = call.bind("format_yaml", [("value", None), ("flow_style", Some(Value::Bool(true)))])?;
    defined!(call, value);
    written(call, &value, &flow)
}

pub fn dict_to_sls_yaml_params(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("flow_style", Some(Value::Bool(false)))];
    let [value, flow] = call.bind("dict_to_sls_yaml_params", params)?;
    defined!(call, value);
    let Value::Dict(dict) = &value else {
        let text = format!("'{}' object has no attribute 'items'", value.type_name());
        return Err(Error::new(ErrorKind::Attribute, text));
    };
    let mut items = Vec::new();
    for (key, value) in dict.entries() {
        let single = jinja::Dict::new();
        single.insert(jinja::Key::new(key)?, value);
        items.push(Value::Dict(single));
    }
    written(call, &Value::list(items), &flow)
}

/// Returns the indentation of one level: a number of spaces, or a text.
fn indent_of(value: &Value) -> Option<String> {
    match value {
        Value::None => None,
        other => Some(match other.as_i64() {
            // The indent multiplies with the number of lines.
            Some(blanks) => " ".repeat(blanks.clamp(0, 1000) as usize),
            None => other.as_str().unwrap_or_default().to_owned(),
        }),
    }
}

pub fn json(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("sort_keys", Some(Value::Bool(true))), ("indent", Some(Value::None))];
    let [value, sort, indent] = call.bind("format_json", params)?;
    defined!(call, value);
    let style =
        pyjson::Style { indent: indent_of(&indent), sort_keys: flag(call.state, &sort)?, ..pyjson::Style::default() };
    refuse_sets(&value)?;
    let value = plain(call.state, &value)?;
    let text = pyjson::dumps(&value, &style).map_err(Error::type_error)?;
    Ok(Value::markup(strip(&text)))
}

/// JSON has no sets.
fn refuse_sets(value: &Value) -> Result<(), Error> {
    match value {
        Value::Set(_) | Value::Range(_) | Value::View(_) | Value::Iter(_) | Value::Function(_) => {
            Err(Error::type_error(format!("Object of type {} is not JSON serializable", value.type_name())))
        }
        _ => Ok(()),
    }
}

pub fn tojson(call: &mut CallArgs) -> Result<Value, Error> {
    // Salt replaces Jinja's own filter, which sorts keys; this one keeps their order.
    let mut style = pyjson::Style { ensure_ascii: true, ..pyjson::Style::default() };
    if let Some(sort) = call.take_kwarg("sort_keys") {
        style.sort_keys = flag(call.state, &sort)?;
    }
    if let Some(ascii) = call.take_kwarg("ensure_ascii") {
        style.ensure_ascii = flag(call.state, &ascii)?;
    }
    if let Some(separators) = call.take_kwarg("separators").filter(|separators| !separators.is_none()) {
        let parts = jinja::python::to_vec(call.state, &separators)?;
        let [item, key] = <[Value; 2]>::try_from(parts)
            .map_err(|_| Error::value_error("not enough values to unpack (expected 2)"))?;
        style.separators = Some((python_str(call.state, &item)?, python_str(call.state, &key)?));
    }
    let [value, indent] = call.bind("tojson", [("val", None), ("indent", Some(Value::None))])?;
    defined!(call, value);
    style.indent = indent_of(&indent);
    refuse_sets(&value)?;
    let value = plain(call.state, &value)?;
    let text = pyjson::dumps(&value, &style).map_err(Error::type_error)?;
    // As in Jinja, so that the JSON is safe inside HTML.
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").replace('\'', "\\u0027");
    Ok(Value::from(text))
}

pub fn python(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("format_python", [("value", None)])?;
    defined!(call, value);
    let text = jinja::python::pformat(call.state, &value)?;
    Ok(Value::markup(strip(&text)))
}

/// Returns the text to parse: of an imported template its output; `None` for values that are not text.
fn loaded_text(call: &mut CallArgs, value: &Value) -> Result<Option<String>, Error> {
    match value {
        Value::Object(_) => python_str(call.state, value).map(Some),
        Value::Bytes(_) => Ok(String::from_utf8(bytes_of(value)?.into_owned()).ok()),
        other => Ok(other.as_str().map(str::to_owned)),
    }
}

pub fn load_yaml(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("load_yaml", [("value", None)])?;
    defined!(call, value);
    let Some(text) = loaded_text(call, &value)? else {
        return Err(Error::runtime(format!("Unable to load yaml from {}", python_str(call.state, &value)?)));
    };
    match yaml::load(&text, yaml::UNNAMED) {
        Ok(value) => Ok(seen(&value)),
        Err(error) => Err(Error::runtime(format!("Encountered error loading yaml: {error}"))),
    }
}

pub fn load_json(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("load_json", [("value", None)])?;
    defined!(call, value);
    let text = loaded_text(call, &value)?;
    match text.as_deref().map(pyjson::loads) {
        Some(Ok(value)) => Ok(seen(&value)),
        // Salt's message does not say what is wrong with the JSON.
        Some(Err(_)) | None => {
            Err(Error::runtime(format!("Unable to load json from {}", python_str(call.state, &value)?)))
        }
    }
}

pub fn load_text(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("load_text", [("value", None)])?;
    defined!(call, value);
    match value {
        Value::Object(_) => Ok(Value::from(python_str(call.state, &value)?)),
        text => Ok(text),
    }
}

/// Converts all text in lists and dictionaries to bytes.
fn encoded(value: &Value, depth: usize) -> Result<Value, Error> {
    if depth > 300 {
        return Err(Error::new(ErrorKind::Recursion, "maximum recursion depth exceeded"));
    }
    Ok(match value {
        Value::Str(text) | Value::Markup(text) => Value::Bytes(text.as_bytes().into()),
        Value::List(items) => encoded_list(&items.to_vec(), depth)?,
        Value::Tuple(items) => encoded_list(items, depth)?,
        Value::Dict(dict) => {
            let made = jinja::Dict::new();
            for (key, value) in dict.entries() {
                made.insert(jinja::Key::new(encoded(&key, depth + 1)?)?, encoded(&value, depth + 1)?);
            }
            Value::Dict(made)
        }
        other => other.clone(),
    })
}

fn encoded_list(items: &[Value], depth: usize) -> Result<Value, Error> {
    items.iter().map(|item| encoded(item, depth + 1)).collect::<Result<Vec<_>, _>>().map(Value::list)
}

pub fn encode_dict(call: &mut CallArgs) -> Result<Value, Error> {
    let [data] = call.bind("encode_dict", [("data", None)])?;
    match &data {
        Value::Dict(_) => encoded(&data, 0),
        other => {
            let text = format!("'{}' object has no attribute 'items'", other.type_name());
            Err(Error::new(ErrorKind::Attribute, text))
        }
    }
}

pub fn encode_list(call: &mut CallArgs) -> Result<Value, Error> {
    let [data] = call.bind("encode_list", [("data", None)])?;
    let items = jinja::python::to_vec(call.state, &data)?;
    encoded_list(&items, 0)
}

/// Returns the text in double quotes as PyYAML writes it; `unicode` keeps characters outside ASCII.
pub(in crate::jinja) fn double_quoted(text: &str, unicode: bool) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        let short = match letter {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            ' '..='~' => {
                out.push(letter);
                continue;
            }
            // The ranges that PyYAML considers printable. U+FEFF is not among them: it would be read as a byte order
            // mark.
            '\u{a1}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' if unicode => {
                out.push(letter);
                continue;
            }
            other => {
                let code = other as u32;
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                });
                continue;
            }
        };
        out.extend(['\\', short]);
    }
    out.push('"');
    out
}

/// Returns the text in single quotes as PyYAML writes it: line breaks are doubled, because a single one would be read
/// as
/// a space.
fn single_quoted(text: &str) -> String {
    let ends = |letter: char| matches!(letter, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut out = String::from('\'');
    let mut in_breaks = false;
    for letter in text.chars() {
        if ends(letter) {
            if !in_breaks && letter == '\n' {
                out.push('\n');
            }
            out.push(letter);
        } else if letter == '\'' {
            out.push_str("''");
        } else {
            out.push(letter);
        }
        in_breaks = ends(letter);
    }
    out.push('\'');
    out
}

pub fn yaml_dquote(call: &mut CallArgs) -> Result<Value, Error> {
    let [text] = call.bind("yaml_dquote", [("text", None)])?;
    Ok(Value::from(double_quoted(&python_str(call.state, &text)?, false)))
}

pub fn yaml_squote(call: &mut CallArgs) -> Result<Value, Error> {
    let [text] = call.bind("yaml_squote", [("text", None)])?;
    Ok(Value::from(single_quoted(&python_str(call.state, &text)?)))
}

pub fn yaml_encode(call: &mut CallArgs) -> Result<Value, Error> {
    let [data] = call.bind("yaml_encode", [("data", None)])?;
    Ok(match &data {
        Value::None => Value::str("null"),
        Value::Bool(flag) => Value::str(if *flag { "true" } else { "false" }),
        Value::Int(_) | Value::Big(_) => Value::from(python_str(call.state, &data)?),
        Value::Float(number) => Value::from(match *number {
            number if number.is_nan() => ".nan".to_owned(),
            f64::INFINITY => ".inf".to_owned(),
            f64::NEG_INFINITY => "-.inf".to_owned(),
            number => {
                let text = value::python::repr_float(number);
                if text.contains('.') { text } else { text.replacen('e', ".0e", 1) }
            }
        }),
        Value::Str(text) => Value::from(double_quoted(text, false)),
        Value::Undefined(undefined) => return Err(undefined.fail()),
        Value::List(_) | Value::Tuple(_) | Value::Dict(_) | Value::Set(_) => {
            let class = class(&data);
            let text = format!("yaml_encode() only works with YAML scalar data; failed for {class}");
            return Err(Error::type_error(text));
        }
        other => {
            let text = format!("('cannot represent an object', {})", python_str(call.state, other)?);
            return Err(Error::other("RepresenterError", text));
        }
    })
}
