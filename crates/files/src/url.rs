//! URLs of files: `salt://path?saltenv=env`, and what else may be in their place.
//!
//! A path that begins with `|` is literal: a `?` in it is part of the name.

/// The prefix of file server URLs.
pub const SCHEME: &str = "salt://";

/// Splits a file server URL into path and environment; `None` for any other URL.
///
/// ```
/// use saltern_files::url::parse;
/// assert_eq!(parse("salt://a/b?saltenv=dev"), Some(("a/b", Some("dev"))));
/// assert_eq!(parse("/etc/hosts"), None);
/// ```
pub fn parse(url: &str) -> Option<(&str, Option<&str>)> {
    let resource = url.strip_prefix(SCHEME)?;
    let (path, env) = match (resource.split_once("?env="), resource.split_once("?saltenv=")) {
        // `env` was the name of `saltenv` in old releases. Salt cuts it off and ignores the value.
        (Some((path, _)), _) => (path, None),
        (None, Some((path, env))) => (path, Some(env)),
        (None, None) => (resource, None),
    };
    Some((path.trim_start_matches('/'), env))
}

/// Builds a file server URL.
pub fn create(path: &str, saltenv: Option<&str>) -> String {
    // Salt does this on every platform, not only for Windows.
    let path = path.replace('\\', "/");
    match saltenv.filter(|env| !env.is_empty()) {
        Some(env) => format!("{SCHEME}{path}?saltenv={env}"),
        None => format!("{SCHEME}{path}"),
    }
}

/// Returns whether the path in the URL is literal.
pub fn is_escaped(url: &str) -> bool {
    match parse(url) {
        Some((path, _)) => path.starts_with('|'),
        None => url.starts_with('|'),
    }
}

/// Marks the path in a file server URL, or a bare path, as literal.
pub fn escape(url: &str) -> String {
    match parse(url) {
        Some((path, env)) if path.starts_with('|') => create(path, env),
        Some((path, env)) => create(&format!("|{path}"), env),
        None if split(url).scheme.is_some() || url.starts_with('|') => url.to_owned(),
        None => format!("|{url}"),
    }
}

/// Removes that mark.
pub fn unescape(url: &str) -> String {
    match parse(url) {
        Some((path, env)) => create(path.trim_start_matches('|'), env),
        None if split(url).scheme.is_some() => url.to_owned(),
        None => url.trim_start_matches('|').to_owned(),
    }
}

/// The parts of a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts<'a> {
    /// `http`, `file`, …; `None` for a bare path.
    pub scheme: Option<&'a str>,
    /// The host, perhaps with user and port.
    pub host: &'a str,
    /// The path.
    pub path: &'a str,
    /// The query after the `?`.
    pub query: &'a str,
}

/// Splits a URL. A `#` is part of the path.
pub fn split(url: &str) -> Parts<'_> {
    let starts_well = |scheme: &str| scheme.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let is_scheme = |scheme: &&str| {
        let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
        starts_well(scheme) && scheme.chars().all(good)
    };
    let (scheme, rest) = match url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, url),
    };
    let (host, rest) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    Parts { scheme, host, path, query }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (url, expected) in [
            ("salt://a", Some(("a", None))),
            ("salt:///a/b", Some(("a/b", None))),
            ("salt://a?saltenv=x?y", Some(("a", Some("x?y")))),
            ("salt://a?env=x", Some(("a", None))),
            ("salt://a?b", Some(("a?b", None))),
            ("salt://|a?b", Some(("|a?b", None))),
            ("http://a", None),
        ] {
            assert_eq!(parse(url), expected, "{url}");
        }
        let parts = split("https://u:p@h:8080/a/b?c=d");
        assert_eq!(parts, Parts { scheme: Some("https"), host: "u:p@h:8080", path: "/a/b", query: "c=d" });
        assert_eq!(split("/etc/a?b"), Parts { path: "/etc/a", query: "b", ..Parts::default() });
    }

    #[test]
    fn the_mark_can_be_added_and_removed() {
        for (plain, escaped) in [("a?b", "|a?b"), ("salt://a?b", "salt://|a?b"), ("http://a", "http://a")] {
            assert_eq!(escape(plain), escaped);
            assert_eq!(escape(escaped), escaped);
            assert_eq!(unescape(escaped), plain);
        }
        assert!(is_escaped("salt://|a") && is_escaped("|a") && !is_escaped("salt://a|"));
    }
}
