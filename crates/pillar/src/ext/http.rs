//! `http_json` and `http_yaml`: the answer of a web server.

use value::{Map, Value, map};

use super::ExternalCall;

const PARAMETERS: [&str; 7] = ["url", "with_grains", "header_dict", "auth", "username", "password", "namespace"];

/// Requests the URL, with the minion's id for `%s` and, if requested, grains for `<name>`.
pub fn load(call: &ExternalCall, format: &str) -> Result<Map, String> {
    let mut arguments = call.named(&PARAMETERS)?;
    let url = arguments.remove("url").ok_or("ext_pillar() missing 1 required positional argument: 'url'")?;
    // Quoted, because minions choose their ids: one with `?` or `#` could request another resource.
    let mut url = url.to_string().replace("%s", &quote(call.id));
    if arguments.get("with_grains").is_some_and(Value::truthy) {
        let Some(filled) = with_grains(&url, call) else { return Ok(Map::new()) };
        url = filled;
    }
    let mut kwargs = map! { "url" => url.as_str(), "decode" => true, "decode_type" => format };
    for name in ["header_dict", "auth", "username", "password"] {
        if let Some(value) = arguments.remove(name) {
            kwargs.insert(name, value);
        }
    }
    let how = exec::Call { args: Vec::new(), kwargs };
    let answer = call.ctx.call_with("http.query", how).map_err(|error| error.to_string())?;
    let mut answer = answer.into_map().unwrap_or_default();
    let Some(found) = answer.remove("dict") else {
        tracing::error!("Error on minion '{}' http query: {}", call.id, without_secrets(&url));
        // The body may contain secrets even if it could not be parsed, so it is not logged.
        for (key, value) in answer.iter().filter(|(key, _)| key.as_str() != Some("body")) {
            tracing::error!("{key}: {value}");
        }
        return Ok(Map::new());
    };
    placed(found, arguments.get_str("namespace"))
}

/// Returns what an answer adds to the pillar: nothing if it is empty.
fn placed(found: Value, namespace: Option<&str>) -> Result<Map, String> {
    match namespace.filter(|name| !name.is_empty()) {
        Some(namespace) => Ok(map! { namespace => found }),
        None if !found.truthy() => Ok(Map::new()),
        None => found.into_map().ok_or_else(|| "the answer is not a map".to_owned()),
    }
}

/// Replaces `<name>` by grains; `None` if one is missing.
fn with_grains(url: &str, call: &ExternalCall) -> Option<String> {
    let mut filled = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('<') {
        let Some((name, behind)) = after.split_once('>') else { break };
        let grains = Value::Map((*call.ctx.grains).clone());
        let Some(value) = grains.traverse(name, ":").filter(|value| value.truthy()) else {
            tracing::error!("Unable to get minion '{}' grain: {name}", call.id);
            return None;
        };
        filled.push_str(before);
        // Grains come from the minion and are as untrusted as its id.
        filled.push_str(&quote(&value.to_string()));
        rest = behind;
    }
    Some(filled + rest)
}

/// Quotes a string like Python's `urllib.parse.quote()`.
fn quote(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' | b'/' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A URL may contain a password, and others may read the log.
fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.split_once('@')) {
        (Some((scheme, _)), Some((before, after))) if !before.trim_start_matches(scheme)[3..].contains('/') => {
            format!("{scheme}://{after}")
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_answer_adds_nothing() {
        assert_eq!(placed(Value::Null, None), Ok(Map::new()));
        assert_eq!(placed(Value::Null, Some("n")), Ok(map! { "n" => Value::Null }));
        assert_eq!(placed(map! { "a" => 1 }.into(), Some("")), Ok(map! { "a" => 1 }));
        assert!(placed("text".into(), None).is_err());
    }

    #[test]
    fn urls_are_quoted_and_logged_without_secrets() {
        assert_eq!(quote("a b/ü~"), "a%20b/%C3%BC~");
        assert_eq!(without_secrets("https://me:word@host/x"), "https://host/x");
        assert_eq!(without_secrets("https://host/x@y"), "https://host/x@y");
        assert_eq!(without_secrets("nonsense@x"), "nonsense@x");
    }
}
