//! The cookie of a session.

use std::time::SystemTime;

use axum::http::header::{self, HeaderMap};

use crate::sessions::IDLE;

/// Returns the value of `Set-Cookie` for a session.
pub fn session_cookie(id: &str, now: SystemTime, tls: bool) -> String {
    let expires = httpdate(now + IDLE);
    let secure = if tls { "; Secure" } else { "" };
    format!("session_id={id}; expires={expires}; HttpOnly; Max-Age={}; Path=/; SameSite=Strict{secure}", IDLE.as_secs())
}

/// Returns the value of `Set-Cookie` that removes the cookie.
pub fn no_cookie(tls: bool) -> String {
    let secure = if tls { "; Secure" } else { "" };
    format!("session_id=; expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; Max-Age=0; Path=/; SameSite=Strict{secure}")
}

/// Writes a time as headers have it.
pub fn httpdate(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    jiff::fmt::strtime::format("%a, %d %b %Y %H:%M:%S GMT", time).unwrap_or_default()
}

/// Returns the id of the session in the cookies.
pub fn session_id(headers: &HeaderMap) -> Option<String> {
    let mut pairs = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let id = pairs.find_map(|pair| pair.trim().strip_prefix("session_id="))?;
    let id = id.trim_matches('"');
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn cookies_are_found_and_made() {
        let mut headers = HeaderMap::new();
        assert_eq!(session_id(&headers), None);
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; session_id=abc; c=d"));
        assert_eq!(session_id(&headers).as_deref(), Some("abc"));
        let made = session_cookie("abc", UNIX_EPOCH, true);
        let expected = "session_id=abc; expires=Thu, 01 Jan 1970 10:00:00 GMT; HttpOnly; Max-Age=36000; Path=/; SameSite=Strict; Secure";
        assert_eq!(made, expected);
        assert!(!session_cookie("abc", UNIX_EPOCH, false).contains("Secure"));
    }
}
