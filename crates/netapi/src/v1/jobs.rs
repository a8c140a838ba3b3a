//! Jobs that are published and ended.

use std::sync::Arc;

use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderName, StatusCode};
use axum::response::Response;
use serde_json::json as object;
use targeting::TargetType;
use value::{Map, Value, map};

use super::{V1Request, body, json, refused, wait};
use crate::api::{Api, Caller};
use crate::failure::Failure;
use crate::fleet::{Fields, Fleet, PreviewQuery};
use crate::idempotent::{self, Keyed};
use crate::low::{self, Command, Local, Work};
use crate::own_jobs::Owner;

/// The fields that say what a job is.
const JOB: [&str; 5] = ["tgt", "tgt_type", "fun", "arg", "kwarg"];

/// Further fields of a job that is published.
const MORE: [&str; 3] = ["ret", "metadata", "timeout"];

/// The longest wait for returns, in seconds.
const LONGEST_WAIT: u64 = 3600;

/// The function that ends a job.
const KILL: &str = "saltutil.kill_job";

/// `POST /v1/preview`
pub async fn preview(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    let mut wanted = body::object(request, &JOB)?;
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
    json(StatusCode::OK, &request.fleet(api).preview(&query).await?)
}

/// `POST /v1/jobs`
pub async fn publish(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    let mut query = Fields::of(&request.query)?;
    let wait = wait_time(query.take("wait"))?;
    query.end()?;
    let key = idempotent::key(request.headers.get("idempotency-key"))?;
    let known: Vec<&str> = JOB.iter().chain(&MORE).copied().collect();
    let job = job(api, body::object(request, &known)?)?;
    // Before the job: a minion may return before the answer arrives.
    let events = match wait {
        Some(_) => Some(api.link.bus.stream().await?),
        None => None,
    };
    let digest = openssl::sha::sha256(&request.body);
    let (shared, caller) = (api.clone(), request.caller.clone());
    // In a task of its own: a client that closes its connection and tries again gets the same job.
    let publishing = api.spawn(async move {
        let mut minions = None;
        let publish = async |jid: String| {
            let job = published(&shared, &caller, Local { jid, ..job }).await?;
            Ok(job.map(|(jid, ids)| {
                minions = Some(ids);
                jid
            }))
        };
        let (jid, known) = match key {
            Some(key) => {
                let user = Owner { user: caller.session.user.clone(), backend: caller.session.backend.clone() };
                let keyed = Keyed { user, key, digest, jid: shared.link.new_jid() };
                let exists = async |jid: String| shared.link.has_job(&jid).await;
                shared.idempotent.once(keyed, exists, publish).await?
            }
            None => (publish(String::new()).await?, false),
        };
        Ok::<_, Failure>((jid, known, minions))
    });
    let done = publishing.await.map_err(|error| {
        tracing::error!("a job could not be published: {error}");
        Failure::unexpected()
    })?;
    let (jid, known, minions) = match done {
        Ok(done) => done,
        Err(failure) => return Err(refused(api, request, failure, "this job").await),
    };
    let Some(jid) = jid else {
        return json(StatusCode::OK, &object!({ "jid": null, "minions": [] }));
    };
    let minions = match minions {
        Some(minions) => minions,
        None => api.link.expected(&jid).await?,
    };
    let mut response = match (wait, events) {
        (Some(time), Some(events)) => {
            wait::stream(api.clone(), request.caller.session.clone(), (jid.clone(), minions), events, time)
        }
        _ => json(StatusCode::ACCEPTED, &object!({ "jid": jid, "minions": minions }))?,
    };
    let headers = response.headers_mut();
    if let Ok(place) = HeaderValue::from_str(&format!("{}/v1/jobs/{jid}", api.options.prefix)) {
        headers.insert(header::LOCATION, place);
    }
    if known {
        headers.insert(HeaderName::from_static("idempotent-replayed"), HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn wait_time(text: Option<String>) -> Result<Option<std::time::Duration>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let seconds = text.parse().ok().filter(|seconds| (1..=LONGEST_WAIT).contains(seconds));
    let seconds = seconds
        .ok_or_else(|| Failure::bad_request(format!("'wait' must be a number of seconds from 1 to {LONGEST_WAIT}")))?;
    Ok(Some(std::time::Duration::from_secs(seconds)))
}

/// Publishes a job. Returns its id and its minions; `None` if its target means nobody.
async fn published(api: &Api, caller: &Caller, job: Local) -> Result<Option<(String, Vec<String>)>, Failure> {
    let proof = map! { "token" => caller.session.token.as_str() };
    let answer = api.link.run(Command { proof, work: Work::Local(Box::new(job)) }).await?;
    let answer = answer.into_iter().next().unwrap_or_default();
    let Some(jid) = answer.get("jid").and_then(Value::as_str) else { return Ok(None) };
    let ids = answer.get("minions").and_then(Value::as_list).unwrap_or_default();
    Ok(Some((jid.to_owned(), ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())))
}

/// `DELETE /v1/jobs/<jid>`
pub async fn kill(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    Fields::of(&request.query)?.end()?;
    let jid = request.part(0);
    if !wire::Jid::is_valid(jid) {
        return Err(Failure::bad_request("The path has no valid job id"));
    }
    let minions = api.link.missing(jid).await?;
    let (ids, known) = (minions.clone().unwrap_or_default(), minions.is_some());
    let fields = map! { "tgt" => ids.clone(), "tgt_type" => "list", "fun" => KILL, "arg" => vec![Value::from(jid)] };
    // First: whether there is such a job is only for those who may end it.
    let wanted = PreviewQuery {
        target: ids.clone().into(),
        target_type: "list".to_owned(),
        function: Some(KILL.into()),
        arguments: vec![jid.into()],
    };
    if Fleet::of(api, &request.caller.session).preview(&wanted).await?.allowed != Some(true) {
        return Err(Failure::new(403, format!("Your list does not grant {KILL} on the minions of this job")));
    }
    match (known, ids.is_empty()) {
        (false, _) => return Err(Failure::new(404, format!("The job {jid} is not in the job cache"))),
        (true, true) => return Err(Failure::new(409, "All minions of this job have returned")),
        (true, false) => {}
    }
    let killing = match published(api, &request.caller, job(api, fields)?).await {
        Ok(killing) => killing.map(|(jid, _)| jid),
        Err(failure) => return Err(refused(api, request, failure, KILL).await),
    };
    json(StatusCode::ACCEPTED, &object!({ "jid": jid, "killed_by": killing, "minions": ids }))
}

/// Reads what a job is.
fn job(api: &Api, fields: Map) -> Result<Local, Failure> {
    let mut command = fields;
    command.insert("client", "local_async");
    low::check_enabled("local_async", &api.options.clients).map_err(|failure| Failure::new(403, failure.message))?;
    // The token of the session proves the user; this one is not sent.
    let command = low::read(command, Some(""), &api.options.clients, "")?;
    let Work::Local(job) = command.work else { return Err(Failure::unexpected()) };
    // The master would publish nothing and answer as for a target that means nobody.
    if TargetType::from_name(&job.target_type).is_err() {
        let shown = value::escape::brief(&job.target_type, 40);
        return Err(Failure::bad_request(format!("'tgt_type' has the unknown value {shown:?}")));
    }
    Ok(*job)
}
