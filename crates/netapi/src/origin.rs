//! Requests from pages of other sites: what a browser may send and read.

use value::Value;

/// Who may read answers from within a page (`cors_origin`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cors {
    /// No page of another origin.
    #[default]
    Nobody,
    /// Pages of these origins.
    Origins(Vec<String>),
    /// All pages, without credentials.
    All,
}

impl Cors {
    /// Reads the option: a text, a list of texts, or `*`.
    pub fn from_option(option: Option<&Value>) -> Option<Self> {
        match option {
            None | Some(Value::Null) => Some(Cors::Nobody),
            Some(Value::Str(text)) if text == "*" => Some(Cors::All),
            Some(Value::Str(text)) => Some(Cors::Origins(vec![text.clone()])),
            Some(Value::List(items)) => {
                let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                Some(Cors::Origins(texts?))
            }
            Some(_) => None,
        }
    }

    /// Returns the headers that let a page of this origin read the answer.
    pub fn headers(&self, origin: Option<&str>, preflight: bool) -> Vec<(&'static str, String)> {
        let mut headers = match (self, origin) {
            (Cors::All, Some(_)) => vec![("access-control-allow-origin", "*".to_owned())],
            (Cors::Origins(known), Some(origin)) if known.iter().any(|known| known == origin) => vec![
                ("access-control-allow-origin", origin.to_owned()),
                ("access-control-allow-credentials", "true".to_owned()),
                ("vary", "Origin".to_owned()),
            ],
            _ => return Vec::new(),
        };
        headers.push(("access-control-expose-headers", "GET, POST".to_owned()));
        if preflight {
            headers.push(("access-control-allow-methods", "GET, POST".to_owned()));
            headers.push(("access-control-allow-headers", "Content-Type, X-Auth-Token, X-Requested-With".to_owned()));
            headers.push(("access-control-max-age", "1400".to_owned()));
        }
        headers
    }
}

/// What says where a request comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provenance<'a> {
    /// The header `Origin`.
    pub origin: Option<&'a str>,
    /// The header `Host`.
    pub host: Option<&'a str>,
    /// The header `Sec-Fetch-Site`.
    pub fetch_site: Option<&'a str>,
    /// True if the body is `text/plain`, as a form of any page can send.
    pub plain_text: bool,
    /// True if the body is JSON by its type, which a page of another site sends only after a preflight.
    pub json: bool,
}

impl Provenance<'_> {
    /// Says why a request may not use the cookie.
    pub fn reason(&self) -> &'static str {
        match self.plain_text {
            true => "a text/plain body needs X-Auth-Token, because a form of another site could send it",
            false => "A page of another site may not send this request (X-Auth-Token is needed)",
        }
    }
}

/// Returns whether a request that changes something may use the cookie as its only proof.
///
/// Each browser of the last years says with a POST where it comes from. A program such as curl does not, and no page can make it
/// send its cookie.
pub fn may_use_cookie(from: Provenance) -> bool {
    if from.plain_text {
        return false;
    }
    match (from.fetch_site, from.origin) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            authority.is_some_and(|authority| from.host.is_some_and(|host| host.eq_ignore_ascii_case(authority)))
        }
        (None, None) => true,
    }
}

/// Returns whether a request may log in: a page of another site could log its visitor in as somebody else, who then sees what
/// the visitor does. Pages that may read answers may also log in.
pub fn may_log_in(from: Provenance, cors: &Cors) -> bool {
    let named = match cors {
        Cors::Nobody => false,
        Cors::Origins(known) => from.origin.is_some_and(|origin| known.iter().any(|known| known == origin)),
        Cors::All => from.json,
    };
    named || may_use_cookie(Provenance { plain_text: false, ..from })
}

/// Returns whether a page may read a WebSocket with the cookie as its only proof. Browsers ask no server beforehand whether a page of
/// another origin may read it.
pub fn may_read_socket(from: Provenance, cors: &Cors) -> bool {
    let named = match cors {
        Cors::Origins(known) => from.origin.is_some_and(|origin| known.iter().any(|known| known == origin)),
        Cors::Nobody | Cors::All => false,
    };
    named || may_use_cookie(Provenance { plain_text: false, ..from })
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn a_cookie_alone_does_not_prove_a_request_of_another_site() {
        let host = Some("salt.example:8000");
        let from = |fetch_site, origin| Provenance { origin, host, fetch_site, ..Provenance::default() };
        for (fetch_site, origin, allowed) in [
            (None, None, true),
            (Some("same-origin"), Some("https://salt.example:8000"), true),
            (Some("none"), None, true),
            (Some("same-site"), Some("https://evil.example"), false),
            (Some("cross-site"), Some("https://salt.example:8000"), false),
            (Some("cross-site"), None, false),
            (None, Some("https://salt.example:8000"), true),
            (None, Some("https://SALT.example:8000"), true),
            (None, Some("https://evil.example"), false),
            (None, Some("https://salt.example:8000.evil.example"), false),
            (None, Some("null"), false),
            (None, Some(""), false),
        ] {
            assert_eq!(may_use_cookie(from(fetch_site, origin)), allowed, "{fetch_site:?} {origin:?}");
        }
        assert!(!may_use_cookie(Provenance { plain_text: true, ..from(Some("same-origin"), None) }));
    }

    #[test]
    fn only_pages_that_may_read_open_a_socket_with_the_cookie() {
        let page =
            Provenance { origin: Some("https://gui.example"), host: Some("salt.example"), ..Provenance::default() };
        let known = Cors::Origins(vec!["https://gui.example".to_owned()]);
        assert!(may_read_socket(page, &known) && !may_read_socket(page, &Cors::Nobody));
        assert!(!may_read_socket(page, &Cors::All), "all pages read without credentials only");
        assert!(may_read_socket(Provenance { origin: Some("http://salt.example"), ..page }, &Cors::Nobody));
        assert!(may_read_socket(Provenance::default(), &Cors::Nobody), "a program");
    }

    #[test]
    fn only_pages_that_may_read_log_in() {
        let page =
            Provenance { origin: Some("https://gui.example"), host: Some("salt.example"), ..Provenance::default() };
        let json = Provenance { json: true, ..page };
        let cross = Provenance { fetch_site: Some("cross-site"), ..page };
        let known = Cors::Origins(vec!["https://gui.example".to_owned()]);
        assert!(!may_log_in(page, &Cors::Nobody) && !may_log_in(json, &Cors::Nobody));
        assert!(!may_log_in(cross, &Cors::Nobody) && !may_log_in(Provenance { origin: None, ..cross }, &known));
        assert!(may_log_in(cross, &known) && may_log_in(json, &Cors::All) && !may_log_in(page, &Cors::All));
        assert!(may_log_in(Provenance { origin: Some("http://salt.example"), ..page }, &Cors::Nobody));
        assert!(may_log_in(Provenance { plain_text: true, ..Provenance::default() }, &Cors::Nobody));
    }

    #[test]
    fn only_configured_origins_may_read() {
        let origin = Some("https://gui.example");
        assert_eq!(Cors::Nobody.headers(origin, true), []);
        let all = Cors::from_option(Some(&"*".into())).unwrap();
        let names = |cors: &Cors, origin, preflight| -> Vec<&str> {
            cors.headers(origin, preflight).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&all, origin, false), ["access-control-allow-origin", "access-control-expose-headers"]);
        let one = Cors::from_option(Some(&list!["https://gui.example"])).unwrap();
        assert!(names(&one, origin, true).contains(&"access-control-allow-credentials"));
        assert!(names(&one, origin, true).contains(&"access-control-allow-methods"));
        assert_eq!(one.headers(Some("https://gui.example.evil"), true), []);
        assert_eq!(one.headers(None, true), []);
        assert_eq!(Cors::from_option(Some(&7.into())), None);
        assert_eq!(Cors::from_option(Some(&list![7])), None);
    }
}
