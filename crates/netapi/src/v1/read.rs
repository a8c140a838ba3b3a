//! The routes that only read.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

use super::{V1Request, json};
use crate::api::Api;
use crate::failure::Failure;
use crate::fleet::{Fields, JobQuery, KeyQuery, MinionQuery, Page};

/// The most returns of a page.
const MOST_RETURNS: usize = 1000;

/// `GET /v1/jobs`
pub async fn jobs(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    let page = request.fleet(api).jobs(&JobQuery::of(&request.query)?).await?;
    listed("jobs", page)
}

/// `GET /v1/jobs/<jid>`
pub async fn job(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    no_query(request)?;
    json(StatusCode::OK, &request.fleet(api).job(request.part(0)).await?)
}

/// `GET /v1/jobs/<jid>/returns`
pub async fn returns(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    let mut fields = Fields::of(&request.query)?;
    let (limit, after) = (fields.limit(MOST_RETURNS)?, fields.take("after"));
    let failed = fields.one_of("failed", &["0", "1"])?.as_deref() == Some("1");
    fields.end()?;
    let page = request.fleet(api).returns(request.part(0), after.as_deref(), limit, failed).await?;
    listed("returns", page)
}

/// `GET /v1/minions`
pub async fn minions(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    let page = request.fleet(api).minions(&MinionQuery::of(&request.query)?).await?;
    listed("minions", page)
}

/// `GET /v1/keys`
pub async fn keys(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    let page = request.fleet(api).keys(&KeyQuery::of(&request.query)?).await?;
    listed("keys", page)
}

/// `GET /v1/masters`
pub async fn masters(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    no_query(request)?;
    json(StatusCode::OK, &request.fleet(api).masters().await?)
}

/// `GET /v1/drift` and `GET /v1/drift/<kind>`
pub async fn drift(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    no_query(request)?;
    let kind = request.parts.first().map(String::as_str);
    json(StatusCode::OK, &request.fleet(api).drift(kind).await?)
}

/// `GET /v1/whoami`
pub async fn whoami(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    no_query(request)?;
    json(StatusCode::OK, &request.fleet(api).whoami().await?)
}

fn no_query(request: &V1Request) -> Result<(), Failure> {
    Fields::of(&request.query)?.end()
}

fn listed<T: Serialize>(name: &str, page: Page<T>) -> Result<Response, Failure> {
    json(StatusCode::OK, &json!({ name: page.items, "next": page.next }))
}
