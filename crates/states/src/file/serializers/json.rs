//! JSON files.

use exec::{Error, Result};
use python::json::{Style, dumps};
use value::Value;

use super::Options;

const KNOWN: [&str; 4] = ["indent", "separators", "sort_keys", "ensure_ascii"];

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
    let separators = match options.given.get("separators") {
        Some(Value::List(two)) => match &two[..] {
            [item, key] => (item.to_string(), key.to_string()),
            _ => return Err(Error::execution("the serializer option 'separators' must be two texts")),
        },
        // Without a blank behind the comma, since each item is on a separate line.
        _ => (",".into(), ": ".into()),
    };
    let style = Style {
        indent,
        sort_keys: options.flag("sort_keys", true),
        ensure_ascii: options.flag("ensure_ascii", false),
        separators: Some(separators),
        ..Style::default()
    };
    dumps(data, &style).map_err(Error::execution)
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
