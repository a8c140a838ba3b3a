//! `/healthz`, `/readyz` and `/metrics`: what supervisors and Prometheus ask, most of it without a login.

use std::net::IpAddr;
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

/// Returns whether a web server on this host seems to have passed the request on: then anybody may have sent it.
fn is_forwarded(headers: &HeaderMap) -> bool {
    // There are very many names for the address of the client.
    let is_added = |name: &str| {
        matches!(name, "forwarded" | "via")
            || name.starts_with("x-forwarded-")
            || ["-ip", "-for", "-external-address"].iter().any(|end| name.ends_with(end))
    };
    headers.keys().any(|name| is_added(name.as_str())) || !names_this_host(text(headers, "host"))
}

/// Returns whether a client on this host named it so. Whoever asks a web server names that.
fn names_this_host(host: Option<&str>) -> bool {
    let Some(host) = host else { return true };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
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

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn who_was_passed_on_is_not_on_this_host() {
        let forwarded = |name: &'static str, value: &'static str| {
            let headers = [(HeaderName::from_static(name), HeaderValue::from_static(value))];
            is_forwarded(&HeaderMap::from_iter(headers))
        };
        for name in [
            "x-forwarded-proto",
            "x-real-ip",
            "cf-connecting-ip",
            "x-original-forwarded-for",
            "x-envoy-external-address",
        ] {
            assert!(forwarded(name, "192.0.2.1"), "{name}");
        }
        assert!(!forwarded("accept", "text/plain") && !forwarded("user-agent", "Prometheus/2"));
        for host in ["localhost:8000", "LOCALHOST", "127.0.0.1:8000", "[::1]:8000", "[::1]"] {
            assert!(!forwarded("host", host), "{host}");
        }
        for host in ["salt.example:8000", "192.0.2.1", "127.0.0.1.example", ""] {
            assert!(forwarded("host", host), "{host}");
        }
    }
}
