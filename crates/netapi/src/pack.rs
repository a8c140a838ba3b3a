//! Packs data and errors.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use value::Value;
use value::python::repr_float;

use crate::accept::Form;
use crate::failure::Failure;

/// Shorter text is not compressed, in bytes.
const WORTH_GZIP: usize = 1024;

/// Packs data as Salt does. Pages have no data; they get JSON.
///
/// # Errors
/// If the data is nested too deep.
pub fn data(value: &Value, form: Form) -> Result<String, Failure> {
    match form {
        Form::Json | Form::Html => json(value),
        Form::Yaml => yaml::dump_with(value, yaml::Style::from(yaml::Flow::Block)).map_err(|error| {
            tracing::error!("failed to pack an answer: {error}");
            Failure::unexpected()
        }),
    }
}

/// Packs JSON in the style of Python's `json.dumps`: one line, with a blank after `,` and `:`, and nothing beyond ASCII.
pub fn json(value: &Value) -> Result<String, Failure> {
    let mut out = Vec::new();
    let packed = value.serialize(&mut Serializer::with_formatter(&mut out, Python));
    packed
        .map_err(|error| error.to_string())
        .and_then(|()| String::from_utf8(out).map_err(|error| error.to_string()))
        .map_err(|error| {
            tracing::error!("failed to pack an answer: {error}");
            Failure::unexpected()
        })
}

/// Compresses text that is worth it; `None` for short ones.
pub fn gzip(text: &str) -> Option<Vec<u8>> {
    if text.len() <= WORTH_GZIP {
        return None;
    }
    // The fastest: answers are mostly repeated names.
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes()).and_then(|()| packed.finish()).ok()
}

/// Packs an error.
pub fn error(failure: &Failure, form: Form) -> String {
    let body = value::map! { "status" => failure.status, "return" => failure.message.as_str() }.into();
    match form {
        // A map of a number and a text can always be packed.
        Form::Json | Form::Yaml => data(&body, form).unwrap_or_default(),
        Form::Html => page(failure),
    }
}

fn page(failure: &Failure) -> String {
    let title = format!("{} {}", failure.status, reason(failure.status));
    format!(
        "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n<body>\n<h2>{title}</h2>\n\
         <p>{}</p>\n</body>\n</html>\n",
        escaped(&failure.message)
    )
}

/// Returns the reason phrase of a status.
pub fn reason(status: u16) -> &'static str {
    hyper::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            letter if letter.is_control() && letter != '\n' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// The style of Python's `json.dumps`.
struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, number: f64) -> io::Result<()> {
        out.write_all(repr_float(number).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        for letter in text.chars() {
            match letter {
                ' '..='~' => out.write_all(&[letter as u8])?,
                letter => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn json_is_written_as_python_does() {
        let value = map! {
            "b" => list![1, 2.5, Value::Null, true, 1e16], "a" => "grüße \u{1f600} \"x\" \\ \n\u{7f}", "e" => map! {},
        };
        let expected =
            r#"{"b": [1, 2.5, null, true, 1e+16], "a": "gr\u00fc\u00dfe \ud83d\ude00 \"x\" \\ \n\u007f", "e": {}}"#;
        assert_eq!(json(&value.into()).unwrap(), expected);
    }

    #[test]
    fn long_text_is_compressed() {
        use std::io::Read as _;
        assert_eq!(gzip(&"x".repeat(WORTH_GZIP)), None);
        let (text, mut read) = ("minion ".repeat(1000), String::new());
        let packed = gzip(&text).unwrap();
        assert!(packed.len() < 200, "{}", packed.len());
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
    }

    #[test]
    fn yaml_is_sorted_and_in_block_style() {
        let value: Value = map! { "return" => "Welcome", "clients" => list!["b", "a"], "n" => map! {} }.into();
        assert_eq!(data(&value, Form::Yaml).unwrap(), "clients:\n- b\n- a\nn: {}\nreturn: Welcome\n");
    }

    #[test]
    fn nothing_in_a_page_is_markup() {
        let failure = Failure::bad_request("<script>alert('x')</script>\u{1b}[0m&\"\0");
        let page = error(&failure, Form::Html);
        assert!(page.contains("<title>400 Bad Request</title>"), "{page}");
        let text = "<p>&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;\u{fffd}[0m&amp;&quot;\u{fffd}</p>";
        assert!(page.contains(text), "{page}");
        assert_eq!(
            error(&Failure::no_session(), Form::Json),
            "{\"status\": 401, \"return\": \"No permission -- see authorization schemes\"}"
        );
    }
}
