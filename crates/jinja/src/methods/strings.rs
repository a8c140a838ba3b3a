//! Methods of text and bytes.

use super::{Method, arity, index, keywords, tests_of_strings};
use crate::error::{Error, ErrorKind};
use crate::python::text::{byte_of, capitalize, char_count, is_cased, is_space, is_upper, split_lines, title_char};
use crate::python::{str_format, to_vec, truthy};
use crate::value::{CallArgs, Dict, Key, Value};

pub(super) fn find(name: &str) -> Option<Method> {
    Some(match name {
        "lower" => |object, call| simple(object, call, "lower", str::to_lowercase),
        "upper" => |object, call| simple(object, call, "upper", str::to_uppercase),
        "casefold" => |object, call| simple(object, call, "casefold", |text| text.to_lowercase().replace('ß', "ss")),
        "capitalize" => |object, call| simple(object, call, "capitalize", capitalize),
        "title" => |object, call| simple(object, call, "title", title),
        "swapcase" => |object, call| simple(object, call, "swapcase", swapcase),
        "strip" => |object, call| strip(object, call, "strip", true, true),
        "lstrip" => |object, call| strip(object, call, "lstrip", true, false),
        "rstrip" => |object, call| strip(object, call, "rstrip", false, true),
        "split" => |object, call| split(object, call, "split"),
        "rsplit" => |object, call| split(object, call, "rsplit"),
        "splitlines" => splitlines,
        "join" => join,
        "replace" => replace,
        "startswith" => |object, call| affix(object, call, "startswith"),
        "endswith" => |object, call| affix(object, call, "endswith"),
        "find" => |object, call| search(object, call, "find"),
        "rfind" => |object, call| search(object, call, "rfind"),
        "index" => |object, call| search(object, call, "index"),
        "rindex" => |object, call| search(object, call, "rindex"),
        "count" => count,
        "center" => |object, call| justify(object, call, "center"),
        "ljust" => |object, call| justify(object, call, "ljust"),
        "rjust" => |object, call| justify(object, call, "rjust"),
        "zfill" => zfill,
        "partition" => |object, call| partition(object, call, "partition"),
        "rpartition" => |object, call| partition(object, call, "rpartition"),
        "removeprefix" => |object, call| remove(object, call, "removeprefix"),
        "removesuffix" => |object, call| remove(object, call, "removesuffix"),
        "expandtabs" => expandtabs,
        "encode" => encode,
        "format" => format,
        "format_map" => format_map,
        "translate" => translate,
        "maketrans" => maketrans,
        // Methods of markupsafe's Markup, not of text.
        "striptags" | "unescape" => return None,
        other => return tests_of_strings::find(other),
    })
}

pub(super) fn find_bytes(name: &str) -> Option<Method> {
    Some(match name {
        "decode" => decode,
        "hex" => |object, call| {
            arity(call, "bytes", "hex", 0, 0)?;
            let Value::Bytes(bytes) = object else { return Ok(Value::None) };
            Ok(Value::str(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
        },
        _ => return None,
    })
}

pub(super) fn text(object: &Value) -> &str {
    object.as_str().unwrap_or_default()
}

/// Creates text or markup, whichever the object is.
fn alike(object: &Value, text: impl Into<crate::value::Str>) -> Value {
    if matches!(object, Value::Markup(_)) { Value::markup(text) } else { Value::str(text) }
}

fn simple(object: &Value, call: &mut CallArgs, name: &str, change: fn(&str) -> String) -> Result<Value, Error> {
    arity(call, "str", name, 0, 0)?;
    Ok(alike(object, change(text(object))))
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for char in text.chars() {
        if inside {
            out.extend(char.to_lowercase())
        } else {
            out.push_str(&title_char(char))
        }
        inside = is_cased(char);
    }
    out
}

fn swapcase(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_upper(char) { out.extend(char.to_lowercase()) } else { out.extend(char.to_uppercase()) }
    }
    out
}

fn must_be_str(value: &Value) -> Error {
    Error::type_error(format!("must be str, not {}", value.type_name()))
}

fn strip(object: &Value, call: &mut CallArgs, name: &str, left: bool, right: bool) -> Result<Value, Error> {
    arity(call, "str", name, 0, 1)?;
    let chars: Option<Vec<char>> = match call.args.first() {
        None | Some(Value::None) => None,
        Some(Value::Str(chars) | Value::Markup(chars)) => Some(chars.chars().collect()),
        Some(_) => return Err(Error::type_error(format!("{name} arg must be None or str"))),
    };
    let taken = |char: char| chars.as_ref().map_or_else(|| is_space(char), |chars| chars.contains(&char));
    let mut rest = text(object);
    if left {
        rest = rest.trim_start_matches(taken);
    }
    if right {
        rest = rest.trim_end_matches(taken);
    }
    // Nothing was stripped: share the text instead of copying it.
    if rest.len() == text(object).len() {
        return Ok(object.clone());
    }
    Ok(alike(object, rest))
}

fn split(object: &Value, call: &mut CallArgs, name: &str) -> Result<Value, Error> {
    let [sep, max] = keywords(call, name, ["sep", "maxsplit"], 2)?;
    let max = max.map_or(Ok(-1), |max| index(&max))?;
    // A negative limit means no limit.
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let text = text(object);
    let parts: Vec<&str> = match &sep {
        None | Some(Value::None) => {
            if name == "split" {
                split_space(text, max)
            } else {
                rsplit_space(text, max)
            }
        }
        Some(Value::Str(sep) | Value::Markup(sep)) => {
            if sep.is_empty() {
                return Err(Error::value_error("empty separator"));
            }
            if name == "split" {
                text.splitn(max.saturating_add(1), &**sep).collect()
            } else {
                let mut parts: Vec<&str> = text.rsplitn(max.saturating_add(1), &**sep).collect();
                parts.reverse();
                parts
            }
        }
        Some(other) => {
            let text = format!("must be str or None, not {}", other.type_name());
            return Err(Error::type_error(text));
        }
    };
    call.state.check_items(parts.len())?;
    Ok(Value::list(parts.into_iter().map(|part| alike(object, part)).collect()))
}

fn split_space(text: &str, max: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == max {
            parts.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

fn rsplit_space(text: &str, max: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == max {
            parts.push(rest);
            break;
        }
        let start = rest.char_indices().rev().find(|(_, char)| is_space(*char));
        let start = start.map_or(0, |(at, char)| at + char.len_utf8());
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    parts.reverse();
    parts
}

fn splitlines(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    let [keep] = keywords(call, "splitlines", ["keepends"], 1)?;
    let keep = match keep {
        Some(keep) => truthy(call.state, &keep)?,
        None => false,
    };
    Ok(Value::list(split_lines(text(object), keep).into_iter().map(|line| alike(object, line)).collect()))
}

fn join(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "str", "join", 1, 1)?;
    let items = match to_vec(call.state, &call.args[0]) {
        Ok(items) => items,
        Err(error) if *error.kind() == ErrorKind::Type && error.places().is_empty() => {
            return Err(Error::type_error("can only join an iterable"));
        }
        Err(error) => return Err(error),
    };
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        let Some(part) = item.as_str() else {
            let found = item.type_name();
            return Err(Error::type_error(format!("sequence item {at}: expected str instance, {found} found")));
        };
        if at > 0 {
            out.push_str(text(object));
        }
        out.push_str(part);
        call.state.check_size(out.len())?;
    }
    Ok(alike(object, out))
}

/// Replaces at most `count` times, all if it is negative.
pub(crate) fn replace_text(text: &str, old: &str, new: &str, count: i64) -> String {
    match usize::try_from(count) {
        Ok(count) if old.is_empty() => {
            // An empty text occurs before each character and at the end.
            let mut out = String::new();
            let mut left = count;
            for char in text.chars() {
                if left > 0 {
                    out.push_str(new);
                    left -= 1;
                }
                out.push(char);
            }
            if left > 0 {
                out.push_str(new);
            }
            out
        }
        Ok(count) => text.replacen(old, new, count),
        Err(_) => text.replace(old, new),
    }
}

fn replace(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "str", "replace", 2, 3)?;
    for (at, arg) in call.args.iter().take(2).enumerate() {
        if arg.as_str().is_none() {
            let name = arg.type_name();
            return Err(Error::type_error(format!("replace() argument {} must be str, not {name}", at + 1)));
        }
    }
    let count = call.args.get(2).map_or(Ok(-1), index)?;
    let (old, new) = (text(&call.args[0]), text(&call.args[1]));
    // The size of the result is checked before it exists: `('x' * 10**6)|replace('', 'x' * 10**6)` needs a terabyte.
    let times = if old.is_empty() { char_count(text(object)) + 1 } else { text(object).matches(old).count() };
    call.state.check_size(text(object).len() + times.saturating_mul(new.len()))?;
    Ok(alike(object, replace_text(text(object), old, new, count)))
}

/// Converts the bounds of a search to byte offsets; `None` if the start is beyond the end.
fn bounds(text: &str, start: Option<&Value>, end: Option<&Value>) -> Result<Option<(usize, usize)>, Error> {
    let len = char_count(text) as i64;
    let bound = |value: Option<&Value>, default: i64| -> Result<i64, Error> {
        Ok(match value {
            None | Some(Value::None) => default,
            Some(Value::Int(number)) if *number < 0 => (*number).saturating_add(len).max(0),
            Some(Value::Int(number)) => *number,
            Some(Value::Bool(flag)) => i64::from(*flag),
            Some(Value::Big(_)) => i64::MAX,
            Some(_) => {
                let text = "slice indices must be integers or None or have an __index__ method";
                return Err(Error::type_error(text));
            }
        })
    };
    let (start, end) = (bound(start, 0)?, bound(end, len)?.min(len));
    // An empty text is not even found beyond the end: `'abc'.find('', 4)` is -1.
    if start > end {
        return Ok(None);
    }
    Ok(Some((byte_of(text, start as usize), byte_of(text, end as usize))))
}

fn affix(object: &Value, call: &mut CallArgs, name: &str) -> Result<Value, Error> {
    arity(call, "str", name, 1, 3)?;
    let found = bounds(text(object), call.args.get(1), call.args.get(2))?;
    let test = |part: &str| match found {
        Some((start, end)) if name == "startswith" => text(object)[start..end].starts_with(part),
        Some((start, end)) => text(object)[start..end].ends_with(part),
        None => false,
    };
    match &call.args[0] {
        Value::Str(part) | Value::Markup(part) => Ok(Value::Bool(test(part))),
        Value::Tuple(parts) => {
            for part in parts.iter() {
                let Some(part) = part.as_str() else {
                    let found = part.type_name();
                    return Err(Error::type_error(format!("tuple for {name} must only contain str, not {found}")));
                };
                if test(part) {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        other => {
            let found = other.type_name();
            Err(Error::type_error(format!("{name} first arg must be str or a tuple of str, not {found}")))
        }
    }
}

fn search(object: &Value, call: &mut CallArgs, name: &str) -> Result<Value, Error> {
    arity(call, "str", name, 1, 3)?;
    let whole = text(object);
    let Some(part) = call.args[0].as_str() else { return Err(must_be_str(&call.args[0])) };
    let found = bounds(whole, call.args.get(1), call.args.get(2))?.and_then(|(start, end)| {
        let within = &whole[start..end];
        let at = if name.starts_with('r') { within.rfind(part) } else { within.find(part) };
        at.map(|at| char_count(&whole[..start + at]))
    });
    match found {
        Some(at) => Ok(Value::from(at)),
        None if name.ends_with("index") => Err(Error::value_error("substring not found")),
        None => Ok(Value::Int(-1)),
    }
}

fn count(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "str", "count", 1, 3)?;
    let whole = text(object);
    let Some(part) = call.args[0].as_str() else { return Err(must_be_str(&call.args[0])) };
    let Some((start, end)) = bounds(whole, call.args.get(1), call.args.get(2))? else { return Ok(Value::Int(0)) };
    let within = &whole[start..end];
    Ok(Value::from(if part.is_empty() { char_count(within) + 1 } else { within.matches(part).count() }))
}

fn justify(object: &Value, call: &mut CallArgs, name: &str) -> Result<Value, Error> {
    arity(call, "str", name, 1, 2)?;
    let width = index(&call.args[0])?;
    let fill = match call.args.get(1) {
        None => ' ',
        Some(Value::Str(fill) | Value::Markup(fill)) => {
            let mut chars = fill.chars();
            match (chars.next(), chars.next()) {
                (Some(one), None) => one,
                _ => return Err(Error::type_error("The fill character must be exactly one character long")),
            }
        }
        Some(other) => {
            let text = format!("The fill character must be a unicode character, not {}", other.type_name());
            return Err(Error::type_error(text));
        }
    };
    call.state.check_size(usize::try_from(width).unwrap_or(0).saturating_mul(fill.len_utf8()))?;
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(char_count(text(object)));
    let left = match name {
        // CPython puts the odd space left if the width is odd, too, and right otherwise.
        "center" => missing / 2 + (missing & width as usize & 1),
        "rjust" => missing,
        _ => 0,
    };
    let pad = |count: usize| fill.to_string().repeat(count);
    Ok(alike(object, format!("{}{}{}", pad(left), text(object), pad(missing - left))))
}

/// Centers text as `str.center()`.
pub(crate) fn center_text(text: &str, width: i64) -> String {
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(char_count(text));
    // As in `justify`: the side of the odd space depends on the width.
    let left = missing / 2 + (missing & width as usize & 1);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(missing - left))
}

fn zfill(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "str", "zfill", 1, 1)?;
    let width = usize::try_from(index(&call.args[0])?).unwrap_or(0);
    call.state.check_size(width)?;
    let zeros = "0".repeat(width.saturating_sub(char_count(text(object))));
    let text = text(object);
    Ok(alike(
        object,
        match text.chars().next() {
            // The zeros go between the sign and the digits.
            Some(sign @ ('+' | '-')) => format!("{sign}{zeros}{}", &text[1..]),
            _ => format!("{zeros}{text}"),
        },
    ))
}

fn partition(object: &Value, call: &mut CallArgs, name: &str) -> Result<Value, Error> {
    arity(call, "str", name, 1, 1)?;
    let Some(sep) = call.args[0].as_str() else { return Err(must_be_str(&call.args[0])) };
    if sep.is_empty() {
        return Err(Error::value_error("empty separator"));
    }
    let text = text(object);
    let parts = if name == "partition" { text.split_once(sep) } else { text.rsplit_once(sep) };
    let parts = match parts {
        Some((before, after)) => [before, sep, after],
        None if name == "partition" => [text, "", ""],
        None => ["", "", text],
    };
    Ok(Value::tuple(parts.iter().map(|part| alike(object, *part)).collect()))
}

fn remove(object: &Value, call: &mut CallArgs, name: &str) -> Result<Value, Error> {
    arity(call, "str", name, 1, 1)?;
    let Some(affix) = call.args[0].as_str() else {
        let found = call.args[0].type_name();
        return Err(Error::type_error(format!("{name}() argument must be str, not {found}")));
    };
    let text = text(object);
    let rest = if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
    Ok(alike(object, rest.unwrap_or(text)))
}

fn expandtabs(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    let [size] = keywords(call, "expandtabs", ["tabsize"], 1)?;
    let size = usize::try_from(size.map_or(Ok(8), |size| index(&size))?).unwrap_or(0);
    let mut out = String::new();
    let mut column = 0;
    for char in text(object).chars() {
        match char {
            '\t' => {
                let spaces = if size == 0 { 0 } else { size - column % size };
                call.state.check_size(out.len() + spaces)?;
                out.push_str(&" ".repeat(spaces));
                column += spaces;
            }
            '\n' | '\r' => {
                out.push(char);
                column = 0;
            }
            char => {
                out.push(char);
                column += 1;
            }
        }
    }
    Ok(alike(object, out))
}

fn encoding(call: &mut CallArgs, name: &str) -> Result<(String, String), Error> {
    let [encoding, errors] = keywords(call, name, ["encoding", "errors"], 2)?;
    let take = |value: Option<Value>, which: &str, default: &str| match value {
        None => Ok(default.to_string()),
        Some(value) => value.as_str().map(str::to_string).ok_or_else(|| {
            Error::type_error(format!("{name}() argument '{which}' must be str, not {}", value.type_name()))
        }),
    };
    Ok((take(encoding, "encoding", "utf-8")?, take(errors, "errors", "strict")?))
}

fn encode(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    let (encoding, errors) = encoding(call, "encode")?;
    let text = text(object);
    // Only what configuration files use; Python knows about a hundred more.
    let (most, name) = match encoding.to_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "u8" => return Ok(Value::Bytes(text.as_bytes().into())),
        "ascii" | "usascii" => (0x7f, "ascii"),
        "latin1" | "iso88591" | "l1" => (0xff, "latin-1"),
        _ => return Err(Error::new(ErrorKind::Lookup, format!("unknown encoding: {encoding}"))),
    };
    let mut bytes = Vec::with_capacity(text.len());
    for (at, char) in text.chars().enumerate() {
        match (char as u32 <= most, errors.as_str()) {
            (true, _) => bytes.push(char as u8),
            (false, "ignore") => {}
            (false, "replace") => bytes.push(b'?'),
            _ => {
                let code = match char as u32 {
                    code @ ..=0xff => format!("'\\x{code:02x}'"),
                    code @ ..=0xffff => format!("'\\u{code:04x}'"),
                    code => format!("'\\U{code:08x}'"),
                };
                let text = format!(
                    "'{name}' codec can't encode character {code} in position {at}: ordinal not in range({})",
                    most + 1
                );
                return Err(Error::new(ErrorKind::Other("UnicodeEncodeError".into()), text));
            }
        }
    }
    Ok(Value::Bytes(bytes.into()))
}

fn decode(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    let (encoding, errors) = encoding(call, "decode")?;
    let Value::Bytes(bytes) = object else { return Ok(Value::None) };
    match encoding.to_lowercase().replace(['-', '_'], "").as_str() {
        "latin1" | "iso88591" | "l1" => {
            return Ok(Value::str(bytes.iter().map(|byte| *byte as char).collect::<String>()));
        }
        "utf8" | "u8" | "ascii" | "usascii" => {}
        _ => return Err(Error::new(ErrorKind::Lookup, format!("unknown encoding: {encoding}"))),
    }
    match (std::str::from_utf8(bytes), errors.as_str()) {
        (Ok(text), _) => Ok(Value::str(text)),
        (Err(_), "ignore") => Ok(Value::str(String::from_utf8_lossy(bytes).replace(char::REPLACEMENT_CHARACTER, ""))),
        (Err(_), "replace") => Ok(Value::str(String::from_utf8_lossy(bytes).into_owned())),
        (Err(error), _) => {
            let at = error.valid_up_to();
            let byte = bytes.get(at).copied().unwrap_or(0);
            let text = format!("'utf-8' codec can't decode byte {byte:#04x} in position {at}: invalid start byte");
            Err(Error::new(ErrorKind::Other("UnicodeDecodeError".into()), text))
        }
    }
}

fn format(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    let (args, kwargs) = (std::mem::take(&mut call.args), std::mem::take(&mut call.kwargs));
    let lookup = Dict::new();
    lookup.lock().extend(kwargs.into_iter().map(|(name, value)| (Key::str(name), value)));
    // Attributes in the format are looked up through the sandbox: `'{0.__class__}'.format(x)` is the classical way out
    // of it.
    Ok(alike(object, str_format(call.state, text(object), &args, &Value::Dict(lookup))?))
}

fn format_map(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    if !call.kwargs.is_empty() {
        return Err(Error::type_error("format_map() takes no keyword arguments"));
    }
    let given = call.args.len();
    if given != 1 {
        return Err(Error::type_error(format!("format_map() takes exactly one argument ({given} given)")));
    }
    let mapping = call.args.remove(0);
    Ok(alike(object, str_format(call.state, text(object), &[], &mapping)?))
}

fn translate(object: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "str", "translate", 1, 1)?;
    let mut out = String::new();
    for char in text(object).chars() {
        let code = Value::Int(char as i64);
        match crate::python::get_item_raw(call.state, &call.args[0], &code) {
            Ok(Value::None) => {}
            Ok(Value::Str(part) | Value::Markup(part)) => out.push_str(&part),
            Ok(Value::Int(code)) => match u32::try_from(code).ok().and_then(char::from_u32) {
                Some(char) => out.push(char),
                None => return Err(Error::value_error("character mapping must be in range(0x110000)")),
            },
            Ok(_) => return Err(Error::type_error("character mapping must return integer, None or str")),
            // The table may be any mapping or sequence. A character that it does not hold stays.
            Err(error) if matches!(error.kind(), ErrorKind::Key | ErrorKind::Index) => out.push(char),
            Err(error) => return Err(error),
        }
        call.state.check_size(out.len())?;
    }
    Ok(alike(object, out))
}

fn maketrans(_: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    arity(call, "str", "maketrans", 1, 3)?;
    let table = Dict::new();
    let code = |char: char| Key::new(Value::Int(char as i64));
    if let [Value::Dict(given)] = call.args.as_slice() {
        for (key, value) in given.entries() {
            let key = match key.as_str() {
                Some(text) if char_count(text) == 1 => Value::Int(text.chars().next().map_or(0, |char| char as i64)),
                Some(_) => {
                    return Err(Error::value_error("string keys in translate table must be of length 1"));
                }
                None => key,
            };
            table.insert(Key::new(key)?, value);
        }
        return Ok(Value::Dict(table));
    }
    if call.args.len() == 1 {
        return Err(Error::type_error("if you give only one argument to maketrans it must be a dict"));
    }
    let (from, to) = (text(&call.args[0]), text(&call.args[1]));
    if char_count(from) != char_count(to) {
        let text = "the first two maketrans arguments must have equal length";
        return Err(Error::value_error(text));
    }
    for (a, b) in from.chars().zip(to.chars()) {
        table.insert(code(a)?, Value::Int(b as i64));
    }
    for char in call.args.get(2).map_or("", |gone| text(gone)).chars() {
        table.insert(code(char)?, Value::None);
    }
    Ok(Value::Dict(table))
}
