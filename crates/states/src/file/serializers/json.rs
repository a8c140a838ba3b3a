//! JSON files.

use exec::{Error, Result};
use value::python::repr_float;
use value::{Map, Value};

use super::Options;

const KNOWN: [&str; 4] = ["indent", "separators", "sort_keys", "ensure_ascii"];

/// The deepest nesting of data.
const DEPTH_LIMIT: usize = 250;

struct Writer {
    /// The indent of one level. None puts everything in one line.
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
    ascii: bool,
    out: String,
}

/// Writes data as Python's `json.dumps` does, by default with two columns a level and sorted.
pub fn write(data: &Value, options: &Options) -> Result<String> {
    options.only(&KNOWN)?;
    let indent = match options.given.get("indent") {
        // Salt indents by two by default, while Python's own default is one line.
        None => Some("  ".to_owned()),
        Some(Value::Null) => None,
        Some(Value::Str(text)) => Some(text.clone()),
        Some(other) => Some(" ".repeat(usize::try_from(other.as_i64().unwrap_or(0)).unwrap_or(0).min(100))),
    };
    let separators: Vec<String> = match options.given.get("separators") {
        Some(Value::List(two)) => two.iter().map(Value::to_string).collect(),
        // Without a blank behind the comma, since each item is on a separate line.
        _ => vec![",".into(), ": ".into()],
    };
    let [item, key] = &separators[..] else {
        return Err(Error::execution("the serializer option 'separators' must be two texts"));
    };
    let mut writer = Writer {
        indent,
        item: item.clone(),
        key: key.clone(),
        sort: options.flag("sort_keys", true),
        ascii: options.flag("ensure_ascii", false),
        out: String::new(),
    };
    writer.value(data, 0)?;
    Ok(writer.out)
}

impl Writer {
    fn line(&mut self, level: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(level));
        }
    }

    fn value(&mut self, value: &Value, level: usize) -> Result<()> {
        // Data of a pillar can nest without bound, and the stack is finite.
        if level > DEPTH_LIMIT {
            return Err(Error::execution("the data are nested too deep for JSON"));
        }
        match value {
            Value::Str(text) => self.text(text),
            Value::List(items) => self.list(items, level)?,
            Value::Map(map) => self.map(map, level)?,
            Value::Bytes(_) | Value::DateTime(_) | Value::Constant(_) => {
                let kind = value.type_name();
                return Err(Error::execution(format!("Object of type {kind} is not JSON serializable")));
            }
            plain => {
                let text = word(plain);
                self.out.push_str(&text);
            }
        }
        Ok(())
    }

    fn list(&mut self, items: &[Value], level: usize) -> Result<()> {
        self.out.push('[');
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                self.out.push_str(&self.item.clone());
            }
            self.line(level + 1);
            self.value(item, level + 1)?;
        }
        if !items.is_empty() {
            self.line(level);
        }
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, map: &Map, level: usize) -> Result<()> {
        let mut entries: Vec<(&Value, &Value)> = map.iter().collect();
        if self.sort {
            let texts = entries.iter().filter(|(key, _)| key.as_str().is_some()).count();
            // Python cannot sort text and numbers together and raises this TypeError.
            if texts != 0 && texts != entries.len() {
                return Err(Error::execution("'<' not supported between instances of 'str' and 'int'"));
            }
            entries.sort_by(|(a, _), (b, _)| match (a, b) {
                (Value::Str(a), Value::Str(b)) => a.cmp(b),
                (a, b) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal),
            });
        }
        self.out.push('{');
        for (place, (key, value)) in entries.iter().enumerate() {
            if place > 0 {
                self.out.push_str(&self.item.clone());
            }
            self.line(level + 1);
            match key {
                Value::Str(text) => self.text(text),
                Value::Bytes(_) | Value::List(_) | Value::Map(_) | Value::DateTime(_) | Value::Constant(_) => {
                    let kind = key.type_name();
                    return Err(Error::execution(format!("keys must be str, int, float, bool or None, not {kind}")));
                }
                plain => self.text(&word(plain)),
            }
            self.out.push_str(&self.key.clone());
            self.value(value, level + 1)?;
        }
        // An empty map is `{}` without a line break.
        if !map.is_empty() {
            self.line(level);
        }
        self.out.push('}');
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\x0c' => self.out.push_str("\\f"),
                '\x08' => self.out.push_str("\\b"),
                c if c < ' ' || (self.ascii && !c.is_ascii()) => {
                    // JSON escapes characters above U+FFFF as two surrogates.
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// A plain value.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        // Not JSON, but what Python writes and reads.
        Value::Float(number) if number.is_nan() => "NaN".into(),
        Value::Float(number) if number.is_infinite() => if *number > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        Value::Float(number) => repr_float(*number),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn json_looks_as_pythons() {
        let data = map! { "b" => list![1, 2.5, true, Value::Null, list![]], "a" => map! { "é" => "x\"\n" } };
        let text = write(&data.into(), &Options::default()).unwrap();
        assert_eq!(
            text,
            "{\n  \"a\": {\n    \"é\": \"x\\\"\\n\"\n  },\n  \"b\": [\n    1,\n    2.5,\n    true,\n    null,\n    []\n  ]\n}"
        );
        let options = Options::of(&list![map! { "indent" => Value::Null }, map! { "ensure_ascii" => true }], false);
        assert_eq!(write(&map! { 1 => "é" }.into(), &options).unwrap(), "{\"1\": \"\\u00e9\"}");
        assert!(write(&Value::Null, &Options::of(&list![map! { "foo" => 1 }], false)).is_err());
    }
}
