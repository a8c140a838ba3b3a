//! Addresses of files, as Python's `urlparse` takes them apart.

/// The schemes of this machine's files.
pub const LOCAL: [&str; 2] = ["", "file"];

/// The schemes of other servers.
pub const REMOTE: [&str; 5] = ["http", "https", "ftp", "swift", "s3"];

/// All schemes of sources.
pub const VALID: [&str; 7] = ["salt", "file", "http", "https", "ftp", "swift", "s3"];

/// An address in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// In lower case if it is one of [`VALID`]; empty if there is none.
    pub scheme: &'a str,
    /// The part after `//`.
    pub host: &'a str,
    /// The path, without query and fragment.
    pub path: &'a str,
}

/// Takes an address apart.
pub fn parse(address: &str) -> Address<'_> {
    // RFC 3986 defines which signs a scheme may hold; the text before another colon belongs to the path.
    let letters = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let (scheme, rest) = address.split_once(':').filter(|(scheme, _)| letters(scheme)).unwrap_or(("", address));
    // Python reads a host only behind two slashes, so `file:/etc/hosts` has none.
    let (host, rest) = rest
        .strip_prefix("//")
        .map_or(("", rest), |rest| rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())));
    let path = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    let known = VALID.iter().find(|known| known.eq_ignore_ascii_case(scheme));
    Address { scheme: known.copied().unwrap_or(scheme), host, path }
}

/// Returns whether an address is one of a web or FTP server.
pub fn is_foreign(address: &str) -> bool {
    let lower = address.to_ascii_lowercase();
    ["http:", "https:", "ftp:"].iter().any(|start| lower.starts_with(start))
}

/// Hides user and password of web addresses.
pub fn redacted(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let start = ["http://", "https://"].iter().filter_map(|scheme| Some(lower.find(scheme)? + scheme.len())).min();
    match start.and_then(|start| Some((start, start + text[start..].rfind('@')?))) {
        // Up to the last at sign: a password may hold one itself.
        Some((start, end)) => format!("{}<redacted>{}", &text[..start], &text[end..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        assert_eq!(parse("HTTPS://h:1/a?b#c"), Address { scheme: "https", host: "h:1", path: "/a" });
        assert_eq!(parse("salt://a/b"), Address { scheme: "salt", host: "a", path: "/b" });
        assert_eq!(parse("/a:b"), Address { scheme: "", host: "", path: "/a:b" });
        assert_eq!(parse("md5:abc").scheme, "md5");
    }

    #[test]
    fn passwords_are_hidden() {
        assert_eq!(redacted("get https://u:p@h/x"), "get https://<redacted>@h/x");
        assert_eq!(redacted("/a@b"), "/a@b");
    }
}
