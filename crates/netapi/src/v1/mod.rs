//! `/v1`: what Salt's interface lacks, such as pages of jobs, keys with their fingerprints, and what masters differ in.
//!
//! `table` lists the routes, from which the description for programs is made too. Answers are JSON, and errors are
//! `application/problem+json` (RFC 9457), whatever the client accepts.

mod body;
mod events;
mod jobs;
mod keys;
mod openapi;
mod read;
mod table;
mod wait;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;

use crate::api::{Api, Caller};
use crate::cookie;
use crate::exchange::{Client, Peer, text};
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::incoming;
use crate::logins::CLIENT;
use crate::origin::may_use_cookie;
use crate::problem::problem;
use keys::Decision;
use table::{Found, Operation};

/// A request that has a route, after its body has arrived.
pub struct V1Request {
    /// The rest of the path, by the names in the table.
    pub parts: Vec<String>,
    /// The query.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Who sends it.
    pub caller: Caller,
}

impl V1Request {
    /// Returns a part of the path.
    pub fn part(&self, place: usize) -> &str {
        self.parts.get(place).map_or("", String::as_str)
    }

    /// Returns the fleet as the user may see it.
    pub fn fleet<'a>(&'a self, api: &'a Api) -> Fleet<'a> {
        Fleet::of(api, &self.caller.session)
    }
}

/// Answers a request below `/v1`. `path` is what follows.
pub async fn serve(api: Arc<Api>, path: String, request: Request) -> Response {
    api.count();
    let began = Instant::now();
    let (method, origin) = (request.method().clone(), text(request.headers(), "origin").map(str::to_owned));
    let preflight = method == Method::OPTIONS;
    let found = table::find(&method, &path);
    let shown = found.as_ref().map_or("/v1", |found| found.route.path);
    let mut client = Client::of(&request);
    let mut response = match &found {
        _ if preflight => Response::new(Body::empty()),
        Ok(found) => answer(&api, found, request, &mut client).await.unwrap_or_else(|failure| problem(&failure)),
        Err(failure) => problem(failure),
    };
    let headers = response.headers_mut();
    for (name, value) in api.options.cors.headers(origin.as_deref(), preflight) {
        // Jobs are ended with DELETE.
        let value = if name == "access-control-allow-methods" { "DELETE, GET, POST".to_owned() } else { value };
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    api.figures.answered(shown, &method, response.status().as_u16(), began.elapsed());
    // Not the path itself: a part of it is a text of the client.
    tracing::info!("{client}{method} {shown}: {}", response.status().as_u16());
    response
}

/// Checks a request, reads its body and calls the handler. Notes in `client` who the user is.
async fn answer(api: &Arc<Api>, found: &Found, request: Request, client: &mut Client) -> Result<Response, Failure> {
    let address = request.extensions().get::<Peer>().map(|peer| peer.0).ok_or_else(Failure::unexpected)?;
    if !api.options.serves(&address.to_string()) {
        return Err(Failure::new(403, "Bad IP"));
    }
    let token = text(request.headers(), "x-auth-token").filter(|token| !token.is_empty());
    let cookie = cookie::session_id(request.headers());
    let caller = api.caller(token, cookie.as_deref(), address).await?.ok_or_else(Failure::no_session)?;
    client.note(Some(&caller));
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let provenance = incoming::provenance(request.headers());
    if changes && caller.by_cookie && !may_use_cookie(provenance) {
        return Err(Failure::new(403, provenance.reason()));
    }
    let (head, body) = request.into_parts();
    let room = api.body_rooms.of(Some(&caller.session));
    let (body, _kept) = incoming::read_body(&head.headers, body, api.options.most_body, &room).await?;
    let query = head.uri.query().unwrap_or_default().to_owned();
    let request = V1Request { parts: found.parts.clone(), query, headers: head.headers, body, caller };
    let mut response = CLIENT.scope(address, handle(api, found.route.operation, &request)).await?;
    let headers = response.headers_mut();
    // What a user may see is for nobody else.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn handle(api: &Arc<Api>, operation: Operation, request: &V1Request) -> Result<Response, Failure> {
    match operation {
        Operation::Jobs => read::jobs(api, request).await,
        Operation::Job => read::job(api, request).await,
        Operation::Returns => read::returns(api, request).await,
        Operation::Minions => read::minions(api, request).await,
        Operation::Keys => read::keys(api, request).await,
        Operation::Masters => read::masters(api, request).await,
        Operation::Drift => read::drift(api, request).await,
        Operation::Whoami => read::whoami(api, request).await,
        Operation::Preview => jobs::preview(api, request).await,
        Operation::Publish => jobs::publish(api, request).await,
        Operation::Kill => jobs::kill(api, request).await,
        Operation::Accept => keys::decide(api, request, Decision::Accept).await,
        Operation::Reject => keys::decide(api, request, Decision::Reject).await,
        Operation::Delete => keys::decide(api, request, Decision::Delete).await,
        Operation::OpenApi => json(StatusCode::OK, &openapi::description(&api.options.prefix)),
        Operation::Events => events::stream(api, request).await,
        Operation::Keychain => keys::batch(api, request).await,
    }
}

/// Says why the master has refused what a user wanted: their list does not grant it, or their token does not count any more. The
/// master itself has one answer for both.
async fn refused(api: &Api, request: &V1Request, failure: Failure, what: &str) -> Failure {
    if failure.status != 401 {
        return failure;
    }
    match api.is_confirmed(&request.caller).await {
        Ok(true) => Failure::new(403, format!("Your list does not grant {what}")),
        Ok(false) => Failure::no_session(),
        Err(failure) => failure,
    }
}

/// Packs an answer.
///
/// # Errors
/// If the data is nested too deep.
pub fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Failure> {
    let packed = serde_json::to_vec(value).map_err(|error| {
        tracing::error!("failed to pack an answer: {error}");
        Failure::unexpected()
    })?;
    let mut response = Response::new(Body::from(packed));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
