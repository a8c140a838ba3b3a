//! URLs of remotes.

use crate::Secret;

/// The schemes that Salt accepts.
const SCHEMES: [&str; 6] = ["http", "https", "ssh", "ftp", "sftp", "file"];

/// Returns whether Salt accepts this URL: one of its schemes, or `user@host:path`, with a plain path.
///
/// `__env__` or a branch may precede it.
pub fn is_valid(remote: &str) -> bool {
    let url = match remote.split_once(' ') {
        Some((first, rest)) if !is_plain_url(first) => rest,
        _ => remote,
    };
    is_plain_url(&scp_to_ssh(url))
}

/// Converts `user@host:path` to an `ssh://` URL; other URLs stay as they are.
fn scp_to_ssh(url: &str) -> String {
    let Some((user, rest)) = url.split_once('@') else { return url.to_owned() };
    let Some((host, path)) = rest.split_once(':') else { return url.to_owned() };
    if user.is_empty() || host.is_empty() || path.is_empty() || user.contains([':', '/']) {
        return url.to_owned();
    }
    format!("ssh://{user}@{host}/{}", path.strip_prefix('/').unwrap_or(path))
}

fn is_plain_url(url: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(letter);
    let Some((scheme, rest)) = url.split_once(':') else { return false };
    // The characters of RFC 3986. Salt checks the same, which also keeps options and commands from git.
    if !url.chars().all(allowed) || !SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) {
        return false;
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or("", |at| &rest[at..]),
        None => rest,
    };
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "-._~!$&'();=:@,%".contains(letter);
    path.split('/').all(|part| part.chars().all(letter))
}

/// The transport of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Local,
    Ssh,
    Http,
    Https,
    Other,
}

/// Returns the transport of a URL.
pub(crate) fn transport(url: &str) -> Transport {
    if url.starts_with('/') {
        return Transport::Local;
    }
    let Some((scheme, _)) = url.split_once("://") else { return Transport::Ssh };
    match scheme.to_ascii_lowercase().as_str() {
        // Salt's grouping: neither needs credentials.
        "git" | "file" => Transport::Local,
        "https" => Transport::Https,
        scheme if scheme.contains("http") => Transport::Http,
        scheme if scheme.contains("ssh") => Transport::Ssh,
        _ => Transport::Other,
    }
}

/// Returns whether an ssh URL has a user.
pub(crate) fn names_user(url: &str) -> bool {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    address.contains('@')
}

/// A URL without its user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BareUrl {
    pub url: String,
    pub user: Option<String>,
    pub password: Option<Secret>,
}

/// Removes user and password from a web URL. Other URLs keep the user, which ssh needs.
pub(crate) fn bare(url: &str) -> BareUrl {
    let kept = || BareUrl { url: url.to_owned(), user: None, password: None };
    if !matches!(transport(url), Transport::Http | Transport::Https) {
        return kept();
    }
    let Some((scheme, rest)) = url.split_once("://") else { return kept() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // The last one: a password may contain an `@` that was not escaped.
    let Some(at) = rest[..end].rfind('@') else { return kept() };
    let (login, rest) = (&rest[..at], &rest[at + 1..]);
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(Secret::new(decode(password)))),
        None => (login, None),
    };
    BareUrl { url: format!("{scheme}://{rest}"), user: Some(decode(user)).filter(|user| !user.is_empty()), password }
}

/// Returns scheme, host and port of a web URL.
pub(crate) fn origin(url: &str) -> Option<&str> {
    let host = url.find("://")? + 3;
    Some(url[host..].find(['/', '?', '#']).map_or(url, |end| &url[..host + end]))
}

/// Hides the password in a URL, for logs and answers.
pub(crate) fn hidden(text: &str) -> String {
    let Some(start) = text.find("://").map(|at| at + 3) else { return text.to_owned() };
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |end| start + end);
    let Some(at) = text[start..end].rfind('@').map(|at| start + at) else { return text.to_owned() };
    match text[start..at].find(':') {
        Some(colon) => format!("{}***{}", &text[..start + colon + 1], &text[at..]),
        None => text.to_owned(),
    }
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        // `get` returns nothing in the middle of a character, so odd URLs cannot panic here.
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_accepted_as_by_salt() {
        for good in [
            "https://example.org/a.git",
            "file:///srv/a.git",
            "ssh://git@example.org:22/a",
            "git@example.org:team/a.git",
            "master https://example.org/a.git",
            "__env__ file:///srv/a",
            "https://user:p%40ss@example.org/a%20b",
        ] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["/srv/a.git", "git://example.org/a", "ext::sh -c x", "https://example.org/a b", "", "file:///a\"b"]
        {
            assert!(!is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn passwords_are_removed_from_urls() {
        let found = bare("https://me:p%40ss@example.org:8443/a.git");
        assert_eq!(found.url, "https://example.org:8443/a.git");
        assert_eq!(found.user.as_deref(), Some("me"));
        assert_eq!(found.password.unwrap().reveal(), "p@ss");
        assert_eq!(bare("ssh://git@h/a").url, "ssh://git@h/a");
        assert_eq!(origin("https://example.org:8443/a.git"), Some("https://example.org:8443"));
        assert_eq!(hidden("master https://me:p@h/a"), "master https://me:***@h/a");
        assert_eq!(hidden("https://me@h/a:b@c"), "https://me@h/a:b@c");
    }
}
