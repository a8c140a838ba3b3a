//! `urlencode` and `urlize`.

use std::sync::LazyLock;

use regex::Regex;

use super::escape_text;
use super::text::pattern;
use crate::error::{Error, ErrorKind};
use crate::python::text::{byte_of, char_count, is_space};
use crate::python::{self, repr_str, to_vec, truthy, unpack};
use crate::run::State;
use crate::value::{CallArgs, Value};

// Python's `$` also matches before a final newline, hence the `\n?` in these patterns.
static HTTP: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix)^(?:
            (?:https?://|www\.) (?:(?:[\w%-]+\.)+)? (?:[a-z]{2,63}|xn--[\w%]{2,59})
            | (?:[\w%-]{2,63}\.)+ (?:com|net|int|edu|gov|org|info|mil)
            | https?:// (?: \d{1,3}(?:\.\d{1,3}){3} | \[(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6}\] )
        ) (?::\d{1,5})? (?:[/?\#]\S*)? \n?$",
    )
});
static EMAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\S+@\w[\w.-]*\.\w+\n?$"));
static HEAD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:[(<]|&lt;)+"));
static TAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:[)>.,\n]|&gt;)+$"));
static SCHEME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[\w.+-]{2,}:/{0,2}$"));

fn quote(text: &str, query: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(byte as char),
            // A slash separates parts of a path, but not inside a query.
            b'/' if !query => out.push('/'),
            b' ' if query => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub(super) fn urlencode(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("do_urlencode", [("value", None)])?;
    let state = &mut *call.state;
    let is_text = value.as_str().is_some() || !python::is_iterable(state, &value)?;
    if is_text {
        let text = state.str(&value)?;
        return Ok(Value::str(quote(&text, false)));
    }
    let pairs = match &value {
        Value::Dict(dict) => dict.entries(),
        other => {
            let mut pairs = Vec::new();
            for item in to_vec(state, other)? {
                let mut parts = unpack(state, &item, 2)?.into_iter();
                pairs.push((parts.next().unwrap_or_default(), parts.next().unwrap_or_default()));
            }
            pairs
        }
    };
    let mut parts = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        parts.push(format!("{}={}", quote(&state.str(&key)?, true), quote(&state.str(&value)?, true)));
    }
    Ok(Value::str(parts.join("&")))
}

struct Links {
    limit: Option<usize>,
    attributes: String,
    schemes: Vec<String>,
}

pub(super) fn urlize(call: &mut CallArgs) -> Result<Value, Error> {
    let none = || Some(Value::None);
    let params = [
        ("value", None),
        ("trim_url_limit", none()),
        ("nofollow", Some(Value::Bool(false))),
        ("target", none()),
        ("rel", none()),
        ("extra_schemes", none()),
    ];
    let [value, limit, nofollow, target, rel, schemes] = call.bind("do_urlize", params)?;
    let state = &mut *call.state;
    let mut rel: Vec<String> =
        rel.as_str().unwrap_or_default().split(is_space).filter(|part| !part.is_empty()).map(str::to_string).collect();
    if truthy(state, &nofollow)? {
        rel.push("nofollow".into());
    }
    // Jinja's policy `urlize.rel`: a linked page must not get a handle on this one.
    rel.push("noopener".into());
    rel.sort();
    rel.dedup();
    let mut attributes = format!(" rel=\"{}\"", escape_text(&rel.join(" ")));
    if truthy(state, &target)? {
        attributes.push_str(&format!(" target=\"{}\"", super::escape(state, &target)?));
    }
    let limit = if limit.is_none() { None } else { usize::try_from(super::integer(&limit)?).ok() };
    let schemes = schemes_of(state, &schemes)?;
    let text = super::escape(state, &value)?;
    let links = Links { limit, attributes, schemes };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        // Spaces are copied as they are, so that the layout of the text survives.
        let end = rest.find(|char| is_space(char) != is_space(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if is_space(first) {
            out.push_str(word)
        } else {
            out.push_str(&links.word(word))
        }
        rest = after;
    }
    Ok(Value::str(out))
}

fn schemes_of(state: &mut State, schemes: &Value) -> Result<Vec<String>, Error> {
    if schemes.is_none() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for scheme in to_vec(state, schemes)? {
        let text = state.str(&scheme)?;
        if !SCHEME.is_match(&text) {
            let text = format!("{} is not a valid URI scheme prefix.", repr_str(&text));
            return Err(Error::new(ErrorKind::FilterArgument, text));
        }
        found.push(text);
    }
    Ok(found)
}

impl Links {
    fn trimmed(&self, url: &str) -> String {
        match self.limit {
            Some(limit) if char_count(url) > limit => format!("{}...", &url[..byte_of(url, limit)]),
            _ => url.to_string(),
        }
    }

    fn word(&self, word: &str) -> String {
        let (mut head, mut middle, mut tail) = ("", word.to_string(), String::new());
        if let Some(found) = HEAD.find(word) {
            head = &word[..found.end()];
            middle = word[found.end()..].to_string();
        }
        if let Some(found) = TAIL.find(&middle) {
            tail = middle[found.start()..].to_string();
            let start = found.start();
            middle.truncate(start);
        }
        // A closing bracket belongs to the link only if it was opened inside it: `(see example.com/a_(b))`.
        for (open, close) in [("(", ")"), ("<", ">"), ("&lt;", "&gt;")] {
            let opened = middle.matches(open).count();
            if opened <= middle.matches(close).count() {
                continue;
            }
            for _ in 0..opened.min(tail.matches(close).count()) {
                let Some(at) = tail.find(close) else { break };
                let moved: String = tail.drain(..at + close.len()).collect();
                middle.push_str(&moved);
            }
        }
        let attributes = &self.attributes;
        let shown = self.trimmed(&middle);
        let middle = if HTTP.is_match(&middle) {
            if middle.starts_with("https://") || middle.starts_with("http://") {
                format!("<a href=\"{middle}\"{attributes}>{shown}</a>")
            } else {
                format!("<a href=\"https://{middle}\"{attributes}>{shown}</a>")
            }
        } else if let Some(address) = middle.strip_prefix("mailto:").filter(|address| EMAIL.is_match(address)) {
            format!("<a href=\"{middle}\">{address}</a>")
        } else if middle.contains('@')
            && !middle.starts_with("www.")
            && !middle.starts_with('@')
            && !middle.contains(':')
            && EMAIL.is_match(&middle)
        {
            format!("<a href=\"mailto:{middle}\">{middle}</a>")
        } else {
            let mut linked = middle;
            for scheme in &self.schemes {
                if linked != *scheme && linked.starts_with(scheme.as_str()) {
                    linked = format!("<a href=\"{linked}\"{attributes}>{linked}</a>");
                }
            }
            linked
        };
        format!("{head}{middle}{tail}")
    }
}
