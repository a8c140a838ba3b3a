//! The routes of `/v1`.

use axum::http::Method;

use crate::failure::Failure;

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Jobs,
    Job,
    Returns,
    Minions,
    Keys,
    Masters,
    Drift,
    Whoami,
    Preview,
}

/// A route.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path. A part in braces is any text.
    pub path: &'static str,
    /// What it does.
    pub operation: Operation,
}

const fn route(method: &'static str, path: &'static str, operation: Operation) -> Route {
    Route { method, path, operation }
}

/// All routes.
pub const ROUTES: &[Route] = &[
    route("GET", "/v1/whoami", Operation::Whoami),
    route("GET", "/v1/jobs", Operation::Jobs),
    route("GET", "/v1/jobs/{jid}", Operation::Job),
    route("GET", "/v1/jobs/{jid}/returns", Operation::Returns),
    route("POST", "/v1/preview", Operation::Preview),
    route("GET", "/v1/minions", Operation::Minions),
    route("GET", "/v1/keys", Operation::Keys),
    route("GET", "/v1/masters", Operation::Masters),
    route("GET", "/v1/drift", Operation::Drift),
    route("GET", "/v1/drift/{kind}", Operation::Drift),
];

/// A route that fits a request.
#[derive(Debug)]
pub struct Found {
    /// The route.
    pub route: &'static Route,
    /// The parts of the path that the route leaves open.
    pub parts: Vec<String>,
}

/// Finds the route of a request, whose path below the prefix has no empty parts.
///
/// # Errors
/// 404 if nothing has this path, and 405 if it has other methods.
pub fn find(method: &Method, path: &str) -> Result<Found, Failure> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let mut others = Vec::new();
    for route in ROUTES {
        let Some(parts) = parts(route.path, path) else { continue };
        // Before the method: a path that cannot be read has none.
        let parts = parts.ok_or_else(|| Failure::bad_request("The path is not valid UTF-8"))?;
        if route.method == method.as_str() {
            return Ok(Found { route, parts });
        }
        others.push(route.method);
    }
    match others.is_empty() {
        true => Err(Failure::new(404, "Nothing has this path")),
        false => Err(Failure::new(405, format!("This path has only: {}", others.join(", ")))),
    }
}

/// Returns what the open parts of a pattern are in a path; `None` if the path does not fit, and `Some(None)` if such a part cannot
/// be decoded.
fn parts(pattern: &str, path: &str) -> Option<Option<Vec<String>>> {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    let mut open = Some(Vec::new());
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return Some(open),
            (Some(expected), Some(part)) if expected.starts_with('{') => match (decoded(part), &mut open) {
                (Some(part), Some(open)) => open.push(part),
                _ => open = None,
            },
            (Some(expected), Some(part)) if expected == part => {}
            _ => return None,
        }
    }
}

/// Decodes `%2F` and the like. A plus sign is a plus sign: ids may have one.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (code, after) = rest.split_at_checked(2)?;
        bytes.push(*hex::decode(code).ok()?.first()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> Result<(Operation, Vec<String>), u16> {
        let method = method.parse().unwrap();
        find(&method, path).map(|found| (found.route.operation, found.parts)).map_err(|failure| failure.status)
    }

    #[test]
    fn routes_are_found_by_method_and_path() {
        assert_eq!(found("GET", "/v1/jobs"), Ok((Operation::Jobs, vec![])));
        assert_eq!(found("HEAD", "/v1/jobs"), Ok((Operation::Jobs, vec![])));
        assert_eq!(found("GET", "/v1/jobs/2026"), Ok((Operation::Job, vec!["2026".to_owned()])));
        assert_eq!(found("GET", "/v1/jobs/a%2Fb%20+"), Ok((Operation::Job, vec!["a/b +".to_owned()])));
        assert_eq!(found("GET", "/v1/jobs/2026/returns"), Ok((Operation::Returns, vec!["2026".to_owned()])));
        for (method, path, status) in [
            ("GET", "/v1", 404),
            ("GET", "/v1/nothing", 404),
            ("GET", "/v1/jobs/a/b/c", 404),
            ("PUT", "/v1/jobs", 405),
            ("GET", "/v1/jobs/%", 400),
            ("GET", "/v1/jobs/%ff", 400),
            ("GET", "/v1/jobs/%zz", 400),
        ] {
            assert_eq!(found(method, path), Err(status), "{method} {path}");
        }
    }

    #[test]
    fn no_two_routes_have_one_method_and_path() {
        for (place, route) in ROUTES.iter().enumerate() {
            assert!(ROUTES[..place].iter().all(|other| (other.method, other.path) != (route.method, route.path)));
        }
    }
}
