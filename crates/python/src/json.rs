//! JSON as Python's `json` reads and writes it, with its error texts.

use std::cmp::Ordering;
use std::fmt::Write;

use value::python::{repr, repr_float};
use value::{BigInt, Map, Value, escape};

/// Lists and maps nested deeper are refused, where Python ends with a recursion error.
const MAX_DEPTH: usize = 512;

/// Reads a text as `json.loads()` does: `NaN` and `Infinity` are numbers, of equal keys the last counts.
///
/// # Errors
/// The text of Python's `JSONDecodeError`, with line and column.
pub fn loads(text: &str) -> Result<Value, String> {
    if text.starts_with('\u{feff}') {
        return Err("Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)".to_owned());
    }
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    if reader.at < reader.bytes.len() {
        return Err(reader.failure("Extra data", reader.at));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn failure(&self, what: &str, at: usize) -> String {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("{what}: line {line} column {column} (char {})", before.chars().count())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("maximum recursion depth exceeded while decoding a JSON document".to_owned());
        }
        match self.peek() {
            Some(b'"') => self.string().map(Value::Str),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Value, String> {
        let words = [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("NaN", Value::Float(f64::NAN)),
            ("Infinity", Value::Float(f64::INFINITY)),
            ("-Infinity", Value::Float(f64::NEG_INFINITY)),
        ];
        for (word, value) in words {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.failure("Expecting value", self.at))
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        let mut at = start + usize::from(self.bytes[start] == b'-');
        match self.bytes.get(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at = self.digits(at),
            // `-Infinity` also begins with a minus sign.
            _ => return self.word(),
        }
        let whole_end = at;
        if self.bytes.get(at) == Some(&b'.') && self.digits(at + 1) > at + 1 {
            at = self.digits(at + 1);
        }
        if matches!(self.bytes.get(at), Some(b'e' | b'E')) {
            let sign = at + 1 + usize::from(matches!(self.bytes.get(at + 1), Some(b'+' | b'-')));
            if self.digits(sign) > sign {
                at = self.digits(sign);
            }
        }
        self.at = at;
        let text = &self.text[start..at];
        if at > whole_end {
            return Ok(Value::Float(text.parse().unwrap_or(f64::NAN)));
        }
        Ok(match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => text.parse::<BigInt>().map_or(Value::Null, Value::from),
        })
    }

    fn digits(&self, mut at: usize) -> usize {
        while self.bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        self.space();
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(items));
                }
                _ => return Err(self.failure("Expecting ',' delimiter", self.at)),
            }
            self.space();
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        self.space();
        let mut map = Map::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(map.into());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.failure("Expecting property name enclosed in double quotes", self.at));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.failure("Expecting ':' delimiter", self.at));
            }
            self.at += 1;
            self.space();
            let value = self.value(depth + 1)?;
            map.insert(key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(map.into());
                }
                _ => return Err(self.failure("Expecting ',' delimiter", self.at)),
            }
            self.space();
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some((length, special)) = rest.char_indices().find(|(_, c)| matches!(c, '"' | '\\' | '\0'..='\u{1f}'))
            else {
                return Err(self.failure("Unterminated string starting at", start));
            };
            out.push_str(&rest[..length]);
            self.at += length;
            match special {
                '"' => {
                    self.at += 1;
                    return Ok(out);
                }
                '\\' => out.push(self.escape(start)?),
                // Python's strict mode; JSON allows no raw control characters in strings.
                _ => return Err(self.failure("Invalid control character at", self.at)),
            }
        }
    }

    fn escape(&mut self, start: usize) -> Result<char, String> {
        let Some(sign) = self.bytes.get(self.at + 1) else {
            return Err(self.failure("Unterminated string starting at", start));
        };
        let letter = match sign {
            b'"' | b'\\' | b'/' => *sign as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(self.failure("Invalid \\escape", self.at)),
        };
        self.at += 2;
        Ok(letter)
    }

    /// Half a pair of surrogates becomes the replacement character: our texts cannot hold it.
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex(self.at).ok_or_else(|| self.failure("Invalid \\uXXXX escape", self.at + 1))?;
        self.at += 6;
        if (0xd800..0xdc00).contains(&first)
            && self.text[self.at..].starts_with("\\u")
            && let Some(second) = self.hex(self.at).filter(|code| (0xdc00..0xe000).contains(code))
        {
            self.at += 6;
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at + 2..at + 6)?;
        let plain = digits.iter().all(u8::is_ascii_hexdigit);
        plain.then(|| std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok()))?
    }
}

/// The arguments of `json.dumps()` that control the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The indentation of each level; `None` writes all on one line.
    pub indent: Option<String>,
    /// True if maps are sorted by key.
    pub sort_keys: bool,
    /// True if letters outside of ASCII are written as escapes.
    pub ensure_ascii: bool,
    /// The separators between entries, and between a key and its value; `None` is Python's default.
    pub separators: Option<(String, String)>,
    /// True if bytes, dates and constants, which JSON does not have, are written as texts with their `repr()`, as with
    /// `default=repr`. Keys are refused nevertheless.
    pub foreign_as_repr: bool,
    /// True if characters that command a terminal are written as escapes. They mean the same to programs.
    pub escape_terminal_commands: bool,
}

/// Writes a value as `json.dumps()` does.
///
/// # Errors
/// The text of Python's `TypeError`, for keys and values JSON does not have and for keys that cannot be sorted.
pub fn dumps(value: &Value, style: &Style) -> Result<String, String> {
    let (item, key) = match &style.separators {
        Some((item, key)) => (item.as_str(), key.as_str()),
        // Python leaves out the space where a line break follows.
        None => (if style.indent.is_some() { "," } else { ", " }, ": "),
    };
    let mut writer = Writer { out: String::new(), style, item, key };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'a> {
    out: String,
    style: &'a Style,
    item: &'a str,
    key: &'a str,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("maximum recursion depth exceeded while encoding a JSON object".to_owned());
        }
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(flag) => self.out.push_str(if *flag { "true" } else { "false" }),
            Value::Int(_) | Value::BigInt(_) => self.out.push_str(&value.to_string()),
            Value::Float(number) => self.out.push_str(&float(*number)),
            Value::Str(text) => self.text(text),
            Value::List(items) => self.list(items, depth)?,
            Value::Map(map) => self.map(map, depth)?,
            Value::Bytes(_) | Value::DateTime(_) | Value::Constant(_) if self.style.foreign_as_repr => {
                self.text(&repr(value));
            }
            Value::Bytes(_) | Value::DateTime(_) | Value::Constant(_) => {
                return Err(format!("Object of type {} is not JSON serializable", value.type_name()));
            }
        }
        Ok(())
    }

    fn list(&mut self, items: &[Value], depth: usize) -> Result<(), String> {
        if items.is_empty() {
            self.out.push_str("[]");
            return Ok(());
        }
        self.out.push('[');
        for (place, item) in items.iter().enumerate() {
            self.begin(place, depth + 1);
            self.value(item, depth + 1)?;
        }
        self.line(depth);
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, map: &Map, depth: usize) -> Result<(), String> {
        if map.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        self.out.push('{');
        let mut entries: Vec<(&Value, &Value)> = map.iter().collect();
        if self.style.sort_keys {
            sort(&mut entries)?;
        }
        for (place, (key, value)) in entries.into_iter().enumerate() {
            let key = key_text(key)?;
            self.begin(place, depth + 1);
            self.text(&key);
            self.out.push_str(self.key);
            self.value(value, depth + 1)?;
        }
        self.line(depth);
        self.out.push('}');
        Ok(())
    }

    fn begin(&mut self, place: usize, depth: usize) {
        if place > 0 {
            self.out.push_str(self.item);
        }
        self.line(depth);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(indent));
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for letter in text.chars() {
            match letter {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{c}' => self.out.push_str("\\f"),
                '\u{8}' => self.out.push_str("\\b"),
                '\0'..='\u{1f}' => drop(write!(self.out, "\\u{:04x}", letter as u32)),
                _ if self.style.escape_terminal_commands && escape::is_command(letter) => {
                    let _ = write!(self.out, "\\u{:04x}", letter as u32);
                }
                _ if self.style.ensure_ascii && !(' '..='~').contains(&letter) => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                _ => self.out.push(letter),
            }
        }
        self.out.push('"');
    }
}

fn float(number: f64) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_owned(),
        _ if number == f64::INFINITY => "Infinity".to_owned(),
        _ if number == f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => repr_float(number),
    }
}

fn key_text(key: &Value) -> Result<String, String> {
    Ok(match key {
        Value::Str(text) => text.clone(),
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(_) | Value::BigInt(_) => key.to_string(),
        Value::Float(number) => float(*number),
        // A list as a key was a tuple in Python.
        Value::List(_) => return Err("keys must be str, int, float, bool or None, not tuple".to_owned()),
        other => return Err(format!("keys must be str, int, float, bool or None, not {}", other.type_name())),
    })
}

fn sort(entries: &mut [(&Value, &Value)]) -> Result<(), String> {
    // Python compares each with the one before it first.
    for pair in entries.windows(2) {
        let (a, b) = (pair[0].0, pair[1].0);
        if compare(b, a).is_none() {
            let (b, a) = (b.type_name(), a.type_name());
            return Err(format!("'<' not supported between instances of '{b}' and '{a}'"));
        }
    }
    entries.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(())
}

/// Compares as Python's `<` does; `None` for types that it does not compare.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::List(a), Value::List(b)) => {
            let different = a.iter().zip(b).find(|(a, b)| !value::python::equal(a, b));
            different.map_or(Some(a.len().cmp(&b.len())), |(a, b)| compare(a, b))
        }
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::BigInt(a), Value::BigInt(b)) => Some(a.cmp(b)),
        (Value::Null, Value::Null) if std::ptr::eq(a, b) => Some(Ordering::Equal),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn what_is_wrong_is_said_in_pythons_words() {
        for (text, expected) in [
            ("", "Expecting value: line 1 column 1 (char 0)"),
            ("[1,]", "Expecting value: line 1 column 4 (char 3)"),
            ("[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"),
            ("{\n 'a': 1}", "Expecting property name enclosed in double quotes: line 2 column 2 (char 3)"),
            ("{\"a\" 1}", "Expecting ':' delimiter: line 1 column 6 (char 5)"),
            ("\"a", "Unterminated string starting at: line 1 column 1 (char 0)"),
            ("\"a\tb\"", "Invalid control character at: line 1 column 3 (char 2)"),
            ("\"\\x\"", "Invalid \\escape: line 1 column 2 (char 1)"),
            ("1 2", "Extra data: line 1 column 3 (char 2)"),
            ("-", "Expecting value: line 1 column 1 (char 0)"),
        ] {
            assert_eq!(loads(text).unwrap_err(), expected, "{text}");
        }
        assert!(loads(&"[".repeat(100_000)).unwrap_err().starts_with("maximum recursion depth"));
    }

    #[test]
    fn values_come_back() {
        let text = r#"{"a": [1, -2.5e3, 123456789012345678901234567890, true, null], "é\u00e9\ud83d\ude00": "x\ny"}"#;
        let value = loads(text).unwrap();
        assert_eq!(
            value.to_string(),
            "{'a': [1, -2500.0, 123456789012345678901234567890, True, None], 'éé😀': 'x\\ny'}"
        );
        let plain = dumps(&value, &Style::default()).unwrap();
        assert_eq!(loads(&plain).unwrap(), value);
        assert_eq!(loads("NaN").unwrap().to_string(), "nan");
    }

    #[test]
    fn text_is_written_as_python_writes_it() {
        let value = Value::from(map! { "b" => list![1, map! {}], "a" => "é\u{7f}" });
        assert_eq!(dumps(&value, &Style::default()).unwrap(), "{\"b\": [1, {}], \"a\": \"é\u{7f}\"}");
        let style = Style { indent: Some("  ".into()), sort_keys: true, ensure_ascii: true, ..Style::default() };
        let expected = "{\n  \"a\": \"\\u00e9\\u007f\",\n  \"b\": [\n    1,\n    {}\n  ]\n}";
        assert_eq!(dumps(&value, &style).unwrap(), expected);
        let mixed =
            Value::from([(Value::from(1), Value::from(1)), ("a".into(), 2.into())].into_iter().collect::<Map>());
        assert_eq!(dumps(&mixed, &Style::default()).unwrap(), "{\"1\": 1, \"a\": 2}");
        let unsorted = dumps(&mixed, &style).unwrap_err();
        assert_eq!(unsorted, "'<' not supported between instances of 'str' and 'int'");
    }

    #[test]
    fn programs_may_ask_for_reprs_and_harmless_characters() {
        let value = Value::from(map! { "a" => Value::bytes("x"), "b" => "\u{9b}1m\u{202e}" });
        let refused = dumps(&value, &Style::default()).unwrap_err();
        assert_eq!(refused, "Object of type bytes is not JSON serializable");
        let style = Style { foreign_as_repr: true, escape_terminal_commands: true, ..Style::default() };
        assert_eq!(dumps(&value, &style).unwrap(), r#"{"a": "b'x'", "b": "\u009b1m\u202e"}"#);
    }
}
