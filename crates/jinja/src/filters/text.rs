//! Filters of text.

use std::sync::LazyLock;

use regex::Regex;

use super::{escape, escape_text, integer};
use crate::error::{Error, ErrorKind};
use crate::methods::strings::{center_text, replace_text};
use crate::python::text::{self, char_count, is_space, split_lines};
use crate::python::{percent, repr_str, truthy};
use crate::run::State;
use crate::value::{CallArgs, Dict, Key, Value};

static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"\w+"));
// Jinja's own word boundaries. Python's `str.title()` would write `It'S` for `it's`.
static WORD_START: LazyLock<Regex> = LazyLock::new(|| pattern(r"[-\s({\[<]+"));
static COMMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)<!--.*?-->"));
static TAG: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)<.*?>"));

pub(super) fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|_| unreachable!("the pattern is constant"))
}

/// Converts a value to text, and returns whether it is markup.
fn soft(state: &mut State, value: &Value) -> Result<(String, bool), Error> {
    Ok((state.str(value)?, matches!(value, Value::Markup(_))))
}

fn alike(text: String, markup: bool) -> Value {
    if markup { Value::markup(text) } else { Value::str(text) }
}

fn change(call: &mut CallArgs, name: &str, change: fn(&str) -> String) -> Result<Value, Error> {
    let [value] = call.bind(name, [("s", None)])?;
    let (text, markup) = soft(call.state, &value)?;
    Ok(alike(change(&text), markup))
}

pub(super) fn pprint(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_pprint", [("value", None)])?;
    Ok(Value::str(crate::python::pformat(call.state, &value)?))
}

pub(super) fn upper(call: &mut CallArgs) -> Result<Value, Error> {
    change(call, "do_upper", str::to_uppercase)
}

pub(super) fn lower(call: &mut CallArgs) -> Result<Value, Error> {
    change(call, "do_lower", str::to_lowercase)
}

pub(super) fn capitalize(call: &mut CallArgs) -> Result<Value, Error> {
    change(call, "do_capitalize", text::capitalize)
}

pub(super) fn title(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_title", [("s", None)])?;
    let text = call.state.str(&value)?;
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    let mut word = |part: &str| {
        let mut chars = part.chars();
        if let Some(first) = chars.next() {
            out.extend(first.to_uppercase());
            out.push_str(&chars.as_str().to_lowercase());
        }
    };
    for found in WORD_START.find_iter(&text) {
        word(&text[last..found.start()]);
        word(found.as_str());
        last = found.end();
    }
    word(&text[last..]);
    Ok(Value::str(out))
}

pub(super) fn string(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("soft_str", [("s", None)])?;
    match value {
        Value::Str(_) | Value::Markup(_) => Ok(value),
        other => Ok(Value::str(call.state.str(&other)?)),
    }
}

pub(super) fn safe(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_mark_safe", [("value", None)])?;
    Ok(Value::markup(call.state.str(&value)?))
}

pub(super) fn escape_filter(call: &mut CallArgs) -> Result<Value, Error> {
    call.no_kwargs("markupsafe._speedups.escape")?;
    let given = call.args.len();
    if given != 1 {
        return Err(Error::type_error(format!("escape() takes exactly one argument ({given} given)")));
    }
    Ok(Value::markup(escape(call.state, &call.args[0].clone())?))
}

pub(super) fn forceescape(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_forceescape", [("value", None)])?;
    let text = call.state.str(&value)?;
    Ok(Value::markup(escape_text(&text)))
}

pub(super) fn center(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, width] = call.bind("do_center", [("value", None), ("width", Some(Value::Int(80)))])?;
    let (text, markup) = soft(call.state, &value)?;
    let width = integer(&width)?;
    call.state.check_size(usize::try_from(width).unwrap_or(0))?;
    Ok(alike(center_text(&text, width), markup))
}

pub(super) fn replace(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("s", None), ("old", None), ("new", None), ("count", Some(Value::None))];
    let [value, old, new, count] = call.bind("do_replace", params)?;
    let state = &mut *call.state;
    let (text, old, new) = (state.str(&value)?, state.str(&old)?, state.str(&new)?);
    let count = if count.is_none() { -1 } else { integer(&count)? };
    // The size is computed first: replacing each character with a large text must not be tried out.
    let times = if old.is_empty() { char_count(&text) + 1 } else { text.matches(&*old).count() };
    state.check_size(text.len() + times.saturating_mul(new.len()))?;
    // Plain text even for markup: that is what Jinja returns when autoescape is off, and Salt never turns it on.
    Ok(Value::str(replace_text(&text, &old, &new, count)))
}

pub(super) fn trim(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, chars] = call.bind("do_trim", [("value", None), ("chars", Some(Value::None))])?;
    let (text, markup) = soft(call.state, &value)?;
    let chars: Option<Vec<char>> = match &chars {
        Value::None => None,
        Value::Str(chars) | Value::Markup(chars) => Some(chars.chars().collect()),
        _ => return Err(Error::type_error("strip arg must be None or str")),
    };
    let taken = |char: char| chars.as_ref().map_or_else(|| is_space(char), |chars| chars.contains(&char));
    Ok(alike(text.trim_matches(taken).to_string(), markup))
}

pub(super) fn format(call: &mut CallArgs) -> Result<Value, Error> {
    if call.args.is_empty() {
        return Err(crate::value::missing("do_format", &["value"]));
    }
    let value = call.args.remove(0);
    let (args, kwargs) = (std::mem::take(&mut call.args), std::mem::take(&mut call.kwargs));
    if !args.is_empty() && !kwargs.is_empty() {
        let text = "can't handle positional and keyword arguments at the same time";
        return Err(Error::new(ErrorKind::FilterArgument, text));
    }
    let (text, markup) = soft(call.state, &value)?;
    let values = if kwargs.is_empty() {
        Value::tuple(args)
    } else {
        let dict = Dict::new();
        dict.lock().extend(kwargs.into_iter().map(|(name, value)| (Key::str(name), value)));
        Value::Dict(dict)
    };
    percent(call.state, &alike(text, markup), &values)
}

pub(super) fn wordcount(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_wordcount", [("s", None)])?;
    let text = call.state.str(&value)?;
    Ok(Value::from(WORD.find_iter(&text).count()))
}

pub(super) fn indent(call: &mut CallArgs) -> Result<Value, Error> {
    let no = || Some(Value::Bool(false));
    let params = [("s", None), ("width", Some(Value::Int(4))), ("first", no()), ("blank", no())];
    let [value, width, first, blank] = call.bind("do_indent", params)?;
    let state = &mut *call.state;
    let indention = match &width {
        Value::Str(text) | Value::Markup(text) => text.to_string(),
        other => match other.as_i64() {
            Some(count) => {
                state.check_size(usize::try_from(count).unwrap_or(0))?;
                " ".repeat(usize::try_from(count).unwrap_or(0))
            }
            None => {
                let name = other.type_name();
                return Err(Error::type_error(format!("can't multiply sequence by non-int of type '{name}'")));
            }
        },
    };
    let Some(text) = value.as_str() else {
        return Err(not_text(state, &value));
    };
    let (first, blank) = (truthy(state, &first)?, truthy(state, &blank)?);
    // The added newline keeps an empty last line, which splitlines() would drop.
    let with_end = format!("{text}\n");
    let lines = split_lines(&with_end, false);
    state.check_size(text.len() + lines.len().saturating_mul(indention.len()))?;
    let mut out = String::with_capacity(text.len() + lines.len() * indention.len());
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        // The first line follows text that is already indented in the template; blank lines stay free of trailing
        // spaces.
        if (at > 0 && (blank || !line.is_empty())) || (at == 0 && first) {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(alike(out, matches!(value, Value::Markup(_))))
}

/// The error of `value += text` and then `value.splitlines()`.
fn not_text(state: &mut State, value: &Value) -> Error {
    if !matches!(value, Value::List(_))
        && let Err(error) = crate::python::add(state, value, &Value::str("\n"))
    {
        return Error::new(error.kind().clone(), error.message().replace("for +:", "for +=:"));
    }
    let text = format!("'{}' object has no attribute 'splitlines'", value.type_name());
    Error::new(ErrorKind::Attribute, text)
}

pub(super) fn truncate(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [
        ("s", None),
        ("length", Some(Value::Int(255))),
        ("killwords", Some(Value::Bool(false))),
        ("end", Some(Value::str("..."))),
        ("leeway", Some(Value::None)),
    ];
    let [value, length, killwords, end, leeway] = call.bind("do_truncate", params)?;
    let length = integer(&length)?;
    // Jinja's policy `truncate.leeway`: text that is only slightly too long stays whole.
    let leeway = if leeway.is_none() { 5 } else { integer(&leeway)? };
    let end = end.as_str().unwrap_or_default().to_string();
    let end_len = char_count(&end) as i64;
    if length < end_len {
        let text = format!("expected length >= {end_len}, got {length}");
        return Err(Error::new(ErrorKind::Assertion, text));
    }
    if leeway < 0 {
        return Err(Error::new(ErrorKind::Assertion, format!("expected leeway >= 0, got {leeway}")));
    }
    let count = crate::python::len(call.state, &value)? as i64;
    if count <= length + leeway {
        return Ok(value);
    }
    let Some(text) = value.as_str() else {
        let name = value.type_name();
        return Err(Error::type_error(format!("can only concatenate {name} (not \"str\") to {name}")));
    };
    let kept = &text[..text::byte_of(text, (length - end_len) as usize)];
    let kept = match kept.rsplit_once(' ') {
        // Cut at the last space, so that no word is split.
        Some((before, _)) if !truthy(call.state, &killwords)? => before,
        _ => kept,
    };
    Ok(alike(format!("{kept}{end}"), matches!(value, Value::Markup(_))))
}

pub(super) fn striptags(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_striptags", [("value", None)])?;
    let text = call.state.str(&value)?;
    // Comments go first: they may contain `>`.
    let text = COMMENT.replace_all(&text, "");
    let text = TAG.replace_all(&text, "");
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    Ok(Value::str(unescape(&words.join(" "))))
}

/// Resolves numeric entities and the most common named ones.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // No entity of this list is longer; a lone `&` must not search the whole text.
        let end = rest.find(';').filter(|end| *end <= 10);
        let char = end.and_then(|end| entity(&rest[1..end]));
        match (char, end) {
            (Some(char), Some(end)) => {
                out.push(char);
                rest = &rest[end + 1..];
            }
            _ => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    if let Some(code) = name.strip_prefix('#') {
        let code = match code.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => code.parse().ok()?,
        };
        return char::from_u32(code);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "hellip" => '…',
        "ndash" => '–',
        "mdash" => '—',
        "laquo" => '«',
        "raquo" => '»',
        "euro" => '€',
        _ => return None,
    })
}

pub(super) fn xmlattr(call: &mut CallArgs) -> Result<Value, Error> {
    let [value, autospace] = call.bind("do_xmlattr", [("d", None), ("autospace", Some(Value::Bool(true)))])?;
    let Value::Dict(dict) = &value else {
        if let Value::Undefined(undefined) = &value {
            return Err(undefined.fail());
        }
        let name = value.type_name();
        return Err(Error::new(ErrorKind::Attribute, format!("'{name}' object has no attribute 'items'")));
    };
    let mut items = Vec::new();
    for (key, value) in dict.entries() {
        // An attribute without a value is left out, so that a template can make it optional.
        if value.is_none() || value.is_undefined() {
            continue;
        }
        let Some(name) = key.as_str() else {
            let found = key.type_name();
            return Err(Error::type_error(format!("expected string or bytes-like object, got '{found}'")));
        };
        // A key with one of these could end the attribute and smuggle in another one (CVE-2024-22195, CVE-2024-34064).
        if name.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c', '/', '>', '=']) {
            let text = format!("Invalid character in attribute name: {}", repr_str(name));
            return Err(Error::value_error(text));
        }
        items.push(format!("{}=\"{}\"", escape(call.state, &key)?, escape(call.state, &value)?));
    }
    let mut text = items.join(" ");
    if !text.is_empty() && truthy(call.state, &autospace)? {
        text.insert(0, ' ');
    }
    Ok(Value::str(text))
}
