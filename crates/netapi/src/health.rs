//! `/healthz`, `/readyz` and `/metrics`: what supervisors and Prometheus ask, most of it without a login.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{self, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use tokio::time::Instant;

use crate::api::Api;
use crate::cookie;
use crate::exchange::{Peer, text};
use crate::failure::Failure;
use crate::problem::problem;

/// For how long it is known that the master answers, so that many questions cost it one.
const KNOWN: Duration = Duration::from_secs(1);

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub enum Health {
    /// `/healthz`: whether the program answers.
    Alive,
    /// `/readyz`: whether the master answers, and its events arrive.
    Ready,
    /// `/metrics`
    Metrics,
}

/// Answers a question. Supervisors ask all the time, so it is neither logged nor counted.
pub async fn serve(api: Arc<Api>, question: Health, request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return problem(&Failure::new(405, "This path has only: GET"));
    }
    match question {
        Health::Alive => alive(),
        Health::Ready => ready(&api).await,
        Health::Metrics => {
            // The body, of which nothing is read, cannot be shared between threads.
            let (head, _) = request.into_parts();
            metrics(&api, &head).await
        }
    }
}

fn alive() -> Response {
    plain(StatusCode::OK, "text/plain; charset=utf-8", "ok\n".to_owned())
}

async fn ready(api: &Api) -> Response {
    match answers(api).await {
        true => plain(StatusCode::OK, "text/plain; charset=utf-8", "ready\n".to_owned()),
        false => problem(&Failure::no_master()),
    }
}

async fn answers(api: &Api) -> bool {
    if !*api.link.bus.connections().borrow() {
        return false;
    }
    let mut last = api.last_answer.0.lock().await;
    if let Some((at, answers)) = *last
        && at.elapsed() < KNOWN
    {
        return answers;
    }
    let answers = api.link.answers().await;
    *last = Some((Instant::now(), answers));
    answers
}

async fn metrics(api: &Api, head: &Parts) -> Response {
    match may_read(api, head).await {
        Ok(()) => plain(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", api.metrics()),
        Err(failure) => problem(&failure),
    }
}

/// Lets in whoever is on this host or at an address of `metrics_allow`, and users with `@metrics`.
async fn may_read(api: &Api, head: &Parts) -> Result<(), Failure> {
    let address = head.extensions.get::<Peer>().map(|peer| peer.0).ok_or_else(Failure::unexpected)?;
    let named = api.options.metrics_allow.contains(&address);
    if named || (address.is_loopback() && !is_forwarded(&head.headers)) {
        return Ok(());
    }
    let token = text(&head.headers, "x-auth-token").filter(|token| !token.is_empty());
    let cookie = cookie::session_id(&head.headers);
    let caller = api.caller(token, cookie.as_deref(), address).await?.ok_or_else(Failure::no_session)?;
    if !api.is_confirmed(&caller).await? {
        return Err(Failure::no_session());
    }
    match api.sees_metrics(&caller.session) {
        true => Ok(()),
        false => Err(Failure::new(403, "Your list does not grant @metrics")),
    }
}

/// Returns whether a web server on this host has passed the request on: then anybody may have sent it.
fn is_forwarded(headers: &HeaderMap) -> bool {
    let is_added = |name: &str| matches!(name, "forwarded" | "x-real-ip" | "via") || name.starts_with("x-forwarded-");
    headers.keys().any(|name| is_added(name.as_str()))
}

fn plain(status: StatusCode, kind: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
