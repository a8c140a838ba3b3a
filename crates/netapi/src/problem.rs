//! Errors as `application/problem+json` (RFC 9457), for programs.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderValue};
use axum::response::Response;

use crate::failure::Failure;

/// Packs an error.
pub fn problem(failure: &Failure) -> Response {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let title = status.canonical_reason().unwrap_or_default();
    let problem = serde_json::json!({
        "type": "about:blank", "title": title, "status": status.as_u16(), "detail": failure.message,
    });
    let mut response = Response::new(Body::from(problem.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    match status {
        StatusCode::UNAUTHORIZED => headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Session")),
        StatusCode::TOO_MANY_REQUESTS => headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10")),
        _ => None,
    };
    response
}
