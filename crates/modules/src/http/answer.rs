//! What a server answered.

use std::path::Path;

use exec::{Error, Result};
use value::{Map, Value};

use super::request::Request;

/// What curl left behind.
#[derive(Debug)]
pub(super) struct Answer {
    /// Its exit code.
    pub code: i64,
    /// What it wrote about a failure.
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
                TIMED_OUT => result.insert("status", 599),
                _ if wants.status => result.insert("status", 0),
                _ => None,
            };
            result.insert("error", self.failure());
            return Ok(result);
        }
        let (status, reason, headers) = last_head(&self.head);
        let text = String::from_utf8_lossy(&self.body).into_owned();
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
        let kind = headers.iter().find(|(name, _)| name.to_string().eq_ignore_ascii_case("content-type"));
        let kind = kind.map_or_else(|| "application/json".into(), |(_, value)| value.to_string());
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
            CANNOT_CONNECT => "[Errno 111] Connection refused".into(),
            CANNOT_RESOLVE => "[Errno -2] Name or service not known".into(),
            TIMED_OUT => "HTTP 599: Timeout".into(),
            _ => self.error.clone(),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::io("write", path, &error))
}

/// The status, its words and the headers of the last answer.
fn last_head(head: &str) -> (i64, String, Map) {
    let head = head.replace("\r\n", "\n");
    let last = head.trim_end().rsplit("\n\n").next().unwrap_or_default();
    let mut lines = last.lines();
    let mut words = lines.next().unwrap_or_default().splitn(3, ' ').skip(1);
    let status = words.next().and_then(|code| code.parse().ok()).unwrap_or(0);
    let reason = words.next().unwrap_or("Unknown").trim().to_owned();
    let headers = lines.filter_map(|line| line.split_once(':'));
    (status, reason, headers.map(|(name, value)| (canonical(name.trim()), value.trim())).collect())
}

/// `content-type` as `Content-Type`.
fn canonical(name: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters.map(|letter| letter.to_ascii_lowercase())).collect::<String>()
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}

/// Reads the body as data; true when it is to be shown as text.
fn decode(result: &mut Map, wanted: &str, content_type: &str, text: &str) -> Result<bool> {
    let kinds = ["xml", "json", "yaml"];
    let by_type = || kinds.into_iter().find(|kind| content_type.contains(kind)).unwrap_or("plain");
    match if wanted == "auto" { by_type() } else { wanted } {
        "json" => {
            let data: Value = serde_json::from_str(text).map_err(|error| Error::execution(error.to_string()))?;
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
