//! The routes with a body.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use value::Map;

use super::{Asked, body, json};
use crate::api::Api;
use crate::failure::Failure;
use crate::fleet::PreviewQuery;
use crate::low::{self, Local, Work};

/// The fields that say what a job is.
const JOB: [&str; 5] = ["tgt", "tgt_type", "fun", "arg", "kwarg"];

/// `POST /v1/preview`
pub async fn preview(api: &Arc<Api>, asked: &Asked) -> Result<Response, Failure> {
    let mut wanted = body::object(asked, &JOB)?;
    let named = wanted.contains_key("fun");
    if !named {
        // The command is read as that of a job, which needs one.
        wanted.insert("fun", "test.ping");
    }
    let job = job(api, wanted)?;
    let query = PreviewQuery {
        target: job.target,
        target_type: job.target_type,
        function: named.then_some(job.function),
        arguments: job.arguments,
    };
    json(StatusCode::OK, &asked.fleet(api).preview(&query).await?)
}

/// Reads what a job is.
fn job(api: &Api, fields: Map) -> Result<Local, Failure> {
    let mut command = fields;
    command.insert("client", "local_async");
    low::check_enabled("local_async", &api.options.clients).map_err(|failure| Failure::new(403, failure.message))?;
    // The token of the session proves the user; this one is not sent.
    let command = low::read(command, Some(""), &api.options.clients, "")?;
    match command.work {
        Work::Local(job) => Ok(*job),
        _ => Err(Failure::unexpected()),
    }
}
