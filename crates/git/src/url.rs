//! Addresses of remotes.

use crate::Secret;

/// The kinds of addresses Salt takes.
const SCHEMES: [&str; 6] = ["http", "https", "ssh", "ftp", "sftp", "file"];

/// Says whether Salt takes this address: one of its kinds, or `user@host:path`, with nothing odd in its path.
///
/// `__env__` or a branch may stand before it.
pub fn is_valid(remote: &str) -> bool {
    let url = match remote.split_once(' ') {
        Some((first, rest)) if !is_plain_url(first) => rest,
        _ => remote,
    };
    is_plain_url(&scp_to_ssh(url))
}

/// Writes `user@host:path` as an address with `ssh://`; other addresses stay as they are.
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

/// How the other side is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Local,
    Ssh,
    Http,
    Https,
    Other,
}

/// Returns how the other side of an address is spoken to.
pub(crate) fn transport(url: &str) -> Transport {
    if url.starts_with('/') {
        return Transport::Local;
    }
    let Some((scheme, _)) = url.split_once("://") else { return Transport::Ssh };
    match scheme.to_ascii_lowercase().as_str() {
        "git" | "file" => Transport::Local,
        "https" => Transport::Https,
        scheme if scheme.contains("http") => Transport::Http,
        scheme if scheme.contains("ssh") => Transport::Ssh,
        _ => Transport::Other,
    }
}

/// Says whether an address for ssh names a user.
pub(crate) fn names_user(url: &str) -> bool {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    address.contains('@')
}

/// An address without the name and password that stood in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bare {
    pub url: String,
    pub user: Option<String>,
    pub password: Option<Secret>,
}

/// Takes name and password out of a web address. Others keep the name, which ssh needs.
pub(crate) fn bare(url: &str) -> Bare {
    let kept = || Bare { url: url.to_owned(), user: None, password: None };
    if !matches!(transport(url), Transport::Http | Transport::Https) {
        return kept();
    }
    let Some((scheme, rest)) = url.split_once("://") else { return kept() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some(at) = rest[..end].rfind('@') else { return kept() };
    let (login, rest) = (&rest[..at], &rest[at + 1..]);
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(Secret::new(decode(password)))),
        None => (login, None),
    };
    Bare { url: format!("{scheme}://{rest}"), user: Some(decode(user)).filter(|user| !user.is_empty()), password }
}

/// Returns scheme, host and port of a web address.
pub(crate) fn origin(url: &str) -> Option<&str> {
    let host = url.find("://")? + 3;
    Some(url[host..].find(['/', '?', '#']).map_or(url, |end| &url[..host + end]))
}

/// Hides the password in an address, for logs and answers.
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
    fn addresses_are_taken_as_salt_takes_them() {
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
    fn passwords_leave_the_address() {
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
