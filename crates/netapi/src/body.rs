//! The body of a request: text in one of several forms becomes data.

use value::{Map, Value};
use yaml::args::parse_cli_arg;

use crate::failure::Failure;
use crate::json;

/// The largest number of fields of a form.
const MOST_FIELDS: usize = 10_000;

/// Returns the media type of a header, without parameters.
pub fn media_type(header: &str) -> String {
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Parses a body. Returns `None` for a request without a body.
///
/// # Errors
/// When the type is not known, or the text is not of its type.
pub fn parse(content_type: Option<&str>, body: &[u8]) -> Result<Option<Value>, Failure> {
    let Some(content_type) = content_type else {
        return if body.is_empty() { Ok(None) } else { Err(wrong_type()) };
    };
    match media_type(content_type).as_str() {
        "application/json" => json::parse(body).map(Some).map_err(|_| Failure::bad_request("Invalid JSON document")),
        "application/x-yaml" | "text/yaml" => yaml(body).map(Some),
        "application/x-www-form-urlencoded" => form(body).map(Some),
        "text/plain" => match json::parse(body) {
            Ok(value) => Ok(Some(value)),
            Err(_) => text(body).map(|text| Some(text.into())),
        },
        _ if body.is_empty() => Ok(None),
        _ => Err(wrong_type()),
    }
}

fn wrong_type() -> Failure {
    Failure::new(406, "Content type not supported")
}

fn text(body: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(body).map_err(|_| Failure::bad_request("The body is not valid UTF-8"))
}

fn yaml(body: &[u8]) -> Result<Value, Failure> {
    // The reason quotes the body, which the client knows; it does not go to the log.
    let value = yaml::load(text(body)?, yaml::UNNAMED).map_err(|_| Failure::bad_request("Invalid YAML document"))?;
    // JSON has no such numbers: in an answer they would have become something else.
    match is_finite(&value) {
        true => Ok(value),
        false => Err(Failure::bad_request("Infinite numbers and NaN are not supported")),
    }
}

fn is_finite(value: &Value) -> bool {
    match value {
        Value::Float(number) => number.is_finite(),
        Value::List(items) => items.iter().all(is_finite),
        Value::Map(map) => map.iter().all(|(name, value)| is_finite(name) && is_finite(value)),
        _ => true,
    }
}

/// Parses the fields of a form into low data: a field that is there twice is a list. `arg` is always a list, and its items and
/// `kwarg` are read like arguments on a command line.
fn form(body: &[u8]) -> Result<Value, Failure> {
    text(body)?;
    let mut fields: Vec<(String, Vec<String>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (count, (name, value)) in form_urlencoded::parse(body).enumerate() {
        if count >= MOST_FIELDS {
            return Err(Failure::bad_request(format!("The form has more than {MOST_FIELDS} fields")));
        }
        // As Python's `parse_qsl`, which Salt uses.
        if value.is_empty() {
            continue;
        }
        let place = *places.entry(name.to_string()).or_insert_with(|| {
            fields.push((name.to_string(), Vec::new()));
            fields.len() - 1
        });
        if let Some((_, values)) = fields.get_mut(place) {
            values.push(value.into_owned());
        }
    }
    let mut map = Map::new();
    for (name, values) in fields {
        let value = field(&name, values);
        map.insert(name, value);
    }
    Ok(map.into())
}

fn field(name: &str, mut values: Vec<String>) -> Value {
    let read = |text: &String| parse_cli_arg(text);
    match (name, values.len()) {
        ("arg", _) => values.iter().map(read).collect(),
        ("kwarg", 1) => values.first().map(read).unwrap_or_default(),
        ("kwarg", _) => values.iter().map(read).collect(),
        (_, 1) => values.pop().into(),
        _ => values.into(),
    }
}

/// Returns the commands of a request.
///
/// # Errors
/// When the body is neither a map nor a list of maps.
pub fn commands(body: Option<Value>) -> Result<Vec<Map>, Failure> {
    let wrong = || Failure::bad_request("Lowstates must be a list");
    match body {
        Some(Value::Map(command)) => Ok(vec![command]),
        Some(Value::List(items)) => items.into_iter().map(|item| item.into_map().ok_or_else(wrong)).collect(),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    const FORM: &str = "application/x-www-form-urlencoded";

    fn status(content_type: Option<&str>, body: &[u8]) -> u16 {
        parse(content_type, body).unwrap_err().status
    }

    #[test]
    fn each_type_is_parsed() {
        let expected: Value = map! { "a" => list![1] }.into();
        for (content_type, body) in [
            ("application/json", "{\"a\": [1]}"),
            ("application/JSON; charset=utf-8", "{\"a\": [1]}"),
            ("application/x-yaml", "a: [1]"),
            ("text/yaml", "a:\n- 1\n"),
            ("text/plain", "{\"a\": [1]}"),
            ("text/plain;charset=UTF-8", "{\"a\": [1]}"),
        ] {
            assert_eq!(parse(Some(content_type), body.as_bytes()).unwrap(), Some(expected.clone()), "{content_type}");
        }
        assert_eq!(parse(Some("text/plain"), b"just text").unwrap(), Some("just text".into()));
        assert_eq!(parse(None, b"").unwrap(), None);
        assert_eq!(parse(Some("application/xml"), b"").unwrap(), None);
    }

    #[test]
    fn wrong_bodies_are_refused() {
        assert_eq!(status(None, b"[]"), 406);
        assert_eq!(status(Some("application/xml"), b"<a/>"), 406);
        assert_eq!(status(Some("application/json"), b"{nope"), 400);
        assert_eq!(status(Some("application/json"), b""), 400);
        assert_eq!(status(Some("application/x-yaml"), b"a: [b"), 400);
        assert_eq!(status(Some("application/x-yaml"), b"a: 1\na: 2"), 400);
        assert_eq!(status(Some("application/x-yaml"), b"\xff"), 400);
        assert_eq!(status(Some("application/x-yaml"), b"a: [.inf]"), 400);
        assert_eq!(status(Some("application/x-yaml"), b"a: {b: .nan}"), 400);
        assert_eq!(status(Some("text/plain"), b"\xff"), 400);
        assert_eq!(status(Some(FORM), b"a=\xff"), 400);
        assert_eq!(status(Some(FORM), "a=1&".repeat(MOST_FIELDS + 1).as_bytes()), 400);
    }

    #[test]
    fn aliases_of_yaml_do_not_multiply() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        assert_eq!(status(Some("application/x-yaml"), bomb.as_bytes()), 400);
        assert_eq!(status(Some("application/x-yaml"), "[".repeat(100_000).as_bytes()), 400);
    }

    #[test]
    fn a_form_is_low_data() {
        let body = b"client=local&tgt=min1&fun=test.arg&arg=one&arg=2&arg=x%3D%7Ba%3A%201%7D&empty=&kwarg=%7Bb%3A+3%7D&n=4&n=5";
        let expected = map! {
            "client" => "local", "tgt" => "min1", "fun" => "test.arg", "arg" => list!["one", 2, "x={a: 1}"],
            "kwarg" => map! { "b" => 3 }, "n" => list!["4", "5"],
        };
        assert_eq!(parse(Some(FORM), body).unwrap(), Some(expected.into()));
        assert_eq!(parse(Some(FORM), b"arg=1").unwrap(), Some(map! { "arg" => list![1] }.into()));
    }

    #[test]
    fn commands_are_a_map_or_a_list_of_maps() {
        let one = || map! { "fun" => "test.ping" };
        assert_eq!(commands(Some(one().into())).unwrap(), [one()]);
        assert_eq!(commands(Some(list![one(), one()])).unwrap().len(), 2);
        assert_eq!(commands(Some(list![])).unwrap().len(), 0);
        for wrong in [None, Some(Value::Null), Some("hello".into()), Some(list!["a"]), Some(list![list![]])] {
            assert_eq!(commands(wrong).unwrap_err(), Failure::bad_request("Lowstates must be a list"));
        }
    }
}
