//! The answer of a server.

use std::path::Path;

use exec::{Error, Result};
use value::{Map, Value};

use super::request::Request;
use crate::cmd::encoding::Encoding;

/// The result of curl.
#[derive(Debug)]
pub(super) struct Answer {
    /// Its exit code.
    pub code: i64,
    /// Its error message.
    pub error: String,
    /// The headers of all answers, redirections first.
    pub head: String,
    /// The last body.
    pub body: Vec<u8>,
}

const CANNOT_RESOLVE: i64 = 6;
const CANNOT_CONNECT: i64 = 7;
const TIMED_OUT: i64 = 28;

impl Answer {
    /// Makes the result of `http.query`.
    pub fn into_map(self, request: &Request, mut result: Map) -> Result<Map> {
        let wants = &request.wants;
        if self.code != 0 {
            match self.code {
                // tornado, which Salt uses for requests, has its own code for a timeout.
                TIMED_OUT => result.insert("status", 599),
                _ if wants.status => result.insert("status", 0),
                _ => None,
            };
            result.insert("error", self.failure());
            return Ok(result);
        }
        let (status, reason, headers) = last_head(&self.head);
        let kind = headers.iter().find(|(name, _)| name.to_string().eq_ignore_ascii_case("content-type"));
        // Salt takes an answer without a type for JSON.
        let kind = kind.map_or_else(|| "application/json".into(), |(_, value)| value.to_string());
        // curl writes the headers there when there is no body by definition.
        let body = if request.method == "HEAD" { Vec::new() } else { self.body };
        let text = encoding(&kind).decode(body);
        // Salt's default reports such an answer as an error and leaves out other requested parts.
        if status >= 400 && wants.raise_error {
            result.update(
                value::map! { "status" => status, "error" => format!("HTTP {status}: {reason}"), "body" => text },
            );
            return Ok(result);
        }
        result.insert("body", text.as_str());
        if let Some(path) = &wants.text_out {
            write(path, &text)?;
        }
        if wants.status {
            result.insert("status", status);
        }
        if wants.headers {
            result.insert("headers", headers);
        }
        let mut with_text = wants.text;
        if wants.decode {
            with_text |= decode(&mut result, &wants.decode_type, &kind, &text)?;
            if result.contains_key("error") {
                return Ok(result);
            }
            if let Some(path) = &wants.decode_out {
                write(path, &text)?;
            }
        }
        if with_text {
            result.insert("text", text);
        }
        Ok(result)
    }

    fn failure(&self) -> String {
        match self.code {
            // States and users search for the words of Python, not for those of curl.
            CANNOT_CONNECT => "[Errno 111] Connection refused".into(),
            CANNOT_RESOLVE => "[Errno -2] Name or service not known".into(),
            TIMED_OUT => "HTTP 599: Timeout".into(),
            _ => self.error.clone(),
        }
    }
}

/// Returns the encoding that a content type names; UTF-8 when it names none, or one that is not supported.
fn encoding(content_type: &str) -> Encoding {
    let mut parts = content_type.split(';').map(str::trim);
    if !parts.next().is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/")) {
        return Encoding::Utf8;
    }
    let charset =
        parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    Encoding::named(charset.map(|(_, name)| name.trim().trim_matches('"'))).unwrap_or_default()
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::io("write", path, &error))
}

/// Returns the status, its reason and the headers of the last answer.
fn last_head(head: &str) -> (i64, String, Map) {
    let head = head.replace("\r\n", "\n");
    // Each redirection has its own block; the last one belongs to the body.
    let last = head.trim_end().rsplit("\n\n").next().unwrap_or_default();
    let mut lines = last.lines();
    let mut words = lines.next().unwrap_or_default().splitn(3, ' ').skip(1);
    let status = words.next().and_then(|code| code.parse().ok()).unwrap_or(0);
    // HTTP/2 has no words behind the number.
    let reason = words.next().unwrap_or("Unknown").trim().to_owned();
    let headers = lines.filter_map(|line| line.split_once(':'));
    (status, reason, headers.map(|(name, value)| (canonical(name.trim()), value.trim())).collect())
}

/// Capitalizes a header: `content-type` becomes `Content-Type`.
fn canonical(name: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters.map(|letter| letter.to_ascii_lowercase())).collect::<String>()
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}

/// Decodes the body into the result. Returns true when the body is to be shown as text.
fn decode(result: &mut Map, wanted: &str, content_type: &str, text: &str) -> Result<bool> {
    let kinds = ["xml", "json", "yaml"];
    // The order counts: a type can hold two of the words, such as `application/xml+json`.
    let by_type = || kinds.into_iter().find(|kind| content_type.contains(kind)).unwrap_or("plain");
    match if wanted == "auto" { by_type() } else { wanted } {
        "json" => {
            let data: Value = python::json::loads(text).map_err(Error::execution)?;
            result.insert("dict", data);
        }
        "yaml" => {
            let data = yaml::load(text, "<http>").map_err(|error| Error::execution(error.to_string()))?;
            result.insert("dict", data);
        }
        "plain" => return Ok(true),
        "xml" => return Err(Error::execution("not supported: http.query decode_type=xml")),
        _ => {
            let text = "Invalid decode_type specified. Valid decode types are: ('json', 'xml', 'yaml', 'plain')";
            result.insert("error", text);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_text_names_its_encoding() {
        assert_eq!(encoding("text/plain; charset=ISO-8859-1"), Encoding::Latin1);
        assert_eq!(encoding("Text/HTML;Charset=\"windows-1252\""), Encoding::Cp1252);
        for utf8 in ["text/plain", "application/json; charset=latin-1", "text/plain; charset=koi8-r", ""] {
            assert_eq!(encoding(utf8), Encoding::Utf8, "{utf8}");
        }
    }

    #[test]
    fn json_that_is_none_is_told_in_the_words_of_python() {
        let error = decode(&mut Map::new(), "json", "", "<html>").unwrap_err().to_string();
        assert_eq!(error, "Expecting value: line 1 column 1 (char 0)");
    }
}
