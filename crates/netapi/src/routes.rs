//! The routes, and what happens to each request before and after its handler.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::any;
use tower_service::Service;

use crate::accept::{Form, data_form, error_form, prefers_page, reads_gzip};
use crate::access_log::AccessLog;
use crate::api::{Api, Caller};
use crate::cookie::session_cookie;
use crate::exchange::{Client, Peer, ReceivedRequest, Reply, Resource, text};
use crate::failure::Failure;
use crate::health::{self, Health};
use crate::incoming::{self, provenance, read_body};
use crate::logins::CLIENT;
use crate::origin::{may_log_in, may_use_cookie};
use crate::{console, handlers, pack, websocket};

/// Returns the router.
pub fn router(api: Arc<Api>, log: AccessLog) -> Router {
    let mut routes = Router::new();
    let options = &api.options;
    let add = |routes: Router<Arc<Api>>, path: &str, resource: Resource| {
        let serve = move |State(api): State<Arc<Api>>, request: Request| serve(api, resource, String::new(), request);
        routes.route(&format!("{}{path}", options.prefix), any(serve))
    };
    let add_below = |routes: Router<Arc<Api>>, path: &str, resource: Resource| {
        let serve = move |State(api): State<Arc<Api>>, Path(rest): Path<String>, request: Request| {
            serve(api, resource, rest, request)
        };
        routes.route(&format!("{}{path}", options.prefix), any(serve))
    };
    // Paths are tidy here, so the root below a prefix has no slash at its end.
    routes = add(routes, if options.prefix.is_empty() { "/" } else { "" }, Resource::Root);
    for (path, resource) in [
        ("/run", Resource::Run),
        ("/token", Resource::Token),
        ("/events", Resource::Events),
        ("/ws", Resource::WebSocket),
        ("/stats", Resource::Stats),
    ] {
        routes = add(routes, path, resource);
    }
    // With any number of parts: whatever follows may be a secret, which no answer repeats.
    routes = add_below(routes, "/ws/{*session}", Resource::WebSocket);
    if options.sessions {
        routes = add(routes, "/login", Resource::Login);
        routes = add(routes, "/logout", Resource::Logout);
        for (path, resource) in [("/minions", Resource::Minions), ("/jobs", Resource::Jobs)] {
            routes = add(routes, path, resource);
            routes = add_below(routes, &format!("{path}/{{id}}"), resource);
        }
    }
    routes = add(routes, "/keys", Resource::Keys);
    routes = add_below(routes, "/keys/{id}", Resource::Keys);
    routes = add(routes, &options.hook, Resource::Hook);
    routes = add_below(routes, &format!("{}/{{*tag}}", options.hook), Resource::Hook);
    if let Some(files) = &options.files {
        routes = add(routes, &files.path, Resource::Static);
        routes = add_below(routes, &format!("{}/{{*file}}", files.path), Resource::Static);
    }
    if let Some(app) = &options.app {
        routes = add(routes, &app.path, Resource::App);
        routes = add_below(routes, &format!("{}/{{*rest}}", app.path), Resource::App);
    }
    if options.favicon.is_some() {
        routes = add(routes, "/favicon.ico", Resource::Favicon);
    }
    let below = options.prefix.len();
    let v1 = move |State(api): State<Arc<Api>>, request: Request| {
        let path = request.uri().path().get(below..).unwrap_or_default().to_owned();
        crate::v1::serve(api, path, request)
    };
    // The bare path, too: whoever asks for `/v1` expects a problem and no page.
    for path in ["/v1", "/v1/{*rest}"] {
        routes = routes.route(&format!("{}{path}", options.prefix), any(v1));
    }
    if options.console {
        let page = |State(api): State<Arc<Api>>, request: Request| console::serve(api, String::new(), request);
        let pages = |State(api): State<Arc<Api>>, Path(rest): Path<String>, request: Request| {
            console::serve(api, rest, request)
        };
        routes = routes.route(&format!("{}/console", options.prefix), any(page));
        routes = routes.route(&format!("{}/console/{{*rest}}", options.prefix), any(pages));
    }
    for (path, question) in [("/healthz", Health::Alive), ("/readyz", Health::Ready), ("/metrics", Health::Metrics)] {
        let serve = move |State(api): State<Arc<Api>>, request: Request| health::serve(api, question, request);
        routes = routes.route(&format!("{}{path}", options.prefix), any(serve));
    }
    let prefix = options.prefix.clone();
    let routes = routes.fallback(not_found).with_state(api);
    // The table of routes is asked after the path has been tidied, which a layer of its own cannot do.
    Router::new().fallback(move |request: Request| {
        let (mut routes, redirect) = (routes.clone(), redirect(&prefix, request.uri()));
        let (log, received) = (log.clone(), log.receive(&request));
        async move {
            let response = match redirect {
                Some(location) => moved(location),
                None => {
                    let Ok(response) = routes.call(tidied(request)).await;
                    response
                }
            };
            if let Some(received) = received {
                log.answered(&received, &response);
            }
            response
        }
    })
}

/// Returns a path without empty parts, as Salt's routes see it. Nothing is decoded.
fn tidy(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

/// Returns where the root without its slash leads to: relative links of a page would lead out of the prefix.
fn redirect(prefix: &str, uri: &Uri) -> Option<HeaderValue> {
    let path = uri.path();
    if prefix.is_empty() || path.ends_with('/') || tidy(path) != prefix {
        return None;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    // Without the name of the host: the client chooses the header from which it would be taken.
    HeaderValue::from_str(&format!("{prefix}/{query}")).ok()
}

fn moved(location: HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(header::LOCATION, location);
    response
}

fn to_console(prefix: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    if let Ok(place) = HeaderValue::from_str(&format!("{prefix}/console/")) {
        headers.insert(header::LOCATION, place);
    }
    // Programs get data at the same address.
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Removes empty parts from the path of a request: `//login/` is `/login`.
fn tidied(mut request: Request) -> Request {
    let path = request.uri().path();
    let tidy = tidy(path);
    if tidy == path || !path.starts_with('/') {
        return request;
    }
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    if let Ok(uri) = Uri::try_from(format!("{tidy}{query}")) {
        *request.uri_mut() = uri;
    }
    request
}

/// Returns whether a browser gets the page `app`, which decides by the path what it shows.
fn wants_page(api: &Api, resource: Option<Resource>, request: &Request) -> bool {
    // Commands are carried out, and a stream of events is never a page.
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let replaced = !resource.is_some_and(|resource| resource.is_file() || resource.is_stream());
    let below = request
        .uri()
        .path()
        .strip_prefix(api.options.prefix.as_str())
        .is_some_and(|path| path.is_empty() || path.starts_with('/'));
    api.options.app.is_some() && reads && replaced && below && prefers_page(text(request.headers(), "accept"))
}

/// Returns whether a browser that asks for the root gets the console: it asks for a page by name, and no page is configured, or
/// its file is missing.
fn wants_console(api: &Api, resource: Resource, request: &Request) -> bool {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let accept = text(request.headers(), "accept").filter(|accept| accept.contains("text/html"));
    let named = accept.is_some() && prefers_page(accept);
    let asked = api.options.console && resource == Resource::Root && reads && named;
    asked && api.options.app.as_ref().is_none_or(|app| !app.file.is_file())
}

async fn not_found(State(api): State<Arc<Api>>, request: Request) -> Response {
    if wants_page(&api, None, &request) {
        return serve(api, Resource::App, String::new(), request).await;
    }
    api.count();
    let form = error_form(text(request.headers(), "accept"));
    let path = request.uri().path();
    // Scanners are noticed by it.
    tracing::info!("{}{} {}: 404", Client::of(&request), request.method(), value::escape::brief(path, 200));
    failed(&Failure::not_found(path), form)
}

async fn serve(api: Arc<Api>, resource: Resource, rest: String, request: Request) -> Response {
    api.count();
    if wants_console(&api, resource, &request) {
        return to_console(&api.options.prefix);
    }
    let began = Instant::now();
    let resource = if wants_page(&api, Some(resource), &request) { Resource::App } else { resource };
    let method = request.method().clone();
    // The id of a session may follow `/ws`.
    let path = match resource {
        Resource::WebSocket => resource.name().to_owned(),
        _ => request.uri().path().to_owned(),
    };
    let errors = error_form(text(request.headers(), "accept"));
    let origin = text(request.headers(), "origin").map(str::to_owned);
    let preflight = method == Method::OPTIONS;
    let mut client = Client::of(&request);
    let mut response = if preflight {
        Response::new(Body::empty())
    } else {
        let answered = answer(&api, resource, rest, request, &mut client).await;
        answered.unwrap_or_else(|failure| failed(&failure, errors))
    };
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(resource.allow()));
    if resource == Resource::App {
        // Programs get data at the same address.
        headers.append(header::VARY, HeaderValue::from_static("Accept"));
    }
    for (name, value) in api.options.cors.headers(origin.as_deref(), preflight) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            // Appended: `Vary` may be there already.
            headers.append(HeaderName::from_static(name), value);
        }
    }
    api.figures.answered(resource.name(), &method, response.status().as_u16(), began.elapsed());
    // The path without its query, in which somebody may have put a secret.
    tracing::info!("{client}{method} {path}: {}", response.status().as_u16());
    response
}

/// Checks a request, reads its body and calls the handler. Notes in `client` who the user is.
async fn answer(
    api: &Arc<Api>,
    resource: Resource,
    rest: String,
    request: Request,
    client: &mut Client,
) -> Result<Response, Failure> {
    let address = request.extensions().get::<Peer>().map(|peer| peer.0).ok_or_else(Failure::unexpected)?;
    if !api.options.serves(&address.to_string()) {
        return Err(Failure::new(403, "Bad IP"));
    }
    if !resource.allows(request.method()) {
        return Err(Failure::new(405, "Specified method is invalid for this resource"));
    }
    if resource == Resource::WebSocket {
        return websocket::open(api, &rest, request).await;
    }
    let accept = text(request.headers(), "accept");
    let form = match data_form(accept) {
        Some(form) => form,
        None if !resource.is_data(request.method()) => Form::Json,
        None => return Err(not_acceptable(accept.unwrap_or_default())),
    };
    check_query(resource, request.uri().query())?;
    // `/run` and `/token` know no sessions: each command has its credentials. Files are for everybody.
    let knows_sessions = !matches!(resource, Resource::Run | Resource::Token) && !resource.is_file();
    let caller = match knows_sessions {
        true => incoming::caller(api, request.headers(), address).await?,
        false => None,
    };
    client.note(caller.as_ref());
    // `GET /minions` asks minions, which is a job.
    let changes = request.method() == Method::POST || resource == Resource::Minions;
    let provenance = provenance(request.headers());
    if changes && caller.as_ref().is_some_and(|caller| caller.by_cookie) && !may_use_cookie(provenance) {
        return Err(Failure::new(403, provenance.reason()));
    }
    if changes && resource == Resource::Login && !may_log_in(provenance, &api.options.cors) {
        return Err(Failure::new(403, "A page of another site may not log in (cors_origin does not name it)"));
    }
    let (parts, body) = request.into_parts();
    let may_be_named = matches!(resource, Resource::Jobs | Resource::Minions | Resource::Keys);
    let rest = match parts.uri.query().filter(|_| rest.is_empty() && may_be_named && parts.method != Method::POST) {
        Some(query) => named_in(resource, query).unwrap_or_default(),
        None => rest,
    };
    let room = api.body_rooms.of(caller.as_ref().map(|caller| &caller.session));
    // Kept as long as the body.
    let (body, _kept) = read_body(&parts.headers, body, api.options.most_body, &room).await?;
    let path = parts.uri.path().to_owned();
    let request = ReceivedRequest { method: parts.method, path, rest, headers: parts.headers, body, caller, address };
    let reply = CLIENT.scope(address, handlers::handle(api, resource, &request)).await?;
    let mut response = packed(api, reply, form, reads_gzip(request.header("accept-encoding"))).await?;
    if let Some(caller) = &request.caller {
        decorate(api, caller, resource, response.headers_mut());
    }
    Ok(response)
}

/// Adds what every answer to a user who has logged in has.
fn decorate(api: &Api, caller: &Caller, resource: Resource, headers: &mut HeaderMap) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("private"));
    if let Some(id) =
        caller.id.as_deref().filter(|_| caller.by_cookie && !matches!(resource, Resource::Login | Resource::Logout))
    {
        let cookie = session_cookie(id, api.now(), api.options.tls.is_some());
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.insert(header::SET_COOKIE, cookie);
        }
    }
}

fn check_query(resource: Resource, query: Option<&str>) -> Result<(), Failure> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(()) };
    match resource {
        // Taken and ignored, as in Salt.
        Resource::Hook => Ok(()),
        // Pages name the version of a file in it, so that browsers read it again after an update.
        Resource::Static | Resource::App | Resource::Favicon => Ok(()),
        Resource::Jobs | Resource::Minions | Resource::Keys if named_in(resource, query).is_some() => Ok(()),
        Resource::Events => Err(Failure::bad_request("There are no parameters: the token belongs in a header")),
        _ => Err(Failure::new(404, "Nothing matches the given URI")),
    }
}

/// Returns the part of the path that a query names in its place, as Salt takes it: `/minions?mid=web1`. Empty if it names none;
/// `None` if the query has other fields.
fn named_in(resource: Resource, query: &str) -> Option<String> {
    let own = if resource == Resource::Jobs { "jid" } else { "mid" };
    let mut named = String::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            name if name == own => named = value.into_owned(),
            "timeout" if resource == Resource::Jobs => {}
            _ => return None,
        }
    }
    Some(named)
}

fn not_acceptable(accept: &str) -> Failure {
    Failure::new(
        406,
        format!(
            "Your client sent this Accept header: {accept}. But this resource only emits these media types: \
             application/json, application/x-yaml."
        ),
    )
}

async fn packed(api: &Api, reply: Reply, form: Form, gzip: bool) -> Result<Response, Failure> {
    let (status, body, kind, more) = match reply {
        Reply::Data(status, value, mut more) => {
            let text = pack::data(&value, form)?;
            // Salt says so, too. A cache must not give the one to clients that want the other.
            more.push((header::VARY, "Accept-Encoding".to_owned()));
            let body = match gzip {
                true => compressed(api, text, &mut more).await?,
                false => Body::from(text),
            };
            (status, body, form.media_type(), more)
        }
        Reply::Stream(body) => {
            let more = vec![(header::CACHE_CONTROL, "no-cache".to_owned())];
            (StatusCode::OK, body, "text/event-stream;charset=utf-8", more)
        }
        Reply::Bytes(kind, bytes, more) => (StatusCode::OK, Body::from(bytes), kind, more),
        Reply::File(file, modified) => {
            let mut more = vec![(header::CONTENT_LENGTH, file.size.to_string())];
            more.extend(modified.map(|time| (header::LAST_MODIFIED, time)));
            let kind = file.kind;
            (StatusCode::OK, file.into_body(), kind, more)
        }
        Reply::Unchanged(time) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            if let Ok(time) = HeaderValue::from_str(&time) {
                response.headers_mut().insert(header::LAST_MODIFIED, time);
            }
            return Ok(response);
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    for (name, value) in more {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    Ok(response)
}

/// Compresses an answer, unless it is short.
async fn compressed(api: &Api, text: String, more: &mut Vec<(HeaderName, String)>) -> Result<Body, Failure> {
    let (text, packed) = api
        .blocking(move || {
            let packed = pack::gzip(&text);
            Ok((text, packed))
        })
        .await?;
    Ok(match packed {
        Some(packed) => {
            more.push((header::CONTENT_ENCODING, "gzip".to_owned()));
            Body::from(packed)
        }
        None => Body::from(text),
    })
}

fn failed(failure: &Failure, form: Form) -> Response {
    let mut response = Response::new(Body::from(pack::error(failure, form)));
    *response.status_mut() = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if failure.status == 429 {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_parts_of_a_path_mean_nothing() {
        let tidied = |uri: &str| {
            let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
            super::tidied(request).uri().to_string()
        };
        for (sent, routed) in [
            ("/", "/"),
            ("//", "/"),
            ("/login", "/login"),
            ("///login", "/login"),
            ("/minions//m1/", "/minions/m1"),
            ("/hook/a/?x=//", "/hook/a?x=//"),
            ("/static/%2e%2e%2f/%2f/x", "/static/%2e%2e%2f/%2f/x"),
            ("/static/..//../x", "/static/../../x"),
            ("*", "*"),
        ] {
            assert_eq!(tidied(sent), routed, "{sent}");
        }
    }

    #[test]
    fn the_root_of_a_prefix_ends_with_a_slash() {
        let to = |prefix: &str, uri: &str| redirect(prefix, &uri.parse().unwrap());
        assert_eq!(to("/salt", "/salt").unwrap(), "/salt/");
        assert_eq!(to("/salt", "http://evil.example//salt?x=1").unwrap(), "/salt/?x=1");
        for (prefix, uri) in [("", "/"), ("/salt", "/salt/"), ("/salt", "/salt/login"), ("/salt", "/"), ("/salt", "/s")]
        {
            assert_eq!(to(prefix, uri), None, "{prefix} {uri}");
        }
    }

    #[test]
    fn queries_are_refused_where_they_mean_nothing() {
        let status = |resource, query| check_query(resource, Some(query)).err().map(|failure| failure.status);
        assert_eq!(status(Resource::Root, "x=1"), Some(404));
        assert_eq!(status(Resource::Jobs, "timeout=3"), None);
        assert_eq!(status(Resource::Jobs, "timeout=3&x=1"), Some(404));
        assert_eq!(status(Resource::Minions, "mid=web1"), None);
        assert_eq!(status(Resource::Keys, "jid=1"), Some(404));
        assert_eq!(named_in(Resource::Jobs, "timeout=3&jid=1%20").as_deref(), Some("1 "));
        assert_eq!(status(Resource::Events, "token=abc"), Some(400));
        assert_eq!(status(Resource::Hook, "x=1"), None);
        assert_eq!(status(Resource::Root, ""), None);
    }
}
