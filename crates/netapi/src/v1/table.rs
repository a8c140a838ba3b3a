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
    Publish,
    Kill,
    Accept,
    Reject,
    Delete,
    Keychain,
    OpenApi,
    Events,
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
    /// What it does, in words.
    pub about: &'static str,
    /// The runner or wheel function to which the user needs the right.
    pub right: Option<&'static str>,
    /// The parameters of the query.
    pub query: &'static [&'static str],
    /// The schema of the body.
    pub body: Option<&'static str>,
    /// The status of an answer that is no problem.
    pub status: u16,
    /// The media type and the schema of the answer.
    pub answer: (&'static str, &'static str),
}

const JSON: &str = "application/json";

macro_rules! routes {
    ($( $method:literal $path:literal $operation:ident $about:literal
        $( right $right:literal )? $( query $query:tt )? $( body $body:literal )?
        => $status:literal $kind:ident $answer:literal; )*) => {
        /// All routes.
        pub const ROUTES: &[Route] = &[$(
            Route {
                method: $method,
                path: $path,
                operation: Operation::$operation,
                about: $about,
                right: routes!(@option $($right)?),
                query: routes!(@list $($query)?),
                body: routes!(@option $($body)?),
                status: $status,
                answer: ($kind, $answer),
            },
        )*];
    };
    (@option) => { None };
    (@option $value:literal) => { Some($value) };
    (@list) => { &[] };
    (@list $list:tt) => { &$list };
}

const EVENTS: &str = "text/event-stream";

routes! {
    "GET" "/v1/openapi.json" OpenApi "This description." => 200 JSON "Description";
    "GET" "/v1/whoami" Whoami "Who the user is and what they may do." => 200 JSON "Whoami";
    "GET" "/v1/jobs" Jobs "Jobs, the latest first."
        right "jobs.list_jobs" query ["limit", "before", "fun", "tgt", "user", "minion", "since", "until", "state"]
        => 200 JSON "Jobs";
    "POST" "/v1/jobs" Publish "Publishes a job. With `wait` the returns follow, a line of JSON each."
        query ["wait"] body "NewJob" => 202 JSON "Published";
    "GET" "/v1/jobs/{jid}" Job "A job without its returns." right "jobs.list_job" => 200 JSON "Job";
    "DELETE" "/v1/jobs/{jid}" Kill "Ends a job on the minions that have not returned." => 202 JSON "Killed";
    "GET" "/v1/jobs/{jid}/returns" Returns "The returns of a job, in the order of minions."
        right "jobs.list_job" query ["limit", "after", "failed"] => 200 JSON "Returns";
    "POST" "/v1/preview" Preview "Which minions a job would reach, and which of them the user may command."
        body "Target" => 200 JSON "Preview";
    "GET" "/v1/minions" Minions "Minions, without asking them."
        right "manage.status" query ["limit", "after", "id", "q", "target", "status", "sort"] => 200 JSON "Minions";
    "GET" "/v1/keys" Keys "Keys of minions with their fingerprints."
        right "key.list_all" query ["limit", "after", "id", "q", "state"] => 200 JSON "Keys";
    "POST" "/v1/keys:batch" Keychain "Decides about several keys." right "key.accept_dict" body "Keychain"
        => 200 JSON "Outcomes";
    "POST" "/v1/keys/{id}/accept" Accept "Accepts a key." right "key.accept_dict" body "Fingerprint" => 200 JSON "Key";
    "POST" "/v1/keys/{id}/reject" Reject "Rejects a key." right "key.reject_dict" body "Fingerprint" => 200 JSON "Key";
    "POST" "/v1/keys/{id}/delete" Delete "Deletes a key." right "key.delete_dict" body "Fingerprint" => 200 JSON "Key";
    "GET" "/v1/events" Events "The events that the user may see, as they happen. `Last-Event-ID` goes on behind an event."
        query ["tag", "minion", "jid"] => 200 EVENTS "Event";
    "GET" "/v1/masters" Masters "The masters of the set." right "saltern.masters" => 200 JSON "Masters";
    "GET" "/v1/drift" Drift "In what masters differ." right "saltern.drift" => 200 JSON "Drift";
    "GET" "/v1/drift/{kind}" Drift "What differs in one kind." right "saltern.drift" => 200 JSON "Drift";
}

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
        true => Err(Failure::new(404, "There is nothing at this path")),
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
